"""JSON bodies: the media type and the limit of 1 MiB, past which nothing is read."""

from collections.abc import AsyncIterator

import pytest

from tests.api.house import House

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}
PATH = "/api/v1/echo"


@pytest.mark.parametrize(
    "media_type",
    ["application/json", "Application/JSON", "application/json; charset=UTF-8", "application/merge-patch+json"],
)
async def test_json_is_recognized_by_its_media_type(house: House, media_type: str) -> None:
    answer = await house.ask("POST", PATH, content=b'{"a": [1]}', headers={"Content-Type": media_type})

    assert answer.json() == {"body": {"a": [1]}}


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonp",
        "application/json, text/plain",
        "application/json; charset=latin-1",
        "",
    ],
)
async def test_other_media_types_are_refused(house: House, media_type: str) -> None:
    answer = await house.ask("POST", PATH, content=b"{}", headers={"Content-Type": media_type})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_without_a_media_type_is_refused_but_an_optional_body_may_be_absent(house: House) -> None:
    assert (await house.ask("POST", PATH, content=b"{}")).status_code == 415
    assert (await house.ask("POST", PATH)).json() == {"body": {}}
    assert (await house.ask("POST", "/api/v1/things")).status_code == 415


async def test_an_optional_empty_body_may_have_a_json_media_type(house: House) -> None:
    assert (await house.ask("POST", PATH, content=b"", headers=JSON)).json() == {"body": {}}
    assert (await house.ask("POST", PATH, content=b"", headers={"Content-Type": "text/plain"})).status_code == 415
    assert (await house.ask("POST", "/api/v1/things", content=b"", headers=JSON)).status_code == 400


@pytest.mark.parametrize("body", [b" ", b"{", b"NaN", b'{"a": 1, "a": 2}', b"[" * 40 + b"]" * 40, b"\xff"])
async def test_a_body_that_is_not_strict_json_is_answered_400(house: House, body: bytes) -> None:
    answer = await house.ask("POST", PATH, content=body, headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


async def test_a_body_of_one_mebibyte_is_accepted_and_one_byte_more_is_not(house: House) -> None:
    fits = b'"' + b"x" * (1024 * 1024 - 2) + b'"'

    assert (await house.ask("POST", PATH, content=fits, headers=JSON)).status_code == 200
    answer = await house.ask("POST", PATH, content=fits + b" ", headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("headers", [JSON, {**JSON, "Idempotency-Key": "k"}])
async def test_an_endless_body_is_read_to_little_more_than_the_limit(house: House, headers: dict[str, str]) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 65_536
            yield b" " * 65_536

    answer = await house.ask("POST", PATH, content=endless(), headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert read <= 1024 * 1024 + 65_536


@pytest.mark.parametrize(("length", "closes"), [("1048577", False), ("8388609", True), ("9" * 18, True)])
async def test_a_body_with_a_too_large_content_length_is_not_read(house: House, length: str, closes: bool) -> None:
    async def untouched() -> AsyncIterator[bytes]:
        raise AssertionError("read")
        yield b""

    answer = await house.ask("POST", PATH, content=untouched(), headers={**JSON, "Content-Length": length})
    assert (answer.status_code, "connection" in answer.headers) == (413, closes)
