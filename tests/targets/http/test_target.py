"""One request per attempt: its content, its signature, and the effect of its response on the run."""

import gc
import json
import os
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import standardwebhooks

from hourbell.core.access.signing import new_secret
from hourbell.core.run.settle import Answer, Failed, Outcome, Succeeded, Unstarted
from hourbell.core.values.url import parse_url
from hourbell.sealing import KeyRing, Plain, Sealed
from hourbell.targets.base import Call
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.http.transport import Refused, TransportError
from tests.targets.http.steps import RUN_ID, T0, URL, ScriptedTransport, a_call, a_definition, answer

pytestmark = pytest.mark.anyio
KEYS = KeyRing([b"k" * 32], os.urandom)
OLD, NEW = new_secret(b"o" * 32), new_secret(b"n" * 32)


def target_of(transport: ScriptedTransport, keys: KeyRing | None = KEYS) -> HttpTarget:
    return HttpTarget(transport, keys=keys, user_agent="Hourbell/1", slots=100, elapsed=lambda: 0.0)


async def deliver(transport: ScriptedTransport, call: Call | None = None, keys: KeyRing | None = KEYS) -> Outcome:
    return await target_of(transport, keys).deliver(call or a_call())


def sealed(text: str, field: str = "signing", origin: str | None = None) -> Sealed:
    return KEYS.seal(Plain(text), uuid4(), UUID(int=7), field, origin)


def a_header(text: str, url: str = URL, field: str = "header:X-Key") -> Sealed:
    return sealed(text, field, parse_url(url).origin)


async def no() -> bool:
    return False


async def test_a_request_says_which_run_it_is_on_every_attempt() -> None:
    transport = ScriptedTransport()
    await deliver(transport, a_call(attempt=3))

    request = transport.requests[0]
    assert (request.method, str(request.url), request.timeout) == ("POST", URL, 30)
    said = transport.headers
    assert said["webhook-id"] == said["idempotency-key"] == str(RUN_ID)
    assert (said["hourbell-attempt"], said["hourbell-scheduled-at"]) == ("3", "2026-03-02T09:00:00Z")
    assert (said["user-agent"], said["content-type"]) == ("Hourbell/1", "application/json")
    assert said["webhook-timestamp"] == str(int(T0.timestamp()))
    assert "webhook-signature" not in said


async def test_attempts_share_a_trace_and_have_spans_of_their_own() -> None:
    transport = ScriptedTransport()
    await deliver(transport, a_call(attempt=1))
    await deliver(transport, a_call(attempt=2))

    first, second = (dict(request.headers)["traceparent"].split("-") for request in transport.requests)
    assert first[:2] == second[:2] == ["00", RUN_ID.hex]
    assert first[2] != second[2]
    assert len(first[2]) == 16


async def test_the_time_that_is_signed_is_the_engines() -> None:
    transport = ScriptedTransport()
    await deliver(transport, a_call(now=T0 + timedelta(hours=3), secrets=(sealed(NEW),)))
    assert transport.headers["webhook-timestamp"] == str(int(T0.timestamp()) + 3 * 3_600)


async def test_a_secret_that_is_replaced_signs_from_the_next_request_on() -> None:
    transport = ScriptedTransport()
    target = target_of(transport)
    for secret in (sealed(OLD), sealed(NEW)):
        await target.deliver(a_call(now=datetime.now(UTC), secrets=(secret,)))

    standardwebhooks.Webhook(NEW).verify(transport.requests[-1].body, dict(transport.headers))


async def test_a_secret_that_was_opened_before_is_refused_once_it_is_changed() -> None:
    target, whole = target_of(ScriptedTransport()), sealed(NEW)
    assert isinstance(await target.deliver(a_call(secrets=(whole,))), Succeeded)

    changed = replace(whole, sealed=whole.sealed[:-1] + bytes([whole.sealed[-1] ^ 1]))
    outcome = await target.deliver(a_call(secrets=(changed,)))
    assert isinstance(outcome, Failed)
    assert "it was changed" in outcome.error


@pytest.mark.parametrize("receivers", [OLD, NEW])
async def test_during_a_rotation_the_reference_verifies_with_either_secret(receivers: str) -> None:
    transport = ScriptedTransport()
    call = a_call(now=datetime.now(UTC), secrets=(sealed(NEW), sealed(OLD)))
    await deliver(transport, call)

    standardwebhooks.Webhook(receivers).verify(transport.requests[0].body, dict(transport.headers))


async def test_a_sealed_header_is_sent_and_replaces_the_jobs_own() -> None:
    transport = ScriptedTransport()
    call = a_call(a_definition(headers={"x-key": "weak"}), secrets=(a_header("strong"),))
    await deliver(transport, call)

    assert [value for name, value in transport.requests[0].headers.items() if name.lower() == "x-key"] == ["strong"]


@pytest.mark.parametrize("bound_to", ["https://other.example/", "http://example.com/", "https://example.com:8443/"])
async def test_a_header_that_was_set_for_another_origin_is_not_sent(bound_to: str) -> None:
    transport = ScriptedTransport()
    outcome = await deliver(transport, a_call(secrets=(a_header("canary", bound_to),)))

    assert transport.requests == []
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.begun) == (False, False)
    assert "the header X-Key was set for " in outcome.error
    assert "canary" not in outcome.error


