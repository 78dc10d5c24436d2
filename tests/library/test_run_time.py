"""Jobs that a program creates and changes while it runs, before, during and after its start."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest

from hourbell import Refused, Run, Schedule, Scheduler
from hourbell.store.errors import StoreUnavailable
from tests.servers.ledger import Ledger

pytestmark = pytest.mark.anyio

Seen = asyncio.Queue[Any]
on_both = pytest.mark.parametrize("ledger", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def seen() -> Seen:
    return asyncio.Queue()


@pytest.fixture
def scheduler(ledger: Ledger, seen: Seen) -> Scheduler:
    scheduler = Scheduler("shop", database_url=ledger.url)

    @scheduler.task(name="remind")
    async def remind(run: Run, user: int = 0) -> None:
        "Remind a user."
        seen.put_nowait((run, user))

    return scheduler


def stranger(run: Run) -> None: ...


async def soon(seen: Seen) -> Any:
    return await asyncio.wait_for(seen.get(), 20)


@on_both
async def test_a_job_is_created_while_the_scheduler_runs_and_fires(
    scheduler: Scheduler, seen: Seen, ledger: Ledger
) -> None:
    async with scheduler:
        job = await scheduler.create(
            "remind-7", "* * * * * *", "remind", args={"user": 7}, timezone="Europe/Paris", subject="user-7", tags=["a"]
        )
        run, user = await soon(seen)

    assert (run.job, user) == ("remind-7", 7)
    assert (job.name, job.managed_by, job.source, job.version) == ("remind-7", "app", "shop", 1)
    assert (job.timezone, job.subject, job.tags, job.description) == (
        "Europe/Paris",
        "user-7",
        ("a",),
        "Remind a user.",
    )
    assert job.next_at is not None
    assert await ledger.rows("select actor, action from hourbell.audit") == [("app:shop", "job.create")]


@on_both
async def test_a_job_is_changed_paused_resumed_and_deleted(scheduler: Scheduler, ledger: Ledger) -> None:
    async with scheduler:
        await scheduler.create("remind-7", "0 9 * * *", "remind", args={"user": 7}, payload={"a": 1}, timeout="1m")
        changed = await scheduler.update("remind-7", schedule="0 10 * * *", timezone="Asia/Tokyo", args={"user": 8})
        paused = await scheduler.pause("remind-7", note="on holiday")
        resumed = await scheduler.resume("remind-7")
        same = await scheduler.update("remind-7", timezone="Asia/Tokyo")
        reset = await scheduler.update(resumed.id, payload=None, timezone="UTC", name="remind-8")
        await scheduler.delete("remind-8")
        with pytest.raises(LookupError, match="there is no job 'remind-8'"):
            await scheduler.get("remind-8")

    target = {"type": "task", "name": "remind", "args": {"user": 8}, "timeout": "1m"}
    assert (changed.schedule, changed.timezone, changed.target) == ("0 10 * * *", "Asia/Tokyo", target)
    assert (changed.payload, changed.version, paused.state) == ({"a": 1}, 2, "paused")
    assert paused.paused is not None
    assert (paused.paused.note, paused.paused.by) == ("on holiday", "app:shop")
    assert (resumed.state, same.version) == ("active", resumed.version)
    assert (reset.name, reset.payload, reset.timezone, reset.managed_by) == ("remind-8", None, "UTC", "app")
    actions = [action for (action,) in await ledger.rows("select action from hourbell.audit order by id")]
    assert actions == ["job.create", "job.edit", "job.pause", "job.resume", "job.edit", "job.delete"]


@on_both
async def test_a_script_needs_no_start(scheduler: Scheduler, ledger: Ledger) -> None:
    made = await scheduler.create("one", "@daily", "remind")
    job, run = await scheduler.get("one"), await scheduler.trigger("one", key="1")
    [listed] = await scheduler.runs("one")
    assert await scheduler.cancel(run) is True
    [cancelled] = await scheduler.runs("one", state="cancelled")
    await scheduler.delete("one")

    assert (made, listed.id, listed.state, cancelled.id) == (job, run, "pending", run)
    assert await scheduler.list() == ()
    assert await ledger.rows("select id from hourbell.nodes") == []


async def test_a_script_without_an_event_loop_needs_no_start_either(scheduler: Scheduler, seen: Seen) -> None:
    def script() -> tuple[Any, ...]:
        blocking = scheduler.blocking
        blocking.create("one", "@daily", "remind", args={"user": 1}, run_on_create=True)
        blocking.update("one", schedule="@weekly")
        blocking.pause("one")
        blocking.resume("one")
        blocking.create("two", "@daily", "remind")
        blocking.delete("two")
        waiting = blocking.trigger("one")
        return blocking.get("one").schedule, blocking.cancel(waiting), [each.name for each in blocking.list()]

    assert await asyncio.to_thread(script) == ("@weekly", True, ["one"])
    with pytest.raises(RuntimeError, match=r"async code would wait for itself; write await scheduler\."):
        scheduler.blocking.list()
    async with scheduler:
        _, user = await soon(seen)
        assert [run.state for run in await asyncio.to_thread(scheduler.blocking.runs, "one", state="cancelled")] == [
            "cancelled"
        ]
    assert user == 1


async def test_another_event_loop_may_ask_the_one_where_it_runs(scheduler: Scheduler) -> None:
    async with scheduler:
        made = await asyncio.to_thread(lambda: asyncio.run(scheduler.create("one", "@daily", "remind")))
        assert await scheduler.get("one") == made


async def test_in_a_thread_it_serves_every_caller(scheduler: Scheduler, seen: Seen) -> None:
    scheduler.start()
    try:
        await scheduler.create("one", "* * * * * *", "remind", args={"user": 1})
        assert (await soon_of_thread(seen))[1] == 1
        await asyncio.to_thread(scheduler.blocking.delete, "one")
        assert await scheduler.list() == ()
    finally:
        await asyncio.to_thread(scheduler.stop)


async def soon_of_thread(seen: Seen) -> Any:
    """The queue belongs to another event loop, so it is polled."""
    for _ in range(400):
        if not seen.empty():
            return seen.get_nowait()
        await asyncio.sleep(0.05)
    raise AssertionError


async def test_the_tasks_function_may_be_given_and_a_schedule_as_a_value(scheduler: Scheduler) -> None:
    called = scheduler.task(stranger)
    every_monday = Schedule.parse("0 9 * * 1", timezone="Europe/Paris", dst="wall")

    job = await scheduler.create("one", every_monday, called)
    changed = await scheduler.update("one", schedule=Schedule.parse("0 8 * * *"), task="remind", args={"user": 3})

    assert (job.schedule, job.timezone, job.dst) == ("0 9 * * 1", "Europe/Paris", "wall")
    assert job.target["name"] == f"{__name__}.stranger"
    assert (changed.schedule, changed.timezone, changed.dst) == ("0 8 * * *", "UTC", "once")
    assert (changed.target["name"], changed.target["args"]) == ("remind", {"user": 3})


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("one", "0 9 * * 8", "remind"), "invalid schedule: day-of-week field, column 9: 8 is outside 0-7"),
        (("no spaces", "@daily", "remind"), "'no spaces' cannot be a job's name"),
        (("one", "@daily", "remnd"), "no task is named 'remnd'; did you mean remind?"),
        (("one", "@daily", "zzz"), "no task is named 'zzz'; there is remind"),
        (("one", "@daily", stranger), "stranger is not a task; write @scheduler.task() above it"),
        (("one", "@daily", 7), "7 is not a function"),
        ((stranger, "@daily", "remind"), "a job's name comes first"),
        (("one", Schedule.parse("H 9 * * *", name="two"), "remind"), "has H resolved for the name 'two'"),
    ],
)
async def test_a_job_that_cannot_work_is_refused(scheduler: Scheduler, given: Any, says: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is what matters
        await scheduler.create(*given)

    assert says in str(refused.value)
    assert await scheduler.list(all_owners=True) == ()


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"args": {"usr": 1}}, "unexpected keyword argument 'usr'"),
        ({"args": {"user": object()}}, "the args of 'one' must be JSON"),
        ({"timezone": "Europe/Pari"}, "Europe/Pari"),
        ({"timezon": "Europe/Paris"}, "there is no option timezon; did you mean timezone?"),
        ({"replace_existing": True}, "create() takes on_conflict='update'"),
        ({"overlap": "never"}, "overlap"),
        ({"starts_at": datetime(2026, 1, 1)}, "write an aware datetime"),  # noqa: DTZ001
        ({"payload": "x" * 1_048_577}, "(1 MiB) are taken"),
        ({"timezone": "UTC", "schedule": Schedule.parse("@daily", timezone="Asia/Tokyo")}, "not 'UTC'; use one"),
    ],
)
async def test_an_option_is_refused_alike_in_create_and_update(
    scheduler: Scheduler, options: dict[str, Any], says: str
) -> None:
    await scheduler.create("one", "@daily", "remind")
    schedule = options.pop("schedule", "@daily")

    for call in (
        lambda: scheduler.create("one", schedule, "remind", on_conflict="update", **options),
        lambda: scheduler.update("one", schedule=schedule, **options),
    ):
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is what matters
            await call()
        assert says in str(refused.value)
    assert (await scheduler.get("one")).version == 1


async def test_a_task_of_another_live_program_may_be_named(scheduler: Scheduler, ledger: Ledger, seen: Seen) -> None:
    web = Scheduler("web", database_url=ledger.url)

    with pytest.raises(ValueError, match=r"no task is named 'remind'; write @scheduler\.task\(\) above its function"):
        await web.create("one", "* * * * * *", "remind")
    async with scheduler:
        await web.create("one", "* * * * * *", "remind", args={"user": 5})
        assert (await soon(seen))[1] == 5


@pytest.mark.parametrize("on_conflict", ["error", "update", "keep"])
async def test_a_name_that_is_taken_is_an_error_an_update_or_kept(
    scheduler: Scheduler, on_conflict: Literal["error", "update", "keep"], ledger: Ledger
) -> None:
    first = await scheduler.create("one", "@daily", "remind", on_conflict=on_conflict)
    await scheduler.pause("one")

    async def again() -> Any:
        return await scheduler.create("one", "@weekly", "remind", on_conflict=on_conflict, run_on_create=True)

    if on_conflict == "error":
        with pytest.raises(Refused, match="a job has this name already; use on_conflict='update' or 'keep'") as refused:
            await again()
        assert refused.value.code == "name_taken"
    else:
        second = await again()
        assert (second.id, second.state) == (first.id, "paused")
        assert second.schedule == ("@weekly" if on_conflict == "update" else "@daily")
    assert await ledger.rows("select id from hourbell.runs") == []


@on_both
async def test_creating_at_once_in_many_workers_makes_one_job(ledger: Ledger) -> None:
    workers = [Scheduler("shop", database_url=ledger.url) for _ in range(4)]
    for worker in workers:
        worker.task(stranger, name="remind")

    made = await asyncio.gather(
        *(worker.create("one", "@daily", "remind", on_conflict="update", run_on_create=True) for worker in workers)
    )

    assert len({job.id for job in made}) == 1
    assert await ledger.rows("select kind, state from hourbell.runs") == [("manual", "pending")]
    assert [job.version for job in await workers[0].list()] == [1]


async def test_a_job_that_is_to_run_on_create_runs_once_at_once(
    scheduler: Scheduler, seen: Seen, ledger: Ledger
) -> None:
    async with scheduler:
        job = await scheduler.create("one", "@yearly", "remind", run_on_create=True, payload={"hello": "you"})
        run, _ = await soon(seen)
        await scheduler.create("two", "@yearly", "remind", on_conflict="keep", run_on_create=True)
        await scheduler.create("two", "@yearly", "remind", on_conflict="keep", run_on_create=True)
        assert (await soon(seen))[0].job == "two"
        [again] = [await scheduler.trigger("one", key="first")]
        assert (await soon(seen))[0].id == again  # no key of a caller leads to the first run

    assert (run.job_id, run.kind, run.payload) == (job.id, "manual", {"hello": "you"})
    assert again != run.id
    actions = [action for (action,) in await ledger.rows("select action from hourbell.audit order by id")]
    assert actions == ["job.create", "job.trigger", "job.create", "job.trigger", "job.trigger"]


async def test_decorated_jobs_and_jobs_at_run_time_leave_each_other_alone(
    scheduler: Scheduler, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.register("nightly", "@daily", stranger)
    with pytest.raises(Refused, match="the program itself defines a job named 'nightly'; use another name"):
        await scheduler.create("nightly", "@daily", "remind")
    async with scheduler:
        await scheduler.create("mine", "@daily", "remind")
    other = Scheduler("store", database_url=ledger.url)
    other.task(stranger, name="remind")
    with pytest.raises(Refused, match="a job of code:shop has this name; use another name"):
        await other.create("nightly", "@daily", "remind")
    with pytest.raises(Refused, match="a job of app:shop has this name; use another name"):
        await other.create("mine", "@daily", "remind")
    with pytest.raises(Refused, match="the job belongs to app:shop"):
        await other.create("mine", "@daily", "remind", on_conflict="keep")
    with pytest.raises(Refused, match="the job belongs to app:shop, whose program created it"):
        await other.delete("mine")
    with pytest.raises(Refused, match="the job belongs to code:shop, which would put it back"):
        await scheduler.update("nightly", schedule="@weekly")

    later = Scheduler("shop", database_url=ledger.url, undefined_jobs="delete")
    later.register("mine", "@daily", stranger)
    async with later:
        await asyncio.sleep(0.3)

    rows = await ledger.rows("select name, managed_by, source from hourbell.jobs where deleted_at is null")
    assert [tuple(row) for row in rows] == [("mine", "app", "shop")]
    assert any("job_owned_by_another job=mine" in text and "owner=app:shop" in text for text in caplog.messages)


async def test_another_owner_is_changed_only_by_taking_over(scheduler: Scheduler, ledger: Ledger) -> None:
    other = Scheduler("store", database_url=ledger.url)
    other.task(stranger, name="remind")
    await scheduler.create("one", "@daily", "remind")

    taken = await other.update("one", schedule="@weekly", take_over=True)
    with pytest.raises(Refused):
        await scheduler.delete("one")
    await scheduler.delete("one", take_over=True)

    assert (taken.managed_by, taken.source, taken.schedule) == ("app", "store", "@weekly")


async def test_the_list_has_the_programs_own_jobs_page_by_page(scheduler: Scheduler, ledger: Ledger) -> None:
    async with scheduler:
        for number in range(5):
            await scheduler.create(f"job-{number}", "@daily", "remind", subject=f"user-{number % 2}", tags=["x"])
        await scheduler.pause("job-4")
        other = Scheduler("store", database_url=ledger.url)
        other.task(stranger, name="remind")
        await other.create("theirs", "@daily", "remind")

        first = await scheduler.list(limit=3)
        rest = await scheduler.list(limit=3, after=first[-1].name)
        found = {
            "subject": await scheduler.list(subject="user-1"),
            "tag": await scheduler.list(tag="x", q="job-1"),
            "state": await scheduler.list(state="paused"),
            "all": await scheduler.list(all_owners=True, q="the"),
        }
        for limit in (0, 501):
            with pytest.raises(ValueError, match=f"limit is {limit}; write 1 to 500"):
                await scheduler.list(limit=limit)

    assert [job.name for job in (*first, *rest)] == [f"job-{number}" for number in range(5)]
    assert {name: [job.name for job in jobs] for name, jobs in found.items()} == {
        "subject": ["job-1", "job-3"],
        "tag": ["job-1"],
        "state": ["job-4"],
        "all": ["theirs"],
    }


async def test_a_missing_job_or_run_is_a_lookup_error(scheduler: Scheduler) -> None:
    await scheduler.create("one", "@daily", "remind")
    run = await scheduler.trigger("one")
    await scheduler.cancel(run)

    for call in (
        lambda: scheduler.update("two", schedule="@daily"),
        lambda: scheduler.pause("two"),
        lambda: scheduler.resume("two"),
        lambda: scheduler.delete(uuid4()),
        lambda: scheduler.runs("two"),
        lambda: scheduler.cancel(uuid4()),
        lambda: scheduler.cancel("no-id"),
    ):
        with pytest.raises(LookupError):
            await call()
    with pytest.raises(Refused, match="the run has already ended") as refused:
        await scheduler.cancel(run)
    assert refused.value.code == "run_ended"
    with pytest.raises(Refused, match="the job is at version 1, not 3"):
        await scheduler.update("one", schedule="@weekly", expect_version=3)
    with pytest.raises(ValueError, match=r"update does not change enabled; call pause\(\) or resume\(\)"):
        await scheduler.update("one", enabled=False)
    with pytest.raises(ValueError, match="until is"):
        await scheduler.pause("one", until="tomorrow")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`until` is in the past"):
        await scheduler.pause("one", until=datetime.now(UTC) - timedelta(hours=1))


async def test_a_call_that_was_scheduled_once_can_be_taken_back(scheduler: Scheduler) -> None:
    name = await scheduler.once("remind", delay="1h", args={"user": 1})

    assert (await scheduler.get(name)).managed_by == "app"
    await scheduler.delete(name)
    assert await scheduler.list() == ()


async def test_a_fork_of_a_running_scheduler_opens_its_own_connection(scheduler: Scheduler, home: Path) -> None:
    async with scheduler:
        await scheduler.create("one", "@daily", "remind")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                scheduler.blocking.create("two", "@daily", "remind")
                os.write(write, json.dumps([job.name for job in scheduler.blocking.list()]).encode())
            finally:
                os._exit(0)
        os.close(write)
        found = await asyncio.to_thread(os.read, read, 1_000)
        await asyncio.to_thread(os.waitpid, child, 0)

    assert json.loads(found) == ["one", "two"]
    assert home.is_dir()


async def test_a_database_that_cannot_be_opened_is_named_with_what_to_do(home: Path) -> None:
    scheduler = Scheduler("shop", database_url=f"sqlite:///{home}/nowhere/hourbell.db")
    scheduler.task(stranger, name="remind")

    with pytest.raises(StoreUnavailable, match=r"there is no folder .*nowhere; create it"):
        await scheduler.create("one", "@daily", "remind")
