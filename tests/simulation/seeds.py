"""The seeds that `make test` simulates: fixed ones, and new ones whenever core, engine or store change.

The new seeds follow from the source text, so one commit always has the same ones and a failure can be replayed.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "hourbell"
HASHED = ("core", "engine", "store")
FIXED = range(100)
NEW_COUNT = 40
PART = 20  # seeds of one test


def source_files() -> list[Path]:
    """Every source file of core, engine and store, Python and SQL, sorted by path."""
    found = (path for folder in HASHED for path in (PACKAGE / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in {".py", ".sql"})


def digest_sources(paths: Iterable[Path], root: Path) -> bytes:
    """Hash the relative path and the text of each file."""
    digest = hashlib.sha256()
    for path in paths:
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.digest()


def new_seeds(digest: bytes) -> range:
    """A range of consecutive seeds beyond the fixed ones."""
    first = 1_000_000 + int.from_bytes(digest[:4], "big")
    return range(first, first + NEW_COUNT)


NEW = new_seeds(digest_sources(source_files(), PACKAGE))


def parts() -> list[range]:
    """All seeds of `make test`, in ranges that one test each simulates."""
    return [seeds[start : start + PART] for seeds in (FIXED, NEW) for start in range(0, len(seeds), PART)]


def describe_seeds() -> str:
    """Return a one-line summary for the end of a test run."""
    return f"simulation: fixed seeds {FIXED[0]}-{FIXED[-1]}, new seeds {NEW[0]}-{NEW[-1]} (hash of {', '.join(HASHED)})"
