"""Build the statement of a page from a fixed table of SQL fragments, according to the query.

Both databases have fragments with the same names in their `lists.sql`. Values from callers are only ever bound as
parameters. One fragment, the walk, selects the rows and their order, so that an index serves each page.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from hourbell.core.run.plan import RESCAN_DELAY
from hourbell.core.run.states import RunState
from hourbell.store.lists.query import MAX_LISTED_BYTES, JobQuery, JobSort, JobState, ListPosition, RunList, RunQuery

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")  # not the type in a cast, such as ::uuid
_PARTS = (
    *("job_columns", "job_totals", "job_joins", "job_is_done"),  # the totals show whether a job is done
    *("run_columns", "run_definition", "definition_columns", "audit_columns"),
    *("job_is_failing", "job_is_losing", "is_lost", "was_lost", "lost_hour"),
)
_LIMITS = {
    "max_bytes": str(MAX_LISTED_BYTES),
    "certain_bytes": str(8 * MAX_LISTED_BYTES),  # binary JSON takes at most a few times the bytes of its text
    "error_length": "500",  # of the error of a run on the time line
}
_AFTER_EVERY_NAME = "\x7f"  # names are ASCII
_JOB_ORDERS = {
    JobSort.NAME: "jobs_by_name_order",
    JobSort.NEXT: "jobs_by_next_order",
    JobSort.ID: "jobs_by_id_order",
}
_JOB_STATES = {
    JobState.ACTIVE: "job_is_active",
    JobState.DONE: "job_is_done",
    JobState.PAUSED: "job_is_paused",
    JobState.ERROR: "job_is_in_error",
}
_BY_IDS = {JobSort.NAME: "jobs_by_ids", JobSort.NEXT: "jobs_by_ids_and_next"}
_WAITING = {RunState.PENDING: "runs_pending", RunState.RETRYING: "runs_retrying"}
_UNFINISHED_OF_JOB = {
    RunState.RUNNING: "runs_running",
    RunState.PENDING: "runs_pending_of_job",
    RunState.RETRYING: "runs_retrying_of_job",
}
_TIMES = {RunList.ENDED: "ended", RunList.OF_JOB: "of_job", RunList.OF_SUBJECT: "of_job"}
_ENDED = {RunState.FAILED: "runs_failed", RunState.CANCELLED: "runs_cancelled"}
# If the condition were repeated, PostgreSQL would underestimate the rows, or use an index with another order.
_OF_ONE_STATE = {"runs_pending", "runs_pending_of_job", "runs_retrying_of_job"}


def with_columns(fragments: Mapping[str, str]) -> dict[str, str]:
    """Fill in the fragments that lists share, and the limit on values, in every statement that names them."""
    parts = {name: fragments[name] for name in _PARTS}
    return {name: _filled(_filled(text, parts), _LIMITS) for name, text in fragments.items()}


def _filled(text: str, slots: Mapping[str, str]) -> str:
    for slot, content in slots.items():
        text = text.replace(f"{{{slot}}}", content)
    return text


@dataclass(frozen=True, slots=True)
class Page:
    """A page's fragments, by name, and the values they bind."""

    walk: str
    sort: str  # The order of the page itself; the walk may be ordered by a table that is not part of it.
    conditions: tuple[str, ...]
    values: Mapping[str, Any]

    def statement(self, fragments: Mapping[str, str], frame: str) -> str:
        """Return the fragments inserted into the frame of that name."""
        conditions = " and ".join(fragments[name] for name in self.conditions)
        slots = {"from": self.walk, "order": f"{self.walk}_order", "sort": self.sort}
        # Conditions come last, because a walk may repeat them.
        filled = {slot: fragments[name] for slot, name in slots.items()} | {"where": conditions}
        return _filled(fragments[frame], filled)


