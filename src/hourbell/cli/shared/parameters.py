"""Parameters that several commands take: jobs by name, zones, times, durations, JSON."""

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from hourbell import clock
from hourbell.cli.run.ids import RunPart, read_part
from hourbell.cli.shared.output import plain
from hourbell.cli.shared.times import Direction, parse_length, parse_time
from hourbell.core.schedule import zone_names
from hourbell.core.values.readers import InvalidValue, read_zone
from hourbell.core.values.strict_json import NotJson, parse_json

if TYPE_CHECKING:
    from hourbell.client import Client

Function = Callable[..., None]
_COMPLETED = 50
_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class JobName(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """The name or the id of a job, completed by asking the server."""

    name = "job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.strip("."):
            self.fail("The name or id of the job is empty.", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        def ask(client: "Client") -> list[CompletionItem]:
            jobs = client.jobs.list(q=incomplete or None).page(limit=_COMPLETED)
            # A shell inserts completions into its command line unquoted, so a name with special characters would be
            # run.
            return [CompletionItem(job.name, help=plain(job.words)) for job in jobs if _NAME.fullmatch(job.name)]

        return _offered(ctx, ask)


class RunId(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """The id of a run, or its first or last characters; the newest ids are completed by asking the server."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RunPart:
        try:
            return read_part(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        def ask(client: "Client") -> list[CompletionItem]:
            runs = [run for run in client.runs.list().page(limit=_COMPLETED) if str(run.id).startswith(incomplete)]
            return [
                CompletionItem(str(run.id), help=plain(f"{run.job_name or '(deleted)'}, {run.state}")) for run in runs
            ]

        return _offered(ctx, ask)


class Zone(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """An IANA time zone."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return read_zone(value)
        except InvalidValue as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        folded = incomplete.lower()
        return [CompletionItem(name) for name in sorted(zone_names()) if name.lower().startswith(folded)]


class ZoneText(Zone):
    """A time zone that the server validates together with the other fields."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        return str(value)


class Length(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A duration such as 2h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return parse_length(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


JOB, RUN, ZONE, ZONE_TEXT, LENGTH = JobName(), RunId(), Zone(), ZoneText(), Length()


def take_over_option(function: Function) -> Function:
    """Add `--take-over`, for a channel or an alert policy that a jobs file manages."""
    text = "Also if a jobs file manages it, which would put it back."
    return click.option("--take-over", is_flag=True, help=text)(function)


def zone_option(function: Function) -> Function:
    """Add `--timezone`, the zone in which times are read and shown."""
    return click.option(
        "--timezone",
        "-z",
        "zone",
        type=ZONE,
        metavar="ZONE",
        default="UTC",
        help="The time zone in which times are read and shown.  [default: UTC]",
    )(function)


def instant(text: str | None, zone: str, option: str, bare: Direction | None = None) -> datetime | None:
    """Parse a time given for an option, or return None if the option is missing."""
    if text is None:
        return None
    try:
        return parse_time(text, clock.now(), zone, bare)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def json_value(text: str, option: str) -> object:
    """Parse JSON from the text, from @FILE or, for -, from stdin."""
    try:
        return parse_json(source_text(text, option).encode("utf-8", "surrogateescape"))
    except NotJson as error:
        raise click.BadParameter(f"{error}.", param_hint=option) from None


def source_text(text: str, option: str) -> str:
    """Return the text itself, the content of @FILE or, for -, the content of stdin."""
    try:
        if text == "-":
            if sys.stdin.isatty():
                raise click.BadParameter("pipe something, or name a file as @FILE.", param_hint=option)
            return sys.stdin.read()
        return Path(text[1:]).read_text("utf-8") if text.startswith("@") else text
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error}", param_hint=option) from None


def json_or_text(text: str) -> object:
    """Parse the text as JSON, or return it unchanged if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _offered(context: click.Context, ask: "Callable[[Client], list[CompletionItem]]") -> list[CompletionItem]:
    """Ask the server for completions once, with a 2-second timeout; return none on error."""
    from hourbell.client import Client, ClientError, Retries

    try:
        file = context.params.get("token_file")
        token = file.read_text("utf-8") if file else None
        with Client(context.params.get("server"), token, timeout=2.0, retries=Retries(tries=1)) as client:
            return ask(client)
    except (ClientError, OSError, ValueError):
        return []
