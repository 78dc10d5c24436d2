"""Jobs that a program creates and changes at run time, by the same operations of control as the API.

Their owner is `app` with the source of the program. So the synchronization of its decorated jobs leaves them alone, and
other callers change them only by taking them over.
"""

import difflib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID, uuid4, uuid5

from hourbell import clock
from hourbell.answers.base import Answer
from hourbell.control.jobs import Defined, EditOptions, Jobs
from hourbell.control.pages import MAX_PAGE_ITEMS
from hourbell.control.rules import Rules
from hourbell.control.runs import RunFilter, Runs
from hourbell.control.secrets import Secrets
from hourbell.control.user import JobOwner, User
from hourbell.core.access.roles import Role
from hourbell.core.job.body import job_to_body
from hourbell.core.job.definition import Definition
from hourbell.core.job.definition import Job as StoredJob
from hourbell.core.run.states import RunState
from hourbell.core.schedule import Schedule
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.field_errors import BodyError
from hourbell.core.values.ids import parse_id
from hourbell.ids import new_id
from hourbell.library import trouble
from hourbell.library.declaring import (
    Duration,
    JobOptions,
    OnConflict,
    aware,
    changed_body,
    check_function,
    describe,
    duration_of,
    job_body,
    json_of,
    task_target,
)
from hourbell.library.options import check_change_options, check_options
from hourbell.library.refused import Refused
from hourbell.logs import readable_messages
from hourbell.node import prepare
from hourbell.settings import load_settings
from hourbell.store.base import LIVE_FOR
from hourbell.store.control.bundles import APP, owner_text
from hourbell.store.control.secrets import SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.store.lists.query import JobQuery, JobState, JobView, ListPosition, RunView
from hourbell.store.lists.reader import ListStore
from hourbell.targets.task import Task
from hourbell.wiring import open_stores

if TYPE_CHECKING:
    from hourbell.answers.jobs import Job
    from hourbell.answers.runs import Run

A = TypeVar("A", bound=Answer)

_KEYS = UUID("9b1d2f2c-54a4-5a1b-8b53-9f6b1a3f7d21")  # UUIDv5 namespace of names derived from a caller's key
_SOON = timedelta(milliseconds=100)
_TASK_LANE = "task:"
_LAST_ID = UUID(int=2**128 - 1)
_MISSING = ("no_such_job", "no_such_run")
_CONFLICTS = ("error", "update", "keep")
_SHOWN_TASKS = 10
_LIMIT = 100


class Program(Protocol):
    """The program that makes the jobs: its source, its tasks, and the jobs that it defines in its code."""

    @property
    def source(self) -> str: ...
    @property
    def tasks(self) -> Mapping[str, Task]: ...
    @property
    def jobs(self) -> Mapping[str, Definition]: ...
    def name_of(self, function: Callable[..., Any]) -> str: ...


