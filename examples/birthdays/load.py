"""Make one job for each person in a CSV file. Run it again when the file has changed: it adds, changes and removes.

Jobs are changed through Hourbell's own functions and not by SQL, because those plan what is due before they change
anything: a birthday that fell into a downtime is not lost when the person's data changes meanwhile.
"""

import argparse
import asyncio
import csv
import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import apsw
import asyncpg

from hourbell.control.secrets import SIGNING, Secrets, WrongKeys
from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.policies import CatchUp, RetryPolicy
from hourbell.receiver import Verifier
from hourbell.sealing import Plain
from hourbell.settings import Settings, SettingsError, load_settings
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.wiring import open_secrets, open_stores

SOURCE = "birthdays"  # marks the jobs of this program
BY = "load.py"
BODY = {
    "idempotencyKey": "{{run.id}}",
    "eventId": "{{run.id}}",
    "scheduled_at": "{{run.scheduled_at}}",
    "person": "{{payload.id}}",
    "timezone": "{{payload.timezone}}",
    "message": "Hey, {{payload.first_name}} {{payload.last_name}} it's your birthday",
}
# The last wait repeats: a receiver that is down for days still gets its greetings.
BACKOFF = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10), timedelta(hours=1))
RETRY = RetryPolicy(attempts=100, backoff=BACKOFF)
MAX_AGE = timedelta(days=7)


@dataclass(frozen=True)
class Person:
    id: str
    first_name: str
    last_name: str
    birthday: date
    timezone: str


@dataclass
class Loaded:
    added: int = 0
    changed: int = 0
    removed: int = 0


def read_people(path: Path) -> list[Person]:
    """Everybody in the file, or a ValueError that says which line is wrong."""
    people: dict[str, Person] = {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if missing := [field.name for field in fields(Person) if field.name not in (rows.fieldnames or ())]:
            raise ValueError(f"{path} has no column {', '.join(missing)}")
        for row in rows:
            try:
                birthday = date.fromisoformat(row["birthday"])
                person = Person(row["id"], row["first_name"], row["last_name"], birthday, row["timezone"])
                if person.id in people or re.fullmatch(r"[A-Za-z0-9_-]{1,80}", person.id) is None:
                    raise ValueError(f"id {person.id!r} is there already, or not made of letters, digits, - and _")
                birthday_job(person, url="").parsed()
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, line {rows.line_num}: {error}") from None
            people[person.id] = person
    if not people:
        raise ValueError(f"{path} has nobody in it, and so nobody is removed")
    return list(people.values())


def birthday_job(person: Person, url: str, at: str = "09:00") -> Definition:
    """The job that greets a person each year. One born on 29 February is greeted on 28 February in other years."""
    return Definition(
        name=f"birthday-{person.id}",
        schedule=f"yearly {person.birthday:%m-%d} {at}",
        timezone=person.timezone,
        target={"type": "http", "url": url, "body": BODY},
        payload={
            "id": person.id,
            "first_name": person.first_name,
            "last_name": person.last_name,
            "timezone": person.timezone,
        },
        catch_up=CatchUp.ALL,
        retry=RETRY,
        max_age=MAX_AGE,
        managed_by="code",
        source=SOURCE,
    )


async def load(
    control: ControlStore,
    secrets: Secrets,
    jobs: Sequence[Definition],
    secret: str,
    now: datetime,
    *,
    there: Collection[str],
    sign_again: bool = False,
) -> Loaded:
    """Bring the jobs into the database, and remove those of the names that are `there` and wanted no more."""
    loaded, actor = Loaded(), Actor(BY, now)
    for definition in jobs:
        job = await _sync(control, definition, actor, loaded)
        is_signed = any(row.field == SIGNING for row in await secrets.list(definition.name, now))
        if sign_again or not is_signed:
            await secrets.put(definition.name, SIGNING, Plain(secret), actor)
        if not is_signed:
            await control.resume_job(job.id, actor, catch_up=True)
    for name in set(there) - {definition.name for definition in jobs}:
        if (unwanted := await control.get_job(name)) is not None:
            await control.delete_job(unwanted.id, actor)
            loaded.removed += 1
    return loaded


async def _sync(control: ControlStore, wanted: Definition, actor: Actor, loaded: Loaded) -> Job:
    """Create a job, switched off until it has its secret, or change it to what is wanted."""

    def as_wanted(found: Definition) -> Definition:
        return replace(wanted, lane=found.lane, enabled=found.enabled)  # an operator's pause stays

    job = await control.get_job(wanted.name)
    if job is None:
        loaded.added += 1
        return (await control.create_job(replace(wanted, enabled=False), uuid4(), actor)).job
    if job.definition != as_wanted(job.definition):
        loaded.changed += 1
        return (await control.edit_job(job.id, lambda found: as_wanted(found.definition), actor)).job
    return job


async def names_in(settings: Settings) -> list[str]:
    """The names of the jobs that this program has made."""
    if settings.database.kind == "sqlite":
        query = "select name from hourbell_jobs where source = ? and deleted_at is null"
        return [name for (name,) in apsw.Connection(settings.database.location).execute(query, (SOURCE,))]
    connection = await asyncpg.connect(settings.database.location)
    try:
        query = "select name from hourbell.jobs where source = $1 and deleted_at is null"
        return [row["name"] for row in await connection.fetch(query, SOURCE)]
    finally:
        await connection.close()


async def work(options: argparse.Namespace, settings: Settings, secret: str) -> Loaded:
    jobs = [birthday_job(person, options.url, options.at) for person in read_people(options.people)]
    async with open_secrets(settings) as (secrets, now):
        stores = open_stores(settings)
        try:
            there = await names_in(settings)
            return await load(stores.control, secrets, jobs, secret, now, there=there, sign_again=options.sign_again)
        finally:
            await stores.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("people", type=Path, metavar="FILE", help="a CSV file such as people.csv")
    parser.add_argument("--url", default="http://127.0.0.1:9000/", help="who is told  [default: %(default)s]")
    parser.add_argument("--at", metavar="TIME", default="09:00", help="local time  [default: %(default)s]")
    parser.add_argument("--sign-again", action="store_true", help="BIRTHDAY_SECRET has changed: sign with the new one")
    options = parser.parse_args()
    secrets = os.environ.get("BIRTHDAY_SECRET", "").split()
    try:
        Verifier(secrets)  # refuses what is not a secret
    except ValueError as error:
        sys.exit(f"error: BIRTHDAY_SECRET: {error}")
    try:
        loaded = asyncio.run(work(options, load_settings({}), secrets[0]))
    except (ValueError, OSError, SettingsError, StoreUnavailable, WrongKeys, Conflict) as error:
        sys.exit(f"error: {error}")
    print(f"{loaded.added} added, {loaded.changed} changed, {loaded.removed} removed")


if __name__ == "__main__":
    main()
