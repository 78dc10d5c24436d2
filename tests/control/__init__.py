"""Tests of the operations for users."""
