"""`hourbell job` against a real node, as scripts and people use it."""

import json
import re
from pathlib import Path

import pytest

from hourbell.cli.job.definition import definition_of, redefined
from tests.cli.live import Live, live


def test_a_job_is_created_shown_listed_and_deleted(node: Live) -> None:
    made = node.ok(
        *("job", "create", "made", "--schedule", "0 3 * * *", "--timezone", "America/New_York"),
        *(
            "--url",
            node.receiver,
            "--header",
            "X-Team: billing",
            "--payload",
            '{"days": 7}',
            "--tag",
            "a",
            "--tag",
            "b",
        ),
    )
    job = node.json("job", "get", "made")

    assert re.search(r"^next: .*\(America/New_York\), .*\(UTC\)$", made, re.MULTILINE)
    assert (job["schedule"], job["payload"], job["tags"]) == ("0 3 * * *", {"days": 7}, ["a", "b"])
    assert job["target"] == {"type": "http", "url": node.receiver, "headers": {"X-Team": "billing"}}
    assert node.ok("job", "list", "mad", "-o", "name") == "made\n"
    assert node.run("job", "delete", "made").stderr == "deleted made\n"
    assert node.run("job", "get", "made").exit_code == 3


def test_a_new_job_may_run_once_at_once(node: Live) -> None:
    node.create("at-once", "--run-on-create")

    [run] = node.json("run", "list", "--job", "at-once")["items"]
    assert run["kind"] == "manual"
    refused = node.run(
        "job", "create", "at-once", "-s", "@daily", "--url", node.receiver, "--replace", "--run-on-create"
    )
    assert (refused.exit_code, "--run-on-create is for a new job; leave out --replace" in refused.stderr) == (2, True)


def test_jobs_can_be_filtered_by_attention(node: Live) -> None:
    for name in ("watched-1", "watched-2"):
        node.create(name, "--tag", "watched")
    node.ok("job", "pause", "watched-2")

    assert node.ok("job", "list", "--attention", "paused", "--tag", "watched", "-o", "name") == "watched-2\n"
    for reason in ("losing", "retrying"):
        assert node.ok("job", "list", "--attention", reason, "--tag", "watched", "-o", "name") == ""


def test_a_list_is_a_table_or_the_body_of_the_api(node: Live) -> None:
    ids = {node.create(f"listed-{n}", "--tag", "listed") for n in range(3)}

    head, *rows = node.ok("job", "list", "--tag", "listed", "--timezone", "Asia/Tokyo").splitlines()
    assert head.split("  ")[0] == "NAME"
    assert "NEXT (Asia/Tokyo)" in head
    assert [row.split()[0] for row in rows] == ["listed-0", "listed-1", "listed-2"]
    assert {job["id"] for job in node.json("job", "list", "--tag", "listed")["items"]} == ids
    assert set(node.ok("job", "list", "--tag", "listed", "-q").split()) == ids
    assert len(node.ok("job", "list", "--tag", "listed", "-o", "ndjson").splitlines()) == 3
    first = node.run("job", "list", "--tag", "listed", "-n", "2")
    assert "there are more than these 2; -n shows more" in first.stderr


def test_a_dry_run_shows_times_and_warnings_and_changes_nothing(node: Live) -> None:
    args = ("--schedule", "30 2 * * *", "--timezone", "America/New_York", "--url", node.receiver)
    done = node.run("job", "create", "dry", *args, "--dry-run")

    assert done.stdout.startswith("would create dry\nNEXT (America/New_York)\n")
    assert "02:30 does not exist" in done.stderr
    assert node.run("job", "get", "dry").exit_code == 3
    assert json.loads(node.ok("job", "create", "dry", *args, "--dry-run", "--json"))["dry_run"] is True


def test_an_edit_changes_only_the_given_fields_and_shows_before_and_after(node: Live) -> None:
    node.create("edited", "--tag", "old", "--payload", "1")
    dry = node.ok("job", "edit", "edited", "--schedule", "@hourly", "--dry-run")
    node.ok("job", "edit", "edited", "--schedule", "@hourly", "--method", "PUT", "--tag", "")
    job = node.json("job", "get", "edited")

    assert re.search(r"^BEFORE \(UTC\) +AFTER \(UTC\)$", dry, re.MULTILINE)
    assert (job["schedule"], job["tags"], job["payload"]) == ("@hourly", [], 1)
    assert job["target"] == {"type": "http", "url": node.receiver, "method": "PUT"}


