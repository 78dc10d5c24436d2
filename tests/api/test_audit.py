"""Every change leaves one row in the audit, with who made it and by which call; nothing else leaves any."""

import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any
from uuid import UUID

import httpx
import pytest

from hourbell.control.imports import AT_ONCE
from hourbell.core.access.roles import Role
from tests.api.document import CHANGES, distinct_operations
from tests.api.failing import fail_waiting_runs, open_incident
from tests.api.whole import Whole, a_job, whole_api
from tests.backends import ONE_IN_A_FILE
from tests.database import BACKENDS, Database, PostgresDatabase, Row

pytestmark = pytest.mark.anyio

JOBS, RUNS, TOKENS = "/api/v1/jobs", "/api/v1/runs", "/api/v1/tokens"
CHANNELS, POLICIES, INCIDENTS = "/api/v1/channels", "/api/v1/alert-policies", "/api/v1/incidents"
WEBHOOK = {"type": "webhook", "url": "https://example.com/alerts"}
NDJSON = {"Content-Type": "application/x-ndjson"}
CHANGES_NOTHING = {"preview_schedule", "convert_jobs", "create_session", "delete_session"}
_NUMBERS = count()


class World:
    """A job with a waiting run and two that failed, a paused job, a token, a channel, a policy that nobody needs and an
    incident: created for one test.
    """

    def __init__(self, api: Whole, admin: tuple[UUID, str], viewer: str) -> None:
        self.api = api
        self.admin_id = admin[0]
        self.admin = {"Authorization": f"Bearer {admin[1]}", "X-Request-Id": "call-1"}
        self.viewer = {"Authorization": f"Bearer {viewer}"}
        self.name = f"job-{next(_NUMBERS)}"
        self.path = f"{JOBS}/{self.name}"
        self.failed: list[UUID] = []
        self.waiting = ""
        self.token = ""
        self.incident = ""

    async def set_up(self) -> None:
        client = self.api.client
        client.headers.update(self.admin)
        await client.post(JOBS, json=a_job(self.name))
        await client.post(JOBS, json=a_job(f"{self.name}-paused", enabled=False))
        for _ in range(2):
            await client.post(f"{self.path}/trigger")
        self.failed = await fail_waiting_runs(self.api, self.name)
        self.waiting = (await client.post(f"{self.path}/trigger")).json()["run_id"]
        self.token = (await client.post(TOKENS, json={"name": self.name, "role": "viewer"})).json()["id"]
        await client.put(f"{CHANNELS}/{self.name}", json=WEBHOOK)
        await client.put(f"{POLICIES}/{self.name}", json={"notify": []})
        self.incident = str(await open_incident(self.api, self.name))
        for name in self.admin:
            del client.headers[name]

    async def audit(self) -> list[Row]:
        return await self.api.database.rows("audit", "id")

    async def asks(self, name: str, who: dict[str, str], **more: Any) -> httpx.Response:
        method, path, given = ACTIONS[name](self)
        given = {**given, **more, "headers": {**given.get("headers", {}), **who, **more.get("headers", {})}}
        return await self.api.client.request(method, path, **given)


