"""Lists alone: each page that the API can ask for as one statement written by hand, which its index serves.

A statement fetches the columns that ours does, and makes nothing of the rows. `{…}` stands for what the databases write
differently; values are named, and bound.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.run.states import RunState
from hourbell.store.lists.query import JobQuery, JobSort, JobState, ListPosition, RunList, RunQuery
from hourbell.store.lists.reader import ListStore

LIMIT = 50
T0 = datetime(2100, 1, 1, tzinfo=UTC)  # nothing is due while this is read
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BUSY_JOB = UUID(int=7)
_STATS = (
    "s.last_run_id, s.last_run_at, s.last_state, s.last_error, s.last_success_at, s.succeeded, s.failed, s.cancelled"
)
_SPELLED = {
    "PostgreSQL": {
        "waits": "r.state not in ('running', 'succeeded', 'failed', 'cancelled')",
        "pending": "r.state not in ('retrying', 'running', 'succeeded', 'failed', 'cancelled')",
        "expires": "r.expires_at > '-infinity'",
        "by_expiry": "r.expires_at, r.id",
        "past_expiry": "(r.expires_at, r.id) > (:at, :id)",
        "t": "hourbell.",
        "name": 'j.name collate "C"',
        "type": "j.target ->> 'type'",
    },
    "SQLite": {
        "waits": "r.state in ('pending', 'retrying')",
        "pending": "r.state in ('pending', 'retrying') and r.state = 'pending'",
        "expires": "true",
        "by_expiry": "r.expires_at, r.rowid",
        "past_expiry": "(r.expires_at, r.rowid) > (:at, (select rowid from {t}runs where id = :id) collate binary)",
        "t": "hourbell_",
        "name": "j.name",
        "type": "json_extract(j.target, '$.type')",
    },
}

Ask = Callable[[ListStore], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Question:
    """A list: how the store is asked, and the bare statement with its values. `path` asks for it over HTTP."""

    name: str
    ask: Ask
    statement: str
    values: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None

    def on(self, database: str) -> str:
        """The statement as this database writes it."""
        text = self.statement
        for slot, spelled in _SPELLED[database].items():
            text = text.replace(f"{{{slot}}}", spelled)
        return text


def questions(jobs: int, runs: int) -> list[Question]:
    """Every list and filter, each with a page from the middle where there is one."""
    return [*_jobs(jobs), *_runs(runs), *_single(jobs)]


def _jobs(count: int) -> list[Question]:
    middle = count // 2
    name, job_id = f"job-{middle:08}", UUID(int=middle)
    at = T0 + timedelta(seconds=middle // 10)
    by_name, by_id, by_next = ListPosition(name, job_id), ListPosition(None, job_id), ListPosition(at, job_id)
    there, is_past = "j.deleted_at is null", "{name} > :after"
    past = {"after": name}
    tagged = "{t}job_tags t join {t}jobs j on j.id = t.job_id"
    ended = f"""(select * from {{t}}job_stats l where l.last_state = :result and l.job_id > :id
        order by l.last_state, l.job_id limit {LIMIT}) l join {{t}}jobs j on j.id = l.job_id"""
    fires = "j.plan_at is not null and j.enabled and j.error is null and j.next_at is not null"

    def page(
        title: str, query: JobQuery, position: ListPosition, where: str, path: str | None = None, **more: Any
    ) -> Question:
        source, order = more.pop("source", "{t}jobs j"), more.pop("order", "{name}")
        statement = f"""select j.*, {_STATS} from
            (select j.* from {source} where {where} order by {order} limit {LIMIT}) j
            left join {{t}}job_stats s on s.job_id = j.id"""
        return Question(title, lambda lists: lists.jobs(query, LIMIT, position), statement, more, path)

    def named(title: str, query: JobQuery, where: str, **more: Any) -> Question:
        return page(title, query, by_name, f"{there} and {is_past} and {where}", **past, **more)

    prefix = name[:-3]
    return [
        page("jobs", JobQuery(), by_name, f"{there} and {is_past}", f"/api/v1/jobs?limit={LIMIT}", **past),
        page("by id", JobQuery(sort=JobSort.ID), by_id, f"{there} and j.id > :id", order="j.id", id=job_id),
        page(
            "by next scheduled time",
            JobQuery(sort=JobSort.NEXT),
            by_next,
            f"{there} and {fires} and (j.plan_at, j.id) > (:at, :id)",
            order="j.plan_at, j.id",
            at=at,
            id=job_id,
        ),
        page(
            "that fire before a time",
            JobQuery(sort=JobSort.NEXT, next_before=at + HOUR),
            by_next,
            f"{there} and {fires} and (j.plan_at, j.id) > (:at, :id) and j.next_at < :end",
            order="j.plan_at, j.id",
            at=at,
            id=job_id,
            end=at + HOUR,
        ),
        named(
            "of a prefix",
            JobQuery(prefix=prefix),
            "{name} >= :prefix and {name} < :end",
            path=f"/api/v1/jobs?limit={LIMIT}&q={prefix}",
            prefix=prefix,
            end=prefix + "\x7f",
        ),
        *(
            page(
                f"of a {tag} tag",
                JobQuery(tag=tag),
                by_name,
                "t.tag = :tag and t.name > :after",
                source=tagged,
                order="t.name",
                tag=tag,
                **past,
            )
            for tag in ("common", "rare")
        ),
        named("active", JobQuery(state=JobState.ACTIVE), "j.enabled and j.error is null"),
        named("paused", JobQuery(state=JobState.PAUSED), "not j.enabled"),
        named("in error", JobQuery(state=JobState.ERROR), "j.error is not null"),
        named("of target http", JobQuery(target="http"), "{type} = 'http'"),
        named("of target task", JobQuery(target="task"), "{type} = 'task' and {type} <> 'http'"),
        named("of the API", JobQuery(managed_by="api"), "j.managed_by = 'api'"),
        named(
            "of a file",
            JobQuery(managed_by="file", source="source-1"),
            "j.managed_by = 'file' and j.managed_by <> 'api' and j.source = 'source-1'",
        ),
        named("of all code", JobQuery(managed_by="code"), "j.managed_by = 'code'"),
        *(
            page(
                f"that {result} last",
                JobQuery(sort=JobSort.ID, last_result=result),
                by_id,
                there,
                source=ended,
                order="l.last_state, l.job_id",
                result=result,
                id=job_id,
            )
            for result in ("failed", "succeeded")
        ),
    ]


def _runs(count: int) -> list[Question]:
    middle, run_id = T0 + timedelta(seconds=count // 2), UUID(int=count // 2)
    position, by_expiry = ListPosition(middle, run_id), ListPosition(middle + DAY, run_id)
    up, down = "(r.scheduled_at, r.id) > (:at, :id)", "(r.finished_at, r.id) < (:at, :id)"
    forward, waiting, backward = "r.scheduled_at, r.id", "{by_expiry}", "r.finished_at desc, r.id desc"
    of_job = "r.job_id = :job and (r.scheduled_at, r.id) < (:at, :id)"
    newest = "r.scheduled_at desc, r.id desc"

    def page(title: str, query: RunQuery, where: str, order: str, path: str | None = None, **more: Any) -> Question:
        after = by_expiry if order == waiting else position
        values = {"at": after.key, "id": after.id, **more}
        return Question(title, lambda lists: lists.runs(query, LIMIT, after), _page(where, order), values, path)

    def ended(title: str, where: str, path: str | None = None, **query: Any) -> Question:
        span = {name: query[name] for name in ("since", "until") if name in query}
        return page(title, RunQuery(RunList.ENDED, **query), f"{where} and {down}", backward, path, **span)

    def of_busy(title: str, where: str, path: str | None = None, **query: Any) -> Question:
        asked = RunQuery(RunList.OF_JOB, job_id=BUSY_JOB, **query)
        return page(title, asked, f"{of_job} and {where}", newest, path, job=BUSY_JOB)

    between = "r.finished_at is not null and r.finished_at >= :since and r.finished_at < :until"
    return [
        page("runs: running", RunQuery(RunList.RUNNING), f"r.state = 'running' and {up}", forward),
        page("waiting", RunQuery(RunList.WAITING), "{waits} and {expires} and {past_expiry}", waiting),
        page(
            "pending",
            RunQuery(RunList.WAITING, state=RunState.PENDING),
            "{pending} and {expires} and {past_expiry}",
            waiting,
        ),
        page(
            "retrying",
            RunQuery(RunList.WAITING, state=RunState.RETRYING),
            "r.state = 'retrying' and {past_expiry}",
            waiting,
        ),
        ended("ended", "r.finished_at is not null", f"/api/v1/runs?limit={LIMIT}"),
        ended("ended in an hour", between, since=middle - HOUR, until=middle),
        ended("succeeded", "r.finished_at is not null and r.state = 'succeeded'", state=RunState.SUCCEEDED),
        ended("dead letters", "r.state = 'failed' and r.cleared_at is null", state=RunState.FAILED),
        ended("cancelled", "r.state = 'cancelled'", state=RunState.CANCELLED),
        of_busy("of a busy job", "1 = 1"),
        of_busy("its failed ones", "r.state in ('failed', 'cancelled') and r.state = 'failed'", state=RunState.FAILED),
        of_busy("its pending ones", "{pending}", state=RunState.PENDING),
        Question(
            "stuck",
            lambda lists: lists.stuck_runs(middle, LIMIT),
            _page("{waits} and {expires} and r.ready_at < :at", waiting),
            {"at": middle},
        ),
    ]


def _single(count: int) -> list[Question]:
    job_id = UUID(int=count // 2)
    versions = """select version, definition, changed_at, changed_by from {t}job_versions where job_id = :id
        order by version desc limit 50"""
    return [
        Question(
            "a job by name",
            lambda lists: lists.job(f"job-{count // 2:08}"),
            f"""select j.*, {_STATS} from {{t}}jobs j left join {{t}}job_stats s on s.job_id = j.id
                where {{name}} = :name and j.deleted_at is null""",
            {"name": f"job-{count // 2:08}"},
            f"/api/v1/jobs/job-{count // 2:08}",
        ),
        Question("a run", lambda lists: lists.run(job_id), _page("r.id = :id", "r.id"), {"id": job_id}),
        Question("versions of a job", lambda lists: lists.versions(job_id, LIMIT), versions, {"id": job_id}),
    ]


def _page(where: str, order: str) -> str:
    return f"""select r.*, j.name as job_name, v.definition, c.run_id is not null as is_cancel_requested from
        (select r.* from {{t}}runs r where {where} order by {order} limit {LIMIT}) r
        left join {{t}}jobs j on j.id = r.job_id
        left join {{t}}job_versions v on v.job_id = r.job_id and v.version = r.job_version
        left join {{t}}cancels c on c.run_id = r.id"""
