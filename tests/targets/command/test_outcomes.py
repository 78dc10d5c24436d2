"""The input and the environment of a command, its exit code and its output. Every command here really runs."""

import asyncio
import json
import os
import pwd
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from hourbell.core.run.settle import Failed, Succeeded, Unstarted
from tests.targets.command.steps import SEALS, Attempt

pytestmark = pytest.mark.anyio

OWN = pwd.getpwuid(os.geteuid()).pw_name


def shell(text: str, **more: Any) -> Attempt:
    payload = more.pop("payload", None)
    return Attempt({"command": text, **more}, payload=payload)


async def test_a_command_succeeds_and_its_output_is_its_log_in_order() -> None:
    attempt = shell("echo one; echo two >&2; printf three")
    outcome = await attempt.make()

    assert isinstance(outcome, Succeeded)
    assert outcome.answer is not None
    assert (outcome.result, outcome.answer.excerpt) == (None, "one\ntwo\nthree")
    assert attempt.lines == ["one", "two", "three"]
    assert attempt.begins == 1


async def test_arguments_are_never_read_by_a_shell() -> None:
    attempt = Attempt({"command": ["echo", "$HOME; `id` | *", "a  b"]})
    await attempt.make()

    assert attempt.lines == ["$HOME; `id` | * a  b"]


async def test_a_failure_has_the_exit_code_and_the_last_lines() -> None:
    error = await shell("echo first; echo; echo 'disk is full' >&2; exit 3").error()

    assert error.splitlines() == ["exit code 3: disk is full", "first", "disk is full"]
    assert await shell("exit 4").error() == "exit code 4"


@pytest.mark.parametrize(
    ("codes", "code", "expected"),
    [
        ({}, 0, "ok"),
        ({}, 1, "retried"),
        ({"ok": [0, 1]}, 1, "ok"),
        ({"ok": [1]}, 0, "retried"),
        ({"nothing": [3]}, 3, "nothing"),
        ({"retry": [75]}, 75, "retried"),
        ({"retry": [75]}, 1, "failed"),
        ({"retry": []}, 1, "failed"),
    ],
)
async def test_exit_codes_mean_what_the_job_says(codes: dict[str, Any], code: int, expected: str) -> None:
    outcome = await shell(f"exit {code}", exit_codes=codes).make()

    if isinstance(outcome, Failed):
        assert expected == ("retried" if outcome.retryable else "failed")
    else:
        assert isinstance(outcome, Succeeded)
        assert outcome.result == ({"message": "nothing to do"} if expected == "nothing" else None)


async def test_a_json_object_on_the_last_line_is_the_result_and_a_percentage_the_progress() -> None:
    attempt = shell("echo start; echo ' 42% '; sleep 1.3; echo '{\"rows\": 3}'")
    outcome = await attempt.make()

    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"rows": 3}
    assert attempt.written[-1].fraction == 0.42
    by_json = shell("""echo '{"progress": 0.5, "message": "half"}'; sleep 1.3; echo done""")
    await by_json.make()
    assert (by_json.written[-1].fraction, by_json.written[-1].message) == (0.5, "half")


async def test_the_payload_comes_by_stdin_and_a_variable_and_not_by_arguments() -> None:
    payload = {"name": "Zoë; rm -rf /", "days": [1, None]}
    attempt = shell('cat; echo; echo "$HOURBELL_PAYLOAD"; echo "$#"', payload=payload)
    await attempt.make()

    assert [json.loads(line) for line in attempt.lines] == [payload, payload, 0]


async def test_stdin_is_the_jobs_text_or_empty() -> None:
    given, nothing = shell("cat", stdin="a\nb\n", payload={"x": 1}), shell("cat; echo end")
    await given.make()
    await nothing.make()

    assert (given.lines, nothing.lines) == (["a", "b"], ["end"])


async def test_a_large_payload_comes_by_stdin_only() -> None:
    attempt = shell('wc -c; echo "[${HOURBELL_PAYLOAD-unset}]"', payload="x" * 3_000_000)
    await attempt.make()

    assert attempt.lines == ["3000002", "[unset]"]


