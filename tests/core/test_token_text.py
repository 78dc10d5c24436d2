"""The format of tokens; a typo is found without a database."""

import os
import re

import pytest

from hourbell.core.access.token_text import digest_of, is_token_text, token_text

TOKEN = token_text(bytes(range(32)))


@pytest.mark.parametrize("random", [bytes(32), b"\xff" * 32, bytes(range(32))])
def test_a_token_has_a_prefix_that_scanners_find_and_always_one_length(random: bytes) -> None:
    text = token_text(random)

    assert re.fullmatch(r"hb_[0-9A-Za-z]{49}", text)
    assert is_token_text(text)


def test_tokens_of_other_bytes_are_other_tokens() -> None:
    assert len({token_text(os.urandom(32)) for _ in range(100)}) == 100
    assert len({digest_of(token_text(os.urandom(32))) for _ in range(100)}) == 100


def test_every_typo_of_one_character_is_found() -> None:
    for index in range(len(TOKEN)):
        other = "x" if TOKEN[index] != "x" else "y"

        assert not is_token_text(TOKEN[:index] + other + TOKEN[index + 1 :])


@pytest.mark.parametrize(
    "text", ["", "hb_", TOKEN[:-1], TOKEN + "0", TOKEN + "\n", f" {TOKEN}", TOKEN.upper(), "é" * 52]
)
def test_text_that_is_no_token_is_recognized(text: str) -> None:
    assert not is_token_text(text)


def test_a_token_takes_32_random_bytes() -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        token_text(b"short")
