"""One rule per effect, whichever endpoint causes it: the expected answers of every endpoint and role are one table."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import count, product
from typing import Any

import httpx
import pytest

from hourbell import Refused, Scheduler
from hourbell.core.access.roles import Role
from hourbell.core.job.secret_headers import SIGNING
from hourbell.library.declaring import JobOptions
from hourbell.library.run_time import RunTimeJobs
from tests.api.failing import open_incident
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
COMMAND = {"type": "command", "command": ["/usr/bin/backup", "shop"]}
SECRET = {"secret_headers": {"Authorization": "Bearer xyzzy"}}
NUMBERS = count()
Headers = Mapping[str, str]
Body = dict[str, Any]
Way = Callable[[Whole, str, Body, Headers, Mapping[str, str]], Awaitable[str]]


def reported(answer: httpx.Response) -> str:
    return "done" if answer.status_code in (200, 201, 202, 204) else answer.json()["code"]


async def by_patch(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    nothing: Body = dict.fromkeys(
        ["url", "database", "function", "name", "command"]
    )  # a merge patch adds to the old target
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


async def by_app(api: Whole, name: str, body: Body, headers: Headers, more: Mapping[str, str]) -> str:
    """Create the job as a program at run time, which has no role."""
    del headers, more
    program = Scheduler("shop")
    program.task(lambda _: None, name=TASK["name"])
    stores = (api.database.control(), api.database.lists(), api.database.secrets())
    jobs = RunTimeJobs(program, *stores, now=api.time.now)
    options: JobOptions = {"tags": body.get("tags", [])}
    try:
        await jobs.create(
            name, body["schedule"], TASK["name"], on_conflict="update", run_on_create=False, options=options
        )
    except Refused as refused:
        return refused.code
    return "done"


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


@pytest.fixture(autouse=True)
async def within_the_limits(api: Whole, tokens: dict[Role, dict[str, str]]) -> AsyncIterator[None]:
    """Delete the channels and policies of each test: a database has a limited number of them."""
    yield
    params = {"force": "true", "take_over": "true"}
    for path in (CHANNELS, POLICIES):
        for each in (await api.client.get(path, headers=tokens[Role.ADMIN])).json()["items"]:
            await api.client.delete(f"{path}/{each['name']}", headers=tokens[Role.ADMIN], params=params)


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
    "to a command": ({}, {"target": COMMAND}, {}, by_role(NO, NO, NO, "done")),
    "a job that runs a command": ({"target": COMMAND}, {"schedule": "0 4 * * *"}, {}, by_role(NO, NO, NO, "done")),
    "a command to a webhook": ({"target": COMMAND}, {"target": HOOK}, {}, by_role(NO, NO, NO, "done")),
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


@pytest.mark.parametrize(("target", "way"), list(product(("http", "function", "forbidden", "task", "command"), MAKES)))
async def test_every_way_to_create_a_job_is_answered_alike(
    api: Whole, tokens: dict[Role, dict[str, str]], target: str, way: str
) -> None:
    targets = {"http": HOOK, "function": FUNCTION, "forbidden": FORBIDDEN, "task": TASK, "command": COMMAND}
    found = {}
    for role in Role:
        name = f"new-{next(NUMBERS)}"
        found[role] = await MAKES[way](api, name, a_job(name, target=targets[target]), tokens[role], {})
    of_admin = "invalid_job" if target == "forbidden" else "done"
    assert found == by_role(NO, NO, "done" if target == "http" else NO, of_admin)


@pytest.mark.parametrize("owner", ["code", "app", "sql", "system"])
@pytest.mark.parametrize("role", list(Role))
async def test_no_caller_claims_the_jobs_of_a_program(
    api: Whole, tokens: dict[Role, dict[str, str]], role: Role, owner: str
) -> None:
    name = f"claimed-{next(NUMBERS)}"
    body = a_job(name, target=FORBIDDEN)
    found = await imported(JOBS)(api, name, body, tokens[role], {"managed_by": owner, "source": "shop"})

    assert found in (NO, "invalid_parameter")
    assert (await api.client.get(f"{JOBS}/{name}", headers=tokens[role])).status_code == 404


@pytest.mark.parametrize("way", MAKES)
async def test_a_field_of_the_body_does_not_make_a_job_an_applications(
    api: Whole, tokens: dict[Role, dict[str, str]], way: str
) -> None:
    name = f"claimed-{next(NUMBERS)}"
    body = a_job(name, managed_by="app", source="shop")

    assert await MAKES[way](api, name, body, tokens[Role.ADMIN], {}) == "done"
    job = (await api.client.get(f"{JOBS}/{name}", headers=tokens[Role.VIEWER])).json()
    assert job["managed_by"] in ("api", "file")


@pytest.mark.parametrize("way", ["PATCH", "PUT", "import", "apply"])
async def test_a_job_of_an_application_can_be_changed_only_by_taking_it_over(
    api: Whole, tokens: dict[Role, dict[str, str]], way: str
) -> None:
    name = f"app-{next(NUMBERS)}"
    assert await by_app(api, name, a_job(name), {}, {}) == "done"
    change, admin = a_job(name, target=TASK, schedule="0 4 * * *"), tokens[Role.ADMIN]

    refused = await CHANGES[way](api, name, change, admin, {"take_over": "false"})
    found = (await api.client.get(f"{JOBS}/{name}", headers=admin)).json()
    taken = await CHANGES[way](api, name, change, admin, {"take_over": "true"})
    assert (refused, taken) == ("plan_refused" if way == "apply" else "owned_by_another", "done")
    assert (found["managed_by"], found["source"], found["version"]) == ("app", "shop", 1)
    assert await by_app(api, name, change, {}, {}) == "owned_by_another"
    listed = await api.client.get(f"{JOBS}?managed_by=app&source=shop&q={name}", headers=admin)
    assert listed.json()["items"] == []


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


async def alone(api: Whole, method: str, path: str, headers: Headers, body: object = None) -> str:
    return reported(await api.client.request(method, path, json=body, headers=headers))


async def in_bulk(api: Whole, headers: Headers, body: Body, *, dry_run: bool = False) -> str:
    """Act in bulk on one job; return the reason of a refusal as the single verb does."""
    query = {"dry_run": "true"} if dry_run else {}
    answer = await api.client.post(f"{JOBS}/bulk", json=body, headers=headers, params=query)
    if answer.status_code != 200:
        return reported(answer)
    assert answer.json()["matched"] == 1
    refused = [each["message"] for each in answer.json()["refused"]]
    return (
        "done"
        if not refused
        else NO
        if "needs the role" in refused[0]
        else OWNED
        if "belongs to" in refused[0]
        else refused[0]
    )


OWNED = "owned_by_another"
TAGGED = {"tags": ["old"]}
# The bulk action, and the request of the single verb.
VERBS: dict[str, tuple[Body, str, str, Body | None]] = {
    "pause": ({"note": "why"}, "POST", "/pause", {"note": "why"}),
    "resume": ({}, "POST", "/resume", None),
    "trigger": ({"payload": 1}, "POST", "/trigger", {"payload": 1}),
    "delete": ({}, "DELETE", "", None),
    "tag": ({"tags": ["new"]}, "PATCH", "", {"tags": ["old", "new"]}),
    "untag": ({"tags": ["old"]}, "PATCH", "", {"tags": []}),
}
RUNS = by_role(NO, "done", "done", "done")
EDITS = by_role(NO, NO, "done", "done")
DEFINES = by_role(NO, NO, NO, "done")
# Who may do what to a job: by its target, and by who made it.
BULK: dict[str, tuple[Body, Way, dict[Role, str]]] = {
    "http": ({}, by_put, EDITS),
    "http with a secret header": (SECRET, by_put, EDITS),
    "function": ({"target": FUNCTION}, by_put, DEFINES),
    "task": ({"target": TASK}, by_put, DEFINES),
    "command": ({"target": COMMAND}, by_put, DEFINES),
    "http of a file": ({}, by_apply, by_role(NO, NO, OWNED, OWNED)),
    "task of a file": ({"target": TASK}, by_apply, by_role(NO, NO, NO, OWNED)),
    "task of an application": ({"target": TASK}, by_app, by_role(NO, NO, NO, OWNED)),
}


@pytest.mark.parametrize("chosen", ["name", "id", "filter", "dry run"])
@pytest.mark.parametrize("job", BULK)
@pytest.mark.parametrize("action", VERBS)
async def test_an_action_in_bulk_is_answered_as_the_single_verb(
    api: Whole, tokens: dict[Role, dict[str, str]], action: str, job: str, chosen: str
) -> None:
    fields, make, defines = BULK[job]
    options, method, path, body = VERBS[action]
    found: dict[str, dict[Role, str]] = {"alone": {}, "bulk": {}}
    for role, way in product(Role, found):
        name = f"many-{next(NUMBERS)}"
        assert await make(api, name, a_job(name, **TAGGED, **fields), tokens[Role.ADMIN], {}) == "done"
        if action == "resume":
            await alone(api, "POST", f"{JOBS}/{name}/pause", tokens[Role.ADMIN])
        before = await _state(api, name, tokens[Role.VIEWER])
        if way == "alone":
            found[way][role] = await alone(api, method, f"{JOBS}/{name}{path}", tokens[role], body)
        else:
            jobs = {"filter": {"q": name}} if chosen in ("filter", "dry run") else {"jobs": [before[chosen]]}
            wish = {"action": action, **options, **jobs}
            found[way][role] = await in_bulk(api, tokens[role], wish, dry_run=chosen == "dry run")
        if found[way][role] != "done" or (way == "bulk" and chosen == "dry run"):
            assert await _state(api, name, tokens[Role.VIEWER]) == before
        elif action != "trigger":
            assert await _state(api, name, tokens[Role.VIEWER]) != before

    expected = RUNS if action in ("pause", "resume", "trigger") else defines
    assert found["alone"] == expected
    if chosen == "dry run":  # it counts, and does not look at single jobs
        expected = RUNS if action in ("pause", "resume", "trigger") else EDITS
    assert found["bulk"] == expected


async def _state(api: Whole, name: str, headers: Headers) -> Body:
    answer = await api.client.get(f"{JOBS}/{name}", headers=headers)
    if answer.status_code == 404:
        return {}
    return {key: answer.json()[key] for key in ("id", "name", "state", "tags", "version", "target")}


async def test_only_an_admin_creates_and_deletes_the_demo_jobs_because_they_are_tasks(
    api: Whole, tokens: dict[Role, dict[str, str]]
) -> None:
    names = ("demo-succeeds", "demo-fails", "demo-skips")
    task = {"type": "task", "name": "hourbell.demo"}
    found: dict[str, dict[Role, str]] = {"create": {}, "put": {}, "delete": {}}
    for role in Role:
        found["create"][role] = await alone(api, "POST", "/api/v1/demo", tokens[role])
        there = [await _state(api, name, tokens[Role.VIEWER]) != {} for name in names]
        assert there == [found["create"][role] == "done"] * 3
        assert await alone(api, "POST", "/api/v1/demo", tokens[Role.ADMIN]) == "done"
        found["delete"][role] = await alone(api, "DELETE", "/api/v1/demo", tokens[role])
        there = [await _state(api, name, tokens[Role.VIEWER]) != {} for name in names]
        assert there == [found["delete"][role] != "done"] * 3
        await alone(api, "DELETE", "/api/v1/demo", tokens[Role.ADMIN])
        name = f"as-demo-{next(NUMBERS)}"
        found["put"][role] = await by_put(api, name, a_job(name, target=task), tokens[role], {})

    assert found == dict.fromkeys(found, DEFINES)


@pytest.mark.parametrize("fields", [{}, {"target": TASK}, SECRET], ids=["http", "task", "secret"])
async def test_the_demo_takes_no_job_of_somebody_else(
    api: Whole, tokens: dict[Role, dict[str, str]], fields: Body
) -> None:
    admin = tokens[Role.ADMIN]
    assert await by_put(api, "demo-fails", a_job("demo-fails", **fields), admin, {}) == "done"
    before = await _state(api, "demo-fails", admin)

    assert await alone(api, "POST", "/api/v1/demo", admin) == "name_taken"
    assert await alone(api, "DELETE", "/api/v1/demo", admin) == "name_taken"
    assert await _state(api, "demo-fails", admin) == before
    assert await _state(api, "demo-succeeds", admin) == {}
    await alone(api, "DELETE", f"{JOBS}/demo-fails", admin)


async def test_the_demo_takes_no_demo_job_that_a_file_owns(api: Whole, tokens: dict[Role, dict[str, str]]) -> None:
    admin = tokens[Role.ADMIN]
    target = {"type": "task", "name": "hourbell.demo"}
    assert await by_apply(api, "demo-fails", a_job("demo-fails", target=target), admin, {}) == "done"

    assert await alone(api, "DELETE", "/api/v1/demo", admin) == OWNED
    assert await alone(api, "POST", "/api/v1/demo", admin) == OWNED
    assert await _state(api, "demo-succeeds", admin) == {}
    assert await alone(api, "DELETE", f"{JOBS}/demo-fails?take_over=true", admin) == "done"


async def test_no_conversion_stores_a_job_or_reads_a_secret(
    api: Whole, tokens: dict[Role, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "xyzzy")
    text = '[[job]]\nname = "converted"\nschedule = "@daily"\n'
    text += (
        'target = { type = "http", url = "https://example.com", secret = "env:CANARY", headers = { A = "env:CANARY" } }'
    )
    found = {}
    for role in Role:
        body = {"format": "jobs-file", "text": text}
        answer = await api.client.post(f"{JOBS}/convert", json=body, headers=tokens[role])
        found[role] = reported(answer)
        assert "xyzzy" not in answer.text

    assert found == EDITS
    assert await _state(api, "converted", tokens[Role.VIEWER]) == {}


# Effects on alerts, each of one endpoint. `{name}` is a channel with a secret, `{incident}` an incident.
CHANNELS, POLICIES, INCIDENTS = "/api/v1/channels", "/api/v1/alert-policies", "/api/v1/incidents"
OPS = {"type": "webhook", "url": "https://example.com/alerts", "secret": "whsec_" + 32 * "A"}
OF_ALERTS: dict[str, tuple[str, str, Body | None, dict[Role, str]]] = {
    "a new channel": ("PUT", f"{CHANNELS}/new-{{name}}", OPS, by_role(NO, NO, "done", "done")),
    "a channel to a forbidden address": (
        "PUT", f"{CHANNELS}/new-{{name}}", {"type": "webhook", "url": "http://10.0.0.1/"},
        by_role(NO, NO, "invalid_body", "invalid_body"),
    ),
    "another address of a channel": (
        "PUT", f"{CHANNELS}/{{name}}", {**OPS, "url": "https://elsewhere.example.com/"},
        by_role(NO, NO, "done", "done"),
    ),
    "a changed field of a channel": (
        "PATCH", f"{CHANNELS}/{{name}}", {"url": "https://example.com/other"}, by_role(NO, NO, "done", "done"),
    ),
    "no channel any more": ("DELETE", f"{CHANNELS}/{{name}}", None, by_role(NO, NO, "done", "done")),
    "a test message": ("POST", f"{CHANNELS}/{{name}}/test", None, by_role(NO, "done", "done", "done")),
    "a new policy": ("PUT", f"{POLICIES}/{{name}}", {"notify": ["{name}"]}, by_role(NO, NO, "done", "done")),
    "alerts for nobody": ("PUT", f"{POLICIES}/default", {"on": [], "notify": []}, by_role(NO, NO, "done", "done")),
    "no policy any more": ("DELETE", f"{POLICIES}/for-{{name}}", None, by_role(NO, NO, "done", "done")),
    "an incident taken care of": (
        "POST", f"{INCIDENTS}/{{incident}}/acknowledge", None, by_role(NO, "done", "done", "done"),
    ),
    "a muted incident": (
        "POST", f"{INCIDENTS}/{{incident}}/mute", {"until": "2026-03-03T08:00:00Z"},
        by_role(NO, "done", "done", "done"),
    ),
    "an incident resolved by hand": (
        "POST", f"{INCIDENTS}/{{incident}}/resolve", None, by_role(NO, "done", "done", "done"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("effect", OF_ALERTS)
async def test_every_effect_on_alerts_needs_its_role(
    api: Whole, tokens: dict[Role, dict[str, str]], effect: str
) -> None:
    method, path, body, expected = OF_ALERTS[effect]
    found = {}
    for role in Role:
        name = f"ops-{next(NUMBERS)}"
        admin = tokens[Role.ADMIN]
        made = [
            await api.client.put(f"{CHANNELS}/{name}", json=OPS, headers=admin),
            await api.client.put(f"{POLICIES}/for-{name}", json={}, headers=admin),
        ]
        assert [answer.status_code for answer in made] == [201, 201]
        incident = await open_incident(api, name)
        where = path.format(name=name, incident=incident)
        sent = None if body is None else json.loads(json.dumps(body).replace("{name}", name))
        found[role] = reported(await api.client.request(method, where, json=sent, headers=tokens[role]))
    assert found == expected


IN_A_FILE = ("PUT", "DELETE")  # a file has whole channels and policies


async def apply_alerts(api: Whole, headers: Headers, *, dry_run: bool, **wish: Any) -> str:
    params = {"dry_run": "true"} if dry_run else {}
    body = {"jobs": [], "take_over": True, **wish}
    return reported(await api.client.post(f"{JOBS}/apply", json=body, headers=headers, params=params))


async def by_file(api: Whole, method: str, path: str, body: Body | None, headers: Headers, *, dry_run: bool) -> str:
    """Cause an effect on a channel or a policy by a file that has it, or that no longer has it."""
    _, endpoint, name = path.rsplit("/", 2)
    kind = endpoint.replace("-", "_")
    if method == "PUT":
        return await apply_alerts(api, headers, dry_run=dry_run, **{kind: {name: body}})
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN, f'owner-{next(NUMBERS)}')}"}
    before: Body = OPS if kind == "channels" else {}
    owned = {"source": f"prune-{name}", "alert_policies": {f"kept-{name}": {}}}
    with_it = {**owned, kind: {**owned.get(kind, {}), name: before}}  # type: ignore[dict-item]
    assert await apply_alerts(api, admin, dry_run=False, **with_it) == "done"
    return await apply_alerts(api, headers, dry_run=dry_run, prune=True, **owned)


@pytest.mark.parametrize("way", ["apply", "dry run"])
@pytest.mark.parametrize("effect", [name for name, (method, *_) in OF_ALERTS.items() if method in IN_A_FILE])
async def test_a_file_has_the_effects_on_alerts_that_the_role_has_otherwise(
    api: Whole, tokens: dict[Role, dict[str, str]], effect: str, way: str
) -> None:
    method, path, body, expected = OF_ALERTS[effect]
    found = {}
    for role in Role:
        name = f"ops-{next(NUMBERS)}"
        admin = tokens[Role.ADMIN]
        await api.client.put(f"{CHANNELS}/{name}", json=OPS, headers=admin)
        await api.client.put(f"{POLICIES}/for-{name}", json={}, headers=admin)
        where = path.format(name=name)
        before = await api.client.get(where, headers=admin)
        sent = None if body is None else json.loads(json.dumps(body).replace("{name}", name))

        found[role] = await by_file(api, method, where, sent, tokens[role], dry_run=way == "dry run")
        after = await api.client.get(where, headers=admin)
        ignored = {"managed_by", "source", "updated_at", "updated_by"}
        if found[role] != "done" or way == "dry run":
            shown = [{k: v for k, v in each.json().items() if k not in ignored} for each in (before, after)]
            assert (before.status_code, shown[0].get("url")) == (after.status_code, shown[1].get("url"))
            assert shown[0] == shown[1] or before.status_code == 404
        else:
            assert after.status_code == (404 if method == "DELETE" else 200)
    # There may be 100 channels and 200 policies, and the other tests need theirs.
    for kind in (CHANNELS, POLICIES):
        for each in (await api.client.get(kind, headers=tokens[Role.ADMIN])).json()["items"]:
            every = {"take_over": "true"} | ({"force": "true"} if kind == CHANNELS else {})
            await api.client.delete(f"{kind}/{each['name']}", params=every, headers=tokens[Role.ADMIN])
    assert found == expected


@pytest.mark.parametrize("way", [*MAKES, "PATCH"])
@pytest.mark.parametrize("take_over", ["false", "true"])
async def test_no_way_to_change_a_job_reaches_that_of_a_channel(
    api: Whole, tokens: dict[Role, dict[str, str]], way: str, take_over: str
) -> None:
    name = f"ops-{next(NUMBERS)}"
    assert (await api.client.put(f"{CHANNELS}/{name}", json=OPS, headers=tokens[Role.ADMIN])).status_code == 201
    job = f"hourbell-channel-{name}"
    before = await api.client.get(f"{JOBS}/{job}", headers=tokens[Role.VIEWER])

    more = {} if way == "POST" else {"take_over": take_over}
    found = {role: await {**MAKES, **CHANGES}[way](api, job, a_job(job), tokens[role], more) for role in Role}

    refused = {"POST": "name_taken", "apply": "plan_refused"}.get(way, "system_job")
    assert found == by_role(NO, NO, refused, refused)
    after = await api.client.get(f"{JOBS}/{job}", headers=tokens[Role.VIEWER])
    assert (before.status_code, after.json()) == (200, before.json())


ACTIONS_ON_JOBS: dict[str, Body] = {
    "pause": {},
    "resume": {},
    "trigger": {},
    "backfill": {"from": "2025-12-01T00:00:00Z", "to": "2026-03-01T00:00:00Z"},
    "rotate-secret": {},
}


@pytest.mark.parametrize("action", [*ACTIONS_ON_JOBS, "delete", "bulk"])
async def test_no_action_on_a_job_reaches_that_of_a_channel(
    api: Whole, tokens: dict[Role, dict[str, str]], action: str
) -> None:
    name = f"ops-{next(NUMBERS)}"
    admin = tokens[Role.ADMIN]
    assert (await api.client.put(f"{CHANNELS}/{name}", json=OPS, headers=admin)).status_code == 201
    job = f"hourbell-channel-{name}"
    before = (await api.client.get(f"{JOBS}/{job}", headers=admin)).json()

    if action in ACTIONS_ON_JOBS:
        answer = await api.client.post(f"{JOBS}/{job}/{action}", json=ACTIONS_ON_JOBS[action], headers=admin)
        assert reported(answer) == ("not_a_webhook" if action == "rotate-secret" else "system_job")
    elif action == "delete":
        assert reported(await api.client.delete(f"{JOBS}/{job}", headers=admin)) == "system_job"
    else:
        body = {"action": "delete", "jobs": [job]}
        answer = await api.client.post(f"{JOBS}/bulk", json=body, headers=admin)
        assert (answer.json()["done"], len(answer.json()["refused"])) == ([], 1)

    assert (await api.client.get(f"{JOBS}/{job}", headers=admin)).json() == before
