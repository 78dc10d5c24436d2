"""Roles, tokens, signatures and the audit chain."""
