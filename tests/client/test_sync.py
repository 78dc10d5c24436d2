"""The sync facade: the same names and answers, from any thread, even inside a running event loop."""

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hourbell.client import AsyncClient, Client, NotFound
from hourbell.client.jobs import Jobs
from hourbell.client.runs import Runs
from hourbell.client.sync import BlockingJobs, BlockingRuns, BlockingTokens
from hourbell.client.tokens import Tokens
from tests.api.whole import a_job
from tests.client.served import Served

pytestmark = pytest.mark.anyio

PAIRS = [(Jobs, BlockingJobs), (Runs, BlockingRuns), (Tokens, BlockingTokens), (AsyncClient, Client)]


def names_of(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hourbell"]


@pytest.mark.parametrize(("behind", "front"), PAIRS, ids=lambda kind: kind.__name__)
def test_the_sync_client_has_every_method_with_the_same_parameters(behind: type, front: type) -> None:
    assert names_of(front) == names_of(behind)
    for name in names_of(behind) - {"close"}:
        assert inspect.signature(getattr(front, name)) == inspect.signature(getattr(behind, name))


async def test_the_sync_client_works_in_a_thread(server: Served) -> None:
    def work() -> tuple[list[str], int, list[str]]:
        with Client(server.url) as client:
            for name in "abc":
                client.jobs.create(a_job(name))
            listed = client.jobs.list(limit=2)
            run = client.jobs.trigger("a").run
            client.runs.cancel(run.id)
            ended = client.runs.wait(run.id, timeout=5)
            results = [each.result for each in client.jobs.import_jobs(a_job(name) for name in "cd")]
            return [job.name for job in listed] + [ended.state], len(listed.page()), results

    found = await asyncio.to_thread(work)

    assert found == (["a", "b", "cancelled"], 2, ["unchanged", "created"])
    assert threads() == []


async def test_many_threads_share_one_client(server: Served) -> None:
    with Client(server.url) as client:

        def work(number: int) -> int:
            client.jobs.create(a_job(f"job-{number}"))
            return client.jobs.get(f"job-{number}").version

        def all_at_once() -> list[int]:
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(work, range(16)))

        assert await asyncio.to_thread(all_at_once) == [1] * 16
        assert len(threads()) == 1


def test_the_sync_client_works_inside_a_running_event_loop(live_url: str) -> None:
    async def main() -> str:
        with Client(live_url) as client:
            return client.health().status

    assert asyncio.run(main()) == "ok"
    assert threads() == []


async def test_an_import_source_may_call_the_client_itself(server: Served) -> None:
    def work() -> list[str]:
        with Client(server.url) as client:
            client.jobs.create(a_job())

            def copies() -> Iterator[dict[str, object]]:
                for job in client.jobs.list():
                    yield a_job(f"{job.name}-copy")

            return [str(each.name) for each in client.jobs.import_jobs(copies())]

    assert await asyncio.to_thread(work) == ["report-copy"]


async def test_an_exception_is_passed_on_and_the_client_stays_usable(server: Served) -> None:
    def work() -> str:
        with Client(server.url) as client:
            with pytest.raises(NotFound, match="nobody"):
                client.jobs.get("nobody")
            return client.whoami().role

    assert await asyncio.to_thread(work) == "admin"


async def test_leaving_a_loop_early_closes_its_stream(server: Served) -> None:
    def work() -> str:
        with Client(server.url) as client:
            client.jobs.create(a_job("a"))
            for job in client.jobs.list():
                return job.name
        return ""

    assert await asyncio.to_thread(work) == "a"


async def test_closing_ends_a_call_that_waits_in_another_thread(server: Served) -> None:
    client = Client(server.url)
    listening = asyncio.create_task(asyncio.to_thread(lambda: next(client.events())))
    while not any(seen.path.endswith("/events") for seen in server.weather.seen):
        await asyncio.sleep(0.01)

    await asyncio.to_thread(client.close)

    with pytest.raises(RuntimeError, match="was closed"):
        await listening


async def test_using_a_closed_client_is_an_error(server: Served) -> None:
    client = Client(server.url)
    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="was closed"):
        client.health()
    behind = AsyncClient(server.url)
    await behind.close()
    with pytest.raises(RuntimeError, match="was closed"):
        await behind.health()


async def test_a_client_lives_as_long_as_one_of_its_parts_is_referenced(server: Served) -> None:
    def work() -> list[str]:
        Client(server.url).jobs.create(a_job())
        return [job.name for job in Client(server.url).jobs.list()]

    assert await asyncio.to_thread(work) == ["report"]


async def test_an_unreferenced_client_is_closed(server: Served) -> None:
    def work() -> None:
        Client(server.url).health()

    await asyncio.to_thread(work)
    gc.collect()
    assert threads() == []


def test_a_program_that_closes_nothing_still_exits_silently(live_url: str) -> None:
    code = f"from hourbell.client import Client; client = Client({live_url!r}); print(client.health().status)"

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_using_a_client_after_a_fork_is_an_error(live_url: str) -> None:
    code = (
        "import os\n"
        "from hourbell.client import Client\n"
        f"client = Client({live_url!r}); client.health()\n"
        "if os.fork():\n"
        "    os.wait(); print(client.health().status)\n"
        "else:\n"
        "    try: client.health()\n"
        "    except RuntimeError as error: print(error, flush=True)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "A client is of no use after a fork; make one in each process.\nok\n"


def test_the_import_is_cheap() -> None:
    heavy = {"aiohttp", "h11", "fastapi", "click", "zoneinfo", "hourbell.store", "hourbell.core.schedule"}
    code = f"import sys, hourbell.client; print(*({heavy!r} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.full
def test_the_sync_client_is_fully_typed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    revealed = [line.partition('Revealed type is "')[2].rstrip('"') for line in done.stdout.splitlines()]
    assert [text.replace("hourbell.client.", "") for text in revealed if text] == REVEALED
    assert 'error: Argument 1 has incompatible type "int"' in done.stdout


PROGRAM = """
from hourbell.client import Client
client = Client()
reveal_type(client.jobs.get("x"))
reveal_type(client.jobs.create({}))
reveal_type(client.jobs.preview_create({}))
reveal_type(client.jobs.list().page())
reveal_type([run.state for run in client.runs.list()])
reveal_type(next(client.events()))
reveal_type(client.tokens.create("x", "viewer").token)
client.jobs.get(1)
"""
REVEALED = [
    "hourbell.answers.jobs.Job",
    "hourbell.answers.jobs.Job",
    "hourbell.answers.jobs.Intention",
    "pages.Page[hourbell.answers.jobs.Job]",
    "list[str]",
    "hourbell.answers.server.Change",
    "str | None",
]
