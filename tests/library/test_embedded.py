"""A scheduler in this process, on both databases: what runs, what is triggered, what is called once."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiosmtpd.smtp import SMTP, Envelope

from hourbell import Run, Scheduler
from hourbell.core.alerts.channel import ParsedChannel
from hourbell.sealing import KeyRing, Plain
from hourbell.settings import load_settings
from hourbell.store.control.actor import Actor
from hourbell.store.errors import StoreUnavailable
from hourbell.wiring import open_stores
from tests.servers.ledger import Ledger

pytestmark = pytest.mark.anyio

Seen = asyncio.Queue[Any]


async def soon(what: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(what, 20)


def kept_in(seen: Seen) -> Callable[..., Any]:
    """A function that records its arguments."""

    async def keep(run: Run, **args: object) -> None:
        seen.put_nowait((run, args))

    return keep


@pytest.fixture
def seen() -> Seen:
    return asyncio.Queue()


async def test_a_job_runs_while_its_block_does(scheduler: Scheduler, seen: Seen, ledger: Ledger) -> None:
    scheduler.register("tick", "* * * * * *", kept_in(seen), args={"of": "clock"})

    async with scheduler:
        first, args = await soon(seen.get())
        second, _ = await soon(seen.get())

    assert (first.job, args, first.attempt) == ("tick", {"of": "clock"}, 1)
    assert second.scheduled_at == first.scheduled_at + timedelta(seconds=1)
    assert await ledger.rows("select id from hourbell.nodes") == []
    assert {state for (state,) in await ledger.rows("select state from hourbell.runs")} == {"succeeded"}


async def test_it_may_be_entered_again_but_not_twice(scheduler: Scheduler) -> None:
    async with scheduler:
        with pytest.raises(RuntimeError, match="this scheduler runs already; it runs once in a process"):
            async with scheduler:
                pass
    async with scheduler:
        pass


async def test_it_stops_in_order_where_asyncio_checks_every_call(
    scheduler: Scheduler, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # the heartbeat's event loop is made with it

    async with scheduler:
        assert len(await ledger.rows("select id from hourbell.nodes")) == 1
    assert await ledger.rows("select id from hourbell.nodes") == []


async def test_a_trigger_runs_a_job_now_and_once_for_each_key(scheduler: Scheduler, seen: Seen, ledger: Ledger) -> None:
    scheduler.register("report", "@yearly", kept_in(seen), payload={"days": 30})

    async with scheduler:
        keyed = [await scheduler.trigger("report", {"days": 1}, key="monday") for _ in range(2)]
        run, _ = await soon(seen.get())
        plain = await scheduler.trigger("report")
        other, _ = await soon(seen.get())

    assert (keyed, run.payload) == ([run.id, run.id], {"days": 1})
    assert (plain, other.payload) == (other.id, {"days": 30})
    assert len(await ledger.rows("select id from hourbell.runs")) == 2


async def test_a_function_identifies_its_one_job(scheduler: Scheduler, seen: Seen) -> None:
    report = kept_in(seen)
    scheduler.register("report", "@yearly", report)

    async with scheduler:
        asked = await scheduler.trigger(report)
        assert (await soon(seen.get()))[0].id == asked
        with pytest.raises(LookupError, match=r"stranger has no job; write its name, or call it by scheduler\.once"):
            await scheduler.trigger(stranger)
    scheduler.register("another", "@yearly", report)
    async with scheduler:
        with pytest.raises(LookupError, match="has the jobs report, another; write the name of one of them"):
            await scheduler.trigger(report)


@pytest.mark.parametrize("engine", [True, False])
async def test_a_job_defined_too_late_is_refused(ledger: Ledger, engine: bool) -> None:
    scheduler = Scheduler("shop", database_url=ledger.url, engine=engine)
    says = "the scheduler runs already, and would not run 'late'; define jobs before it starts, or make one with create"

    async with scheduler:
        with pytest.raises(RuntimeError, match=says):
            scheduler.register("late", "* * * * * *", stranger)
        with pytest.raises(RuntimeError, match=says):
            scheduler.job("* * * * * *", name="late")(stranger)
        assert (list(scheduler.jobs), list(scheduler.tasks)) == ([], [])
    scheduler.register("late", "* * * * * *", stranger)


async def test_a_start_that_failed_leaves_time_for_more_jobs(home: Path) -> None:
    scheduler = Scheduler("shop", database_url=f"sqlite:///{home}/nowhere/hourbell.db")

    with pytest.raises(StoreUnavailable):
        async with scheduler:
            pass
    scheduler.register("late", "@yearly", stranger)

    assert list(scheduler.jobs) == ["late"]


@pytest.mark.parametrize("task_context", [None, nullcontext], ids=["alone", "in a framework"])
async def test_a_task_may_be_defined_while_the_scheduler_runs(
    scheduler: Scheduler, seen: Seen, task_context: Any
) -> None:
    scheduler.task_context = task_context

    async with scheduler:
        late = scheduler.task(kept_in(seen), name="late")
        name = await scheduler.once(late, delay="0s")
        run, _ = await soon(seen.get())

    assert run.job == name


async def test_a_job_of_another_owner_is_reported_once_for_each_start(
    ledger: Ledger, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = (Scheduler(source, database_url=ledger.url) for source in ("theirs", "ours"))
    for each in (theirs, ours):
        each.register("report", "@yearly", kept_in(seen))

    async with theirs:
        for times in (1, 2):
            async with ours:
                await asyncio.sleep(0.5)  # a second look at the jobs comes right after the start
            assert (
                len([text for text in caplog.messages if text.startswith("job_owned_by_another job=report")]) == times
            )


async def test_a_trigger_that_is_impossible_says_why(scheduler: Scheduler, seen: Seen) -> None:
    scheduler.register("report", "@yearly", kept_in(seen))

    with pytest.raises(
        LookupError, match="no job 'report' in the database; the jobs that a program defines are stored"
    ):
        await scheduler.trigger("report")
    async with scheduler:
        with pytest.raises(LookupError, match="there is no job 'reports'"):
            await scheduler.trigger("reports")
        with pytest.raises(ValueError, match="the payload must be JSON"):
            await scheduler.trigger("report", object())
        with pytest.raises(
            ValueError, match=r"the payload has 5,000,002 bytes of JSON, and at most 1,048,576 \(1 MiB\) are"
        ):
            await scheduler.trigger("report", "x" * 5_000_000)


async def test_a_task_is_called_once_at_its_time(scheduler: Scheduler, seen: Seen) -> None:
    scheduler.task(kept_in(seen), name="remind")
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)

    async with scheduler:
        name = await scheduler.once("remind", at=at, args={"whom": "Ada"}, payload=[1])
        run, args = await soon(seen.get())

    assert (run.job, run.scheduled_at, args, run.payload) == (name, at, {"whom": "Ada"}, [1])


@pytest.mark.parametrize(
    "when", [{"delay": "0s"}, {"delay": timedelta(milliseconds=1)}, {"at": datetime(2020, 1, 1, tzinfo=UTC)}]
)
async def test_a_call_that_is_due_already_is_made_at_once(
    scheduler: Scheduler, seen: Seen, when: dict[str, Any]
) -> None:
    scheduler.task(kept_in(seen), name="remind")

    async with scheduler:
        name = await scheduler.once("remind", **when)
        run, _ = await soon(seen.get())

    assert run.job == name


async def test_a_function_is_called_by_the_name_its_task_has(scheduler: Scheduler, seen: Seen) -> None:
    remind = scheduler.task(name="reminders.send")(kept_in(seen))
    scheduler.register("daily", "@daily", remind)

    async with scheduler:
        name = await scheduler.once(remind, delay="0s")
        run, _ = await soon(seen.get())

    assert (run.job, run.definition.target["name"]) == (name, "reminders.send")
    assert (scheduler.jobs["daily"].lane, list(scheduler.tasks)) == ("task:reminders.send", ["reminders.send"])


async def test_the_same_key_makes_one_call(scheduler: Scheduler, seen: Seen, ledger: Ledger) -> None:
    scheduler.task(kept_in(seen), name="remind")

    async with scheduler:
        names = {await scheduler.once("remind", delay="1h", key="order-17") for _ in range(2)}
        other = await scheduler.once("remind", delay="1h", key="order-18")
        named = await scheduler.once("remind", delay="1h", name="reminder")

    assert (len(names), named) == (1, "reminder")
    assert {name for (name,) in await ledger.rows("select name from hourbell.jobs")} == {*names, other, named}


def registered(run: Run, whom: str) -> None: ...


def stranger(run: Run) -> None: ...


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        (stranger, {"delay": "1m"}, "is not a task; write @scheduler.task"),
        (registered, {"delay": "1m"}, "missing a required argument: 'whom'"),
        (registered, {"delay": "1m", "args": {"whom": 1, "why": 2}}, "unexpected keyword argument 'why'"),
        (registered, {"delay": "1m", "args": {"whom": object()}}, "args must be JSON"),
        (registered, {"delay": "1m", "args": ["Ada"]}, "args must be keyword arguments, not list"),
        (7, {"delay": "1m"}, "7 is not a function"),
        (registered, {"args": {"whom": 1}}, "give either at= (an aware datetime) or delay="),
        (registered, {"args": {"whom": 1}, "at": datetime(2026, 1, 1)}, "write an aware datetime"),  # noqa: DTZ001
        (
            registered,
            {"args": {"whom": 1}, "at": "2026-12-01T00:00:00Z"},
            "at is '2026-12-01T00:00:00Z'; write an aware",
        ),
        (registered, {"delay": "1m", "args": {"whom": "x" * 1_048_576}}, "1,048,576 (1 MiB) are taken"),
        (
            registered,
            {"args": {"whom": 1}, "delay": "1m", "payload": "x" * 1_048_576},
            "the payload has 1,048,578 bytes",
        ),
        (registered, {"args": {"whom": 1}, "delay": "soon"}, "delay is 'soon'; write a timedelta or text such as"),
        (registered, {"args": {"whom": 1}, "delay": "1m", "name": "has space"}, "'has space' cannot be a job's name"),
    ],
)
async def test_a_call_that_cannot_work_is_refused_where_it_is_made(
    scheduler: Scheduler, task: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    scheduler.task(registered)

    async with scheduler:
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is what matters
            await scheduler.once(task, **options)

    assert says in str(refused.value)


async def test_a_name_that_another_job_has_is_refused(scheduler: Scheduler, seen: Seen) -> None:
    scheduler.task(registered)
    scheduler.register("report", "@yearly", kept_in(seen))
    how: dict[str, Any] = {"delay": "1h", "args": {"whom": "Ada"}}

    async with scheduler:
        await scheduler.once(registered, name="reminder", **how)
        for taken in ({"name": "reminder"}, {"name": "report"}, {"name": "report", "key": "order-17"}):
            with pytest.raises(ValueError, match="cannot be called once: another job has this name"):
                await scheduler.once(registered, **how, **taken)


async def test_without_an_engine_others_run_what_is_asked_for(ledger: Ledger, seen: Seen) -> None:
    web, worker = (Scheduler("shop", database_url=ledger.url, engine=is_worker) for is_worker in (False, True))
    for each in (web, worker):
        each.register("report", "@yearly", kept_in(seen))
        each.task(kept_in(seen), name="remind")

    async with web:
        asked = await web.trigger("report", key="1")
        reminder = await web.once("remind", delay="0s")
        await asyncio.sleep(1.5)
        assert await ledger.rows("select id from hourbell.nodes") == []
        assert seen.empty()
        async with worker:
            runs = [(await soon(seen.get()))[0] for _ in range(2)]

    assert {run.job for run in runs} == {"report", reminder}
    assert asked in {run.id for run in runs}
    assert isinstance(asked, UUID)


async def test_a_job_that_was_undefined_for_a_while_does_not_fire_for_the_past(ledger: Ledger, seen: Seen) -> None:
    before, without, after = (Scheduler("shop", database_url=ledger.url) for _ in range(3))
    for each in (before, after):
        each.task(kept_in(seen), name="tick")
        each.register("old", "* * * * * *", each.tasks["tick"].function)
    without.task(stranger)

    async with before:
        await soon(seen.get())
    await asyncio.sleep(2)  # what it misses meanwhile
    async with without:
        assert await ledger.rows("select enabled from hourbell.jobs where enabled") == []
    while not seen.empty():
        seen.get_nowait()
    came_back_at = datetime.now(UTC)
    async with after:
        run, _ = await soon(seen.get())

    assert run.scheduled_at > came_back_at
    assert set(await ledger.rows("select state from hourbell.runs")) == {("succeeded",)}
    assert set(await ledger.rows("select reason from hourbell.skips")) == {("paused",)}


async def test_an_unreachable_database_is_reported_to_the_block() -> None:
    scheduler = Scheduler("shop", database_url="postgresql://127.0.0.1:1/shop")

    with pytest.raises(StoreUnavailable):
        async with scheduler:
            pass
    with pytest.raises(StoreUnavailable, match=r"the database is unreachable \(.*; check that it can be reached"):
        await scheduler.trigger("report")


async def test_a_misspelled_variable_stops_no_program_and_is_logged(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOURBELL_ALOW_NETWORKS", "10.0.0.0/8")
    async with scheduler:
        pass

    [reported] = [vars(record) for record in caplog.records if "variable_unknown" in str(record.msg)]
    assert reported["hint"].endswith("did you mean HOURBELL_ALLOW_NETWORKS?")


class Mailbox:
    """An SMTP server's handler that keeps the subjects of what it gets."""

    def __init__(self) -> None:
        self.subjects: asyncio.Queue[str] = asyncio.Queue()

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        del server, session
        assert isinstance(envelope.content, bytes)
        self.subjects.put_nowait(str(message_from_bytes(envelope.content)["Subject"]))
        return "250 OK"