async def test_a_header_from_before_headers_were_bound_is_not_sent() -> None:
    transport = ScriptedTransport()
    outcome = await deliver(transport, a_call(secrets=(sealed("canary", "header:X-Key"),)))

    assert transport.requests == []
    assert isinstance(outcome, Failed)
    assert "before secrets were bound" in outcome.error


async def test_a_row_whose_origin_was_changed_in_the_database_does_not_open() -> None:
    transport = ScriptedTransport()
    moved = replace(a_header("canary", "https://other.example/"), origin=parse_url(URL).origin)
    outcome = await deliver(transport, a_call(secrets=(moved,)))

    assert transport.requests == []
    assert isinstance(outcome, Failed)
    assert "it was changed" in outcome.error


async def test_two_versions_of_a_job_send_each_the_header_of_their_origin() -> None:
    transport, other = ScriptedTransport(), "https://other.example/hook"
    target = target_of(transport)
    secrets = (a_header("new", other), replace(a_header("old"), valid_until=T0 + timedelta(days=1)))
    for definition in (a_definition(), a_definition(url=other), a_definition()):
        await target.deliver(a_call(definition, secrets=secrets, job_version=1 + (definition.target["url"] == other)))

    assert [request.headers["X-Key"] for request in transport.requests] == ["old", "new", "old"]


async def test_a_header_that_was_given_up_keeps_no_other_origin_from_its_requests() -> None:
    transport = ScriptedTransport()
    left = replace(a_header("old", "https://other.example/"), valid_until=T0 + timedelta(days=1))
    await deliver(transport, a_call(secrets=(left,)))

    assert "X-Key" not in transport.requests[0].headers


async def test_a_sealed_header_that_comes_back_is_not_kept() -> None:
    transport = ScriptedTransport(answer(400, b"you said canary"))
    outcome = await deliver(transport, a_call(secrets=(a_header("canary"),)))

    assert isinstance(outcome, Failed)
    assert "canary" not in repr(outcome)


@pytest.mark.parametrize("keys", [None, KeyRing([b"x" * 32], os.urandom)])
async def test_without_the_key_nothing_is_sent_and_it_is_tried_again(keys: KeyRing | None) -> None:
    transport = ScriptedTransport()
    outcome = await deliver(transport, a_call(secrets=(sealed(NEW),)), keys)

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.begun, transport.requests) == (True, False, [])
    assert "HOURBELL_SECRET_KEY" in outcome.error


async def test_an_attempt_that_may_not_begin_is_handed_back() -> None:
    transport = ScriptedTransport()
    assert await deliver(transport, a_call(begin=no)) == Unstarted()
    assert transport.requests == []


async def test_a_forbidden_address_is_final_where_the_url_itself_names_it() -> None:
    literal = a_call(a_definition(url="http://10.0.0.1/"))
    outcomes = [await deliver(ScriptedTransport(Refused("10.0.0.1 is private")), call) for call in (literal, a_call())]

    assert [(each.retryable, each.begun) for each in outcomes if isinstance(each, Failed)] == [
        (False, False),
        (True, False),
    ]


@pytest.mark.parametrize("begun", [True, False])
async def test_no_answer_is_worth_another_try(begun: bool) -> None:
    error = TransportError("no answer within 30 s", begun=begun, phases={"dns": 0.5})
    assert await deliver(ScriptedTransport(error)) == Failed(
        "no answer within 30 s", begun=begun, answer=Answer(phases={"dns": 0.5})
    )


async def test_a_body_that_cannot_be_made_is_final() -> None:
    transport = ScriptedTransport()
    outcome = await deliver(transport, a_call(a_definition({"a": 1}, body="{{payload.b}}")))

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.begun, transport.requests) == (False, False, [])


async def test_a_receiver_that_is_down_rests_and_one_that_answers_does_not() -> None:
    down = target_of(ScriptedTransport(TransportError("refused", begun=False)))
    busy = target_of(ScriptedTransport(answer(503)))
    call = a_call()
    for _ in range(10):
        await down.deliver(call)
        await busy.deliver(call)

    assert (down.slots(call.run.lane), busy.slots(call.run.lane)) == (0, 100)


async def test_a_success_stores_status_headers_and_body() -> None:
    outcome = await deliver(ScriptedTransport(answer(200, b"thanks", Server="x")))
    assert outcome == Succeeded(answer=Answer(200, "Server: x\n\nthanks", {"wait": 0.1}))


@pytest.mark.parametrize("large", [{"body": "x" * 100_000}, {"headers": {f"X-{n}": "x" * 8_000 for n in range(12)}}])
async def test_versions_with_large_requests_are_not_kept_in_memory(large: dict[str, object]) -> None:
    transport = ScriptedTransport()
    target = target_of(transport)
    tracemalloc.start()
    try:
        for version in range(50):
            text = json.loads(json.dumps(large))  # a copy, as each version from the database is
            assert isinstance(await target.deliver(a_call(a_definition(**text), job_version=version)), Succeeded)
            transport.requests.clear()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10 * 100_000


async def test_large_secret_headers_are_not_kept_in_memory() -> None:
    transport = ScriptedTransport()
    target = target_of(transport)
    secrets = tuple(a_header("x" * 8_000, field=f"header:X-{n}") for n in range(12))
    for job in range(50):
        bound = tuple(KEYS.seal(KEYS.open(each), each.id, UUID(int=job), each.field, each.origin) for each in secrets)
        assert isinstance(await target.deliver(a_call(job_id=UUID(int=job), secrets=bound)), Succeeded)

    assert len(target._opened) == 0
