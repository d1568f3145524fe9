"""Amazon SageMaker endpoints on a laptop: control plane, data plane, capture, metrics.

As AWS: parameters are held to botocore's model; statuses take time and pass through Creating, Updating, RollingBack
and Deleting; a deployment shifts traffic in the steps of its policy, bakes, and goes back when an alarm says so;
weights and counts survive an update when retained; requests choose a variant by weight or by name, a process by the
variant's routing; streams, errors, sessions; captured records, their keys, metric names, units and dimensions;
asynchronous requests wait through a restart.

Not as AWS: counts are numbers, one process serves a variant unless more are allowed; no serverless or multi-model
hosting, no permissions. What is missing is refused by name.

`transitions` holds the rules of endpoints, pure; `fleet` and `copies` run what they decide; `control` and `components`
answer the API. Of the runtime API, `targets` says who answers a call, `containers` asks, and `runtime_plane`,
`stream_plane` and `async_plane` speak to callers; `queues` works off the `backlog`.
"""
