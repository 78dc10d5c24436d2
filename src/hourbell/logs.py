"""How log lines look: JSON for machines, aligned text for people. The event is the message, the facts are its `extra`.

Every logger of the process goes through here, and no password of a URL gets out. In a program that has logging of its
own, only the message of our lines is made readable.
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
_SECRET_NAMES = ("password", "secret", "token", "authorization", "api_key")


class _OurHandler(logging.StreamHandler[TextIO]):
    """Tells the facts of a line by itself."""


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
    """Put the facts of our lines into their messages, for handlers that show nothing else. Their `extra` stays.

    No handler and no level is touched, and after `configure_logs` nothing is changed. It may be entered several times.
    """
    with _users_lock:
        _users.append(_users[0] if _users else _FactsInMessage())
        told = _users[-1]
        # A filter of a logger does not see what its children log.
        for logger in _our_loggers():
            logger.addFilter(told)
    try:
        yield
    finally:
        with _users_lock:
            _users.pop()
            if not _users:
                for logger in _our_loggers():
                    logger.removeFilter(told)


class _FactsInMessage(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        # What every record of this program has, also by a record factory of its own, is no fact of ours.
        self._usual = {*vars(logging.makeLogRecord({})), "message", "asctime"}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.args and not any(isinstance(handler, _OurHandler) for handler in logging.root.handlers):
            facts = {name: value for name, value in vars(record).items() if name not in self._usual}
            if facts:
                # The event stays the record's template, by which tools that collect errors group them.
                record.msg, record.args = f"{str(record.msg).replace('%', '%%')}%s", (_facts_as_text(facts),)
        return True


_users: list[_FactsInMessage] = []
_users_lock = threading.Lock()
# A child that was forked while another thread held the lock could never have it; it has no other threads.
os.register_at_fork(before=_users_lock.acquire, after_in_parent=_users_lock.release, after_in_child=_users_lock.release)


def _our_loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in [*logging.root.manager.loggerDict] if name.startswith(_OURS)]


def _facts_as_text(facts: Mapping[str, object]) -> str:
    """` name=value` for each; what has several lines comes below, and its gist in its place."""
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
    """The first line; of a traceback the one that says what was raised."""
    said = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line and not line.startswith(" ")]
    return said[0] if said else text.partition("\n")[0]


_FOR_MACHINES: tuple[Processor, ...] = (structlog.processors.JSONRenderer(default=str),)


def _for_people(stream: TextIO) -> tuple[Processor, ...]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=stream.isatty() and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,  # the other one shows local variables, secrets included
        sort_keys=False,
        timestamp_key="time",
        pad_event_to=24,
    )
    return (_leave_out_our_component, renderer)


def _arrange(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Time, level, event and component first, then the facts."""
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
