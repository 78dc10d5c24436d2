"""Numbered migrations: forward only, each in its own transaction, with a checksum of what was run."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files


class MigrationError(Exception):
    """The database cannot be brought to this version; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """The migrations of a backend, in order."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        number, _, rest = file.name.partition("_")
        if file.name.endswith(".sql"):
            found.append(Migration(int(number), rest.removesuffix(".sql"), file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def pending(known: list[Migration], applied: dict[int, str]) -> list[Migration]:
    """What is still to run, given the checksums of what was; a MigrationError if the two do not fit together."""
    newest, newest_known = max(applied, default=0), max((migration.number for migration in known), default=0)
    if newest > newest_known:
        raise MigrationError(
            f"the database is at schema version {newest}, this release knows {newest_known}; upgrade Hourbell"
        )
    for migration in known:
        if migration.number in applied and applied[migration.number] != migration.checksum:
            raise MigrationError(
                f"migration {migration.number:04} was changed after it was run; install the release that ran it"
            )
    return [migration for migration in known if migration.number not in applied]
