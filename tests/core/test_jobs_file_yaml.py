"""The jobs file as YAML: strict, without guesses, and with lines."""

import pytest

from hourbell.core.formats.jobs_file import FileJob, JobsFile, JobsFileError, read_jobs_file

JOB = """
defaults:
  timezone: Europe/Berlin
job:
  - name: a
    schedule: "0 3 * * *"
    target: {type: task, name: a, args: {n: 1, x: 2.5, t: true, z: null}}
    starts_at: 2026-01-01T00:00:00Z
    description: |
      Two
      lines
"""


def read(text: str) -> JobsFile:
    return read_jobs_file(text, "yaml", lambda reference: reference)


def only(text: str) -> FileJob:
    [job] = read(text).jobs
    return job


def refusal_of(text: str) -> str:
    with pytest.raises(JobsFileError) as caught:
        read(text)
    return str(caught.value)


def test_a_job_is_read_with_its_line() -> None:
    job = only(JOB)

    assert job.line == 5
    assert job.definition.timezone == "Europe/Berlin"
    assert job.definition.target["args"] == {"n": 1, "x": 2.5, "t": True, "z": None}
    assert job.definition.description == "Two\nlines\n"
    assert str(job.definition.starts_at) == "2026-01-01 00:00:00+00:00"


def test_an_empty_file_has_no_jobs() -> None:
    assert read("# nothing\n").jobs == ()


def test_errors_have_the_line_of_their_job() -> None:
    assert refusal_of(JOB.replace("0 3 *", "0 25 *")) == (
        "line 5, job a: /schedule: hour field, column 3: 25 is outside 0-23"
    )


def test_an_alias_is_replaced_by_its_anchor() -> None:
    text = "job:\n  - {name: a, schedule: &s '@daily', target: &t {type: task, name: x}}\n"
    text += "  - {name: b, schedule: *s, target: *t}\n"

    assert [job.definition.target for job in read(text).jobs] == [{"type": "task", "name": "x"}] * 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "line 2: the key 'a' is there twice; write it once"),
        ("source: !!str 5\n", "line 1: the tag tag:yaml.org,2002:str is not read; leave it out"),
        (
            "a: !!python/object:os.system x\n",
            "line 1: the tag tag:yaml.org,2002:python/object:os.syst… is not read; leave it out",
        ),
        ("source: a\n---\nsource: b\n", "line 2: a second document begins here; a jobs file is one"),
        ("a: &a [*a]\n", "line 1: an alias holds itself"),
        ("a: " + "[" * 50 + "]" * 50, "line 1: this is nested more than 40 deep"),
        ("a: {<<: {b: 1}}\n", "line 1: << is not read; write what jobs share under defaults"),
        ("? [a]\n: b\n", "line 1: a key is a text"),
        ("- a\n", "line 1: a jobs file holds the key job with a list of jobs"),
        ("a: [b\n", "line 2: this is not YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "a: @daily\n",
            "line 1: this is not YAML: found character '@' that cannot start any token; put a schedule in quotes",
        ),
        (
            "a: * * * * *\n",
            "line 1: this is not YAML: expected alphabetic or numeric character, but found ' '; "
            "put a schedule in quotes",
        ),
        ("a: \x01\n", "this is not YAML: special characters are not allowed"),
    ],
    ids=lambda value: value[:12],
)
def test_ambiguous_yaml_is_refused(text: str, problem: str) -> None:
    assert refusal_of(text) == problem


AMBIGUOUS = ["yes", "No", "on", "TRUE", "Null", "012", "0x1F", "1_000", "12:30", "1e5", "+1", ".5", ".inf"]


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_a_word_that_yaml_parsers_read_differently_is_refused(word: str) -> None:
    assert refusal_of(f"source: {word}\n") == f"line 1: {word} is a text to some readers and not to others; quote it"
    assert read(f"source: '{word}'\n").source_label == word


def test_a_few_lines_that_would_be_billions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert refusal_of("\n".join(lines)).startswith("line 6: with its aliases written out this is too large")


def test_a_long_text_that_is_named_again_and_again_is_refused() -> None:
    lines = [f"defaults: &text '{'x' * 1_000_000}'", "job:", *["- *text"] * 1_000]

    assert "with its aliases written out this is too large" in refusal_of("\n".join(lines))
