"""Webhooks: one signed request for each attempt, never a hidden second one, never to a forbidden address."""
