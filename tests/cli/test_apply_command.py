"""`hourbell apply` and `hourbell diff` against a real node: the plan, atomicity, and which owners' jobs are touched."""

import json
import re
from pathlib import Path

import pytest

from hourbell.cli.files.file_plan import FilePlan, read
from hourbell.client import Client
from hourbell.core.access.signing import new_secret
from tests.cli.live import Live

NOWHERE = "http://127.0.0.1:9"  # no server listens there
SECRET = new_secret(bytes(range(32)))


def job(name: str, schedule: str = "@yearly", target: str = 'type = "task", name = "t"', more: str = "") -> str:
    return f'[[job]]\nname = "{name}"\nschedule = "{schedule}"\ntarget = {{ {target} }}\n{more}\n'


def webhook(node: Live, more: str) -> str:
    return f'type = "http", url = "{node.receiver}", {more}'


def file_of(folder: Path, *jobs: str, source: str = "") -> str:
    path = folder / "jobs.toml"
    path.write_text((f'source = "{source}"\n' if source else "") + "".join(jobs))
    return str(path)


def jobs_of(node: Live, source: str) -> dict[str, str]:
    """The names and schedules of a source's jobs."""
    listed = node.json("job", "list", "--managed-by", "file", "--source", source)
    return {each["name"]: each["schedule"] for each in listed["items"]}


def test_the_plan_is_shown_and_applied_and_a_second_apply_changes_nothing(node: Live, tmp_path: Path) -> None:
    target = webhook(node, 'method = "GET"')
    file = file_of(tmp_path, job("plan-a", target=target), job("plan-b", "0 9 * * *", target), source="plan")
    shown = node.ok("apply", "-f", file)

    assert re.fullmatch(
        rf"\+ create plan-a\n    schedule: @yearly \(.*\), UTC\n    target: http GET {node.receiver}\n"
        r"    next: \d{4}-01-01 00:00:00\+00:00 UTC, .*\n\+ create plan-b\n.*\n.*\n    next: .*\n"
        r"2 to create, 0 to change, 0 to delete, 0 unchanged\n2 created, 0 changed, 0 deleted, 0 unchanged\n",
        shown,
    )
    assert jobs_of(node, "plan") == {"plan-a": "@yearly", "plan-b": "0 9 * * *"}
    assert node.ok("apply", "-f", file) == "nothing to change\n"


def test_a_change_is_shown_field_by_field_with_the_next_times_before_and_after(node: Live, tmp_path: Path) -> None:
    node.ok("apply", "-f", file_of(tmp_path, job("field-a"), job("field-b"), source="field"))
    file = file_of(tmp_path, job("field-a", "@monthly", more='description = "new"'), job("field-b"), source="field")
    lines = node.ok("apply", "-f", file).splitlines()

    assert lines[0] == "~ change field-a"
    assert '    schedule: "@yearly" → "@monthly"' in lines
    assert '    description: "" → "new"' in lines
    assert any(re.match(r" {4}next before: \d{4}-01-01 00:00:00", line) for line in lines)
    assert any(re.match(r" {4}next after:  \d{4}-\d\d-01 00:00:00", line) for line in lines)
    assert lines[-2:] == [
        "0 to create, 1 to change, 0 to delete, 1 unchanged",
        "0 created, 1 changed, 0 deleted, 1 unchanged",
    ]


def test_a_new_job_is_shown_as_the_file_defines_it(node: Live, tmp_path: Path) -> None:
    more = 'enabled = false\ntimezone = "Europe/Paris"'
    shown = node.ok("apply", "-f", file_of(tmp_path, job("new-a", "0 9 * * 1-5", more=more), source="new"), "--dry-run")

    assert shown.splitlines()[:5] == [
        "+ create new-a",
        "    schedule: 0 9 * * 1-5 (At 09:00, Monday through Friday), Europe/Paris",
        "    target: task t",
        "    paused: the file says enabled = false",
        "    next: none",
    ]


def test_a_dry_run_changes_nothing(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, job("dry-a"), source="dry")

    assert node.ok("apply", "-f", file, "--dry-run").endswith("1 to create, 0 to change, 0 to delete, 0 unchanged\n")
    answer = json.loads(node.ok("apply", "-f", file, "--dry-run", "--json"))
    assert (answer["dry_run"], answer["source"], answer["jobs"][0]["action"]) == (True, "dry", "create")
    assert jobs_of(node, "dry") == {}


def test_json_output_is_the_answer_of_the_api(node: Live, tmp_path: Path) -> None:
    answer = json.loads(node.ok("apply", "-f", file_of(tmp_path, job("json-a"), source="json"), "--json"))

    assert (answer["dry_run"], answer["jobs"][0]["name"], answer["deleted"]) == (False, "json-a", [])
    assert answer["jobs"][0]["id"] == node.json("job", "get", "json-a")["id"]


