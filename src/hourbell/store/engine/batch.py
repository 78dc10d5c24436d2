"""The rows that the planner writes in one transaction: runs, skips, and the new state of their jobs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import Plan, Skip
from hourbell.core.run.policies import Delivery, Overlap
from hourbell.core.run.run import NewRun
from hourbell.store.rows import definition_text


class RunRow(NamedTuple):
    """A run to insert, with the columns it takes from its job."""

    job_id: UUID
    job_version: int
    run: NewRun
    lane: str
    exclusive: bool
    at_most_once: bool
    payload: str | None = None

    @classmethod
    def of(cls, job: Job, run: NewRun, payload: object = None) -> "RunRow":
        definition = job.definition
        return cls(
            job.id,
            job.version,
            run,
            definition.lane,
            definition.overlap is not Overlap.ALLOW,
            definition.delivery is Delivery.AT_MOST_ONCE,
            None if payload is None else json.dumps(payload),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """The plans of one pass, sorted by the table they are written to."""

    plans: tuple[Plan, ...]

    @property
    def runs(self) -> list[RunRow]:
        return [RunRow.of(plan.job, run) for plan in self.plans for run in plan.runs]

    @property
    def skips(self) -> list[tuple[UUID, Skip]]:
        return [(plan.job.id, skip) for plan in self.plans for skip in plan.skips]

    @property
    def current(self) -> list[Plan]:
        """The plans of current job versions."""
        return [plan for plan in self.plans if plan.job.change_id is None]

    @property
    def superseded(self) -> list[tuple[int | None, UUID, datetime | None, datetime | None, bool]]:
        """The change, job, cursor, next planning time and completion flag of each version that plain SQL replaced."""
        return [
            (plan.job.change_id, plan.job.id, plan.cursor_at, plan.plan_at, plan.ends_version)
            for plan in self.plans
            if plan.job.change_id is not None
        ]

    def versions(self, unsaved: Mapping[UUID, datetime], now: datetime) -> list[tuple[UUID, int, str, datetime]]:
        """Return id, version, definition and start of validity of each job version to store."""
        return [
            (
                plan.job.id,
                plan.job.version + plan.resumes,
                definition_text(_as_planned(plan)),
                now if plan.resumes else unsaved[plan.job.id],
            )
            for plan in self.plans
            if plan.resumes or plan.job.id in unsaved
        ]

    def unasked(self, unsaved: Mapping[UUID, datetime]) -> list[tuple[UUID, int, str, str, str]]:
        """Return the changes that no API call made, for the audit: made by plain SQL, or by the end of a pause.

        Each has the id, version and definition, the actor, and the id as text.
        """
        by_sql = [
            (plan.job.id, plan.job.version, definition_text(plan.job.definition), "sql", str(plan.job.id))
            for plan in self.plans
            if plan.job.id in unsaved
        ]
        return by_sql + [
            (plan.job.id, plan.job.version + 1, definition_text(_as_planned(plan)), "engine", str(plan.job.id))
            for plan in self.plans
            if plan.resumes
        ]

    @property
    def superseding(self) -> list[Plan]:
        return [plan for plan in self.plans if plan.cancels_others]

    @property
    def skipped(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, skip in self.skips:
            counts[skip.reason] = counts.get(skip.reason, 0) + skip.count
        return counts

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        return tuple((plan.job.definition.name, plan.error) for plan in self.plans if plan.error)


def _as_planned(plan: Plan) -> Definition:
    return replace(plan.job.definition, enabled=True) if plan.resumes else plan.job.definition
