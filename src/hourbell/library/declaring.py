"""Declaration of jobs in a program: an invalid job raises ValueError at the line that declares it."""

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict

from hourbell.core.job.body import parse_job
from hourbell.core.job.definition import Definition
from hourbell.core.job.fields import BODY_FIELDS
from hourbell.core.schedule.schedule import Dst, Schedule
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.readers import InvalidValue, read_duration, show_duration
from hourbell.core.values.strict_json import json_problem
from hourbell.targets.task import Task

Duration = timedelta | float | str
CatchUpLiteral = Literal["latest", "earliest", "all", "none"]
OverlapLiteral = Literal["allow", "queue_all", "queue_one", "skip", "cancel_running"]
DeliveryLiteral = Literal["at_least_once", "at_most_once"]
PriorityLiteral = Literal["low", "normal", "high"]
OnConflict = Literal["error", "update", "keep"]
Retry = Literal["default", "fixed", "exponential", "none"] | Mapping[str, object]

_MAX_PAYLOAD_BYTES = 1_048_576  # of JSON, the limit of the API
_KINDS = {field.name: field.kind.name for field in BODY_FIELDS}
_OF_SCHEDULE = ("/schedule", "/timezone", "/dst")


class OnceOptions(TypedDict, total=False):
    """Options of `once`. Set either `at` or `delay`."""

    at: datetime | None
    delay: Duration | None
    args: Mapping[str, object] | None
    payload: object
    timeout: Duration
    name: str | None
    key: str | None


class ListOptions(TypedDict, total=False):
    """Filters of `list`. The next page begins after the name of the last job of a page."""

    q: str | None  # prefix of the name
    tag: str | None
    subject: str | None
    state: Literal["active", "done", "paused", "error"] | None
    all_owners: bool
    after: str | None
    limit: int


class RunsOptions(TypedDict, total=False):
    """Filters of `runs`."""

    state: Literal["pending", "running", "retrying", "succeeded", "failed", "cancelled"] | None
    since: datetime | None
    until: datetime | None
    limit: int


class JobOptions(TypedDict, total=False):
    """Options of a job besides its name, schedule and function, with the defaults of the API."""

    timezone: str
    dst: Dst
    args: Mapping[str, object] | None
    payload: object
    description: str | None
    tags: Iterable[str]
    subject: str
    alert_policy: str
    enabled: bool
    catch_up: CatchUpLiteral | None
    catch_up_window: Duration | None
    overlap: OverlapLiteral
    retry: Retry
    delivery: DeliveryLiteral
    priority: PriorityLiteral
    timeout: Duration
    max_age: Duration
    late_after: Duration
    jitter: Duration
    starts_at: datetime | None
    ends_at: datetime | None


def declare(name: str, schedule: str | Schedule, task: Task, source: str, options: JobOptions) -> Definition:
    """Build the definition of a job; raise ValueError that lists all errors in it."""
    try:
        made = parse_job(job_body(name, schedule, task.name, task.function, options)).definition
    except BodyError as error:
        raise ValueError(describe(error)) from None
    return replace(made, managed_by="code", source=source)


def job_body(
    name: str,
    schedule: str | Schedule,
    task: str,
    function: Callable[..., Any] | None,
    options: JobOptions,
) -> dict[str, Any]:
    """Build the body of a job that calls a task; raise ValueError if the function rejects the args.

    The function is None if this program does not have it. An option that is absent or None gets the default of the
    API; the default description is the first line of the function's docstring.
    """
    given: dict[str, Any] = {} if function is None else {"description": _first_line(function)}
    given |= {each: value for each, value in options.items() if value is not None}
    what = f"the args of {name!r}"
    arguments = json_of(what, arguments_of(what, given.pop("args", None)))
    if function is not None:
        check_function(task, function, arguments)
    target = task_target(task, arguments, given.pop("timeout", "10m"))
    given |= {each: _option_as_json(each, value, name) for each, value in given.items()}
    return given | schedule_fields(schedule, options, name) | {"name": name, "target": target}


def changed_body(
    body: Mapping[str, Any],
    schedule: str | Schedule | None,
    task: str | None,
    function: Callable[..., Any] | None,
    options: JobOptions,
) -> dict[str, Any]:
    """Return the body of a job with these changes; an option that is None gets the default of the API.

    Raises ValueError if the function, which is None if this program does not have it, rejects the args.
    """
    name = body["name"]
    changed = dict(body)
    given: dict[str, Any] = dict(options)
    target = dict(body["target"])
    if task is None and target.get("type") != "task":
        if given.keys() & {"args", "timeout"}:
            raise ValueError(f"the job {name!r} calls no task; give it one with task=, or change its target elsewhere")
    else:
        old = target if target.get("type") == "task" else {}
        what = f"the args of {name!r}"
        arguments = json_of(what, arguments_of(what, given.pop("args", old.get("args"))))
        called = task or str(old.get("name"))
        if function is not None:
            check_function(called, function, arguments)
        timeout = given.pop("timeout", old.get("timeout"))
        changed["target"] = task_target(called, arguments, "10m" if timeout is None else timeout)
    for each, value in given.items():
        if value is None:
            changed.pop(each, None)
        else:
            changed[each] = _option_as_json(each, value, name)
    return changed if schedule is None else changed | schedule_fields(schedule, options, name)