def test_with_json_output_the_plan_is_shown_beside_the_question(node: Live, tmp_path: Path) -> None:
    node.ok("apply", "-f", file_of(tmp_path, job("beside-a"), job("beside-b"), source="beside"))
    done = node.run("apply", "-f", file_of(tmp_path, job("beside-a"), source="beside"), "--prune", "--json")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("- delete beside-b\n")


def test_all_errors_of_a_file_are_reported_with_lines_before_asking_the_server(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, job("bad-a", "61 * * * *"), job("bad-b", more="enabled = 1"))
    done = node.run("apply", "-f", file, HOURBELL_URL=NOWHERE)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {file} is invalid\n"
        "  line 1, job bad-a: /schedule: minute field, column 1: 61 is outside 0-59\n"
        "  line 6, job bad-b: /enabled: enabled is 1; write true or false\n"
    )


def test_if_the_server_refuses_one_job_of_ten_none_is_applied(node: Live, tmp_path: Path) -> None:
    refused = job("ten-6", target='type = "sql", function = "public.nobody_allowed_it"')
    jobs = [refused if number == 6 else job(f"ten-{number}") for number in range(10)]
    done = node.run("apply", "-f", file_of(tmp_path, *jobs, source="ten"))

    assert done.exit_code == 2
    assert "  line 32, job ten-6: /target" in done.stderr
    assert jobs_of(node, "ten") == {}


def test_prune_deletes_only_jobs_of_the_same_source(node: Live, tmp_path: Path) -> None:
    for source in ("prune", "other"):
        node.ok("apply", "-f", file_of(tmp_path, job(f"{source}-a"), job(f"{source}-b"), source=source))
    node.create("prune-by-hand")
    file = file_of(tmp_path, job("prune-a"), source="prune")

    assert node.ok("apply", "-f", file) == "nothing to change\n"
    refused = node.run("apply", "-f", file, "--prune")
    assert (refused.exit_code, "add --yes" in refused.stderr) == (2, True)
    assert "- delete prune-b\n    next before: " in refused.stdout
    assert set(jobs_of(node, "prune")) == {"prune-a", "prune-b"}
    assert node.ok("apply", "-f", file, "--prune", "--yes").endswith("0 created, 0 changed, 1 deleted, 1 unchanged\n")
    assert set(jobs_of(node, "prune")) == {"prune-a"}
    assert set(jobs_of(node, "other")) == {"other-a", "other-b"}
    assert node.run("job", "get", "prune-by-hand").exit_code == 0


def test_an_empty_file_prunes_nothing(node: Live, tmp_path: Path) -> None:
    done = node.run("apply", "-f", file_of(tmp_path, source="empty"), "--prune", "--yes")

    assert (done.exit_code, "has no jobs, and --prune would delete all" in done.stderr) == (2, True)


def test_pruning_needs_a_source(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, job("sourceless"))
    for said in ((), ("--source", "")):
        done = node.run("apply", "-f", file, "--prune", "--yes", *said)
        assert done.exit_code == 2
        assert "name their source: write source = … in the file, or use --source" in done.stderr
    assert node.run("apply", "-f", file, "--prune", "--dry-run", "--source", "now-said").exit_code == 0


def test_an_incomplete_file_is_applied_with_a_warning_and_prunes_nothing(node: Live) -> None:
    imported = node.run("import", "crontab", "-", "--source", "cron", given="@daily /bin/part\n@reboot x\n").stdout
    applied = node.run("apply", "-f", "-", given=imported)
    pruned = node.run("diff", "-f", "-", "--prune", given=imported)

    assert applied.exit_code == 0
    assert "note: stdin is incomplete: 1 line of the crontab could not be read" in applied.stderr
    assert (pruned.exit_code, "remove the line incomplete = …" in pruned.stderr) == (2, True)


def test_a_file_that_is_too_large_is_refused_with_advice(node: Live, tmp_path: Path) -> None:
    defaults = f'[defaults]\ndescription = "{"é" * 8_000}"\n'
    file = file_of(tmp_path, defaults, *(job(f"large-{number}") for number in range(600)), source="large")
    status, screen = node.terminal("diff", "-f", file)

    assert (status, "too large for one apply" in screen, "hourbell import jobs" in screen) == (2, True, True)


