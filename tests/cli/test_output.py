"""Output of commands: tables for people, JSON for programs, and no control sequences from data."""

import json
from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from hourbell.cli.shared.output import Output, View, fitted, json_line, json_text, output_options, pairs, plain, table
from hourbell.cli.shared.remote import caret, exit_code
from hourbell.client.errors import ServerOutOfReach, error_of

EVIL = "a\x1b[31mb\x07\x7f\x9b\u202ec\nd"


@dataclass
class Thing:
    raw: Any


VIEW = View(("NAME", "ID"), lambda thing: (thing.raw["n"], thing.raw["i"]), lambda t: t.raw["i"], lambda t: t.raw["n"])
THINGS = [Thing({"n": "one", "i": 1}), Thing({"n": "two", "i": 2})]


@click.command()
@output_options
def show(output: Output) -> None:
    output.items(THINGS, VIEW, {"items": [thing.raw for thing in THINGS]})


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "NAME  ID\none   1\ntwo   2\n"),
        (["-q"], "1\n2\n"),
        (["-o", "name"], "one\ntwo\n"),
        (["-o", "ndjson"], '{"n": "one", "i": 1}\n{"n": "two", "i": 2}\n'),
    ],
)
def test_items_are_printed_in_the_requested_format(arguments: list[str], printed: str) -> None:
    assert CliRunner().invoke(show, arguments).stdout == printed


def test_json_output_is_the_response_body() -> None:
    for arguments in (["--json"], ["-o", "json"], ["--json", "-o", "json"]):
        assert json.loads(CliRunner().invoke(show, arguments).stdout) == {
            "items": [{"n": "one", "i": 1}, {"n": "two", "i": 2}]
        }


def test_two_output_formats_at_once_are_refused() -> None:
    done = CliRunner().invoke(show, ["--json", "-o", "name"])
    assert (done.exit_code, done.stdout) == (2, "")


def test_control_characters_never_reach_the_terminal() -> None:
    assert plain(EVIL) == "a�[31mb����c d"
    for text in (plain(EVIL), *table(("X",), [(EVIL,)], None), *pairs(("x", EVIL)), json_line({"x": EVIL})):
        assert click.unstyle(text).isprintable(), ascii(text)
    assert all(line.isprintable() for line in json_text({"x": EVIL}).splitlines())


def test_json_output_escapes_control_characters() -> None:
    value = {"x": EVIL + "é世\u2028"}

    assert json.loads(json_text(value)) == json.loads(json_line(value)) == value
    assert "é世" in json_line(value)


def test_wide_characters_keep_columns_aligned() -> None:
    first, second, third = table(("A", "B"), [("世界", "x"), ("ab", "y")], None)
    assert [click.unstyle(line) for line in (first, second, third)] == ["A     B", "世界  x", "ab    y"]


def test_the_last_column_is_cut_at_the_terminal_width() -> None:
    lines = [click.unstyle(line) for line in table(("A", "B"), [("a", "x" * 200)], 40)]
    assert (len(lines[1]), lines[1][-1]) == (40, "…")
    assert fitted("世界", 3) == "世…"


def test_an_empty_cell_is_visible_and_an_empty_table_has_no_header() -> None:
    assert click.unstyle(table(("A", "B"), [("", None)], None)[1]) == "-  -"
    assert table(("A", "B"), [], None) == []


@pytest.mark.parametrize(
    ("expression", "column", "lines"),
    [
        ("0 2x * * *", 3, ("0 2x * * *", "  ^")),
        ("0", 99, ("0", " ^")),
        ("x" * 300, 200, ("x" * 100, " " * 50 + "^")),
        ("x" * 300, 300, ("x" * 100, " " * 99 + "^")),
        ("a\tb", 3, ("a b", "  ^")),
    ],
)
def test_a_caret_points_at_the_column(expression: str, column: int, lines: tuple[str, str]) -> None:
    assert caret(expression, column) == lines


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((400, 413, 415, 422), 2), ((401, 403), 4), ((404,), 3), ((409, 412), 5), ((429, 500, 503, 302), 1)],
)
def test_every_api_error_has_an_exit_code(statuses: tuple[int, ...], code: int) -> None:
    problems = {status: json.dumps({"code": "some_code", "status": status}).encode() for status in statuses}

    assert {exit_code(error_of(status, {}, problem)) for status, problem in problems.items()} == {code}


def test_an_answer_of_another_server_is_a_failure_whatever_its_status() -> None:
    assert {exit_code(error_of(status, {}, b"<p>Not here</p>")) for status in (400, 404, 405, 409, 422, 501)} == {1}


def test_an_unreachable_server_is_a_failure() -> None:
    assert exit_code(ServerOutOfReach("gone")) == 1
