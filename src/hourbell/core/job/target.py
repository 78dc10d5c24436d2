"""Parsing and validation of a job's target: the call, its timeout, and its lane.

A target is JSON written by users. `parse_target` converts it to one of six call types, or reports all its errors.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from hourbell.core.job.command import CommandCall, read_command
from hourbell.core.job.definition import Definition
from hourbell.core.job.target_reader import TargetReader, show_value
from hourbell.core.job.template import template_problems
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.url import Url, parse_url

_PROGRAMS = ("code", "app")  # the owners of the jobs that programs define or create
METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE")
OWN_DATABASE = "default"
_TYPES = "http with url, sql with function, task with name, command with command, or queue with queue"
_TIMEOUT, _TASK_TIMEOUT = timedelta(seconds=30), timedelta(minutes=10)
_MAX_HTTP_TIMEOUT, _MAX_SQL_TIMEOUT = timedelta(seconds=60), timedelta(days=1)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_IDENTIFIER = re.compile(r"[^\x00-\x1f\x7f]{1,63}")
_DATABASE = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", re.ASCII)
# Set by the transport or by Hourbell itself, so that a job must not set them.
_OWN_HEADERS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer",
        "upgrade", "expect", "accept-encoding", "idempotency-key", "webhook-id", "webhook-timestamp",
        "webhook-signature", "traceparent",
    }
)  # fmt: skip
_MAX_HEADERS, _MAX_VALUE_CHARACTERS = 50, 8_192
_MAX_DEPTH_LEVELS = 32
_SCALARS = (str, int, float, type(None))  # checked first, because this check is fast
_MAX_ERRORS, _MAX_MESSAGE_CHARACTERS = 10, 300


class TargetError(ValueError):
    """An invalid target. `errors` lists all validation errors, with pointers into the target."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error.text for error in errors))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class HttpCall:
    url: Url
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None  # text, or JSON with placeholders in its strings; None for the envelope
    timeout: timedelta = _TIMEOUT

    @property
    def lane(self) -> str:
        return self.url.origin


@dataclass(frozen=True, slots=True)
class SqlCall:
    """A call of a database function: `schema` and `function` are unquoted names as in the catalogue."""

    schema: str
    function: str
    args: Mapping[str, object] = field(default_factory=dict)
    database: str = OWN_DATABASE
    timeout: timedelta = _TIMEOUT
    lock_timeout: timedelta | None = None
    search_path: tuple[str, ...] = ("public",)

    @property
    def lane(self) -> str:
        return f"sql:{self.database}"


@dataclass(frozen=True, slots=True)
class TaskCall:
    name: str
    args: Mapping[str, object] = field(default_factory=dict)
    timeout: timedelta = _TASK_TIMEOUT

    @property
    def lane(self) -> str:
        return f"task:{self.name}"


@dataclass(frozen=True, slots=True)
class QueueCall:
    queue: str

    @property
    def lane(self) -> str:
        return f"queue:{self.queue}"


@dataclass(frozen=True, slots=True)
class ChannelCall:
    """A message to a channel. Only system jobs have this target; `parse_job` refuses it."""

    channel: str

    @property
    def lane(self) -> str:
        return f"channel:{self.channel}"


TargetCall = HttpCall | SqlCall | TaskCall | QueueCall | ChannelCall | CommandCall


def parse_target(target: Any) -> TargetCall:
    """Parse a target, or raise a TargetError with all its errors."""
    reader = TargetReader(target if isinstance(target, Mapping) else {})
    if _is_deeper(target, _MAX_DEPTH_LEVELS):
        raise TargetError([FieldError("", f"target is nested more than {_MAX_DEPTH_LEVELS} deep")])
    match reader.values.get("type"):
        case "http":
            call: TargetCall | None = _http(reader)
        case "sql":
            call = _sql(reader)
        case "task":
            call = _task(reader)
        case "command":
            call = read_command(reader)
        case "queue":
            queue = reader.text("queue")
            call = QueueCall(queue)
        case "channel":
            call = ChannelCall(reader.text("channel"))
        case None:
            raise TargetError([FieldError("/type", f"target needs a type: {_TYPES}")])
        case other:
            raise TargetError([FieldError("/type", f"type is {show_value(other)}; write {_TYPES}")])
    if reader.errors or call is None:
        errors = reader.errors[:_MAX_ERRORS]
        raise TargetError([replace(error, message=error.message[:_MAX_MESSAGE_CHARACTERS]) for error in errors])
    return call


def _is_deeper(value: object, depth: int) -> bool:
    """Check if JSON is nested deeper than `depth`, level by level, because it may be too deep for recursion."""
    level: list[object] = [value]
    for _ in range(depth):
        level = [
            inner
            for each in level
            if not isinstance(each, _SCALARS) and isinstance(each, (Mapping, list))
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, (Mapping, list)) for each in level)