async def test_a_program_delivers_its_own_alerts(
    scheduler: Scheduler, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = Mailbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(mailbox), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("HOURBELL_SMTP_URL", f"smtp://127.0.0.1:{port}?tls=none")
    monkeypatch.setenv("HOURBELL_SMTP_FROM", "hourbell@example.com")
    stores = open_stores(load_settings(arguments={"database_url": ledger.url}))
    await stores.migrate()
    config = {"type": "email", "to": ["ops@example.com"]}
    by = Actor("test", datetime.now(UTC))
    await stores.alert_control.put_channel("mail", ParsedChannel("email", config, {}, None), uuid4(), lambda _: [], by)
    slack = ParsedChannel("slack", {"type": "slack"}, {"url": "x"}, "https://hooks.slack.com:443")
    sealed = KeyRing([b"k" * 32], os.urandom).seal(Plain("x"), uuid4(), job := uuid4(), "url", slack.origin)
    await stores.alert_control.put_channel("chat", slack, job, lambda _: [sealed], by)
    await stores.close()

    async def fail(run: Run) -> None:
        del run
        raise RuntimeError("no disk space")

    scheduler.register("backup", "@yearly", fail, retry="none")  # so rare that one failure is enough
    async with server, scheduler:
        await scheduler.trigger("backup")
        subject = await soon(mailbox.subjects.get())
        [(lanes,)] = await ledger.rows("select lanes from hourbell.nodes")

    assert subject == "backup failed"
    assert "channel:mail" in str(lanes)
    assert "channel:chat" not in str(lanes)  # it has no key for its secret
