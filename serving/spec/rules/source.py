"""Pages that several rules rest on."""

ENDPOINT_API = "AWS API_CreateEndpointConfig"
