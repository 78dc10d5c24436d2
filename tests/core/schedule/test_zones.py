"""Time zones are read by names of the tzdata package, and by nothing else."""

from datetime import UTC, datetime

import pytest

from hourbell.core.schedule.zones import load_zone, local_time_at


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../zones", "Europe", "Europe/../UTC", "utc", "UTC\0", "Europe/Paris\n", "../" * 20 + "etc/passwd"],
)
def test_an_invalid_zone_name_opens_no_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load_zone("UTC")  # the list of names is read
    monkeypatch.setattr("hourbell.core.schedule.zones.get_data", lambda *_: pytest.fail("a file was opened"))

    with pytest.raises(ValueError, match="unknown time zone"):
        load_zone(name)
    with pytest.raises(ValueError, match="unknown time zone"):
        local_time_at(name, datetime(2026, 3, 2, tzinfo=UTC))
