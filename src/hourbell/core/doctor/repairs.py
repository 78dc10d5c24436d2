"""SQL statements that repair defects, in each database's dialect. They are shown to operators, never run."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from hourbell.core.run.run import scheduled_run_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Dialect(StrEnum):
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    @property
    def is_sqlite(self) -> bool:
        return self is Dialect.SQLITE

    def table(self, name: str) -> str:
        return f"hourbell_{name}" if self.is_sqlite else f"hourbell.{name}"

    def id(self, given: UUID) -> str:
        return f"x'{given.hex}'" if self.is_sqlite else f"'{given}'"

    def instant(self, at: datetime) -> str:
        return str((at - _EPOCH) // _MICROSECOND) if self.is_sqlite else f"'{at.isoformat()}'"

    def local(self, at: datetime) -> str:
        """Format a local time, which has no time zone."""
        return self.instant(at.replace(tzinfo=UTC)) if self.is_sqlite else f"'{at.isoformat()}'"

    @property
    def now(self) -> str:
        return "cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000" if self.is_sqlite else "now()"

    def end_lease(self, run: UUID) -> str:
        owner = "randomblob(16)" if self.is_sqlite else "gen_random_uuid()"
        broken = " and state = 'running' and (lease_owner is null or lease_until is null or attempt < 1)"
        values = f"lease_owner = coalesce(lease_owner, {owner}), lease_until = {self.now}"
        return self._update("runs", run, values, broken)

    def cancel(self, run: UUID) -> str:
        waiting = " and state in ('pending', 'retrying')"
        return self._update("runs", run, f"state = 'cancelled', finished_at = {self.now}", waiting)

    def cancel_instant(self, job: UUID, at: datetime) -> str:
        which = f"job_id = {self.id(job)} and scheduled_at = {self.instant(at)} and kind in ('scheduled', 'backfill')"
        values = f"state = 'cancelled', finished_at = {self.now}"
        return f"update {self.table('runs')} set {values} where {which} and state in ('pending', 'retrying')"

    def clear_traces(self, run: UUID) -> str:
        waiting = " and state in ('pending', 'retrying')"
        return self._update("runs", run, "lease_owner = null, lease_until = null, finished_at = null", waiting)

    def set_attempt(self, run: UUID, attempt: int) -> str:
        return self._update("runs", run, f"attempt = {attempt}", f" and attempt < {attempt}")

    def delete_run(self, run: UUID) -> str:
        attempts = f"delete from {self.table('attempts')} where run_id = {self.id(run)}"
        return f"{attempts}; delete from {self.table('runs')} where id = {self.id(run)}"

    def stop(self, run: UUID) -> str:
        return f"insert into {self.table('cancels')} (run_id, requested_at) values ({self.id(run)}, {self.now})"

    def plan_now(self, job: UUID) -> str:
        return self._update("jobs", job, f"plan_at = {self.now}")

    def run_instant(self, job: UUID, at: datetime, local: datetime) -> str:
        """Insert the missing run of an instant, with the id that the planner would have given it."""
        return (
            f"insert into {self.table('runs')} (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, "
            f"expires_at, rank, lane, exclusive, at_most_once, planned_at) "
            f"select {self.id(scheduled_run_id(job, at))}, id, version, 'backfill', {self.instant(at)}, "
            f"{self.local(local)}, {self.now}, {self.now} + max_age, 1, lane, overlap <> 'allow', "
            f"delivery = 'at_most_once', {self.now} "
            f"from {self.table('jobs')} where id = {self.id(job)}"
        )

    def skip_instant(self, job: UUID, at: datetime) -> str:
        moment = self.instant(at)
        return (
            f"insert into {self.table('skips')} (job_id, first_at, last_at, count, reason) "
            f"values ({self.id(job)}, {moment}, {moment}, 1, 'missed')"
        )

    def set_skip_count(self, job: UUID, first_at: datetime, last_at: datetime, count: int) -> str:
        return (
            f"update {self.table('skips')} set count = {count} where job_id = {self.id(job)} "
            f"and first_at = {self.instant(first_at)} and last_at = {self.instant(last_at)}"
        )

    def _update(self, table: str, row: UUID, values: str, also: str = "") -> str:
        return f"update {self.table(table)} set {values} where id = {self.id(row)}{also}"
