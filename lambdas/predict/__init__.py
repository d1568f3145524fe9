"""The prediction API: one service, an HTTP API shell (`handler`) and an ASGI shell (`asgi`)."""
