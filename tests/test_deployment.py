"""Facts about settings, files and limits in `hourbell doctor --production`, and its exit code."""

import asyncio
import base64
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.db import command as db
from hourbell.cli.local.doctor import command
from hourbell.cli.local.token import command as token
from hourbell.deployment import describe_deployment
from hourbell.settings import load_settings
from tests.database import PostgresDatabase

PAGE = Path(__file__).parents[1] / "docs" / "doctor.md"
KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "PGSSLMODE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOURBELL_SLOTS", "1")  # for which the descriptors of any machine are enough
    return tmp_path


def doctor(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(command, ["--production", *arguments])


def found(*arguments: str, **environment: str) -> set[str]:
    body = json.loads(doctor("--json", *arguments, **environment).stdout)
    return {each["check"] for each in body["findings"]} - {"no_live_node", "setting_unsafe"}


def unencrypted(environment: dict[str, str], url: str, **more: str) -> tuple[str, ...]:
    settings = load_settings(environment={"DATABASE_URL": url, **more}, folder=Path("/nowhere"))
    return describe_deployment(settings, None, environment).unencrypted


@pytest.mark.parametrize(
    ("functions", "has_login"),
    [
        (None, False),
        ("postgresql://hourbell@127.0.0.1/d", False),
        ("postgresql://hourb%65ll:other@127.0.0.1/d", False),
        ("postgresql:///d?host=/run/postgresql&user=hourbell", False),
        ("postgresql:///d?host=/run/postgresql", False),  # PGUSER
        ("postgresql://functions@127.0.0.1/d", True),
        ("postgresql:///d?host=/run/postgresql&user=functions", True),
    ],
)
def test_functions_under_hourbells_own_login_have_no_login_of_their_own(functions: str | None, has_login: bool) -> None:
    url = "postgresql://hourbell:secret@127.0.0.1/d"
    more = {} if functions is None else {"HOURBELL_SQL_DATABASE_URL": functions}
    settings = load_settings(environment={"DATABASE_URL": url, **more}, folder=Path("/nowhere"))

    assert describe_deployment(settings, None, {"PGUSER": "hourbell"}).has_function_login is has_login


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///hourbell.db",
        "postgresql://me@127.0.0.1/d",
        "postgresql://me@localhost:5433/d",
        "postgresql://me@[::1]/d",
        "postgresql://me@/d?host=/var/run/postgresql",
        "postgresql://me@db.example.com/d?sslmode=require",
        "postgresql://me@db.example.com/d?sslmode=verify-full&sslrootcert=/etc/ca.pem",
    ],
)
def test_a_local_or_tls_database_has_no_finding(url: str) -> None:
    assert unencrypted({}, url) == ()


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://me:canary@db.example.com/d", "db.example.com"),
        ("postgresql://me@10.0.0.7/d?sslmode=prefer", "10.0.0.7"),
        ("postgresql://me@127.0.0.1,two.example.com/d?sslmode=disable", "two.example.com"),
        ("postgresql://me@/d?host=one.example.com,two.example.com", "one.example.com, two.example.com"),
    ],
)
def test_a_remote_database_without_tls_is_named_without_its_password(url: str, hosts: str) -> None:
    assert unencrypted({}, url) == (f"DATABASE_URL leads to {hosts}",)
    assert unencrypted({"PGSSLMODE": "verify-full"}, url.partition("?sslmode")[0]) == ()


def test_other_databases_are_checked_too() -> None:
    more = {
        "HOURBELL_SQL_DATABASE_URL": "postgresql://f@db.example.com/d",
        "HOURBELL_SQL_DATABASES": "reports=postgresql://f@reports.example.com/d",
    }

    assert unencrypted({}, "postgresql://me@db.example.com/d?sslmode=require", **more) == (
        "HOURBELL_SQL_DATABASE_URL leads to db.example.com",
        "HOURBELL_SQL_DATABASES (reports) leads to reports.example.com",
    )


def test_the_page_shows_what_is_printed(folder: Path) -> None:
    CliRunner().invoke(db, ["migrate"])
    (folder / "hourbell.db.key").write_text(KEY)
    (folder / "hourbell.db.key").chmod(0o600)
    result = doctor(HOURBELL_RETENTION="1h")

    pattern = r"^```\n\$ hourbell doctor --production\n(.*?)^```"
    [session] = re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert result.exit_code == 1
    assert (result.stdout + result.stderr).replace(str(folder), "/var/lib/hourbell") == session


def test_a_deployment_is_fixed_step_by_step(folder: Path) -> None:
    CliRunner().invoke(db, ["migrate"])
    database, key = folder / "hourbell.db", folder / "hourbell.db.key"
    database.chmod(0o644)
    assert found() == {"access_open", "database_exposed", "key_missing"}

    CliRunner().invoke(token, ["create", "admin", "--role", "admin"])
    key.write_text(KEY)
    key.chmod(0o644)
    assert found(HTTP_ADDR=":8080") == {"http_unencrypted", "database_exposed", "key_exposed"}
    for repair in re.findall(r"run: (chmod .*)$", doctor().stdout, re.MULTILINE):
        assert os.system(repair) == 0
    assert found() == set()

    CliRunner().invoke(token, ["revoke", "admin"])
    assert found() == {"token_missing"}


def test_warnings_fail_it_and_without_the_flag_nothing_changes() -> None:
    CliRunner().invoke(db, ["migrate"])
    CliRunner().invoke(token, ["create", "admin", "--role", "admin"])
    plain, production = CliRunner().invoke(command, ["--json"]), doctor("--json", HOURBELL_SECRET_KEY=KEY)

    assert (plain.exit_code, production.exit_code) == (0, 1)
    assert [json.loads(each.stdout)["healthy"] for each in (plain, production)] == [True, False]
    assert [each["check"] for each in json.loads(production.stdout)["findings"]] == ["no_live_node"]


def test_tables_that_cannot_be_read_leave_the_rest_to_be_checked(folder: Path) -> None:
    (folder / "hourbell.db").touch(0o600)

    assert {"migration_pending", "key_missing"} <= found()


@pytest.mark.anyio
async def test_a_superuser_and_functions_without_a_login_are_found_on_postgresql(postgres: PostgresDatabase) -> None:
    await postgres.sql(
        "insert into hourbell.jobs (name, schedule, target, lane) values "
        """('f', '@daily', '{"type": "sql", "function": "public.f"}', 'sql:default')"""
    )
    names = await asyncio.to_thread(found, "--database-url", postgres.url, HOURBELL_SECRET_KEY=KEY)

    assert names == {"access_open", "role_superuser", "function_login_missing"}
