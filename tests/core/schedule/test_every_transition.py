"""Every transition of every zone, 2000 to 2040, held against a walk along the clock on the wall."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest

from hourbell.core.schedule import Schedule, zone_names
from hourbell.core.schedule.zones import load_zone
from tests.core.schedule.strategies import DST_MODES, SAMPLE_ZONES
from tests.core.schedule.wall_clock import (
    MINUTE,
    SECOND,
    Transition,
    Walk,
    all_zone_names,
    find_transitions,
    read_cron,
    wall_zone,
    zone_file,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHARDS = 48
SAMPLE = 200
SAMPLE_SHARDS = 8


def zones_by_content() -> list[tuple[str, ...]]:
    """Zones grouped where the package holds the same bytes for them."""
    groups: dict[bytes, list[str]] = {}
    for name in all_zone_names():
        groups.setdefault(zone_file(name), []).append(name)
    return [tuple(names) for names in groups.values()]


@dataclass(frozen=True)
class Event:
    """A transition with the zones that go through it, and what else their clocks do within days of it."""

    transition: Transition
    zones: tuple[str, ...]


def group_events(groups: list[tuple[str, ...]], first_year: int, end_year: int) -> list[Event]:
    zones: dict[tuple[Transition, ...], list[str]] = {}
    for names in groups:
        found = find_transitions(names[0], first_year, end_year, timedelta(days=1))
        for transition in found:
            near = tuple(other for other in found if abs(other.at - transition.at) < timedelta(days=4))
            zones.setdefault((transition, *near), []).extend(names)
    return [Event(near[0], tuple(names)) for near, names in sorted(zones.items())]


@cache
def every_event() -> list[Event]:
    return group_events(zones_by_content(), 2000, 2041)


@cache
def sampled_events() -> list[Event]:
    """The transitions of the telling zones, and of every twentieth other, thinned out evenly."""
    groups = zones_by_content()
    chosen = [names for at, names in enumerate(groups) if at % 20 == 0 or set(names) & set(SAMPLE_ZONES)]
    events = group_events(chosen, 2000, 2041)
    apia = [event for event in events if event.transition.after - event.transition.before == timedelta(days=1)]
    return apia + events[:: len(events) // SAMPLE]


def sample_expressions(transition: Transition) -> Iterator[str]:
    """Fixed and periodic schedules placed on what the clock skips or repeats."""
    low, high = transition.low, transition.high
    middle = low + (high - low) / 2
    last = high - MINUTE
    for at in (low - MINUTE, low, middle, last, high):
        yield f"{at.minute} {at.hour} * * *"
    yield f"{high.minute} {','.join(str(hour) for hour in sorted({low.hour, middle.hour, high.hour}))} * * *"
    yield "0-59/20 0-23 * * *"
    yield f"5,{last.minute} 0-23/2 * * {middle.isoweekday()},{high.isoweekday()}"
    yield f"{middle.minute} {middle.hour} {middle.day} {middle.month} *"
    yield f"{middle.minute} {middle.hour} {middle.day}W,L,L-1 * +{middle.isoweekday()}"
    yield f"{last.minute} {last.hour} ? * {last.isoweekday()}#{(last.day + 6) // 7},{low.isoweekday()}L"
    yield f"{low.minute} {low.hour} {low.day} {low.month} ? "
    yield "*/15 * * * *"
    yield f"*/7 {low.hour} * * *"
    yield f"{middle.minute} */2 * * *"
    yield f"{last.minute} * {last.day},{high.day} * *"


def probes(transition: Transition) -> list[datetime]:
    """Instants from which to ask: the edges of the transition, with a second and a microsecond to either side."""
    size = abs(transition.after - transition.before)
    edges = (transition.at - size, transition.at - size / 2, transition.at, transition.at + size / 2)
    little = timedelta(microseconds=1)
    near = [edge + shift for edge in edges for shift in (-SECOND, -little, timedelta(0), little)]
    return [*near, transition.at + size, transition.at - timedelta(hours=25), transition.at + timedelta(hours=25)]


def disagreements(schedule: Schedule, firings: list[datetime], start: datetime, end: datetime, asked: list[datetime]):
    """Return the differences between a schedule and the walk, whose firings are in (start, end]."""
    given = list(schedule.between(start, end))
    if given != firings:
        yield "between", sorted(set(given) ^ set(firings))[:3]
    back, at = [], end + SECOND
    while (at := schedule.previous(at)) is not None and at > start:
        back.append(at)
    if back[::-1] != firings:
        yield "previous", sorted(set(back) ^ set(firings))[:3]
    for at in asked:
        index = bisect_right(firings, at)
        if index < len(firings) and schedule.next(at) != firings[index]:
            yield "next", at
        index = bisect_left(firings, at)
        if index and schedule.previous(at) != firings[index - 1]:
            yield "previous", at
        if schedule.count(start, at) != bisect_right(firings, at):
            yield "count to", at
        if schedule.count(at, end) != len(firings) - bisect_right(firings, at):
            yield "count from", at
        if schedule.matches(at) != (at in firings):
            yield "matches", at


def check(event: Event, expressions: list[str], step: timedelta, reach: timedelta, margin: timedelta) -> list[object]:
    """Every disagreement around a transition; the walk begins and ends further out than what is compared."""
    at = event.transition.at
    start, end = at - reach, at + reach
    walk = Walk.through(event.zones[0], start - margin, end + margin, step)
    asked = [probe for probe in probes(event.transition) if start <= probe <= end]
    found: list[object] = []
    for number, expression in enumerate(expressions):
        zone = event.zones[number % len(event.zones)]
        cron = read_cron(expression)
        for dst in DST_MODES:
            firings = walk.firings(cron, dst)
            firings = firings[bisect_right(firings, start) : bisect_right(firings, end)]
            schedule = Schedule.parse(expression, zone, dst)
            wrong = disagreements(schedule, firings, start, end, asked)
            found += [(expression, zone, dst, *what) for what in wrong]
    return found


def check_by_minute(event: Event) -> list[object]:
    expressions = list(sample_expressions(event.transition))
    return check(event, expressions, MINUTE, timedelta(hours=27), timedelta(hours=6))


def check_by_second(event: Event) -> list[object]:
    low, high = event.transition.low, event.transition.high
    middle, last = low + (high - low) / 2, high - SECOND
    expressions = [
        f"{last.second} {last.minute} {last.hour} * * *",
        f"30 {middle.minute} {middle.hour} * * * {middle.year}",
        f"0-59/7 {low.minute} {low.hour},{high.hour} * * *",
        f"*/13 {middle.minute} * * * *",
        f"17 */10 {low.hour},{high.hour} * * *",
    ]
    size = abs(event.transition.after - event.transition.before)
    return check(event, expressions, SECOND, size + timedelta(minutes=10), size + timedelta(minutes=1))


@pytest.mark.parametrize(
    "shard", [0, 1, *(pytest.param(shard, marks=pytest.mark.full) for shard in range(2, SAMPLE_SHARDS))]
)
def test_sampled_transitions_agree_with_the_clock_on_the_wall(shard: int) -> None:
    events = sampled_events()[shard::SAMPLE_SHARDS]

    assert len(events) >= SAMPLE // SAMPLE_SHARDS
    assert [what for event in events for what in check_by_minute(event)] == []


def test_sampled_transitions_agree_second_by_second() -> None:
    events = [event for event in sampled_events() if event.transition.high - event.transition.low < timedelta(hours=4)]

    assert [what for event in events[::16] for what in check_by_second(event)] == []


@pytest.mark.sweep
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_transition_agrees_with_the_clock_on_the_wall(shard: int) -> None:
    events = every_event()[shard::SHARDS]

    assert events
    assert [what for event in events for what in check_by_minute(event)] == []


@pytest.mark.sweep
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_fourth_transition_agrees_second_by_second(shard: int) -> None:
    events = every_event()[shard :: SHARDS * 4]

    assert events
    assert [what for event in events for what in check_by_second(event)] == []


@pytest.mark.sweep
def test_looking_every_day_finds_every_transition_of_the_table() -> None:
    for names in zones_by_content():
        zone = load_zone(names[0])
        edges = zip(zone.starts[1:], zone.offsets, zone.offsets[1:], strict=False)
        table = [
            Transition(EPOCH + timedelta(seconds=at), timedelta(seconds=before), timedelta(seconds=after))
            for at, before, after in edges
            if before != after
        ]
        found = find_transitions(names[0], 2000, 2041, timedelta(days=1))
        assert found == [transition for transition in table if 2000 <= transition.at.year < 2041], names


def table_disagreements(name: str, stride: timedelta) -> list[tuple[str, datetime]]:
    """Return where our table of a zone differs from `zoneinfo`: at the edges of its periods, and every stride."""
    zone, wall = load_zone(name), wall_zone(name)
    first, end = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    edges = [EPOCH + timedelta(seconds=second) for second in zone.starts[1:-1]]
    asked = {edge + shift for edge in edges for shift in (-SECOND, timedelta(0))}
    asked.update(first + stride * number for number in range((end - first) // stride))
    wrong = []
    for at in sorted(asked):
        period = zone.period_at(int((at - EPOCH).total_seconds()))
        local = at.astimezone(wall)
        if (local.utcoffset(), local.tzname()) != (
            timedelta(seconds=zone.offsets[period]),
            zone.abbreviations[period],
        ):
            wrong.append((name, at))
    return wrong


def test_the_package_names_the_zones_we_know() -> None:
    assert zone_names() == set(all_zone_names())


def test_every_zone_table_equals_zoneinfo_at_its_edges_and_between() -> None:
    groups = zones_by_content()

    assert [what for names in groups for what in table_disagreements(names[0], timedelta(days=90))] == []


@pytest.mark.sweep
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_zone_table_equals_zoneinfo_every_day(shard: int) -> None:
    groups = zones_by_content()[shard::SHARDS]

    assert [what for names in groups for what in table_disagreements(names[0], timedelta(days=1))] == []


def test_zones_with_equal_bytes_have_equal_tables() -> None:
    for names in zones_by_content():
        tables = {(load_zone(name).starts, load_zone(name).offsets) for name in names}
        assert len(tables) == 1, names
