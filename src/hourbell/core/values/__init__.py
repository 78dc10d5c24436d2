"""Readers and writers for single values: durations, times, JSON, URLs, networks and ids."""