class RunTimeJobs:
    def __init__(
        self,
        program: Program,
        control: ControlStore,
        lists: ListStore,
        secrets: SecretStore,
        *,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID] = new_id,
        live_for: timedelta = LIVE_FOR,
    ) -> None:
        self._program = program
        self._lists = lists
        self._now = now
        self._live_for = live_for
        rules = Rules(forbids=lambda *_: None)
        no_keys = Secrets(secrets, control, None, new_id=new_id, random_bytes=os.urandom)
        self._jobs = Jobs(control, lists, rules=rules, secrets=no_keys, now=now, new_id=new_id)
        self._runs = Runs(control, lists, now=now, new_id=new_id, live_for=live_for)
        owner = JobOwner(APP, program.source)
        self._user = User(owner_text(APP, program.source), Role.ADMIN, owner=owner)

    async def create(
        self,
        name: str,
        schedule: str | Schedule,
        task: Callable[..., Any] | str,
        *,
        on_conflict: OnConflict,
        run_on_create: bool,
        options: JobOptions,
    ) -> "Job":
        check_options(options)
        if on_conflict not in _CONFLICTS:
            raise ValueError(f"on_conflict is {on_conflict!r}; use one of {', '.join(_CONFLICTS)}")
        if not isinstance(name, str):
            raise ValueError(f"a job's name comes first, not {name!r}; write create('digest-7', '0 9 * * *', f)")
        if name in self._program.jobs:
            raise Refused("name_taken", f"the program itself defines a job named {name!r}; use another name")
        called, function = await self._task(task)
        body = job_body(name, schedule, called, function, options)
        with _errors(f"the job {name!r} was not created"):
            if on_conflict == "error":
                return _job(await self._create(body, name, run_on_create=run_on_create))
            keep = on_conflict == "keep"
            return _job(await self._jobs.ensure(body, self._user, keep=keep, run_on_create=run_on_create))

    async def _create(self, body: Mapping[str, Any], name: str, *, run_on_create: bool) -> Defined:
        try:
            return await self._jobs.create(body, self._user, run_on_create=run_on_create)
        except Conflict as conflict:
            if conflict.code != "name_taken":
                raise
            found = await self._lists.job(name)
        if found is None:
            raise Conflict("name_taken", "another job had this name; try again")
        definition = found.job.definition
        if self._user.owner.owns(definition):
            raise Conflict("name_taken", "a job has this name already; use on_conflict='update' or 'keep', or update()")
        owner = owner_text(definition.managed_by, definition.source)
        raise Conflict("name_taken", f"a job of {owner} has this name; use another name")

    async def update(
        self,
        job: str | UUID,
        *,
        schedule: str | Schedule | None,
        task: Callable[..., Any] | str | None,
        name: str | None,
        expect_version: int | None,
        take_over: bool,
        options: JobOptions,
    ) -> "Job":
        check_change_options(options)
        given = None if task is None else await self._task(task)

        def change(stored: StoredJob) -> object:
            body = job_to_body(stored.definition)
            called = stored.definition.target.get("name") if given is None else given[0]
            known = self._program.tasks.get(str(called))
            changed = changed_body(
                body, schedule, None if given is None else given[0], None if known is None else known.function, options
            )
            return changed if name is None else {**changed, "name": name}

        with _errors(f"the job {str(job)!r} was not changed"):
            edit = EditOptions(expect_version, take_over=take_over)
            return _job(await self._jobs.edit(job, change, self._user, edit))

    async def pause(self, job: str | UUID, *, note: str, until: datetime | None, cancel_waiting: bool) -> "Job":
        end = None if until is None else aware("until", until)
        with _errors(f"the job {str(job)!r} was not paused"):
            view = await self._jobs.pause(str(job), self._user, note=note, until=end, cancel_waiting=cancel_waiting)
            return _job(Defined(view))

    async def resume(self, job: str | UUID, *, catch_up: bool) -> "Job":
        with _errors(f"the job {str(job)!r} was not resumed"):
            return _job(Defined(await self._jobs.resume(str(job), self._user, catch_up=catch_up)))

    async def delete(self, job: str | UUID, *, take_over: bool) -> None:
        with _errors(f"the job {str(job)!r} was not deleted"):
            await self._jobs.delete(str(job), self._user, take_over=take_over)

    async def cancel(self, run: str | UUID) -> bool:
        run_id = run if isinstance(run, UUID) else parse_id(run)
        if run_id is None:
            raise LookupError(f"{run!r} is not the id of a run")
        with _errors(f"the run {run_id} was not cancelled"):
            return await self._runs.cancel(run_id, self._user)

    async def get(self, job: str | UUID) -> "Job":
        with _errors(f"the job {str(job)!r} was not read"):
            return _job(Defined(await self._jobs.get(str(job))))

    async def list(
        self,
        *,
        q: str | None = None,
        tag: str | None = None,
        subject: str | None = None,
        state: str | None = None,
        all_owners: bool = False,
        after: str | None = None,
        limit: int = _LIMIT,
    ) -> "tuple[Job, ...]":
        _check_limit(limit)
        if state is not None and state not in tuple(JobState):
            raise ValueError(f"state is {state!r}; use one of {', '.join(JobState)}")
        owner = self._user.owner
        query = JobQuery(
            prefix=q,
            tag=tag,
            subject=subject,
            state=None if state is None else JobState(state),
            managed_by=None if all_owners else owner.managed_by,
            source=None if all_owners else owner.source,
        )
        position = None if after is None else ListPosition(after, _LAST_ID)
        found = await self._lists.jobs(query, limit, position, self._now())
        return tuple(_listed_job(view) for view in found)

    async def runs(
        self,
        job: str | UUID,
        *,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = _LIMIT,
    ) -> "tuple[Run, ...]":
        _check_limit(limit)
        if state is not None and state not in tuple(RunState):
            raise ValueError(f"state is {state!r}; use one of {', '.join(RunState)}")
        start = None if since is None else aware("since", since)
        end = None if until is None else aware("until", until)
        with _errors(f"the runs of {str(job)!r} were not read"):
            job_id = (await self._jobs.get(str(job), deleted=True)).job.id
            wanted = RunFilter(None if state is None else RunState(state), job_id, start, end)
            page = await self._runs.page(wanted, limit)
            waits_for = await self._runs.waits_for(page.items)
        return tuple(_listed_run(view, waits_for.get(view.id)) for view in page.items)

    async def trigger(self, job: str, payload: object, key: str | None) -> UUID:
        payload = json_of("the payload", payload)
        try:
            return await self._jobs.trigger(job, self._user, payload=payload, key=key)
        except Conflict as conflict:
            if conflict.code == "no_such_job" and job in self._program.jobs:
                hint = "the jobs that a program defines are stored when its scheduler starts"
                raise LookupError(f"there is no job {job!r} in the database; {hint}") from None
            raise LookupError(str(conflict)) from None

    async def once(
        self,
        task: Callable[..., Any] | str,
        *,
        at: datetime | None,
        delay: Duration | None,
        args: Mapping[str, object],
        payload: object,
        timeout: Duration,
        name: str | None,
        key: str | None,
    ) -> str:
        called = self._called(task, args)
        instant = self._instant(at, delay)
        name = name or _once_name(called, uuid4() if key is None else uuid5(_KEYS, f"{self._program.source}/{key}"))
        body = {
            "name": name,
            "schedule": f"at {rfc3339(instant)}",
            "target": task_target(called, json_of("args", dict(args)), timeout),
            "payload": json_of("the payload", payload),
        }
        try:
            await self._jobs.create(body, self._user)
        except BodyError as error:
            raise ValueError(describe(error)) from None
        except Conflict as conflict:
            if key is None or not await self._calls(name, called):
                raise Refused(conflict.code, f"{name!r} cannot be called once: {conflict}") from None
        return name

    async def _calls(self, name: str, task: str) -> bool:
        """Return True if the job with this name calls the task: an earlier call with the same key created it."""
        target = (await self._jobs.get(name)).job.definition.target
        return (target.get("type"), target.get("name")) == ("task", task)

    def _called(self, task: Callable[..., Any] | str, args: Mapping[str, object]) -> str:
        """Return the name of a task; raise ValueError if the function is no task, or is known and rejects the args."""
        name = task if isinstance(task, str) else self._program.name_of(task)
        known = self._program.tasks.get(name)
        if known is None and not isinstance(task, str):
            raise ValueError(f"{name} is not a task; write @scheduler.task() above it")
        if known is not None:
            check_function(name, known.function, args)
        return name

    async def _task(self, task: Callable[..., Any] | str) -> tuple[str, Callable[..., Any] | None]:
        """Return the name of a task, and its function if the program has it.

        Raises ValueError if the function is no task, or if neither the program nor a live node has a task of the name.
        """
        if not isinstance(task, str):
            name = self._program.name_of(task)
            known = self._program.tasks.get(name)
            if known is None:
                raise ValueError(f"{name} is not a task; write @scheduler.task() above it")
            return name, known.function
        known = self._program.tasks.get(task)
        if known is not None:
            return task, known.function
        nodes = await self._lists.nodes(self._now() - self._live_for)
        served = {lane.removeprefix(_TASK_LANE) for node in nodes for lane in node.lanes if lane.startswith(_TASK_LANE)}
        if task not in served:
            raise ValueError(f"no task is named {task[:100]!r}; {_near(task, served.union(self._program.tasks))}")
        return task, None

    def _instant(self, at: datetime | None, delay: Duration | None) -> datetime:
        if (at is None) == (delay is None):
            raise ValueError("give either at= (an aware datetime) or delay= (such as '90s')")
        now = self._now()
        if at is None:
            assert delay is not None
            at = now + duration_of("delay", delay)
        at = max(
            aware("at", at).astimezone(UTC), now + _SOON
        )  # a job never fires for past times: move a past one to just after now
        return at.replace(microsecond=0) + (timedelta(seconds=1) if at.microsecond else timedelta(0))


