"""Authentication, roles, and protection against requests from pages of other sites."""

from datetime import timedelta
from uuid import uuid4

import pytest
from starlette.requests import Request

from hourbell.api.cross_site import sign_of_proxy
from hourbell.core.access.roles import Role
from hourbell.core.access.token_text import token_text
from hourbell.core.values.networks import parse_networks
from hourbell.store.control.actor import Actor
from tests.api.house import SAME, House, open_house

pytestmark = pytest.mark.anyio
PATH = "/api/v1/things"
UNSAFE = ["POST", "PUT", "PATCH", "DELETE"]


async def code_of(house: House, method: str = "GET", **more: object) -> tuple[int, str | None]:
    answer = await house.ask(method, PATH, **more)  # type: ignore[arg-type]
    return answer.status_code, answer.json().get("code")


async def test_a_valid_token_authenticates_with_its_role_and_name(house: House) -> None:
    answer = await house.ask("GET", PATH, token=await house.token(Role.OPERATOR))

    assert answer.json() == {"actor": "token:the operator", "role": "operator", "ip": "127.0.0.1", "session": False}


async def test_every_request_without_a_valid_token_gets_the_same_answer(house: House) -> None:
    good, short = await house.token(), await house.token(expires_in=timedelta(seconds=1))
    gone, gone_text = await house.access.create("gone", Role.ADMIN, "test")
    await house.access.revoke(gone.id, "test")
    house.time.seconds += 1
    unknown = token_text(b"u" * 32)
    wrong = [short, gone_text.reveal(), unknown, good[:-1], "", "hb_", "a b"]
    headers: list[dict[str, str]] = [{}, {"Authorization": f"Basic {good}"}, {"Authorization": good}]
    headers += [{"Authorization": f"Bearer {each}"} for each in wrong]

    answers = [await house.ask("GET", PATH, headers=each) for each in headers]
    assert {(each.status_code, each.headers["www-authenticate"], each.text) for each in answers} == {
        (401, "Bearer", answers[0].text)
    }
    assert answers[0].json()["code"] == "not_authenticated"
    assert (await house.ask("GET", PATH, headers={"Authorization": f"bearer  {good}"})).status_code == 200


async def test_two_authorization_headers_are_refused(house: House) -> None:
    token = await house.token()
    headers = [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer other")]
    answer = await house.ask("GET", PATH, headers=headers)

    assert answer.status_code == 401


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_allows_its_operations_and_a_refusal_names_the_role_needed(house: House, role: Role) -> None:
    token = await house.token(role)

    assert await code_of(house, token=token) == (200, None)
    may = role is not Role.VIEWER
    answer = await house.ask("PUT", PATH, token=token)
    assert answer.status_code == (200 if may else 403)
    if not may:
        assert answer.json()["code"] == "not_allowed"
        assert "needs the role operator" in answer.json()["detail"]


async def test_without_any_token_callers_on_this_machine_are_admin(house: House) -> None:
    answer = await house.ask("GET", PATH)

    assert answer.json() == {"actor": "local", "role": "admin", "ip": "127.0.0.1", "session": False}


async def test_without_any_token_a_request_with_a_token_is_refused_with_the_reason(house: House) -> None:
    answer = await house.ask("GET", PATH, token="hb_of-another-server")

    assert answer.status_code == 401
    assert "This server has no tokens" in answer.json()["detail"]


async def test_without_any_token_a_server_beyond_loopback_refuses_everybody() -> None:
    async with open_house(is_local=False) as house:
        assert await code_of(house) == (401, "not_authenticated")


async def test_after_the_first_token_every_request_needs_one(house: House) -> None:
    await house.token()

    assert await code_of(house) == (401, "not_authenticated")


async def test_a_token_that_expired_does_not_open_the_server_to_everybody(house: House) -> None:
    await house.token(expires_in=timedelta(seconds=1))
    house.time.seconds += 60

    assert await code_of(house) == (401, "not_authenticated")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]", "[::1]:8080"])
