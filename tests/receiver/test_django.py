"""Webhooks in Django, by its own test client and with its protection against forged forms switched on."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from hourbell.receiver import CREATE_TABLE, Answer, Verifier, Webhook, forget, once
from hourbell.receiver.django import webhook
from tests.receiver.signed import BODY, ID, OTHER_SECRET, SECRET, just_now, signed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("django")]
VERIFIER = Verifier(SECRET)
Site = Callable[..., Any]


@pytest.fixture(scope="session")
def django() -> None:
    """Set up Django for this process."""
    import django as package
    from django.conf import settings

    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
        USE_TZ=True,
    )
    package.setup()


@pytest.fixture
def site() -> Site:
    """Post a webhook to a site with this one view, and have the answer."""
    from django.test import Client, override_settings
    from django.urls import path

    def post(view: Any, headers: dict[str, str], body: bytes = BODY, method: str = "POST") -> Any:
        client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        with override_settings(ROOT_URLCONF=(path("hook/<name>", view),)):
            return client.generic(method, "/hook/daily", body, "application/json", headers=headers)

    return post


def accepting(returned: object, seen: list[tuple[Webhook, str]]) -> Any:
    @webhook(VERIFIER, max_bytes=1000)
    def view(request: Any, received: Webhook, name: str) -> object:
        assert request.method == "POST"
        seen.append((received, name))
        if isinstance(returned, Exception):
            raise returned
        return returned

    return view


def test_a_view_is_called_with_the_genuine_webhook(site: Site) -> None:
    seen: list[tuple[Webhook, str]] = []

    answer = site(accepting(None, seen), just_now(hourbell_attempt="2"))

    assert (answer.status_code, answer.content) == (204, b"")
    assert [(received.id, received.attempt, name) for received, name in seen] == [(ID, 2, "daily")]


@pytest.mark.parametrize(
    ("headers", "body", "method", "status", "reason"),
    [
        ({}, BODY, "POST", 400, "missing_header"),
        (signed(), BODY, "POST", 401, "too_old"),
        (signed(secret=OTHER_SECRET), BODY, "POST", 401, "wrong_signature"),
        (just_now(), BODY, "PUT", 405, "wrong_method"),
        (just_now(), b"x" * 1001, "POST", 413, "body_too_large"),
    ],
)
def test_any_other_is_refused_with_a_problem(
    site: Site, headers: dict[str, str], body: bytes, method: str, status: int, reason: str
) -> None:
    seen: list[tuple[Webhook, str]] = []

    answer = site(accepting(None, seen), headers, body, method)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["reason"], seen) == (status, reason, [])
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(("returned", "status"), [(410, 410), (Answer(503, {"Retry-After": "120"}, b"later"), 503)])
def test_a_view_may_choose_the_answer(site: Site, returned: object, status: int) -> None:
    answer = site(accepting(returned, []), just_now())

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, "120" if status == 503 else None)


def test_a_view_may_return_a_response(site: Site) -> None:
    from django.http import JsonResponse

    assert site(accepting(JsonResponse({"ok": True}), []), just_now()).json() == {"ok": True}


def test_a_view_that_raises_is_answered_500_without_the_reason(site: Site) -> None:
    answer = site(accepting(RuntimeError("the password is hunter2"), []), just_now())

    assert answer.status_code == 500
    assert b"hunter2" not in answer.content


async def test_a_view_may_be_async() -> None:
    from django.test import AsyncClient, override_settings
    from django.urls import path

    @webhook(VERIFIER)
    async def view(_: Any, received: Webhook) -> int:
        return 202 if received.id == ID else 500

    client = AsyncClient(enforce_csrf_checks=True)
    with override_settings(ROOT_URLCONF=(path("hook", view),)):
        good = await client.generic("POST", "/hook", BODY, "application/json", headers=just_now())
        bad = await client.generic("POST", "/hook", BODY, "application/json", headers=signed())
    assert (good.status_code, bad.status_code) == (202, 401)


@pytest.fixture
def connection() -> Iterator[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(CREATE_TABLE)
    yield connection
    connection.close()


def test_each_run_once_in_a_transaction_of_django(connection: Any) -> None:
    from django.db import transaction

    with transaction.atomic():
        assert once(connection, "a")
        transaction.set_rollback(True)
    with transaction.atomic():
        assert once(connection, "a")
        assert not once(connection, "a")
    with pytest.raises(RuntimeError, match="begin a transaction first"):
        once(connection, "b")


def test_old_ids_are_forgotten_through_django(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into hourbell_received values ('old', datetime('now', '-31 days')), ('young', datetime())"
        )

    assert forget(connection, timedelta(days=30)) == 1
