"""What a job's target says, checked: what it calls, how long that may take, and the lane whose fate it shares.

A target is JSON, written by people. `parse_target` reads it into one of four values, or says everything that is wrong.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hourbell.core.schedule.forms import parse_duration
from hourbell.core.template import faults_of
from hourbell.core.url import Url, parse_url

METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE")
OWN_DATABASE = "default"
_TYPES = "http with url, sql with function, task with name, or queue with queue"
_HTTP_TIMEOUT = "30s"
_SQL_TIMEOUT = "30s"
_TASK_TIMEOUT = "10m"
_LONGEST = 86_400
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_IDENTIFIER = re.compile(r"[^\x00-\x1f\x7f]{1,63}")
_DATABASE = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", re.ASCII)
# What the transport or Hourbell itself says: a job must not say something else.
_OWN_HEADERS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer",
        "upgrade", "expect", "accept-encoding", "idempotency-key", "webhook-id", "webhook-timestamp",
        "webhook-signature", "traceparent",
    }
)  # fmt: skip
_MOST_HEADERS, _LONGEST_VALUE = 50, 8_192
_DEEPEST = 32
_SCALARS = (str, int, float, type(None))  # whether something is one of these is quickly asked
_MOST_FAULTS, _LONGEST_FAULT = 10, 300


class TargetError(ValueError):
    """The target makes no sense; `faults` holds everything that is wrong with it."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class HttpCall:
    url: Url
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None  # text, or JSON with placeholders in its strings; None for the envelope
    timeout: timedelta = timedelta(seconds=30)

    @property
    def lane(self) -> str:
        return self.url.origin


@dataclass(frozen=True, slots=True)
class SqlCall:
    """A function of a database: `schema` and `function` are names as they stand in the catalogue, not quoted."""

    schema: str
    function: str
    args: Mapping[str, object] = field(default_factory=dict)
    database: str = OWN_DATABASE
    timeout: timedelta = timedelta(seconds=30)
    lock_timeout: timedelta | None = None
    search_path: tuple[str, ...] = ("public",)

    @property
    def lane(self) -> str:
        return f"sql:{self.database}"


@dataclass(frozen=True, slots=True)
class TaskCall:
    name: str
    args: Mapping[str, object] = field(default_factory=dict)
    timeout: timedelta = timedelta(minutes=10)

    @property
    def lane(self) -> str:
        return f"task:{self.name}"


@dataclass(frozen=True, slots=True)
class QueueCall:
    queue: str

    @property
    def lane(self) -> str:
        return f"queue:{self.queue}"


TargetCall = HttpCall | SqlCall | TaskCall | QueueCall


def parse_target(target: Any) -> TargetCall:
    """Read a target, or raise a TargetError that says everything that is wrong with it."""
    reader = _Reader(target if isinstance(target, Mapping) else {})
    if _is_deeper(target, _DEEPEST):
        raise TargetError([f"target is nested more than {_DEEPEST} deep"])
    match reader.values.get("type"):
        case "http":
            call: TargetCall | None = _http(reader)
        case "sql":
            call = _sql(reader)
        case "task":
            call = _task(reader)
        case "queue":
            queue = reader.text("queue")
            call = QueueCall(queue)
        case None:
            raise TargetError([f"target needs a type: {_TYPES}"])
        case other:
            raise TargetError([f"type is {_shown(other)}; write {_TYPES}"])
    if reader.faults or call is None:
        raise TargetError([fault[:_LONGEST_FAULT] for fault in reader.faults[:_MOST_FAULTS]])
    return call


def _is_deeper(value: object, depth: int) -> bool:
    """Whether JSON is nested deeper than that, found level by level: it may be too deep for recursion."""
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
    """The lane of a target: what shares its fate when the receiver is slow."""
    return parse_target(target).lane


def _http(reader: "_Reader") -> HttpCall | None:
    reader.only("type", "url", "method", "headers", "body", "timeout", "secret")
    if reader.values.get("secret") is not None:
        reader.faults.append("a secret is not kept in the target; make one with `hourbell secret create JOB`")
    try:
        url = parse_url(reader.values.get("url"))
    except ValueError as error:
        reader.faults.append(f"url: {error}")
        url = None
    method = reader.values.get("method", "POST")
    if method not in METHODS:
        reader.faults.append(f"method is {_shown(method)}; write one of {', '.join(METHODS)}")
    headers = _headers(reader)
    timeout = reader.duration("timeout", _HTTP_TIMEOUT, most=60)
    body = reader.values.get("body")
    reader.faults += [f"body: {fault}" for fault in faults_of(body)]
    return None if url is None else HttpCall(url, str(method), headers, body, timeout)


