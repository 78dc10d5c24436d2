"""The jobs file: all errors at once, an export that reads back as the same jobs, and no secrets."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.access.signing import new_secret
from hourbell.core.formats.jobs_file import FORMATS, FileJob, Format, JobsFile, JobsFileError, read_jobs_file
from hourbell.core.formats.jobs_file_export import export_jobs
from hourbell.core.formats.jobs_file_format import format_of_name, format_of_text
from hourbell.core.formats.jobs_file_schema import jobs_file_schema
from hourbell.core.formats.jobs_file_text import read_text
from hourbell.core.job.body import FIELDS, READ_ONLY
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from tests.core.schedule.strategies import examples
from tests.core.test_job_body import definitions as job_definitions
from tests.core.test_job_body import texts, values

DOCS = Path(__file__).parents[2] / "docs"
SECRET = new_secret(bytes(range(32)))
SECRETS = {"env:HOOK": SECRET, "file:/run/token": "Bearer 12345", "env:ODD": "two\nlines"}
TASK = 'target = { type = "task", name = "a" }'
HTTP = 'type = "http", url = "https://example.com/hook"'
SMALL = f'[[job]]\nname = "a"\nschedule = "@daily"\n{TASK}\n'

unusual_texts = st.one_of(
    texts,
    st.text(st.sampled_from("\"'\\\n\r\t #=[]{}é\u2028\x7f\x85\x1b%"), max_size=12),
    st.sampled_from(["yes", "null", "012", "1e5", "~", "- a", "a: b", "\n", "\n\n", ' """ ', "'''", "12:30", ""]),
)
unusual_values = st.recursive(
    st.one_of(values, unusual_texts, st.just(2**63), st.just(-(2**63)), st.just(1e22), st.just(-0.0), st.just(5e-324)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(unusual_texts, inner, max_size=3)),
    max_leaves=5,
)
header_values = st.one_of(
    st.sampled_from(["env:A", "file:/a", "literal:env:A", "literal:", "Bearer x"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=10),
)
unusual_targets = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("http"), "url": st.just("https://example.com/" + "x" * 90)},
        optional={"headers": st.dictionaries(st.sampled_from(["A", "B-c"]), header_values), "method": st.just("PUT")},
    ),
    st.fixed_dictionaries(
        {"type": st.just("task"), "name": unusual_texts.filter(bool)},
        optional={"args": st.dictionaries(texts, unusual_values)},
    ),
    st.fixed_dictionaries({"type": st.just("queue"), "queue": st.just("q"), "other": unusual_values}),
)
unusual_definitions = st.builds(
    lambda base, payload, description, target: replace(
        base, payload=payload, description=description, target=target, lane=lane_of(target)
    ),
    job_definitions,
    unusual_values,
    unusual_texts,
    unusual_targets,
)


def resolve(reference: str) -> str:
    try:
        return SECRETS[reference]
    except KeyError:
        raise ValueError(f"{reference} is not set") from None


def read(text: str, format: Format = "toml") -> JobsFile:  # noqa: A002
    return read_jobs_file(text, format, resolve)


def only(text: str, format: Format = "toml") -> FileJob:  # noqa: A002
    [job] = read(text, format).jobs
    return job


def errors_of(text: str, format: Format = "toml") -> list[str]:  # noqa: A002
    with pytest.raises(JobsFileError) as caught:
        read(text, format)
    return str(caught.value).splitlines()


def unlike(one: object, other: object) -> bool:
    """Return True if values differ as JSON does: true is not 1, and 1.0 is not 1."""
    return json.dumps(one) != json.dumps(other)


def test_a_job_has_its_fields_and_the_defaults_it_does_not_overrule() -> None:
    text = '[defaults]\ntimezone = "Europe/Berlin"\noverlap = "skip"\n\n' + SMALL + 'overlap = "allow"\ntags = ["x"]\n'

    assert only(text).definition == Definition(
        "a", "@daily", {"type": "task", "name": "a"}, "Europe/Berlin", tags=("x",), lane="task:a"
    )


