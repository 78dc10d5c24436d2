"""Targets: the things a run calls. A target makes one attempt and returns its outcome.

A target never retries and never touches the store.
"""
