"""Webhooks: one signed request per attempt, never a hidden second one, never to a forbidden address."""