@cache
def numbered(statement: str, mark: str) -> tuple[str, tuple[str, ...]]:
    """Replace named parameters by numbered ones with that prefix; return the names in order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(statement)))
    return _PARAMETER.sub(lambda found: f"{mark}{names.index(found[1]) + 1}", statement), names


@dataclass(frozen=True, slots=True)
class Choice:
    """Further conditions on the jobs of a page. If there are `ids`, only these jobs can meet the conditions."""

    conditions: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    ids: Sequence[UUID] | None = None


_EVERY_JOB = Choice()


def job_page(query: JobQuery, limit: int, after: ListPosition | None, choice: Choice = _EVERY_JOB) -> Page:
    """Return the page for a query of jobs."""
    walk = _job_walk(query)
    values: dict[str, Any] = {"limit": limit, **choice.values}
    if choice.ids is not None and query.sort in _BY_IDS:
        walk = _BY_IDS[query.sort]
        values["ids"] = list(choice.ids)
    has_own_index = _has_index_of_its_own(query, walk) or "job_is_paused" in choice.conditions
    conditions = ["job_is_there" if has_own_index else "job_is_not_deleted"]
    conditions += choice.conditions
    if query.managed_by is None:
        conditions.append("job_is_no_system_job")
    if query.names is not None:
        conditions.append("job_names")
        values["names"] = list(query.names)
    if query.prefix:
        conditions.append("job_tag_prefix" if walk == "jobs_by_tag" else "job_prefix")
        values |= {"prefix": query.prefix, "prefix_end": query.prefix + _AFTER_EVERY_NAME}
    if query.tag is not None:
        conditions.append("job_tag" if walk == "jobs_by_tag" else "job_has_tag")
        values["tag"] = query.tag
    if query.state is not None:
        conditions.append(_JOB_STATES[query.state])
    if query.target is not None:
        conditions.append("job_is_http" if query.target == "http" else "job_target")
        values["target"] = query.target
    if query.managed_by is not None:
        conditions.append("job_is_of_api" if query.managed_by == "api" else "job_managed_by")
        values["managed_by"] = query.managed_by
    if query.source is not None:
        conditions.append("job_source")
        values["source"] = query.source
    if query.subject is not None:
        conditions.append("job_subject")
        values["subject"] = query.subject
    if query.last_result is not None:
        conditions.append("job_result" if walk == "jobs_by_result" else "job_has_result")
        values["last_result"] = query.last_result
    if query.sort is JobSort.NEXT:
        conditions.append("job_will_fire")
    if query.next_before is not None:
        # A job with too much backlog is planned again later than its next scheduled time.
        conditions += ["job_will_fire", "job_next_before"]
        values |= {"next_before": query.next_before, "plan_before": query.next_before + RESCAN_DELAY}
    if after is not None:
        conditions.append(f"{walk}_after")
        values |= {"after_key": after.key, "after_id": after.id}
    return Page(walk, _JOB_ORDERS[query.sort], tuple(dict.fromkeys(conditions)), values)


def _has_index_of_its_own(query: JobQuery, walk: str) -> bool:
    """Return True if an index holds exactly the jobs in the query. The indexes over all names and ids include deleted
    jobs.
    """
    if query.sort is JobSort.ID:
        return False
    is_of_all = query.state in (None, JobState.ACTIVE) and query.next_before is None
    is_of_most = query.target in (None, "http") and query.managed_by in (None, "api")
    return walk != "jobs_by_name" or not (is_of_all and is_of_most)


def _job_walk(query: JobQuery) -> str:
    if query.sort is JobSort.NEXT:
        return "jobs_by_next"
    if query.sort is JobSort.ID:
        return "jobs_by_id" if query.last_result is None else "jobs_by_result"
    return "jobs_by_name" if query.tag is None else "jobs_by_tag"


def run_page(query: RunQuery, limit: int, after: ListPosition | None) -> Page:
    """Return the page for a query of runs."""
    walk, selection = _run_walk(query)
    conditions = [selection]
    if query.runs is not RunList.OF_JOB:
        conditions.append("run_is_no_notification")
    values: dict[str, Any] = {"limit": limit}
    if query.runs is RunList.OF_JOB:
        conditions.append("run_job")
        values["job_id"] = query.job_id
    if query.subject is not None:
        conditions += ["run_subject"] if query.runs is RunList.OF_JOB else []
        values["subject"] = query.subject
    if query.state is not None and selection not in _OF_ONE_STATE:
        conditions.append("run_state")
        values["state"] = query.state.value
    kind = _TIMES.get(query.runs, "scheduled")
    for name, instant in (("since", query.since), ("until", query.until)):
        if instant is not None:
            conditions.append(f"run_{kind}_{name}")
            values[name] = instant
    if after is not None:
        conditions.append(f"{walk}_after")
        values |= {"after_key": after.key, "after_id": after.id}
    return Page(walk, f"{walk}_order", tuple(conditions), values)


def _run_walk(query: RunQuery) -> tuple[str, str]:
    """Choose the order of the walk, and the part of the query that has an index in that order."""
    match query.runs:
        case RunList.RUNNING:
            return "runs_by_schedule", "runs_running"
        case RunList.WAITING:
            return "runs_by_expiry", "runs_waiting" if query.state is None else _WAITING.get(
                query.state, "runs_waiting"
            )
        case RunList.ENDED:
            return "runs_by_end", "runs_ended" if query.state is None else _ENDED.get(query.state, "runs_ended")
    walk = "runs_of_job" if query.runs is RunList.OF_JOB else "runs_of_subject"
    if query.state in _UNFINISHED_OF_JOB:
        return walk, _UNFINISHED_OF_JOB[query.state]
    return walk, "runs_unsuccessful" if query.state in _ENDED else "runs_all"


def run_times_pages(
    job_id: UUID,
    states: Collection[RunState] | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    after: ListPosition | None,
) -> list[Page]:
    """The pages that together have the runs of a job in these states, each by an index that holds few others."""
    conditions = ["run_job"]
    values: dict[str, Any] = {"job_id": job_id, "limit": limit}
    if since is not None:
        conditions.append("run_scheduled_since")
        values["since"] = since
    # SQLite takes one upper bound for its index, so only the lower of the two is said.
    if until is not None and (after is None or _instant(after) >= until):
        conditions.append("run_scheduled_until")
        values["until"] = until
    elif after is not None:
        conditions.append("runs_of_job_after")
        values |= {"after_key": after.key, "after_id": after.id}
    return [
        Page("runs_of_job", "runs_of_job_order", (*selection, *conditions), values | more)
        for selection, more in _selections_of_job(states)
    ]


def _instant(position: ListPosition) -> datetime:
    assert isinstance(position.key, datetime)
    return position.key


def _selections_of_job(states: Collection[RunState] | None) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """The conditions that select runs of a job by state; runs in other states may be among them if most are wanted."""
    if states is None or RunState.SUCCEEDED in states:
        return [(("runs_all",), {})]
    found: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((name,), {}) for state, name in _UNFINISHED_OF_JOB.items() if state in states
    ]
    unsuccessful = [state.value for state in _ENDED if state in states]
    if len(unsuccessful) == len(_ENDED):
        found.append((("runs_unsuccessful",), {}))
    elif unsuccessful:
        found.append((("runs_unsuccessful", "run_state"), {"state": unsuccessful[0]}))
    return found
