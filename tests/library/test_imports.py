"""A program that only defines jobs, or tests them, does not load what runs them."""

import subprocess
import sys

import pytest

SERVER_PARTS = {"aiohttp", "apsw", "asyncpg", "click", "cryptography", "fastapi", "prometheus_client", "rich"}
SERVER_PARTS |= {"anyio", "django", "flask", "pydantic", "starlette", "structlog", "uvicorn", "uvloop", "yaml"}
DEFINING = """
from hourbell import Run, Scheduler
scheduler = Scheduler("shop")
@scheduler.job("0 9 * * 1-5", timezone="Europe/Paris", retry="none")
async def report(run: Run): ...
scheduler.next_run("report")
"""


@pytest.mark.parametrize("program", ["import hourbell", "from hourbell import Schedule", DEFINING])
def test_a_program_that_defines_jobs_loads_no_part_of_the_server(program: str) -> None:
    code = f"import sys\n{program}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "hourbell" in loaded
    assert SERVER_PARTS & set(loaded) == set()


@pytest.mark.parametrize("adapter", ["fastapi", "flask", "django"])
def test_an_adapter_loads_neither_its_framework_nor_another(adapter: str) -> None:
    code = f"import sys, hourbell.{adapter}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert {"fastapi", "starlette", "flask", "django", "uvicorn"} & set(loaded) == set()
