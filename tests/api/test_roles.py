"""Authorization: every operation of the document, tried with every role."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import count
from typing import Any

import pytest

from hourbell.core.access.roles import Role
from tests.api.document import Operation, operations
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
NOBODY = "00000000-0000-4000-8000-000000000000"
EVERYBODY = None
LEAST = {
    **dict.fromkeys(["get_health", "get_health_ready", "get_metrics", "create_session"], EVERYBODY),
    **dict.fromkeys(
        [
            "list_jobs", "get_job", "list_upcoming", "list_runs_of_job", "list_times", "get_series", "list_groups",
            "list_days", "get_stats", "list_skips", "list_versions", "get_version", "list_runs", "list_late",
            "list_stuck", "list_orphans", "get_run", "preview_schedule", "explain_instant", "get_forecast",
            "get_overview", "get_analytics", "get_timeline", "list_nodes", "list_outages", "list_tags", "listen",
            "get_session", "delete_session", "list_channels", "get_channel", "list_alert_policies", "get_alert_policy",
            "list_incidents", "get_incident", "get_run_log",
        ],
        Role.VIEWER,
    ),
    **dict.fromkeys(
        [
            "pause_job", "resume_job", "trigger_job", "backfill_job", "replay_runs", "cancel_runs", "discard_runs",
            "replay_run", "cancel_run", "discard_run", "bulk_jobs", "test_channel", "acknowledge_incident",
            "mute_incident", "resolve_incident",
        ],
        Role.OPERATOR,
    ),
    **dict.fromkeys(
        [
            "create_job", "replace_job", "patch_job", "delete_job", "rotate_secret", "import_jobs", "apply_jobs",
            "convert_jobs", "put_channel", "patch_channel", "delete_channel", "put_alert_policy", "delete_alert_policy",
        ],
        Role.EDITOR,
    ),
    **dict.fromkeys(
        [
            "list_audit", "get_audit_entry", "list_tokens", "create_token", "revoke_token", "create_demo",
            "delete_demo",
        ],
        Role.ADMIN,
    ),
}  # fmt: skip
OPERATIONS = [each for each in operations() if each.name != "listen"]
OTHERS = [
    {"type": "sql", "database": "reports", "function": "cleanup", "args": {"days": 30}},
    {"type": "task", "name": "reports.send"},
    {"type": "queue", "queue": "mail"},
    {"type": "command", "command": ["/bin/true"]},
]
REFUSED = ("refused", "not_allowed")
_NUMBERS = count()


def least(operation: Operation) -> Role | None:
    return LEAST[operation.name.removeprefix("schedules_")]


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Whole]:
    async with SqliteDatabase.in_memory() as database, whole_api(database, is_local=False) as made:
        yield made


@pytest.fixture(scope="module")
async def tokens(api: Whole) -> dict[Role, dict[str, str]]:
    return {role: {"Authorization": f"Bearer {await api.token(role)}"} for role in Role}


async def statuses(api: Whole, wanted: list[Operation], headers: dict[str, str], **more: Any) -> dict[str, int]:
    """The answer of each operation. They refer to objects that do not exist, so that none affects the next."""
    found = {}
    for each in wanted:
        path = each.at(job=NOBODY, run=NOBODY, token=NOBODY)
        found[each.name] = (await api.client.request(each.method, path, headers=headers, **more)).status_code
    return found


def test_every_operation_has_a_minimum_role() -> None:
    assert {each.name.removeprefix("schedules_") for each in operations()} == set(LEAST)


async def test_every_route_is_in_the_openapi_document(api: Whole) -> None:
    found = {(method.lower(), path) for path, methods in paths(api.app.routes) for method in methods - {"HEAD"}}

    listed = {(each.method, each.path) for each in operations()}
    assert found - listed == {("get", "/docs"), ("get", "/openapi.json")}
    assert listed - found == set()


def paths(routes: Iterable[Any]) -> Iterator[tuple[str, set[str]]]:
    for route in routes:
        if hasattr(route, "effective_candidates"):
            yield from paths(route.effective_candidates())
        else:
            yield route.path, route.methods


@pytest.mark.usefixtures("tokens")
async def test_without_a_token_only_health_and_login_answer(api: Whole) -> None:
    found = await statuses(api, OPERATIONS, {})

    assert {name for name, status in found.items() if status != 401} == {
        "get_health",
        "get_health_ready",
        "create_session",
    }


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_may_use_exactly_its_operations(
    api: Whole, tokens: dict[Role, dict[str, str]], role: Role
) -> None:
    found = await statuses(api, OPERATIONS, tokens[role])

    refused = {each.name for each in OPERATIONS if (needed := least(each)) is not None and not role.may(needed)}
    assert {name for name, status in found.items() if status == 403} == refused
    assert {name: status for name, status in found.items() if status == 401 or status >= 500} == {}


async def test_a_missing_role_is_reported_before_the_body_is_validated(
    api: Whole, tokens: dict[Role, dict[str, str]]
) -> None:
    forbidden = [each for each in OPERATIONS if each.body and least(each) not in (EVERYBODY, Role.VIEWER)]

    found = await statuses(api, forbidden, tokens[Role.VIEWER], content=b"{")

    assert set(found.values()) == {403}


async def test_every_role_receives_change_events(api: Whole, tokens: dict[Role, dict[str, str]]) -> None:
    # The parameter is refused to those who were let in: the stream itself has no end.
    let_in = [await api.client.get("/api/v1/events?no=1", headers=headers) for headers in tokens.values()]
    stranger = await api.client.get("/api/v1/events?no=1")

    assert ({each.status_code for each in let_in}, stranger.status_code) == ({400}, 401)


class Editing:
    """An editor beside an admin, with a name for a job that nobody has used."""

    def __init__(self, api: Whole, tokens: dict[Role, dict[str, str]]) -> None:
        self.api = api
        self.editor, self.admin = tokens[Role.EDITOR], tokens[Role.ADMIN]
        self.name = f"job-{next(_NUMBERS)}"
        self.path = f"{JOBS}/{self.name}"

    async def tries(self, method: str, path: str, **more: Any) -> int:
        return (await self.api.client.request(method, path, headers=self.editor, **more)).status_code

    async def made(self, target: object) -> None:
        answer = await self.api.client.post(JOBS, json=a_job(self.name, target=target), headers=self.admin)
        assert answer.status_code == 201, answer.text

    async def imports(self, who: dict[str, str], job: object, **params: str) -> list[tuple[str, str | None]]:
        headers = {**who, "Content-Type": "application/x-ndjson"}
        answer = await self.api.client.post(
            f"{JOBS}/import", content=json.dumps(job).encode(), params=params, headers=headers
        )
        results = [json.loads(line) for line in answer.text.splitlines()]
        return [(result["result"], result.get("code")) for result in results]


@pytest.fixture
async def editing(api: Whole, tokens: dict[Role, dict[str, str]]) -> Editing:
    return Editing(api, tokens)


@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target["type"])
class TestAnEditorAndATargetThatIsNotHttp:
    async def test_an_editor_cannot_create_such_a_job(self, editing: Editing, target: object) -> None:
        job = a_job(editing.name, target=target)

        posted = await editing.tries("POST", JOBS, json=job)
        tried = await editing.tries("POST", JOBS, json=job, params={"dry_run": "true"})
        put = await editing.tries("PUT", editing.path, json=job)

        assert [posted, tried, put] == [403, 403, 403]

    async def test_an_editor_cannot_turn_an_http_job_into_one(
        self, editing: Editing, target: dict[str, object]
    ) -> None:
        await editing.made(HOOK)

        put = await editing.tries("PUT", editing.path, json=a_job(editing.name, target=target))
        patched = await editing.tries("PATCH", editing.path, json={"target": dict.fromkeys(HOOK) | target})

        assert [put, patched] == [403, 403]

    async def test_an_editor_can_neither_change_one_nor_turn_it_into_an_http_job(
        self, editing: Editing, target: object
    ) -> None:
        await editing.made(target)
        http = a_job(editing.name)

        described = await editing.tries("PATCH", editing.path, json={"description": "mine"})
        turned = await editing.tries("PUT", editing.path, json=http)
        tried = await editing.tries("PUT", editing.path, json=http, params={"dry_run": "true"})
        rotated = await editing.tries("POST", f"{editing.path}/rotate-secret")

        assert [described, turned, tried, rotated] == [403, 403, 403, 403]

    async def test_an_editor_cannot_delete_one(self, editing: Editing, target: object) -> None:
        await editing.made(target)

        assert await editing.tries("DELETE", editing.path) == 403

    async def test_an_editor_cannot_import_one(self, editing: Editing, target: object) -> None:
        assert await editing.imports(editing.editor, a_job(editing.name, target=target)) == [REFUSED]

    async def test_an_editor_cannot_import_one_over_an_http_job(self, editing: Editing, target: object) -> None:
        await editing.made(target)

        assert await editing.imports(editing.editor, a_job(editing.name)) == [REFUSED]

    async def test_an_editor_cannot_prune_one(self, editing: Editing, target: object) -> None:
        theirs = {"managed_by": "file", "source": editing.name, "prune": "true"}
        await editing.imports(editing.admin, a_job(editing.name, target=target), **theirs)

        results = await editing.imports(editing.editor, a_job(f"{editing.name}-new"), **theirs)

        assert results == [("created", None), ("not_pruned", "not_allowed")]
        assert await editing.tries("GET", editing.path) == 200
