"""What a user may ask for: the only door to jobs, runs and their secrets."""
