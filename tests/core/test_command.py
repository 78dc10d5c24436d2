"""Commands as targets: what is accepted, what is refused and why, and the text that is sealed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.job.body import parse_job
from hourbell.core.job.command import CommandCall, ExitCodes, Limits, text_to_seal
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import TargetError, command_of, parse_target
from hourbell.core.values.field_errors import BodyError

JOB = UUID(int=7)
WHOLE = {
    "type": "command",
    "command": ["/usr/bin/pg_dump", "-Fc", "shop"],
    "label": "db1",
    "cwd": "/srv",
    "env": {"PGHOST": "db", "EMPTY": ""},
    "inherit_env": ["SSH_AUTH_SOCK", "PGUSER", "PGUSER"],
    "env_file": "/etc/shop.env",
    "user": "backup",
    "umask": "027",
    "nice": 10,
    "stdin": "select 1;\n",
    "timeout": "2h",
    "kill_after": "30s",
    "limits": {"memory": "512M", "cpu": "10m", "processes": 50, "open_files": 256, "file_size": 1_000_000},
    "exit_codes": {"ok": [1, 0], "nothing": 3, "retry": [75]},
}


def parsed(**fields: Any) -> CommandCall:
    call = parse_target({"type": "command", "command": "true", **fields})
    assert isinstance(call, CommandCall)
    return call


def errors_of(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(TargetError) as refused:
        parse_target({"type": "command", "command": "true", **fields})
    return [(error.pointer, error.text) for error in refused.value.errors]


def test_every_field_is_read() -> None:
    assert parse_target(WHOLE) == CommandCall(
        command=("/usr/bin/pg_dump", "-Fc", "shop"),
        label="db1",
        cwd="/srv",
        env={"PGHOST": "db", "EMPTY": ""},
        inherit_env=("PGUSER", "SSH_AUTH_SOCK"),
        env_file="/etc/shop.env",
        user="backup",
        umask=0o027,
        nice=10,
        stdin="select 1;\n",
        timeout=timedelta(hours=2),
        kill_after=timedelta(seconds=30),
        limits=Limits(512 * 2**20, timedelta(minutes=10), 50, 256, 1_000_000),
        exit_codes=ExitCodes((0, 1), (3,), (75,)),
    )


def test_a_text_is_run_by_the_shell_and_a_list_is_not() -> None:
    assert parsed(command="a | b").arguments == ["/bin/sh", "-c", "a | b"]
    assert parsed(command=["a", "| b"]).arguments == ["a", "| b"]


def test_the_lane_is_that_of_the_label() -> None:
    assert parsed().lane == "command:default"
    assert parsed(label="db1").lane == "command:db1"


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"command": None}, "/command", "the command target needs command; write a list such as"),
        ({"command": []}, "/command", "command is empty"),
        ({"command": "  "}, "/command", "command is empty"),
        ({"command": [""]}, "/command", "command is empty"),
        ({"command": ["a", 1]}, "/command", "command is ['a', 1]"),
        ({"command": {"a": 1}}, "/command", "command is {'a': 1}"),
        ({"command": "a\0b"}, "/command", "NUL"),
        ({"command": "x" * 65_536}, "/command", "put it into a script"),
        ({"command": ["x"] * 1_001}, "/command", "at most 1,000 arguments"),
        ({"label": "db 1"}, "/label", "label is 'db 1'"),
        ({"label": "*"}, "/label", "label is '*'"),
        ({"cwd": "srv"}, "/cwd", "write an absolute path"),
        ({"cwd": "/a\0"}, "/cwd", "write an absolute path"),
        ({"env": {"A B": "1"}}, "/env", "'A B' is not the name of a variable"),
        ({"env": {"HOURBELL_RUN_ID": "1"}}, "/env", "HOURBELL_RUN_ID is set by Hourbell"),
        ({"env": {"A": 1}}, "/env", "the value of A is not a text"),
        ({"env": {"A": "a\0"}}, "/env", "the value of A is not a text"),
        ({"env": {"A": "x" * 65_536}}, "/env", "name it in env_file"),
        ({"env": ["A=1"]}, "/env", "env is not an object"),
        ({"inherit_env": "PGHOST"}, "/inherit_env", "inherit_env is a list of names"),
        ({"inherit_env": ["A=1"]}, "/inherit_env", "'A=1' is not the name of a variable"),
        ({"inherit_env": ["HOURBELL_SECRET_KEY"]}, "/inherit_env", "holds a setting of the server"),
        ({"inherit_env": ["DATABASE_URL"]}, "/inherit_env", "holds a setting of the server"),
        ({"env_file": "x.env"}, "/env_file", "write an absolute path"),
        ({"user": "a b"}, "/user", "user is 'a b'"),
        ({"user": "-x"}, "/user", "user is '-x'"),
        ({"umask": 27}, "/umask", "write three octal digits as a text"),
        ({"umask": "089"}, "/umask", "write three octal digits"),
        ({"nice": 20}, "/nice", "write a number from 0 to 19"),
        ({"nice": True}, "/nice", "nice is True"),
        ({"stdin": 1}, "/stdin", "stdin is not a text"),
        ({"timeout": "soon"}, "/timeout", "soon"),
        ({"kill_after": "1h"}, "/kill_after", "10m"),
        ({"limits": {"memory": "lots"}}, "/limits", "write a size in bytes"),
        ({"limits": {"memory": 0}}, "/limits", "limits.memory is 0"),
        ({"limits": {"threads": 1}}, "/limits", "'threads' is not a limit"),
        ({"limits": {"processes": 0}}, "/limits", "limits.processes is 0"),
        ({"limits": {"cpu": "x"}}, "/limits/cpu", "x"),
        ({"exit_codes": {"ok": [256]}}, "/exit_codes", "numbers from 0 to 255"),
        ({"exit_codes": {"ok": ["0"]}}, "/exit_codes", "numbers from 0 to 255"),
        ({"exit_codes": {"good": [0]}}, "/exit_codes", "'good' is not ok, nothing or retry"),
        ({"exit_codes": {"nothing": [75], "retry": [75]}}, "/exit_codes", "75 is given twice"),
        ({"shell": True}, "/shell", "is not a field of this target"),
    ],
)
def test_an_error_names_what_is_wrong(fields: dict[str, Any], pointer: str, message: str) -> None:
    [(found, text)] = errors_of(**fields)

    assert found == pointer
    assert message in text


def test_all_errors_are_reported_at_once_and_values_of_variables_are_not_shown() -> None:
    found = errors_of(command=[], cwd="x", env={"TOKEN": 12345}, umask=1, nice=99, limits={"cpu": -1})

    assert [pointer for pointer, _ in found] == ["/command", "/cwd", "/env", "/umask", "/nice", "/limits/cpu"]
    assert "12345" not in str(found)


def test_a_number_of_seconds_becomes_a_duration_in_the_stored_target() -> None:
    body = {
        "name": "a",
        "schedule": "@daily",
        "target": {"type": "command", "command": "a", "timeout": 90, "kill_after": 5},
    }

    assert parse_job(body).definition.target == {
        "type": "command",
        "command": "a",
        "timeout": "1m30s",
        "kill_after": "5s",
    }


def test_a_command_has_no_signing_secret() -> None:
    target = {"type": "command", "command": "a", "secret": "generate"}
    with pytest.raises(BodyError, match="only http targets have a secret"):
        parse_job({"name": "a", "schedule": "@daily", "target": target})


def test_the_jobs_of_programs_have_no_commands() -> None:
    target = {"type": "command", "command": "true"}

    assert command_of(Definition("a", "@daily", target)) == CommandCall("true")
    assert command_of(Definition("a", "@daily", target, managed_by="code")) is None
    assert command_of(Definition("a", "@daily", target, managed_by="app")) is None
    assert command_of(Definition("a", "@daily", {"type": "command"})) is None
    assert command_of(Definition("a", "@daily", {"type": "task", "name": "a"})) is None


def test_the_sealed_text_does_not_depend_on_how_a_database_writes_json() -> None:
    one = parsed(env={"A": "1", "B": "2"}, timeout="90s", limits={"memory": "1K"}, inherit_env=["B", "A"])
    other = parsed(inherit_env=["A", "B"], limits={"memory": 1_024}, timeout=90, env={"B": "2", "A": "1"}, nice=0)

    assert text_to_seal(JOB, 1, one) == text_to_seal(JOB, 1, other)


def test_every_field_is_in_the_sealed_text() -> None:
    calls = [
        parsed(command=WHOLE["command"], **{name: WHOLE[name]}) for name in WHOLE if name not in ("type", "command")
    ]
    calls += [parsed(), parsed(command=["true"]), parsed(command="true "), parsed(stdin="")]
    calls += [replace(parsed(), limits=Limits(cpu=timedelta(seconds=1))), parsed(exit_codes={"retry": []})]

    texts = [
        text_to_seal(job, version, call) for call in calls for job, version in ((JOB, 1), (JOB, 2), (UUID(int=8), 1))
    ]
    assert len(set(texts)) == len(texts) == 3 * (len(WHOLE) - 2 + 6)
