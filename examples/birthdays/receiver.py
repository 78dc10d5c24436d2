"""Receives the birthdays. A request that is not Hourbell's is refused, and nobody is greeted twice.

The id of the run and the greeting are written in one transaction. The table `greetings` also holds nobody twice in a
year: somebody who moves west on the day itself reaches nine o'clock again, and that is another run.
"""

import argparse
import os
import sqlite3
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import uvicorn

from hourbell.receiver import CREATE_TABLE, Verifier, Webhook, once
from hourbell.receiver.asgi import WebhookReceiver

CREATE_GREETINGS = """\
create table if not exists greetings (
    person text not null,
    year integer not null,
    message text not null,
    primary key (person, year)
)"""
GREET = "insert into greetings (person, year, message) values (?, ?, ?) on conflict do nothing"


def open_database(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    with database:
        database.execute(CREATE_TABLE)
        database.execute(CREATE_GREETINGS)
    return database


def greet(database: sqlite3.Connection, webhook: Webhook) -> str | None:
    """Write down the greeting of a run; the message, or None if it was written before."""
    body = webhook.json()
    year = datetime.fromisoformat(body["scheduled_at"]).astimezone(ZoneInfo(body["timezone"])).year
    with database:  # commits at the end, rolls back on an exception
        if not once(database, webhook.id):
            return None
        is_new = database.execute(GREET, (body["person"], year, body["message"])).rowcount == 1
    return body["message"] if is_new else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--database", default="greetings.db", metavar="FILE")
    options = parser.parse_args()
    database = open_database(options.database)

    async def receive(webhook: Webhook) -> None:
        message = greet(database, webhook)
        print(message or f"{webhook.id} again", flush=True)

    try:
        verifier = Verifier(os.environ.get("BIRTHDAY_SECRET", "").split())
    except ValueError as error:
        sys.exit(f"error: BIRTHDAY_SECRET: {error}")
    uvicorn.run(WebhookReceiver(verifier, receive), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