def test_an_edit_may_change_the_type_of_the_target(node: Live) -> None:
    node.create("kind")
    node.ok("job", "edit", "kind", "--task", "send", "--arg", "days=7", "--arg", "to=all")

    assert node.json("job", "get", "kind")["target"] == {
        "type": "task",
        "name": "send",
        "args": {"days": 7, "to": "all"},
    }


def test_every_field_of_a_job_has_an_option_and_is_shown(node: Live) -> None:
    said = {
        "late_after": "10m",
        "max_age": "2h",
        "jitter": "30s",
        "priority": "high",
        "delivery": "at_most_once",
        "overlap": "skip",
        "dst": "wall",
        "catch_up": "none",
        "catch_up_window": "1h",
        "description": "hello",
    }
    flags = [part for name, value in said.items() for part in (f"--{name.replace('_', '-')}", value)]
    shown = node.ok(
        *("job", "create", "whole", "-s", "@daily", "--task", "t", "--ends-at", "2199-01-01", "--paused"), *flags
    )
    job = node.json("job", "get", "whole")

    assert {name: job[name] for name in said} == said
    assert (job["ends_at"], job["enabled"]) == ("2199-01-01T00:00:00Z", False)
    for name, value in said.items():
        assert re.search(rf"^{name.replace('_', ' ')}: +{value}$", shown, re.MULTILINE)


def test_a_generated_secret_is_shown_once(node: Live) -> None:
    made = node.ok("job", "create", "signed", "--schedule", "@daily", "--url", node.receiver, "--secret", "generate")
    quiet = node.run("job", "create", "signed2", "-s", "@daily", "--url", node.receiver, "--secret", "generate", "-q")

    assert "whsec_" in made
    assert "whsec_" in quiet.stderr
    assert "whsec_" not in quiet.stdout + node.ok("job", "get", "signed") + node.ok("job", "get", "signed", "--json")


def test_a_payload_can_come_from_a_file_or_a_pipe(node: Live, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}')
    node.create("from-file", "--payload", f"@{tmp_path / 'payload.json'}")
    node.ok("job", "edit", "from-file", "--payload", "-", given='{"from": "pipe"}')

    assert node.json("job", "get", "from-file")["payload"] == {"from": "pipe"}


def test_the_exit_code_of_a_waiting_trigger_shows_how_the_run_ended(node: Live) -> None:
    node.create("fine")
    node.create("broken", method="POST")
    node.create("hangs", "--timeout", "30s")
    node.ok("job", "edit", "hangs", "--url", "http://127.0.0.1:9/", "--retry", "default")

    fine, broken = node.run("job", "trigger", "fine", "--wait"), node.run("job", "trigger", "broken", "--wait")
    assert (fine.exit_code, broken.exit_code) == (0, 7)
    assert "HTTP 501" in broken.stdout
    assert "  | <h1>Error response</h1>" in broken.stdout
    late = node.run("job", "trigger", "hangs", "--wait", "--timeout", "1s")
    assert (late.exit_code, late.stdout) == (8, "")
    assert "has not ended" in late.stderr


def test_the_same_key_triggers_once(node: Live) -> None:
    node.create("keyed")
    first = node.json("job", "trigger", "keyed", "--payload", "[1]", "--key", "july")
    again = node.json("job", "trigger", "keyed", "--payload", "[1]", "--key", "july")

    assert first["run"]["payload"] == [1]
    assert again["run_id"] == first["run_id"]


def test_a_pause_has_a_note_and_an_end_and_can_be_resumed(node: Live) -> None:
    node.create("rests")
    paused = node.ok("job", "pause", "rests", "--until", "2h", "--note", "maintenance")
    assert re.search(r"^paused until: +20.*\(UTC\)\npause note: +maintenance$", paused, re.MULTILINE)
    assert node.json("job", "resume", "rests", "--catch-up")["state"] == "active"