def test_a_file_may_name_its_source() -> None:
    assert read('source = "billing"\n').source_label == "billing"
    assert read("").source_label is None
    assert errors_of('source = ""\n') == [
        "/source: source is not a text of 1 to 200 printable characters; "
        "write a text that identifies this file, as in billing"
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_may_declare_itself_incomplete(format: Format) -> None:  # noqa: A002
    text = export_jobs([only(SMALL).definition], format, source="x", incomplete="2 lines could not be read")
    made = read(text, format)

    assert (made.incomplete, made.source_label, len(made.jobs)) == ("2 lines could not be read", "x", 1)
    assert format_of_text(text) == format
    assert schema_takes(json.loads(export_jobs([], "json", incomplete="why")))
    assert errors_of("incomplete = true\n") == [
        "/incomplete: incomplete is not a text of 1 to 200 printable characters; write what is missing, or leave it out"
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_may_have_a_comment_above_a_job(format: Format) -> None:  # noqa: A002
    first, second = (replace(only(SMALL).definition, name=name) for name in ("a", "b"))
    text = export_jobs([first, second], format, notes={"b": ["paused by x: \n[[job]]"]})

    assert [job.definition for job in read(text, format).jobs] == [first, second]
    assert format == "json" or re.search(r'"a"(.|\n)*\n *# paused by x:  \[\[job\]\]\n(.|\n)*"b"', text)


def test_all_errors_are_reported_with_job_and_line() -> None:
    text = '\n[[job]]\nname = "a"\nschedule = "61 * * * *"\nenabled = 1\n' + TASK + "\n\n[[job]]\nfoo = 1\n"

    assert errors_of(text) == [
        "line 2, job a: /schedule: minute field, column 1: 61 is outside 0-59",
        "line 2, job a: /enabled: enabled is 1; write true or false",
        "line 8, job 2: /name: a job needs a name; write letters, digits, _ and -, at most 100 of them",
        "line 8, job 2: /schedule: a job needs a schedule; write a cron expression such as 0 9 * * 1-5",
        "line 8, job 2: /target: a job needs a target; "
        'write one such as {"type": "http", "url": "https://example.com/hook"}',
        f"line 8, job 2: /foo: 'foo' is not a field here; write {', '.join(FIELDS)}",
    ]


def test_text_that_looks_like_a_job_shifts_no_line_number() -> None:
    hidden = "description = \"\"\"\n[[job]]\n\"\"\"\n# [[job]]\npayload = '''\n[[job]]'''\n"
    text = SMALL + hidden + ' [[ "job" ]]  # here\nname = "b"\nschedule = "no"\n' + TASK

    assert errors_of(text)[0].startswith("line 11, job b: ")


def test_jobs_written_as_a_list_have_no_lines_and_are_read() -> None:
    job = only('job = [{ name = "a", schedule = "@daily", target = { type = "task", name = "[[job]]" } }]')

    assert job.line is None


def test_an_error_in_the_defaults_is_reported_once() -> None:
    text = '[defaults]\noverlap = "sometimes"\nname = "x"\ncolour = 1\n' + SMALL + SMALL.replace('"a"', '"b"', 1)

    assert [line.partition(";")[0] for line in errors_of(text)] == [
        "[defaults]: /name: a name belongs to one job",
        "[defaults]: /colour: 'colour' is not a field of jobs",
        "[defaults]: /overlap: overlap is 'sometimes'",
    ]


def test_a_name_that_is_there_already_is_refused() -> None:
    assert errors_of(SMALL + SMALL) == ["line 5, job a: /name: the name is already used, at line 1; take another"]


@pytest.mark.parametrize("name", sorted(READ_ONLY))
def test_fields_that_only_answers_have_are_refused(name: str) -> None:
    [problem] = errors_of(SMALL + f"{name} = true\n")

    assert f"{name!r} is not a field of jobs" in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[jobs]]\n", "/jobs: 'jobs' is not a field here; did you mean job?"),
        ("job = 5\n", "/job: job is not a list; write [[job]] above each job"),
        ("defaults = 5\n", "/defaults: defaults is not a table; write [defaults] above its fields"),
        ("job = [5]\n", "job 1: a job is a table with name, schedule and target"),
        ("a = 1\na = 2\n", "line 2: this is not TOML: cannot overwrite a value"),
        ("a = [1,\n", "line 2: this is not TOML: invalid value"),
        ("a = " + "9" * 5_000, "a number in it is too long; write it as a text"),
        ("a = " + "[" * 100_000, "this is not a jobs file: it is nested too deep"),
        ("a." * 1_000 + "a = 1", "line 1: a key has more than 32 parts"),
        ("\n[[ " + "'x' . " * 40 + "a ]]", "line 2: a key has more than 32 parts"),
    ],
    ids=["jobs", "number", "defaults", "list", "twice", "open", "long", "deep", "dotted", "dotted_header"],
)
def test_text_that_is_no_jobs_file_gets_an_error_with_the_expected_form(text: str, problem: str) -> None:
    assert errors_of(text) == [problem]


