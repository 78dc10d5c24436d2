"""Numbered migrations: forward only, each in its own transaction, verified by checksum.

A baseline is one migration that replaces all earlier ones. A database that ran exactly those counts as being at the
baseline; their checksums are in the `.checksums` file beside it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable


class MigrationError(Exception):
    """The database cannot be migrated to this version; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str
    replaces: Mapping[int, str] = field(default_factory=dict)  # checksums of the migrations that a baseline replaces

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """Load the migrations of a backend, in order."""
    folder = files(package).joinpath("migrations")
    found = []
    for file in folder.iterdir():
        title, _, extension = file.name.rpartition(".")
        number, _, name = title.partition("_")
        if extension == "sql":
            replaces = _read_checksums(folder.joinpath(f"{title}.checksums"))
            found.append(Migration(int(number), name, file.read_text("utf-8"), replaces))
    return sorted(found, key=lambda migration: migration.number)


def count_from_baseline(known: Sequence[Migration], applied: Mapping[int, str]) -> dict[int, str]:
    """Return the checksums of the migrations that were run, with the baseline replacing those it stands for.

    A database that ran only some of them, or others, is left unchanged.
    """
    counted = dict(applied)
    for migration in known:
        earlier = {number: applied[number] for number in migration.replaces if number in applied}
        if migration.replaces and earlier == migration.replaces:
            counted = {number: checksum for number, checksum in counted.items() if number not in earlier}
            counted[migration.number] = migration.checksum
    return counted


def pending(known: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """Return the migrations still to run; raise a MigrationError if the checksums of earlier ones differ."""
    newest, newest_known = max(applied, default=0), max((migration.number for migration in known), default=0)
    if newest > newest_known:
        raise MigrationError(
            f"the database is at schema version {newest}, this release knows {newest_known}; upgrade Hourbell"
        )
    counted = count_from_baseline(known, applied)
    numbers = {migration.number for migration in known}
    expected = {number: checksum for migration in known for number, checksum in migration.replaces.items()}
    expected |= {migration.number: migration.checksum for migration in known}
    for number in sorted(expected.keys() & counted):
        if counted[number] != expected[number]:
            raise MigrationError(f"migration {number:04} was changed after it was run; install the release that ran it")
    if not counted.keys() <= numbers:
        raise MigrationError(
            f"the database is at schema version {newest} from before the first release, which cannot be upgraded; "
            "start with a new database"
        )
    return [migration for migration in known if migration.number not in counted]


def _read_checksums(file: Traversable) -> dict[int, str]:
    if not file.is_file():
        return {}
    lines = (line.split() for line in file.read_text("utf-8").splitlines())
    return {int(number): checksum for number, checksum in lines}
