"""The outcome of a command: exit codes, signals and timeouts, with the end of its output."""

import signal

from hourbell.core.job.command import NOTHING_TO_DO, CommandCall
from hourbell.core.run.settle import Answer, Failed, Outcome, Succeeded
from hourbell.core.values.readers import show_duration
from hourbell.targets.command.execution import Ended
from hourbell.targets.command.output import Output
from hourbell.targets.task_run import MAX_ERROR_CHARACTERS, stored_result

_ERROR_LINES = 10


def outcome_of(call: CommandCall, ended: Ended, output: Output) -> Outcome:
    answer = Answer(excerpt=output.excerpt)
    if ended.error is not None:
        return Failed(_error(ended.error, output), begun=ended.was_lost, answer=answer)
    code, codes = ended.exit_code, call.exit_codes
    if ended.reason in ("timeout", "stopped", "node_died"):
        why = f"timed out after {show_duration(call.timeout)}" if ended.reason == "timeout" else "it was stopped"
        return Failed(_error(why, output), answer=answer)
    if code is None:
        return Failed(_error(_signal_text(call, ended), output), answer=answer)
    if code in codes.nothing:
        return Succeeded({"message": NOTHING_TO_DO}, answer)
    if code in codes.ok:
        return Succeeded(stored_result(output.result()), answer)
    return Failed(_error(f"exit code {code}", output), codes.retry is None or code in codes.retry, answer=answer)


def remarks_on(call: CommandCall, ended: Ended) -> list[str]:
    """Return lines for the log about processes that did not end by themselves."""
    remarks = []
    if ended.left_behind:
        remarks.append(f"{_processes(ended.left_behind)} left behind by the command, and stopped")
    if ended.was_killed:
        after = show_duration(call.kill_after)
        remarks.append(f"SIGTERM did not end everything, so it was killed {after} later")
    if ended.survivors:
        numbers = ", ".join(map(str, ended.survivors))
        remarks.append(f"{_processes(len(ended.survivors))} could not be killed, and may still run: {numbers}")
    return remarks


def _processes(count: int) -> str:
    return "1 process was" if count == 1 else f"{count} processes were"


def _error(why: str, output: Output) -> str:
    """Return the reason with the last line of the output, and below it the lines before."""
    lines = output.last_lines(_ERROR_LINES)
    if not lines:
        return why
    text = "\n".join([f"{why}: {lines[-1]}", *lines]) if len(lines) > 1 else f"{why}: {lines[0]}"
    return text[:MAX_ERROR_CHARACTERS]


def _signal_text(call: CommandCall, ended: Ended) -> str:
    if ended.signal is None:
        return "it ended without an exit code"
    try:
        name = signal.Signals(ended.signal).name
    except ValueError:
        name = str(ended.signal)
    if ended.signal == signal.SIGXCPU and call.limits.cpu is not None:
        return f"killed by {name}: it used more than limits.cpu, {show_duration(call.limits.cpu)}"
    if ended.signal == signal.SIGXFSZ:
        return f"killed by {name}: a file became larger than limits.file_size"
    return f"killed by {name}"