def test_bulk_actions_count_first_and_need_yes_without_a_terminal(node: Live) -> None:
    for number in range(2):
        node.create(f"bulk-{number}", "--tag", "bulk")

    asked = node.run("job", "pause", "--tag", "bulk")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.splitlines()[0] == "2 jobs tagged bulk: bulk-0, bulk-1"
    assert "add --yes" in asked.stderr
    assert node.ok("job", "list", "--tag", "bulk", "--state", "paused", "-q") == ""
    assert len(node.json("job", "pause", "--tag", "bulk", "--yes")["items"]) == 2
    assert "there is no job to pause" in node.run("job", "pause", "--tag", "bulk", "--yes").stderr
    assert len(node.ok("job", "resume", "--tag", "bulk", "--yes", "-q").split()) == 2
    assert len(node.ok("job", "trigger", "--tag", "bulk", "--yes", "-q").split()) == 2
    assert node.run("job", "delete", "--tag", "bulk", "--yes").stderr.count("deleted bulk-") == 2


def test_a_refused_job_does_not_stop_the_others(node: Live) -> None:
    node.create("stays")
    done = node.run("job", "pause", "gone", "stays", "-o", "name")

    assert (done.exit_code, done.stdout) == (3, "stays\n")


def test_a_backfill_shows_how_it_read_the_range_and_fills_it_once(node: Live) -> None:
    node.ok("job", "create", "filled", "--schedule", "@daily", "--url", node.receiver, "--method", "GET")
    args = ("job", "backfill", "filled", "--from", "2026-03-01", "--to", "2026-03-03")
    dry = node.run(*args, "--dry-run", "-z", "Europe/Paris")

    assert "from 2026-02-28T23:00:00Z (2026-03-01 00:00:00 +01:00 in Europe/Paris) to " in dry.stderr
    assert dry.stdout.splitlines()[0] == "SCHEDULED (Europe/Paris)"
    assert len(node.ok(*args, "-q").split()) == 3
    assert "every scheduled time in that range already has a run" in node.run(*args).stderr


def test_statistics_and_explanations_are_printed(node: Live) -> None:
    node.create("told")
    node.ok("job", "trigger", "told", "--wait")

    assert re.search(r"^success rate: +100 %$", node.ok("job", "stats", "told", "--since", "1d"), re.MULTILINE)
    assert "told at 2026-01-01 00:00:00 UTC" in node.ok("explain", "told", "2026-01-01")
    node.ok("job", "edit", "told", "--timezone", "Asia/Tokyo")
    own = node.run("explain", "told", "2026-01-01")
    assert "told at 2025-12-31 15:00:00 UTC" in own.stdout
    assert "TIME is read in Asia/Tokyo, the job's own zone" in own.stderr
    assert "told at 2026-01-01 00:00:00 UTC" in node.ok("explain", "told", "2026-01-01", "-z", "UTC")
    assert node.json("explain", "told", "2026-01-01")["verdict"] == "before_the_job"


def test_a_pause_end_in_the_past_is_refused(node: Live) -> None:
    node.create("before-now")

    for time in ("-2h", "-1d12h", "-2w"):
        assert "before-now at " in node.ok("explain", "before-now", time, "-z", "UTC")
    assert "'-2x' is not a time" in node.run("explain", "before-now", "-2x").stderr
    assert "No such option" in node.run("explain", "before-now", "-2h", "--timezon", "UTC").stderr


