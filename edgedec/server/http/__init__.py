"""The ASGI application and its server: routes, key, limits, streams, logs, metrics, signals."""
