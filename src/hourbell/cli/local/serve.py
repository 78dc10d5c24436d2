"""`hourbell serve`: run one node of the engine, with its tasks."""

import importlib
import os
import sys
import traceback
from shutil import which
from types import TracebackType
from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.library.scheduler import Scheduler
from hourbell.logs import configure_logs
from hourbell.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from hourbell.service import ReadyServer

FAILED = 1
_FIRST_JOB = """
To create a first job, type in another terminal one of:

  {program} job create hello --schedule 'every 1m' --url https://example.com/ --method GET

  curl {url}/api/v1/jobs -H 'Content-Type: application/json' \\
    -d '{{"name": "hello", "schedule": "every 1m",
         "target": {{"type": "http", "method": "GET", "url": "https://example.com/"}}}}'
"""


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell serve
    hourbell serve --app myproject.jobs:scheduler
    DATABASE_URL=postgresql://localhost/hourbell hourbell serve --http-addr :8080
    """,
)
@click.option("--app", metavar="MODULE:NAME", help="The Scheduler to import and run, with its tasks and jobs.")
@click.option("--database-url", metavar="URL", help="The database URL.  [default: sqlite:///hourbell.db]")
@click.option("--http-addr", metavar="ADDR", help="The listen address.  [default: 127.0.0.1:8080]")
@click.option("--log-level", metavar="LEVEL", help="The log level: debug, info, warning or error.  [default: info]")
def command(app: str | None, **flags: str | None) -> None:
    """Start a node: planner, runner and the HTTP server with the page, the REST API, /health and /metrics.

    Without a database URL it stores everything in hourbell.db in this folder.
    """
    try:
        settings = load_settings(flags)
        scheduler = _load_app(app) if app else Scheduler()
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    configure_logs(settings.log_format, settings.log_level)
    from hourbell.library.program import end, serve

    is_for_people = settings.log_format == "console"
    end(serve(settings, scheduler, _report_ready if is_for_people else None))


def _report_ready(server: "ReadyServer") -> None:
    """Print where the server answers and, on a terminal, how to make a first job."""
    from hourbell.client.server_address import DEFAULT_URL

    click.echo(f"Hourbell is ready: {server.url}")
    if sys.stdout.isatty() and server.is_open:
        program = "hourbell" if which("hourbell") else sys.argv[0]
        if server.url != DEFAULT_URL:
            program = f"HOURBELL_URL={server.url} {program}"
        click.echo(_FIRST_JOB.format(program=program, url=server.url))
    sys.stdout.flush()


def _load_app(app: str) -> Scheduler:
    """Import the Scheduler named `module:name`, with the current folder on the import path."""
    module_name, _, name = app.partition(":")
    if not module_name or not name:
        raise SettingsError(f"--app is {app[:40]!r}; write module:name, as in myproject.jobs:scheduler")
    if module_name.endswith(".py"):
        meant = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise SettingsError(f"--app is {app[:40]!r}, which names a file; write its module: --app {meant}:{name}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise SettingsError(f"--app names {module_name!r}, and {error.name!r} cannot be imported") from error
    except Exception as error:
        click.echo("".join(traceback.format_exception(error.with_traceback(_theirs(error)))), err=True, nl=False)
        what = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
        click.echo(f"error: --app names {module_name!r}, and its import failed: {what}", err=True)
        sys.exit(FAILED)
    if not isinstance(found, Scheduler):
        raise SettingsError(f"--app names {app[:40]!r}, which is not a hourbell.Scheduler")
    return found


def _theirs(error: Exception) -> TracebackType | None:
    """Return the traceback from the first frame that belongs neither to this module nor to the import system."""
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in (__file__, importlib.__file__)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        trace = trace.tb_next
    return trace