@pytest.mark.parametrize("time", ["now", "2 hours ago", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00+09:00"])
def test_a_time_with_an_offset_needs_no_time_zone_note(node: Live, time: str) -> None:
    if node.run("job", "get", "in-tokyo").exit_code == 3:
        node.create("in-tokyo", "--timezone", "Asia/Tokyo")

    assert node.run("explain", "in-tokyo", time).stderr == ""


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["get", "lsted-9"], 3, "did you mean "),
        (["get", "zzzzzz"], 3, "`hourbell job list` shows the jobs there are"),
        (["get", ""], 2, "is empty"),
        (["create", "x", "-s", "0 2x * * *", "--url", "http://127.0.0.1:9/"], 2, "    0 2x * * *\n      ^\n"),
        (["create", "x", "-s", "@daily", "-z", "Europe/Pari", "--url", "http://x/"], 2, "did you mean Europe/Paris?"),
        (["create", "x", "-s", "@daily"], 2, "--url, --sql, --task, --command or --target"),
        (["create", "x", "--url", "http://x/"], 2, "--schedule"),
        (["create", "x", "-s", "@daily", "--url", "http://x/", "--task", "y"], 2, "--url and --task are two"),
        (["create", "x", "-s", "@daily", "--task", "y", "--arg", "z"], 2, "write name=value"),
        (["create", "x", "-s", "@daily", "--task", "y", "--payload", "{"], 2, "this is not JSON"),
        (["create", "x", "-s", "@daily", "--task", "y", "--payload", "@/nowhere"], 2, "cannot be read"),
        (["create", "known", "-s", "@daily", "--task", "y"], 5, "`hourbell job edit` changes it"),
        (["edit", "known"], 2, "Say what to change"),
        (["pause"], 2, "Name jobs, or choose them by --tag or --all."),
        (["pause", "known", "--until", "soon"], 2, "'soon' is not a time"),
        (["trigger", "known", "--timeout", "1s"], 2, "--timeout is for --wait"),
        (
            ["backfill", "known", "--from", "2026-02-01", "--to", "2026-01-01"],
            2,
            "--to: the range ends before it begins",
        ),
        (["backfill", "known", "--from", "+1d", "--to", "+2d"], 2, "--from: the range is entirely in the future"),
        (["list", "--server", "ftp://x"], 2, "as in http://127.0.0.1:8080, in HOURBELL_URL or as --server."),
        (["list", "--server", "http://127.0.0.1:1"], 1, "the server is unreachable: http://127.0.0.1:1"),
    ],
)
def test_failures_are_reported_with_their_exit_codes(
    node: Live, arguments: list[str], exit_code: int, message: str
) -> None:
    if node.run("job", "get", "known").exit_code == 3:
        node.create("known")
        node.create("listed-99")
    done = node.run("job", *arguments)

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert message in done.stderr


def test_on_a_terminal_it_asks_and_uses_colour_unless_disabled(node: Live) -> None:
    node.create("seen", "--tag", "seen")

    status, screen = node.terminal("job", "pause", "--tag", "seen", typed="n\n")
    assert (status, "Pause 1 job? [y/N]" in screen, "nothing was done" in screen) == (1, True, True)
    status, screen = node.terminal("job", "pause", "--tag", "seen", typed="y\n")
    assert (status, "\x1b[33mpaused\x1b[0m" in screen) == (0, True)
    status, screen = node.terminal("job", "list", "--tag", "seen", NO_COLOR="1")
    assert (status, "paused" in screen, "\x1b" in screen) == (0, True, False)
    status, screen = node.terminal("job", "list", "--tag", "seen", TERM="dumb")
    assert (status, "paused" in screen, "\x1b" in screen) == (0, True, False)


def test_a_new_target_type_drops_the_fields_of_the_old_one() -> None:
    old = {"target": {"type": "http", "url": "http://x/", "method": "GET"}}

    assert redefined(old, {"target": {"method": "PUT"}})["target"] == {**old["target"], "method": "PUT"}
    assert redefined(old, {"target": {"type": "task", "name": "t"}})["target"] == {"type": "task", "name": "t"}


def test_a_payload_body_or_retry_policy_is_replaced_as_a_whole_including_nulls(node: Live) -> None:
    node.create("replaced", "--payload", '{"a": 1, "b": {"c": 2}}', "--body", '{"x": 1}', "--header", "X-Team: billing")
    node.ok("job", "edit", "replaced", "--retry", '{"attempts": 5, "backoff": [10], "spread": 0.5}')
    node.ok("job", "edit", "replaced", "--payload", '{"b": {"d": null}}', "--body", '{"y": null}')
    node.ok("job", "edit", "replaced", "--retry", '{"attempts": 3, "backoff": [20]}')
    job = node.json("job", "get", "replaced")

    assert job["payload"] == {"b": {"d": None}}
    assert job["target"]["body"] == {"y": None}
    assert job["target"]["headers"] == {"X-Team": "billing"}
    assert job["retry"] == {"attempts": 3, "backoff": ["20s"], "spread": 0.0}
    node.ok("job", "edit", "replaced", "--payload", "null", "--body", "null")
    assert node.json("job", "get", "replaced")["payload"] is None
    assert "body" not in node.json("job", "get", "replaced")["target"]


def test_a_complete_target_replaces_the_old_one_but_the_secret_stays(node: Live) -> None:
    target = {"type": "http", "url": f"{node.receiver}new", "body": {"z": None}}
    url = ("--url", node.receiver, "--method", "GET", "--header", "X-Team: billing", "--secret", "generate")
    node.ok("job", "create", "retargeted", "--schedule", "@daily", *url)
    node.ok("job", "edit", "retargeted", "--target", json.dumps(target))
    job = node.json("job", "get", "retargeted")

    assert (job["target"], [each["field"] for each in job["secrets"]]) == (target, ["signing"])


