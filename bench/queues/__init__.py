"""The peers that work off a queue, each in the configuration its documentation recommends for many small jobs."""
