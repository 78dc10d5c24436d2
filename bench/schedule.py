"""Schedules beside cronsim, croniter and APScheduler 3: the next instant, parsing, counting, and the previous one.

Each walk's answers are compared too: a library with other answers is not compared.
"""

import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median

from bench.measure import ROUNDS, compare
from bench.peers import NEXT, PARSE, PATTERNS, PREVIOUS, START, Case, Walk, able
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from hourbell.core.schedule import Schedule

_HALF_HOUR_ZONE = "Australia/Lord_Howe"  # the clock moves by 30 minutes
_ZONES = ("UTC", "America/New_York", _HALF_HOUR_ZONE)
_MUST_AGREE = 3  # instants, all of them away from transitions
_GOALS = {"cronsim": (6.0, 2.5), "croniter": (20.0, 2.5)}  # median and minimum ratio of `next`

Seconds = dict[str, float]


def run() -> Report:
    zoneinfo.reset_tzpath(to=())  # the same tzdata for all
    everywhere = [replace(pattern, timezone=timezone) for timezone in _ZONES for pattern in PATTERNS]
    in_new_york = [case for case in everywhere if case.timezone == "America/New_York"]
    forward = [_time_walks(NEXT, case) for case in everywhere]
    backward = [_time_walks(PREVIOUS, case) for case in in_new_york]
    parsing = [_time_parsing(case) for case in in_new_york]
    tables = [
        _walk_table(f"`next`, per call, median of {ROUNDS} rounds", everywhere, forward, tuple(NEXT)),
        _walk_table("`previous`, per call", in_new_york, backward, tuple(PREVIOUS)),
        _parse_table(in_new_york, parsing),
        _count_table(),
    ]
    differences = [*_differences("next", NEXT, everywhere), *_differences("previous", PREVIOUS, in_new_york)]
    verdicts = [_verdict(peer, everywhere, forward) for peer in _GOALS]
    return Report(tables, differences or ["all answers agree"], verdicts)


def _time_walks(walkers: Mapping[str, Callable[[Case], Walk]], case: Case) -> Seconds:
    candidates = {name: partial(walker, case) for name, walker in walkers.items() if able(name, case)}
    return {name: timing.median for name, timing in compare(candidates, calls=case.steps).items()}


def _time_parsing(case: Case) -> Seconds:
    def candidate(parse: Callable[[Case], object]) -> Callable[[], Callable[[], object]]:
        return lambda: partial(parse, case)

    candidates = {name: candidate(parse) for name, parse in PARSE.items() if able(name, case)}
    return {name: timing.median for name, timing in compare(candidates).items()}


def _walk_table(title: str, cases: list[Case], timings: list[Seconds], names: tuple[str, ...]) -> Table:
    columns = (Column("pattern"), Column("zone"), *_timing_columns(names))
    rows = [
        (case.title, case.timezone, *_timing_cells(seconds, names))
        for case, seconds in zip(cases, timings, strict=True)
    ]
    return Table(title, columns, rows)


def _parse_table(cases: list[Case], timings: list[Seconds]) -> Table:
    peers = tuple(name for name in PARSE if name != "cached")
    columns = (Column("pattern"), Column("cached", Kind.MICROSECONDS), *_timing_columns(peers))
    rows = [
        (case.title, seconds["cached"], *_timing_cells(seconds, peers))
        for case, seconds in zip(cases, timings, strict=True)
    ]
    return Table("Parsing, ours cold and from the cache; ratios are to ours cold", columns, rows)


def _timing_columns(names: tuple[str, ...]) -> Iterator[Column]:
    yield from (Column(name, Kind.MICROSECONDS) for name in names)
    yield from (Column(f"{name} / ours", Kind.RATIO) for name in names[1:])


def _timing_cells(seconds: Seconds, names: tuple[str, ...]) -> Iterator[Cell]:
    yield from map(seconds.get, names)
    yield from (_ratio(seconds, name) for name in names[1:])


def _ratio(seconds: Seconds, peer: str) -> float | None:
    return seconds[peer] / seconds["hourbell"] if peer in seconds else None


def _count_table() -> Table:
    columns = (
        Column("pattern"),
        Column("zone"),
        Column("a day", Kind.MICROSECONDS),
        Column("a year", Kind.MICROSECONDS),
        Column("year / day", Kind.RATIO),
    )
    rows = [_count_row("* * * * * *", "UTC"), _count_row("* * * * *", "America/New_York")]
    return Table("`count`, per call", columns, rows)


def _count_row(expression: str, timezone: str) -> tuple[Cell, ...]:
    count = Schedule.parse(expression, timezone).count

    def candidate(days: int) -> Callable[[], Callable[[], object]]:
        return lambda: partial(count, START, START + timedelta(days))

    timings = compare({"day": candidate(1), "year": candidate(365)})
    day, year = timings["day"].median, timings["year"].median
    return expression, timezone, day, year, year / day


def _differences(verb: str, walkers: Mapping[str, Callable[[Case], Walk]], cases: list[Case]) -> Iterator[str]:
    for case in cases:
        ours = _instants(walkers["hourbell"](case))
        for name, walker in walkers.items():
            if able(name, case) and (found := _difference(ours, _instants(walker(case)))):
                yield f"`{verb}` of {case.expression} in {case.timezone}: {name} {found}"


def _instants(walk: Walk) -> list[datetime]:
    return [instant.astimezone(UTC) for instant in walk()]


def _difference(ours: list[datetime], theirs: list[datetime]) -> str | None:
    """Describe the differences within the span that both walks cover."""
    if ours == theirs:
        return None
    if ours[:_MUST_AGREE] != theirs[:_MUST_AGREE]:
        return "DISAGREES FROM THE START: its figures do not compare"
    first = min(set(ours) ^ set(theirs), key=lambda at: abs(at - ours[0]), default=None)
    if first is None:
        return "gives a time twice"
    return f"disagrees at {first:%Y-%m-%d %H:%M} UTC, {'which it skips' if first in ours else 'which it adds'}"


def _verdict(peer: str, cases: list[Case], timings: list[Seconds]) -> str:
    ratios = [(seconds[peer] / seconds["hourbell"], case) for case, seconds in zip(cases, timings, strict=True)]
    middle = median(ratio for ratio, _ in ratios)
    least, where = min(ratios, key=lambda pair: pair[0])
    wanted_middle, wanted_least = _GOALS[peer]
    outcome = "reached" if middle >= wanted_middle and least >= wanted_least else "MISSED"
    return (
        f"`next` beside {peer}: median {middle:.1f} × (goal {wanted_middle:g}), "
        f"minimum {least:.2f} × (goal {wanted_least:g}; {where.title}, {where.timezone}): {outcome}"
    )


BENCHMARK = Benchmark(
    "schedules beside cronsim, croniter and APScheduler 3",
    ("hourbell", "cronsim", "croniter", "apscheduler", "python-dateutil", "tzdata"),
    run,
)
