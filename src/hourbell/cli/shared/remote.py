"""Commands that call the REST API: how they connect to the server and report its errors.

A token comes from the environment or a file, never from the command line, which all users of the machine can read.
"""

import functools
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hourbell.cli.shared.output import plain

if TYPE_CHECKING:
    from hourbell.client import ApiError, Client, ClientError

Function = Callable[..., None]

FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, CONFLICT, RUN_FAILED, TIMED_OUT = 1, 2, 3, 4, 5, 7, 8
_EXIT_CODES = {
    400: USAGE,
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    409: CONFLICT,
    412: CONFLICT,
    413: USAGE,
    415: USAGE,
    422: USAGE,
}
_ADVICE = {
    401: "set HOURBELL_TOKEN or --token-file; `hourbell token create NAME --role operator` makes a token",
    403: "use a token with that role; `hourbell token create` makes one where the database is",
    412: "look at it again, and repeat the change if it is still wanted",
    429: "wait a moment, and try again",
    503: "try again; `hourbell doctor` on the server shows what is wrong with its database",
}
_ADVICE_BY_CODE = {
    "analytics_off": "see docs/analytics.md; `hourbell job stats` has figures without Redis",
    "analytics_unavailable": "start Redis, or correct REDIS_URL; `hourbell job stats` has figures without Redis",
    "name_taken": "`hourbell job edit` changes it; or choose another name",
    "owned_by_another": (
        "--take-over of `hourbell job edit`, `channel create` or `alert-policy set` makes it yours, that of "
        "`hourbell job delete`, `channel delete` or `alert-policy delete` deletes it"
    ),
}
_FLAGS = {"function": "sql", "name": "task", "headers": "header", "args": "arg"}  # fields of a target, by their flags
_PARAMETER = re.compile(
    r"\b(take_over|catch_up|drop_backlog|drop_secrets|approve_command|cancel_waiting|dry_run)(?:=true)?\b"
)
_COLUMN = re.compile(r"column (\d+)")
_WIDEST = 100
_TRIES, _PATIENCE = 3, 15.0


def server_options(function: Function) -> Function:
    """Add `--server` and `--token-file`, and call the function with an open client and its other parameters.

    An error from the server is printed to stderr, and the process exits with the matching exit code.
    """

    @click.option(
        "--server", metavar="URL", help="The URL of the server.  [default: HOURBELL_URL, or http://127.0.0.1:8080]"
    )
    @click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file that holds the token.  [default: HOURBELL_TOKEN]",
    )
    @functools.wraps(function)
    def call(server: str | None, token_file: Path | None, **given: Any) -> None:
        from hourbell.client import ClientError

        with open_client(server, token_file) as client:
            try:
                function(client, **given)
            except ClientError as error:
                sys.exit(report_error(error, client, job=given.get("job"), schedule=given.get("schedule")))
            except TimeoutError as error:
                fail(str(error), exit_code=TIMED_OUT)

    return call


def open_client(server: str | None = None, token_file: Path | None = None) -> "Client":
    from hourbell.client import Client, Retries

    try:
        token = token_file.read_text("utf-8") if token_file else None
        return Client(server, token, retries=Retries(tries=_TRIES, patience=_PATIENCE))
    except (OSError, ValueError) as error:
        fail(str(error).replace(" as url=", " as --server"), exit_code=USAGE)


def report_error(error: "ClientError", client: "Client", *, job: object = None, schedule: str | None = None) -> int:
    """Print to stderr what the server refused, why and what to do; return the exit code."""
    complain(*refusal(error, client, job=job, schedule=schedule))
    return exit_code(error)


