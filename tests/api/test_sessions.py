"""A token becomes a cookie that only our page can use; wrong logins are slowed down and learn nothing."""

import logging
import re
from datetime import datetime, timedelta

import httpx
import pytest

from hourbell.api.session_cookie import SessionCookies
from hourbell.core.access.roles import Role
from hourbell.core.access.token_text import token_text
from tests.api.house import SAME, House

pytestmark = pytest.mark.anyio
PATH = "/api/v1/session"
JSON = {"Content-Type": "application/json"}


async def log_in(house: House, token: object, **headers: str) -> httpx.Response:
    return await house.ask("POST", PATH, json={"token": token}, headers={**SAME, **headers})


async def test_a_login_returns_the_identity_and_sets_a_strict_cookie(house: House) -> None:
    answer = await log_in(house, await house.token(Role.EDITOR))

    body = answer.json()
    assert (body["kind"], body["role"], body["name"]) == ("session", "editor", "the editor")
    assert datetime.fromisoformat(body["expires_at"]) == house.time.now() + timedelta(hours=12)
    name, *attributes = re.split(r"; ", answer.headers["set-cookie"])
    assert name.startswith("__Host-hourbell=")
    assert {each.lower() for each in attributes} == {"httponly", "secure", "path=/", "samesite=lax", "max-age=43200"}
    assert body["csrf_token"] not in answer.headers["set-cookie"]
    assert answer.headers["cache-control"] == "no-store"


async def test_a_session_ends_after_twelve_hours(house: House) -> None:
    headers, _ = await house.log_in(await house.token())
    house.time.seconds += 12 * 3600 - 1
    assert (await house.ask("GET", PATH, headers=headers)).status_code == 200
    house.time.seconds += 1

    assert (await house.ask("GET", PATH, headers=headers)).status_code == 401


async def test_a_session_ends_with_its_token(house: House) -> None:
    headers, answer = await house.log_in(await house.token(expires_in=timedelta(hours=1)))
    assert datetime.fromisoformat(answer.json()["expires_at"]) == house.time.now() + timedelta(hours=1)
    house.time.seconds += 3600

    assert (await house.ask("GET", PATH, headers=headers)).status_code == 401


async def test_every_role_may_ask_for_its_own_identity(house: House) -> None:
    local = (await house.ask("GET", PATH)).json()
    assert (local["kind"], local["name"], local["role"], local["expires_at"]) == ("open", "local", "admin", None)
    token = await house.token(Role.VIEWER)
    bearer = (await house.ask("GET", PATH, token=token)).json()
    assert (bearer["kind"], bearer["name"], bearer["role"], bearer["csrf_token"]) == (
        "token",
        "the viewer",
        "viewer",
        None,
    )
    headers, login = await house.log_in(token)
    assert (await house.ask("GET", PATH, headers=headers)).json() == login.json()


async def test_logging_out_deletes_the_cookie(house: House) -> None:
    headers, _ = await house.log_in(await house.token())
    answer = await house.ask("DELETE", PATH, headers=headers)

    assert answer.status_code == 204
    assert answer.headers["set-cookie"].startswith('__Host-hourbell=""')
    assert {"Max-Age=0", "Secure", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))


async def test_a_copied_cookie_no_longer_works_after_the_session_was_deleted(house: House) -> None:
    token = await house.token()
    headers, _ = await house.log_in(token)
    others, _ = await house.log_in(token)  # of the same token, in the same second
    assert (await house.ask("GET", PATH, headers=headers)).status_code == 200
    assert (await house.ask("DELETE", PATH, headers=headers)).status_code == 204

    assert (await house.ask("GET", PATH, headers=headers)).status_code == 401
    assert (await house.ask("PUT", "/api/v1/things", headers=headers)).status_code == 401
    assert (await house.ask("GET", PATH, headers=others)).status_code == 200
    assert (await house.ask("GET", PATH, token=token)).status_code == 200


async def test_a_session_is_deleted_from_its_own_page_only(house: House) -> None:
    headers, _ = await house.log_in(await house.token())

    assert (await house.ask("DELETE", PATH, headers={"Cookie": headers["Cookie"]})).json()["code"] == "cross_site"
    assert (await house.ask("GET", PATH, headers=headers)).status_code == 200


