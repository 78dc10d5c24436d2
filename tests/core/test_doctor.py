"""The rules of the doctor, as tables: facts in, defects out."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.doctor import catalog
from hourbell.core.doctor.environment import (
    check_clock,
    check_lanes,
    check_migrations,
    check_schema,
    check_settings,
    check_tzdata,
    knows_zones,
    objects_of,
)
from hourbell.core.doctor.facts import Cluster, JobFacts, LaneFacts, NodeFacts, RunFacts, RunMark, Schema, SkipMark
from hourbell.core.doctor.findings import SHOWN, Defect, Findings, Severity
from hourbell.core.doctor.instants import check_instants
from hourbell.core.doctor.jobs import Planners, check_job
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.doctor.runs import check_run
from hourbell.core.run.run import scheduled_run_id
from tests.core.values import DAY, HOUR, JOB, MINUTE, SECOND, T0, a_job

SQL = Dialect.POSTGRESQL
NODE = UUID(int=1)
MOVED = timedelta(hours=1)


def run_facts(**more: Any) -> RunFacts:
    """A run without defects that succeeded."""
    facts: dict[str, Any] = {
        "id": scheduled_run_id(JOB, T0),
        "job_id": JOB,
        "job_name": "job",
        "kind": "scheduled",
        "scheduled_at": T0,
        "state": "succeeded",
        "reason": None,
        "attempt": 1,
        "newest_attempt": 1,
        "has_owner": False,
        "has_lease": False,
        "has_finished": True,
        "has_version": True,
    }
    return RunFacts(**(facts | more))


PENDING = {"state": "pending", "attempt": 0, "newest_attempt": 0, "has_finished": False}
RUNNING = {"state": "running", "newest_attempt": 0, "has_owner": True, "has_lease": True, "has_finished": False}
FAILED = {"state": "failed", "reason": "exhausted"}


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, []),
        (PENDING, []),
        (PENDING | {"attempt": 3}, []),  # handed back before it began
        (PENDING | {"attempt": 1, "newest_attempt": 1}, []),
        (RUNNING, []),
        (RUNNING | {"attempt": 4, "newest_attempt": 3}, []),
        (FAILED, []),
        ({"state": "failed", "reason": "expired", "attempt": 0, "newest_attempt": 0}, []),
        ({"state": "cancelled", "attempt": 2, "newest_attempt": 0}, []),
        ({"kind": "manual", "id": NODE}, []),
        ({"kind": "replay", "id": NODE}, []),
        ({"job_name": None}, ["job_replaced"]),  # its row was removed by SQL; retention takes the run with the others
        ({"has_version": False}, []),
        ({"id": NODE}, ["run_id_wrong"]),
        ({"id": NODE, "kind": "backfill"}, ["run_id_wrong"]),
        (PENDING | {"newest_attempt": 1}, ["attempt_ahead"]),
        (RUNNING | {"newest_attempt": 1}, ["attempt_ahead"]),
        (PENDING | {"has_lease": True}, ["waiting_with_traces"]),
        (PENDING | {"has_owner": True}, ["waiting_with_traces"]),
        (PENDING | {"state": "retrying", "has_finished": True}, ["waiting_with_traces"]),
        (RUNNING | {"has_lease": False}, ["run_without_lease"]),
        (RUNNING | {"has_owner": False}, ["run_without_lease"]),
        (RUNNING | {"attempt": 0}, ["run_running_unclaimed"]),
        (PENDING | {"job_name": None, "has_version": False}, ["run_without_job"]),
        (PENDING | {"has_version": False}, ["run_without_version"]),
        ({"has_finished": False}, ["ended_without_time"]),
        ({"has_lease": True}, ["ended_with_lease"]),
        ({"reason": "lost"}, ["reason_wrong"]),
        (FAILED | {"reason": None}, ["reason_wrong"]),
        ({"newest_attempt": 0}, ["attempt_missing"]),
        (FAILED | {"attempt": 4, "newest_attempt": 3}, ["attempt_missing"]),
    ],
)
def test_defects_of_one_run_are_found(more: dict[str, Any], names: list[str]) -> None:
    assert [defect.check.name for defect in check_run(run_facts(**more), SQL)] == names


def marks(*hours: int, version: int = 1, kind: str = "scheduled") -> tuple[RunMark, ...]:
    """Runs so many hours after T0, which ended at once."""
    instants = [T0 + hour * HOUR for hour in hours]
    return tuple(RunMark(at, at.replace(tzinfo=None), version, kind, at, at + SECOND) for at in instants)


def skip(first: int, last: int, count: int | None = None, reason: str = "missed") -> SkipMark:
    return SkipMark(T0 + first * HOUR, T0 + last * HOUR, last - first + 1 if count is None else count, reason)


def job_facts(
    runs: tuple[RunMark, ...] = (), skips: tuple[SkipMark, ...] = (), *, version: int = 1, until: int = 9, **more: Any
) -> JobFacts:
    """An hourly job made at T0 and planned until so many hours after it, of which nothing was pruned."""
    names = {name: more.pop(name) for name in tuple(more) if name not in JobFacts.__dataclass_fields__}
    job = replace(a_job(**names), version=version, cursor_at=T0 + until * HOUR + MINUTE)
    ended = sum(run.finished_at is not None for run in runs)
    facts: dict[str, Any] = {
        "adopted_at": T0,
        "adopted_by": "somebody",
        "earlier_at": None,
        "is_by_users": True,
        "ended_ever": ended,
        "is_whole": True,
    }
    return JobFacts(job=job, runs=runs, skips=skips, **(facts | more))


def found(facts: JobFacts, *, now: datetime = T0 + DAY, knows_zones: bool = True) -> list[tuple[str, int]]:
    """Return the names of defects with their hours after T0."""
    defects = check_instants(facts, now, 30 * DAY, SQL, knows_zones=knows_zones)
    return [(defect.check.name, _hour(defect)) for defect in defects]


def _hour(defect: Defect) -> int:
    text = defect.row.split(", ")[1].split(" to ")[0]
    return defect.count if "more until" in text else (datetime.fromisoformat(text) - T0) // HOUR


LOST, TWICE, OUTSIDE, MISCOUNTED = "instant_lost", "instant_twice", "run_outside_schedule", "skip_miscounted"
PRUNED = {"ended_ever": 99}
EDITED = {"version": 2, "earlier_at": T0}
ALL = tuple(range(1, 10))
AT_HALF_PAST = marks(4)[0]._replace(scheduled_at=T0 + 4.5 * HOUR)


@pytest.mark.parametrize(
    ("facts", "defects"),
    [
        pytest.param(job_facts(marks(*ALL)), [], id="a run for each"),
        pytest.param(job_facts(marks(1, 6, 7, 8, 9), (skip(2, 5),)), [], id="some in a skip"),
        pytest.param(job_facts((), (skip(1, 9),)), [], id="all in a skip"),
        pytest.param(job_facts(marks(*ALL) + marks(11, kind="manual")), [], id="somebody triggered it"),
        pytest.param(
            job_facts(marks(1) + marks(3, kind="backfill") + marks(6, 7, 8, 9), (skip(2, 5),)), [], id="backfilled"
        ),
        pytest.param(job_facts(marks(3, 4), starts_at=T0 + 3 * HOUR, ends_at=T0 + 4 * HOUR), [], id="starts and ends"),
        pytest.param(job_facts(marks(1, 2, 4, 5, 6, 7, 8, 9)), [(LOST, 3)], id="a hole"),
        pytest.param(job_facts(marks(2, 3, 4, 5, 6, 7, 8, 9)), [(LOST, 1)], id="the first of a new job"),
        pytest.param(job_facts(marks(*ALL[:-1])), [(LOST, 9)], id="the last"),
        pytest.param(job_facts(), [(LOST, 1), (LOST, 2), (LOST, 3), (LOST, 6)], id="all, of which some are shown"),
        pytest.param(
            job_facts(marks(4), starts_at=T0 + 3 * HOUR, ends_at=T0 + 4 * HOUR), [(LOST, 3)], id="first of some"
        ),
        pytest.param(job_facts(marks(5, 6, 7, 8, 9), **PRUNED), [], id="the older ones were pruned"),
        pytest.param(job_facts(marks(5, 7, 8, 9), **PRUNED), [(LOST, 6)], id="pruned would be the older one first"),
        pytest.param(
            job_facts((marks(1)[0]._replace(finished_at=None), *marks(6, 7, 8, 9)), **PRUNED),
            [],
            id="an old one that has not ended stays when others are pruned",
        ),
        pytest.param(
            job_facts((marks(1)[0]._replace(finished_at=T0 + 6 * HOUR), *marks(5, 7, 9)), **PRUNED),
            [(LOST, 6), (LOST, 8)],
            id="one that ended late proves what came after its end, another what came before",
        ),
        pytest.param(
            job_facts((marks(1)[0]._replace(finished_at=None),), **PRUNED), [], id="nothing proves that none was pruned"
        ),
        pytest.param(job_facts(marks(5, 6, 7, 8, 9), is_whole=False), [], id="only the newest were read"),
        pytest.param(job_facts(adopted_by="sql"), [], id="triggered by SQL before it was adopted"),
        pytest.param(job_facts(adopted_at=None), [], id="the version is not written down"),
        pytest.param(job_facts(marks(5, 6, 7, 8, 9, version=2), **EDITED), [], id="where an edit begins nobody knows"),
        pytest.param(job_facts(marks(5, 7, 8, 9, version=2), **EDITED), [(LOST, 6)], id="a hole after an edit"),
        pytest.param(job_facts(until=26, **EDITED), [(LOST, 25), (LOST, 26)], id="nothing at all a day after an edit"),
        pytest.param(
            job_facts(marks(1, 3) + marks(5, 6, 7, 8, 9, version=2), **EDITED), [], id="a hole of another version"
        ),
        pytest.param(job_facts(marks(*ALL), (skip(3, 4),)), [(TWICE, 3), (TWICE, 4)], id="runs inside a skip"),
        pytest.param(job_facts(marks(1, 9), (skip(2, 6), skip(5, 8))), [(TWICE, 5)], id="skips that overlap"),
        pytest.param(job_facts(marks(1, 9), (skip(2, 8, 6),)), [(MISCOUNTED, 2)], id="a skip that counts too few"),
        pytest.param(
            job_facts(marks(1, 9), (skip(2, 8, 6),), is_by_users=False), [], id="a skip of who knows which version"
        ),
        pytest.param(
            job_facts(marks(1, 2, 4) + marks(6, 8, 9), (skip(5, 5, 7),), is_by_users=False),
            [(LOST, 7)],
            id="it hides what is before it",
        ),
        pytest.param(
            job_facts((*marks(1, 2, 3, 4), AT_HALF_PAST, *marks(5, 6, 7, 8, 9))),
            [(OUTSIDE, 4)],
            id="a run at no instant",
        ),
        pytest.param(job_facts(marks(1, 2, 2, *ALL[2:])), [("run_twice", 2)], id="two runs of an instant"),
        pytest.param(job_facts(marks(1, 5), schedule="61 * * * *"), [], id="a schedule that cannot be read"),
    ],
)
def test_defects_of_a_jobs_instants_are_found(facts: JobFacts, defects: list[tuple[str, int]]) -> None:
    assert found(facts) == defects


def in_paris(*hours: int, moved: tuple[int, ...] = ()) -> tuple[RunMark, ...]:
    """Runs of a job in Paris, in winter; those moved were planned by data that had another offset."""
    return tuple(
        run._replace(local_at=run.local_at + (2 * MOVED if hour in moved else MOVED))
        for hour, run in zip(hours, marks(*hours), strict=True)
    )


@pytest.mark.parametrize(
    ("runs", "skips", "defects"),
    [
        (in_paris(*ALL), (), []),
        (in_paris(1, 2, 4, 5, 6, 7, 8, 9), (), [(LOST, 3)]),
        (in_paris(1, 2, 4, 5, 6, 7, 8, 9, moved=(1, 2)), (), [(LOST, 3)]),
        (in_paris(1, 2, 4, 5, 6, 8, 9, moved=(5,)), (), [(LOST, 7)]),
        (in_paris(1, 2, 4, 7, 9), (skip(5, 6, 1),), [(LOST, 8)]),
    ],
)
def test_time_zone_data_that_changed_hides_what_was_before(
    runs: tuple[RunMark, ...], skips: tuple[SkipMark, ...], defects: list[tuple[str, int]]
) -> None:
    facts = job_facts(runs, skips, timezone="Europe/Paris")

    assert found(facts) == defects
    assert found(facts, knows_zones=False) == []


def test_findings_older_than_the_retention_are_left_out() -> None:
    facts = job_facts(marks(1, 2, 4, 5, 7, 8, 9))

    assert found(facts, now=T0 + 30 * DAY + 5 * HOUR) == [(LOST, 6)]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"plan_at": T0 + 10 * HOUR}, []),
        ({"plan_at": T0 + 9 * HOUR}, ["job_overdue"]),
        ({"plan_at": None}, ["job_never_planned"]),
        ({"plan_at": None, "enabled": False}, []),
        ({"plan_at": None, "ends_at": T0 + 9 * HOUR}, []),
        ({"plan_at": None, "error": "no"}, ["job_in_error"]),
        ({"plan_at": None, "error": "no", "enabled": False}, []),
    ],
)
def test_defects_of_a_jobs_cursor_and_next_times_are_found(more: dict[str, Any], names: list[str]) -> None:
    facts = job_facts(**more)
    now = T0 + 9 * HOUR + 10 * MINUTE

    assert [
        defect.check.name for defect in check_job(facts, now, SQL, planners=Planners.SETTLED, knows_zones=True)
    ] == names
    unplanned = [defect.check.name for defect in check_job(facts, now, SQL, planners=Planners.NEW, knows_zones=True)]
    assert unplanned == [name for name in names if name != "job_overdue"]
    alone = [defect.check.name for defect in check_job(facts, now, SQL, planners=Planners.NONE, knows_zones=True)]
    assert alone == [name.replace("job_overdue", "job_unattended") for name in names]


def test_a_cursor_ahead_of_time_is_found_unless_time_zone_data_put_it_there() -> None:
    ahead, moved = job_facts(plan_at=T0 + DAY), job_facts(skips=(skip(9, 9, 1, "tzdata"),), plan_at=T0 + DAY)
    moved = replace(moved, job=replace(moved.job, cursor_at=T0 + 9 * HOUR))
    now = T0 + 8 * HOUR

    names = [
        [defect.check.name for defect in check_job(facts, now, SQL, planners=Planners.SETTLED, knows_zones=True)]
        for facts in (ahead, moved)
    ]
    assert names == [["cursor_ahead"], []]


@pytest.mark.parametrize(
    ("applied", "defects"),
    [
        ({1: "a", 2: "b"}, []),
        ({1: "a"}, ["migration_pending"]),
        ({}, ["migration_pending", "migration_pending"]),
        ({1: "a", 2: "b", 3: "c"}, ["schema_newer"]),
        ({1: "a", 2: "x"}, ["migration_changed"]),
    ],
)
def test_migrations(applied: dict[int, str], defects: list[str]) -> None:
    assert [defect.check.name for defect in check_migrations(applied, {1: "a", 2: "b"})] == defects


def test_the_schema_is_what_the_migrations_leave_behind() -> None:
    first = (
        "create table hourbell.jobs (\n);\ncreate unique index once on hourbell.jobs (id);\ncreate index slow on x (y);"
    )
    second = "drop index hourbell.slow;\ncreate trigger guard before update on hourbell.jobs"
    expected = objects_of([first, second])

    assert expected == {("table", "jobs"), ("index", "once"), ("trigger", "guard")}
    missing = check_schema(Schema({}, frozenset({("table", "jobs"), ("index", "other")})), expected)
    assert [defect.row for defect in missing] == ["index once", "trigger guard"]


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"journal_mode": "wal"}, []),
        ({"journal_mode": "memory"}, []),
        ({"journal_mode": "delete"}, ["journal_mode is delete"]),
        ({"fsync": "on", "synchronous_commit": "local"}, []),
        ({"fsync": "off", "synchronous_commit": "off"}, ["fsync is off", "synchronous_commit is off"]),
    ],
)
def test_settings_of_the_database(settings: dict[str, str], rows: list[str]) -> None:
    assert [defect.row for defect in check_settings(Schema({}, frozenset(), settings=settings))] == rows


def test_a_database_that_cannot_be_written_is_an_error_with_its_reason() -> None:
    [defect] = check_settings(Schema({}, frozenset(), unwritable="user web may not write hourbell.db"))

    assert (defect.check.name, defect.row) == ("database_unwritable", "user web may not write hourbell.db")
    assert defect.check.severity == "error"


@pytest.mark.parametrize(
    ("offset", "took", "rows"),
    [
        (4 * SECOND, 0 * SECOND, []),
        (9 * SECOND, 5 * SECOND, []),  # the question took that long
        (90 * SECOND, SECOND, ["this machine is 90.0 s ahead"]),
        (-6 * SECOND, 0 * SECOND, ["this machine is 6.0 s behind"]),
    ],
)
def test_clocks(offset: timedelta, took: timedelta, rows: list[str]) -> None:
    assert [defect.row for defect in check_clock(offset, took)] == rows


def a_node(*lanes: str, tzdata: str = "2026a") -> NodeFacts:
    return NodeFacts(NODE, "here", T0, T0, lanes, tzdata)


@pytest.mark.parametrize(
    ("nodes", "seen", "planned_by", "names"),
    [
        (["2026a", "2026a"], "2026a", "2026a", []),
        ([], None, None, []),
        (["2026a", "2025c"], "2026a", "2026a", ["tzdata_mixed"]),
        (["2026a"], "2026b", "2026b", ["tzdata_mixed", "tzdata_here"]),
        (["2026b"], "2026b", "2026a", ["tzdata_unfinished", "tzdata_here"]),
        (["2025c"], "2025c", "2025c", ["tzdata_here"]),
    ],
)
def test_time_zone_data(nodes: list[str], seen: str | None, planned_by: str | None, names: list[str]) -> None:
    alive = tuple(a_node(tzdata=version) for version in nodes)
    cluster = Cluster(alive, seen, planned_by)

    assert [defect.check.name for defect in check_tzdata(cluster, alive, "2026a")] == names
    assert knows_zones(cluster, "2026a") == ("tzdata_here" not in names)


@pytest.mark.parametrize(
    ("lanes", "waits", "names"),
    [
        (["task:a"], HOUR, ["runs_stuck"]),
        (["task:*"], HOUR, ["runs_stuck"]),
        (["task:a"], MINUTE, []),
        (["task:b", "sql:*"], HOUR, ["lane_unserved"]),
        (["task:b"], SECOND, []),
    ],
)
def test_lanes(lanes: list[str], waits: timedelta, names: list[str]) -> None:
    waiting = [LaneFacts("task:a", 7, T0 - waits)]
    defects = list(check_lanes(waiting, [a_node(*lanes)], T0, 10 * MINUTE))

    assert [(defect.check.name, defect.count) for defect in defects] == [(name, 7) for name in names]


@pytest.mark.parametrize(("waits", "names"), [(HOUR, ["runs_unattended"]), (MINUTE, [])])
def test_lanes_while_no_node_is_alive(waits: timedelta, names: list[str]) -> None:
    defects = list(check_lanes([LaneFacts("task:a", 7, T0 - waits)], [], T0, 10 * MINUTE))

    assert [(defect.check.name, defect.count) for defect in defects] == [(name, 7) for name in names]
    assert all(defect.check.severity is Severity.ERROR for defect in defects)


def test_findings_keep_the_first_few_and_count_all_with_errors_first() -> None:
    findings = Findings()
    findings.add(Defect(catalog.CLOCK_OFFSET, "a clock") for _ in range(2))
    findings.add(Defect(catalog.INSTANT_LOST, f"row {number}", (f"sql {number}",), count=10) for number in range(99))
    errors, warnings = findings

    assert (errors.check, errors.count, len(errors.rows), len(errors.sql)) == (catalog.INSTANT_LOST, 990, SHOWN, SHOWN)
    assert (warnings.check.severity, warnings.count) == (Severity.WARNING, 2)


def test_every_kind_of_finding_says_what_is_wrong_and_what_to_do() -> None:
    assert [name for name, check in catalog.CHECKS.items() if check.name != name or not check.message] == []
    assert [name for name, check in catalog.CHECKS.items() if not check.repair.endswith(".")] == []
