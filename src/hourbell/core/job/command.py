"""Commands as targets: parsing, the lane of a label, and the text that is sealed.

A command runs on a node's machine. It is a list of arguments, started without a shell, or a text for `/bin/sh -c`. What
a run is given, its payload, reaches it by stdin and environment variables and never becomes part of the command.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.target_reader import TargetReader, show_value
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.readers import SECOND, InvalidValue, read_duration

SHELL = "/bin/sh"
DEFAULT_LABEL = "default"
LABEL = re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII)
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?", re.ASCII)
# Set for every command by its node.
RUN_VARIABLES = (
    "HOURBELL_RUN_ID", "HOURBELL_JOB", "HOURBELL_SCHEDULED_AT", "HOURBELL_TRIGGER", "HOURBELL_ATTEMPT",
    "HOURBELL_PAYLOAD",
)  # fmt: skip
NOTHING_TO_DO = "nothing to do"
_TIMEOUT, _KILL_AFTER, _MAX_KILL_AFTER = timedelta(hours=1), timedelta(seconds=10), timedelta(minutes=10)
_MAX_COMMAND_ITEMS, _MAX_COMMAND_BYTES = 1_000, 65_536
_MAX_VARIABLE_NAMES, _MAX_VARIABLE_BYTES = 200, 65_536
_MAX_STDIN_BYTES = 1_048_576
_MAX_PATH_CHARACTERS = 4_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_UMASK = re.compile(r"0?[0-7]{3}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)", re.ASCII)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MAX_SIZE_BYTES = 2**50
_MAX_COUNT_VALUES = 10_000_000
_OWN_SETTINGS = re.compile(r"HOURBELL_.*|DATABASE_URL|REDIS_URL", re.ASCII)
_FIELDS = (
    "type", "command", "label", "cwd", "env", "inherit_env", "env_file", "user", "umask", "nice", "stdin", "timeout",
    "kill_after", "limits", "exit_codes",
)  # fmt: skip
_SIZES, _COUNTS = ("memory", "file_size"), ("processes", "open_files")


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of each process of a command (setrlimit); None leaves the node's own."""

    memory: int | None = None  # bytes of address space
    cpu: timedelta | None = None
    processes: int | None = None  # of the command's user, on the whole machine
    open_files: int | None = None
    file_size: int | None = None  # bytes


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """The meaning of exit codes. Other codes are failures.

    `nothing` is a success with nothing to do. With `retry`, only these failures are retried; None retries all of them,
    as the job's retry policy says.
    """

    ok: tuple[int, ...] = (0,)
    nothing: tuple[int, ...] = ()
    retry: tuple[int, ...] | None = None


