"""A hostile server: its responses reach the terminal as plain text, and never the shell."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hourbell.cli.main import hourbell
from hourbell.cli.shared.parameters import JOB, RUN

EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202e\r\nx"
ID = "0198c0de-7a11-7b0b-9d35-5f1e1d7a93a5"
JOBS_FILE = '[[job]]\nname = "a"\nschedule = "@daily"\ntarget = { type = "http", url = "https://example.com/" }\n'
TARGET = {"type": "http", "url": "https://example.com/", "headers": {"X": f"{EVIL}"}, "body": EVIL}


def job(**more: Any) -> dict[str, Any]:
    definition = {"name": f"a{EVIL}", "schedule": "@daily", "target": TARGET, "description": EVIL}
    return {"id": ID, "version": 1, "state": "paused", "paused": {"note": EVIL, "by": "token:x"}, **definition, **more}


def plan() -> dict[str, Any]:
    new = {"name": f"a{EVIL}", "action": "create", "generated_secret": f"whsec_{EVIL}", "notes": [EVIL]}
    odd = {"name": f"b{EVIL}", "action": f"odd{EVIL}", "fields": [{"field": EVIL, "before": EVIL, "after": [EVIL]}]}
    instant = {"at": "2026-03-02T00:00:00Z", "local": EVIL, "zone_abbreviation": EVIL}
    gone = {"name": f"c{EVIL}", "id": ID, "before": [instant]}
    return {"source": EVIL, "state": "s", "jobs": [new, odd], "deleted": [gone]}


class Server:
    """Answers every path with the given JSON."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = {}

    def run(self, *arguments: str) -> str:
        """Return everything that a command prints."""
        settings = {"HOURBELL_URL": self.url, "HOURBELL_TOKEN": None}
        return CliRunner().invoke(hourbell, arguments, env=settings, catch_exceptions=False).output


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0].removeprefix("/api/v1")
            body = json.dumps(made.answers.get(path, {})).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: Any) -> None: ...

    with _listening(Handler) as url:
        made = Server(url)
        yield made


@contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def controls(text: str) -> set[str]:
    return {character for character in text if not character.isprintable()} - {"\n"}


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "delete"])
def test_names_in_a_confirmation_are_printed_without_control_characters(server: Server, verb: str) -> None:
    state = {"state": "active", "paused": None} if verb == "pause" else {}
    server.answers["/jobs"] = {"items": [job(**state)], "next_cursor": None}
    output = server.run("job", verb, "--all")

    assert "1 job: a" in output
    assert controls(output) == set()


def test_a_rotated_secret_is_printed_without_control_characters(server: Server) -> None:
    server.answers["/jobs/a/rotate-secret"] = {"secret": f"whsec_{EVIL}", "old_valid_until": None}
    output = server.run("job", "rotate-secret", "a")

    assert output.startswith("whsec_")
    assert controls(output) == set()


def test_applied_changes_are_printed_without_control_characters(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS_FILE)
    server.answers["/jobs/apply"] = plan()
    given = ("--file", str(file), "--source", "x")
    output = server.run("apply", *given, "--yes") + server.run("diff", *given)

    assert "whsec_" in output
    assert controls(output) == set()


@pytest.mark.parametrize("form", ["toml", "yaml", "json"])
def test_an_export_holds_no_control_characters(server: Server, form: str) -> None:
    target = {**TARGET, "headers": {}}
    server.answers["/jobs"] = {"items": [job(name="a", target=target, source=EVIL)], "next_cursor": None}
    at = {"created_at": "2026-03-02T08:00:00Z", "updated_at": "2026-03-02T08:00:00Z"}
    channel = {"name": f"c{EVIL}", "type": "slack", "config": {"type": "slack", EVIL: EVIL}, "source": EVIL, **at}
    server.answers["/channels"] = {"items": [channel]}
    server.answers["/alert-policies"] = {"items": [{"name": f"p{EVIL}", "on": ["failed"], "source": EVIL, **at}]}
    output = server.run("export", "--format", form)

    assert "https://example.com/" in output
    assert controls(output) == set()


@pytest.mark.parametrize("field", ["name", "schedule", "version", "state"])
def test_an_answer_with_wrong_types_is_reported_as_not_from_hourbell(server: Server, field: str) -> None:
    server.answers["/jobs/a"] = job(**{field: [EVIL] if field != "version" else EVIL})
    output = server.run("job", "get", "a")

    assert "this is not a Hourbell server" in output
    assert controls(output) == set()


@pytest.mark.parametrize("name", ["a; touch owned", "$(touch owned)", "`touch owned`", "a b", f"a{EVIL}", "a\nplain,b"])
def test_completion_offers_no_name_that_the_shell_would_run(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOURBELL_URL", server.url)
    run = {
        "id": ID,
        "job_id": ID,
        "job_name": f"a{EVIL}",
        "state": f"failed{EVIL}",
        "scheduled_at": "2026-03-02T00:00:00Z",
    }
    server.answers["/jobs"] = {"items": [job(name=name), job(name="good", words=EVIL)], "next_cursor": None}
    server.answers["/runs"] = {"items": [{**run, "kind": "manual", "attempt": 1}], "next_cursor": None}
    context = hourbell.make_context("hourbell", ["job", "list"])
    jobs, runs = (each.shell_complete(context, context.command.params[0], "") for each in (JOB, RUN))

    assert [item.value for item in jobs] == ["good"]
    assert controls("".join(item.help or "" for item in [*jobs, *runs])) == set()