def test_instants_may_be_written_as_toml_has_them() -> None:
    job = only(SMALL + "starts_at = 2026-01-01T01:00:00+01:00\nends_at = 2027-01-01T00:00:00Z\n")

    assert str(job.definition.starts_at) == "2026-01-01 00:00:00+00:00"
    [problem] = errors_of(SMALL + "starts_at = 2026-01-01T01:00:00\n")
    assert "starts_at is '2026-01-01T01:00:00', which is not a date and time; write one with an offset" in problem


def test_secrets_and_headers_may_be_references() -> None:
    target = f'{{ {HTTP}, secret = "env:HOOK", headers = {{ A = "file:/run/token", B = "b" }} }}'
    text = f'[[job]]\nname = "a"\nschedule = "@daily"\ntarget = {target}'
    job = only(text)

    assert job.secret == SECRET
    assert job.secret_headers == {"A": "Bearer 12345"}
    assert job.definition.target["headers"] == {"B": "b"}
    assert job.references == {"/target/secret": "env:HOOK", "/target/headers/A": "file:/run/token"}
    assert SECRET not in repr(job)
    assert "12345" not in repr(job)


def test_the_body_to_send_has_the_secrets_where_the_api_takes_them() -> None:
    target = f'{{ {HTTP}, secret = "env:HOOK", headers = {{ A = "file:/run/token" }} }}'
    body = only(f'[[job]]\nname = "a"\nschedule = "@daily"\ntarget = {target}').as_body()

    assert body["target"] == {"type": "http", "url": "https://example.com/hook", "secret": SECRET}
    assert body["secret_headers"] == {"A": "Bearer 12345"}
    assert "secret_headers" not in only(SMALL).as_body()


def test_a_header_that_is_there_plain_and_as_a_reference_is_refused() -> None:
    headers = '{ a = "env:ODD", A = "plain", B = "file:/run/token", b = "file:/run/token" }'
    text = f'[[job]]\nname="a"\nschedule="@daily"\ntarget={{{HTTP},headers={headers}}}'

    assert errors_of(text) == [
        "line 1, job a: /target/headers/a: a is given twice",
        "line 1, job a: /target/headers/b: b is given twice",
    ]


def test_a_broken_reference_is_reported_without_any_value() -> None:
    header = f'[[job]]\nname="a"\nschedule="x"\ntarget={{{HTTP},secret="env:NO",headers={{A="env:ODD"}}}}'
    errors = errors_of(header)

    assert errors[0] == "line 1, job a: /target/secret: env:NO is not set"
    assert errors[1] == "line 1, job a: /target/headers/A: the value of A is not printable ASCII text"
    assert "two" not in "".join(errors)


