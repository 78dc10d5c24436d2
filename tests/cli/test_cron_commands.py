"""`hourbell cron`, as a person and as a script meet it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hourbell.cli.main import hourbell

COMMAND = str(Path(sys.executable).parent / "hourbell")
NEW_YORK = ["--timezone", "America/New_York"]
BEFORE_SPRING = ["--after", "2026-03-07T12:00:00Z"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hourbell, ["cron", *arguments])


def run_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, **environment}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=everything, check=False)


def run_on_a_terminal(*arguments: str, **environment: str) -> str:
    """Return stdout and stderr of the command on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    everything = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=everything)
    process.wait()
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # the terminal is empty and its other end closed
    os.close(ours)
    return shown.decode()


def test_next_shows_zone_offset_and_utc() -> None:
    result = run("next", "0 9 * * *", "-n", "2", *NEW_YORK, *BEFORE_SPRING)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "America/New_York                    UTC",
        "Sat 2026-03-07 09:00:00 -05:00 EST  2026-03-07T14:00:00Z",
        "Sun 2026-03-08 09:00:00 -04:00 EDT  2026-03-08T13:00:00Z  after a clock change",
    ]


def test_next_marks_a_time_in_a_daylight_saving_gap() -> None:
    result = run("next", "30 2 * * *", "-n", "1", *NEW_YORK, *BEFORE_SPRING)

    assert result.stdout.splitlines()[1].endswith("2026-03-08T07:00:00Z  02:30 does not exist that day")


def test_next_marks_the_second_pass_of_a_repeated_hour() -> None:
    result = run("next", "*/30 * * * *", "-n", "3", *NEW_YORK, "--after", "2026-11-01T05:00:00Z")

    notes = [line[58:] for line in result.stdout.splitlines()[1:]]
    assert notes == ["", "second pass of a repeated hour", "second pass of a repeated hour"]


def test_json_output_has_the_description_times_and_warnings() -> None:
    body = json.loads(run("next", "30 2 * * *", "-n", "1", "--json", *NEW_YORK, *BEFORE_SPRING).stdout)

    assert body["description"] == "At 02:30"
    assert body["upcoming"] == [
        {
            "at": "2026-03-08T07:00:00Z",
            "local": "2026-03-08T03:00:00-04:00",
            "zone_abbreviation": "EDT",
            "nominal_local": "2026-03-08T02:30:00",
            "shifted": True,
            "fold": 0,
        }
    ]
    assert [warning["code"] for warning in body["warnings"]] == ["gap"]


def test_next_reports_on_stderr_that_a_schedule_is_over() -> None:
    result = run("next", "at 2020-01-01T00:00:00Z")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "it never fires again\n")


def test_explain_shows_the_resolved_values_of_h() -> None:
    result = run("explain", "H 3 * * *", "--name", "nightly-report")

    assert "H 3 * * * resolves to 4 3 * * *" in result.stdout


def test_check_is_silent_on_stderr_and_exits_with_0() -> None:
    result = run("check", "*/15 9-17 * * 1-5")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "ok: Every 15 minutes, from 09:00 through 17:59, Monday through Friday (UTC)\n"


def test_check_puts_warnings_on_stderr() -> None:
    result = run("check", "30 2 * * *", *NEW_YORK, *BEFORE_SPRING)

    assert result.exit_code == 0
    assert result.stderr == ("warning: 02:30 does not exist on 8 March 2026 in America/New_York; runs at 03:00\n")


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "at 2020-01-01T00:00:00Z"])
def test_check_fails_for_a_schedule_that_never_fires(expression: str) -> None:
    result = run("check", expression)

    assert result.exit_code == 1
    assert "it never fires after" in result.stderr


