"""`hourbell serve`: one node of the engine, with its tasks."""

import asyncio
import importlib
import logging
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import NoReturn

import click

from hourbell.cli.command import ExampleCommand
from hourbell.library.scheduler import Scheduler
from hourbell.logs import configure_logs
from hourbell.settings import Settings, SettingsError, load_settings

log = logging.getLogger("hourbell.service")

FAILED, USAGE = 1, 2


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell serve
    hourbell serve --app myproject.jobs:scheduler
    DATABASE_URL=postgresql://localhost/hourbell hourbell serve --http-addr :8080
    """,
)
@click.option("--app", metavar="MODULE:NAME", help="A Scheduler with tasks and jobs, to import and run.")
@click.option("--database-url", metavar="URL", help="Where the jobs are kept.  [default: sqlite:///hourbell.db]")
@click.option("--http-addr", metavar="ADDR", help="Where to listen.  [default: 127.0.0.1:8080]")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
def command(app: str | None, **flags: str | None) -> None:
    """Start a node: planner, runner and a small HTTP server with /health, /health/ready and /metrics.

    Without a database URL it keeps everything in hourbell.db in this folder.
    """
    try:
        settings = load_settings(flags)
        scheduler = _load_app(app) if app else Scheduler()
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    configure_logs(settings.log_format, settings.log_level)
    _exit(_serve(settings, scheduler))


def _serve(settings: Settings, scheduler: Scheduler) -> int:
    from hourbell.control.secrets import WrongKeys
    from hourbell.service import CannotListen, Service
    from hourbell.store.base import StoreUnavailable
    from hourbell.store.migrations import MigrationError

    if settings.redis_url:
        log.warning("redis_unused", extra={"hint": "REDIS_URL is accepted and not needed"})

    async def main() -> None:
        await Service(settings, scheduler).run()
        await _end_the_rest()

    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(main())
    except StoreUnavailable as error:
        return _failed(f"the database {settings.database} is out of reach: {error}")
    except MigrationError as error:
        return _failed(f"the database {settings.database} cannot be used: {error}")
    except (SettingsError, WrongKeys) as error:
        click.echo(f"error: {error}", err=True)
        return USAGE
    except CannotListen as error:
        return _failed(f"cannot listen on {settings.http_addr}: {error}")
    return 0


async def _end_the_rest() -> None:
    """Cancel what is left on the event loop. A task that does not listen must not keep the process."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=1))[1]:
        logging.shutdown()
        os._exit(0)


def _exit(status: int) -> NoReturn:
    """End the process, also while a task's thread is still at work: it cannot be stopped, and Python would wait."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        logging.shutdown()
        os._exit(status)
    sys.exit(status)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one. It looks up names in a few threads, in which slow ones would hold up all others."""
    os.environ.setdefault("UV_THREADPOOL_SIZE", "64")
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _failed(message: str) -> int:
    click.echo(f"error: {message}", err=True)
    return FAILED


def _load_app(app: str) -> Scheduler:
    """The Scheduler named `module:name`, imported as if from this folder."""
    module_name, _, name = app.partition(":")
    if not module_name or not name:
        raise SettingsError(f"--app is {app[:40]!r}; write module:name, as in myproject.jobs:scheduler")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise SettingsError(f"--app names {module_name!r}, and {error.name!r} cannot be imported") from error
    except Exception as error:
        click.echo("".join(traceback.format_exception(error.with_traceback(_theirs(error)))), err=True, nl=False)
        what = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
        sys.exit(_failed(f"--app names {module_name!r}, and its import failed: {what}"))
    if not isinstance(found, Scheduler):
        raise SettingsError(f"--app names {app[:40]!r}, which is not a hourbell.Scheduler")
    return found


def _theirs(error: Exception) -> TracebackType | None:
    """The traceback from the first line that is neither ours nor the import system's."""
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in (__file__, importlib.__file__)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        trace = trace.tb_next
    return trace
