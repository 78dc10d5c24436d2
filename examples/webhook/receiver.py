"""A receiver of webhooks: it refuses what Hourbell did not sign, and does the work of each call once."""

import argparse
import os
import sqlite3
import sys

import uvicorn

from hourbell.receiver import CREATE_TABLE, Verifier, Webhook, once
from hourbell.receiver.asgi import WebhookReceiver


def handle(database: sqlite3.Connection, webhook: Webhook) -> None:
    call = webhook.json()
    with database:  # commits the id and the work together
        if not once(database, webhook.id):
            return
        work = (call["scheduled_at"], call["payload"]["says"])
        database.execute("insert into calls (scheduled_at, says) values (?, ?)", work)
    print(f"{call['job']} of {call['scheduled_at']}, attempt {webhook.attempt}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    options = parser.parse_args()
    try:
        verifier = Verifier(os.environ.get("HOOK_SECRET", "").split())
    except ValueError as error:
        sys.exit(f"error: HOOK_SECRET: {error}")
    database = sqlite3.connect("received.db")
    with database:
        database.execute(CREATE_TABLE)
        database.execute("create table if not exists calls (scheduled_at text, says text)")

    async def receive(webhook: Webhook) -> None:
        handle(database, webhook)

    uvicorn.run(WebhookReceiver(verifier, receive), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
