"""Webhooks over WSGI, by the standard library's server on a real socket."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.validate import validator

import httpx
import pytest

from hourbell.receiver import Answer, Verifier, Webhook
from hourbell.receiver.wsgi import WebhookReceiver
from tests.receiver.signed import BODY, ID, OTHER_SECRET, SECRET, just_now, signed

VERIFIER = Verifier(SECRET)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(handler: Callable[[Webhook], object], **options: int) -> Iterator[str]:
    """The address of a server with this handler. The validator fails what breaks the rules of WSGI."""
    app = WebhookReceiver(VERIFIER, handler, **options)  # type: ignore[arg-type]
    with make_server("127.0.0.1", 0, validator(app), handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook"
        finally:
            server.shutdown()
            thread.join()


def post(url: str, headers: dict[str, str], body: bytes = BODY, method: str = "POST") -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.request(method, url, headers=headers, content=body)


def test_a_genuine_webhook_is_handed_on_and_answered_204() -> None:
    seen: list[Webhook] = []

    with served(seen.append) as url:
        answer = post(url, just_now(hourbell_attempt="2"))

    assert (answer.status_code, answer.content) == (204, b"")
    assert [(webhook.id, webhook.attempt, webhook.payload) for webhook in seen] == [(ID, 2, {"days": 30})]


@pytest.mark.parametrize(
    ("headers", "method", "status", "reason"),
    [
        ({}, "POST", 400, "missing_header"),
        (signed(), "POST", 401, "too_old"),
        (signed(secret=OTHER_SECRET), "POST", 401, "wrong_signature"),
        (just_now(), "PUT", 405, "wrong_method"),
    ],
)
def test_any_other_is_refused_with_a_problem(headers: dict[str, str], method: str, status: int, reason: str) -> None:
    seen: list[Webhook] = []

    with served(seen.append) as url:
        answer = post(url, headers, method=method)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["reason"], seen) == (status, reason, [])
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    ("returned", "status"), [(200, 200), (410, 410), (299, 299), (Answer(503, {"Retry-After": "120"}, b"later"), 503)]
)
def test_a_handler_may_choose_the_answer(returned: object, status: int) -> None:
    with served(lambda _: returned) as url:
        answer = post(url, just_now() | {"content-type": "application/json"})

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, "120" if status == 503 else None)
    assert answer.content == (b"later" if status == 503 else b"")


def test_a_handler_that_raises_is_answered_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def handler(_: Webhook) -> None:
        raise RuntimeError("the password is hunter2")

    with served(handler) as url:
        answer = post(url, just_now())

    assert (answer.status_code, answer.json()) == (500, {"title": "Internal Server Error", "status": 500})
    assert [record.msg for record in caplog.records if record.name == "hourbell.receiver"] == ["webhook_handler_failed"]


def called(body: bytes, **environ: object) -> tuple[str, list[Webhook]]:
    """The status of a call without a server, for what a server would not pass on."""
    seen: list[Webhook] = []
    statuses: list[str] = []
    headers = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in just_now().items()}
    app = WebhookReceiver(VERIFIER, seen.append, max_bytes=1000)
    request = {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(body), **headers, **environ}
    app(request, lambda status, *_: statuses.append(status))  # type: ignore[arg-type, return-value]
    return statuses[0], seen


@pytest.mark.parametrize("length", ["1001", "999999999999999999"])
def test_a_body_that_declares_itself_too_large_is_not_read(length: str) -> None:
    status, seen = called(BODY, CONTENT_LENGTH=length, **{"wsgi.input": None})

    assert (status[:3], seen) == ("413", [])


@pytest.mark.parametrize("length", ["x", "-1", "1" * 5000, "١"])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    assert called(BODY, CONTENT_LENGTH=length) == ("400 Bad Request", [])


def test_a_body_that_broke_off_is_refused() -> None:
    assert called(BODY[:10], CONTENT_LENGTH=str(len(BODY))) == ("400 Bad Request", [])


def test_no_more_than_the_length_is_read() -> None:
    status, [webhook] = called(BODY + b"the next request", CONTENT_LENGTH=str(len(BODY)))

    assert (status, webhook.body) == ("204 No Content", BODY)


def test_without_a_length_a_body_is_read_only_if_the_server_ends_it() -> None:
    ends = {"wsgi.input_terminated": True}

    assert called(BODY) == ("411 Length Required", [])
    assert called(BODY, CONTENT_LENGTH="", **ends)[0] == "204 No Content"
    assert called(b"x" * 5000, **ends)[0].startswith("413")


def test_a_header_sent_twice_is_not_mistaken_for_one() -> None:
    """A server joins the two by a comma."""
    seen: list[Webhook] = []
    lines = [f"{name}: {value}" for name, value in just_now().items()]
    head = ["POST /hook HTTP/1.1", "host: x", f"webhook-id: {ID}", *lines, f"content-length: {len(BODY)}"]

    with served(seen.append) as url, socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        client.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + BODY)
        answer = client.makefile("rb").readline()

    assert (answer.split()[1], seen) == (b"401", [])
