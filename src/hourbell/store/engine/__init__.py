"""Values that the engine's verbs of both databases share: due jobs, planned rows, parameters."""
