"""`hourbell export`: jobs as an equivalent file without secrets, and notes on what could not be written."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hourbell.cli.files.export import Export
from hourbell.client import Job
from hourbell.client.api_client import ApiClient
from hourbell.client.reading import read
from hourbell.core.formats.jobs_file import FORMATS, Format, read_jobs_file
from hourbell.core.job.body import job_to_body
from hourbell.core.job.definition import Definition
from tests.api.whole import Whole, whole_api
from tests.cli.live import Live, live
from tests.core.schedule.strategies import examples
from tests.core.test_jobs_file import unusual_definitions
from tests.sqlite_database import SqliteDatabase


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[Live]:
    with live(folder) as made:
        yield made


def test_an_export_can_be_applied_and_changes_nothing(node: Live, tmp_path: Path) -> None:
    text = '[[job]]\nname = "again"\nschedule = "0 9 * * *"\ntarget = { type = "task", name = "t" }\ntags = ["x"]\n'
    node.ok("apply", "-f", "-", "--source", "again", given=text)
    exported = node.ok("export", "--source", "again")

    assert exported == f'source = "again"\n\n{text}'
    assert node.ok("apply", "-f", "-", "--prune", given=exported) == "nothing to change\n"
    for suffix in ("yaml", "json", "toml"):
        file = str(tmp_path / f"jobs.{suffix}")
        assert node.ok("export", "--source", "again", "-f", file) == ""
        assert node.ok("diff", "-f", file, "--prune") == "nothing to change\n"


def test_payloads_and_bodies_too_long_for_a_list_are_exported_whole(node: Live) -> None:
    target = {"type": "http", "url": node.receiver, "body": {"text": "b" * 5_000}}
    job = {"name": "long", "schedule": "@yearly", "target": target, "payload": {"text": "p" * 5_000}}
    node.ok("apply", "-f", "-", "--source", "long", given=json.dumps({"job": [job]}))
    [listed] = [each for each in node.json("job", "list")["items"] if each["name"] == "long"]
    [exported] = json.loads(node.ok("export", "--source", "long", "--format", "json"))["job"]

    assert [mark["field"] for mark in listed["omitted"]] == ["payload", "target"]
    assert (exported["payload"], exported["target"]) == (job["payload"], target)


def test_an_existing_file_is_not_overwritten(node: Live, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text("mine")
    done = node.run("export", "-f", str(file))

    assert (done.exit_code, "already exists" in done.stderr, file.read_text()) == (2, True, "mine")
    assert "cannot be written" in node.run("export", "-f", str(tmp_path / "no" / "jobs.toml")).stderr


def test_secrets_are_reported_and_not_exported(node: Live) -> None:
    target = json.dumps({"type": "http", "url": node.receiver, "secret": "generate", "headers": {"A": "env:TOKEN"}})
    body = '{"job": [{"name": "signed", "schedule": "@yearly", "target": %s}]}' % target  # noqa: UP031
    made = node.run("apply", "-f", "-", "--source", "signed", given=body, TOKEN="very-hidden")
    exported = node.run("export", "--source", "signed")
    as_json = node.run("export", "--source", "signed", "--format", "json")

    assert (made.exit_code, "whsec_" in made.stdout) == (0, True), made.output
    assert '# signed: secret = "env:NAME" in its target\n' in exported.stdout
    assert '# signed: headers = { A = "env:NAME" } in its target\n' in exported.stdout
    assert "not in the file: signed: secret" in as_json.stderr
    assert not any(word in exported.output + as_json.output for word in ("whsec_", "very-hidden"))
    assert node.ok("diff", "-f", "-", given=exported.stdout).splitlines()[-1] == "nothing to change"


def test_jobs_are_fetched_page_by_page(node: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        node.create(f"paged-{number}", "--tag", "paged")
    asked = []
    get = ApiClient.get

    async def counted(caller: ApiClient, path: str, *rest: Any) -> Any:
        asked.append(path)
        return await get(caller, path, *rest)

    monkeypatch.setattr(ApiClient, "get", counted)

    assert "paged-2" in node.ok("export", "--tag", "paged")
    assert asked == ["/api/v1/jobs"]


def test_jobs_of_several_owners_are_exported_without_a_source_and_with_their_owners(node: Live) -> None:
    node.create("by-hand", "--tag", "mixed")
    given = '[[job]]\nname = "by-file"\nschedule = "@daily"\ntarget = { type = "task", name = "t" }\ntags = ["mixed"]\n'
    node.ok("apply", "-f", "-", "--source", "mixed", given=given)
    done = node.run("export", "--tag", "mixed")
    exported = done.stdout

    assert "note: these jobs belong to api, file:mixed; --source or --managed-by chooses those of one" in done.stderr
    assert exported.startswith("# These jobs belong to api, file:mixed; apply --take-over --source LABEL makes them")
    assert "\nsource = " not in exported
    assert node.run("diff", "-f", "-", given=exported).exit_code == 5
    assert "source:" not in node.ok("export", "--tag", "mixed", "--managed-by", "api", "--format", "yaml")


@pytest.mark.parametrize("form", FORMATS)
def test_a_pause_by_an_operator_is_reported_and_not_exported(node: Live, form: Format) -> None:
    source, task = f"pause-{form}", 'target = { type = "task", name = "t" }'
    given = f'[[job]]\nname = "{source}-a"\nschedule = "@daily"\n{task}\n\n'
    given += f'[[job]]\nname = "{source}-b"\nschedule = "@daily"\n{task}\nenabled = false\n'
    node.ok("apply", "-f", "-", "--source", source, given=given)
    node.ok("job", "pause", f"{source}-a", "--note", "broken disk", "--until", "2199-01-01")
    done = node.run("export", "--source", source, "--format", form)
    by_person, by_file = read_jobs_file(done.stdout, form, str).jobs

    assert (by_person.definition.enabled, by_file.definition.enabled) == (True, False)
    note = "paused by local until 2199-01-01 00:00:00 UTC: broken disk"
    assert f"{source}-a: {note}" in done.stderr if form == "json" else f"# {note}\n" in done.stdout
    assert node.ok("apply", "-f", "-", given=done.stdout).splitlines()[-1] == "nothing to change"


def test_a_job_that_cannot_be_read_is_reported_and_the_others_are_exported(node: Live, folder: Path) -> None:
    for name in ("broken-a", "broken-b"):
        node.create(name, "--tag", "broken")
    [path] = folder.glob("*.db")
    with sqlite3.connect(path) as connection:
        connection.execute("update hourbell_jobs set schedule = 'nonsense' where name = 'broken-a'")
    connection.close()
    done = node.run("export", "--tag", "broken")

    assert done.exit_code == 1
    assert "broken-a: " in done.stderr
    assert "broken-b" not in done.stderr
    assert [job.definition.name for job in read_jobs_file(done.stdout, "toml", str).jobs] == ["broken-b"]


def test_a_job_in_error_is_not_exported() -> None:
    raw = {"id": "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e", "version": 1, "state": "error", "error": "retry is 5"}
    export = Export()
    export.add(read(Job, {**raw, "name": "a", "schedule": "@daily", "target": {"type": "task", "name": "t"}}))

    assert (export.text("toml"), export.unwritten) == ("", ["a: it is in error: retry is 5"])


def test_an_export_of_nothing_is_an_empty_file(node: Live) -> None:
    done = node.run("export", "--tag", "nobody-has-this")

    assert (done.exit_code, done.stdout, "there is no such job" in done.stderr) == (0, "", True)


async def applied(api: Whole, bodies: list[dict[str, Any]], source: str, *, dry_run: bool = False) -> dict[str, Any]:
    body = {"source": source, "prune": bool(bodies), "jobs": bodies}
    answer = await api.client.post("/api/v1/jobs/apply", json=body, params={"dry_run": dry_run})
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


@settings(examples(25), phases=[Phase.generate])  # to shrink takes minutes: each example is a database
@given(
    st.lists(unusual_definitions, max_size=3, unique_by=lambda definition: definition.name),
    st.sampled_from(["", "é 1"]),
)
def test_applying_an_export_changes_nothing_in_any_format(wanted: list[Definition], source: str) -> None:
    async def exported_and_applied() -> None:
        async with SqliteDatabase.in_memory() as database, whole_api(database) as api:
            for policy in {definition.alert_policy for definition in wanted} - {"", "none"}:
                await api.client.put(f"/api/v1/alert-policies/{policy}", json={})
            await applied(api, [job_to_body(definition) for definition in wanted], source)
            export = Export()
            for raw in (await api.client.get("/api/v1/jobs")).json()["items"]:
                export.add(read(Job, raw))
            assert (len(export.definitions), export.unwritten) == (len(wanted), [])
            for form in FORMATS:
                plan = await applied(api, *read_again(export, form), dry_run=True)
                assert [job["action"] for job in plan["jobs"]] == ["none"] * len(wanted), (form, plan)
                assert plan["deleted"] == []

    asyncio.run(exported_and_applied())


def read_again(export: Export, form: Format) -> tuple[list[dict[str, Any]], str]:
    read = read_jobs_file(export.text(form), form, str)
    return [job.as_body() for job in read.jobs], read.source_label or ""
