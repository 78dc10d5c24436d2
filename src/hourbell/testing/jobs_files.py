"""Reads jobs files. A rehearsal signs nothing, so references to secrets are not resolved."""

from pathlib import Path

from hourbell.core.formats.jobs_file import FORMATS, Format, read_jobs_file
from hourbell.core.job.definition import Definition

_ANY_SECRET = "whsec_" + 43 * "A" + "="
_SUFFIXES: dict[str, Format] = {f".{name}": name for name in FORMATS} | {".yml": "yaml"}


def jobs_of(path: Path) -> list[Definition]:
    """Return the definitions in a jobs file; raise ValueError that lists all errors in it."""
    kind = _SUFFIXES.get(path.suffix)
    if kind is None:
        raise ValueError(f"{path.name} is not a jobs file; its name ends in {', '.join(_SUFFIXES)}")
    found = read_jobs_file(path.read_text(), kind, lambda _: _ANY_SECRET)
    return [job.definition for job in found.jobs]