def refusal(
    error: "ClientError", client: "Client", *, job: object = None, schedule: str | None = None
) -> tuple[str, ...]:
    """Return lines that say what was refused, why and what to do, in the terms of the command line."""
    from hourbell.client import ApiError, NotFound, ServerOutOfReach, UnexpectedAnswer
    from hourbell.client.errors import NOT_OURS

    more: list[str] = []
    if isinstance(error, ServerOutOfReach):
        what = f"the server is unreachable: {client.url}"
        more = [str(error)]
    elif isinstance(error, UnexpectedAnswer):
        what = f"this is not a Hourbell server, or one of another version: {client.url}"
        more = [str(error).removeprefix(NOT_OURS).lstrip(". "), "look at --server or HOURBELL_URL"]
    elif isinstance(error, ApiError):
        what = as_flags(error.detail.replace("; see errors.", ".").replace("The body cannot", "This cannot"))
        more = _error_lines(error, schedule)
        if isinstance(error, NotFound) and error.code == "no_such_job" and job:
            more += [_near(client, str(job))]
        elif advice := _ADVICE_BY_CODE.get(error.code) or _ADVICE.get(error.status):
            more += [advice]
    else:
        what = str(error)
    if error.is_in_doubt:
        more += ["the request may have been carried out; check before you repeat it"]
    return what, *filter(None, more)


def exit_code(error: "ClientError") -> int:
    return _EXIT_CODES.get(getattr(error, "status", 0), FAILED)


def complain(what: str, *more: str) -> None:
    click.echo(f"{click.style('error', fg='red')}: {plain(what)}", err=True)
    for line in more:
        # Spaces are preserved, so that a caret stays under its column.
        click.echo("  " + "".join(each if each.isprintable() else "�" for each in line), err=True)


def fail(what: str, *more: str, exit_code: int = FAILED) -> NoReturn:
    complain(what, *more)
    sys.exit(exit_code)


def confirm(intention: str, *, yes: bool) -> None:
    """Ask for confirmation of an action such as `pause 3 jobs`; without a terminal, require `--yes`."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail(
            f"nothing was done: this is not a terminal, so nobody can confirm whether to {intention}",
            "add --yes",
            exit_code=USAGE,
        )
    if not click.confirm(f"{intention.capitalize()}?", err=True):
        fail("nothing was done")


def _error_lines(error: "ApiError", schedule: str | None) -> list[str]:
    lines = []
    for each in error.errors:
        hint = f"; {each.hint}" if each.hint else ""
        lines.append(f"{_flag_of(each.pointer)}: {as_flags(each.message + hint)}")
        column = _COLUMN.search(each.message)
        if each.pointer == "/schedule" and schedule and column:
            lines += [f"  {line}" for line in caret(schedule, int(column[1]))]
    return lines


def as_flags(text: str) -> str:
    """Replace the names of API parameters in a message with the matching flags."""
    return _PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')}", text)


def _flag_of(pointer: str) -> str:
    """Return this command's flag or argument for a JSON pointer into the request, or the pointer if there is none."""
    context = click.get_current_context(silent=True)
    known = {each for parameter in context.command.params for each in parameter.opts} if context else set()
    name = pointer.removeprefix("/query").removeprefix("/")
    if name.startswith("target/"):
        if context and context.params.get("target") is not None:
            return pointer  # the pointer refers to the JSON that the user gave
        name = name.split("/")[1]
        name = _FLAGS.get(name, name)
    if name in known:
        return name.upper()
    flag = f"--{name.replace('_', '-')}"
    return flag if flag in known and "/" not in name else pointer


def caret(expression: str, column: int) -> tuple[str, str]:
    """Return the expression, or the part of it around a column, and a line with a caret under that column."""
    at = max(0, min(column - 1, len(expression)))
    first = max(0, min(at - _WIDEST // 2, len(expression) - _WIDEST))
    part = "".join(character if character.isprintable() else " " for character in expression[first : first + _WIDEST])
    return part, " " * (at - first) + "^"


def _near(client: "Client", name: str) -> str:
    """Suggest jobs with similar names, searched for by the first characters."""
    from hourbell.client import ClientError

    listed = "`hourbell job list` shows the jobs there are"
    try:
        for length in sorted({max(1, len(name) - 2), max(1, len(name) // 2), 1}, reverse=True):
            names = [each.name for each in client.jobs.list(q=name[:length], limit=200)]
            if close := get_close_matches(name, names, n=3):
                return f"did you mean {' or '.join(close)}?"
    except ClientError:
        return listed
    return listed