def test_headers_are_added_replaced_and_removed_one_by_one(node: Live) -> None:
    node.create("headed", "--header", "X-Team: billing", "--header", "X-Keep: 1")
    node.ok("job", "edit", "headed", "--header", "x-team: mail", "--header", "X-New: 2")
    assert node.json("job", "get", "headed")["target"]["headers"] == {"X-Keep": "1", "x-team": "mail", "X-New": "2"}

    node.ok("job", "edit", "headed", "--header", "X-Team:", "--header", "x-new:")
    assert node.json("job", "get", "headed")["target"]["headers"] == {"X-Keep": "1"}
    gone = node.run("job", "edit", "headed", "--header", "X-Team:")
    assert (gone.exit_code, "the job has no header X-Team" in gone.stderr) == (2, True)
    node.ok("job", "edit", "headed", "--header", "X-Keep:")
    assert "headers" not in node.json("job", "get", "headed")["target"]


def test_an_argument_may_be_null(node: Live) -> None:
    node.ok("job", "create", "argued", "--schedule", "@daily", "--task", "t", "--arg", "a=1", "--arg", 'b={"c": 1}')
    node.ok("job", "edit", "argued", "--arg", "a=null", "--arg", 'b={"d": null}')

    assert node.json("job", "get", "argued")["target"]["args"] == {"a": None, "b": {"d": None}}


def test_an_edit_leaves_a_pause_and_other_fields_unchanged(node: Live) -> None:
    node.create("left", "--ends-at", "2199-01-01", "--catch-up-window", "1h", "--jitter", "5s")
    node.ok("job", "pause", "left", "--until", "2h", "--note", "maintenance")
    before = node.json("job", "get", "left")
    node.ok("job", "edit", "left", "--payload", "[null]")
    after = node.json("job", "get", "left")

    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"payload", "version", "updated_at"}


def test_validation_errors_name_the_options_used(node: Live) -> None:
    wrong = ("job", "create", "x", "-s", "@daily", "--max-age", "soon")
    by_flags = node.run(*wrong, "--url", node.receiver, "--timeout", "2h", "--method", "GO").stderr
    by_json = node.run(*wrong, "--target", '{"type": "http", "url": "http://x/", "timeout": "2h"}').stderr

    assert {line.split(":")[0].strip() for line in by_flags.splitlines()[1:]} == {"--max-age", "--method", "--timeout"}
    assert "  /target/timeout: " in by_json
    assert "  NAME: " in node.run("job", "create", "a b", "-s", "@daily", "--task", "t").stderr


def test_a_description_may_have_several_lines(node: Live) -> None:
    node.create("described", "--description", "first\n  second\n\nlast")

    assert re.search(r"^description:  +first\n +second\n\n +last\n", node.ok("job", "get", "described"), re.MULTILINE)


def test_without_jobs_the_list_explains_how_to_create_one(tmp_path: Path) -> None:
    with live(tmp_path) as empty:
        assert "there is no job yet; create one with `hourbell job create`" in empty.run("job", "list").stderr
        assert "there is no such job; " in empty.run("job", "list", "--tag", "x").stderr
        assert empty.run("job", "list", "--json").stderr == ""


def test_the_value_default_resets_a_field() -> None:
    given = {"catch_up": "default", "retry": "default", "starts_at": "default", "overlap": "skip"}
    assert definition_of(given) == {"catch_up": None, "overlap": "skip", "starts_at": None, "retry": "default"}


def test_the_history_of_a_deleted_job_stays_until_it_is_purged(node: Live) -> None:
    job = node.create("short-lived")
    node.ok("job", "trigger", "short-lived", "--wait")
    node.ok("job", "delete", "short-lived")
    kept = node.ok("run", "list", "--job", job, "-q").split()
    stats = node.json("job", "stats", job)
    done = node.run("job", "delete", job, "--purge")

    assert (len(kept), stats["totals"]["succeeded"]) == (1, 1)
    assert (done.exit_code, done.stderr) == (0, f"purged {job}\n")
    assert node.run("run", "list", "--job", job).exit_code == 3
    assert node.run("run", "get", kept[0]).exit_code == 3
