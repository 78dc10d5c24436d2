"""Every example of `--help` does what it says, and every help starts with one."""

import base64
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hourbell.cli.main import COMMANDS, hourbell
from tests.cli.live import Live, live
from tests.database import PostgresDatabase
from tests.examples.processes import until

GROUPS = ("job", "run", "explain", "top")
ANY_RUN = "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e"
FUNCTION = "create function public.run_cleanup(days integer) returns void language sql as ''"


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in GROUPS:
        command: click.Command = import_module(COMMANDS[name].module).command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", found) for each, found in command.commands.items())


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_help_starts_with_examples_of_the_command(name: str, command: click.Command) -> None:
    with click.Context(command, info_name=name) as context:
        shown = command.get_help(context)

    assert shown.startswith("Examples:\n  ")
    assert f"hourbell {name} " in f"{shown.partition('Usage:')[0]} ".replace("\n", " ")


@pytest.mark.anyio
async def test_every_example_runs(tmp_path: Path, postgres: PostgresDatabase) -> None:
    await postgres.connection.execute(FUNCTION)
    settings = {"DATABASE_URL": postgres.url, "HOURBELL_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}
    with live(tmp_path, HOURBELL_ALLOW_FUNCTIONS="public.run_cleanup(integer)", **settings) as node:
        for name, command in [*commands(), ("", hourbell)]:
            for line in getattr(command, "examples", "").splitlines():
                for example in re.findall(r"hourbell [^|]+", line):
                    follow(node, example, name)


def follow(node: Live, example: str, name: str) -> None:
    arguments = shlex.split(example)[1:]
    if arguments == ["serve"]:
        return  # the node does
    if arguments[:3] == ["job", "trigger", "report"]:
        node.ok("job", "edit", "report", "--url", node.receiver, "--method", "GET")
    is_new = arguments[:2] == ["job", "create"]
    node.run("job", "delete", arguments[2] if is_new else "nightly-report")
    if not is_new:
        node.create("nightly-report", "--tag", "billing", "--tag", "trial")
    if ANY_RUN in arguments:
        arguments[arguments.index(ANY_RUN)] = a_run(node, arguments[1])
    if arguments[:2] == ["run", "replay"] and len(arguments) == 2:
        arguments.append(a_run(node, "replay"))  # xargs would
    if arguments[0] == "top" and "-n" not in arguments:
        arguments += ["-n", "1"]
    done = node.run(*arguments)
    if done.exit_code == 2 and "add --yes" in done.stderr:
        done = node.run(*arguments, "--yes")

    assert done.exit_code == 0, (name, example, done.output, done.exception)


def a_run(node: Live, verb: str) -> str:
    """A run with which the verb can do something."""
    job = {"watch": "fine", "get": "fine", "cancel": "waits"}.get(verb, "fails")
    if node.run("job", "get", job).exit_code == 3:
        node.create(job, method="GET" if job == "fine" else "POST")
        node.ok("job", "edit", job, "--retry", "default" if job == "waits" else "none")
    run = node.ok("job", "trigger", job, "-q").strip()
    until(lambda: node.json("run", "get", run)["state"] in ("retrying", "succeeded", "failed"))
    return run
