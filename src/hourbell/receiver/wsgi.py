"""Webhooks over WSGI: a standalone application."""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIEnvironment

from hourbell.receiver.exchange import (
    MAX_BYTES,
    Answer,
    Answerable,
    answer_of,
    check_declared_length,
    check_length,
    check_method,
    failure,
    refusal,
)
from hourbell.receiver.signature import Verifier
from hourbell.receiver.webhook import InvalidWebhook, Reason, Webhook

_HEADER = "HTTP_"


class WebhookReceiver:
    """A WSGI application that verifies a webhook, passes it to a function and answers.

    The answer is 204, or the handler's result; 500 if it raises.
    """

    def __init__(
        self, verifier: Verifier, handler: Callable[[Webhook], Answerable], *, max_bytes: int = MAX_BYTES
    ) -> None:
        self._verifier = verifier
        self._handler = handler
        self._max_bytes = max_bytes

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            webhook = self._received(environ)
        except InvalidWebhook as error:
            answer = refusal(error)
        else:
            answer = self._answer(webhook)
        start_response(f"{answer.status} {_phrase(answer.status)}", list(answer.all_headers().items()))
        return [answer.body]

    def _received(self, environ: WSGIEnvironment) -> Webhook:
        check_method(environ["REQUEST_METHOD"])
        headers = [
            (name.removeprefix(_HEADER).replace("_", "-"), value)
            for name, value in environ.items()
            if name.startswith(_HEADER)
        ]
        return self._verifier.verify(headers, _body(environ, self._max_bytes))

    def _answer(self, webhook: Webhook) -> Answer:
        try:
            return answer_of(self._handler(webhook))
        except Exception:
            return failure(webhook)


def _body(environ: WSGIEnvironment, max_bytes: int) -> bytes:
    length = check_declared_length(environ.get("CONTENT_LENGTH"), max_bytes)
    if length is None and not environ.get("wsgi.input_terminated"):
        # Without either, a read beyond the body would block forever.
        raise InvalidWebhook(Reason.LENGTH_REQUIRED, "send the body with a content-length")
    body: bytes = environ["wsgi.input"].read(max_bytes + 1 if length is None else length)
    check_length(len(body), max_bytes)
    if length is not None and len(body) < length:
        raise InvalidWebhook(Reason.BODY_INCOMPLETE, f"{len(body)} bytes of {length} arrived")
    return body


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