def test_a_secret_in_the_file_is_a_warning_that_does_not_show_it() -> None:
    text = f'[[job]]\nname="a"\nschedule="@daily"\ntarget={{{HTTP},secret="{SECRET}"}}'

    [warning] = read(text).warnings
    assert (
        warning == 'line 1, job a: the secret is in plain text in the file; write secret = "env:NAME" or "file:/path"'
    )


def test_a_header_that_the_resolver_leaves_out_is_in_no_job() -> None:
    target = f'{{ {HTTP}, secret = "env:NO", headers = {{ A = "env:NO", B = "b" }} }}'
    [job] = read_jobs_file(f'[[job]]\nname="a"\nschedule="@daily"\ntarget={target}', "toml", lambda _: None).jobs

    assert (job.secret, job.secret_headers) == (None, {})
    assert job.as_body()["target"]["headers"] == {"B": "b"}
    assert job.references == {"/target/secret": "env:NO", "/target/headers/A": "env:NO"}


@pytest.mark.parametrize(
    ("header", "warning"),
    [
        ('X-A = "Bearer ${TOKEN}"', 'is sent as it stands, with ${…} in it; write X-A = "env:NAME" or "file:/path"'),
        (
            'authorization = "Bearer abc"',
            'is in plain text in the file; write authorization = "env:NAME" or "file:/path"',
        ),
        ('Cookie = "a=b"', 'is in plain text in the file; write Cookie = "env:NAME" or "file:/path"'),
        ('X-Api-Key = "literal:k"', 'is in plain text in the file; write X-Api-Key = "env:NAME" or "file:/path"'),
    ],
)
def test_a_header_that_should_be_a_reference_is_a_warning_that_does_not_show_it(header: str, warning: str) -> None:
    [reported] = read(f'[[job]]\nname="a"\nschedule="@daily"\ntarget={{{HTTP},headers={{{header}}}}}').warnings

    assert reported == f"line 1, job a: the header {header.partition(' ')[0]} {warning}"
    quiet = f'[[job]]\nname="a"\nschedule="@daily"\ntarget={{{HTTP},headers={{Cookie="file:/run/token",X="$5"}}}}'
    assert read(quiet).warnings == ()


def test_values_that_toml_cannot_hold_are_written_as_json() -> None:
    definition = replace(only(SMALL).definition, payload={"a": [None, "it's"]})
    text = export_jobs([definition])

    assert 'payload_json = "{\\"a\\": [null, \\"it\'s\\"]}"' in text
    assert only(text).definition == definition
    assert errors_of(SMALL + "payload_json = '1'\npayload = 1\n")[0].endswith("payload is given too; write one of them")
    assert (
        "/payload_json: payload_json is not JSON in a text: this is not JSON"
        in errors_of(SMALL + "payload_json='{'")[0]
    )


def test_a_number_beyond_64_bits_is_written_as_json() -> None:
    small, large = (export_jobs([replace(only(SMALL).definition, payload=n)]) for n in (2**63 - 1, 2**63))

    assert "payload = 9223372036854775807\n" in small
    assert "payload_json = '9223372036854775808'\n" in large


@pytest.mark.parametrize("value", ["env:A", "file:/a", "literal:a", "literal:env:A"])
def test_a_header_that_only_looks_like_a_reference_is_marked(value: str) -> None:
    target = {"type": "http", "url": "https://example.com/", "headers": {"A": value}}
    text = export_jobs([replace(only(SMALL).definition, target=target, lane=lane_of(target))])

    assert f'A = "literal:{value}"' in text
    assert only(text).definition.target == target


def test_a_text_of_several_lines_keeps_its_quotes() -> None:
    for text in ('a\n"', 'a\n""', 'a\n"""', '"\n', '\\"\n\\'):
        definition = replace(only(SMALL).definition, description=text)

        assert only(export_jobs([definition])).definition == definition


@pytest.mark.parametrize("format", FORMATS)
@examples(50)
@given(st.lists(unusual_definitions, max_size=2, unique_by=lambda definition: definition.name), st.booleans())
def test_the_format_of_an_export_is_seen_in_its_text(format: Format, jobs: list[Definition], named: bool) -> None:  # noqa: A002
    text = export_jobs(jobs, format, source="job: 1" if named else None, comments=["job: 1", "{", "source = 1"])

    assert format_of_text(text) == format


