"""Times as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from hourbell.cli.shared.times import Direction, describe_time, parse_length, parse_time, shown

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
        ("2026-03-08T02:30:00.5Z", "UTC", datetime(2026, 3, 8, 2, 30, 0, 500_000, tzinfo=UTC)),
        ("2026-03-08T02:30:00.668586+05:30", "UTC", datetime(2026, 3, 7, 21, 0, 0, 668_586, tzinfo=UTC)),
        ("2026-03-08", "UTC", datetime(2026, 3, 8, tzinfo=UTC)),
        ("tomorrow 9am", "UTC", datetime(2026, 3, 9, 9, tzinfo=UTC)),
        ("Tomorrow  9:30 PM", "UTC", datetime(2026, 3, 9, 21, 30, tzinfo=UTC)),
        ("yesterday noon", "UTC", datetime(2026, 3, 7, 12, tzinfo=UTC)),
        ("today 12am", "UTC", datetime(2026, 3, 8, tzinfo=UTC)),
        ("18:00", "UTC", datetime(2026, 3, 8, 18, tzinfo=UTC)),
        ("in 2h", "UTC", datetime(2026, 3, 8, 5, tzinfo=UTC)),
        ("2 days ago", "UTC", datetime(2026, 3, 6, 3, tzinfo=UTC)),
        ("2h ago", "UTC", datetime(2026, 3, 8, 1, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_its_zone(text: str, zone: str, instant: datetime) -> None:
    assert parse_time(text, NOW, zone) == instant


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [  # it is Sunday, 03:00
        ("18:00", datetime(2026, 3, 7, 18, tzinfo=UTC), datetime(2026, 3, 8, 18, tzinfo=UTC)),
        ("2:00", datetime(2026, 3, 8, 2, tzinfo=UTC), datetime(2026, 3, 9, 2, tzinfo=UTC)),
        ("03:00", NOW, datetime(2026, 3, 9, 3, tzinfo=UTC)),
        ("noon", datetime(2026, 3, 7, 12, tzinfo=UTC), datetime(2026, 3, 8, 12, tzinfo=UTC)),
        ("midnight", datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC)),
        ("friday 09:00", datetime(2026, 3, 6, 9, tzinfo=UTC), datetime(2026, 3, 13, 9, tzinfo=UTC)),
        ("sun 9am", datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 8, 9, tzinfo=UTC)),
        ("Sunday", datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 3, 15, tzinfo=UTC)),
        ("2 hours", datetime(2026, 3, 8, 1, tzinfo=UTC), datetime(2026, 3, 8, 5, tzinfo=UTC)),
        ("90min", datetime(2026, 3, 8, 1, 30, tzinfo=UTC), datetime(2026, 3, 8, 4, 30, tzinfo=UTC)),
        ("1 day", datetime(2026, 3, 7, 3, tzinfo=UTC), datetime(2026, 3, 9, 3, tzinfo=UTC)),
        ("1 day, 2 hours", datetime(2026, 3, 7, 1, tzinfo=UTC), datetime(2026, 3, 9, 5, tzinfo=UTC)),
    ],
)
def test_a_bare_duration_is_past_or_future_depending_on_the_option(
    text: str, before: datetime, after: datetime
) -> None:
    assert parse_time(text, NOW, "UTC", "ago") == before
    assert parse_time(text, NOW, "UTC", "ahead") == after


def test_a_time_of_day_is_in_the_given_zone() -> None:
    assert parse_time("18:00", NOW, "America/New_York", "ahead") == datetime(2026, 3, 8, 22, tzinfo=UTC)
    assert parse_time("18:00", NOW, "America/New_York", "ago") == datetime(2026, 3, 7, 23, tzinfo=UTC)


@pytest.mark.parametrize(("bare", "other"), [("ago", "tomorrow"), ("ahead", "ago")])
def test_an_error_suggests_only_forms_that_the_option_accepts(bare: Direction, other: str) -> None:
    with pytest.raises(ValueError, match="18:00") as caught:
        parse_time("soon", NOW, "UTC", bare)
    assert other not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "later",
        "-2x",
        "2026-13-01",
        "tomorrow 25:00",
        "12",
        "-",
        "2026-03-08T",
        "13pm",
        "0am",
        "friday",
        "in",
        "ago",
    ],
)
def test_an_invalid_time_is_refused_with_suggestions(text: str) -> None:
    with pytest.raises(ValueError, match="tomorrow 09:00"):
        parse_time(text, NOW, "UTC")


@pytest.mark.parametrize("text", ["+999999999d", "9999-12-31", "1969-12-31T00:00:00Z"])
def test_a_time_beyond_the_calendar_is_reported_as_such(text: str) -> None:
    with pytest.raises(ValueError, match=r"is out of range; write a time of the years 1970 to 2199$"):
        parse_time(text, NOW, "UTC")


@pytest.mark.parametrize(("bare", "hour"), [("ago", 1), ("ahead", 5)])
def test_a_duration_without_a_sign_means_what_the_option_says(bare: Direction, hour: int) -> None:
    assert parse_time("2h", NOW, "UTC", bare) == datetime(2026, 3, 8, hour, tzinfo=UTC)
    assert parse_time("+2h", NOW, "UTC", bare) == datetime(2026, 3, 8, 5, tzinfo=UTC)
    assert parse_time("-2h", NOW, "UTC", bare) == datetime(2026, 3, 8, 1, tzinfo=UTC)


def test_a_duration_without_a_sign_is_no_time_elsewhere() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time("2h", NOW, "UTC")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2h30m", timedelta(hours=2, minutes=30)),
        (" 1d ", timedelta(days=1)),
        ("2 hours", timedelta(hours=2)),
        ("90 min", timedelta(minutes=90)),
        ("1 Hour 30 minutes", timedelta(minutes=90)),
    ],
)
def test_a_length_is_read(text: str, length: timedelta) -> None:
    assert parse_length(text) == length


@pytest.mark.parametrize("text", ["", "0s", "2", "-2h", "2x", "1h2d", "999999999w", "1 2h", "2 months"])
def test_an_invalid_duration_is_refused_with_a_suggestion(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 15m, 2h30m or 1d"):
        parse_length(text)


def test_a_time_is_shown_as_local_time() -> None:
    assert shown(NOW, "UTC") == "2026-03-08 03:00:00"
    assert shown(NOW, "America/New_York") == "2026-03-07 22:00:00 -05:00"
    assert shown(NOW, "../../Of/A/Hostile/Server") == "2026-03-08 03:00:00 +00:00"
    assert shown(None, "UTC") == ""
    assert describe_time(NOW, "UTC") == "2026-03-08T03:00:00Z"
    assert describe_time(NOW, "Asia/Kolkata") == "2026-03-08T03:00:00Z (2026-03-08 08:30:00 +05:30 in Asia/Kolkata)"
