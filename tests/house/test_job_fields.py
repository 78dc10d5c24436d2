"""Every way in and out knows every field of the table; what is typed by hand cannot leave one out."""

from dataclasses import fields
from pathlib import Path

import pytest

from hourbell.answers.jobs import Job
from hourbell.api.shapes import JobAnswer
from hourbell.cli.job.definition import definition_options
from hourbell.core.job.definition import Definition
from hourbell.core.job.fields import BODY_FIELDS, FIELDS, JOB_FIELDS, JobField, _checked
from hourbell.library.declaring import JobOptions

DOCS = Path(__file__).parents[2] / "docs"
OF_THE_TARGET = {"args", "timeout"}


def test_the_table_has_the_fields_of_a_definition() -> None:
    assert {field.name for field in JOB_FIELDS} == {field.name for field in fields(Definition)}
    with pytest.raises(TypeError, match="'colour'"):
        list(_checked(*JOB_FIELDS, JobField("colour", JOB_FIELDS[0].kind)))


def test_answers_and_the_client_have_every_field() -> None:
    assert JobAnswer.model_fields.keys() >= set(FIELDS)
    assert {field.name for field in fields(Job)} >= set(FIELDS)


def test_a_program_has_an_option_for_every_field() -> None:
    assert JobOptions.__annotations__.keys() == {*FIELDS, *OF_THE_TARGET} - {"name", "schedule", "target"}


def test_the_command_line_has_a_flag_for_every_field() -> None:
    def command() -> None: ...

    flags = {option.name for option in definition_options(command).__click_params__}  # type: ignore[attr-defined]
    assert flags >= set(FIELDS) - {"name", "enabled"}


@pytest.mark.parametrize("page", ["api.md", "jobs-file.md"])
@pytest.mark.parametrize("name", FIELDS)
def test_a_page_for_users_names_every_field(name: str, page: str) -> None:
    assert f"`{name}`" in (DOCS / page).read_text()


def test_every_field_that_users_write_says_what_it_is() -> None:
    assert [field.name for field in BODY_FIELDS if not field.help] == []