def test_a_text_is_toml_unless_it_begins_as_json_or_yaml() -> None:
    shown = {"": "toml", SMALL: "toml", "# job:\n---\n\njob: []": "yaml", "\ufeff\n {": "json", '"job": []': "yaml"}
    named = {"a.toml": "toml", "b.YML": "yaml", "c.yaml": "yaml", "d.json": "json", "-": None, "jobs": None}

    assert {text: format_of_text(text) for text in shown} == shown
    assert {name: format_of_name(name) for name in named} == named


def test_an_export_has_only_what_is_not_the_default() -> None:
    assert export_jobs([only(SMALL).definition]) == SMALL
    assert export_jobs([]) == ""


@pytest.mark.parametrize("format", FORMATS)
@examples(150)
@given(st.lists(unusual_definitions, max_size=3, unique_by=lambda definition: definition.name))
def test_an_export_reads_as_the_same_definitions(format: Format, wanted: list[Definition]) -> None:  # noqa: A002
    text = export_jobs(wanted, format, source="a 'b' \"c\"", comments=["one\ntwo", "é"])
    made = read(text, format)

    assert [job.definition for job in made.jobs] == wanted
    assert not any(unlike(job.definition.payload, old.payload) for job, old in zip(made.jobs, wanted, strict=True))
    assert made.source_label == "a 'b' \"c\""


def test_the_schema_for_editors_is_the_one_in_the_documents() -> None:
    assert json.loads((DOCS / "jobs-file.schema.json").read_text()) == jobs_file_schema()


def schema_takes(values_of_file: Any) -> bool:
    return bool(jsonschema_rs.is_valid(jobs_file_schema(), values_of_file))


@examples(100)
@given(unusual_definitions)
def test_an_export_is_valid_by_the_schema(definition: Definition) -> None:
    assert schema_takes(json.loads(export_jobs([definition], "json")))


@pytest.mark.parametrize(
    "job",
    [
        {"nam": "a"},
        {"name": "a b"},
        {"name": "a", "overlap": "sometimes"},
        {"name": "a", "target": {"type": "http"}},
        {"name": "a", "target": {"type": "ftp", "url": "x"}},
        {"name": "a", "retry": {"attempts": 0, "backoff": ["1s"]}},
        {"name": "a", "max_age": "soon"},
        {"name": "a", "id": "x"},
    ],
    ids=str,
)
def test_the_schema_rejects_invalid_files(job: dict[str, object]) -> None:
    assert not schema_takes({"job": [job]})


def examples_in(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("format", ["toml", "yaml"])
def test_the_files_in_the_documents_are_read_and_valid_by_the_schema(format: Format) -> None:  # noqa: A002
    shown = examples_in("jobs-file.md", format)
    stand_in = {
        "env:REPORT_SECRET": SECRET,
        "file:/run/secrets/campaign": "Bearer 1",
        "env:OPS_SECRET": SECRET,
        "env:SLACK_URL": "https://hooks.slack.com/services/T0/B0/x",
    }

    assert shown
    for text in shown:
        read_jobs_file(text, format, stand_in.__getitem__)
        assert schema_takes(
            json.loads(json.dumps(read_text(text, format).values, default=lambda instant: instant.isoformat()))
        )


def test_the_errors_in_the_documents_are_those_of_the_reader() -> None:
    [shown] = re.findall(r"^```\n(line .*?)^```", (DOCS / "jobs-file.md").read_text(), re.MULTILINE | re.DOTALL)
    text = examples_in("jobs-file.md", "toml")[0].replace("env:REPORT", "env:HOOK").replace("_SECRET", "")
    text = text.replace("0 3 * * 1-5", "0 25 * * 1-5").replace('"skip"', '"never"').replace("secrets/campaign", "token")

    assert errors_of(text) == shown.splitlines()