def lane_of(target: Any) -> str:
    """Return the lane of a target: it is shared by all runs that a slow receiver delays together."""
    return parse_target(target).lane


def command_of(definition: Definition) -> CommandCall | None:
    """Return the command of a job; None if it has another target, or one that cannot be read.

    The jobs of programs have none: a program defines tasks, and nobody has approved its commands.
    """
    if definition.target.get("type") != "command" or definition.managed_by in _PROGRAMS:
        return None
    try:
        call = parse_target(definition.target)
    except TargetError:
        return None
    return call if isinstance(call, CommandCall) else None


def _http(reader: TargetReader) -> HttpCall | None:
    reader.only("type", "url", "method", "headers", "body", "timeout", "secret")
    if reader.values.get("secret") is not None:
        reader.error("secret", "a secret is not kept in the target; make one with `hourbell secret create JOB`")
    try:
        url = parse_url(reader.values.get("url"))
    except ValueError as error:
        reader.error("url", f"url: {error}")
        url = None
    method = reader.values.get("method", "POST")
    if method not in METHODS:
        reader.error("method", f"method is {show_value(method)}; write one of {', '.join(METHODS)}")
    headers = _headers(reader)
    timeout = reader.duration("timeout", _TIMEOUT, _MAX_HTTP_TIMEOUT)
    body = reader.values.get("body")
    for wrong in template_problems(body):
        reader.error("body", f"body: {wrong}")
    return None if url is None else HttpCall(url, str(method), headers, body, timeout)


def _headers(reader: TargetReader) -> dict[str, str]:
    given = reader.object("headers")
    if len(given) > _MAX_HEADERS:
        reader.error("headers", f"headers: {len(given)} are too many; at most {_MAX_HEADERS}")
    seen: set[str] = set()
    for name, value in given.items():
        wrong = f"{name} is given twice" if name.lower() in seen else check_header(name, value)
        if wrong:
            reader.error("headers", f"headers: {wrong}")
        seen.add(name.lower())
    return {name: str(value).strip() for name, value in given.items()}


def check_header(name: str, value: object) -> str | None:
    """Return why a header of a job is invalid, or None. The value is not shown, because it may be a secret."""
    if _TOKEN.fullmatch(name) is None:
        return f"{show_value(name)} is not the name of a header"
    if name.lower() in _OWN_HEADERS or name.lower().startswith("hourbell-"):
        return f"{name} is set by Hourbell; leave it out"
    if not isinstance(value, str) or not value.strip():
        return f"the value of {name} is empty, or not a text"
    if not value.isascii() or not value.replace("\t", " ").isprintable():
        return f"the value of {name} is not printable ASCII text"
    if len(value) > _MAX_VALUE_CHARACTERS:
        return f"the value of {name} is longer than {_MAX_VALUE_CHARACTERS} characters"
    return None


def _sql(reader: TargetReader) -> SqlCall:
    reader.only("type", "function", "args", "database", "timeout", "lock_timeout", "search_path")
    name = reader.text("function")
    schema, dot, function = name.rpartition(".")
    parts = [schema, function] if dot else [function]
    if name and ("(" in name or any(_IDENTIFIER.fullmatch(part) is None for part in parts)):
        reader.error("function", f"function is {show_value(name)}; write schema.name, as in public.run_daily_cleanup")
    args = reader.object("args")
    for argument in args:
        if _ARGUMENT.fullmatch(argument) is None:
            reader.error("args", f"args: {show_value(argument)} is not the name of a parameter")
    database = reader.values.get("database") or OWN_DATABASE
    if not isinstance(database, str) or _DATABASE.fullmatch(database) is None:
        reader.error("database", f"database is {show_value(database)}; write a name from the settings, or leave it out")
    path = reader.values.get("search_path", ["public"])
    path = [part.strip() for part in path.split(",")] if isinstance(path, str) else path
    if not isinstance(path, list) or not all(isinstance(part, str) and _IDENTIFIER.fullmatch(part) for part in path):
        reader.error("search_path", "search_path is a list of schemas, as in ['metadata', 'public']")
        path = []
    lock_timeout = None
    if reader.values.get("lock_timeout") is not None:
        lock_timeout = reader.duration("lock_timeout", _TIMEOUT, _MAX_SQL_TIMEOUT)
    timeout = reader.duration("timeout", _TIMEOUT, _MAX_SQL_TIMEOUT)
    return SqlCall(schema or "public", function, args, str(database), timeout, lock_timeout, tuple(path))


def _task(reader: TargetReader) -> TaskCall:
    reader.only("type", "name", "args", "timeout")
    return TaskCall(reader.text("name"), reader.object("args"), reader.duration("timeout", _TASK_TIMEOUT))
