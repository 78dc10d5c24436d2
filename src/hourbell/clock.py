"""The only place that reads a clock."""

from datetime import UTC, datetime


def now() -> datetime:
    """This machine's time."""
    return datetime.now(UTC)
