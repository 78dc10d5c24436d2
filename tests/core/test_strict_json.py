"""JSON from strangers: accepted values, refusals and their messages."""

import contextlib
import json
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.values.strict_json import MAX_VALUES, NotJson, json_problem, parse_json
from tests.core.schedule.strategies import examples

MEBIBYTE = 1_048_576
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


def refusal(data: bytes) -> str:
    with pytest.raises(NotJson) as caught:
        parse_json(data)
    return str(caught.value)


@examples(300)
@given(values, st.booleans())
def test_valid_json_is_read_unchanged(value: object, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value
    assert json_problem(value) is None


@examples(300)
@given(st.one_of(st.binary(max_size=30), st.text('[]{}",:\\u0dD8e1. ', max_size=30).map(str.encode)))
def test_any_bytes_are_read_as_a_storable_value_or_refused(data: bytes) -> None:
    try:
        value = parse_json(data)
    except NotJson:
        return
    assert json.loads(data) == value
    assert json_problem(value) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the text is empty; write a JSON value"),
        (b" \n\t", "the text is empty; write a JSON value"),
        (b"\xef\xbb\xbf{}", "the text begins with a byte order mark; leave it out"),
        (b'{"a": "\xff"}', "the text is not UTF-8: byte 7 cannot be read"),
        (b'"\xed\xa0\x80"', "the text is not UTF-8: byte 1 cannot be read"),
        (b'{"a": 1, "b": 2, "a": 1}', "an object holds the key 'a' twice; write it once"),
        (b'[{"x": {"a": 1, "\\u0061": 1}}]', "an object holds the key 'a' twice; write it once"),
        (b"[NaN]", "NaN is not a number in JSON; write null, or a text"),
        (b"-Infinity", "-Infinity is not a number in JSON; write null, or a text"),
        (b"1e309", "the number 1e309 is too large; write it as a text"),
        (b"-1e999", "the number -1e999 is too large; write it as a text"),
        (b"[01]", "this is not JSON: expecting ',' delimiter, at line 1, column 3"),
        (b'{"a": 1,\n "b" 2}', "this is not JSON: expecting ':' delimiter, at line 2, column 6"),
        (b"{} {}", "this is not JSON: extra data, at line 1, column 4"),
        (b"\n\nnope", "this is not JSON: expecting value, at line 3, column 1"),
        (b'"a\x00b"', "this is not JSON: invalid control character, at line 1, column 3"),
        (b'"open', "this is not JSON: unterminated string, at line 1, column 1"),
        (b'"\\u0000"', r"a text holds the character NUL (\u0000), which cannot be stored; leave it out"),
        (b'{"a\\u0000": 1}', r"a text holds the character NUL (\u0000), which cannot be stored; leave it out"),
        (b'["\\ud800"]', r"a text holds half of a surrogate pair (\ud800); write both halves, or neither"),
        (b'{"\\uDFFFx": 1}', r"a text holds half of a surrogate pair (\udfff); write both halves, or neither"),
    ],
)
def test_invalid_json_is_refused_in_one_sentence(data: bytes, message: str) -> None:
    assert refusal(data) == message


def test_escapes_that_only_look_suspicious_are_accepted() -> None:
    assert parse_json(b'["\\ud83d\\ude00", "\\\\u0000", "\\\\ud800"]') == ["\N{GRINNING FACE}", "\\u0000", "\\ud800"]


@pytest.mark.parametrize("number", ["9" * 310, "0." + "1" * 308, "1" * 100_000], ids=len)
def test_a_number_that_is_too_long_is_refused(number: str) -> None:
    assert refusal(number.encode()).endswith("has more than 309 characters; write it as a text")


def test_the_longest_numbers_are_exact() -> None:
    assert parse_json(b"9" * 309) == 10**309 - 1


@pytest.mark.parametrize("brackets", [b"[]", b"{}"])
def test_the_deepest_allowed_json_is_accepted_and_one_level_more_is_not(brackets: bytes) -> None:
    opening = b"[" if brackets == b"[]" else b'{"a":'
    closing = brackets[1:]

    assert parse_json(opening * 31 + brackets + closing * 31)
    assert refusal(opening * 32 + brackets + closing * 32).startswith("the JSON is nested more than 32 deep, at line 1")


@pytest.mark.parametrize("depth", [10_000, MEBIBYTE])
def test_any_depth_is_refused_whether_or_not_it_is_closed(depth: int) -> None:
    assert refusal(b"[" * depth) == "the JSON is nested more than 32 deep, at line 1, column 33"
    assert refusal(b'{"a":' * (depth // 5) + b"}").startswith("the JSON is nested more than 32 deep")


def test_brackets_inside_texts_are_not_depth() -> None:
    data = json.dumps(["[" * 100, '"\\[{' * 100, {"{" * 50: "\\"}]).encode()

    assert parse_json(data) == json.loads(data)


def test_many_flat_brackets_are_not_depth() -> None:
    assert parse_json(b"[" + b"[]," * 1_000 + b"[]]") == [[]] * 1_001


@pytest.mark.parametrize(
    "piece", [b'"' + b"\\\\" * 500_000 + b'"', b'["' + b"\\[" * 500_000, b"[" + b"[]," * 340_000 + b"0]"], ids=len
)
def test_a_mebibyte_needs_a_bounded_amount_of_memory(piece: bytes) -> None:
    tracemalloc.start()
    with contextlib.suppress(NotJson):
        parse_json(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 64 * MEBIBYTE


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [datetime(2026, 1, 1, tzinfo=UTC)]}, "a value of type datetime is not JSON; write a text"),
        ([float("nan")], "nan is not a number in JSON"),
        ({1: 2}, "the keys of a JSON object are texts"),
        ({"a": {"b\0": 1}}, r"a text holds the character NUL (\u0000), which cannot be stored; leave it out"),
    ],
)
def test_a_python_value_that_is_not_json_is_refused_with_the_reason(value: object, problem: str) -> None:
    assert json_problem(value) == problem


def test_a_python_value_may_be_as_deep_as_a_text() -> None:
    deep: object = 1
    for _ in range(32):
        deep = [deep]

    assert json_problem(deep) is None
    assert json_problem([deep]) == "the JSON is nested more than 32 deep"


@pytest.mark.parametrize("form", [b"[%s]", b'{"a": [%s]}', b'[{"b": {}}, [%s], "[,,,"]'])
def test_a_value_that_holds_too_many_others_is_refused(form: bytes) -> None:
    fits, too_many = form % b",".join([b"1"] * (MAX_VALUES - 8)), form % b",".join([b"1"] * (MAX_VALUES + 1))

    assert json_problem(parse_json(fits, max_values=MAX_VALUES)) is None
    with pytest.raises(NotJson, match=f"more than {MAX_VALUES:,} values"):
        parse_json(too_many, max_values=MAX_VALUES)
    assert f"more than {MAX_VALUES:,} values" in (json_problem(json.loads(too_many)) or "")


def test_values_inside_texts_are_not_counted() -> None:
    text = json.dumps(["[,{" * MAX_VALUES, '\\",\\"' * MAX_VALUES])

    assert parse_json(text.encode(), max_values=10) == json.loads(text)


def test_too_many_values_are_found_before_they_are_made() -> None:
    text = b"[" + b",".join([b"1.5"] * 1_000_000) + b"]"
    tracemalloc.start()
    try:
        with pytest.raises(NotJson):
            parse_json(text, max_values=MAX_VALUES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 3 * len(text)
