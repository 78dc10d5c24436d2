"""Channels: they deliver notifications. One module for each type; `target.py` is the target whose runs they are."""
