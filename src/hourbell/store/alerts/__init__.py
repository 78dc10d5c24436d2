"""Incidents, alert policies and channels in the store."""
