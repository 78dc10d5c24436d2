"""The examples of docs/sql.md work: each program runs in a separate process, on a real database."""

import re
import secrets
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from hourbell.core.run.run import manual_run_id
from hourbell.sql import insert_job, trigger_job
from tests.contract.steps import add_job
from tests.database import PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "sql.md").read_text()
PROGRAMS = [
    block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if ">>>" not in block
]
ON_SQLITE = [program for program in PROGRAMS if "sqlite3" in program]
ORDERS = "create table orders (id integer primary key, customer text not null)"
DJANGO = """
import django
from django.conf import settings
from tests.sql_drivers import django_postgresql
settings.configure(DATABASES={"default": django_postgresql(DATABASE_URL)})
django.setup()
"""


MISSING = "there is no job named restock"
OVER = {"name": "remind-7", "schedule": "at 2020-01-15T09:00:00Z", "target": {"type": "task", "name": "a"}}
SQLITE_ERRORS = """
import sqlite3, sys
from hourbell.sql import insert_job, trigger_job
connection = sqlite3.connect("hourbell.db")
for statement in (trigger_job("restock", dialect="sqlite"), insert_job(OVER, dialect="sqlite"), trigger_job("restock")):
    try:
        connection.execute(*statement)
    except sqlite3.OperationalError as error:
        print(error)
"""


def run(program: str, url: str, folder: Path) -> str:
    setup = f"import sys; sys.path.append({str(ROOT)!r}); DATABASE_URL = {url!r}\n"
    code = setup + (DJANGO if "django" in program else "") + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
async def test_the_programs_for_postgresql_do_what_the_page_says(postgres: PostgresDatabase, tmp_path: Path) -> None:
    restock = await add_job(postgres.control(), "restock", schedule="@yearly")
    await postgres.sql(ORDERS)
    for program in PROGRAMS:
        if program not in ON_SQLITE:
            run(program, postgres.url, tmp_path)

    names = {row["name"] for row in await postgres.rows("jobs")}
    assert names == {"restock", "remind-7", "ship-8", "bill-9", "thank-10"}
    assert await postgres.connection.fetchval("select count(*) from orders") == 4
    runs = {row["id"] for row in await postgres.rows("runs")}
    assert runs == {manual_run_id(restock.id, key) for key in ("order-7", "order-10")}


async def test_the_program_for_sqlite_does_what_the_page_says() -> None:
    async with SqliteDatabase.in_file() as database:
        await add_job(database.control(), "restock", schedule="@yearly")
        await database.sql(ORDERS)
        for program in ON_SQLITE:
            run(program, "", Path(database.path).parent)

        assert {row["name"] for row in await database.rows("jobs")} == {"restock", "remind-11"}
        assert len(await database.rows("runs")) == 1


async def test_errors_of_postgresql_are_those_on_the_page(postgres: PostgresDatabase) -> None:
    said = []
    for statement in (trigger_job("restock"), insert_job(OVER), trigger_job("restock", dialect="sqlite")):
        with psycopg.connect(postgres.url) as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.text, statement.parameters)  # type: ignore[arg-type]
        said.append((type(caught.value).__name__, str(caught.value)))

    missing, over, other = said
    assert missing == ("InvalidTextRepresentation", f'invalid input syntax for type uuid: "{MISSING}"')
    assert over[1].startswith('invalid input syntax for type uuid: "remind-7 would never fire: its end was 2020-01-15')
    assert 'syntax error at or near ":"' in other[1]
    assert all(f"`{text}`" in PAGE for text in (missing[0], MISSING, 'syntax error at or near ":"'))


async def test_errors_of_sqlite_are_those_on_the_page() -> None:
    async with SqliteDatabase.in_file() as database:
        missing, over, other = run(f"OVER = {OVER!r}\n{SQLITE_ERRORS}", "", Path(database.path).parent).splitlines()

    assert missing.endswith(f"'{MISSING}'")
    assert missing.split("'")[0].strip() in PAGE
    assert "remind-7 would never fire: its end was 2020-01-15 09:00:00" in over
    assert f"`{other}`: say" in PAGE


async def test_the_rights_of_the_page_are_enough(postgres: PostgresDatabase) -> None:
    await add_job(postgres.control(), "restock")
    role = f"shop_{secrets.token_hex(6)}"
    [grants] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    body = {"name": "job", "schedule": "@daily", "target": {"type": "task", "name": "a"}, "tags": ["x"]}
    statements = [
        insert_job(body, paramstyle="numeric_dollar"),
        insert_job(body | {"tags": ["y"]}, paramstyle="numeric_dollar", if_exists="replace"),
        trigger_job("restock", key="k", paramstyle="numeric_dollar"),
    ]
    await postgres.sql(f"create role {role}; {grants.replace('shop', role)}")
    try:
        await postgres.sql(f"set role {role}")
        for statement in statements:
            await postgres.connection.execute(statement.text, *statement.parameters)
    finally:
        await postgres.sql(f"reset role; drop owned by {role}; drop role {role}")

    assert (len(await postgres.rows("jobs")), len(await postgres.rows("runs"))) == (2, 1)
