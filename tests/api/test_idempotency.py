"""A POST with a key acts once; a repetition gets the same response or an error with the reason."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from hourbell.core.access.roles import Role
from hourbell.store.control.access import AccessStore, IdempotencyRecord
from hourbell.store.errors import StoreUnavailable
from tests.api.house import House, open_house

pytestmark = pytest.mark.anyio
PATH = "/api/v1/things"


async def post(house: House, token: str, key: str | None = "k", path: str = PATH, **more: object) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"name": "thing", **more}
    return await house.ask("POST", path, token=token, headers=headers, json=body)


async def things(house: House) -> int:
    return sum(token.name in ("thing", "other", "told") for token in await house.access.list())


async def test_repeating_a_call_with_its_key_acts_once_and_returns_the_same_answer(house: House) -> None:
    token = await house.token()
    first, second, third = [await post(house, token) for _ in range(3)]

    assert (first.status_code, "idempotency-replayed" in first.headers) == (201, False)
    for again in (second, third):
        assert (again.status_code, again.content, again.headers["etag"]) == (201, first.content, '"1"')
        assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers["idempotency-replayed"] == "true"
    assert await things(house) == 1


async def test_without_a_key_every_call_acts(house: House) -> None:
    token = await house.token()
    answers = [await post(house, token, None) for _ in range(3)]

    assert len({answer.text for answer in answers}) == 3
    assert await things(house) == 3


async def test_the_audit_row_has_the_caller_and_the_request_id(house: House) -> None:
    await post(house, await house.token())

    row = (await house.database.rows("audit"))[-1]
    assert (row["actor"], row["ip"], row["request_id"]) == ("token:the admin", "127.0.0.1", "made-id")
    assert row["token_id"] is not None


async def test_a_key_with_another_body_or_query_is_refused(house: House) -> None:
    token = await house.token()
    await post(house, token)
    for answer in (await post(house, token, name="other"), await post(house, token, path=f"{PATH}?a=b")):
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert await things(house) == 1


async def test_a_key_is_separate_for_each_caller_and_path(house: House) -> None:
    one, two = await house.token(Role.ADMIN), await house.token(Role.EDITOR)
    answers = [await post(house, one), await post(house, two), await post(house, one, path="/api/v1/secret")]

    assert [answer.status_code for answer in answers] == [201] * 3
    assert all("idempotency-replayed" not in answer.headers for answer in answers)
    assert await things(house) == 3


async def test_a_session_and_its_token_are_the_same_caller(house: House) -> None:
    token = await house.token()
    headers, _ = await house.log_in(token)
    first = await post(house, token)
    again = await house.ask("POST", PATH, headers={**headers, "Idempotency-Key": "k"}, json={"name": "thing"})

    assert again.text == first.text


async def test_stored_answers_need_authentication_and_the_role(house: House) -> None:
    await post(house, await house.token())

    assert (await post(house, "")).status_code == 401
    assert (await post(house, await house.token(Role.VIEWER))).status_code == 403


@pytest.mark.parametrize("key", ["", "k" * 256, "ü", "a\tb"])
async def test_a_key_must_be_printable_ascii(house: House, key: str) -> None:
    answer = await post(house, await house.token(), key)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


@pytest.mark.parametrize("key", ["k" * 255, "a b", "~!", "018f3c1e-7a52-7cc1-8d5b-0c6b1d2f9a10"])
async def test_any_other_printable_ascii_key_is_accepted(house: House, key: str) -> None:
    assert (await post(house, await house.token(), key)).status_code == 201


async def test_the_answer_of_a_failed_call_is_not_stored_and_the_call_may_be_repeated(house: House) -> None:
    token = await house.token()
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    refused = await house.ask("POST", PATH, token=token, headers=headers, content=b"{")

    assert refused.status_code == 400
    assert (await post(house, token)).status_code == 201


async def test_an_answer_with_a_secret_is_returned_once_and_never_stored(house: House) -> None:
    token = await house.token()
    first, again = [await post(house, token, path="/api/v1/secret") for _ in range(2)]

    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    assert first.json()["secret"] not in house.dump()
    assert await things(house) == 1


async def test_a_long_answer_is_not_stored_but_the_call_acts_once(house: House) -> None:
    token = await house.token()
    first, again = [await post(house, token, size=70_000) for _ in range(2)]

    assert first.status_code == 201
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    assert await things(house) == 1


async def test_repeating_a_call_whose_answer_was_not_stored_says_that_it_acted() -> None:
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with open_house(pause=pause) as house:
        token = await house.token()
        await post(house, token)
        await house.database.sql("update hourbell.idempotency set answer = null")
        again = await post(house, token)

        assert (again.status_code, again.json()["code"]) == (409, "already_done")
        assert 1.9 <= sum(pauses) <= 2.2
        assert await things(house) == 1


async def test_one_of_several_concurrent_calls_with_one_key_acts_and_all_get_its_answer() -> None:
    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with open_house(pause=pause) as house:
        token = await house.token()
        answers = await asyncio.gather(*(post(house, token) for _ in range(10)))

        assert {(answer.status_code, answer.text) for answer in answers} == {(201, answers[0].text)}
        assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
        assert await things(house) == 1


class Overtaken(AccessStore):
    """A key is read just before another call is committed."""

    too_early = 0

    async def idempotency_record(self, key: str) -> IdempotencyRecord | None:
        self.too_early -= 1
        return None if self.too_early >= 0 else await super().idempotency_record(key)


async def test_a_call_that_loses_the_race_waits_for_the_answer_of_the_winner() -> None:
    async with open_house(store_class=Overtaken) as house:
        token = await house.token()
        first = await post(house, token)
        assert isinstance(house.store, Overtaken)
        house.store.too_early = 3
        again, other = await post(house, token), await post(house, token, name="other")

        assert (again.status_code, again.text) == (201, first.text)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
        assert await things(house) == 1


class Forgetful(AccessStore):
    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:  # noqa: ARG002
        raise StoreUnavailable


async def test_a_call_succeeds_even_if_its_answer_cannot_be_stored() -> None:
    async with open_house(store_class=Forgetful) as house:
        token = await house.token()

        assert (await post(house, token)).status_code == 201
        assert (await post(house, token)).json()["code"] == "already_done"
        assert await things(house) == 1


async def test_methods_other_than_post_ignore_the_key(house: House) -> None:
    token = await house.token()
    answers = [await house.ask("PUT", PATH, token=token, headers={"Idempotency-Key": ""}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
