"""Log formats: JSON for machines, aligned text for people. The event is the message, its fields are the `extra`.

All loggers of the process use them, and passwords in URLs are masked. In a program with its own logging setup, only the
messages of Hourbell's records are made readable.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hourbell.settings import masked as masked

_OURS = "hourbell."
_QUIET = ("asyncio", "asyncpg", "uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error")
_TRACEBACK = "Traceback (most recent call last):"
_WORD = re.compile(r"\S+")
_RUN_LINES = ("run_succeeded", "run_failed")
_SECRET_NAMES = ("password", "secret", "token", "authorization", "api_key")


class _OurHandler(logging.StreamHandler[TextIO]):
    """A handler that renders the fields of a record by itself."""


def configure_logs(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Send every logger of this process to the stream (stderr), as `console` or `json`, from this level on.

    Call it before uvicorn starts, and give uvicorn `log_config=None`.
    """
    stream = stream or sys.stderr
    handler = _OurHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.processors.ExceptionRenderer(),
                _arrange,
                _hide_secrets,
                *(_for_people(stream) if log_format == "console" else _FOR_MACHINES),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(logging.WARNING, root.level))


@contextmanager
def readable_messages() -> Iterator[None]:
    """Append the fields of Hourbell's records to their messages, for handlers that show nothing else.

    The `extra` stays. No handler and no level is changed, and after `configure_logs` nothing is changed at all. The
    context manager may be entered several times.
    """
    with _users_lock:
        _users.append(_users[0] if _users else _FactsInMessage())
        user_filter = _users[-1]
        # A filter of a logger does not see the records of its children.
        for logger in _our_loggers():
            logger.addFilter(user_filter)
    try:
        yield
    finally:
        with _users_lock:
            _users.pop()
            if not _users:
                for logger in _our_loggers():
                    logger.removeFilter(user_filter)


class _FactsInMessage(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        # Attributes that every record of this program has, also from its own record factory, are not fields of ours.
        self._usual = {*vars(logging.makeLogRecord({})), "message", "asctime"}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.args and not any(isinstance(handler, _OurHandler) for handler in logging.root.handlers):
            facts = {name: value for name, value in vars(record).items() if name not in self._usual}
            if facts:
                # The event stays the record's template, by which error collectors group records.
                record.msg, record.args = f"{str(record.msg).replace('%', '%%')}%s", (_facts_as_text(facts),)
        return True


_users: list[_FactsInMessage] = []
_users_lock = threading.Lock()
# A child that was forked while another thread held the lock could never acquire it; it has no other threads.
os.register_at_fork(before=_users_lock.acquire, after_in_parent=_users_lock.release, after_in_child=_users_lock.release)


def _our_loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in [*logging.root.manager.loggerDict] if name.startswith(_OURS)]


def _facts_as_text(facts: Mapping[str, object]) -> str:
    """Format fields as ` name=value`; multi-line values follow on lines of their own, with a summary in their place."""
    line, below = "", ""
    for name, value in facts.items():
        text = str(_without_secrets(name, value)).strip()
        if "\n" in text:
            below += f"\n{text}"
            text = _gist(text)
        if value is not None:
            line += f" {name}={text!r}" if re.search(r"\s|^$", text) else f" {name}={text}"
    return line + below


def _gist(text: str) -> str:
    """Return the first line; for a traceback the line that names the exception."""
    said = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line and not line.startswith(" ")]
    return said[0] if said else text.partition("\n")[0]


_FOR_MACHINES: tuple[Processor, ...] = (structlog.processors.JSONRenderer(default=str),)


def _for_people(stream: TextIO) -> tuple[Processor, ...]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=stream.isatty() and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,  # the other formatter shows local variables: secrets
        sort_keys=False,
        timestamp_key="time",
        pad_event_to=24,
    )
    return (_leave_out_our_component, _shorten_run_line, renderer)


def _arrange(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put time, level, event and component first, then the other fields."""
    record: logging.LogRecord = event.pop("_record")
    del event["_from_structlog"]
    event.pop("color_message", None)  # uvicorn's second copy of the message
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {
        "time": time.removesuffix("+00:00") + "Z",
        "level": record.levelname.lower(),
        "event": event.pop("event"),
        "component": record.name,
        **event,
    }


def _leave_out_our_component(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if event["component"].startswith(_OURS):
        del event["component"]
    return event


def _shorten_run_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave out of the line of an ended run what people need only of a run that failed, and round the rest."""
    if event["event"] not in _RUN_LINES:
        return event
    short = {name: event[name] for name in ("time", "level", "event", "job", "job_id") if name in event}
    if event.get("attempt", 1) > 1:
        short["attempt"] = event["attempt"]
    for name, shown in (("duration_seconds", "took"), ("lateness_seconds", "late")):
        if name in event:
            short[shown] = _rounded(event[name])
    if event.get("next_at"):
        short["next"] = f"{event['next_at'][:19]}Z"
    if event["event"] == "run_failed":
        short |= {name: event[name] for name in ("run", "reason", "error") if name in event}
    return short


def _rounded(seconds: float) -> str:
    return f"{seconds * 1_000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s" if seconds < 60 else f"{seconds / 60:.1f}m"


def _hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: _without_secrets(name, value) for name, value in event.items()}


def _without_secrets(name: str, value: object) -> object:
    if name.lower().endswith(_SECRET_NAMES) and value is not None:
        return "***"
    if isinstance(value, str):
        return _WORD.sub(lambda found: _masked_word(found[0]), value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets("", each) for each in value]
    return value


def _masked_word(word: str) -> str:
    may_hold_one = ("://" in word and "@" in word) or "password=" in word.lower()
    return masked(word) if may_hold_one else word
