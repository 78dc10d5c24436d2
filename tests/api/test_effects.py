"""One rule per effect, whichever endpoint causes it: the expected answers of every endpoint and role are one table."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import count, product
from typing import Any

import httpx
import pytest

from hourbell.core.access.roles import Role
from hourbell.core.job.secret_headers import SIGNING
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
ELSEWHERE = {**HOOK, "url": "https://elsewhere.example.com/hook"}
DOWNGRADED = {**HOOK, "url": HOOK["url"].replace("https://", "http://")}
FUNCTION = {"type": "sql", "database": "reports", "function": "public.cleanup"}
FORBIDDEN = {"type": "sql", "database": "reports", "function": "public.drop_everything"}
OTHER_SCHEMA = {"type": "sql", "database": "reports", "function": "attacker.cleanup"}
TASK = {"type": "task", "name": "reports.send"}
SECRET = {"secret_headers": {"Authorization": "Bearer xyzzy"}}
NUMBERS = count()
Headers = Mapping[str, str]
Body = dict[str, Any]
Way = Callable[[Whole, str, Body, Headers, Mapping[str, str]], Awaitable[str]]


def reported(answer: httpx.Response) -> str:
    return "done" if answer.status_code in (200, 201, 204) else answer.json()["code"]


async def by_patch(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    nothing: Body = dict.fromkeys(["url", "database", "function", "name"])  # a merge patch adds to the old target
    patch = {**body, "target": nothing | body["target"]}
    return reported(await api.client.patch(f"{JOBS}/{name}", json=patch, headers=headers, params=more))


async def by_put(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    return reported(await api.client.put(f"{JOBS}/{name}", json=body, headers=headers, params=more))


async def by_post(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    assert body["name"] == name
    return reported(await api.client.post(JOBS, json=body, headers=headers, params=more))


async def by_apply(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    flags = {key: value == "true" for key, value in more.items()}
    wish = {"source": f"matrix-{name}", "jobs": [body], "take_over": True, **flags}
    answer = await api.client.post("/api/v1/jobs/apply", json=wish, headers=headers)
    if answer.status_code == 409 and answer.json()["code"] == "plan_refused":
        return "secrets_bound" if "secret headers" in answer.json()["errors"][0]["message"] else "plan_refused"
    return reported(answer)


def imported(path: str) -> Way:
    async def by_import(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
        del name
        kind = {"Content-Type": "application/x-ndjson", **headers}
        answer = await api.client.post(f"{path}/import", content=json.dumps(body), headers=kind, params=more)
        if answer.status_code != 200:
            return reported(answer)
        [line] = map(json.loads, answer.text.splitlines())
        return str(line["code"]) if line["result"] == "refused" else "done"

    return by_import


CHANGES: dict[str, Way] = {
    "PATCH": by_patch,
    "PUT": by_put,
    "apply": by_apply,
    "import": imported(JOBS),
    "schedules/import": imported("/api/v1/schedules"),
}
MAKES: dict[str, Way] = {**CHANGES, "POST": by_post}
del MAKES["PATCH"]


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Whole]:
    async with SqliteDatabase.in_memory() as database, whole_api(database, is_local=False) as made:
        yield made


@pytest.fixture(scope="module")
async def tokens(api: Whole) -> dict[Role, dict[str, str]]:
    return {role: {"Authorization": f"Bearer {await api.token(role)}"} for role in Role}


def by_role(viewer: str, operator: str, editor: str, admin: str) -> dict[Role, str]:
    return {Role.VIEWER: viewer, Role.OPERATOR: operator, Role.EDITOR: editor, Role.ADMIN: admin}


NO = "not_allowed"
# What is there before, what is asked for, the parameters, and the answer for each role.
EFFECTS: dict[str, tuple[Body, Body, dict[str, str], dict[Role, str]]] = {
    "another schedule": ({}, {"schedule": "0 4 * * *"}, {}, by_role(NO, NO, "done", "done")),
    "another schedule, with a secret header": (
        SECRET, {"schedule": "0 4 * * *"}, {}, by_role(NO, NO, "done", "done"),
    ),
    "another origin without secrets": ({}, {"target": ELSEWHERE}, {}, by_role(NO, NO, "done", "done")),
    "another origin with a secret header": (SECRET, {"target": ELSEWHERE}, {}, by_role(NO, NO, NO, "secrets_bound")),
    "another scheme with a secret header": (SECRET, {"target": DOWNGRADED}, {}, by_role(NO, NO, NO, "secrets_bound")),
    "another origin, secrets given up": (
        SECRET, {"target": ELSEWHERE}, {"drop_secrets": "true"}, by_role(NO, NO, NO, "done"),
    ),
    "another path of the origin": (
        SECRET, {"target": {**HOOK, "url": HOOK["url"] + "/other"}}, {}, by_role(NO, NO, "done", "done"),
    ),
    "a job that calls a function": ({"target": FUNCTION}, {"target": HOOK}, {}, by_role(NO, NO, NO, "done")),
    "a job that calls a task": ({"target": TASK}, {"schedule": "0 4 * * *"}, {}, by_role(NO, NO, NO, "done")),
    "to a function": ({}, {"target": FUNCTION}, {}, by_role(NO, NO, NO, "done")),
    "to a function off the list": ({}, {"target": FORBIDDEN}, {}, by_role(NO, NO, NO, "invalid_job")),
    "to a function of another schema": ({}, {"target": OTHER_SCHEMA}, {}, by_role(NO, NO, NO, "invalid_job")),
    "to a task": ({}, {"target": TASK}, {}, by_role(NO, NO, NO, "done")),
}  # fmt: skip


@pytest.mark.parametrize("way", CHANGES)
@pytest.mark.parametrize("effect", EFFECTS)
async def test_every_way_to_change_a_job_is_answered_alike(
    api: Whole, tokens: dict[Role, dict[str, str]], effect: str, way: str
) -> None:
    before, change, more, expected = EFFECTS[effect]
    found = {}
    for role in Role:
        name = f"job-{next(NUMBERS)}"
        made = a_job(name, **before)
        assert await by_put(api, name, made, tokens[Role.ADMIN], {}) == "done"
        without = {key: value for key, value in made.items() if key not in SECRET}
        found[role] = await CHANGES[way](api, name, {**without, **change}, tokens[role], more)
        if found[role] != "done":
            answer = await api.client.get(f"{JOBS}/{name}", headers=tokens[Role.VIEWER])
            assert (answer.json()["version"], answer.json()["target"]["type"]) == (1, made["target"]["type"])
    assert found == expected


@pytest.mark.parametrize(("target", "way"), list(product(("http", "function", "forbidden", "task"), MAKES)))
async def test_every_way_to_create_a_job_is_answered_alike(
    api: Whole, tokens: dict[Role, dict[str, str]], target: str, way: str
) -> None:
    targets = {"http": HOOK, "function": FUNCTION, "forbidden": FORBIDDEN, "task": TASK}
    found = {}
    for role in Role:
        name = f"new-{next(NUMBERS)}"
        found[role] = await MAKES[way](api, name, a_job(name, target=targets[target]), tokens[role], {})
    of_admin = "invalid_job" if target == "forbidden" else "done"
    assert found == by_role(NO, NO, "done" if target == "http" else NO, of_admin)


@pytest.mark.parametrize("role", list(Role))
async def test_no_caller_claims_the_jobs_of_a_program(
    api: Whole, tokens: dict[Role, dict[str, str]], role: Role
) -> None:
    name = f"claimed-{next(NUMBERS)}"
    body = a_job(name, target=FORBIDDEN)
    found = await imported(JOBS)(api, name, body, tokens[role], {"managed_by": "code", "source": "shop"})

    assert found in (NO, "invalid_parameter")
    assert (await api.client.get(f"{JOBS}/{name}", headers=tokens[role])).status_code == 404


@pytest.mark.parametrize("way", ["PATCH", "PUT", "import"])
async def test_a_job_of_a_file_can_be_changed_only_by_taking_it_over(
    api: Whole, tokens: dict[Role, dict[str, str]], way: str
) -> None:
    name = f"owned-{next(NUMBERS)}"
    assert await by_apply(api, name, a_job(name), tokens[Role.EDITOR], {}) == "done"
    change = a_job(name, schedule="0 4 * * *")

    refused = await CHANGES[way](api, name, change, tokens[Role.ADMIN], {})
    taken = await CHANGES[way](api, name, change, tokens[Role.EDITOR], {"take_over": "true"})
    assert (refused, taken) == ("owned_by_another", "done")


@pytest.mark.parametrize("managed_by", ["api", "file"])
async def test_an_import_cannot_move_the_secret_header_of_a_job_owned_by_a_file(
    api: Whole, tokens: dict[Role, dict[str, str]], managed_by: str
) -> None:
    name = f"stolen-{next(NUMBERS)}"
    assert await by_apply(api, name, a_job(name, **SECRET), tokens[Role.ADMIN], {}) == "done"
    asked = {"managed_by": managed_by, "source": f"matrix-{name}", "take_over": "true"}

    found = await imported(JOBS)(api, name, a_job(name, target=ELSEWHERE), tokens[Role.EDITOR], asked)
    assert found == NO
    job = (await api.client.get(f"{JOBS}/{name}", headers=tokens[Role.VIEWER])).json()
    assert job["target"]["url"] == HOOK["url"]


@pytest.mark.parametrize("way", CHANGES)
async def test_a_dry_run_is_refused_for_the_same_reason(
    api: Whole, tokens: dict[Role, dict[str, str]], way: str
) -> None:
    name = f"dry-{next(NUMBERS)}"
    assert await by_put(api, name, a_job(name, **SECRET), tokens[Role.ADMIN], {}) == "done"
    more = {"dry_run": "true"} if way != "apply" else {}
    ways = {**CHANGES, "apply": _dry_apply}

    found = {role: await ways[way](api, name, a_job(name, target=ELSEWHERE), tokens[role], more) for role in Role}
    assert found == by_role(NO, NO, NO, "secrets_bound")


async def _dry_apply(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    del more
    wish = {"source": f"matrix-{name}", "jobs": [body], "take_over": True}
    answer = await api.client.post("/api/v1/jobs/apply?dry_run=true", json=wish, headers=headers)
    return "secrets_bound" if answer.json().get("code") == "plan_refused" else reported(answer)


async def test_a_header_for_the_new_origin_comes_with_the_change(
    api: Whole, tokens: dict[Role, dict[str, str]]
) -> None:
    for way in ("PATCH", "PUT", "apply"):
        name = f"moved-{next(NUMBERS)}"
        admin = tokens[Role.ADMIN]
        assert await by_put(api, name, a_job(name, **SECRET), admin, {}) == "done"
        new = a_job(name, target=ELSEWHERE, secret_headers={"authorization": "Bearer new"})

        assert await CHANGES[way](api, name, new, admin, {}) == "done"
        secrets = (await api.client.get(f"{JOBS}/{name}", headers=admin)).json()["secrets"]
        found = {each["origin"]: each["valid_until"] is None for each in secrets if each["field"] != SIGNING}
        assert found == {"https://elsewhere.example.com:443": True, "https://example.com:443": False}


async def test_setting_only_a_header_makes_no_new_version(api: Whole, tokens: dict[Role, dict[str, str]]) -> None:
    name = f"header-{next(NUMBERS)}"
    editor = tokens[Role.EDITOR]
    assert await by_put(api, name, a_job(name), editor, {}) == "done"

    answer = await api.client.patch(f"{JOBS}/{name}", json=SECRET, headers=editor)
    assert (answer.status_code, answer.json()["version"]) == (200, 1)
    [secret] = (await api.client.get(f"{JOBS}/{name}", headers=editor)).json()["secrets"]
    assert secret["field"] == "header:Authorization"
    assert "xyzzy" not in answer.text


async def test_a_dry_run_does_not_reveal_whether_an_editor_guessed_a_secret(
    api: Whole, tokens: dict[Role, dict[str, str]]
) -> None:
    name = f"guess-{next(NUMBERS)}"
    assert await by_apply(api, name, a_job(name, **SECRET), tokens[Role.ADMIN], {}) == "done"
    plans = []
    for guess in ("Bearer xyzzy", "Bearer wrong"):
        wish = {"source": f"matrix-{name}", "jobs": [a_job(name, secret_headers={"Authorization": guess})]}
        answer = await api.client.post("/api/v1/jobs/apply?dry_run=true", json=wish, headers=tokens[Role.EDITOR])
        plans.append(answer.json()["jobs"])

    assert plans[0] == plans[1]