async def test_an_open_server_answers_to_names_of_this_machine(house: House, host: str) -> None:
    assert await code_of(house, headers={"Host": host}) == (200, None)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "",
        "localhost:x",
        "evil@localhost",
    ],
)
async def test_an_open_server_refuses_other_host_names(house: House, host: str) -> None:
    for method in ("GET", "PUT"):
        assert await code_of(house, method, headers={"Host": host}) == (403, "foreign_host")


PROXIES = {
    "Forwarded": "for=127.0.0.1",
    "Via": "1.1 proxy",
    "X-Forwarded-For": "127.0.0.1",
    "X-Forwarded-Host": "localhost",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Forwarded-Server": "proxy",
    "X-Real-IP": "127.0.0.1",
    "X-Original-Forwarded-For": "127.0.0.1",
    "X-Envoy-External-Address": "127.0.0.1",
    "CF-Connecting-IP": "127.0.0.1",
    "True-Client-IP": "127.0.0.1",
    "X-Amzn-Trace-Id": "Root=1-67891233-abcdef012345678912345678",
}


@pytest.mark.parametrize("header", PROXIES)
async def test_an_open_server_refuses_requests_through_a_proxy_and_explains_why(house: House, header: str) -> None:
    house.trusted_proxies = parse_networks("127.0.0.0/8")  # whom to believe is another question
    for method in ("GET", "PUT"):
        answer = await house.ask(method, PATH, headers={header: PROXIES[header]})
        assert (answer.status_code, answer.json()["code"]) == (403, "behind_proxy")
        assert f"the header {header.lower()}" in answer.json()["detail"].lower()
        assert "hourbell token create admin --role admin" in answer.json()["detail"]

    assert await code_of(house, token=await house.token(), headers={header: PROXIES[header]}) == (200, None)


async def test_an_open_server_treats_http_1_0_as_a_proxy_because_nginx_uses_it_by_default() -> None:
    scope = {"type": "http", "method": "GET", "http_version": "1.0", "headers": [(b"host", b"127.0.0.1:8080")]}

    assert sign_of_proxy(Request(scope)) == "HTTP/1.0"
    assert sign_of_proxy(Request({**scope, "http_version": "1.1"})) is None
    assert sign_of_proxy(Request({**scope, "http_version": "2"})) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://localhost:3000",
        "http://localhost.evil.example",
        "file://",
        "http://[",
        "http://evil@localhost",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_an_open_server_refuses_pages_of_other_sites(house: House, method: str, origin: str) -> None:
    assert await code_of(house, method, headers={"Origin": origin}) == (403, "foreign_origin")


@pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:80", "https://localhost", "HTTP://LOCALHOST"])
async def test_an_open_server_answers_its_own_page(house: House, origin: str) -> None:
    assert await code_of(house, "PUT", headers={"Origin": origin}) == (200, None)


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
async def test_an_open_server_refuses_changes_that_the_browser_marks_as_cross_site(
    house: House, method: str, site: str
) -> None:
    assert await code_of(house, method, headers={"Sec-Fetch-Site": site}) == (403, "cross_site")
    assert await code_of(house, method, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}) == (
        403,
        "cross_site",
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
async def test_another_site_may_link_to_an_open_server_but_load_nothing_from_it(house: House, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}

    assert await code_of(house, headers={**headers, "Sec-Fetch-Mode": "navigate"}) == (200, None)
    for mode in ({}, {"Sec-Fetch-Mode": "no-cors"}, {"Sec-Fetch-Mode": "cors"}):
        assert await code_of(house, headers={**headers, **mode}) == (403, "cross_site")


SESSIONS = [
    ({}, True),
    ({"Origin": None}, True),  # an older browser: one header is enough
    ({"Sec-Fetch-Site": None}, True),
    ({"Origin": None, "Sec-Fetch-Site": None}, False),
    ({"X-CSRF-Token": None}, False),
    ({"X-CSRF-Token": ""}, False),
    ({"X-CSRF-Token": "0" * 64}, False),
    ({"X-CSRF-Token": "ü"}, False),
    ({"Origin": "http://evil.example"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": "http://localhost:3000"}, False),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": "same-site"}, False),
    ({"Sec-Fetch-Site": "none"}, False),
    ({"Sec-Fetch-Site": "cross-site", "Origin": None}, False),
]


@pytest.mark.parametrize(("changes", "may"), SESSIONS)
async def test_a_session_can_change_something_only_from_our_page(
    house: House, changes: dict[str, str | None], may: bool
) -> None:
    headers, _ = await house.log_in(await house.token())
    sent = {name: value for name, value in {**headers, **changes}.items() if value is not None}

    for method in ("PUT", "PATCH", "DELETE"):
        answer = await house.ask(method, PATH, headers=sent)
        assert (answer.status_code, answer.json().get("code")) == ((200, None) if may else (403, "cross_site"))
    assert (await house.ask("GET", PATH, headers=sent)).status_code == 200


async def test_a_token_needs_no_csrf_check_even_beside_a_cookie(house: House) -> None:
    token = await house.token()
    headers, _ = await house.log_in(token)

    assert await code_of(house, "PUT", token=token, headers={"Cookie": headers["Cookie"]}) == (200, None)
    assert (await house.ask("GET", PATH, token=token, headers={"Cookie": headers["Cookie"]})).json()["session"] is False
    assert await code_of(house, token="wrong", headers=headers) == (401, "not_authenticated")


async def test_the_csrf_token_of_another_session_is_refused(house: House) -> None:
    mine, _ = await house.log_in(await house.token())
    theirs, _ = await house.log_in(await house.token(Role.VIEWER))

    headers = {**mine, "X-CSRF-Token": theirs["X-CSRF-Token"]}
    assert await code_of(house, "PUT", headers=headers) == (403, "cross_site")


async def test_a_revoked_token_is_refused_within_five_seconds_with_its_sessions(house: House) -> None:
    token, text = await house.access.create("ci", Role.ADMIN, "test")
    await house.token()  # another one, so that the server stays closed
    headers, _ = await house.log_in(text.reveal())
    assert await code_of(house, token=text.reveal()) == (200, None)
    assert await code_of(house, headers=headers) == (200, None)
    await house.store.revoke_token(token.id, Actor("another process", house.time.now()))
    house.time.seconds += 5

    assert await code_of(house, token=text.reveal()) == (401, "not_authenticated")
    assert await code_of(house, headers=headers) == (401, "not_authenticated")


async def test_a_forged_cookie_is_refused(house: House) -> None:
    await house.token()
    for value in ("", "x", f"{uuid4().hex}.1700000000.{'0' * 64}", f"{uuid4().hex}.9.{'é' * 3}"):
        answer = await house.ask("GET", PATH, headers={**SAME, "Cookie": f"__Host-hourbell={value}"})
        assert answer.status_code == 401


async def test_a_caller_over_the_rate_limit_gets_retry_after() -> None:
    async with open_house(rate=2) as house:
        busy, calm = await house.token(Role.ADMIN), await house.token(Role.VIEWER)
        answers = [await house.ask("GET", PATH, token=busy) for _ in range(12)]

        assert [each.status_code for each in answers] == [200] * 10 + [429] * 2
        assert (answers[-1].headers["retry-after"], answers[-1].json()["code"]) == ("1", "too_many_requests")
        assert await code_of(house, token=calm) == (200, None)
        house.time.seconds += 1
        assert await code_of(house, token=busy) == (200, None)


async def test_callers_without_a_token_share_the_rate_limit_of_their_address() -> None:
    async with open_house(rate=1) as house:
        token = await house.token()
        answers = [await code_of(house, token=token_text(bytes([n] * 32))) for n in range(7)]

        assert [status for status, _ in answers] == [401] * 5 + [429] * 2
        assert await code_of(house, token=token) == (200, None)
