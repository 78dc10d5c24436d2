"""Log lines for people and machines, and secrets that never appear in one."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from hourbell.logs import configure_logs

log = logging.getLogger("hourbell.engine")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    names = ["", "asyncio", "uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def configured(log_format: str = "json", log_level: str = "info", stream: io.StringIO | None = None) -> io.StringIO:
    stream = stream or io.StringIO()
    configure_logs(log_format, log_level, stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_time_level_event_component_and_then_the_facts() -> None:
    stream = configured()
    log.info("run_late", extra={"job": "nightly", "late_minutes": 7})

    [line] = lines(stream)
    assert list(line) == ["time", "level", "event", "component", "job", "late_minutes"]
    assert line["time"].endswith("Z")
    assert (line["level"], line["event"], line["component"]) == ("info", "run_late", "hourbell.engine")
    assert (line["job"], line["late_minutes"]) == ("nightly", 7)


def test_a_console_line_is_plain_text_where_there_is_no_terminal() -> None:
    stream = configured("console")
    log.warning("run_very_late", extra={"job": "nightly", "error": "no answer"})

    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == "[warning  ] run_very_late            job=nightly error='no answer'\n"


def test_a_terminal_gets_colour_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = configured("console", stream=Terminal())
    log.info("engine_started")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = configured("console", stream=Terminal())
    log.info("engine_started")

    assert "\x1b[" in coloured.getvalue()
    assert "\x1b[" not in plain.getvalue()


def test_events_below_the_level_are_left_out() -> None:
    stream = configured(log_level="warning")
    log.info("run_late")
    log.warning("run_very_late")

    assert [line["event"] for line in lines(stream)] == ["run_very_late"]


def test_lines_of_the_user_s_own_program_come_out_too() -> None:
    stream = configured()
    logging.getLogger("shop.orders").info("sent %d letters", 3)

    [line] = lines(stream)
    assert (line["event"], line["component"]) == ("sent 3 letters", "shop.orders")


def test_uvicorn_speaks_only_of_trouble_and_in_our_form() -> None:
    stream = configured(log_level="debug")
    server, access = logging.getLogger("uvicorn.error"), logging.getLogger("uvicorn.access")
    server.info("Started server process [%d]", 1)
    access.info('%s - "%s"', "127.0.0.1", "GET /health")
    server.error("the port is taken", extra={"color_message": "the port is taken"})

    [line] = lines(stream)
    assert (line["event"], line["component"]) == ("the port is taken", "uvicorn.error")
    assert "color_message" not in line


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_exception_comes_with_its_traceback_and_without_local_variables(log_format: str) -> None:
    stream = configured(log_format)
    try:
        secret = "hun" + "ter2"
        raise RuntimeError(f"{len(secret)} letters")
    except RuntimeError:
        log.exception("tick_failed", extra={"loop": "planner"})

    assert "RuntimeError: 7 letters" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    if log_format == "json":
        [line] = lines(stream)
        assert line["exception"].startswith("Traceback")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_password_gets_into_a_line(log_format: str) -> None:
    stream = configured(log_format)
    url = "postgresql://u:hunter2@h/d"
    log.info("database_chosen", extra={"database": url, "all": [url], "each": {"one": url}, "secret": "hunter2"})
    log.warning(f"cannot reach {url}, nor {url}?password=hunter2")
    try:
        raise OSError(f"no way to {url}\nat all")
    except OSError:
        log.exception("tick_failed")

    assert "hunter2" not in stream.getvalue()
    assert "postgresql://u:***@h/d" in stream.getvalue()


def test_addresses_without_a_password_stay_as_they_are() -> None:
    stream = configured()
    log.info("serving", extra={"http": "http://127.0.0.1:8080", "by": "ann@example.com", "lane": "https://a.com:8443"})

    [line] = lines(stream)
    assert (line["http"], line["by"]) == ("http://127.0.0.1:8080", "ann@example.com")
    assert line["lane"] == "https://a.com:8443"


def test_a_fact_that_json_does_not_know_is_shown_as_text() -> None:
    stream = configured()
    log.info("engine_started", extra={"node": ValueError("odd")})

    assert lines(stream)[0]["node"] == "odd"


def test_configuring_again_replaces_what_was_there() -> None:
    first = configured()
    second = configured()
    log.info("engine_started")

    assert first.getvalue() == ""
    assert len(lines(second)) == 1
