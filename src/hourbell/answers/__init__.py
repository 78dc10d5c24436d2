"""Typed answers of the REST API: rendered by the server, described by OpenAPI and read by the client."""
