"""Statements in the form of each driver, and refusals before the database sees them."""

import re
import subprocess
import sys
from typing import Any

import pytest

from hourbell.sql import BodyError, insert_job, trigger_job

BODY = {"name": "job", "schedule": "@daily", "target": {"type": "task", "name": "a"}}
HTTP = {"type": "http", "url": "https://example.com/hook"}


def test_a_statement_unpacks_as_text_and_parameters() -> None:
    statement = trigger_job("job")
    text, parameters = statement

    assert (statement.text, statement.parameters) == (text, parameters)


def test_parameters_have_the_shape_of_the_style() -> None:
    values = {"name": "job", "payload": '{"a": 1}'}
    shapes = {
        style: trigger_job("job", payload={"a": 1}, paramstyle=style)  # type: ignore[arg-type]
        for style in ("pyformat", "named", "format", "qmark", "numeric_dollar")
    }

    assert shapes["pyformat"].parameters == shapes["named"].parameters == values
    assert shapes["format"].parameters == shapes["qmark"].parameters == ("job", "job", '{"a": 1}')
    assert shapes["numeric_dollar"].parameters == ("job", '{"a": 1}')
    assert re.findall(r"\$\d", shapes["numeric_dollar"].text) == ["$1", "$1", "$2"]
    assert shapes["qmark"].text.count("?") == shapes["format"].text.count("%s") == 3


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
@pytest.mark.parametrize("key", [None, "k"])
def test_nothing_else_in_a_text_looks_like_a_placeholder(dialect: Any, key: str | None) -> None:
    for statement in (
        trigger_job("job", key=key, dialect=dialect, paramstyle="named"),
        *(
            insert_job(BODY, dialect=dialect, paramstyle="named", if_exists=way)
            for way in ("error", "ignore", "replace")
        ),
    ):
        assert re.search(r"[%?\\]|::|\$\d", statement.text) is None
        assert set(re.findall(r":(\w+)", statement.text)) == set(statement.parameters)


def test_the_text_is_the_same_whatever_the_values_are() -> None:
    other = BODY | {"name": "other", "schedule": "at 2027-01-01T00:00:00Z", "payload": {"a": 1}, "tags": ["x"]}

    assert insert_job(BODY).text == insert_job(other).text
    assert trigger_job("job", key="a").text == trigger_job("other", key="b" * 200, payload=1).text


def test_all_errors_of_a_job_are_reported_at_once() -> None:
    with pytest.raises(BodyError) as caught:
        insert_job({"name": "a b", "schedule": "61 * * * *", "target": {}, "colour": "red"})

    assert {error.pointer for error in caught.value.errors} == {"/name", "/schedule", "/target/type", "/colour"}


def test_arguments_belong_inside_the_target() -> None:
    with pytest.raises(BodyError, match="/args: 'args' is not a field here; write them as args inside the target"):
        insert_job(BODY | {"args": {"order": 7}})


def test_a_secret_is_not_written_by_sql() -> None:
    with pytest.raises(BodyError, match="hourbell secret create"):
        insert_job(BODY | {"target": HTTP | {"secret": "generate"}})


@pytest.mark.parametrize("options", [{"dialect": "mysql"}, {"paramstyle": "numeric"}, {"if_exists": "update"}])
def test_an_unknown_choice_names_those_there_are(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"write one of \w+, \w+"):
        insert_job(BODY, **options)


@pytest.mark.parametrize(
    "options", [{"key": ""}, {"key": "k" * 256}, {"key": "\0"}, {"payload": {1: 2}}, {"payload": {3}}]
)
def test_a_trigger_that_no_database_could_keep_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w+"):
        trigger_job("job", **options)


def test_it_loads_no_driver() -> None:
    code = "import sys, hourbell.sql; print({'asyncpg', 'apsw', 'psycopg', 'sqlalchemy', 'sqlite3'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
