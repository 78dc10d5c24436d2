"""A standalone program: the scheduler with the API and the page, until a signal."""

import asyncio
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from hourbell.control.secrets import WrongKeys
from hourbell.library import trouble
from hourbell.logs import configure_logs
from hourbell.service import CannotListen, OnReady, Service
from hourbell.settings import Settings, SettingsError, load_settings
from hourbell.store.errors import FunctionLoginRefused, FunctionsOutOfReach, StoreUnavailable
from hourbell.store.migrations import MigrationError

if TYPE_CHECKING:
    from hourbell.library.scheduler import Scheduler

log = logging.getLogger("hourbell.service")

FAILED, USAGE = 1, 2


def run(scheduler: "Scheduler", *, database_url: str | None = None) -> NoReturn:
    """Serve until a signal, with the settings of the environment, then exit the process."""
    try:
        settings = load_settings(arguments={"database_url": database_url})
    except SettingsError as error:
        report(str(error))
        sys.exit(error.exit_code)
    configure_logs(settings.log_format, settings.log_level)
    end(serve(settings, scheduler))


def serve(settings: Settings, scheduler: "Scheduler", on_ready: OnReady | None = None) -> int:
    """Serve until a signal; return the exit code. `on_ready` is called once the server answers."""

    async def main() -> None:
        scheduler.listeners.start()
        try:
            await Service(settings, scheduler, on_ready, scheduler.listeners).run()
        finally:
            await scheduler.listeners.stop()
        await _end_the_rest()

    scheduler.freeze()
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(main())
    except (FunctionsOutOfReach, FunctionLoginRefused) as error:
        what, why, advice = trouble.with_functions(settings, error)
        report(f"{what}: {why}; {advice}")
        return USAGE if isinstance(error, FunctionLoginRefused) else FAILED
    except StoreUnavailable as error:
        what, why, advice = trouble.with_database(settings, error)
        return failed(f"{what} ({settings.database}): {why}; {advice}")
    except MigrationError as error:
        return failed(f"the database {settings.database} cannot be used: {error}")
    except (SettingsError, WrongKeys) as error:
        report(str(error))
        return USAGE
    except CannotListen as error:
        what, why, advice = trouble.with_address(settings, error)
        return failed(f"{what}: {why}; {advice}")
    finally:
        scheduler.thaw()
    return 0


def end(status: int) -> NoReturn:
    """Exit the process even if the thread of a task still runs: it cannot be stopped, and Python would wait for it."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        logging.shutdown()
        os._exit(status)
    sys.exit(status)


def failed(message: str) -> int:
    report(message)
    return FAILED


def report(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)


async def _end_the_rest() -> None:
    """Cancel the remaining asyncio tasks; exit if one ignores that for a second, so that it does not block the end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=1))[1]:
        logging.shutdown()
        os._exit(0)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed. Slow DNS lookups block its few default threads."""
    os.environ.setdefault("UV_THREADPOOL_SIZE", "64")
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
