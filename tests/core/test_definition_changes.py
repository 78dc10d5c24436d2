"""Differences between two definitions, as shown to users."""

from dataclasses import replace

from hypothesis import given

from hourbell.core.job.definition import Definition
from hourbell.core.job.differences import FieldChange, field_changes
from hourbell.core.job.same import same_json
from tests.core.schedule.strategies import examples
from tests.core.test_jobs_file import unusual_definitions
from tests.core.values import a_definition

HOOK = {"type": "http", "url": "https://example.com/a", "headers": {"A": "old", "B": "same"}}


def test_a_change_says_which_fields_and_how() -> None:
    after = a_definition("@daily", timezone="Asia/Kolkata", managed_by="file", source="billing")

    assert list(field_changes(a_definition(tags=("x",)), after)) == [
        FieldChange("schedule", "0 * * * *", "@daily"),
        FieldChange("timezone", "UTC", "Asia/Kolkata"),
        FieldChange("tags", ["x"], []),
        FieldChange("owner", "api", "file:billing"),
    ]


def test_no_value_of_a_header_is_shown() -> None:
    target = HOOK | {"url": "https://example.com/b", "headers": {"B": "same", "A": "secret-1", "C": "secret-2"}}

    assert list(field_changes(a_definition(target=HOOK), a_definition(target=target))) == [
        FieldChange("target.url", "https://example.com/a", "https://example.com/b"),
        FieldChange("target.headers.A", "(hidden)", "(hidden, another)"),
        FieldChange("target.headers.C", None, "(hidden)"),
    ]


def test_a_target_of_another_type_is_shown_whole_without_its_headers() -> None:
    assert list(field_changes(a_definition(target=HOOK), a_definition())) == [
        FieldChange("target", HOOK | {"headers": {"A": "(hidden)", "B": "(hidden)"}}, {"type": "task", "name": "a"}),
    ]


def test_true_and_1_are_different_values() -> None:
    assert not same_json({"a": [True]}, {"a": [1]})
    assert same_json({"a": [1.0]}, {"a": [1]})
    assert not same_json([1], [1, 2])


@examples(100)
@given(unusual_definitions, unusual_definitions)
def test_exactly_the_differing_fields_are_changes(one: Definition, other: Definition) -> None:
    other = replace(other, name=one.name)

    assert bool(list(field_changes(one, other))) == (one != other)
    assert not list(field_changes(one, one))
