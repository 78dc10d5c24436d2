"""Every example of `--help` does what it says, piped and on a terminal, and every help starts with one."""

import base64
import json
import re
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hourbell.cli.main import COMMANDS, hourbell
from tests.cli.live import Live, live
from tests.database import PostgresDatabase
from tests.examples.processes import until

GROUPS = ("audit", "config", "cron", "events", "explain", "forecast", "import", "job", "nodes", "run", "status", "top")
ANY_RUN = "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e"
END_OF_ANY_RUN = ANY_RUN[-8:]
FUNCTION = "create function public.run_cleanup(days integer) returns void language sql as ''"


FAILS = "FRI-MON"  # the example of what is refused

Way = Callable[[Live, list[str]], tuple[int, str]]


def piped(node: Live, arguments: list[str]) -> tuple[int, str]:
    done = node.run(*arguments)
    if done.exit_code == 2 and "add --yes" in done.stderr:
        done = node.run(*arguments, "--yes")
    return done.exit_code, done.output


def on_a_terminal(node: Live, arguments: list[str]) -> tuple[int, str]:
    return node.terminal(*arguments, typed="y\n")


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


def examples() -> Iterator[str]:
    """Every example of `--help` that needs a node."""
    for _, command in [*commands(), ("", hourbell)]:
        for line in getattr(command, "examples", "").splitlines():
            for example in re.findall(r"hourbell [^|>]+", line):
                arguments = shlex.split(example)[1:]
                # The node is one that serves; what needs none has tests of its examples of its own.
                if arguments != ["serve"] and arguments[:2] not in (["import", "crontab"], ["audit", "verify"]):
                    yield example.strip()


EXAMPLES = list(dict.fromkeys(examples()))


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Live, Path]]:
    """A node that may call functions of its database, and a file of jobs to import."""
    async with PostgresDatabase.made() as postgres:
        await postgres.connection.execute(FUNCTION)
        settings = {"DATABASE_URL": postgres.url, "HOURBELL_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}
        folder = tmp_path_factory.mktemp("examples")
        with live(folder, HOURBELL_ALLOW_FUNCTIONS="public.run_cleanup(integer)", **settings) as node:
            target = {"type": "http", "url": node.receiver}
            file = folder / "shop.ndjson"
            file.write_text(json.dumps({"name": "shop", "schedule": "@daily", "target": target}))
            yield node, file


@pytest.mark.anyio
# On a terminal each is a process of its own, which takes minutes.
@pytest.mark.parametrize("way", [piped, pytest.param(on_a_terminal, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("example", EXAMPLES)
async def test_every_example_runs(way: Way, example: str, served: tuple[Live, Path]) -> None:
    follow(*served, example, way)


def follow(node: Live, file: Path, example: str, way: Way) -> None:
    arguments = [{"shop.ndjson": str(file)}.get(word, word) for word in shlex.split(example)[1:]]
    prepare(node, arguments)
    if ANY_RUN in arguments:
        arguments[arguments.index(ANY_RUN)] = a_run(node, arguments[1])
    if END_OF_ANY_RUN in arguments:
        arguments[arguments.index(END_OF_ANY_RUN)] = a_run(node, arguments[1])[-8:]
    if arguments[:2] == ["run", "replay"] and len(arguments) == 2:
        arguments.append(a_run(node, "replay"))  # xargs would
    if arguments[:2] == ["import", "jobs"] and "-" in arguments:
        node.ok("import", "jobs", "-", given=node.ok("job", "list", "--tag", "billing", "-o", "ndjson"))
        return  # a person has no pipe on the terminal
    if arguments[0] in ("top", "events") and not {"-n", "--timeout"} & set(arguments):
        arguments += ["--timeout", "1s"] if arguments[0] == "events" else ["-n", "1"]
    if arguments[0] == "events":
        arguments = ["1s" if word == "1m" else word for word in arguments]
    status, said = way(node, arguments)

    assert status == 0 or (status != 130 and FAILS in example), said


def prepare(node: Live, arguments: list[str]) -> None:
    """Jobs as the example expects them."""
    if arguments[0] in ("config", "cron"):
        return
    if arguments[:3] == ["job", "trigger", "report"]:
        node.run("job", "delete", "report")
        node.create("report")
    is_new = arguments[:2] == ["job", "create"]
    for job in (arguments[2] if is_new else "nightly-report", "morning-report"):
        node.run("job", "delete", job)
    if not is_new:
        node.create("nightly-report", "--tag", "billing", "--tag", "trial", "--secret", "generate")


def a_run(node: Live, verb: str) -> str:
    """A run that the command can act on."""
    job = {"watch": "fine", "get": "fine", "logs": "fine", "cancel": "waits"}.get(verb, "fails")
    if node.run("job", "get", job).exit_code == 3:
        node.create(job, method="GET" if job == "fine" else "POST")
        node.ok("job", "edit", job, "--retry", "default" if job == "waits" else "none")
    run = node.ok("job", "trigger", job, "-q").strip()
    until(lambda: node.json("run", "get", run)["state"] in ("retrying", "succeeded", "failed"))
    return run
