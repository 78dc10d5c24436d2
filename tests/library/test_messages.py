"""Our log lines in a program with logging of its own: their messages say everything, and nothing else is changed."""

import asyncio
import io
import logging
from collections.abc import Iterator

import pytest

from hourbell import Run, Scheduler
from hourbell.logs import configure_logs, readable_messages

log = logging.getLogger("hourbell.engine")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, factory = root.handlers[:], root.level, logging.getLogRecordFactory()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.setLogRecordFactory(factory)


def test_the_facts_are_in_the_message_and_still_in_the_record(caplog: pytest.LogCaptureFixture) -> None:
    facts = {"job": "boom", "attempt": 1, "error": "no answer", "hint": None, "database": "postgresql://u:pw@h/d"}
    with readable_messages(), readable_messages():
        log.warning("run_failed", extra=facts)

    [record] = caplog.records
    assert caplog.messages == ["run_failed job=boom attempt=1 error='no answer' database=postgresql://u:***@h/d"]
    assert {name: vars(record)[name] for name in facts} == facts


def test_a_multi_line_fact_is_below_the_message_with_a_summary_in_it(caplog: pytest.LogCaptureFixture) -> None:
    trace = "Traceback (most recent call last):\n  File x\n    boom()\nRuntimeError: boom happened\nat 100%\n"
    with readable_messages():
        log.error("run_failed", extra={"error": trace, "job": "boom"})

    assert caplog.messages == [f"run_failed error='RuntimeError: boom happened' job=boom\n{trace.rstrip()}"]


def test_extra_attributes_on_every_record_are_no_facts(caplog: pytest.LogCaptureFixture) -> None:
    made = logging.getLogRecordFactory()

    def with_request(*args: object, **named: object) -> logging.LogRecord:
        record = made(*args, **named)
        record.request = "7"
        return record

    logging.setLogRecordFactory(with_request)
    with readable_messages():
        log.warning("run_late", extra={"job": "nightly"})

    assert caplog.messages == ["run_late job=nightly"]


def test_lines_are_as_before_once_nobody_asks_any_more(caplog: pytest.LogCaptureFixture) -> None:
    with readable_messages():
        pass
    log.warning("run_late", extra={"job": "nightly"})

    assert caplog.messages == ["run_late"]


def test_our_own_handler_writes_the_facts_once() -> None:
    stream = io.StringIO()
    with readable_messages():
        configure_logs("console", "info", stream)
        log.warning("run_late", extra={"job": "nightly"})

    assert stream.getvalue().endswith("run_late                 job=nightly\n")


@pytest.mark.anyio
async def test_a_scheduler_in_a_program_says_what_it_does(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    def boom(_: Run) -> None:
        raise RuntimeError("boom happened")

    scheduler.register("boom", "* * * * * *", boom, retry="none")
    caplog.set_level(logging.INFO)
    level = logging.getLogger("hourbell").level
    async with scheduler:
        for _ in range(400):
            if failed := [text for text in caplog.messages if text.startswith("run_failed ")]:
                break
            await asyncio.sleep(0.05)

    [started] = [text for text in caplog.messages if text.startswith("scheduler_started ")]
    assert started.startswith("scheduler_started database=")
    assert started.endswith(" jobs=1 tasks=1")
    assert "job=boom" in failed[0]
    assert "error='RuntimeError: boom happened'\nTraceback" in failed[0]
    assert logging.getLogger("hourbell").level == level
