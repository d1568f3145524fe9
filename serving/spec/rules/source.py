"""Pages that several rules rest on."""

ENDPOINT_API = "AWS API_CreateEndpointConfig"
VARIANT_API = "AWS API_ProductionVariant"
COMPONENT_API = "AWS API_InferenceComponentSpecification"
SCALING_API = "Application Auto Scaling API_PutScalingPolicy"
ALARM_API = "AWS API_PutMetricAlarm"
ZERO_GUIDE = "AWS endpoint-auto-scaling-zero-instances"
ASYNC_GUIDE = "AWS async-inference-autoscale"