async def test_the_environment_is_clean_and_has_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_SECRET_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGHOST", "db.example")
    attempt = Attempt({"command": ["env"], "env": {"A": "x y", "LANG": "C"}, "inherit_env": ["PGHOST", "PGUSER"]})
    await attempt.make()
    found = dict(line.split("=", 1) for line in attempt.lines)

    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert found == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C",
        "SHELL": "/bin/sh",
        "HOME": home,
        "USER": OWN,
        "LOGNAME": OWN,
        "PGHOST": "db.example",
        "A": "x y",
        "HOURBELL_RUN_ID": str(attempt.run.id),
        "HOURBELL_JOB": "backup",
        "HOURBELL_SCHEDULED_AT": "2026-03-02T08:59:59Z",
        "HOURBELL_TRIGGER": "schedule:@daily",
        "HOURBELL_ATTEMPT": "2",
    }


async def test_an_env_file_is_read_and_refused_if_others_can_change_it(tmp_path: Path) -> None:
    file = tmp_path / "shop.env"
    file.write_text("# comment\n\nexport TOKEN='a b'\nEMPTY=\nQUOTED=\"x\"\nURL=a=b\n")
    file.chmod(0o600)
    attempt = shell('echo "$TOKEN|$EMPTY|$QUOTED|$URL"', env_file=str(file))
    await attempt.make()
    assert attempt.lines == ["a b||x|a=b"]

    file.chmod(0o666)
    assert f"run: chmod go-w {file}" in await shell("true", env_file=str(file)).error()
    file.chmod(0o600)
    file.write_text("A=1\nnot an assignment: secret\n")
    assert await shell("true", env_file=str(file)).error() == f"env_file {file}: line 2 is not NAME=value"
    assert "No such file" in await shell("true", env_file="/nowhere/x").error()
    assert "is not a file" in await shell("true", env_file="/dev/null").error()


async def test_folder_umask_and_priority_are_those_of_the_job(tmp_path: Path) -> None:
    attempt = shell("pwd; touch made; nice; umask", cwd=str(tmp_path), umask="027", nice=7)
    await attempt.make()

    nice = os.nice(0) + 7
    assert attempt.lines == [str(tmp_path), str(nice), "0027"]
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"command": ["/nowhere/program"]}, "/nowhere/program: No such file or directory"),
        ({"command": ["/etc/passwd"]}, "/etc/passwd: Permission denied"),
        ({"command": "true", "cwd": "/nowhere"}, "cwd /nowhere: No such file or directory"),
    ],
)
async def test_a_command_that_cannot_start_is_a_failure_with_no_effect(target: dict[str, Any], message: str) -> None:
    outcome = await Attempt(target).make()

    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.begun, outcome.retryable) == (message, False, True)


@pytest.mark.parametrize(
    ("command", "limits", "message"),
    [
        ([sys.executable, "-c", "'x' * 10**9"], {"memory": "300M"}, "MemoryError"),
        pytest.param(
            ["/bin/sh", "-c", "while :; do :; done"],
            {"cpu": "1s"},
            "killed by SIGXCPU: it used more than limits.cpu, 1s",
            marks=pytest.mark.full,
        ),
        (["/bin/sh", "-c", "head -c 2000000 /dev/zero > $HOME/big"], {"file_size": "1M"}, "File size limit exceeded"),
        (["/bin/sh", "-c", "ulimit -n; exit 1"], {"open_files": 64}, "exit code 1: 64"),
        (
            ["/bin/sh", "-c", "ulimit -u 2>/dev/null || ulimit -p; exit 1"],
            {"processes": 50_000},
            "exit code 1: 50000",
        ),
    ],
    ids=["memory", "cpu", "file_size", "open_files", "processes"],
)
async def test_limits_are_enforced(command: list[str], limits: dict[str, Any], message: str, tmp_path: Path) -> None:
    error = await Attempt({"command": command, "limits": limits, "env": {"HOME": str(tmp_path)}}).error()

    assert message in error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as other users")
