"""Alerts as pure functions: policies, incidents, messages, and what to say when."""
