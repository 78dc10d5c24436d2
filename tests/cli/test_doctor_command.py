"""`hourbell doctor`: what it prints, and how it exits."""

import asyncio
import json
import re
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from hourbell.cli.local.db import command as db
from hourbell.cli.local.doctor import command
from hourbell.core.doctor.catalog import CHECKS
from hourbell.store.migrations import load_migrations
from tests.database import PostgresDatabase

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
BROKEN_JOB = """
insert into {0}jobs (name, schedule, target) values ('nightly-report', '0 25 * * *', '{{"type":"task","name":"a"}}');
update {0}jobs set error = 'hour field, column 3: 25 is not in 0-23', plan_at = null
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DATABASE_URL", "HOURBELL_DATABASE_URL", "HOURBELL_REQUIRE_DATABASE"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def migrate() -> None:
    assert CliRunner().invoke(db, ["migrate"]).exit_code == 0


def sql(statement: str) -> None:
    connection = apsw.Connection("hourbell.db")
    connection.execute(statement).fetchall()
    connection.close()


def test_warnings_alone_exit_with_0(folder: Path) -> None:
    migrate()
    result = run()

    assert result.exit_code == 0
    assert result.stdout.startswith("warning no_live_node (1): no node is running")
    assert result.stderr == f"0 errors, 1 warning in {folder}/hourbell.db; looked at 0 jobs and 0 runs\n"


def test_overdue_jobs_without_a_node_exit_with_1() -> None:
    migrate()
    sql("""insert into hourbell_jobs (name, schedule, target) values ('due', '0 3 * * *', '{"type":"task","name":"a"}');
           update hourbell_jobs set plan_at = 1700000000000000""")
    result = run("--json")

    assert result.exit_code == 1
    assert [(found["check"], found["severity"]) for found in json.loads(result.stdout)["findings"]] == [
        ("job_unattended", "error"),
        ("no_live_node", "warning"),
    ]


def test_the_page_shows_what_is_printed_and_an_error_exits_with_1(folder: Path) -> None:
    migrate()
    sql(BROKEN_JOB.format("hourbell_"))
    result = run()

    pattern = r"^```\n\$ hourbell doctor --database-url [^\n]*\n(.*?)^```"
    [session] = re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert result.exit_code == 1
    assert (result.stdout + result.stderr).replace(str(folder), "/var/lib/hourbell") == session


def test_the_page_lists_every_finding_with_its_severity() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (error|warning) \|", PAGE.read_text(), re.MULTILINE))

    assert listed == {name: str(check.severity) for name, check in CHECKS.items()}


def test_json_output_is_machine_readable() -> None:
    migrate()
    sql(BROKEN_JOB.format("hourbell_"))
    result = run("--json")
    body = json.loads(result.stdout)

    assert (result.exit_code, result.stderr) == (1, "")
    assert (body["healthy"], body["jobs"], body["runs"]) == (False, 1, 0)
    assert [(found["check"], found["severity"]) for found in body["findings"]] == [
        ("job_in_error", "error"),
        ("no_live_node", "warning"),
    ]
    assert set(body["findings"][0]) == {"check", "severity", "message", "count", "rows", "repair", "sql"}


def test_repair_statements_can_be_copied() -> None:
    migrate()
    sql(
        BROKEN_JOB.format("hourbell_")
        .replace("25 *", "2 *")
        .replace("'hour field, column 3: 25 is not in 0-23'", "null")
    )
    before = run()
    [statement] = re.findall(r"^    (update .*;)$", before.stdout, re.MULTILINE)
    sql(statement)

    assert (before.exit_code, run().exit_code) == (1, 0)


def test_an_unmigrated_database_explains_how_to_migrate(folder: Path) -> None:
    apsw.Connection(str(folder / "hourbell.db")).execute("create table another (id)").fetchall()
    result = run()

    assert result.exit_code == 1
    assert result.stdout.startswith(f"error migration_pending ({len(load_migrations('hourbell.store.sqlite'))}): ")
    assert "Run: hourbell db migrate." in result.stdout


def test_doctor_creates_and_leaves_no_files(folder: Path) -> None:
    missing = run()
    made = list(folder.iterdir())
    migrate()
    run()

    assert (missing.exit_code, made) == (1, [])
    assert missing.stderr.startswith(f"error: the database is unreachable: {folder}/hourbell.db\n")
    assert [path.name for path in folder.iterdir()] == ["hourbell.db"]


def test_a_file_that_is_not_a_database_is_reported(folder: Path) -> None:
    (folder / "hourbell.db").write_text("a letter, and not a short one. " * 200)
    result = run()

    assert result.exit_code == 1
    assert "the file is not a SQLite database\n" in result.stderr


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    result = run("--database-url", "postgresql://u:hunter2@127.0.0.1:1/jobs")

    assert result.exit_code == 1
    assert result.stderr.startswith("error: the database is unreachable: postgresql://u:***@127.0.0.1:1/jobs\n")
    assert "hunter2" not in result.output


def test_bad_settings_exit_with_2_and_a_malformed_url_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    malformed = run("--database-url", "mysql://localhost")
    unknown = run("--fast")
    monkeypatch.setenv("HOURBELL_RETENTION", "soon")

    assert (malformed.exit_code, unknown.exit_code, run().exit_code) == (1, 2, 2)


def test_help_starts_with_examples() -> None:
    assert run("--help").stdout.startswith("Examples:\n  hourbell doctor\n")


@pytest.mark.anyio
async def test_postgresql_is_examined_in_the_same_way() -> None:
    async with PostgresDatabase.made() as database:
        url = ("--database-url", database.url)
        healthy = await asyncio.to_thread(run, "--json", *url)
        await database.sql(BROKEN_JOB.format("hourbell."))
        broken = await asyncio.to_thread(run, "--json", *url)

    assert (healthy.exit_code, broken.exit_code) == (0, 1)
    assert "no_live_node" in {found["check"] for found in json.loads(healthy.stdout)["findings"]}
    assert json.loads(broken.stdout)["findings"][0]["check"] == "job_in_error"


@pytest.mark.anyio
async def test_a_database_without_hourbell_and_a_missing_database_are_reported() -> None:
    async with PostgresDatabase.made(migrated=False) as database:
        new = await asyncio.to_thread(run, "--database-url", database.url)
        gone = await asyncio.to_thread(run, "--database-url", database.url.replace("hourbell_test_", "no_such_"))

    assert (new.exit_code, gone.exit_code) == (1, 1)
    assert "migration_pending" in new.stdout
    assert "does not exist" in gone.stderr


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_no_control_character_of_a_row_reaches_the_terminal(arguments: list[str]) -> None:
    migrate()
    with apsw.Connection("hourbell.db") as connection:
        connection.execute(BROKEN_JOB.format("hourbell_"))
        connection.execute("update hourbell_jobs set error = ?", ("\x1b]0;owned\x07\x9b31m\x7f\u202e\nx",))
    output = run(*arguments).output

    assert "nightly-report" in output
    assert [character for character in output if not character.isprintable() and character != "\n"] == []