@pytest.mark.parametrize("command", ["next", "explain", "check"])
def test_a_caret_marks_every_error(command: str) -> None:
    result = run(command, "0 25 * * MONDAY")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: hour field, column 3: 25 is outside 0-23",
        "  0 25 * * MONDAY",
        "    ^^",
        "error: day-of-week field, column 10: MONDAY is not a value; write MON",
        "  0 25 * * MONDAY",
        "           ^^^^^^",
    ]


def test_the_caret_is_in_the_right_column_of_a_long_text() -> None:
    line, caret = run("check", "1," * 120 + "99 * * * *").stderr.splitlines()[1:3]

    assert len(line) <= 110
    assert line[caret.index("^") :].startswith("99 ")


def test_json_output_lists_schedule_errors() -> None:
    result = run("check", "60 * * * *", "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "valid": False,
        "errors": [
            {
                "field": "minute",
                "column": 1,
                "text": "60",
                "message": "60 is outside 0-59",
                "allowed": "0-59",
                "hint": None,
            }
        ],
    }


@pytest.mark.parametrize(
    ("after", "first"),
    [
        ("2026-12-24T18:00:00Z", "2026-12-25T08:00:00Z"),
        ("2026-12-24T08:30", "2026-12-24T08:00:00Z"),
        ("2026-12-24", "2026-12-24T08:00:00Z"),
        ("2026-12-24 10:00", "2026-12-25T08:00:00Z"),
    ],
)
def test_after_accepts_times_in_the_zone_of_the_schedule(after: str, first: str) -> None:
    result = run("next", "0 9 * * *", "-z", "Europe/Paris", "-n", "1", "--after", after, "--json")

    assert json.loads(result.stdout)["upcoming"][0]["at"] == first


def test_an_invalid_after_explains_how_to_write_a_time() -> None:
    result = run("next", "0 9 * * *", "--after", "whenever")

    assert result.exit_code == 2
    assert "write 2026-12-24T18:00:00Z, now, -2h or 'tomorrow 09:00'" in result.stderr


def test_an_unknown_zone_gets_a_suggestion() -> None:
    result = run("next", "0 9 * * *", "-z", "new york")

    assert result.exit_code == 2
    assert "did you mean America/New_York?" in result.stderr


def test_a_mistyped_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(hourbell, ["corn"])

    assert result.exit_code == 2
    assert "Did you mean 'cron'?" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["cron"], ["cron", "next"], ["cron", "explain"], ["cron", "check"]])
def test_help_starts_with_examples(arguments: list[str]) -> None:
    result = CliRunner().invoke(hourbell, [*arguments, "--help"])

    assert result.exit_code == 0
    assert result.stdout.startswith("Examples:\n  hourbell ")


@pytest.mark.parametrize("arguments", [["cron"], ["cron", "next"], ["cron", "explain"], ["cron", "check"]])
def test_every_example_of_the_help_works(arguments: list[str]) -> None:
    shown = CliRunner().invoke(hourbell, [*arguments, "--help"]).stdout
    examples = [line.strip() for line in shown.partition("\n\n")[0].splitlines()[1:]]

    for example in examples:
        done = subprocess.run(
            example.replace("hourbell", COMMAND, 1), shell=True, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, example + done.stderr


def test_colour_is_for_terminals_only() -> None:
    piped = run_process("cron", "check", "60 * * * *")

    assert (piped.returncode, "\x1b" in piped.stderr) == (2, False)
    assert "\x1b[31merror" in run_on_a_terminal("cron", "check", "60 * * * *")
    assert "\x1b" not in run_on_a_terminal("cron", "check", "60 * * * *", NO_COLOR="1")


def test_a_closed_pipe_is_not_an_error() -> None:
    done = subprocess.run(
        f"{COMMAND} cron next '* * * * * *' -n 10000 | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("UTC                                 UTC", "")


def test_time_zones_are_completed() -> None:
    done = run_process(
        _HOURBELL_COMPLETE="bash_complete", COMP_WORDS="hourbell cron next --timezone europe/par", COMP_CWORD="4"
    )

    assert "Europe/Paris" in done.stdout
