"""The faults of the campaign, one to a module. Each runs real processes and returns its verdict."""
