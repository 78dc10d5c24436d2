"""Take each safeguard out of a scratch copy and show which tests notice.

python -m tests.mutants              # all of them
python -m tests.mutants --only fence # those whose name contains this
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutants import MUTANTS, SIMULATION, Change, Mutant

ROOT = Path(__file__).parents[2]
COPIED = (
    "src",
    "tests",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "pyproject.toml",
    "requirements",
)
SEEDS = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="those whose name contains this")
    wanted = [mutant for mutant in MUTANTS if parser.parse_args().only in mutant.name]
    tests = sorted({test for mutant in wanted for test in mutant.tests if test != SIMULATION})
    with tempfile.TemporaryDirectory(prefix="hourbell-mutants-") as folder:
        copy = _copy(Path(folder))
        if not _passes(copy, tests):
            print("the tests do not pass as they are; mend that first")
            return 1
        caught = [_try(copy, mutant) for mutant in wanted]
    print(f"{sum(caught)} of {len(caught)} mutants are caught")
    return 0 if all(caught) else 1


def _copy(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _try(copy: Path, mutant: Mutant) -> bool:
    """Whether every test that is expected to notice does."""
    print(f"without {mutant.name}")
    with _applied(copy, mutant.changes):
        noticed = [_notices(copy, test) for test in mutant.tests]
    return all(noticed)


def _notices(copy: Path, test: str) -> bool:
    started = time.monotonic()
    if test == SIMULATION:
        done = _run(copy, "tests.simulation", "--brief", "--seeds", str(SEEDS))
        words = f"seed {_seeds_until(done.stdout)} of at most {SEEDS}"
    else:
        done = _run(copy, "pytest", "-q", "-x", "-p", "no:cacheprovider", test)
        words = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "").removeprefix(
            "FAILED "
        )[:110]
    notices = done.returncode == 1 and (test != SIMULATION or "violations 1" in done.stdout)
    print(
        f"    {'caught' if notices else 'MISSED'} in {time.monotonic() - started:3.0f} s by {test}: {words}", flush=True
    )
    return notices


def _seeds_until(told: str) -> str:
    """How many seeds were simulated until one broke a promise."""
    return told.partition("seeds ")[2].partition(",")[0]


def _passes(copy: Path, tests: Sequence[str]) -> bool:
    done = _run(copy, "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests)
    if done.returncode:
        print(done.stdout[-4_000:], done.stderr[-2_000:])
    return done.returncode == 0


def _run(copy: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=1_800
    )


@contextmanager
def _applied(copy: Path, changes: Sequence[Change]) -> Iterator[None]:
    originals = {copy / change.path: (copy / change.path).read_text() for change in changes}
    try:
        for change in changes:
            path = copy / change.path
            text = path.read_text()
            if text.count(change.old) != 1:
                raise SystemExit(f"{change.path} has {text.count(change.old)} of {change.old!r}, not one")
            path.write_text(text.replace(change.old, change.new))
        yield
    finally:
        for path, text in originals.items():
            path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
