"""History, forecast, secrets and renaming of a job, against a real node."""

import json
import re
from pathlib import Path

from tests.cli.live import Live

SECRET = "whsec_" + "QUFB" * 8


def test_upcoming_times_are_shown_in_the_jobs_zone_and_in_utc(node: Live) -> None:
    node.ok("job", "create", "comes", "-s", "30 2 * * *", "-z", "America/New_York", "--url", node.receiver)
    shown = node.ok("job", "upcoming", "comes", "-n", "2", "--after", "2027-03-13T12:00:00Z").splitlines()

    assert re.fullmatch(r"LOCAL \(America/New_York\) +SCHEDULED \(UTC\) +NOTE", shown[0])
    assert shown[1].endswith("02:30 does not exist that day")
    assert len(shown) == 3
    assert len(node.json("job", "upcoming", "comes", "-n", "4")["items"]) == 4


def test_a_paused_job_has_no_upcoming_times(node: Live) -> None:
    node.create("rested", "--paused")

    assert "note: it is paused; `hourbell job resume rested` ends that" in node.run("job", "upcoming", "rested").stderr
    node.create("resting")
    node.ok("job", "pause", "resting", "--until", "2199-01-01", "--note", "move")
    reported = node.run("job", "upcoming", "resting").stderr
    assert "it is paused by local until 2199-01-01 00:00:00 UTC: move; `hourbell job resume" in reported


def test_a_job_that_never_fires_again_says_so(node: Live) -> None:
    node.create("ended", "--ends-at", "2190-01-01")

    assert node.run("job", "upcoming", "ended", "--after", "2195-01-01").stderr == "note: it never fires again\n"


def test_skips_and_versions_are_listed(node: Live) -> None:
    node.create("changed")
    node.ok("job", "edit", "changed", "--schedule", "@hourly")
    head, newest, first = node.ok("job", "versions", "changed", "-z", "Asia/Tokyo").splitlines()

    assert re.fullmatch(r"VERSION +CHANGED \(Asia/Tokyo\) +BY +SCHEDULE +CHANGES", head)
    assert (newest.split()[0], first.split()[0]) == ("2", "1")
    assert newest.endswith("schedule")
    assert node.ok("job", "versions", "changed", "-q") == "2\n1\n"
    assert "no scheduled time was skipped" in node.run("job", "skips", "changed").stderr
    assert node.json("job", "skips", "changed") == {"items": [], "next_cursor": None}


def test_an_edit_renames_a_job(node: Live) -> None:
    made = node.create("old-name")
    node.ok("job", "edit", "old-name", "--name", "new-name")

    assert node.json("job", "get", "new-name")["id"] == made
    assert node.run("job", "get", "old-name").exit_code == 3


def test_a_given_secret_comes_from_a_file_or_a_pipe_never_from_the_command_line(node: Live, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    args = ("-s", "@daily", "--url", node.receiver)
    filed = node.ok("job", "create", "filed", *args, "--secret", f"@{tmp_path / 'secret'}")
    piped = node.ok("job", "create", "piped", *args, "--secret", "-", given=SECRET)
    typed = node.run("job", "create", "typed", *args, "--secret", SECRET)

    assert SECRET not in filed + piped + typed.output
    assert [each["field"] for each in node.json("job", "get", "filed")["secrets"]] == ["signing"]
    assert (typed.exit_code, "write generate, @FILE or -" in typed.stderr) == (2, True)


def test_a_rotated_secret_is_printed_alone_on_stdout(node: Live) -> None:
    node.ok("job", "create", "turned", "-s", "@daily", "--url", node.receiver, "--secret", "generate")
    done = node.run("job", "rotate-secret", "turned", "--keep-old", "48h")

    assert (done.exit_code, done.stdout.startswith("whsec_"), done.stdout.count("\n")) == (0, True, 1)
    assert re.search(r"the old one is valid until 20.*\(UTC\)", done.stderr)
    assert json.loads(node.ok("job", "rotate-secret", "turned", "--json"))["secret"].startswith("whsec_")


def test_rotating_without_a_secret_reports_that_it_is_the_first(node: Live) -> None:
    node.create("unsigned")

    assert "note: it is the first one of this job" in node.run("job", "rotate-secret", "unsigned").stderr


def test_a_definition_can_be_replaced_as_a_whole(node: Live) -> None:
    made = node.create("placed", "--tag", "old")
    node.ok("job", "create", "placed", "-s", "@hourly", "--task", "t", "--replace")
    job = node.json("job", "get", "placed")

    assert (job["id"], job["schedule"], job["tags"], job["target"]["type"]) == (made, "@hourly", [], "task")


def test_a_job_of_a_file_can_be_deleted_only_by_taking_it_over(node: Live) -> None:
    line = json.dumps({"name": "theirs", "schedule": "@daily", "target": {"type": "http", "url": node.receiver}})
    node.ok("import", "jobs", "-", "--managed-by", "file", given=line)

    refused = node.run("job", "delete", "theirs")
    assert (refused.exit_code, "--take-over" in refused.stderr) == (5, True)
    assert node.run("job", "delete", "theirs", "--take-over").exit_code == 0


def test_an_invalid_zone_does_not_hide_errors_of_the_schedule(node: Live) -> None:
    done = node.run("job", "create", "x", "-z", "CEST", "-s", "61 * * * *", "--url", node.receiver)

    assert done.exit_code == 2
    assert "--schedule: minute field, column 1: 61 is outside 0-59" in done.stderr
    assert "--timezone: unknown time zone 'CEST'; write an IANA name such as Europe/Paris" in done.stderr


def test_a_local_time_in_an_unknown_zone_is_reported_as_an_error_of_the_zone(node: Live) -> None:
    done = node.run("job", "edit", "x", "-z", "Europe/Pari", "--ends-at", "2199-01-01")

    assert (done.exit_code, "did you mean Europe/Paris?" in done.stderr) == (2, True)


def test_comparing_versions_with_long_payloads_names_what_is_not_compared(node: Live) -> None:
    payload = json.dumps({"text": "x" * 5_000})
    node.create("grows", "--payload", "1")
    node.ok("job", "edit", "grows", "--payload", payload)
    node.ok("job", "edit", "grows", "--description", "same payload")
    _, third, second, _ = node.ok("job", "versions", "grows").splitlines()

    assert third.rstrip().endswith("description, payload (too long to compare)")
    assert second.rstrip().endswith(" payload")
    assert node.json("job", "versions", "grows", "--version", "2")["definition"]["payload"] == {"text": "x" * 5_000}
    assert "x" * 5_000 in node.ok("job", "versions", "grows", "--version", "2")
