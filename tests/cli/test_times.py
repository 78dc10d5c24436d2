"""Times as people write them."""

from datetime import UTC, datetime

import pytest

from hourbell.cli.times import parse_time

NOW = datetime(2026, 3, 8, 3, 0, tzinfo=UTC)  # still 7 March in New York


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("now", "UTC", NOW),
        ("-2h", "UTC", datetime(2026, 3, 8, 1, tzinfo=UTC)),
        ("+1d", "UTC", datetime(2026, 3, 9, 3, tzinfo=UTC)),
        ("-2h30m", "UTC", datetime(2026, 3, 8, 0, 30, tzinfo=UTC)),
        ("tomorrow 09:00", "UTC", datetime(2026, 3, 9, 9, tzinfo=UTC)),
        ("tomorrow 09:00", "America/New_York", datetime(2026, 3, 8, 13, tzinfo=UTC)),
        ("today", "America/New_York", datetime(2026, 3, 7, 5, tzinfo=UTC)),
        ("yesterday 23:59", "UTC", datetime(2026, 3, 7, 23, 59, tzinfo=UTC)),
        ("2026-03-08T02:30", "America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
        ("2026-03-08T02:30:00+05:30", "America/New_York", datetime(2026, 3, 7, 21, tzinfo=UTC)),
        ("2026-03-08", "UTC", datetime(2026, 3, 8, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_its_zone(text: str, zone: str, instant: datetime) -> None:
    assert parse_time(text, NOW, zone) == instant


@pytest.mark.parametrize("text", ["", "later", "-2x", "2026-13-01", "tomorrow 25:00", "12", "-", "2026-03-08T"])
def test_what_is_not_a_time_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(ValueError, match="tomorrow 09:00"):
        parse_time(text, NOW, "UTC")


def test_a_distance_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time("+999999999d", NOW, "UTC")
