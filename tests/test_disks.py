"""A SQLite file that is deleted, replaced, full or not writable under `hourbell serve`: real processes and files."""

import ctypes
import os
import pwd
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.whole import a_job
from tests.faults.process import Server

SECONDS = 10.0  # for what is noticed within a second, on a busy machine
PR_CAPBSET_DROP = 24  # of Linux
CAP_CHOWN, CAP_DAC_OVERRIDE = 0, 1  # SQLite makes root's what it opens as root
ME = pwd.getpwuid(os.geteuid()).pw_name
SLOW = """
import asyncio
from hourbell import Scheduler

scheduler = Scheduler("disks")

@scheduler.job("* * * * * *", overlap="skip")
async def slow(run):
    open("begun", "w").close()
    await asyncio.sleep(20)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, whose mode tests change."""
    with tempfile.TemporaryDirectory(prefix="hourbell-disks-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def create_job(server: Server, name: str) -> httpx.Response:
    return httpx.post(f"{server.url}/api/v1/jobs", json=a_job(name), timeout=20, trust_env=False)


def jobs_in(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return [name for (name,) in connection.execute("select name from hourbell_jobs order by name")]


def ready(server: Server) -> tuple[int, Any]:
    answer = server.get("/health/ready")
    return answer.status_code, answer.json().get("database", {}).get("problem")


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"no {what} within {SECONDS:g} s"
        time.sleep(0.02)


def delete(file: Path) -> None:
    file.unlink()


def move(file: Path) -> None:
    file.rename(file.with_suffix(".aside"))


def delete_log(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def delete_index(file: Path) -> None:
    Path(f"{file}-shm").unlink()


def delete_all(file: Path) -> None:
    for each in file.parent.glob("hourbell.db*"):
        each.unlink()


@pytest.mark.parametrize("lose", [delete, move, delete_log, delete_index, delete_all])
def test_a_node_whose_file_is_gone_acknowledges_nothing_and_ends(folder: Path, lose: Callable[[Path], None]) -> None:
    file = folder / "hourbell.db"
    with Server(folder) as server:
        assert create_job(server.wait_until_serving(), "before").status_code == 201
        lose(file)
        try:
            answer = create_job(server, "after")
        except httpx.TransportError:
            answer = None  # it has noticed by itself, and ended
        code = server.wait(SECONDS)

    assert answer is None or (answer.status_code, answer.json()["code"]) == (503, "database_lost")
    assert code == 1
    assert server.names.count("database_lost") == 1
    assert "was deleted or moved" in server.log.splitlines()[-1]


def test_an_idle_node_notices_within_seconds(folder: Path) -> None:
    with Server(folder) as server:
        server.wait_until_serving()
        (folder / "hourbell.db").unlink()

        assert server.wait(SECONDS) == 1
    assert "database_lost" in server.names


def test_a_node_that_drains_says_why_it_is_not_ready(folder: Path) -> None:
    (folder / "app.py").write_text(SLOW)
    with Server(folder, "--app", "app:scheduler", HOURBELL_DRAIN_TIMEOUT="4s") as server:
        server.wait_until_serving()
        until((folder / "begun").exists, "run")
        (folder / "hourbell.db").unlink()
        server.wait_for("database_lost", SECONDS)
        status, error = ready(server)
        answer = create_job(server, "after")

        assert (status, answer.status_code, answer.json()["code"]) == (503, 503, "database_lost")
        assert "hourbell.db was deleted or moved" in error
        assert error in answer.json()["detail"]
        assert server.wait(20) == 1


def test_a_deleted_database_is_not_silently_created_again(folder: Path) -> None:
    file = folder / "hourbell.db"
    with Server(folder) as server:
        assert create_job(server.wait_until_serving(), "before").status_code == 201
        file.rename(folder / "aside.db")
        assert server.wait(SECONDS) == 1
    with Server(folder, name="again") as again:
        assert again.wait(30) == 1
    assert not file.exists()
    assert "hourbell.db-wal" in again.log

    (folder / "aside.db").rename(file)
    with Server(folder, name="back") as back:
        assert back.wait_until_serving().get("/api/v1/jobs/before").status_code == 200


def test_a_replaced_database_is_left_alone_and_used_after_a_restart(folder: Path) -> None:
    file = folder / "hourbell.db"
    with Server(folder) as server:
        assert create_job(server.wait_until_serving(), "kept").status_code == 201
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(folder / "backup.db")) as target:
            source.backup(target)
        for number in range(20):
            assert create_job(server, f"later-{number}").status_code == 201
        (folder / "backup.db").replace(file)

        assert server.wait(SECONDS) == 1
        assert "hourbell.db was replaced" in server.log.splitlines()[-1]
    with Server(folder, name="again") as again:
        again.wait_until_serving()
    assert jobs_in(file) == ["kept"]


def test_several_nodes_on_one_file_see_each_others_checkpoints_and_continue(folder: Path) -> None:
    with Server(folder, name="a") as a, Server(folder, name="b") as b:
        assert create_job(a.wait_until_serving(), "one").status_code == 201
        assert create_job(b.wait_until_serving(), "two").status_code == 201
        with closing(sqlite3.connect(folder / "hourbell.db")) as other:
            other.execute("pragma wal_checkpoint(truncate)").fetchall()
        assert create_job(a, "three").status_code == 201
        a.signal(15)
        assert a.wait(30) == 0
        assert create_job(b, "four").status_code == 201
        assert ready(b) == (200, None)


def test_a_node_is_not_ready_as_soon_as_the_disk_takes_no_more_and_recovers_unaided(folder: Path) -> None:
    with Server(folder) as server:
        assert create_job(server.wait_until_serving(), "before").status_code == 201
        until(lambda: '"event": "audit_chained"' in server.log, "the entry's link")
        time.sleep(5.1)  # the last write that went well is no news any more
        limit_files(server, 4_096)
        full, error = ready(server)
        refused = create_job(server, "during")
        limit_files(server, resource.RLIM_INFINITY)

        assert full == 503
        assert error
        assert refused.status_code == 503
        until(lambda: ready(server) == (200, None), "recovery")
        assert create_job(server, "after").status_code == 201
    assert jobs_in(folder / "hourbell.db") == ["after", "before"]


def limit_files(server: Server, size: int) -> None:
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def bound_by_modes() -> None:
    """Take from root what makes it pass over the modes of files when it writes: the capability to override them."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_CHOWN, CAP_DAC_OVERRIDE):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


def hourbell(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command by a user whom the modes of files bind."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "hourbell", *arguments],
        cwd=folder,
        env={"HTTP_ADDR": "127.0.0.1:0", **kept},
        preexec_fn=bound_by_modes,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def unused(folder: Path) -> Path:
    """A database that no node uses any more."""
    with Server(folder) as server:
        server.wait_until_serving().signal(15)
        assert server.wait(30) == 0
    return folder / "hourbell.db"


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_file_that_may_not_be_written_is_refused_with_its_owner_and_mode(unused: Path, command: str) -> None:
    unused.chmod(0o444)
    done = hourbell(unused.parent, command)

    assert done.returncode == 1, done
    assert f"user {ME} may not write hourbell.db (owner {ME}, mode 0444)" in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_folder_that_may_not_be_written_is_refused_with_its_owner_and_mode(unused: Path, command: str) -> None:
    unused.parent.chmod(0o555)
    done = hourbell(unused.parent, command)
    unused.parent.chmod(0o755)

    assert done.returncode == 1, done
    what = f"user {ME} may not write in the folder {unused.parent} (owner {ME}, mode 0555)"
    assert what in done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_log_of_another_user_is_refused_with_its_owner_and_mode(unused: Path, command: str) -> None:
    with closing(sqlite3.connect(unused)) as connection:
        connection.execute("insert into hourbell_meta values ('written', 'by another')")
        connection.commit()
        for each in ("-wal", "-shm"):
            shutil.chown(f"{unused}{each}", "nobody")
            Path(f"{unused}{each}").chmod(0o644)
        done = hourbell(unused.parent, command)

    assert done.returncode == 1, done
    assert f"user {ME} may not write hourbell.db-wal (owner nobody, mode 0644)" in done.stdout + done.stderr


def test_status_says_that_a_node_takes_no_writes_and_why(folder: Path) -> None:
    with Server(folder) as server:
        assert create_job(server.wait_until_serving(), "before").status_code == 201
        limit_files(server, 4_096)
        assert create_job(server, "during").status_code == 503
        done = hourbell(folder, "status", "--server", server.url)

    assert done.returncode == 1
    assert "because:  the last write failed" in done.stdout