Action = tuple[str, str, dict[str, Any]]
LINES = 2 * AT_ONCE
ACTIONS: dict[str, Callable[[World], Action]] = {
    "create_job": lambda world: ("POST", JOBS, {"json": a_job(f"{world.name}-new")}),
    "replace_job": lambda world: ("PUT", world.path, {"json": a_job(world.name, schedule="@hourly")}),
    "patch_job": lambda world: ("PATCH", world.path, {"json": {"schedule": "@hourly"}}),
    "delete_job": lambda world: ("DELETE", world.path, {}),
    "pause_job": lambda world: ("POST", f"{world.path}/pause", {"json": {"cancel_waiting": True}}),
    "resume_job": lambda world: ("POST", f"{world.path}-paused/resume", {}),
    "trigger_job": lambda world: ("POST", f"{world.path}/trigger", {}),
    "backfill_job": lambda world: (
        "POST",
        f"{world.path}/backfill",
        {"json": {"from": "2026-02-20T00:00:00Z", "to": "2026-02-28T00:00:00Z"}},
    ),
    "rotate_secret": lambda world: ("POST", f"{world.path}/rotate-secret", {}),
    "apply_jobs": lambda world: ("POST", f"{JOBS}/apply", {"json": {"jobs": [a_job(f"{world.name}-applied")]}}),
    "import_jobs": lambda world: ("POST", f"{JOBS}/import", {"content": lines(world.name, LINES), "headers": NDJSON}),
    "replay_run": lambda world: ("POST", f"{RUNS}/{world.failed[0]}/replay", {}),
    "cancel_run": lambda world: ("POST", f"{RUNS}/{world.waiting}/cancel", {}),
    "discard_run": lambda world: ("POST", f"{RUNS}/{world.failed[0]}/discard", {}),
    "replay_runs": lambda world: ("POST", f"{RUNS}/replay", {"json": {"job": world.name}}),
    "cancel_runs": lambda world: ("POST", f"{RUNS}/cancel", {"json": {"job": world.name}}),
    "discard_runs": lambda world: ("POST", f"{RUNS}/discard", {"json": {"job": world.name}}),
    "create_token": lambda world: ("POST", TOKENS, {"json": {"name": f"{world.name}-new", "role": "viewer"}}),
    "revoke_token": lambda world: ("DELETE", f"{TOKENS}/{world.token}", {}),
    "bulk_jobs": lambda world: ("POST", f"{JOBS}/bulk", {"json": {"action": "pause", "jobs": [world.name]}}),
    "put_channel": lambda world: ("PUT", f"{CHANNELS}/{world.name}-new", {"json": WEBHOOK}),
    "patch_channel": lambda world: ("PATCH", f"{CHANNELS}/{world.name}", {"json": {"url": "https://example.com/b"}}),
    "delete_channel": lambda world: ("DELETE", f"{CHANNELS}/{world.name}", {}),
    "test_channel": lambda world: ("POST", f"{CHANNELS}/{world.name}/test", {}),
    "put_alert_policy": lambda world: ("PUT", f"{POLICIES}/{world.name}-new", {"json": {}}),
    "delete_alert_policy": lambda world: ("DELETE", f"{POLICIES}/{world.name}", {}),
    "acknowledge_incident": lambda world: ("POST", f"{INCIDENTS}/{world.incident}/acknowledge", {}),
    "mute_incident": lambda world: (
        "POST",
        f"{INCIDENTS}/{world.incident}/mute",
        {"json": {"until": "2026-03-03T08:00:00Z"}},
    ),
    "resolve_incident": lambda world: ("POST", f"{INCIDENTS}/{world.incident}/resolve", {}),
    "create_demo": lambda _world: ("POST", "/api/v1/demo", {}),
    "delete_demo": lambda _world: ("DELETE", "/api/v1/demo", {}),
}
ROWS = {  # one for each chunk, each run, and each job
    "import_jobs": LINES // AT_ONCE,
    "replay_runs": 2,
    "discard_runs": 2,
    "create_demo": 3,
    "delete_demo": 3,
}
CAN_BE_TRIED = (
    "create_job",
    "replace_job",
    "patch_job",
    "backfill_job",
    "apply_jobs",
    "import_jobs",
    "replay_runs",
    "cancel_runs",
)


def lines(name: str, number: int) -> bytes:
    return b"\n".join(json.dumps(a_job(f"{name}-{each}")).encode() for each in range(number))


@pytest.fixture(scope="module", params=ONE_IN_A_FILE)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Whole]:
    async with BACKENDS[request.param]() as database, whole_api(database) as made:
        yield made


@pytest.fixture(scope="module")
async def people(api: Whole) -> tuple[tuple[UUID, str], str]:
    token, text = await api.control.access.create("the-admin", Role.ADMIN, "test")
    return (token.id, text.reveal()), await api.token(Role.VIEWER)


@pytest.fixture
async def world(api: Whole, people: tuple[tuple[UUID, str], str]) -> World:
    made = World(api, *people)
    await made.set_up()
    return made


