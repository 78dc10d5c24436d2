"""Placeholders are paths into what a run knows; nothing in a body is executed."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job.template import MAX_FILLED_CHARACTERS, TemplateError, fill_json, fill_text, template_problems

VALUES = {"payload": {"name": 'A "b"', "n": 3, "list": [1, {"x": None}], "ok": True}, "run": {"id": "r"}, "job": {}}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Hello {{payload.name}}!", 'Hello A "b"!'),
        ("{{ payload.n }}/{{payload.list.0}}", "3/1"),
        ("{{payload.list.1.x}}", "null"),
        ("{{payload.ok}} {{payload.list}}", 'true [1, {"x": null}]'),
        ("{{run.id}}", "r"),
        ("nothing { } {{", "nothing { } {{"),
        ("{payload.name}", "{payload.name}"),
    ],
)
def test_text_is_filled_with_values(text: str, filled: str) -> None:
    assert fill_text(text, VALUES) == filled


def test_a_quote_in_a_value_ends_nothing_in_a_json_text() -> None:
    assert json.loads(fill_text('{"name": "{{payload.name}}"}', VALUES, is_json=True)) == {"name": 'A "b"'}


def test_a_string_that_is_only_a_placeholder_becomes_the_value() -> None:
    body = {"n": "{{payload.n}}", "text": "n={{payload.n}}", "deep": ["{{payload.list.1}}"], "same": 5}
    assert fill_json(body, VALUES) == {"n": 3, "text": "n=3", "deep": [{"x": None}], "same": 5}


def test_a_value_is_not_filled_again() -> None:
    assert fill_text("{{payload.a}}", {"payload": {"a": "{{payload.b}}", "b": "secret"}}) == "{{payload.b}}"


@pytest.mark.parametrize("path", ["payload.nam", "payload.list.2", "payload.list.-1", "payload.n.x", "payload..n"])
def test_a_path_that_leads_nowhere_is_an_error(path: str) -> None:
    with pytest.raises(TemplateError, match="there is no"):
        fill_text(f"{{{{{path}}}}}", VALUES)


@pytest.mark.parametrize("path", ["__class__", "payload.__class__.__mro__", "payload.name.upper", "config", ""])
def test_nothing_of_python_can_be_reached(path: str) -> None:
    with pytest.raises(TemplateError):
        fill_text(f"{{{{{path}}}}}", VALUES)


def test_roots_that_do_not_exist_are_found_before_any_run() -> None:
    assert template_problems({"a": ["{{env.HOME}}", "{{payload.x}}"]}) == [
        "{{env.HOME}} begins with none of payload, run, job"
    ]
    assert template_problems(None) == []


@given(st.text())
def test_any_value_survives_a_json_text(value: str) -> None:
    filled = fill_text('["{{payload}}"]', {"payload": value}, is_json=True)
    assert json.loads(filled, strict=True) == [value]


def test_a_text_of_braces_and_spaces_is_read_in_one_go() -> None:
    hostile = "{{" + " " * 100_000
    assert (fill_text(hostile, VALUES), template_problems(hostile)) == (hostile, [])


@pytest.mark.parametrize("body", [["{{payload}}"] * 100, ["-{{payload}}"] * 100, "{{payload}}" * 100])
@pytest.mark.parametrize("payload", ["x" * 100_000, ["x"] * 30_000])
def test_a_large_value_that_is_named_often_is_not_written_out(body: object, payload: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError, match="more than 1048576 characters"):
            fill_json(body, {"payload": payload})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_FILLED_CHARACTERS


def test_a_value_as_large_as_a_body_may_be_is_filled() -> None:
    payload = ["x"] * (MAX_FILLED_CHARACTERS // 4 - 1)

    assert fill_json("{{payload}}", {"payload": payload}) == payload


def test_an_index_of_many_digits_leads_nowhere() -> None:
    with pytest.raises(TemplateError, match="there is no"):
        fill_text("{{payload.list." + "1" * 5_000 + "}}", VALUES)
