"""`hourbell run`: list, watch, replay, cancel and discard runs."""