async def test_a_login_that_is_too_large_is_not_read(house: House) -> None:
    answer = await house.ask("POST", PATH, json={"token": "x" * 5_000}, headers=SAME)

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_the_log_distinguishes_refused_tokens_and_the_answer_does_not(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    gone, revoked = await house.access.create("gone", Role.ADMIN, "test")
    await house.access.revoke(gone.id, "test")
    old, expired = await house.access.create("old", Role.ADMIN, "test", expires_in=timedelta(seconds=1))
    kept, good = await house.access.create("kept", Role.ADMIN, "test")
    left, _ = await house.log_in(good.reveal())
    await house.ask("DELETE", PATH, headers=left)
    house.time.seconds += 1
    with caplog.at_level(logging.WARNING, "hourbell.api"):
        answers = [
            await house.ask("GET", "/api/v1/things", **sent)
            for sent in (
                {},
                {"token": "x"},
                {"token": token_text(b"x" * 32)},
                {"token": expired.reveal()},
                {"token": revoked.reveal()},
                {"headers": {"Cookie": left["Cookie"]}},
            )
        ]

    assert {(each.status_code, each.text) for each in answers} == {(401, answers[0].text)}
    assert [(line["message"], line["reason"], line["token_id"]) for line in map(vars, caplog.records)] == [
        ("authentication_failed", "missing", None),
        ("authentication_failed", "malformed", None),
        ("authentication_failed", "unknown", None),
        ("authentication_failed", "expired", old.id),
        ("authentication_failed", "revoked", gone.id),
        ("authentication_failed", "session_ended", kept.id),
    ]


async def test_repeated_refusals_do_not_fill_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    await house.token()
    with caplog.at_level(logging.WARNING, "hourbell.api"):
        for _ in range(100):
            await house.ask("GET", "/api/v1/things")
        house.time.seconds += 60
        await house.ask("GET", "/api/v1/things")

    assert [vars(record)["left_out"] for record in caplog.records] == [0, 99]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}]
)
async def test_another_site_cannot_log_a_user_in(house: House, headers: dict[str, str]) -> None:
    answer = await log_in(house, await house.token(), **headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")


@pytest.mark.parametrize("body", [{}, [], "hb_", {"token": 1}, {"token": None}, {"token": "x", "more": 1}])
async def test_a_login_without_a_token_explains_how_to_send_one(house: House, body: object) -> None:
    answer = await house.ask("POST", PATH, json=body, headers=SAME)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")


async def test_every_wrong_token_gets_the_same_answer(house: House) -> None:
    gone, text = await house.access.create("gone", Role.ADMIN, "test")
    await house.access.revoke(gone.id, "test")
    expired = await house.token(expires_in=timedelta(seconds=1))
    house.time.seconds += 1
    answers = [await log_in(house, each) for each in ("", "x", text.reveal(), expired, token_text(b"x" * 32))]

    assert {(each.status_code, each.text) for each in answers} == {(401, answers[0].text)}
    assert all("set-cookie" not in each.headers for each in answers)


async def test_few_of_a_thousand_wrong_logins_in_an_hour_are_checked(house: House) -> None:
    good = await house.token()
    answers = []
    for number in range(1_000):
        answers.append(await log_in(house, token_text(number.to_bytes(32, "big"))))
        house.time.seconds += 3.6
    unauthorized = [each for each in answers if each.status_code == 401]
    waits = [int(each.headers["retry-after"]) for each in answers if each.status_code == 429]

    assert [each.status_code for each in answers[:11]] == [401] * 10 + [429]
    assert len(unauthorized) + len(waits) == 1_000
    assert len(unauthorized) <= 70  # ten, and ten after each wait of 1, 2, 4, 8, 16, 32 minutes
    assert max(waits) > 900
    assert (await log_in(house, good)).status_code == 429  # the place is slowed down, whatever it brings


async def test_wrong_logins_delay_no_other_address_and_no_token(house: House) -> None:
    good = await house.token()
    for _ in range(12):
        await log_in(house, "wrong")

    assert (await house.ask("GET", PATH, token=good)).status_code == 200
    house.client_ip = "127.0.0.2"
    assert (await log_in(house, good)).status_code == 200


async def test_right_logins_are_not_counted(house: House) -> None:
    good = await house.token()

    assert {(await log_in(house, good)).status_code for _ in range(30)} == {200}


async def test_a_cookie_signed_with_another_key_is_refused(house: House) -> None:
    token, _ = await house.access.create("ci", Role.ADMIN, "test")
    value, session = SessionCookies(b"o" * 32, now=house.time.now).issue(token.id)

    assert session.token_id == token.id
    assert house.authenticator.cookies.read(value) is None
    with pytest.raises(ValueError, match="at least 32 bytes"):
        SessionCookies(b"short", now=house.time.now)


async def test_a_cookie_with_any_character_changed_is_refused(house: House) -> None:
    token, _ = await house.access.create("ci", Role.ADMIN, "test")
    value, _ = house.authenticator.cookies.issue(token.id)

    assert house.authenticator.cookies.read(value) is not None
    for index, character in enumerate(value):
        other = "1" if character != "1" else "2"
        assert house.authenticator.cookies.read(value[:index] + other + value[index + 1 :]) is None


async def test_the_text_of_a_token_appears_in_no_table_log_answer_or_repr(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    token = await house.token()
    seen = []
    with caplog.at_level(logging.DEBUG):
        headers, login = await house.log_in(token)
        seen += [login.text, str(login.headers)]
        for answer in (
            await house.ask("GET", PATH, token=token),
            await house.ask("GET", PATH, headers=headers),
            await house.ask("GET", f"{PATH}?token={token}", token=token),
            await log_in(house, token + "x"),
            await house.ask("POST", PATH, json={"token": [token]}, headers=SAME),
            await house.ask(
                "POST", PATH, content=f'{{"token": "{token}"', headers={"Content-Type": "application/json"}
            ),
            await house.ask("POST", PATH, content=token, headers=JSON),
            await house.ask("PUT", "/api/v1/things", token=f"{token} {token}"),
        ):
            seen += [answer.text, str(answer.headers)]
    seen.append(house.dump())
    seen += [repr(vars(record)) for record in caplog.records if record.name.startswith("hourbell")]
    seen.append(repr((house.authenticator, house.access, vars(house.access))))

    assert any("request" in each for each in seen)
    assert [each for each in seen if token[3:-6] in each] == []
