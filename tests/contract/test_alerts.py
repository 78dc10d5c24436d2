"""Incidents: opened once from the facts in the tables, notified once per step, and over when the trouble is."""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.incident import Trouble, notification_id
from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.policy import parse_policy
from hourbell.core.alerts.watch import GROUP_WAIT, Move, acknowledge, resolve_by_hand
from hourbell.core.job.definition import Job
from hourbell.core.run.settle import Failed, Succeeded
from hourbell.core.run.states import RunState
from hourbell.store.alerts import reader, verbs
from hourbell.store.alerts.verbs import AlertVerbs, IncidentQuery
from hourbell.store.alerts.watching import AlertStore, WatchResult
from hourbell.store.base import EngineStore, LaneDemand
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    NODE,
    SECOND,
    T0,
    a_node,
    add_job,
    finish,
    new_run,
    plan_all,
    put_runs,
    refusal,
    settled,
)
from tests.database import Database
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
BROKEN = Failed("HTTP 503 Service Unavailable", retryable=False)
ALL_STATES = ("open", "acknowledged", "resolved")


@pytest.fixture
def alerts(database: Database) -> AlertStore:
    return database.alerts()


@pytest.fixture
def people(database: Database) -> AlertVerbs:
    return database.alert_control()


async def add_channel(people: AlertVerbs, name: str = "ops", now: datetime = T0) -> UUID:
    config = {"type": "webhook", "url": f"https://example.com/{name}"}
    parsed = ParsedChannel("webhook", config, {}, "https://example.com:443")
    view, _ = await people.put_channel(name, parsed, uuid4(), lambda _: [], Actor(BY, now))
    return view.channel.job_id


async def put_policy(people: AlertVerbs, name: str = "default", **body: Any) -> None:
    await people.put_policy(name, parse_policy(body), Actor(BY, T0))


async def run_once(store: EngineStore, control: ControlStore, job: Job, outcome: Any, now: datetime) -> None:
    """Let a run of a job end like this."""
    await control.trigger_job(job.id, uuid4(), Actor(BY, now))
    runs = await store.claim(NODE, now, now + MINUTE, [LaneDemand(job.definition.lane, 1, 0)])
    assert len(runs) == 1
    await finish(store, runs, outcome, now)


async def fail(store: EngineStore, control: ControlStore, job: Job, now: datetime, times: int = 1) -> None:
    for number in range(times):
        await run_once(store, control, job, BROKEN, now + number * SECOND)


async def results(alerts: AlertStore, now: datetime, *extra: UUID) -> list[tuple[Move, Event | None]]:
    return [(each.move, each.event) for each in await alerts.watch_jobs(now, 100, extra)]


async def messages(database: Database) -> list[Message]:
    rows = {row["id"]: row for row in await database.rows("runs")}
    planned = await database.rows("notifications", "planned_at, step")
    return [Message.from_json(rows[row["run_id"]]["payload"]) for row in planned]


async def test_failures_in_a_row_open_one_incident_with_one_message_per_channel(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people, "ops")
    await add_channel(people, "mail")
    job = await add_job(control)

    await fail(store, control, job, T0 + HOUR)
    assert await results(alerts, T0 + HOUR) == []
    await fail(store, control, job, T0 + 2 * HOUR)
    assert await results(alerts, T0 + 2 * HOUR) == [(Move.OPEN, Event.OPENED)]
    await fail(store, control, job, T0 + 3 * HOUR)
    assert await results(alerts, T0 + 3 * HOUR) == []

    [incident] = await database.rows("incidents")
    assert (incident["kind"], incident["state"], incident["count"], incident["steps"]) == ("failed", "open", 3, 1)
    found = await messages(database)
    assert sorted(each.channel for each in found) == ["mail", "ops"]
    assert {each.event for each in found} == {Event.OPENED}
    [message, _] = found
    assert message.incident is not None
    assert message.job is not None
    assert message.run is not None
    assert (message.incident.error, message.job.name, message.job.words) == (BROKEN.error, "job", "Every minute")
    assert (message.run.state, message.run.error) == ("failed", BROKEN.error)
    assert message.links["job"] == "https://hourbell.example/jobs/job"


