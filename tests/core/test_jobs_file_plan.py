"""What applying a jobs file would change, and what it leaves alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.job import Definition
from hourbell.core.jobs_file import FileJob, JobsFile, read_jobs_file
from hourbell.core.jobs_file_export import export_jobs
from hourbell.core.jobs_file_plan import FieldChange, FilePlan, Owner, is_same_json, plan_changes
from tests.core.schedule.strategies import examples
from tests.core.test_jobs_file import odd_definitions
from tests.core.values import a_definition

OURS = Owner("file", "billing")
HOOK = {"type": "http", "url": "https://example.com/a", "headers": {"A": "old", "B": "same"}}


def a_file(*definitions: Definition, **references: str) -> JobsFile:
    written = {f"/target/headers/{name}": text for name, text in references.items()}
    jobs = [FileJob(each, references=written) for each in definitions]
    return JobsFile(tuple(jobs), OURS.source)


def plan(current: list[Definition], wanted: JobsFile, *, owner: Owner = OURS, prune: bool = False) -> FilePlan:
    return plan_changes({each.name: (each, owner) for each in current}, wanted, prune=prune)


def test_a_new_job_is_created_as_the_file_says_and_owned_by_it() -> None:
    [created] = plan([], a_file(a_definition(enabled=False))).create

    assert created.definition == a_definition(enabled=False, managed_by="file", source="billing")


def test_a_change_says_which_fields_and_how() -> None:
    [change] = plan([a_definition(tags=("x",))], a_file(a_definition("@daily", timezone="Asia/Kolkata"))).change

    assert change.fields == (
        FieldChange("schedule", "0 * * * *", "@daily"),
        FieldChange("timezone", "UTC", "Asia/Kolkata"),
        FieldChange("tags", ["x"], []),
    )
    assert change.before.tags == ("x",)


def test_a_pause_is_never_lifted_nor_made() -> None:
    paused, running = a_definition(enabled=False), a_definition()

    assert plan([paused], a_file(running)).unchanged == ("job",)
    assert plan([running], a_file(paused)).unchanged == ("job",)
    [change] = plan([paused], a_file(a_definition("@daily"))).change
    assert not change.job.definition.enabled


def test_jobs_of_others_are_refused_and_never_pruned() -> None:
    for owner in (Owner("api"), Owner("file", "other"), Owner("file")):
        made = plan([a_definition(), a_definition(name="b")], a_file(a_definition("@daily")), owner=owner, prune=True)

        assert [(each.name, each.owner) for each in made.refused] == [("job", owner)]
        assert made.is_empty
    assert str(made.refused[0]) == "job job: it belongs to file; delete it there, or take another name"


def test_only_with_prune_what_the_file_lacks_is_deleted() -> None:
    current = [a_definition(name="b"), a_definition(name="a"), a_definition()]

    assert plan(current, a_file(a_definition())).delete == ()
    assert plan(current, a_file(a_definition()), prune=True).delete == ("a", "b")


def test_no_value_of_a_header_is_in_a_plan() -> None:
    target = HOOK | {"url": "https://example.com/b", "headers": {"A": "secret-1", "B": "same", "C": "secret-2"}}
    made = plan([a_definition(target=HOOK)], a_file(a_definition(target=target), C="env:TOKEN"))

    assert made.change[0].fields == (
        FieldChange("target.url", "https://example.com/a", "https://example.com/b"),
        FieldChange("target.headers.A", "(hidden)", "(hidden, another)"),
        FieldChange("target.headers.C", None, "env:TOKEN"),
    )


def test_a_target_of_another_type_is_shown_whole_without_its_headers() -> None:
    [change] = plan([a_definition(target=HOOK)], a_file(a_definition())).change

    assert change.fields == (
        FieldChange("target", HOOK | {"headers": {"A": "(hidden)", "B": "(hidden)"}}, {"type": "task", "name": "a"}),
    )


def test_true_is_not_one_and_one_is_one() -> None:
    assert not is_same_json({"a": [True]}, {"a": [1]})
    assert is_same_json({"a": [1.0]}, {"a": [1]})
    assert not is_same_json([1], [1, 2])


@examples(100)
@given(st.lists(odd_definitions, max_size=3, unique_by=lambda definition: definition.name), st.booleans())
def test_applying_an_export_changes_nothing(jobs: list[Definition], prune: bool) -> None:
    read = read_jobs_file(export_jobs(jobs, source="billing"), "toml", lambda reference: reference)

    assert plan(jobs, read, prune=prune) == FilePlan(unchanged=tuple(each.name for each in jobs))


@examples(100)
@given(odd_definitions, odd_definitions)
def test_what_differs_is_a_change_and_nothing_else_is(one: Definition, other: Definition) -> None:
    other = replace(other, name=one.name, enabled=one.enabled)
    made = plan([one], a_file(other))

    assert bool(made.change) == (one != other)
