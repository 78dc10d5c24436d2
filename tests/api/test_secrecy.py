"""No secret leaks: all answers, log lines, objects and tables are searched, except where it is shown once."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourbell.api.session_cookie import COOKIE
from hourbell.core.access.roles import Role
from hourbell.sealing import Plain
from hourbell.store.control.actor import Actor
from tests.api.document import distinct_operations
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.backends import ONE_IN_A_FILE
from tests.database import BACKENDS, Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
GIVEN = b"canary-given-secret-of-32-bytes!"
HEADER = "Bearer canary-header-value"
WRONG = "whsec_canary-that-is-not-base64"
PASSWORD = "canary-password"
SAME = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}


def whsec(raw: bytes) -> str:
    return f"whsec_{base64.b64encode(raw).decode()}"


class Canaries:
    """The secrets of a story in which every path takes one, and all answers that may not hold any."""

    def __init__(self, api: Whole) -> None:
        self.api = api
        self.secrets: list[str] = [whsec(GIVEN), HEADER, WRONG, PASSWORD]
        self.answers: list[httpx.Response] = []
        self.headers: dict[str, str] = {}

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        answer = await self.api.client.request(method, path, headers=headers, **more)
        self.answers.append(answer)
        return answer

    async def ask_for(self, field: str, method: str, path: str, **more: Any) -> None:
        """Create a secret, which only this answer shows."""
        answer = await self.ask(method, path, **more)
        self.answers.pop()
        assert answer.is_success, answer.text
        assert answer.json()[field], answer.text
        self.secrets.append(answer.json()[field])

    async def happen(self) -> None:
        await self.tokens()
        await self.jobs()
        await self.mistakes()
        await self.sessions()
        await self.read()

    async def tokens(self) -> None:
        admin = await self.api.token(Role.ADMIN)
        self.secrets.append(admin)
        self.headers = {"Authorization": f"Bearer {admin}"}
        body = {"name": "made", "role": "viewer"}
        await self.ask_for("token", "POST", "/api/v1/tokens", json=body, headers={"Idempotency-Key": "t"})
        await self.ask("POST", "/api/v1/tokens", json=body, headers={"Idempotency-Key": "t"})

    async def jobs(self) -> None:
        generate = a_job("made", target={**HOOK, "secret": "generate"})
        await self.ask("POST", JOBS, json=a_job("given", target={**HOOK, "secret": whsec(GIVEN)}))
        await self.ask_for("generated_secret", "POST", JOBS, json=generate, headers={"Idempotency-Key": "j"})
        await self.ask("POST", JOBS, json=generate, headers={"Idempotency-Key": "j"})
        for key in ("r1", "r2"):
            await self.ask_for("secret", "POST", f"{JOBS}/made/rotate-secret", headers={"Idempotency-Key": key})
        await self.ask("POST", f"{JOBS}/made/rotate-secret", headers={"Idempotency-Key": "r2"})
        secrets = self.api.control.secrets
        assert secrets is not None
        await secrets.put("given", "header:Authorization", Plain(HEADER), Actor("test", self.api.time.now()))
        run = (await self.ask("POST", f"{JOBS}/given/trigger")).json()["run_id"]
        await self.ask("POST", f"/api/v1/runs/{run}/cancel")
        await self.ask("PATCH", f"{JOBS}/given", json={"description": "changed"})
        await self.ask("PUT", f"{JOBS}/made", json=a_job("made", description="changed"))

    async def mistakes(self) -> None:
        """Refused values are not repeated in answers."""
        wrong = [
            {**HOOK, "secret": secret} for secret in (WRONG, whsec(GIVEN)[:-2], [whsec(GIVEN)], whsec(GIVEN) + "=")
        ]
        wrong.append({"type": "http", "url": f"https://user:{PASSWORD}@example.com/"})
        for target in wrong:
            await self.ask("POST", JOBS, json=a_job("wrong", target=target))
            await self.ask("PATCH", f"{JOBS}/given", json={"target": target})
            line = json.dumps(a_job("line", target=target)).encode()
            await self.ask("POST", f"{JOBS}/import", content=line, headers={"Content-Type": "application/x-ndjson"})
        await self.ask("POST", JOBS, json=a_job("wrong", secret=whsec(GIVEN)))
        await self.ask("PUT", f"{JOBS}/given", json=a_job("given", target={**HOOK, "secret": whsec(GIVEN)}))
        token = self.secrets[4]
        for broken in (token[:-1], f"{token}x", token.upper()):
            await self.ask("GET", JOBS, headers={"Authorization": f"Bearer {broken}"})
            await self.ask("POST", "/api/v1/session", json={"token": broken}, headers=SAME)
        await self.ask("GET", JOBS, headers={"Authorization": f"Basic {token}"})
        await self.ask("GET", JOBS, params={"token": token})
        await self.ask("POST", "/api/v1/session", json={"tokn": token}, headers=SAME)

    async def sessions(self) -> None:
        login = await self.api.client.post("/api/v1/session", json={"token": self.secrets[4]}, headers=SAME)
        value = login.headers["set-cookie"].partition(";")[0].partition("=")[2]
        self.secrets += [value, login.json()["csrf_token"]]
        cookie = {"Cookie": f"{COOKIE}={value}", "Authorization": ""}
        for headers in (cookie, {**cookie, **SAME, "X-CSRF-Token": "wrong"}):
            given = {name: text for name, text in headers.items() if text}
            self.answers.append(await self.api.client.post(f"{JOBS}/given/pause", headers=given))
            self.answers.append(await self.api.client.get(JOBS, headers=given))

    async def read(self) -> None:
        """Call every reading endpoint."""
        run = (await self.ask("GET", "/api/v1/runs")).json()["items"][0]["id"]
        for job in ("given", "made"):
            for each in distinct_operations():
                if each.method == "get" and each.name != "listen":
                    params = {"job": job, "at": "2026-03-02T09:00:00Z"} if each.name == "explain_instant" else {}
                    await self.ask("GET", each.at(job=job, run=run), params=params)

    def found_in(self, text: str) -> list[str]:
        """The secrets that a text holds, as they are or as databases and programs write them."""
        return [each[:20] for each in self.secrets if any(form in text for form in forms(each))]


def forms(secret: str) -> list[str]:
    bare = secret.removeprefix("whsec_").removeprefix("Bearer ")
    found = [bare, bare.encode().hex(), base64.b64encode(bare.encode()).decode().rstrip("=")]
    if secret.startswith("whsec_") and secret != WRONG:
        raw = base64.b64decode(bare)
        found += [raw.hex(), repr(raw)[2:-1], raw.decode("latin-1")]
    return found


@pytest.fixture(params=ONE_IN_A_FILE)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with BACKENDS[request.param]() as made:
        yield made


@pytest.fixture
async def story(database: Database, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Canaries]:
    caplog.set_level(logging.DEBUG)
    async with whole_api(database) as api:
        canaries = Canaries(api)
        await canaries.happen()
        yield canaries


async def everything_in(database: Database) -> str:
    """Each byte of the file, or each row of each table."""
    if isinstance(database, SqliteDatabase):
        files = sorted(Path(database.path).parent.glob("hourbell.db*"))
        return "".join(file.read_bytes().decode("latin-1") for file in files)
    assert isinstance(database, PostgresDatabase)
    tables = await database.connection.fetch("select tablename from pg_tables where schemaname = 'hourbell'")
    rows = [await database.connection.fetch(f"select t::text from hourbell.{row[0]} t") for row in tables]
    return "\n".join(row[0] for table in rows for row in table)


async def test_secrets_appear_only_where_they_are_created(
    story: Canaries, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {
        f"{answer.request.method} {answer.request.url.path}": found
        for answer in story.answers
        if (found := story.found_in(answer.text + str(dict(answer.headers))))
    }
    logged = [found for record in caplog.records if (found := story.found_in(f"{record.getMessage()} {vars(record)}"))]

    assert answers == {}
    assert logged == []
    assert story.found_in(await everything_in(database)) == []


async def test_the_repr_of_objects_hides_their_secrets(story: Canaries) -> None:
    control = story.api.control
    job = (await control.jobs.get("given")).job
    plain, sealed = await control.secrets.prepare(job.id, job.definition, Plain(whsec(GIVEN)))
    tokens = await control.access.list()

    shown = [plain, str(plain), sealed, tokens, vars(control.secrets), vars(control.jobs), control]
    assert story.found_in(repr(shown)) == []


async def test_the_tested_scenario_contains_every_secret(story: Canaries) -> None:
    assert len(set(story.secrets)) == len(story.secrets) == 11
    assert story.found_in(" ".join(story.secrets)) == [each[:20] for each in story.secrets]