async def test_a_success_resolves_it_with_one_message(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await fail(store, control, job, T0 + HOUR, 2)
    await results(alerts, T0 + HOUR)

    await run_once(store, control, job, Succeeded(), T0 + 2 * HOUR)

    assert await results(alerts, T0 + 2 * HOUR) == [(Move.RESOLVE, Event.RESOLVED)]
    assert await results(alerts, T0 + 3 * HOUR, job.id) == []
    [incident] = await database.rows("incidents")
    assert (incident["state"], incident["resolved_at"], incident["resolved_by"]) == ("resolved", T0 + 2 * HOUR, None)
    assert [each.event for each in await messages(database)] == [Event.OPENED, Event.RESOLVED]


async def test_the_id_of_a_message_follows_from_channel_incident_and_step(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    channel_job = await add_channel(people)
    await fail(store, control, await add_job(control), T0 + HOUR, 2)
    await results(alerts, T0 + HOUR)

    [incident] = await database.rows("incidents")
    [notification] = await database.rows("notifications")
    assert notification["run_id"] == notification_id(channel_job, incident["id"], 1)
    [run] = [row for row in await database.rows("runs") if row["job_id"] == channel_job]
    assert (run["id"], run["lane"], run["state"]) == (notification["run_id"], "channel:ops", "pending")


async def test_watchers_that_look_at_the_same_time_send_one_message(
    store: EngineStore, control: ControlStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    jobs = [await add_job(control, f"job-{number}", lane=f"lane-{number}") for number in range(10)]
    for job in jobs:
        await fail(store, control, job, T0 + HOUR, 2)

    watchers = [database.alerts() for _ in range(4)]
    found = await asyncio.gather(
        *(each.watch_jobs(T0 + HOUR, 3, [job.id for job in jobs]) for each in watchers for _ in range(5))
    )

    opened = [each.incident.job_id for batch in found for each in batch if each.move is Move.OPEN]
    assert sorted(opened) == sorted(job.id for job in jobs)  # type: ignore[type-var]
    assert len(await database.rows("notifications")) == len(jobs)


async def test_a_watch_that_is_not_committed_is_repeated(
    store: EngineStore, control: ControlStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    await fail(store, control, await add_job(control), T0 + HOUR, 2)
    await database.sql("alter table hourbell.notifications rename to gone")
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the driver says
        await database.alerts().watch_jobs(T0 + HOUR, 100)
    assert await database.rows("incidents") == []
    await database.sql("alter table hourbell.gone rename to notifications" if is_postgres(database) else RENAME_BACK)

    assert await results(database.alerts(), T0 + HOUR) == [(Move.OPEN, Event.OPENED)]
    assert len(await messages(database)) == 1


RENAME_BACK = "alter table gone rename to hourbell_notifications"


def is_postgres(database: Database) -> bool:
    return type(database).__name__ == "PostgresDatabase"


async def test_jobs_of_one_host_share_one_message_and_one_recovery(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    jobs = []
    for number in range(20):
        job = await add_job(control, f"job-{number:02}")
        await database.sql(
            f"update hourbell.jobs set lane = 'https://dead.example:443' where id = {at_id(database, job.id)}"
        )
        jobs.append(job)
        await fail(store, control, job, T0 + HOUR, 2)

    assert await results(alerts, T0 + HOUR) == [(Move.OPEN, None)]
    assert await results(alerts, T0 + HOUR + GROUP_WAIT) == [(Move.NOTIFY, Event.OPENED)]
    for job in jobs:
        assert await results(alerts, T0 + 2 * HOUR) == []
        await run_once(store, control, job, Succeeded(), T0 + 2 * HOUR)
    assert await results(alerts, T0 + 2 * HOUR) == [(Move.RESOLVE, Event.RESOLVED)]

    [opened, resolved] = await messages(database)
    assert opened.incident is not None
    assert resolved.incident is not None
    assert (opened.incident.group_size, opened.incident.lane) == (20, "https://dead.example:443")
    assert opened.incident.jobs[:2] == ("job-00", "job-01")
    assert resolved.event is Event.RESOLVED


def at_id(database: Database, job_id: UUID) -> str:
    return f"'{job_id}'" if is_postgres(database) else f"x'{job_id.hex}'"


async def test_missed_times_open_an_incident_at_once(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await plan_all(store, T0 + 3 * MINUTE + SECOND)
    assert len(await database.rows("alert_signals")) == 1

    assert await results(alerts, T0 + 4 * MINUTE) == [(Move.OPEN, None)]
    assert await results(alerts, T0 + 4 * MINUTE + GROUP_WAIT) == [(Move.NOTIFY, Event.OPENED)]

    [incident] = await database.rows("incidents")
    assert (incident["kind"], incident["job_id"], incident["count"]) == ("missed", job.id, 2)
    assert await database.rows("alert_signals") == []


async def test_a_run_that_waits_too_long_is_late_until_it_begins(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    await put_policy(people, on=["late"])
    job = await add_job(control)
    await plan_all(store, T0 + MINUTE + SECOND)
    assert await alerts.late_jobs(T0 + 6 * MINUTE - SECOND, 10) == []

    [late] = await alerts.late_jobs(T0 + 6 * MINUTE, 10)
    assert (late.job_id, late.runs, late.oldest_at) == (job.id, 1, T0 + MINUTE)
    assert await results(alerts, T0 + 6 * MINUTE, job.id) == [(Move.OPEN, None)]
    assert await results(alerts, T0 + 6 * MINUTE + GROUP_WAIT) == [(Move.NOTIFY, Event.OPENED)]
    await store.claim(NODE, T0 + 7 * MINUTE, T0 + 8 * MINUTE, [LaneDemand("task:a", 1, 0)])
    assert (await alerts.incident_jobs(None, 10))[0] == [job.id]
    assert await results(alerts, T0 + 7 * MINUTE, job.id) == [(Move.RESOLVE, Event.RESOLVED)]


async def test_late_jobs_are_found_in_every_lane_among_its_oldest_runs(
    store: EngineStore, control: ControlStore, alerts: AlertStore
) -> None:
    for number in range(30):
        job = await add_job(control, f"job-{number:02}", lane=f"lane-{number:02}")
        await put_runs(store, job, [new_run(job, second) for second in range(25)])

    found = await alerts.late_jobs(T0 + HOUR, 100)

    assert (len(found), {late.runs for late in found}) == (30, {20})
    assert {late.oldest_at for late in found} == {T0}


async def test_a_job_without_a_success_for_too_long_is_found(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await put_policy(people, on=["no_success"], no_success_for="2h")
    job = await add_job(control)
    other = await add_job(control, "other", lane="b", now=T0)
    await run_once(store, control, other, Succeeded(), T0 + HOUR)

    found, _ = await alerts.jobs_without_success(T0 + HOUR - SECOND, None, 10)
    assert found == [job.id]
    assert await results(alerts, T0 + 2 * HOUR, job.id, other.id) == [(Move.OPEN, Event.OPENED)]


async def test_a_run_that_takes_too_long_is_found_until_it_ends(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    await put_policy(people, on=["slow"], slow_after="10m")
    job = await add_job(control)
    await put_runs(store, job, [new_run(job)])
    runs = await store.claim(NODE, T0, T0 + DAY, [LaneDemand("task:a", 1, 0)])

    assert await alerts.slow_jobs(T0, 10) == [job.id]
    assert await results(alerts, T0 + 10 * MINUTE - SECOND, job.id) == []
    assert await results(alerts, T0 + 10 * MINUTE, job.id) == [(Move.OPEN, Event.OPENED)]
    await finish(store, runs, now=T0 + HOUR)
    assert await results(alerts, T0 + HOUR, job.id) == [(Move.RESOLVE, Event.RESOLVED)]


async def test_a_rate_of_failures_opens_an_incident(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await put_policy(people, rate="3 of 6")
    job = await add_job(control)
    for number in range(6):
        await run_once(store, control, job, BROKEN if number % 2 else Succeeded(), T0 + number * HOUR)

    assert await results(alerts, T0 + 6 * HOUR) == [(Move.OPEN, Event.OPENED)]


async def test_a_policy_of_its_own_goes_before_the_default(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people, "ops")
    await add_channel(people, "pager")
    await put_policy(people, "urgent", after=1, notify=["pager"])
    urgent = await add_job(control, "urgent", lane="a", alert_policy="urgent")
    silent = await add_job(control, "silent", lane="b", alert_policy="none")
    await fail(store, control, urgent, T0 + HOUR)
    await fail(store, control, silent, T0 + HOUR, 5)

    assert await results(alerts, T0 + HOUR) == [(Move.OPEN, Event.OPENED)]
    assert [each.channel for each in await messages(database)] == ["pager"]


async def test_a_deleted_or_paused_job_has_no_trouble(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    for number, name in enumerate(("paused", "deleted")):
        job = await add_job(control, name, lane=name)
        await fail(store, control, job, T0 + HOUR, 2)
        assert len(await results(alerts, T0 + HOUR)) == 1
        if number:
            await control.delete_job(job.id, Actor(BY, T0 + HOUR))
        else:
            await control.pause_job(job.id, Actor(BY, T0 + HOUR), note="", until=None, cancel_waiting=False)

        assert await results(alerts, T0 + 2 * HOUR, job.id) == [(Move.RESOLVE, Event.RESOLVED)]


async def test_repeats_come_when_they_are_due_and_only_once(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    await put_policy(people, repeat="4h")
    await fail(store, control, await add_job(control), T0, 2)
    await results(alerts, T0)

    assert not await alerts.has_work(T0 + 4 * HOUR - SECOND)
    assert await alerts.has_work(T0 + 4 * HOUR)
    assert await results(alerts, T0 + 4 * HOUR) == [(Move.REPEAT, Event.REPEATED)]
    assert await results(alerts, T0 + 4 * HOUR) == []
    assert [row["step"] for row in await database.rows("notifications", "step")] == [1, 2]


async def test_people_acknowledge_and_resolve_and_an_ended_incident_never_changes(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await fail(store, control, await add_job(control), T0, 2)
    await results(alerts, T0)
    [view] = await people.incidents(IncidentQuery(("open",)), 10)
    incident_id, ann = view.incident.id, Actor("ann", T0 + MINUTE)

    view = await people.change_incident(
        incident_id, "incident.acknowledge", lambda each: acknowledge(each, "ann", T0 + MINUTE), ann
    )
    assert (view.incident.state, view.incident.acknowledged_by, view.job_name) == ("acknowledged", "ann", "job")
    await people.change_incident(
        incident_id, "incident.resolve", lambda each: resolve_by_hand(each, "ann", T0 + HOUR), ann
    )
    change = people.change_incident(incident_id, "incident.acknowledge", lambda each: each, ann)
    assert await refusal(change) == "incident_changed"
    with pytest.raises(Exception, match="never changes"):
        await database.sql("update hourbell.incidents set error = 'x'")
    actions = [row["action"] for row in await database.rows("audit", "id")]
    assert actions[-2:] == ["incident.acknowledge", "incident.resolve"]


async def test_incidents_of_hourbell_itself_open_and_end_by_their_key(alerts: AlertStore, people: AlertVerbs) -> None:
    await add_channel(people, "ops")
    await add_channel(people, "mail")
    kinds = (IncidentKind.CHANNEL_FAILED,)
    trouble = Trouble("channel:ops", IncidentKind.CHANNEL_FAILED, T0, "HTTP 404", "a")

    opened = await alerts.watch_keys(T0, kinds, [trouble])
    assert [(each.event, each.channels) for each in opened] == [(Event.OPENED, ("mail",))]
    assert await alerts.watch_keys(T0 + SECOND, kinds, [trouble]) == []
    ended: list[WatchResult] = await alerts.watch_keys(T0 + MINUTE, kinds, [])
    assert [(each.move, each.channels) for each in ended] == [(Move.RESOLVE, ("mail",))]


async def test_recovery_mode_holds_the_messages_of_jobs(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    trouble = Trouble("recovery", IncidentKind.RECOVERY, T0, "12 runs are late", "a")
    await alerts.watch_keys(T0, (IncidentKind.RECOVERY,), [trouble])
    await fail(store, control, await add_job(control), T0, 2)

    assert await results(alerts, T0) == [(Move.OPEN, None)]
    await alerts.watch_keys(T0 + MINUTE, (IncidentKind.RECOVERY,), [])
    assert await results(alerts, T0 + MINUTE) == [(Move.NOTIFY, Event.OPENED)]


async def test_a_channel_that_cannot_deliver_is_found_but_not_by_messages_about_channels(
    store: EngineStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    for name in ("ops", "mail"):
        await add_channel(people, name)
    await alerts.watch_keys(
        T0, (IncidentKind.CHANNEL_FAILED,), [Trouble("channel:ops", IncidentKind.CHANNEL_FAILED, T0, "HTTP 404")]
    )
    runs = await store.claim(NODE, T0, T0 + MINUTE, [LaneDemand("channel:mail", 5, 0)])
    await finish(store, runs, BROKEN, T0)
    assert [each.failing_since for each in await alerts.channel_states()] == [None, None]

    test_id = uuid4()
    await people.test_channel("mail", test_id, Message(str(test_id), Event.TEST, T0, "mail"), Actor(BY, T0))
    runs = await store.claim(NODE, T0, T0 + MINUTE, [LaneDemand("channel:mail", 5, 0)])
    assert [run.id for run in runs] == [test_id]
    await finish(store, runs, BROKEN, T0 + HOUR)
    states = {each.channel.name: each for each in await alerts.channel_states()}
    assert states["mail"].failing_since is not None
    assert states["ops"].failing_since is None


async def test_a_channel_is_replaced_and_deleted(people: AlertVerbs, alerts: AlertStore, database: Database) -> None:
    job_id = await add_channel(people)
    assert await add_channel(people, now=T0 + HOUR) == job_id
    await put_policy(people, notify=["ops"])
    run_id = uuid4()
    await people.test_channel("ops", run_id, Message(str(run_id), Event.TEST, T0, "ops"), Actor(BY, T0))

    assert await refusal(people.delete_channel("ops", Actor(BY, T0))) == "channel_in_use"
    assert await people.delete_channel("ops", Actor(BY, T0), force=True)

    assert not await people.delete_channel("ops", Actor(BY, T0))
    assert await alerts.channel("ops") is None
    [run] = await database.rows("runs")
    assert run["state"] == RunState.CANCELLED
    await add_channel(people)
    assert len(await people.channels()) == 1


async def test_a_policy_names_known_channels_only(people: AlertVerbs) -> None:
    change = people.put_policy("default", parse_policy({"notify": ["ops"]}), Actor(BY, T0))

    assert await refusal(change) == "no_such_channel"


async def test_the_streak_counts_failures_since_the_last_success(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)

    async def stats() -> tuple[Any, ...]:
        [row] = await database.rows("job_stats")
        return row["streak"], row["first_failed_at"], row["alert_at"]

    await run_once(store, control, job, Succeeded(), T0)
    assert await stats() == (0, None, None)
    await run_once(store, control, job, BROKEN, T0 + HOUR)
    await run_once(store, control, job, BROKEN, T0 + 2 * HOUR)
    assert await stats() == (2, T0 + HOUR, T0 + 2 * HOUR)
    await run_once(store, control, job, Succeeded(), T0 + 3 * HOUR)
    assert await stats() == (0, None, T0 + 3 * HOUR)


@pytest.mark.parametrize(
    ("ends", "streak", "since"), [("FSF", 1, 2), ("SFF", 2, 1), ("FFS", 0, None), ("SSS", 0, None), ("FFF", 3, 0)]
)
async def test_a_batch_counts_the_failures_after_its_last_success(
    store: EngineStore, control: ControlStore, database: Database, ends: str, streak: int, since: int | None
) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, number) for number in range(len(ends))])
    runs = await store.claim(NODE, T0 + HOUR, T0 + 2 * HOUR, [LaneDemand("task:a", len(ends), 0)])
    batch = [
        settled(run, Succeeded() if end == "S" else BROKEN, T0 + HOUR + number * SECOND)
        for number, (run, end) in enumerate(zip(runs, ends, strict=True))
    ]
    await store.settle(batch)

    [row] = await database.rows("job_stats")
    expected = None if since is None else T0 + HOUR + since * SECOND
    assert (row["streak"], row["first_failed_at"]) == (streak, expected)


async def test_an_expired_run_counts_as_a_failure(
    store: EngineStore, control: ControlStore, alerts: AlertStore, database: Database
) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job)])
    assert len(await store.expire(T0 + 2 * DAY, 10)) == 1

    [row] = await database.rows("job_stats")
    assert (row["streak"], row["first_failed_at"]) == (1, T0 + 2 * DAY)
    [only] = await results(alerts, T0 + 2 * DAY)
    assert only[0] is Move.OPEN  # nobody ever began it


async def test_nodes_and_due_times_are_listed(store: EngineStore, control: ControlStore, alerts: AlertStore) -> None:
    await add_job(control)
    await store.heartbeat(a_node("task:*"), T0, T0 + MINUTE, ())

    [node] = await alerts.nodes()
    assert (node.id, node.host, node.beat_at, node.lanes) == (NODE, "here", T0, ("task:*",))
    assert await alerts.earliest_plan_at() == T0 + MINUTE
    assert await alerts.active_jobs() == 1


async def test_resolved_incidents_are_forgotten_in_time(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await fail(store, control, job, T0, 2)
    await results(alerts, T0)
    assert await alerts.forget(T0 + DAY, 10) == 0
    await run_once(store, control, job, Succeeded(), T0 + HOUR)
    await results(alerts, T0 + HOUR)

    assert await alerts.forget(T0 + HOUR, 10) == 0
    assert await alerts.forget(T0 + HOUR + SECOND, 10) == 1
    assert await database.rows("notifications") == []


async def test_a_watcher_that_finds_nothing_takes_no_lock() -> None:
    async with SqliteDatabase.in_file() as database:
        alerts = database.alerts()
        database.connection.execute("begin immediate").fetchall()
        kinds = [IncidentKind.CHANNEL_FAILED, IncidentKind.UNSERVED]

        assert await asyncio.wait_for(alerts.watch_keys(T0, kinds, []), 5) == []
        assert await asyncio.wait_for(alerts.forget(T0, 10), 5) == 0
        assert not await asyncio.wait_for(alerts.has_work(T0), 5)
        database.connection.execute("rollback").fetchall()


async def test_open_incidents_are_counted_and_listed_newest_first(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    for number in range(3):
        job = await add_job(control, f"job-{number}", lane=f"lane-{number}")
        await fail(store, control, job, T0 + number * HOUR, 2)
        await results(alerts, T0 + number * HOUR)

    assert await alerts.open_incidents() == {"open": 3}
    first = await people.incidents(IncidentQuery(ALL_STATES), 2)
    last = first[-1].incident
    rest = await people.incidents(IncidentQuery(ALL_STATES, after=(last.opened_at, last.id)), 2)
    assert [each.job_name for each in (*first, *rest)] == ["job-2", "job-1", "job-0"]
    found = await people.incident(last.id)
    assert found is not None
    assert found[2] == ["job-1"]


async def test_a_turn_is_taken_by_one_node_until_it_is_old(alerts: AlertStore) -> None:
    first, again = await alerts.take_turn("ping", T0, T0 - MINUTE), await alerts.take_turn("ping", T0, T0 - MINUTE)
    later = await alerts.take_turn("ping", T0 + MINUTE, T0)

    assert (first, again, later) == (True, False, True)
    assert await alerts.last_turn("ping") == T0 + MINUTE
    assert await alerts.last_turn("another") is None


async def test_the_end_of_recovery_mode_sums_up_runs_and_skips(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    kinds = (IncidentKind.RECOVERY,)
    await alerts.watch_keys(T0, kinds, [Trouble("recovery", IncidentKind.RECOVERY, T0, "12 runs are late", "a")])
    await fail(store, control, await add_job(control), T0, 2)
    [ended] = await alerts.watch_keys(T0 + HOUR, kinds, [])

    assert ended.move is Move.RESOLVE
    assert "2 runs ended" in ended.incident.error
    assert "0 succeeded, 2 failed; 0 scheduled times were skipped" in ended.incident.error


async def test_channels_and_policies_have_a_limit(people: AlertVerbs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "MAX_CHANNEL_ROWS", 1)
    monkeypatch.setattr(verbs, "MAX_POLICY_ROWS", 1)
    await add_channel(people, "ops")
    await people.put_policy("default", parse_policy({}), Actor(BY, T0))
    await add_channel(people, "ops")  # a change needs no room
    await people.put_policy("default", parse_policy({"after": 3}), Actor(BY, T0))

    assert await refusal(add_channel(people, "mail")) == "too_many_channels"
    assert await refusal(people.put_policy("other", parse_policy({}), Actor(BY, T0))) == "too_many_alert_policies"


async def test_a_channel_that_is_created_later_learns_of_open_incidents_once(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    job = await add_job(control)
    await fail(store, control, job, T0 + HOUR, 2)
    assert await results(alerts, T0 + HOUR) == [(Move.OPEN, Event.OPENED)]
    assert await messages(database) == []
    await add_channel(people, now=T0 + 2 * HOUR)

    assert await results(alerts, T0 + 2 * HOUR, job.id) == [(Move.NOTIFY, Event.OPENED)]
    assert await results(alerts, T0 + 3 * HOUR, job.id) == []
    await put_policy(people, notify=["ops"])
    assert await results(alerts, T0 + 3 * HOUR, job.id) == []
    assert [(each.channel, each.event) for each in await messages(database)] == [("ops", Event.OPENED)]


async def test_a_channel_that_the_policy_comes_to_notify_learns_of_them_and_the_end_goes_to_both(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    for name in ("ops", "mail"):
        await add_channel(people, name)
    await put_policy(people, notify=["ops"])
    job = await add_job(control)
    await fail(store, control, job, T0 + HOUR, 2)
    await results(alerts, T0 + HOUR)
    await put_policy(people, notify=["mail"])

    found = await asyncio.gather(*(database.alerts().watch_jobs(T0 + 2 * HOUR, 10, [job.id]) for _ in range(4)))
    assert [each.channels for batch in found for each in batch] == [("mail",)]
    await run_once(store, control, job, Succeeded(), T0 + 3 * HOUR)
    [ended] = await alerts.watch_jobs(T0 + 3 * HOUR, 10)
    assert (ended.event, sorted(ended.channels)) == (Event.RESOLVED, ["mail", "ops"])


async def test_a_channel_that_was_corrected_learns_what_it_could_not_deliver(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await fail(store, control, job, T0, 2)
    await results(alerts, T0 + MINUTE)
    runs = await store.claim(NODE, T0 + MINUTE, T0 + HOUR, [LaneDemand("channel:ops", 5, 0)])
    await finish(store, runs, Failed("HTTP 404 Not Found", retryable=False), T0 + 2 * MINUTE)

    assert await results(alerts, T0 + HOUR, job.id) == []
    await add_channel(people, now=T0 + HOUR)
    assert await results(alerts, T0 + HOUR, job.id) == [(Move.NOTIFY, Event.OPENED)]
    assert await results(alerts, T0 + 2 * HOUR, job.id) == []


async def test_an_incident_resolved_by_hand_opens_with_the_next_failure_only_and_does_not_flap(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await fail(store, control, job, T0, 2)
    await results(alerts, T0 + MINUTE)
    await resolve_all(people, T0 + HOUR)

    assert await results(alerts, T0 + HOUR, job.id) == []  # the job is looked at again for another reason
    await fail(store, control, job, T0 + 2 * HOUR)
    assert await results(alerts, T0 + 2 * HOUR) == [(Move.OPEN, Event.OPENED)]


async def test_an_incident_of_a_host_resolved_by_hand_opens_with_the_next_failure_only(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    job = await add_job(control)
    await database.sql(f"update hourbell.jobs set lane = 'https://a:443' where id = {at_id(database, job.id)}")
    await fail(store, control, job, T0, 2)
    await results(alerts, T0)
    await results(alerts, T0 + MINUTE)
    await resolve_all(people, T0 + HOUR)

    assert await results(alerts, T0 + HOUR, job.id) == []
    await fail(store, control, job, T0 + 2 * HOUR)
    assert await results(alerts, T0 + 2 * HOUR) == [(Move.OPEN, None)]
    assert await results(alerts, T0 + 2 * HOUR + GROUP_WAIT) == [(Move.NOTIFY, Event.OPENED)]


async def resolve_all(people: AlertVerbs, now: datetime) -> None:
    for view in await people.incidents(IncidentQuery(("open", "acknowledged")), 10):
        await people.change_incident(
            view.incident.id, "incident.resolve", lambda each: resolve_by_hand(each, "ann", now), Actor("ann", now)
        )


NIGHT = {"from": "09:00", "until": "12:00"}  # T0 is at 09:00


async def test_at_the_end_of_quiet_hours_one_message_says_all_that_waited(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    for name in ("ops", "mail"):
        await add_channel(people, name, T0 - DAY)
    await put_policy(people, notify=["ops", "mail"])
    jobs = [await add_job(control, f"job-{number}", lane=f"lane-{number}") for number in range(4)]
    await fail(store, control, jobs[0], T0 - HOUR, 2)
    await results(alerts, T0 - HOUR)
    await put_policy(people, notify=["ops", "mail"], quiet_hours=NIGHT)
    for job in jobs[1:]:
        await fail(store, control, job, T0 + HOUR, 2)
    assert await results(alerts, T0 + HOUR) == [(Move.OPEN, None)] * 3
    for job in (jobs[0], jobs[3]):
        await run_once(store, control, job, Succeeded(), T0 + 2 * HOUR)
    assert await results(alerts, T0 + 2 * HOUR) == [(Move.RESOLVE, None)] * 2
    assert not await alerts.has_work(T0 + 3 * HOUR - SECOND)
    assert await alerts.end_quiet_hours(T0 + 3 * HOUR - SECOND, 10) == []

    assert await alerts.has_work(T0 + 3 * HOUR)
    watchers = [database.alerts() for _ in range(4)]
    found = await asyncio.gather(*(each.end_quiet_hours(T0 + 3 * HOUR, 10) for each in watchers))
    assert sum(map(len, found)) == 3
    assert not await alerts.has_work(T0 + 3 * HOUR)

    digests = [each for each in await messages(database) if each.event is Event.QUIET_DIGEST]
    assert sorted({each.channel for each in digests}) == ["mail", "ops"]
    assert len({each.id for each in digests}) == 2
    for digest in digests:
        items = sorted((item.incident.jobs, item.event) for item in digest.items)
        assert items == [
            (("job-0",), Event.RESOLVED),
            (("job-1",), Event.OPENED),
            (("job-2",), Event.OPENED),
        ]
    assert len(await database.rows("runs")) - 8 - 2 == 2 + 2  # two messages before the quiet hours, two after
    incidents = {
        each.incident.job_id: each.incident.id for each in await people.incidents(IncidentQuery(ALL_STATES), 9)
    }
    found = await people.incident(incidents[jobs[1].id])
    assert found is not None
    assert sorted((each.channel, each.event) for each in found[1]) == [
        ("mail", "incident.opened"),
        ("ops", "incident.opened"),
    ]
    assert await results(alerts, T0 + 4 * HOUR, *(job.id for job in jobs)) == []


async def test_a_single_incident_that_waited_is_notified_as_usual(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    await put_policy(people, quiet_hours=NIGHT)
    await fail(store, control, await add_job(control), T0, 2)
    await results(alerts, T0)

    [result] = await alerts.end_quiet_hours(T0 + 3 * HOUR, 10)

    assert (result.move, result.event) == (Move.NOTIFY, Event.OPENED)
    [message] = await messages(database)
    assert (message.event, message.job is not None) == (Event.OPENED, True)


async def test_a_digest_that_is_not_committed_is_repeated(
    store: EngineStore, control: ControlStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    await put_policy(people, quiet_hours=NIGHT)
    for number in range(2):
        await fail(store, control, await add_job(control, f"job-{number}", lane=f"lane-{number}"), T0, 2)
    await database.alerts().watch_jobs(T0, 10)
    await database.sql("alter table hourbell.notifications rename to gone")
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the driver says
        await database.alerts().end_quiet_hours(T0 + 3 * HOUR, 10)
    await database.sql("alter table hourbell.gone rename to notifications" if is_postgres(database) else RENAME_BACK)

    assert len(await database.alerts().end_quiet_hours(T0 + 3 * HOUR, 10)) == 2
    [row] = [row for row in await database.rows("runs") if row["lane"] == "channel:ops"]
    assert Message.from_json(row["payload"]).total == 2


async def test_a_receiver_with_a_state_of_its_own_gets_each_message_and_each_end(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    parsed = ParsedChannel("pagerduty", {"type": "pagerduty"}, {}, "https://events.pagerduty.com:443")
    await people.put_channel("pager", parsed, uuid4(), lambda _: [], Actor(BY, T0))
    await put_policy(people, quiet_hours=NIGHT)
    for number in range(2):
        await fail(store, control, await add_job(control, f"job-{number}", lane=f"lane-{number}"), T0, 2)
    await results(alerts, T0)
    await alerts.end_quiet_hours(T0 + 3 * HOUR, 10)
    await resolve_all(people, T0 + 4 * HOUR)

    events = Counter(each.event for each in await messages(database))
    assert events == {Event.OPENED: 2, Event.RESOLVED: 2}


async def test_the_incidents_of_a_job_that_was_removed_are_over(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    jobs = [await add_job(control, f"job-{number}", lane=f"lane-{number}") for number in range(2)]
    await database.sql(f"update hourbell.jobs set lane = 'https://a:443' where id = {at_id(database, jobs[1].id)}")
    for job in jobs:
        await fail(store, control, job, T0, 2)
    await results(alerts, T0)
    for job in jobs:
        await control.delete_job(job.id, Actor(BY, T0 + HOUR))
        assert await control.purge_job(job.id, Actor(BY, T0 + HOUR), limit=100)

    found, _ = await alerts.incident_jobs(None, 10)
    assert sorted(found) == sorted(job.id for job in jobs)
    assert [move for move, _ in await results(alerts, T0 + HOUR, *found)] == [Move.RESOLVE, Move.RESOLVE]
    assert await alerts.open_incidents() == {}


async def test_an_incident_whose_job_gets_another_policy_is_not_said_to_be_over(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    for name in ("one", "two"):
        await put_policy(people, name)
    job = await add_job(control, alert_policy="one")
    await database.sql(f"update hourbell.jobs set lane = 'https://a:443' where id = {at_id(database, job.id)}")
    await fail(store, control, job, T0, 2)
    await results(alerts, T0)
    await results(alerts, T0 + MINUTE)
    await database.sql("update hourbell.jobs set alert_policy = 'two'")

    moves = await results(alerts, T0 + HOUR, job.id)

    assert sorted(moves, key=str) == [(Move.OPEN, None), (Move.REPLACE, None)]
    assert await alerts.open_incidents() == {"open": 1}


async def test_another_jobs_known_error_is_no_news_for_an_acknowledged_host(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs, database: Database
) -> None:
    await add_channel(people)
    jobs = [await add_job(control, f"job-{number}") for number in range(2)]
    await database.sql("update hourbell.jobs set lane = 'https://a:443' where managed_by = 'api'")
    errors = ("connection refused", "no response within the timeout")
    for job, error in zip(jobs, errors, strict=True):
        for _ in range(2):
            await run_once(store, control, job, Failed(error, retryable=False), T0)
    await results(alerts, T0)
    [view] = await people.incidents(IncidentQuery(("open",)), 10)
    ann = Actor("ann", T0 + HOUR)
    await people.change_incident(view.incident.id, "incident.acknowledge", lambda each: acknowledge(each, "a", T0), ann)

    for job, error in zip(jobs, errors, strict=True):
        await run_once(store, control, job, Failed(error, retryable=False), T0 + HOUR)
        assert [move for move, _ in await results(alerts, T0 + HOUR)] in ([], [Move.NOTIFY])
    await run_once(store, control, jobs[0], Failed("HTTP 500", retryable=False), T0 + 2 * HOUR)
    assert [move for move, _ in await results(alerts, T0 + 2 * HOUR)] == [Move.REPLACE, Move.OPEN]

    [incident] = [row for row in await database.rows("incidents") if row["state"] == "open"]
    members = [row for row in await database.rows("incident_jobs") if row["incident_id"] == incident["id"]]
    assert len(members) == 2  # both still fail


async def test_a_late_run_behind_any_number_of_others_is_found_page_by_page(
    store: EngineStore, control: ControlStore, alerts: AlertStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_WAITING_ROWS", 5)
    first = await add_job(control, "first")
    await put_runs(store, first, [new_run(first, number) for number in range(60)])
    others = [await add_job(control, f"job-{number}") for number in range(5)]
    for number, job in enumerate(others):
        await put_runs(store, job, [new_run(job, 100 + number)])
    heads = await alerts.late_jobs(T0 + HOUR, 10)
    assert [late.job_id for late in heads] == [first.id]

    found: set[UUID] = set()
    pages, after = 0, None
    while pages == 0 or after is not None:
        late, after = await alerts.waiting_jobs(T0 + HOUR, after, 2)
        found |= {each.job_id for each in late}
        pages += 1
    assert found == {first.id, *(job.id for job in others)}
    assert pages == 4
    assert (await alerts.waiting_jobs(T0 + MINUTE, None, 10))[0] == []


async def test_waiting_runs_that_do_not_count_hide_no_late_one(
    store: EngineStore, control: ControlStore, alerts: AlertStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_WAITING_ROWS", 5)
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, number) for number in range(20)])
    runs = await store.claim(NODE, T0 + HOUR, T0 + 2 * HOUR, [LaneDemand("task:a", 19, 0)])
    await finish(store, runs, Failed("HTTP 503"), T0 + HOUR)  # they wait to be retried

    assert [each.job_id for each in (await alerts.waiting_jobs(T0 + HOUR, None, 10))[0]] == [job.id]


async def test_a_run_that_is_retried_is_slow_from_its_first_attempt_on_and_never_late(
    store: EngineStore, control: ControlStore, alerts: AlertStore, people: AlertVerbs
) -> None:
    await put_policy(people, on=["slow", "late"], slow_after="10m")
    job = await add_job(control)
    await put_runs(store, job, [new_run(job)])
    runs = await store.claim(NODE, T0, T0 + DAY, [LaneDemand("task:a", 1, 0)])
    await finish(store, runs, Failed("HTTP 503"), T0)  # it is between two attempts from here on

    assert await alerts.slow_jobs(T0, 10) == [job.id]
    assert (await alerts.waiting_jobs(T0 + HOUR, None, 10))[0] == []
    assert await alerts.late_jobs(T0 + HOUR, 10) == []
    assert await results(alerts, T0 + 10 * MINUTE, job.id) == [(Move.OPEN, Event.OPENED)]
    runs = await store.claim(NODE, T0 + 11 * MINUTE, T0 + DAY, [LaneDemand("task:a", 1, 0)])
    assert await results(alerts, T0 + 11 * MINUTE, job.id) == []  # it goes on
    await finish(store, runs, Succeeded(), T0 + 12 * MINUTE)
    assert await results(alerts, T0 + 12 * MINUTE, job.id) == [(Move.RESOLVE, None)]
