"""A job as a program declares it: what cannot work is refused where it is written, with a ValueError."""

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict

from hourbell.core.durations import show_duration
from hourbell.core.job import Definition
from hourbell.core.job_body import BodyError, Fault, parse_job
from hourbell.core.preview import rfc3339
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.schedule.schedule import Dst
from hourbell.core.strict_json import fault_of
from hourbell.core.target import lane_of
from hourbell.targets.task import Task

Duration = timedelta | str
CatchUpWord = Literal["latest", "earliest", "all", "none"]
OverlapWord = Literal["allow", "queue_all", "queue_one", "skip", "cancel_running"]
DeliveryWord = Literal["at_least_once", "at_most_once"]
PriorityWord = Literal["low", "normal", "high"]
Retry = Literal["default", "fixed", "exponential", "none"] | Mapping[str, object]

_MOST_BYTES = 1_048_576  # of JSON, as the API takes it
_OF_SCHEDULE = ("/schedule", "/timezone", "/dst")


class OnceOptions(TypedDict, total=False):
    """When and how a task is called once; `at` or `delay` says when."""

    at: datetime | None
    delay: Duration | None
    args: Mapping[str, object] | None
    payload: object
    timeout: Duration
    name: str | None
    key: str | None


class JobOptions(TypedDict, total=False):
    """What may be said about a job besides its name, its schedule and its function; see `Declared` for the defaults."""

    timezone: str
    dst: Dst
    args: Mapping[str, object] | None
    payload: object
    description: str | None
    tags: Iterable[str]
    enabled: bool
    catch_up: CatchUpWord | None
    catch_up_window: Duration | None
    overlap: OverlapWord
    retry: Retry
    delivery: DeliveryWord
    priority: PriorityWord
    timeout: Duration
    max_age: Duration
    late_after: Duration
    jitter: Duration
    starts_at: datetime | None
    ends_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The options of a job. What is None has the default of the API; a description is the docstring's first line."""

    timezone: str = "UTC"
    dst: Dst = "once"
    args: Mapping[str, object] | None = None
    payload: object = None
    description: str | None = None
    tags: Iterable[str] = ()
    enabled: bool = True
    catch_up: CatchUpWord | None = None
    catch_up_window: Duration | None = None
    overlap: OverlapWord = "allow"
    retry: Retry = "default"
    delivery: DeliveryWord = "at_least_once"
    priority: PriorityWord = "normal"
    timeout: Duration = "10m"
    max_age: Duration = "24h"
    late_after: Duration = "5m"
    jitter: Duration = "0s"
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def definition(self, name: str, schedule: str, task: Task, source: str) -> Definition:
        """The job, or a ValueError that says everything that is wrong with it."""
        arguments = json_of(f"the args of {name!r}", arguments_of(f"the args of {name!r}", self.args))
        check_function(task.name, task.function, arguments)
        body = {
            "name": name,
            "schedule": schedule,
            "timezone": self.timezone,
            "dst": self.dst,
            "target": task_target(task.name, arguments, self.timeout),
            "payload": json_of(f"the payload of {name!r}", self.payload),
            "description": _first_line(task.function) if self.description is None else self.description,
            "tags": [self.tags] if isinstance(self.tags, str) else list(self.tags),
            "enabled": self.enabled,
            "catch_up": self.catch_up,
            "catch_up_window": _shown("catch_up_window", self.catch_up_window),
            "overlap": self.overlap,
            "retry": _retry(self.retry),
            "delivery": self.delivery,
            "priority": self.priority,
            "max_age": _shown("max_age", self.max_age),
            "late_after": _shown("late_after", self.late_after),
            "jitter": _shown("jitter", self.jitter, least=0),
            "starts_at": _instant("starts_at", self.starts_at),
            "ends_at": _instant("ends_at", self.ends_at),
        }
        try:
            made = parse_job({key: value for key, value in body.items() if value is not None}).definition
        except BodyError as error:
            raise ValueError(told(error)) from None
        return replace(made, managed_by="code", source=source, lane=lane_of(made.target))