def schedule_fields(schedule: str | Schedule, options: JobOptions, name: str) -> dict[str, Any]:
    """Return the fields of a schedule; raise ValueError if a `Schedule` contradicts the options or the job's name."""
    if not isinstance(schedule, Schedule):
        return {"schedule": schedule}
    given = {"timezone": schedule.timezone, "dst": schedule.dst}
    for option, value in given.items():
        if options.get(option) not in (None, value):
            raise ValueError(f"the Schedule of {name!r} has {option} {value!r}, not {options.get(option)!r}; use one")
    if schedule.name not in (None, name):
        raise ValueError(
            f"the Schedule of {name!r} has H resolved for the name {schedule.name!r}; parse it with its name"
        )
    return {"schedule": schedule.expression, **given}


def _option_as_json(option: str, value: Any, job: str) -> Any:
    kind = _KINDS.get(option)
    return value if kind is None else _as_json(kind, option, value, job)


def _as_json(kind: str, option: str, value: Any, job: str) -> Any:
    """Convert a Python value to the format of the API; other values stay as they are, for the parser to refuse."""
    match kind:
        case "json":
            return json_of(f"the {option} of {job!r}", value)
        case "tags":
            return [value] if isinstance(value, str) else list(value)
        case "instant" if isinstance(value, datetime):
            return aware(option, value)
        case "retry" if isinstance(value, Mapping) and isinstance(value.get("backoff"), Iterable):
            return {**value, "backoff": list(value["backoff"])}
    return value


def arguments_of(what: str, given: object) -> dict[str, object]:
    """Return keyword arguments as a dict; raise ValueError if they are not a mapping."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be keyword arguments, not {type(given).__name__}; write args={{'days': 30}}")
    return dict(given)


def task_target(name: str, arguments: Mapping[str, object], timeout: Duration) -> dict[str, object]:
    """Return a target that calls a task."""
    limit = show_duration(timeout) if isinstance(timeout, timedelta) else timeout
    return {"type": "task", "name": name, "args": dict(arguments), "timeout": limit}


def task_name(function: Callable[..., Any]) -> str:
    """Return the dotted name of a function; it is the same whether its file is run or imported."""
    own_name(function)
    return f"{module_name(function.__module__)}.{function.__qualname__}"


def own_name(function: Callable[..., Any]) -> str:
    """Return the name of a function; raise ValueError if it has none, such as a `partial`."""
    _check_callable(function)
    if not hasattr(function, "__qualname__"):
        raise ValueError(f"{function!r} has no name of its own; write scheduler.task(it, name='reports.send') first")
    return function.__name__


def _check_callable(function: object) -> None:
    if not callable(function):
        raise ValueError(f"{function!r} is not a function; pass the function itself, without quotes and without ()")


def module_name(module: str) -> str:
    """Return the name of a module; for `__main__`, the name under which it would be imported."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        name: str = spec.name
        return name.removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else module


def check_function(name: str, function: Callable[..., Any], arguments: Mapping[str, object] | None) -> None:
    """Raise ValueError for a generator, or for a function that does not accept the run and the args."""
    _check_callable(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f"{name} is a generator; a task returns, it does not yield")
    signature = inspect.signature(function)
    try:
        if arguments is None:
            signature.bind_partial(object())
        else:
            signature.bind(object(), **arguments)
    except TypeError as error:
        hint = "its first parameter is the run, the others come from args"
        raise ValueError(f"{name}{signature} cannot be called: {error}; {hint}") from None


def json_of(what: str, value: Any) -> Any:
    """Return the value after a round trip through JSON, as it will be stored; raise ValueError if it cannot be."""
    try:
        text = json.dumps(value, allow_nan=False)
        read = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} must be JSON: {error}") from None
    if len(text) > _MAX_PAYLOAD_BYTES and (size := _bytes_of(read)) > _MAX_PAYLOAD_BYTES:
        hint = "store the data elsewhere and pass a reference to it"
        raise ValueError(
            f"{what} has {size:,} bytes of JSON, and at most {_MAX_PAYLOAD_BYTES:,} (1 MiB) are taken; {hint}"
        )
    if (problem := json_problem(read)) is not None:
        raise ValueError(f"{what} cannot be stored: {problem}")
    return read


def _bytes_of(value: object) -> int:
    """Return the size in bytes of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))


def duration_of(what: str, given: Duration) -> timedelta:
    """Parse a duration; raise ValueError if it is invalid."""
    try:
        return read_duration(given)
    except InvalidValue:
        raise ValueError(f"{what} is {given!r}; write a timedelta or text such as 90s, 15m or 1d") from None


def aware(what: str, given: datetime) -> datetime:
    """Return an aware datetime; raise ValueError for anything else."""
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise ValueError(f"{what} is {given!r}; write an aware datetime, as in datetime(2026, 12, 1, tzinfo=UTC)")
    return given


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def describe(error: BodyError) -> str:
    """Join all errors into one message, with Python names: `retry.attempts` for the pointer `/retry/attempts`."""
    return "; ".join(map(_describe, error.errors))


def _describe(error: FieldError) -> str:
    if error.pointer in _OF_SCHEDULE:
        return f"invalid schedule: {error.text}"
    option = error.pointer.removeprefix("/target/").strip("/").replace("/", ".")
    return error.text if not option or error.text.startswith(f"{option} ") else f"{option}: {error.text}"
