"""Make the job that calls a URL every five minutes, or change it to what the arguments say now."""

import argparse
import asyncio
import sys
from uuid import uuid4

from hourbell.core.job.definition import Definition
from hourbell.core.run.policies import RetryPolicy
from hourbell.core.values.readers import read_duration
from hourbell.settings import Settings, SettingsError, load_settings
from hourbell.store.control.actor import Actor
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.wiring import open_stores

BY = "register.py"


def webhook_job(options: argparse.Namespace) -> Definition:
    waits = tuple(read_duration(text) for text in options.waits.split(","))
    return Definition(
        name=options.name,
        schedule=options.schedule,
        target={"type": "http", "url": options.url, "timeout": options.timeout},
        payload={"says": "hello"},
        retry=RetryPolicy(len(waits) + 1, waits),
        managed_by="code",
        source=BY,
    )


async def register(settings: Settings, definition: Definition) -> str:
    stores = open_stores(settings)
    try:
        await stores.migrate()
        actor = Actor(BY, await stores.engine.sample_time())
        if await stores.control.get_job(definition.name) is None:
            view = await stores.control.create_job(definition, uuid4(), actor)
        else:
            view = await stores.control.edit_job(definition.name, lambda _: definition, actor)
        return f"{definition.name} fires next at {view.job.next_at}"
    finally:
        await stores.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--name", default="five-minutes", help="the job's name  [default: %(default)s]")
    parser.add_argument("--schedule", default="*/5 * * * *", help="when to call  [default: %(default)s]")
    parser.add_argument("--timeout", metavar="TIME", default="30s", help="for each attempt  [default: %(default)s]")
    parser.add_argument("--waits", default="30s,2m,10m", help="between attempts  [default: %(default)s]")
    try:
        options = parser.parse_args()
        print(asyncio.run(register(load_settings({}), webhook_job(options))))
    except (ValueError, SettingsError, StoreUnavailable, Conflict) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