def test_a_job_of_another_owner_is_refused_unless_taken_over(node: Live, tmp_path: Path) -> None:
    node.create("over-b")
    file = file_of(tmp_path, job("over-a"), job("over-b"), source="over")
    refused = node.run("apply", "-f", file, "--yes")

    assert refused.exit_code == 5
    assert re.search(r"^  line 7, job over-b: .*\bapi\b", refused.stderr, re.MULTILINE)
    assert "; take it over (--take-over), delete it there" in refused.stderr
    assert "so nothing was changed" not in node.run("diff", "-f", file).stderr
    assert jobs_of(node, "over") == {}
    unasked = node.run("apply", "-f", file, "--take-over")
    assert (unasked.exit_code, "take over 1 job" in unasked.stderr) == (2, True)
    node.ok("apply", "-f", file, "--take-over", "--yes")
    assert set(jobs_of(node, "over")) == {"over-a", "over-b"}


def test_on_a_terminal_apply_asks_before_deleting_jobs(node: Live, tmp_path: Path) -> None:
    code, shown = node.terminal("apply", "-f", file_of(tmp_path, job("ask-a"), job("ask-b"), source="ask"))
    assert (code, "\x1b[32m+ create ask-a" in shown, "?" in shown) == (0, True, False)
    file = file_of(tmp_path, job("ask-a"), source="ask")

    code, shown = node.terminal("apply", "-f", file, "--prune", typed="n\n")
    assert (code, "Delete 1 job?" in shown, "nothing was done" in shown) == (1, True, True)
    assert set(jobs_of(node, "ask")) == {"ask-a", "ask-b"}
    code, shown = node.terminal("apply", "-f", file, "--prune", typed="y\n")
    assert (code, "1 deleted" in shown) == (0, True)
    assert set(jobs_of(node, "ask")) == {"ask-a"}


def test_the_second_of_two_users_with_the_same_plan_changes_nothing(
    node: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (
        FilePlan(read(file_of(tmp_path, job("race", schedule)), None), "race", prune=False, take_over=False)
        for schedule in ("@daily", "@hourly")
    )
    with Client(node.url) as client:
        mine, theirs = first.ask(client), second.ask(client)
        second.apply(client, theirs.state)
        with pytest.raises(SystemExit) as ended:
            first.apply(client, mine.state)

    assert ended.value.code == 5
    assert "some of it was changed meanwhile" in capsys.readouterr().err
    assert jobs_of(node, "race") == {"race": "@hourly"}


def test_a_pause_by_the_file_ends_when_the_file_enables_the_job(node: Live, tmp_path: Path) -> None:
    states = []
    for more in ("enabled = false", "enabled = true"):
        node.ok("apply", "-f", file_of(tmp_path, job("own-pause", more=more), source="own-pause"))
        states.append(node.json("job", "get", "own-pause")["state"])

    assert states == ["paused", "active"]


def test_a_pause_by_an_operator_stays_whatever_the_file_says(node: Live, tmp_path: Path) -> None:
    node.ok("apply", "-f", file_of(tmp_path, job("pause-a"), source="pause"))
    node.ok("job", "pause", "pause-a", "--note", "maintenance")
    shown = node.ok("apply", "-f", file_of(tmp_path, job("pause-a", "@daily", more="enabled = true"), source="pause"))
    found = node.json("job", "get", "pause-a")

    assert re.search(r"^    note: .*paused", shown, re.MULTILINE)
    assert (found["state"], found["paused"]["note"], found["schedule"]) == ("paused", "maintenance", "@daily")


def test_referenced_secrets_are_resolved_and_never_shown(node: Live, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer very-hidden\n")
    target = webhook(node, 'secret = "env:HOOK", headers = { Authorization = "file:token", X-Team = "a" }')
    file = file_of(tmp_path, job("hide", target=target), source="hide")
    steps = (("diff", "-f", file), ("apply", "-f", file), ("apply", "-f", file, "--json"), ("job", "get", "hide"))
    (tmp_path / "token2").write_text("Bearer another-hidden")
    changed = tmp_path / "changed.toml"
    changed.write_text(Path(file).read_text().replace("file:token", "file:token2"))
    steps += (("apply", "-f", str(changed)), ("job", "get", "hide", "--json"), ("export", "--source", "hide"))
    done = [node.run(*step, HOOK=SECRET) for step in steps]
    shown = "".join(each.stdout + each.stderr for each in done)

    assert [each.exit_code for each in done] == [1, 0, 0, 0, 0, 0, 0], shown
    assert "hidden, another" in done[4].stdout
    assert {each["field"] for each in json.loads(done[5].stdout)["secrets"]} == {"signing", "header:Authorization"}
    assert json.loads(done[5].stdout)["target"]["headers"] == {"X-Team": "a"}
    for secret in (SECRET, SECRET.removeprefix("whsec_"), "very-hidden", "another-hidden"):
        assert secret not in shown


def test_an_unresolvable_or_invalid_secret_is_reported_without_its_value(node: Live, tmp_path: Path) -> None:
    target = webhook(node, 'secret = "env:HOOK", headers = { A = "env:NO" }')
    done = node.run("apply", "-f", file_of(tmp_path, job("nowhere", target=target)), HOOK="very-hidden")

    assert done.exit_code == 2
    assert "line 1, job nowhere: /target/secret: " in done.stderr
    assert "line 1, job nowhere: /target/headers/A: env:NO is not set; set the variable NO" in done.stderr
    assert "very-hidden" not in done.output


def test_a_diff_leaves_out_references_it_cannot_resolve(node: Live, tmp_path: Path) -> None:
    target = webhook(node, 'secret = "env:HOOK", headers = { Authorization = "file:token" }')
    file = file_of(tmp_path, job("unseen", target=target), source="unseen")
    (tmp_path / "token").write_text("Bearer hidden")
    assert node.run("apply", "-f", file, HOOK=SECRET).exit_code == 0
    (tmp_path / "token").unlink()
    done = node.run("diff", "-f", file)

    assert (done.exit_code, done.stdout) == (0, "nothing to change\n")
    assert done.stderr.splitlines() == [
        "note: env:HOOK is not set; it is left out of the comparison",
        "note: file:token cannot be read: No such file or directory; it is left out of the comparison",
    ]
    assert node.run("apply", "-f", file, "--dry-run").exit_code == 2


def test_a_generated_secret_is_shown_once(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, job("made", target=webhook(node, 'secret = "generate"')), source="made")

    assert re.search(r"^secret of made: whsec_\S+  \(it is not shown again\)$", node.ok("apply", "-f", file), re.M)
    assert node.ok("apply", "-f", file) == "nothing to change\n"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (job("stdin"), ()),
        ('job:\n  - {name: stdin, schedule: "@yearly", target: {type: task, name: t}}\n', ()),
        ('{"job": [{"name": "stdin", "schedule": "@yearly", "target": {"type": "task", "name": "t"}}]}', ()),
        ('{"job": [{"name": "stdin", "schedule": "@yearly", "target": {"type": "task", "name": "t"}}]}', ("yaml",)),
    ],
    ids=["toml", "yaml", "json", "said"],
)
def test_a_file_may_come_from_stdin_in_any_format(node: Live, text: str, more: tuple[str, ...]) -> None:
    said = ("--format", *more) if more else ()
    done = node.run("diff", "-f", "-", "--source", "stdin", *said, given=text)

    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "+ create stdin"), done.output