def test_this_file_covers_every_operation_that_changes_something() -> None:
    changing = {each.name for each in distinct_operations() if each.method in CHANGES}

    assert changing - CHANGES_NOTHING == set(ACTIONS)


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_change_leaves_an_audit_row_with_actor_and_request(world: World, name: str) -> None:
    if name == "delete_demo":
        await world.asks("create_demo", world.admin)
    before = await world.audit()

    answer = await world.asks(name, world.admin)

    rows = (await world.audit())[len(before) :]
    assert (answer.is_success, len(rows)) == (True, ROWS.get(name, 1)), answer.text
    who = {(row["actor"], row["token_id"], row["ip"], row["request_id"]) for row in rows}
    assert who == {("token:the-admin", world.admin_id, "127.0.0.1", "call-1")}


async def test_a_refused_change_leaves_no_audit_row(world: World) -> None:
    before = await world.audit()

    forbidden = [await world.asks(name, world.viewer) for name in ACTIONS]
    stale = [await world.asks(name, world.admin, headers={"If-Match": '"99"'}) for name in ("patch_job", "delete_job")]
    unknown = [await world.asks(name, world.admin, params={"no": "1"}) for name in ACTIONS]
    wrong = await world.asks("replace_job", world.admin, json=a_job(world.name, schedule="nonsense"))

    refused = [*forbidden, *stale, *unknown, wrong]
    assert [each.text for each in refused if each.status_code < 400] == []
    assert await world.audit() == before


async def test_a_dry_run_leaves_no_audit_row(world: World) -> None:
    before = await world.audit()

    tried = [await world.asks(name, world.admin, params={"dry_run": "true"}) for name in CAN_BE_TRIED]

    assert [each.text for each in tried if each.status_code != 200] == []
    assert await world.audit() == before


async def test_reading_leaves_no_audit_row(world: World) -> None:
    before = await world.audit()
    reads = [each for each in distinct_operations() if each.method == "get" and each.name != "listen"]

    for each in reads:
        path = each.at(job=world.name, run=world.waiting, name=world.name, incident=world.incident)
        params = {"job": world.name, "at": "2026-03-02T09:00:00Z"} if each.name == "explain_instant" else {}
        answer = await world.api.client.get(path, headers=world.admin, params=params)
        expected = 409 if each.name == "get_analytics" else 200  # there is no Redis
        assert answer.status_code == expected, answer.text

    assert await world.audit() == before


async def test_a_request_that_changes_nothing_leaves_no_audit_row(world: World) -> None:
    before = await world.audit()

    same = await world.asks("replace_job", world.admin, json=a_job(world.name))
    awake = await world.api.client.post(f"{world.path}/resume", headers=world.admin)

    assert (same.status_code, awake.status_code, await world.audit()) == (200, 200, before)


async def test_a_change_that_cannot_be_audited_is_rolled_back(database: Database) -> None:
    async with whole_api(database) as api:
        token, text = await api.control.access.create("the-admin", Role.ADMIN, "test")
        world = World(api, (token.id, text.reveal()), text.reveal())
        await world.set_up()
        tables = ("jobs", "runs", "tokens", "secrets", "job_versions", "channels", "alert_policies", "incidents")
        before = {table: await database.rows(table) for table in tables}
        new_name = "audit_gone" if isinstance(database, PostgresDatabase) else "hourbell_audit_gone"
        await database.sql(f"alter table hourbell.audit rename to {new_name}")

        tried = [name for name in ACTIONS if name != "delete_demo"]  # there is no demo to delete
        answers = [await world.asks(name, {**world.admin, "Idempotency-Key": name}) for name in tried]

        assert {answer.status_code for answer in answers} == {500}
        after = {table: await database.rows(table) for table in tables}
        assert after | {"tokens": unused(after["tokens"])} == before | {"tokens": unused(before["tokens"])}
        taken = await database.rows("idempotency")
        assert len(taken) == 4  # by actions on many runs or jobs, each of which is refused by itself


def unused(tokens: list[Row]) -> list[Row]:
    """The last use of a token is recorded without an audit entry."""
    return [{**token, "last_used_at": None} for token in tokens]
