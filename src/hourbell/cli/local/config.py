"""`hourbell config`: show every setting with its value and origin. Secrets are masked, even if they are invalid."""

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.output import json_text, plain, table
from hourbell.cli.shared.remote import USAGE, complain
from hourbell.core.access.variable_names import unknown_variables
from hourbell.core.values.readers import show_duration
from hourbell.settings import (
    DEFAULT,
    FILE,
    HIDDEN,
    READERS,
    SECRETS,
    Settings,
    SettingsError,
    known_variables,
    load_settings,
    masked,
    variables_of,
)

_MASK = "***"


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting as it may be shown. `problem` is its validation error, if any."""

    name: str
    variable: str
    value: object
    origin: str
    problem: str | None = None


@click.group(cls=ExampleGroup, examples="hourbell config show\nhourbell config show --json | jq '.settings[].value'")
def command() -> None:
    """Show the settings of this machine. Needs no server."""


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell config show
    HOURBELL_LEASE=90s hourbell config show | grep LEASE
    hourbell config show --json | jq -r '.settings[] | select(.origin != "default") | .variable'
    """,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Print every setting, its value and its source: the default, a variable or hourbell.toml.

    Passwords and keys are masked. The exit code is 2 if a setting is invalid; the others are still printed.
    """
    of_the_node, of_the_client = _of_the_node(os.environ, Path()), _of_the_client(os.environ)
    found = [*of_the_node, *of_the_client]
    problems = [*(_problems(of_the_node) or _together()), *_problems(of_the_client)]
    if as_json:
        rows = [{name: getattr(each, name) for name in Shown.__slots__} for each in found]
        click.echo(json_text({"settings": rows, "errors": problems}))
    else:
        cells = [
            (each.variable, _text(each.value), f"{each.origin}{' (bad)' if each.problem else ''}") for each in found
        ]
        for line in table(("SETTING", "VALUE", "FROM"), cells, None):
            click.echo(line)
    for problem in problems:
        complain(problem)
    for unknown in unknown_variables(os.environ, known_variables()):
        if not unknown.is_misspelled:  # a misspelled variable is already among the errors
            click.echo(f"warning: {unknown.message}", err=True)
    sys.exit(USAGE if problems else 0)


def _of_the_node(environment: Mapping[str, str], folder: Path) -> list[Shown]:
    file = _file(folder)
    defaults = Settings()
    found = []
    for name, read in READERS.items():
        variable = variables_of(name)[-1]
        given = _given(name, environment, file)
        if given is None:
            found.append(Shown(name, variable, _written(name, getattr(defaults, name)), DEFAULT))
            continue
        origin, text = given
        try:
            found.append(Shown(name, variable, _written(name, read(text.strip())), origin))
        except ValueError as error:
            found.append(Shown(name, variable, _written(name, text), origin, str(error)))
    return found


def _of_the_client(environment: Mapping[str, str]) -> list[Shown]:
    """Return the client's settings: the server URL and the masked token."""
    from hourbell.client.server_address import DEFAULT_URL, TOKEN, TOKEN_FILE, URL, find_server

    url = environment.get(URL)
    problem = None
    try:
        find_server(url, "none")
    except ValueError as error:
        problem = str(error)
    shown_url = Shown("url", URL, masked(url or DEFAULT_URL), URL if url else DEFAULT, problem)
    problem, value = None, None
    origin = next((name for name in (TOKEN, TOKEN_FILE) if environment.get(name)), DEFAULT)
    try:
        value = _MASK if find_server(DEFAULT_URL, None, environment).token else None
    except ValueError as error:
        problem = str(error)
    return [shown_url, Shown("token", TOKEN, value, origin, problem)]


def _given(name: str, environment: Mapping[str, str], file: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the origin and text of the first value given. An empty variable counts as not set."""
    for variable in variables_of(name):
        if environment.get(variable):
            return variable, environment[variable]
    if name not in file:
        return None
    value = file[name]
    return FILE, str(value).lower() if isinstance(value, bool) else str(value)


def _file(folder: Path) -> dict[str, Any]:
    """Read the settings file; empty if it cannot be read, because `load_settings` reports the reason."""
    try:
        return tomllib.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _together() -> list[str]:
    """Return the error of settings that are each valid but not in combination."""
    try:
        load_settings()
    except SettingsError as error:
        return [str(error)]
    return []


def _problems(settings: list[Shown]) -> list[str]:
    return [
        f"{f'{each.name} in {FILE}' if each.origin == FILE else each.origin}: {each.problem}"
        for each in settings
        if each.problem
    ]


def _written(name: str, value: Any) -> object:
    """Return the value in its settings syntax, with secrets masked."""
    if value is None or value in ("", (), frozenset(), {}):
        return None
    if name in HIDDEN:
        return _MASK
    if name in SECRETS:
        return masked(str(value))
    match value:
        case timedelta():
            return show_duration(value)
        case bool() | int():
            return value
        case frozenset():
            return ", ".join(str(each) for each in sorted(value))
        case tuple() if not hasattr(value, "port"):
            return ", ".join(str(each) for each in value)
        case _:
            return str(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return "" if value is None else plain(value)
