"""Webhooks in Django: a decorator for views, sync and async."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from hourbell.receiver.exchange import (
    MAX_BYTES,
    Answer,
    answer_of,
    check_declared_length,
    check_length,
    check_method,
    refusal,
)
from hourbell.receiver.signature import Verifier
from hourbell.receiver.webhook import InvalidWebhook, Webhook

View = Callable[..., Any]


def webhook(verifier: Verifier, *, max_bytes: int = MAX_BYTES) -> Callable[[View], View]:
    """Decorate a view `def view(request, webhook)` so that it gets the verified webhook.

    The view returns a response of Django, None for 204, a status, or an Answer. An exception is left to Django, which
    rolls the request's transaction back and answers 500.
    """
    # Imported late: this module must be importable without Django.
    csrf_exempt: Callable[[View], View] = import_module("django.views.decorators.csrf").csrf_exempt

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                received = _received(verifier, request, max_bytes)
            except InvalidWebhook as error:
                return _response(refusal(error))
            return _response(view(request, received, *args, **kwargs))

        @wraps(view)
        async def answer_async(request: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                received = _received(verifier, request, max_bytes)
            except InvalidWebhook as error:
                return _response(refusal(error))
            return _response(await view(request, received, *args, **kwargs))

        return csrf_exempt(answer_async if iscoroutinefunction(view) else answer)

    return decorate


def _received(verifier: Verifier, request: Any, max_bytes: int) -> Webhook:
    check_method(request.method)
    check_declared_length(request.headers.get("content-length"), max_bytes)
    body: bytes = request.body
    check_length(len(body), max_bytes)
    return verifier.verify(request.headers, body)


def _response(result: object) -> Any:
    http = import_module("django.http")
    if isinstance(result, http.HttpResponseBase):
        return result
    answer: Answer = answer_of(result)
    return http.HttpResponse(answer.body, status=answer.status, headers=answer.all_headers())
