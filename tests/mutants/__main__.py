"""Take each safeguard out of a scratch copy and show which tests notice.

python -m tests.mutants              # all of them
python -m tests.mutants --only fence # those whose name contains this

A mutant counts as caught only if every test that is expected to notice fails with it and passes without it.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.mutants.mutants import MUTANTS
from tests.mutants.runs import Verdict, Workshop, table

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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="those whose name contains this")
    wanted = [mutant for mutant in MUTANTS if parser.parse_args().only in mutant.name]
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="hourbell-mutants-") as folder:
        workshop = Workshop(_copy(Path(folder)))
        for mutant in wanted:
            print(f"without {mutant.name} …", file=sys.stderr, flush=True)
            verdicts.extend(workshop.try_mutant(mutant))
    missed = {verdict.mutant for verdict in verdicts if not verdict.is_caught}
    print(table(verdicts))
    print(f"{len(wanted) - len(missed)} of {len(wanted)} mutants are caught")
    return 1 if missed or not wanted else 0


def _copy(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
        else:
            shutil.copy(source, folder / name)
    return folder


if __name__ == "__main__":
    sys.exit(main())