_NO_LIMITS, _EXIT_CODES = Limits(), ExitCodes()


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command to run: arguments, or a text for the shell. `stdin` None gives it the payload as JSON."""

    command: tuple[str, ...] | str
    label: str = DEFAULT_LABEL
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inherit_env: tuple[str, ...] = ()
    env_file: str | None = None
    user: str | None = None
    umask: int | None = None
    nice: int = 0
    stdin: str | None = None
    timeout: timedelta = _TIMEOUT
    kill_after: timedelta = _KILL_AFTER
    limits: Limits = _NO_LIMITS
    exit_codes: ExitCodes = _EXIT_CODES

    @property
    def lane(self) -> str:
        return lane_of_label(self.label)

    @property
    def arguments(self) -> list[str]:
        """The arguments to start the command with."""
        return [SHELL, "-c", self.command] if isinstance(self.command, str) else list(self.command)


def lane_of_label(label: str) -> str:
    return f"command:{label}"


def text_to_seal(job_id: UUID, version: int, call: CommandCall) -> bytes:
    """Return the text that binds a command to the job version it was approved for.

    Only what differs from a default is in it: a later release may add fields without breaking seals, and JSON that a
    database has rewritten gives the same text.
    """
    stated = {each.name: getattr(call, each.name) for each in fields(call)}
    default = CommandCall(call.command)
    changed = {name: value for name, value in stated.items() if name == "command" or value != getattr(default, name)}
    parts = ["hourbell command", str(job_id), version, call.label, changed]
    return json.dumps(parts, sort_keys=True, default=_as_json, separators=(",", ":")).encode()


def _as_json(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (Limits, ExitCodes)):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return dict(value)  # type: ignore[call-overload]  # the only mapping is `env`


def read_command(reader: TargetReader) -> CommandCall:
    """Read a command target; its errors are in the reader."""
    reader.only(*_FIELDS)
    return CommandCall(
        _command(reader),
        _matching(reader, "label", LABEL, "write letters, digits, _, . and -, as in db1") or DEFAULT_LABEL,
        _path(reader, "cwd"),
        _env(reader),
        _inherited(reader),
        _path(reader, "env_file"),
        _matching(reader, "user", USER_NAME, "write the name of a user of the machine"),
        _umask(reader),
        _integer(reader, "nice", reader.values.get("nice"), 0, 19) or 0,
        _stdin(reader),
        reader.duration("timeout", _TIMEOUT),
        reader.duration("kill_after", _KILL_AFTER, _MAX_KILL_AFTER),
        _limits(reader),
        _exit_codes(reader),
    )


def _command(reader: TargetReader) -> tuple[str, ...] | str:
    value = reader.values.get("command")
    example = "write a list such as ['/usr/bin/pg_dump', '-Fc', 'shop'], or a text for /bin/sh"
    if value is None:
        reader.error("command", "the command target needs command", example)
        return ""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        reader.error("command", f"command is {show_value(value)}", example)
        return ""
    if not parts or not parts[0].strip():
        reader.error("command", "command is empty", example)
    if any("\0" in part for part in parts):
        reader.error("command", "command has a NUL character, which no program can be given", "leave it out")
    size = sum(len(part.encode(errors="surrogatepass")) + 1 for part in parts)
    if size > _MAX_COMMAND_BYTES or len(parts) > _MAX_COMMAND_ITEMS:
        limit = f"at most {_MAX_COMMAND_ITEMS:,} arguments and {_MAX_COMMAND_BYTES:,} bytes"
        reader.error("command", f"command is too long: {limit}", "put it into a script")
    return value if isinstance(value, str) else tuple(parts)


def _env(reader: TargetReader) -> dict[str, str]:
    given = reader.object("env")
    for name, value in given.items():
        if (wrong := _wrong_variable(name)) is not None:
            reader.error("env", f"env: {wrong}")
        elif not isinstance(value, str) or "\0" in value:
            reader.error("env", f"env: the value of {name} is not a text without NUL characters", "put it in quotes")
    size = sum(len(name) + len(str(value)) for name, value in given.items())
    if len(given) > _MAX_VARIABLE_NAMES or size > _MAX_VARIABLE_BYTES:
        limit = f"at most {_MAX_VARIABLE_NAMES} variables and {_MAX_VARIABLE_BYTES:,} characters"
        reader.error("env", f"env is too large: {limit}", "put them into a file, and name it in env_file")
    return {name: str(value) for name, value in given.items()}


def _wrong_variable(name: str) -> str | None:
    if _VARIABLE.fullmatch(name) is None:
        return f"{show_value(name)} is not the name of a variable"
    if name in RUN_VARIABLES:
        return f"{name} is set by Hourbell; leave it out"
    return None


def _inherited(reader: TargetReader) -> tuple[str, ...]:
    value = reader.values.get("inherit_env")
    if value is None:
        return ()
    if (
        not isinstance(value, list)
        or len(value) > _MAX_VARIABLE_NAMES
        or not all(isinstance(each, str) for each in value)
    ):
        reader.error("inherit_env", "inherit_env is a list of names of variables, as in ['PGHOST', 'SSH_AUTH_SOCK']")
        return ()
    for name in value:
        if _VARIABLE.fullmatch(name) is None:
            reader.error("inherit_env", f"inherit_env: {show_value(name)} is not the name of a variable")
        elif _OWN_SETTINGS.fullmatch(name):
            hint = "give the command its own, in env or env_file"
            reader.error("inherit_env", f"inherit_env: {name} holds a setting of the server", hint)
    return tuple(sorted(set(value)))


def _matching(reader: TargetReader, name: str, pattern: re.Pattern[str], hint: str) -> str | None:
    value = reader.values.get(name)
    if value is None:
        return None
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    reader.error(name, f"{name} is {show_value(value)}", hint)
    return None


def _path(reader: TargetReader, name: str) -> str | None:
    value = reader.values.get(name)
    if value is None:
        return None
    is_path = isinstance(value, str) and value.startswith("/") and "\0" not in value
    if is_path and len(value) <= _MAX_PATH_CHARACTERS:
        return str(value)
    reader.error(name, f"{name} is {show_value(value)}", "write an absolute path, as in /srv/shop")
    return None


def _umask(reader: TargetReader) -> int | None:
    value = _matching(reader, "umask", _UMASK, "write three octal digits as a text, as in '027'")
    return None if value is None else int(value, 8)


def _stdin(reader: TargetReader) -> str | None:
    value = reader.values.get("stdin")
    if value is None or (isinstance(value, str) and len(value.encode(errors="surrogatepass")) <= _MAX_STDIN_BYTES):
        return value
    hint = f"write at most {_MAX_STDIN_BYTES:,} bytes, or leave it out to give the payload as JSON"
    reader.error("stdin", "stdin is not a text, or too long", hint)
    return None


def _limits(reader: TargetReader) -> Limits:
    given = reader.object("limits")
    known = (*_SIZES, "cpu", *_COUNTS)
    for name in given:
        if name not in known:
            reader.error("limits", f"limits: {show_value(name)} is not a limit", f"write {', '.join(known)}")
    cpu = given.get("cpu")
    if cpu is not None:
        try:
            cpu = read_duration(cpu, SECOND)
        except InvalidValue as error:
            reader.errors.append(error.at("/limits/cpu", "limits.cpu", cpu))
            cpu = None
    return Limits(
        _size(reader, "memory", given.get("memory")),
        cpu,
        _integer(reader, "limits", given.get("processes"), 1, _MAX_COUNT_VALUES, "limits.processes"),
        _integer(reader, "limits", given.get("open_files"), 8, _MAX_COUNT_VALUES, "limits.open_files"),
        _size(reader, "file_size", given.get("file_size")),
    )


def _size(reader: TargetReader, name: str, value: Any) -> int | None:
    if value is None:
        return None
    found = _SIZE.fullmatch(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    size = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if 0 < size <= _MAX_SIZE_BYTES:
        return size
    reader.error("limits", f"limits.{name} is {show_value(value)}", "write a size in bytes, or with K, M, G or T: 512M")
    return None


def _integer(
    reader: TargetReader, pointer: str, value: Any, least: int, most: int, name: str | None = None
) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value <= most):
        return value
    reader.error(pointer, f"{name or pointer} is {show_value(value)}", f"write a number from {least} to {most:,}")
    return None


def _exit_codes(reader: TargetReader) -> ExitCodes:
    given = reader.object("exit_codes")
    for name in given:
        if name not in ("ok", "nothing", "retry"):
            reader.error("exit_codes", f"exit_codes: {show_value(name)} is not ok, nothing or retry")
    found = {name: _codes(reader, name, given[name]) for name in ("ok", "nothing", "retry") if given.get(name)}
    if given.get("retry") == []:
        found["retry"] = ()
    meant = [code for codes in found.values() for code in codes]
    if twice := sorted({code for code in meant if meant.count(code) > 1}):
        text = ", ".join(map(str, twice))
        reader.errors.append(FieldError("/exit_codes", f"exit_codes: {text} is given twice", "let each mean one thing"))
    return ExitCodes(found.get("ok", (0,)), found.get("nothing", ()), found.get("retry"))


def _codes(reader: TargetReader, name: str, value: Any) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    if not all(isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= 255 for code in codes):
        reader.error(
            "exit_codes", f"exit_codes.{name} is {show_value(value)}", "write numbers from 0 to 255, as in [75]"
        )
        return ()
    return tuple(sorted(codes))