def _headers(reader: "_Reader") -> dict[str, str]:
    given = reader.object("headers")
    if len(given) > _MOST_HEADERS:
        reader.faults.append(f"headers: {len(given)} are too many; at most {_MOST_HEADERS}")
    seen: set[str] = set()
    for name, value in given.items():
        fault = f"{name} is given twice" if name.lower() in seen else check_header(name, value)
        if fault:
            reader.faults.append(f"headers: {fault}")
        seen.add(name.lower())
    return {name: str(value).strip() for name, value in given.items()}


def check_header(name: str, value: object) -> str | None:
    """What is wrong with a header of a job, or None. The value is not shown: it may be a secret."""
    if _TOKEN.fullmatch(name) is None:
        return f"{_shown(name)} is not the name of a header"
    if name.lower() in _OWN_HEADERS or name.lower().startswith("hourbell-"):
        return f"{name} is set by Hourbell; leave it out"
    if not isinstance(value, str) or not value.strip():
        return f"the value of {name} is empty, or not a text"
    if not value.isascii() or not value.replace("\t", " ").isprintable():
        return f"the value of {name} is not printable ASCII text"
    if len(value) > _LONGEST_VALUE:
        return f"the value of {name} is longer than {_LONGEST_VALUE} characters"
    return None


def _sql(reader: "_Reader") -> SqlCall:
    reader.only("type", "function", "args", "database", "timeout", "lock_timeout", "search_path")
    name = reader.text("function")
    schema, dot, function = name.rpartition(".")
    parts = [schema, function] if dot else [function]
    if name and ("(" in name or any(_IDENTIFIER.fullmatch(part) is None for part in parts)):
        reader.faults.append(f"function is {_shown(name)}; write schema.name, as in public.run_daily_cleanup")
    args = reader.object("args")
    for argument in args:
        if _ARGUMENT.fullmatch(argument) is None:
            reader.faults.append(f"args: {_shown(argument)} is not the name of a parameter")
    database = reader.values.get("database") or OWN_DATABASE
    if not isinstance(database, str) or _DATABASE.fullmatch(database) is None:
        reader.faults.append(f"database is {_shown(database)}; write a name from the settings, or leave it out")
    path = reader.values.get("search_path", ["public"])
    path = [part.strip() for part in path.split(",")] if isinstance(path, str) else path
    if not isinstance(path, list) or not all(isinstance(part, str) and _IDENTIFIER.fullmatch(part) for part in path):
        reader.faults.append("search_path is a list of schemas, as in ['metadata', 'public']")
        path = []
    lock_timeout = None
    if reader.values.get("lock_timeout") is not None:
        lock_timeout = reader.duration("lock_timeout", _SQL_TIMEOUT, most=_LONGEST)
    timeout = reader.duration("timeout", _SQL_TIMEOUT, most=_LONGEST)
    return SqlCall(schema or "public", function, args, str(database), timeout, lock_timeout, tuple(path))


def _task(reader: "_Reader") -> TaskCall:
    reader.only("type", "name", "args", "timeout")
    return TaskCall(reader.text("name"), reader.object("args"), reader.duration("timeout", _TASK_TIMEOUT, most=None))


@dataclass(slots=True)
class _Reader:
    """Reads fields and collects what is wrong with them."""

    values: Mapping[str, Any]
    faults: list[str] = field(default_factory=list)

    def only(self, *known: str) -> None:
        for name in self.values:
            if name not in known:
                self.faults.append(f"{_shown(name)} is not a field of this target; write {', '.join(known)}")

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if isinstance(value, str) and value:
            return value
        self.faults.append(f"the {self.values['type']} target needs {name}")
        return ""

    def object(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return dict(value)
        self.faults.append(f"{name} is not an object")
        return {}

    def duration(self, name: str, default: str, *, most: int | None) -> timedelta:
        given = self.values.get(name)
        given = default if given is None else given
        seconds = parse_duration(given) if isinstance(given, str) else None
        if seconds is None or seconds < 1 or (most is not None and seconds > most):
            span = f"from 1s to {most}s" if most is not None else "of 1s or more"
            self.faults.append(f"{name} is {_shown(given)}; write a duration {span}, as in 30s")
            return timedelta(seconds=1)
        return timedelta(seconds=seconds)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"