async def test_root_runs_a_command_as_a_user_on_the_list() -> None:
    attempt = Attempt(
        {"command": "id -un; id -Gn; pwd; echo $HOME $USER; kill -9 $PPID || echo cannot", "user": "nobody"}
    )
    attempt.node._users = frozenset(["nobody"])
    await attempt.make()

    nobody = pwd.getpwnam("nobody")
    folder = nobody.pw_dir if Path(nobody.pw_dir).is_dir() else "/"
    assert [attempt.lines[0], *attempt.lines[2:4]] == ["nobody", folder, f"{nobody.pw_dir} nobody"]
    assert "root" not in attempt.lines[1]
    assert attempt.lines[-1] == "cannot"


async def test_a_user_that_is_not_allowed_is_refused_with_what_to_do() -> None:
    attempt = Attempt({"command": "true", "user": "daemon"})
    error = await attempt.error()

    expected = "not in HOURBELL_COMMAND_USERS" if os.geteuid() == 0 else f"this node runs as {OWN}"
    assert expected in error
    assert attempt.begins == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as other users")
async def test_a_user_that_the_machine_does_not_have_is_refused() -> None:
    assert (
        await Attempt({"command": "true", "user": "no.such"}, users=("no.such",)).error()
        == "this machine has no user no.such"
    )


@pytest.mark.parametrize(
    "seal", ["none", "garbage", "other job", "other version", "other command", "other key", "other label"]
)
async def test_a_command_without_its_own_seal_does_not_run(seal: str, tmp_path: Path) -> None:
    from uuid import UUID

    from hourbell.core.job.command import CommandCall
    from hourbell.sealing import CommandSeals, KeyRing

    text = f"touch {tmp_path}/ran"
    attempt, call = Attempt({"command": text}), CommandCall(text)
    run = attempt.run
    attempt.seal = {
        "none": None,
        "garbage": f"{SEALS.newest}:é",
        "other job": SEALS.seal(UUID(int=99), run.job_version, call),
        "other version": SEALS.seal(run.job_id, run.job_version - 1, call),
        "other command": SEALS.seal(run.job_id, run.job_version, CommandCall("true")),
        "other key": CommandSeals.of(KeyRing([b"x" * 32], bytes)).seal(run.job_id, run.job_version, call),
        "other label": SEALS.seal(run.job_id, run.job_version, CommandCall(text, "db1")),
    }[seal]
    outcome = await attempt.make()

    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert "is not sealed with a key of this node" in outcome.error
    assert "--approve-command" in outcome.error
    assert (attempt.begins, list(tmp_path.iterdir())) == (0, [])


async def test_a_seal_that_cannot_be_read_hands_the_run_back(caplog: pytest.LogCaptureFixture) -> None:
    attempt = Attempt({"command": "true"})
    call = attempt.call()

    async def fail() -> str | None:
        raise OSError("the database is unreachable")

    call.command_seal = fail  # type: ignore[method-assign]
    assert await attempt.node.deliver(call) == Unstarted()
    assert [record.message for record in caplog.records] == ["command_seal_unreadable"]
    await attempt.node.close()


async def test_a_run_in_the_lane_of_another_label_does_not_run() -> None:
    outcome = await Attempt({"command": "true", "label": "db1"}, lane="command:default").make()

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, "lane" in outcome.error) == (False, True)


async def test_a_run_of_another_target_does_not_run() -> None:
    attempt = Attempt({"command": "true"})
    object.__setattr__(attempt, "definition", type(attempt.definition)("a", "@daily", {"type": "task", "name": "x"}))

    assert "its target has another type" in await attempt.error()


async def test_without_a_free_slot_a_run_is_handed_back() -> None:
    attempt = shell("sleep 5")
    first = asyncio.create_task(attempt.node.deliver(attempt.call()))
    while not attempt.begins:
        await asyncio.sleep(0.02)

    assert await attempt.node.deliver(attempt.call()) == Unstarted()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await attempt.node.close()
