"""How log lines look: JSON for machines, aligned text for people. The event is the message, the facts are its `extra`.

Every logger of the process goes through here, and no password of a URL gets out.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hourbell.settings import masked as masked

_OURS = "hourbell."
_QUIET = ("asyncio", "asyncpg", "uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error")
_WORD = re.compile(r"\S+")
_SECRET_NAMES = ("password", "secret", "token", "authorization", "api_key")


def configure_logs(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Send every logger of this process to the stream (stderr), as `console` or `json`, from this level on.

    Call it before uvicorn starts, and give uvicorn `log_config=None`.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
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
