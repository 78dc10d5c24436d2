"""Secrets that a receiver sends back are masked in every common form, and nothing else is."""

import base64
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hourbell.core.run.settle import Failed
from hourbell.targets.http.masking import MASK, mask_secrets
from hourbell.targets.http.outcome import excerpt_of, outcome_of
from tests.targets.http.steps import answer

TOKEN = "s3cr3t-Tok/en+42"
BASIC = "Basic " + base64.b64encode(b"deploy:pass-Word/42").decode()
MAX = 4_096


def urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def standard(data: bytes) -> str:
    return base64.b64encode(data).decode()


def escaped_as_json(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "swapped": str.swapcase,
    "hex": lambda text: text.encode().hex(),
    "upper_hex": lambda text: text.encode().hex().upper(),
    "base64": lambda text: standard(text.encode()),
    "urlsafe": lambda text: urlsafe(text.encode()),
    "base64_second": lambda text: standard(b"a" + text.encode() + b"z"),
    "base64_third": lambda text: standard(b"ab" + text.encode() + b"yz"),
    "urlsafe_second": lambda text: urlsafe(b"\xff" + text.encode() + b"\xfe"),
    "urlsafe_third": lambda text: urlsafe(b"\xff\xfe" + text.encode() + b"\xfb"),
    "percent": lambda text: quote(text, safe=""),
    "percent_plus": quote_plus,
    "percent_lower": lambda text: quote(text, safe="").lower(),
    "percent_everything": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent_of_base64": lambda text: quote(standard(text.encode()), safe=""),
    "json": escaped_as_json,
    "json_slashes": lambda text: text.replace("/", "\\/"),
}

secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="()"), min_size=8, max_size=60)
near_text = st.text(st.sampled_from("( )\n"), min_size=1, max_size=40)


def left_of(before: str, masked: str, after: str) -> list[str]:
    """Return what is left on either side of the mask, without padding and surroundings; a character may be gone."""
    left = re.fullmatch(rf"{re.escape(before[:-1])}\(?(.*?)\*\*\*(.*?)\)?{re.escape(after[1:])}", masked, re.DOTALL)
    assert left is not None, masked
    return [group.replace("%3D", "").rstrip("=") for group in left.groups()]


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_that_was_sent_back_is_masked_in_every_form(form: str) -> None:
    body = f'{{"echo": ({FORMS[form](TOKEN)})}}'
    excerpt = excerpt_of(answer(400, body.encode()), [f"Bearer {TOKEN}"])

    assert max(map(len, left_of('\n{"echo": (', excerpt, ")}"))) <= 4


@pytest.mark.parametrize("form", FORMS)
@given(secret=secrets, before=near_text, after=near_text)
def test_any_secret_is_masked_in_every_form(form: str, secret: str, before: str, after: str) -> None:
    assume("***" not in secret)
    masked = mask_secrets(f"{before}({FORMS[form](secret)}){after}", [secret], MAX)

    assert max(map(len, left_of(f"{before}(", masked, f"){after}"))) <= 4, "what was encoded together with it"


@pytest.mark.parametrize("offset", range(3))
@given(secret=secrets, before=st.binary(max_size=30), after=st.binary(max_size=30))
def test_base64_shows_no_bit_of_a_secret_at_any_alignment(
    offset: int, secret: str, before: bytes, after: bytes
) -> None:
    """The rest of a text is the same as without a secret in it."""
    before = before[: len(before) // 3 * 3] + bytes(offset)
    masked = mask_secrets(standard(before + secret.encode() + after), [secret], MAX)
    first, *_, last = masked.split(MASK)

    without = standard(before + bytes(len(secret)) + after)
    assert MASK in masked
    assert without.startswith(first)
    assert without.endswith(last)


@given(st.text("0123456789-_", min_size=4), st.text(st.sampled_from("ghijklmnop \n"), max_size=300))
def test_a_text_without_the_secret_stays_as_it_is(secret: str, text: str) -> None:
    assert mask_secrets(text, [secret], MAX) == text


@given(secrets, st.integers(0, 200))
def test_a_secret_across_the_cut_is_not_shown_in_part(secret: str, position: int) -> None:
    text = "ü" * position + secret + "ü" * 50
    masked = mask_secrets(text, [secret], position + len(secret) // 2)

    assert masked == "ü" * position + MASK


@given(st.lists(secrets, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=8))
def test_several_secrets_in_a_row_are_all_masked(several: list[str], order: list[int]) -> None:
    text = "".join(several[number % len(several)] for number in order)
    assert set(mask_secrets(text, several, MAX)) <= {"*"}


def test_a_secret_that_overlaps_itself_is_masked_to_its_end() -> None:
    assert mask_secrets("-ababababab-", ["abab"], MAX) == f"-{MASK}-"
    assert mask_secrets("-abaabaaba-", ["abaaba"], MAX) == f"-{MASK}-"


@pytest.mark.parametrize("part", ["deploy:pass-Word/42", "pass-Word/42", BASIC, BASIC[6:]])
@pytest.mark.parametrize("form", ["plain", "upper", "hex", "base64_second", "percent"])
def test_basic_credentials_are_masked_with_and_without_their_scheme(part: str, form: str) -> None:
    masked = mask_secrets(f"-({FORMS[form](part)})-", [BASIC], MAX)
    assert max(map(len, left_of("-(", masked, ")-"))) <= 4


def test_text_after_basic_that_is_not_base64_is_masked_as_it_is() -> None:
    assert mask_secrets("token: no-base64!", ["Basic no-base64!"], MAX) == f"token: {MASK}"


def test_a_secret_of_a_few_characters_is_masked_only_as_it_is() -> None:
    assert mask_secrets("abc ABC 616263 YWJj", ["abc"], MAX) == f"{MASK} {MASK} 616263 YWJj"


@pytest.mark.parametrize("status", [200, 302, 401, 410, 503])
def test_an_error_never_repeats_what_the_receiver_said(status: int) -> None:
    said = answer(status, TOKEN.encode(), Location=TOKEN, Retry_After=TOKEN, X_Echo=TOKEN)
    outcome = outcome_of(said, datetime(2026, 1, 1, tzinfo=UTC), hidden=[TOKEN])

    assert TOKEN not in repr(outcome)
    if isinstance(outcome, Failed):
        assert "s3cr3t" not in outcome.error


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("a" * 65_536, "a" * 4_000),
        ("a" * 65_536, "a" * 3_999 + "b"),
        ("%61" * 21_845, "a" * 4_000),
        ("ab" * 32_768, "ab" * 1_999 + "aa"),
    ],
)
def test_the_work_does_not_grow_with_what_is_cut_off(text: str, secret: str) -> None:
    """The same is searched, byte for byte, whether the answer is long or as long as what may be searched."""
    searched = text[: MAX + 12 * len(secret)]

    assert mask_secrets(text, [secret], MAX) == mask_secrets(searched, [secret], MAX)


@pytest.mark.parametrize("piece", ["a", "ab", "abc" * 500])
def test_secrets_that_repeat_themselves_cost_no_more_than_others(piece: str) -> None:
    repeating = [(piece * 8_192)[: 4_000 - number] for number in range(50)]
    others = [f"{number:04}" * 1_000 for number in range(50)]
    text = "%41\\u0041" + (piece * 100_000)[:65_536]

    def seconds(secrets: list[str]) -> float:
        began = time.process_time()
        mask_secrets(text, secrets, 4_096)
        return time.process_time() - began

    assert mask_secrets(text, repeating, 4_096) in ("***", "%41\\u0041***")
    assert min(seconds(repeating) for _ in range(3)) < 4 * min(seconds(others) for _ in range(3))
