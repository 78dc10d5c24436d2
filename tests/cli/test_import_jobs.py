"""`hourbell import jobs` against a real node: a result for each line, and what was refused with its line."""

import json
from pathlib import Path

import pytest

from tests.cli.live import Live


def lines(node: Live, *names: str) -> str:
    jobs = [{"name": name, "schedule": "@daily", "target": {"type": "http", "url": node.receiver}} for name in names]
    return "".join(f"{json.dumps(job)}\n" for job in jobs)


def test_jobs_are_created_updated_and_left_unchanged_by_name(node: Live, tmp_path: Path) -> None:
    (tmp_path / "shop.ndjson").write_text(lines(node, "one", "two"))
    first = node.run("import", "jobs", str(tmp_path / "shop.ndjson"), "--source", "shop")
    second = node.run("import", "jobs", "-", "--source", "shop", given=lines(node, "one"))

    assert [line.split()[:3] for line in first.stdout.splitlines()] == [
        ["LINE", "NAME", "RESULT"],
        ["1", "one", "created"],
        ["2", "two", "created"],
    ]
    assert (first.exit_code, first.stderr) == (0, "2 created\n")
    assert (second.exit_code, second.stderr) == (0, "1 unchanged\n")
    assert node.ok("job", "list", "--source", "shop", "-o", "name") == "one\ntwo\n"


def test_a_refused_line_is_reported_with_its_number_and_does_not_affect_others(node: Live) -> None:
    bad = json.dumps({"name": "bad", "schedule": "0 2x * * *", "target": {"type": "http", "url": "x"}})
    done = node.run("import", "jobs", "-", given=f"{bad}\n{lines(node, 'kept')}{{\n")

    assert done.exit_code == 2
    assert "error: line 1: /schedule: hour field, column 3: 2x is not a value" in done.stderr
    assert "error: line 3: this is not JSON" in done.stderr
    assert done.stderr.endswith("1 created, 2 refused\n")
    assert node.run("job", "get", "kept").exit_code == 0


def test_a_job_of_another_owner_is_a_conflict(node: Live) -> None:
    node.ok("import", "jobs", "-", "--source", "mine", "--managed-by", "file", given=lines(node, "owned"))
    done = node.run("import", "jobs", "-", "--source", "yours", given=lines(node, "owned"))

    assert (done.exit_code, "error: line 1: " in done.stderr) == (5, True)


@pytest.mark.parametrize("turn", [1, -1])
def test_the_exit_code_does_not_depend_on_the_order_of_lines(node: Live, turn: int) -> None:
    node.ok("import", "jobs", "-", "--source", "mine", "--managed-by", "file", given=lines(node, "ordered"))
    given = "".join([lines(node, "ordered"), "{\n"][::turn])

    assert node.run("import", "jobs", "-", "--source", "yours", given=given).exit_code == 2


def test_json_output_is_the_answer_of_the_api(node: Live) -> None:
    args = ("import", "jobs", "-", "--dry-run")
    whole = json.loads(node.ok(*args, "--json", given=lines(node, "dry")))
    each = node.ok(*args, "-o", "ndjson", given=lines(node, "dry"))

    assert whole == {"items": [{"line": 1, "name": "dry", "result": "created"}]}
    assert json.loads(each) == whole["items"][0]
    assert node.ok(*args, "-o", "name", given=lines(node, "dry")) == "dry\n"
    assert node.run("job", "get", "dry").exit_code == 3


def test_pruning_shows_what_it_would_delete_and_needs_yes_without_a_terminal(node: Live, tmp_path: Path) -> None:
    node.ok("import", "jobs", "-", "--source", "pruned", given=lines(node, "stays", "goes"))
    (tmp_path / "less.ndjson").write_text(lines(node, "stays"))
    args = ("import", "jobs", str(tmp_path / "less.ndjson"), "--source", "pruned", "--prune")

    dry = node.run(*args, "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "would be: 1 unchanged, 1 pruned\n")
    asked = node.run(*args)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.startswith("1 job would be deleted: goes\n")
    assert node.run("job", "get", "goes").exit_code == 0
    done = node.run(*args, "--yes")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, "1 unchanged, 1 pruned")
    assert node.run("job", "get", "goes").exit_code == 3


def test_piped_input_with_prune_is_read_once(node: Live) -> None:
    node.ok("import", "jobs", "-", "--source", "pipe", given=lines(node, "pipe-1", "pipe-2"))
    done = node.run("import", "jobs", "-", "--source", "pipe", "--prune", "--yes", given=lines(node, "pipe-1"))

    assert (done.exit_code, node.ok("job", "list", "--source", "pipe", "-o", "name")) == (0, "pipe-1\n")


def test_on_a_terminal_pruning_asks_and_shows_progress(node: Live, tmp_path: Path) -> None:
    node.ok("import", "jobs", "-", "--source", "asked", given=lines(node, "asked-1", "asked-2"))
    (tmp_path / "less.ndjson").write_text(lines(node, "asked-1"))
    args = ("import", "jobs", str(tmp_path / "less.ndjson"), "--source", "asked", "--prune")

    status, screen = node.terminal(*args, typed="n\n")
    assert (status, "Delete 1 job? [y/N]" in screen) == (1, True)
    status, screen = node.terminal(*args, typed="y\n")
    assert (status, "importing: " in screen) == (0, True)
    assert node.run("job", "get", "asked-2").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["-", "--prune", "--yes"], 2, "Pruning needs a source"),
        (["/nowhere.ndjson"], 2, "No such file"),
        (["-", "--source", "none", "--prune", "--yes"], 5, "no job was pruned, because none was imported"),
        (["-", "--server", "http://127.0.0.1:1"], 1, "the server is unreachable"),
    ],
)
def test_failures_are_reported_with_their_exit_codes(
    node: Live, arguments: list[str], exit_code: int, message: str
) -> None:
    done = node.run("import", "jobs", *arguments, given="")

    assert done.exit_code == exit_code
    assert message in done.stderr
