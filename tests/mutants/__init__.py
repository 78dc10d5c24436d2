"""Safeguards taken out one by one, in a copy, to see that the tests notice: `make mutants`."""
