"""`hourbell import crontab`, as a person and as a script meet it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.main import hourbell
from hourbell.core.formats.jobs_file import FORMATS, Format, read_jobs_file

COMMAND = str(Path(sys.executable).parent / "hourbell")
CRONTABS = Path(__file__).parents[1] / "crontabs"
GOOD = "# Nightly\n0 3 * * * /bin/backup\n"
BAD = GOOD + "@reboot /bin/boot\n61 * * * * /bin/x\n"


def run(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(hourbell, ["import", "crontab", *arguments], input=given)


def names(text: str, format: Format = "toml") -> list[str]:  # noqa: A002
    return [job.definition.name for job in read_jobs_file(text, format, str).jobs]


def test_a_crontab_becomes_a_jobs_file_on_stdout() -> None:
    result = run("-", "--timezone", "Europe/Berlin", given=GOOD)

    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout == (
        '[[job]]\nname = "backup"\nschedule = "0 3 * * *"\ntimezone = "Europe/Berlin"\n'
        'target = { type = "task", name = "crontab.backup" }\ndescription = """\n'
        "Nightly\n\nImported from a crontab, line 2. Disabled: the task is not written yet. The command was:\n"
        '/bin/backup"""\nenabled = false\ntags = ["crontab"]\n'
    )


def test_piped_input_needs_no_dash() -> None:
    assert run(given=GOOD).stdout == run("-", given=GOOD).stdout


def test_lines_with_problems_are_reported_and_the_rest_is_converted() -> None:
    result = run("-", "-z", "UTC", given=BAD)

    assert result.exit_code == 1
    assert names(result.stdout) == ["backup"]
    assert result.stderr.splitlines() == [
        "error: line 3: @reboot is not a time; make it a systemd service with WantedBy=multi-user.target, "
        "or let such a service trigger a job",
        "error: line 4: minute field, column 1: 61 is outside 0-59",
    ]
    assert "# crontab line 3: could not be read: @reboot /bin/boot\n" in result.stdout
    assert 'incomplete = "2 lines of the crontab could not be read"\n' in result.stdout
    assert read_jobs_file(run("-", given=BAD[: BAD.index("61")]).stdout, "toml", str).incomplete == (
        "1 line of the crontab could not be read"
    )


def test_the_source_is_written_and_names_get_the_prefix() -> None:
    result = run("-", "-z", "UTC", "--source", "web1-cron", "--prefix", "web1-", given=GOOD)

    assert result.stdout.startswith('source = "web1-cron"\n\n[[job]]\nname = "web1-backup"\n')


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", sorted(CRONTABS.glob("*.cron")), ids=lambda path: path.stem)
def test_every_format_reads_as_the_same_jobs(format: Format, path: Path) -> None:  # noqa: A002
    result = run(str(path), "-o", format)
    jobs = read_jobs_file(result.stdout, format, str).jobs

    reported = re.findall(r"^error: line \d+: ", result.stderr, re.MULTILINE)
    assert result.exit_code == (1 if reported else 0)
    assert [job.definition for job in jobs] == [
        job.definition for job in read_jobs_file(run(str(path)).stdout, "toml", str).jobs
    ]
    for comment in re.findall(r"^#(?: crontab line \d+)", run(str(path)).stdout, re.MULTILINE):
        assert format != "json" or comment.removeprefix("# ") in result.stderr


def test_json_output_is_a_jobs_file_too() -> None:
    body = json.loads(run("-", "-o", "json", given=GOOD).stdout)

    assert body["job"][0]["schedule"] == "0 3 * * *"


def test_the_crontab_format_is_guessed_and_reported_and_can_be_set() -> None:
    line = "0 3 * * * root /bin/backup\n"

    guessed = run("-", given=line)
    assert "note: read as a system crontab, because root is where a user would be; --user reads" in guessed.stderr
    assert names(guessed.stdout) == names(run("-", "--system", given=line).stdout) == ["backup"]
    assert names(run("-", "--user", given=line).stdout) == ["root"]


def test_without_a_time_zone_the_one_used_is_reported() -> None:
    assert "in UTC; --timezone sets another" in run("-", given=GOOD).stderr


def test_a_crontab_that_is_not_utf_8_is_read() -> None:
    result = run("-", given="# für\n@daily /bin/x\n".encode("latin-1"))

    assert "note: the crontab is not UTF-8; it was read as Latin-1" in result.stderr
    assert "für" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--timezone", "europe/berlin"], "did you mean Europe/Berlin?"),
        (["/nowhere/crontab"], "No such file"),
        (["-", "-o", "xml"], "'xml' is not one of"),
        (["-", "--prefix", "web 1"], "letters, digits, _ and -"),
        (["-", "--source", ""], "1 to 200 printable characters"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_on_a_terminal_without_a_file_it_does_not_wait_for_input() -> None:
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [COMMAND, "import", "crontab"], stdin=theirs, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.returncode == 2
    assert "crontab -l | hourbell import crontab -" in done.stderr


@pytest.mark.parametrize("arguments", [["import"], ["import", "crontab"]], ids=" ".join)
def test_help_begins_with_examples_that_run(arguments: list[str], tmp_path: Path) -> None:
    shown = CliRunner().invoke(hourbell, [*arguments, "--help"]).stdout
    examples = re.findall(r"^  (.*hourbell import crontab.*)$", shown.partition("Usage:")[0], re.MULTILINE)

    assert shown.startswith("Examples:")
    assert examples
    (tmp_path / "crontab").write_text("#!/bin/sh\necho '0 3 * * * /bin/backup'\n")
    (tmp_path / "crontab").chmod(0o755)
    (tmp_path / "backup.cron").write_text(GOOD)
    system = tmp_path / "system"
    system.write_text("0 3 * * * root /bin/backup\n")
    environment = {**os.environ, "PATH": f"{tmp_path}:{Path(COMMAND).parent}:{os.environ['PATH']}"}
    for example in examples:
        line = example.replace("/etc/crontab", str(system))
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, example


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "MAILTO=me\n"])
def test_a_crontab_without_entries_is_reported(text: str) -> None:
    done = CliRunner().invoke(hourbell, ["import", "crontab", "-"], input=text)

    assert done.exit_code == 0
    assert "note: the crontab has no entry, so there is no job in the file\n" in done.stderr
