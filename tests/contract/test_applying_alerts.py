"""apply_jobs with channels and alert policies: they are written in the transaction of the jobs, or not at all."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.policy import parse_policy
from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import SIGNING
from hourbell.sealing import Sealed
from hourbell.store.alerts.bundle import Action, AlertBundle, ChannelEntry, ChannelSecrets, PolicyEntry
from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Applied, Bundle, JobEntry
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, HOUR, T0, a_job, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR
SOURCE = "jobs.toml"
ORIGIN = "https://example.com:443"


@pytest.fixture
def control(database: Database) -> ControlStore:
    return database.control()


@pytest.fixture
def people(database: Database) -> AlertVerbs:
    return database.alert_control()


def a_file_job(name: str = "job", **more: Any) -> Definition:
    return a_job(name, managed_by="file", source=SOURCE, **more)


def parsed(path: str = "", origin: str = ORIGIN, kind: str = "webhook") -> ParsedChannel:
    return ParsedChannel(kind, {"type": kind, "url": f"https://example.com/{path}"}, {}, origin)


async def entry(people: AlertVerbs, name: str, channel: ParsedChannel, secrets: Sequence[Sealed] = ()) -> ChannelEntry:
    """The entry of a channel that was read now."""
    view = await people.channel(name)
    known = None if view is None else view.channel
    return ChannelEntry(name, channel, uuid4(), known, frozenset(each.id for each in secrets))


def policy(name: str, **body: Any) -> PolicyEntry:
    return PolicyEntry(name, parse_policy(body))


async def apply_all(
    control: ControlStore,
    alerts: AlertBundle,
    *jobs: Definition,
    prune: bool = False,
    take_over: bool = False,
    **more: Any,
) -> Applied:
    entries = [JobEntry(job, uuid4()) for job in jobs]
    bundle = Bundle(entries, "file", SOURCE, prune, take_over, alerts=alerts)
    return await control.apply_jobs(bundle, Actor(BY, LATER), **more)


def actions(applied: Applied) -> dict[str, Action]:
    return {each.name: each.action for each in (*applied.alerts.channels, *applied.alerts.policies)}


def a_secret(job_id: UUID, field: str = SIGNING, origin: str | None = None) -> Sealed:
    return Sealed(uuid4(), job_id, field, "key", b"sealed", origin)


async def test_channels_policies_and_jobs_are_written_together(control: ControlStore, people: AlertVerbs) -> None:
    alerts = AlertBundle([await entry(people, "ops", parsed())], [policy("x", notify=["ops"])])
    planned = await apply_all(control, alerts, a_file_job(alert_policy="x"), dry_run=True)
    assert (await people.channels(), await people.alert_policies(), await control.get_job("job")) == ([], [], None)

    applied = await apply_all(control, alerts, a_file_job(alert_policy="x"), expect=planned.state)

    assert actions(planned) == actions(applied) == {"ops": Action.CREATE, "x": Action.CREATE}
    [channel] = await people.channels()
    [stored] = await people.alert_policies()
    assert (channel.managed_by, channel.source, stored.managed_by, stored.source) == ("file", SOURCE) * 2
    system = await control.get_job(channel.channel.job_id)
    assert system is not None
    assert system.definition.name == "hourbell-channel-ops"
    job = await control.get_job("job")
    assert job is not None
    assert job.definition.alert_policy == "x"


async def test_a_second_apply_changes_nothing_and_writes_no_audit_entry(
    database: Database, control: ControlStore, people: AlertVerbs
) -> None:
    wish = [policy("x", notify=["ops"], repeat="4h", escalate=[{"after": "30m", "notify": ["ops"]}])]
    await apply_all(control, AlertBundle([await entry(people, "ops", parsed())], wish))
    before = await database.rows("audit", "action")

    applied = await apply_all(control, AlertBundle([await entry(people, "ops", parsed())], wish), prune=True)

    assert set(actions(applied).values()) == {Action.NONE}
    assert await database.rows("audit", "action") == before


async def test_a_change_keeps_the_secrets_that_are_not_replaced(control: ControlStore, people: AlertVerbs) -> None:
    first = await entry(people, "ops", parsed())
    old = [a_secret(first.job_id), a_secret(first.job_id, "token", ORIGIN)]
    await apply_all(control, AlertBundle([first]), channel_secrets=[ChannelSecrets("ops", old)])
    new = a_secret(first.job_id, "token", ORIGIN)

    changed = await entry(people, "ops", parsed("b"), old)
    await apply_all(control, AlertBundle([changed]), channel_secrets=[ChannelSecrets("ops", [new])])
    assert await _secrets(control, first.job_id) == {old[0].id, new.id}

    elsewhere = "https://elsewhere.example.com:443"
    moved = await entry(people, "ops", parsed("b", elsewhere), [old[0], new])
    await apply_all(control, AlertBundle([moved]))
    assert await _secrets(control, first.job_id) == {old[0].id}

    other = await entry(people, "ops", parsed("b", elsewhere, "alertmanager"), [old[0]])
    await apply_all(control, AlertBundle([other]))
    assert await _secrets(control, first.job_id) == set()


async def _secrets(control: ControlStore, job_id: UUID) -> set[UUID]:
    rows = await control._sessions.fetch("list_secrets", job_ids=[job_id], now=LATER)
    return {row["id"] for row in rows}


async def test_a_channel_that_changed_since_it_was_read_is_a_conflict(
    control: ControlStore, people: AlertVerbs
) -> None:
    read = await entry(people, "ops", parsed("b"))
    await people.put_channel("ops", parsed("a"), uuid4(), lambda _: [], Actor(BY, T0))

    with pytest.raises(Conflict) as refused:
        await apply_all(control, AlertBundle([read]), take_over=True, dry_run=True)
    assert refused.value.code == "plan_outdated"


async def test_a_refused_job_keeps_out_the_channels_and_a_refused_policy_the_jobs(
    control: ControlStore, people: AlertVerbs
) -> None:
    await add_job(control, "theirs")
    ops = AlertBundle([await entry(people, "ops", parsed())])
    applied = await apply_all(control, ops, a_file_job("theirs"))
    assert (list(applied.refused), await people.channels()) == ([0], [])

    applied = await apply_all(control, AlertBundle((), [policy("x", notify=["gone"])]), a_file_job("mine"))
    [(kind, refused)] = applied.alerts.refused
    assert (kind, refused.name, refused.refused) == ("alert_policies", "x", "there is no channel gone")
    assert await control.get_job("mine") is None


async def test_pruning_deletes_channels_with_their_jobs_and_secrets(control: ControlStore, people: AlertVerbs) -> None:
    first = await entry(people, "ops", parsed())
    secrets = [ChannelSecrets("ops", [a_secret(first.job_id)])]
    await apply_all(control, AlertBundle([first], [policy("x", notify=["ops"])]), channel_secrets=secrets)
    await people.put_channel("theirs", parsed(), uuid4(), lambda _: [], Actor(BY, T0))

    applied = await apply_all(control, AlertBundle(), prune=True)

    assert actions(applied) == {"ops": Action.DELETE, "x": Action.DELETE}
    assert [view.channel.name for view in await people.channels()] == ["theirs"]
    assert (await people.alert_policies(), await _secrets(control, first.job_id)) == ([], set())
    assert await control.get_job("hourbell-channel-ops") is None


async def test_a_policy_that_other_jobs_name_is_not_deleted(control: ControlStore) -> None:
    await apply_all(control, AlertBundle((), [policy("x"), policy("y")]))
    for number in range(7):
        await add_job(control, f"theirs-{number}", alert_policy="x")

    applied = await apply_all(control, AlertBundle(), a_file_job("mine", alert_policy="y"), prune=True)

    refused = {each.name: each.refused for _, each in applied.alerts.refused}
    names = ", ".join(f"theirs-{number}" for number in range(5))
    assert refused == {"x": f"these jobs name it: {names}", "y": "these jobs name it: mine"}


async def test_one_of_two_that_create_the_same_channel_at_once_is_outdated(
    control: ControlStore, people: AlertVerbs
) -> None:
    bundles = [AlertBundle([await entry(people, "ops", parsed(path))], [policy("x")]) for path in "ab"]
    plans = [await apply_all(control, bundle, dry_run=True) for bundle in bundles]

    found = await asyncio.gather(
        *(apply_all(control, bundle, expect=plan.state) for bundle, plan in zip(bundles, plans, strict=True)),
        return_exceptions=True,
    )

    conflicts = [each for each in found if isinstance(each, Conflict)]
    assert [each.code for each in conflicts] == ["plan_outdated"]
    assert len(await people.channels()) == len(await people.alert_policies()) == 1


async def test_one_of_two_that_create_the_same_policy_at_once_is_outdated(control: ControlStore) -> None:
    bundles = [AlertBundle((), [policy("x", after=number)]) for number in (1, 2)]
    plans = [await apply_all(control, bundle, dry_run=True) for bundle in bundles]

    found = await asyncio.gather(
        *(apply_all(control, bundle, expect=plan.state) for bundle, plan in zip(bundles, plans, strict=True)),
        return_exceptions=True,
    )

    assert [each.code for each in found if isinstance(each, Conflict)] == ["plan_outdated"]
