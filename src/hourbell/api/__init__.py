"""The HTTP server and its REST API. It imports neither the store nor the engine: the caller passes in what it needs."""
