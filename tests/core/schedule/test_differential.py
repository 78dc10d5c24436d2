"""Against cronsim and croniter: agreement where dialect and rule agree, and a table of where they do not."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from croniter import CroniterBadDateError, CroniterError, croniter
from cronsim import CronSim, CronSimError
from hypothesis import assume, given
from hypothesis import strategies as st

from hourbell.core.schedule import Schedule, ScheduleError
from tests.core.schedule.strategies import SAMPLE_ZONES, examples, instants, sample_transitions
from tests.core.schedule.wall_clock import wall_zone

REFUSED = "refused"
NEVER = "never"


def by_hourbell(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    schedule = Schedule.parse(expression, zone)
    at: datetime | None = after
    while (at := schedule.next(at)) is not None:
        yield at


def by_cronsim(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    for at in CronSim(expression, after.astimezone(wall_zone(zone))):
        yield at.astimezone(UTC)


def by_croniter(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    local = after.astimezone(wall_zone(zone))
    runs = croniter(expression, local, ret_type=datetime, second_at_beginning=True)
    while True:
        yield runs.get_next().astimezone(UTC)


PEERS = {"cronsim": by_cronsim, "croniter": by_croniter}


def _ranges(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    """From below to above: croniter reads `N-N` as the whole field."""
    return st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted).filter(lambda pair: pair[0] < pair[1])


def _field(low: int, high: int, *, may_step: bool = True, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    ranges = _ranges(low, high).map(lambda pair: f"{pair[0]}-{pair[1]}")
    numbers = st.one_of(st.integers(low, high).map(str), *([st.sampled_from(names)] if names else []))
    items = st.one_of(numbers, ranges, st.builds("{}/{}".format, ranges, st.integers(1, 9)))
    plain = [st.just("*"), items, st.lists(items, min_size=2, max_size=3).map(",".join)]
    return st.one_of(*plain, st.builds("*/{}".format, st.integers(2, high))) if may_step else st.one_of(*plain)


_MONTH_NAMES = ("JAN", "apr", "Dec")
_WEEKDAY_NAMES = ("MON", "wed", "Fri")
_clock = st.one_of(
    st.tuples(_field(0, 59), _field(0, 23)).map(" ".join),
    st.tuples(_field(0, 59), _field(0, 59), _field(0, 23)).map(" ".join),
)
_both_peers = st.tuples(
    _clock,
    _field(1, 31, may_step=False),
    _field(1, 12, names=_MONTH_NAMES),
    _field(0, 6, may_step=False, names=_WEEKDAY_NAMES),
).map(" ".join)
_cronsim_only = st.tuples(
    _clock,
    st.one_of(st.sampled_from(["*", "L", "LW", "1,L"]), _field(1, 31, may_step=False)),
    _field(1, 12, names=_MONTH_NAMES),
    st.sampled_from(["*", "5L", "0L", "1#1", "FRI#5", "2#3,4L", "3,4#2"]),
).map(" ".join)
_croniter_only = st.tuples(
    _clock,
    st.one_of(st.sampled_from(["*/2", "*/5", "?", "L", "1W", "15W", "31W"]), _field(1, 31)),
    _field(1, 12, names=_MONTH_NAMES),
    st.one_of(st.just("*"), st.sampled_from(["*/2", "?", "FRI-SUN", "1"])),
).map(" ".join)


def assert_agreement(peer: str, expression: str, zone: str, after: datetime, before: datetime) -> None:
    ours = [at for at in islice(by_hourbell(expression, zone, after), 4) if at < before]
    theirs = [at for at in islice(PEERS[peer](expression, zone, after), len(ours)) if at < before]

    assert ours == theirs


def _end_of_search(after: datetime) -> datetime:
    return after + timedelta(days=365 * 12)


@examples(200)
@given(st.one_of(_both_peers, _cronsim_only), instants(2000, 2030))
def test_cronsim_agrees_in_utc(expression: str, after: datetime) -> None:
    schedule = Schedule.parse(expression)
    try:
        CronSim(expression, after)
    except CronSimError:  # it refuses dates that never come
        assert schedule.never_fires
        assume(False)
    assert_agreement("cronsim", expression, "UTC", after, _end_of_search(after))


@examples(150)
@given(st.one_of(_both_peers, _croniter_only), instants(2000, 2030))
def test_croniter_agrees_in_utc(expression: str, after: datetime) -> None:
    if Schedule.parse(expression).never_fires:
        with pytest.raises(CroniterBadDateError):
            next(by_croniter(expression, "UTC", after))
    else:
        assume(not _has_dead_date(expression))
        assert_agreement("croniter", expression, "UTC", after, _end_of_search(after))


def _has_dead_date(expression: str) -> bool:
    """Return True if only the weekday makes the schedule fire; croniter finds nothing then, as the table shows."""
    *others, _weekday = expression.split()
    return Schedule.parse(" ".join([*others, "*"])).never_fires


@st.composite
def _quiet_instants(draw: st.DrawFn) -> tuple[str, datetime, datetime]:
    """A zone, an instant days after one transition, and the end of what lies days before the next."""
    zone = draw(st.sampled_from(SAMPLE_ZONES))
    changes = [change.at for change in sample_transitions(zone) if change.at.year >= 2000]
    pairs = [pair for pair in pairwise(changes) if pair[1] - pair[0] > timedelta(days=40)]
    assume(pairs)
    begins, ends = draw(st.sampled_from(pairs))
    after = begins + timedelta(days=3, minutes=draw(st.integers(0, 40_000)))
    return zone, after, ends - timedelta(days=3)


@pytest.mark.parametrize("peer", PEERS)
@examples(150)
@given(_both_peers, _quiet_instants())
def test_peers_agree_in_zones_away_from_transitions(
    peer: str, expression: str, quiet: tuple[str, datetime, datetime]
) -> None:
    zone, after, before = quiet
    schedule = Schedule.parse(expression, zone)
    assume((schedule.next(after) or before) < before)

    assert_agreement(peer, expression, zone, after, before)


@dataclass(frozen=True)
class Disagreement:
    name: str
    reason: str
    peer: str
    expression: str
    ours: str  # the first runs in UTC, or how it ends
    theirs: str
    after: str = "2026-01-01T00:00"
    zone: str = "UTC"


NEW_YORK, LORD_HOWE, APIA = "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"
DISAGREEMENTS = [
    Disagreement(
        "cronsim answers with the past",
        "asked from the second pass of a repeated hour, it gives the first pass; next is strictly after",
        "cronsim",
        "10 1 * * *",
        "2026-11-02T06:10",
        "2026-11-01T05:10",
        "2026-11-01T06:05",
        NEW_YORK,
    ),
    Disagreement(
        "cronsim loses a run after a half-hour fold",
        "02:00 exists, once, though the clock repeated 01:30 to 02:00 before it",
        "cronsim",
        "0 */2 * * *",
        "2026-04-04T13:00 2026-04-04T15:30",
        "2026-04-04T13:00 2026-04-04T17:30",
        "2026-04-04T11:40",
        LORD_HOWE,
    ),
    Disagreement(
        "cronsim loses a run after a half-hour gap",
        "02:40 exists, though the clock skipped 02:00 to 02:30",
        "cronsim",
        "40 * * * *",
        "2026-10-03T15:10 2026-10-03T15:40",
        "2026-10-03T15:10 2026-10-03T16:40",
        "2026-10-03T14:20",
        LORD_HOWE,
    ),
    Disagreement(
        "cronsim runs on a date that does not exist",
        "a local date that is lost has no occurrences",
        "cronsim",
        "0 9 30 12 *",
        "2012-12-29T19:00",
        "2011-12-30T10:00 2012-12-29T19:00",
        "2011-12-29T20:00",
        APIA,
    ),
    Disagreement(
        "cronsim reads a starred day field as AND",
        "only a bare * is unrestricted; Debian's cron, like cronsim, takes any field that starts with *",
        "cronsim",
        "0 0 */2 * 1",
        "2026-01-03T00:00 2026-01-05T00:00",
        "2026-01-05T00:00 2026-01-19T00:00",
    ),
    Disagreement(
        "cronsim reads a starred weekday as AND",
        "as above, in the other field",
        "cronsim",
        "0 0 1 * */2",
        "2026-01-03T00:00 2026-01-04T00:00",
        "2026-02-01T00:00 2026-03-01T00:00",
    ),
    Disagreement(
        "cronsim steps from a single value",
        "a step needs '*' or a range",
        "cronsim",
        "5/15 * * * *",
        REFUSED,
        "2026-01-01T00:05 2026-01-01T00:20",
    ),
    Disagreement(
        "cronsim has no Sunday at the end of a range of names",
        "FRI-SUN does not run backwards: Sunday is 7 as well",
        "cronsim",
        "0 0 * * FRI-SUN",
        "2026-01-02T00:00 2026-01-03T00:00 2026-01-04T00:00",
        REFUSED,
    ),
    Disagreement(
        "cronsim refuses a date that never comes",
        "the library parses it and says that it never fires",
        "cronsim",
        "0 0 31 2 *",
        NEVER,
        REFUSED,
    ),
    Disagreement(
        "cronsim takes a lower-case L",
        "L is upper case, with a hint",
        "cronsim",
        "0 0 l * *",
        REFUSED,
        "2026-01-31T00:00",
    ),
    Disagreement("cronsim has no L-n", "an extension of ours", "cronsim", "0 0 L-3 * *", "2026-01-28T00:00", REFUSED),
    Disagreement("cronsim has no nW", "an extension of ours", "cronsim", "0 0 15W * *", "2026-01-15T00:00", REFUSED),
    Disagreement("cronsim has no d#L", "OCPS has it", "cronsim", "0 0 * * 5#L", "2026-01-30T00:00", REFUSED),
    Disagreement("cronsim has no ?", "OCPS has it", "cronsim", "0 0 ? * 1", "2026-01-05T00:00", REFUSED),
    Disagreement("cronsim has no +", "OCPS has it", "cronsim", "0 0 13 * +5", "2026-02-13T00:00", REFUSED),
    Disagreement("cronsim has no year", "OCPS has it", "cronsim", "0 0 9 * * 1 2027", "2027-01-04T09:00", REFUSED),
    Disagreement("cronsim has no nicknames", "OCPS has them", "cronsim", "@hourly", "2026-01-01T01:00", REFUSED),
    Disagreement(
        "croniter runs fixed times twice in a fold",
        "a fixed time fires once, on the first pass",
        "croniter",
        "30 1 * * *",
        "2026-11-01T05:30 2026-11-02T06:30",
        "2026-11-01T05:30 2026-11-01T06:30",
        "2026-11-01T00:00",
        NEW_YORK,
    ),
    Disagreement(
        "croniter runs a periodic schedule for a gap",
        "a periodic schedule fires at readings that exist, and the clock never read 02:00",
        "croniter",
        "0 */2 * * *",
        "2026-03-08T05:00 2026-03-08T08:00",
        "2026-03-08T05:00 2026-03-08T07:00 2026-03-08T08:00",
        "2026-03-08T04:00",
        NEW_YORK,
    ),
    Disagreement(
        "croniter runs an hourly schedule off the hour",
        "as above: it fires at 02:30 for the 02:00 that a half-hour gap skipped",
        "croniter",
        "0 * * * *",
        "2026-10-03T16:00",
        "2026-10-03T15:30 2026-10-03T16:00",
        "2026-10-03T14:40",
        LORD_HOWE,
    ),
    Disagreement(
        "croniter runs on a date that does not exist",
        "a local date that is lost has no occurrences",
        "croniter",
        "0 9 30 12 *",
        "2012-12-29T19:00",
        "2011-12-30T10:00 2012-12-29T19:00",
        "2011-12-29T20:00",
        APIA,
    ),
    Disagreement(
        "croniter reads N-N as the whole field",
        "N-N is one value",
        "croniter",
        "5-5 * * * *",
        "2026-01-01T00:05 2026-01-01T01:05",
        "2026-01-01T00:01 2026-01-01T00:02",
    ),
    Disagreement(
        "croniter wraps around",
        "22-2 runs backwards; write 22-23,0-2",
        "croniter",
        "0 22-2 * * *",
        REFUSED,
        "2026-01-01T01:00 2026-01-01T02:00 2026-01-01T22:00",
    ),
    Disagreement(
        "croniter steps from a single value",
        "a step needs '*' or a range",
        "croniter",
        "5/15 * * * *",
        REFUSED,
        "2026-01-01T00:05 2026-01-01T00:20",
    ),
    Disagreement(
        "croniter wants date and nth weekday together",
        "two restricted day fields are OR, # or not",
        "croniter",
        "0 0 29 2 1#5",
        "2028-02-29T00:00",
        "2044-02-29T00:00",
    ),
    Disagreement(
        "croniter takes a list with a star for a star",
        "only a bare * is unrestricted, so the date lets every day through",
        "croniter",
        "0 0 *,5 * 1",
        "2026-01-02T00:00 2026-01-03T00:00",
        "2026-01-05T00:00 2026-01-12T00:00",
    ),
    Disagreement(
        "croniter forgets the weekday beside a dead date",
        "either field may match, and Mondays come in February",
        "croniter",
        "0 0 30 2 1",
        "2026-02-02T00:00 2026-02-09T00:00",
        REFUSED,
    ),
    Disagreement(
        "croniter takes a lower-case L",
        "L is upper case, with a hint",
        "croniter",
        "0 0 l * *",
        REFUSED,
        "2026-01-31T00:00",
    ),
    Disagreement(
        "croniter does not mix plain and nth weekdays",
        "both may stand in a list",
        "croniter",
        "0 0 * * 1,2#1",
        "2026-01-05T00:00 2026-01-06T00:00",
        REFUSED,
    ),
    Disagreement("croniter has L5 for 5L", "OCPS writes 5L", "croniter", "0 0 * * L5", REFUSED, "2026-01-30T00:00"),
    Disagreement("croniter has no 5L", "OCPS has it", "croniter", "0 0 * * 5L", "2026-01-30T00:00", REFUSED),
    Disagreement("croniter has no LW", "OCPS has it", "croniter", "0 0 LW * *", "2026-01-30T00:00", REFUSED),
    Disagreement("croniter has no L-n", "an extension of ours", "croniter", "0 0 L-3 * *", "2026-01-28T00:00", REFUSED),
    Disagreement("croniter has no +", "OCPS has it", "croniter", "0 0 13 * +5", "2026-02-13T00:00", REFUSED),
]


def shown(runs: Iterator[datetime], limit: int) -> str:
    """The first runs as the table writes them, or how they end."""
    try:
        found = [f"{at:%Y-%m-%dT%H:%M}" for at in islice(runs, limit)]
    except (ScheduleError, CronSimError, CroniterError):
        return REFUSED
    return " ".join(found) or NEVER


@pytest.mark.parametrize("row", DISAGREEMENTS, ids=lambda row: row.name)
def test_known_disagreements_are_really_so(row: Disagreement) -> None:
    after = datetime.fromisoformat(row.after).replace(tzinfo=UTC)
    ours = by_hourbell(row.expression, row.zone, after)
    theirs = PEERS[row.peer](row.expression, row.zone, after)

    assert row.ours != row.theirs
    assert shown(ours, len(row.ours.split())) == row.ours
    assert shown(theirs, len(row.theirs.split())) == row.theirs