def arguments_of(what: str, given: object) -> dict[str, object]:
    """Keyword arguments, or a ValueError if they are something else."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be keyword arguments, not {type(given).__name__}; write args={{'days': 30}}")
    return dict(given)


def task_target(name: str, arguments: Mapping[str, object], timeout: Duration) -> dict[str, object]:
    """A target that calls a task."""
    return {"type": "task", "name": name, "args": dict(arguments), "timeout": _shown("timeout", timeout)}


def task_name(function: Callable[..., Any]) -> str:
    """The dotted name of a function, the same whether its file is run or imported."""
    own_name(function)
    return f"{module_name(function.__module__)}.{function.__qualname__}"


def own_name(function: Callable[..., Any]) -> str:
    """The name that a function was defined under, or a ValueError if there is none."""
    _check_callable(function)
    if not hasattr(function, "__qualname__"):
        raise ValueError(f"{function!r} has no name of its own; write scheduler.task(it, name='reports.send') first")
    return function.__name__


def _check_callable(function: object) -> None:
    if not callable(function):
        raise ValueError(f"{function!r} is no function; hand over the function itself, without quotes and without ()")


def module_name(module: str) -> str:
    """The name of a module; of the program itself the one by which it would be imported."""
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
    """Refuse what could never be called: a generator, or a function that does not take the run and the args."""
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
    """The value as JSON reads it again: what is stored later is what was checked now."""
    try:
        text = json.dumps(value, allow_nan=False)
        read = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} must be JSON: {error}") from None
    if len(text) > _MOST_BYTES and (size := _bytes_of(read)) > _MOST_BYTES:
        hint = "keep the data elsewhere, and hand over where"
        raise ValueError(f"{what} has {size:,} bytes of JSON, and at most {_MOST_BYTES:,} (1 MiB) are taken; {hint}")
    if (fault := fault_of(read)) is not None:
        raise ValueError(f"{what} cannot be stored: {fault}")
    return read


def _bytes_of(value: object) -> int:
    """The length of a value as JSON in UTF-8, written as short as it can be."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))


def duration_of(what: str, given: Duration, least: int = 1) -> timedelta:
    """A duration that is long enough, or a ValueError."""
    seconds = parse_duration(given) if isinstance(given, str) else None
    duration = timedelta(seconds=seconds) if seconds is not None else given
    if not isinstance(duration, timedelta) or duration < timedelta(seconds=least):
        raise ValueError(f"{what} is {given!r}; write a timedelta or text such as 90s, 15m or 1d, at least {least}s")
    return duration


def _shown(what: str, given: Duration | None, least: int = 1) -> str | float | None:
    return None if given is None else show_duration(duration_of(what, given, least))


def _retry(given: object) -> object:
    """A policy, in which durations may be timedeltas."""
    if not isinstance(given, Mapping) or not isinstance(given.get("backoff"), Iterable):
        return given
    waits = [show_duration(wait) if isinstance(wait, timedelta) else wait for wait in given["backoff"]]
    return {**given, "backoff": waits}


def aware(what: str, given: datetime) -> datetime:
    """A time with its offset from UTC, or a ValueError if it is anything else."""
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise ValueError(f"{what} is {given!r}; write an aware datetime, as in datetime(2026, 12, 1, tzinfo=UTC)")
    return given


def _instant(what: str, given: datetime | None) -> str | None:
    return None if given is None else rfc3339(aware(what, given))


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def told(error: BodyError) -> str:
    """Everything that is wrong, in the words of Python: `retry.attempts` for what JSON calls `/retry/attempts`."""
    return "; ".join(map(_told, error.faults))


def _told(fault: Fault) -> str:
    text = f"{fault.message}; {fault.hint}" if fault.hint else fault.message
    if fault.pointer in _OF_SCHEDULE:
        return f"invalid schedule: {text}"
    place = fault.pointer.strip("/").replace("/", ".")
    return text if not place or text.startswith(f"{place} ") else f"{place}: {text}"
