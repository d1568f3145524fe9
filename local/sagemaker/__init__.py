"""Amazon SageMaker endpoints on a laptop: control plane, data plane, capture, metrics.

As AWS: parameters are held to botocore's model; statuses take time and pass through Creating, Updating, RollingBack
and Deleting; a deployment shifts traffic in the steps of its policy, bakes, and goes back when an alarm says so;
weights and counts survive an update when retained; requests choose a variant by weight or by name; a container's
error is a ModelError; captured records, their keys, metric names, units and dimensions.

Not as AWS: counts are numbers, one process serves a variant; no serverless or multi-model hosting, no permissions.
What is missing is refused by name.

`transitions` holds the rules, pure; `fleet` does what they decide; `control` and `runtime_plane` speak to callers.
"""