def test_a_crontab_can_be_compared_before_it_is_applied(node: Live) -> None:
    imported = node.ok("import", "crontab", "-", given="0 3 * * * /usr/bin/backup\n")
    done = node.run("diff", "-f", "-", given=imported)

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "1 to create, 0 to change, 0 to delete, 0 unchanged")


def test_the_exit_code_of_diff_shows_whether_anything_differs(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, job("diff-a"), source="diff")

    assert node.run("diff", "-f", file).exit_code == 1
    assert jobs_of(node, "diff") == {}
    node.ok("apply", "-f", file)
    same = node.run("diff", "-f", file)
    assert (same.exit_code, same.stdout) == (0, "nothing to change\n")
    assert node.run("diff", "-f", file_of(tmp_path, job("diff-b"), source="diff"), "--prune").exit_code == 1
    lost = node.run("diff", "-f", file, HOURBELL_URL=NOWHERE)
    assert (lost.exit_code, "unreachable" in lost.stderr) == (2, True)
    assert node.run("diff", "-f", file_of(tmp_path, job("diff-a", "no"))).exit_code == 2
    assert node.run("diff", "-f", str(tmp_path / "no.toml")).exit_code == 2


def test_source_comes_from_the_option_or_the_file_or_is_empty(node: Live, tmp_path: Path) -> None:
    node.ok("apply", "-f", file_of(tmp_path, job("label-a"), source="label"), "--source", "said")
    node.ok("apply", "-f", file_of(tmp_path, job("label-b")))

    assert node.json("job", "get", "label-a")["source"] == "said"
    assert (node.json("job", "get", "label-b")["managed_by"], node.json("job", "get", "label-b")["source"]) == (
        "file",
        "",
    )


def test_a_file_that_is_not_text_is_an_error(node: Live, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_bytes(b"\xff\xfe")
    done = node.run("apply", "-f", str(tmp_path / "jobs.toml"))

    assert (done.exit_code, "is not UTF-8" in done.stderr) == (2, True)