@asynccontextmanager
async def open_run_time(program: Program, database_url: str | None) -> AsyncIterator[RunTimeJobs]:
    """Open the database for calls from a process in which the scheduler does not run, and close it afterwards.

    Raises StoreUnavailable, which says what to do, if it cannot be opened.
    """
    settings = load_settings(arguments={"database_url": database_url}, refuse_misspelled=False)
    with readable_messages():
        stores = open_stores(settings)
        try:
            try:
                ahead = await prepare(stores) - clock.now()
            except StoreUnavailable as error:
                what, why, advice = trouble.with_database(settings, error)
                raise StoreUnavailable(f"{what} ({settings.database}): {why}; {advice}") from error
            yield RunTimeJobs(
                program,
                stores.control,
                stores.lists,
                stores.secrets,
                now=lambda: clock.now() + ahead,
                live_for=max(LIVE_FOR, settings.lease),
            )
        finally:
            await stores.close()


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Convert errors of control: LookupError for what does not exist, Refused or ValueError for the others."""
    try:
        yield
    except BodyError as error:
        raise ValueError(describe(error)) from None
    except Conflict as conflict:
        if conflict.code in _MISSING:
            raise LookupError(str(conflict)) from None
        raise Refused(conflict.code, f"{what}: {conflict}") from None


def _job(defined: Defined) -> "Job":
    from hourbell.answers.jobs import Job
    from hourbell.api import render

    return _read(Job, render.job(defined.view))


def _listed_job(view: JobView) -> "Job":
    from hourbell.answers.jobs import Job
    from hourbell.api import render

    return _read(Job, render.listed_job(view))


def _listed_run(view: RunView, waits_for: str | None) -> "Run":
    from hourbell.answers.runs import Run
    from hourbell.api import render

    return _read(Run, render.listed_run(view, waits_for))


def _read(kind: type[A], rendered: Mapping[str, Any]) -> A:
    """Return the answer that the API would send, as the client reads it."""
    from hourbell.client.reading import read

    return read(kind, json.loads(json.dumps(rendered)))


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE_ITEMS:
        raise ValueError(f"limit is {limit}; write 1 to {MAX_PAGE_ITEMS}, and continue after the last one")


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(near)}?"
    if not names:
        return "write @scheduler.task() above its function"
    shown = ", ".join(names[:_SHOWN_TASKS])
    return f"there is {shown}{', …' if len(names) > _SHOWN_TASKS else ''}"


def _once_name(task: str, number: UUID) -> str:
    """Return a name for a job that calls a task once."""
    return f"once-{re.sub('[^A-Za-z0-9_]+', '-', task)[-50:].strip('-')}-{number.hex[:16]}"
