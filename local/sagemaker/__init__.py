"""Amazon SageMaker real-time endpoints on a laptop: control plane, data plane, capture, metrics.

As AWS: parameters are held to botocore's model; statuses Creating, Updating, InService, Failed with a reason; weights
and counts survive an update when retained; requests choose a variant by weight or by name; a container's error is a
ModelError; captured records, their keys, metric names, units and dimensions.

Not as AWS: an update moves all traffic at once when the new processes are ready, whatever DeploymentConfig says (it is
kept and described); counts are numbers, one process serves a variant; no shadow, serverless, asynchronous or
multi-model hosting, no streams, no permissions. What is missing is refused by name.
"""
