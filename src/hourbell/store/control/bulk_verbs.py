"""Verbs that change many jobs in one transaction: import, prune and apply."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import first_run_id
from hourbell.store.alerts.applying import decide_alerts, jobs_of_undefined, read_alerts, write_alerts
from hourbell.store.alerts.bundle import ChannelSecrets
from hourbell.store.control.actor import Actor
from hourbell.store.control.applying import Decision, compare, decide, of_other_programs, state_of
from hourbell.store.control.auditing import audit
from hourbell.store.control.bundles import (
    MAY_CHANGE_ALL,
    Applied,
    Bundle,
    ImportResult,
    JobEntry,
    NewSecret,
    Rights,
    any_job,
)
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.control.changing import add_manual_run, delete_jobs, insert_jobs, write_changes
from hourbell.store.control.commands import without_unsealed
from hourbell.store.control.importing import (
    compared,
    count_results,
    decided,
    refuse_to_prune,
    result_of,
    rows_to_change,
)
from hourbell.store.control.policy_names import unknown_policies, with_known_policies
from hourbell.store.control.secrets import current_headers, secret_ids, write_secrets
from hourbell.store.control.session import Session
from hourbell.store.control.verbs import Verbs
from hourbell.store.errors import Conflict

_FORGET_AFTER = timedelta(days=1)


class BulkVerbs(Verbs):
    async def import_jobs(
        self,
        entries: Sequence[JobEntry],
        actor: Actor,
        *,
        rights: Rights = MAY_CHANGE_ALL,
        take_over: bool = False,
        import_id: UUID | None = None,
        dry_run: bool = False,
    ) -> list[ImportResult]:
        """Create new jobs, edit jobs that differ, leave the others; return the result for each entry, in order.

        Jobs are identified by name. A job is refused if it has another owner (`managed_by` and `source`) and is not
        taken over, if the actor may not change it, if it would leave secret headers behind, if it comes to name an
        alert policy that does not exist, or if an earlier entry has its name; the others are still imported. A pause by
        anybody but the job's owner stays.
        The import is one transaction with one audit row. With an `import_id`, the jobs are recorded as seen by that
        import, including those it could not change. A dry run changes no job and records only existing ones as seen.
        """

        async def import_entries(session: Session) -> list[ImportResult]:
            rows = await session.fetch("lock_jobs_by_name", names=[entry.definition.name for entry in entries])
            found = await with_known_policies(
                session, compared(entries, rows, self._sessions.check_target, rights.may_change, take_over=take_over)
            )
            found = await without_unsealed(session, found)
            to_change = rows_to_change(found)
            progress = await session.progress_of(to_change)
            headers = await current_headers(session, [row["id"] for row in to_change])
            steps = decided(found, progress, headers, rights.moving, actor.at)
            new = [each for each in steps if isinstance(each, NewJob)]
            changed = [each for each in steps if isinstance(each, ChangedJob)]
            made = frozenset(job.job_id for job in new)
            if not dry_run and new:
                made = await insert_jobs(session, new, actor)
            if not dry_run and changed:
                await write_changes(session, changed, actor)
            results = [result_of(each, made) for each in steps]
            if import_id is not None:  # includes jobs it could not change, which must not be pruned
                seen = [row["id"] for row in rows] + ([] if dry_run else list(made))
                await session.execute("note_imported", import_id=import_id, job_ids=seen, now=actor.at)
            if entries and not dry_run:
                await audit(session, actor, "job.import", import_id or "jobs", after=count_results(results))
            return results

        return await self._act_by_name(import_entries, actor.without_key() if dry_run else actor)

    async def prune_jobs(
        self,
        import_id: UUID,
        managed_by: str,
        source: str,
        actor: Actor,
        *,
        limit: int,
        may_change: Callable[[Definition], bool] = any_job,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete up to `limit` jobs of an owner that the import has not seen; return their names.

        Raises `Conflict`, and deletes none, if the actor may not change one of them.
        When no such job is left, the records of the import are deleted. A dry run deletes nothing.
        """

        async def prune(session: Session) -> list[str]:
            unseen = "lock_unseen_jobs" if managed_by == "api" else "lock_unseen_owned_jobs"
            rows = await session.fetch(unseen, managed_by=managed_by, source=source, import_id=import_id, limit=limit)
            names = [row["name"] for row in rows]
            refuse_to_prune(rows, may_change)
            if dry_run:
                return names
            if rows:
                await delete_jobs(session, [row["id"] for row in rows], actor.at)
                await audit(session, actor, "job.prune", import_id, before={"jobs": names})
            if len(rows) < limit:
                await session.execute("forget_imports", id=import_id, before=actor.at - _FORGET_AFTER)
            return names

        return await (self._sessions.snapshot(prune) if dry_run else self._act(prune, actor))

    async def apply_jobs(
        self,
        bundle: Bundle,
        actor: Actor,
        *,
        secrets: Sequence[NewSecret] = (),
        channel_secrets: Sequence[ChannelSecrets] = (),
        expect: str | None = None,
        rights: Rights = MAY_CHANGE_ALL,
        dry_run: bool = False,
    ) -> Applied:
        """Make the owner's jobs match the bundle, in one transaction, with one audit row per change.

        Jobs are identified by name, and refused, as in an import; if one is refused, nothing is changed. With
        `heard_since`, a job of another program becomes the owner's if no node with a heartbeat since then defines it,
        which is decided in the same transaction. An operator's pause stays; the owner's own pause ends if the bundle
        enables the job. `secrets` belong to jobs in the bundle, and `channel_secrets` to its channels. Channels and
        alert policies are treated as jobs are; a channel that a remaining policy names is not deleted. Raises
        `Conflict` if the state is not `expect`, or a job may not be deleted. A new job with `run_on_create` gets a
        manual run that is ready now. A dry run changes nothing.
        """

        async def apply_bundle(session: Session) -> Applied:
            rows = await session.lock_jobs_of_bundle(bundle)
            alerts = bundle.alerts
            stored = None if alerts is None else await read_alerts(session, actor, lock=not dry_run)
            ids = await secret_ids(session, [row["id"] for row in rows], actor.at)
            state = state_of(rows, ids, () if stored is None or alerts is None else stored.state(bundle, alerts))
            if expect not in (None, state):
                raise Conflict("plan_outdated", "these jobs have changed since the plan was made; make a new plan")
            abandoned: set[UUID] = set()
            if others := of_other_programs(bundle, rows):
                found = await session.fetch("abandoned_jobs", ids=others, heard_since=bundle.heard_since)
                abandoned = {row["id"] for row in found}
            comparison = compare(bundle, rows, state, self._sessions.check_target, rights.may_change, abandoned)
            unknown: frozenset[str] = frozenset()
            if bundle.any_policy:
                unknown = await unknown_policies(session, (each.definition.alert_policy for each in bundle.entries))
            else:
                defined = () if alerts is None else [each.name for each in alerts.policies]
                entries = await with_known_policies(session, comparison.entries, defined)
                comparison = replace(comparison, entries=entries)
            comparison = replace(comparison, entries=await without_unsealed(session, comparison.entries))
            to_change = rows_to_change(comparison.entries)
            progress = await session.progress_of(to_change)
            headers = await current_headers(session, [row["id"] for row in to_change])
            decision = decide(comparison, progress, headers, rights.moving, actor.at)
            applied = replace(decision.applied, unknown_policies=unknown)
            if stored is not None and alerts is not None:
                users = await jobs_of_undefined(session, bundle, alerts, stored, rows)
                applied = replace(applied, alerts=decide_alerts(bundle, alerts, stored, users))
            if dry_run or applied.refused or applied.alerts.refused:
                return applied
            if stored is not None and alerts is not None and (channel_secrets or not applied.alerts.is_empty):
                await write_alerts(session, bundle, alerts, stored, applied.alerts, channel_secrets, actor)
            if secrets or not decision.is_empty:
                await _write(session, decision, bundle, secrets, actor)
            return applied

        return await (self._sessions.snapshot(apply_bundle) if dry_run else self._act_by_name(apply_bundle, actor))


async def _write(
    session: Session, decision: Decision, bundle: Bundle, secrets: Sequence[NewSecret], actor: Actor
) -> None:
    if decision.changed:
        await write_changes(session, decision.changed, actor)
    if decision.deleted:
        await delete_jobs(session, decision.deleted, actor.at)
    if decision.new and len(await insert_jobs(session, decision.new, actor)) < len(decision.new):
        raise Conflict("id_taken", "another job has, or had, an id that one of these was to get")
    if decision.paused_new:
        await session.execute("note_pauses", ids=decision.paused_new, paused_by=bundle.owner)
    await write_secrets(session, secrets, actor.at)
    for entry in decision.audit_entries(secrets):
        await audit(session, actor, *entry)
    run_now = {entry.job_id for entry in bundle.entries if entry.run_on_create}
    for job in decision.new:
        if job.job_id in run_now:
            await add_manual_run(session, job.after, first_run_id(job.job_id), actor)
