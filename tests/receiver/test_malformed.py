"""Any request is either verified or refused; requests that the reference library refuses are refused here."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from hourbell.receiver import InvalidWebhook, Verifier
from tests.receiver.signed import BODY, SECRET, T0, just_now, oracle_accepts, signed

VERIFIER = Verifier(SECRET)
GENUINE = signed()
SIGNATURE = GENUINE["webhook-signature"]
TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
ENTRIES = st.lists(
    st.sampled_from([SIGNATURE, SIGNATURE[3:], "v1", "v1,", ",", "", "v1a,AAAA", "v2," + SIGNATURE[3:], SIGNATURE * 2])
    | TEXT,
    max_size=6,
)


def accepts(headers: object, body: bytes, now: datetime) -> bool:
    try:
        VERIFIER.verify(headers, body, now)  # type: ignore[arg-type]
    except InvalidWebhook:
        return False
    return True


@given(ENTRIES, st.sampled_from([" ", ",", "  ", "\t", "\n"]))
@example([SIGNATURE[:-1] + "é"], " ")
@example(["v1,\udc80"], " ")
def test_a_signature_header_is_accepted_exactly_if_the_signature_is_one_of_its_entries(
    entries: list[str], between: str
) -> None:
    header = between.join(entries)

    assert accepts(GENUINE | {"webhook-signature": header}, BODY, T0) == (SIGNATURE in header.split(" "))


@given(st.dictionaries(st.sampled_from(sorted(GENUINE)) | TEXT, TEXT | st.none() | st.integers() | st.binary()))
def test_no_headers_at_all_make_verifying_fail_in_another_way(headers: dict[str, object]) -> None:
    assert not accepts(headers, BODY, T0)
    assert accepts({**headers, **GENUINE}, BODY, T0) == (
        len({*map(str.lower, headers)} | {*GENUINE}) == len(headers | GENUINE)
    )


@given(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "body"]), st.data())
def test_a_request_that_the_reference_library_refuses_is_refused(part: str, data: st.DataObject) -> None:
    body, headers = BODY, just_now()
    genuine = body.decode() if part == "body" else headers[part]
    index = data.draw(st.integers(0, len(genuine)))
    changed = genuine[:index] + data.draw(st.text(max_size=3)) + genuine[index + data.draw(st.integers(0, 3)) :]
    if part == "body":
        body = changed.encode()
    else:
        headers[part] = changed

    assert oracle_accepts(headers, body) or not accepts(headers, body, datetime.now(UTC))
