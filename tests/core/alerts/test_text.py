"""The text of a message for people."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.message import DigestItem, IncidentSummary, JobSummary, Message, RunSummary
from hourbell.core.alerts.text import (
    GREEN,
    MAX_LINE_CHARACTERS,
    RED,
    clipped,
    describe,
    html_text,
    one_line,
    plain_text,
    utf16_units,
)
from tests.core.alerts.values import opened
from tests.core.values import HOUR, MINUTE, T0

INCIDENT = IncidentSummary.of(opened(), ("nightly-report",))
JOB = JobSummary(
    "j", "nightly-report", "0 3 * * *", "At 03:00", "Europe/Berlin", next_at=T0 + HOUR, last_success_at=T0 - 24 * HOUR
)
RUN = RunSummary("r", "failed", "exhausted", T0, 4, T0, "HTTP 503")
LINKS = {"incident": "https://hourbell.example/incidents/1", "job": "https://hourbell.example/jobs/nightly-report"}


def a_message(event: Event = Event.OPENED, job: JobSummary | None = JOB, **incident: object) -> Message:
    return Message("m", event, T0 + 5 * MINUTE, "ops", replace(INCIDENT, **incident), job, RUN, LINKS)  # type: ignore[arg-type]


def test_a_message_says_what_a_person_needs_at_night() -> None:
    text = describe(a_message(count=3, last_at=T0 + MINUTE))
    fields = dict(text.fields)

    assert text.title == "nightly-report failed 3 times"
    assert fields["Schedule"] == "At 03:00 (Europe/Berlin)"
    assert fields["Error"] == "HTTP 503"
    assert fields["Since"].endswith("(5m ago)")
    assert fields["Happened"] == f"3 times, last at {fields['Since'].partition(' (')[0]}"  # when the run ended
    assert fields["Next run"].endswith(" CET")
    assert fields["Run"].endswith("failed (exhausted)")
    assert dict(text.links)["Incident"] == LINKS["incident"]
    assert dict(text.commands)["To mute"] == f"hourbell incident mute {INCIDENT.id} --until 2h"


def test_plain_text_has_a_line_for_each_field_link_and_command() -> None:
    text = describe(a_message())

    lines = plain_text(text).splitlines()

    assert [line for line in lines if line] == [f"{n}: {v}" for n, v in (*text.fields, *text.links, *text.commands)]


@pytest.mark.parametrize("kind", list(IncidentKind))
@pytest.mark.parametrize("event", [event for event in Event if event not in (Event.TEST, Event.QUIET_DIGEST)])
@pytest.mark.parametrize("job", [JOB, None])
def test_every_kind_and_event_has_a_title(kind: IncidentKind, event: Event, job: JobSummary | None) -> None:
    text = describe(a_message(event, job, kind=kind))

    assert text.title
    assert bool(text.commands) is (event is not Event.RESOLVED)


def test_the_end_says_how_long_it_lasted() -> None:
    text = describe(a_message(Event.RESOLVED, resolved_at=T0 + 90 * MINUTE, resolved_by="ada"))

    assert text.title == "Resolved: nightly-report failed"
    assert dict(text.fields)["Lasted"].endswith("(1h30m)")
    assert dict(text.fields)["Resolved by"] == "ada"


def test_a_group_names_some_of_its_jobs() -> None:
    text = describe(
        a_message(job=None, group_size=1_000, jobs=tuple(f"job-{n}" for n in range(8)), lane="https://x:443")
    )

    assert text.title == "1000 jobs fail"
    assert dict(text.fields)["Jobs"] == "job-0, job-1, job-2, job-3, job-4 and 995 more"
    assert dict(text.fields)["Host"] == "https://x:443"


def test_a_test_says_so() -> None:
    assert describe(Message("m", Event.TEST, T0, "ops")).title == "Test of the channel ops"


def test_an_error_cannot_pretend_to_be_another_field() -> None:
    text = describe(a_message(error="broken\u2028Next run: never"))

    assert "\nNext run: never" not in plain_text(text).replace("\u2028", "\n")


def test_a_line_has_no_control_characters_and_is_not_endless() -> None:
    assert one_line("a\r\nBcc: x\x00\x1b[31m\u202e") == "a  Bcc: x��[31m�"
    assert len(one_line("x" * 10_000)) == MAX_LINE_CHARACTERS


@pytest.mark.parametrize(
    ("text", "max_units", "kept"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("🔥🔥🔥", 6, "🔥🔥🔥"),
        ("🔥🔥🔥", 5, "🔥🔥…"),
        ("🔥🔥🔥", 4, "🔥…"),
    ],
)
def test_a_clipped_text_fits_as_chats_count_and_says_that_something_is_missing(
    text: str, max_units: int, kept: str
) -> None:
    assert clipped(text, max_units) == kept
    assert utf16_units(kept) <= max_units


def test_the_color_of_html_is_that_of_trouble_or_its_end() -> None:
    assert f"solid {RED}" in html_text(describe(a_message()))
    assert f"solid {GREEN}" in html_text(describe(a_message(Event.RESOLVED)))


def test_html_shows_values_as_text() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)> \" ' &amp;"
    job = replace(JOB, name=evil, description=evil, words=evil)
    page = html_text(describe(a_message(job=job, error=evil)))
    seen: list[str] = []
    texts: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            del attrs
            seen.append(tag)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(page)

    assert not {"script", "img"} & set(seen)
    assert texts.count(evil) == 3  # the job, its description, the error


def test_a_digest_says_what_goes_on_before_what_is_over() -> None:
    over = replace(INCIDENT, jobs=("backup",), state="resolved", resolved_at=T0 + HOUR, error="disk\nfull")
    items = (DigestItem(Event.RESOLVED, over), DigestItem(Event.OPENED, INCIDENT), DigestItem(Event.REPEATED, INCIDENT))
    text = describe(Message("m", Event.QUIET_DIGEST, T0 + 2 * HOUR, "ops", items=items, total=60))

    assert text.title == "After quiet hours: 60 incidents, 1 of them over"
    assert [name for name, _ in text.fields] == ["Open", "Still", "Resolved", "More"]
    assert text.fields[0][1] == "nightly-report failed, 2026-03-02 09:00:00 UTC (2h ago): HTTP 503"
    assert text.fields[2][1].startswith("backup failed, 2026-03-02 09:00:00 UTC to 2026-03-02 10:00:00 UTC (1h): ")
    assert "\n" not in text.fields[2][1]
    assert text.fields[3] == ("More", "57 incidents; see `hourbell incident list`")
    assert plain_text(text)
    assert html_text(text)
