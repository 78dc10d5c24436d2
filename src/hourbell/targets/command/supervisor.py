"""The supervisor of one command: a process between the node and the command. Standard library only.

It owns everything that the command starts. As a sub-reaper it inherits each descendant whose parent ends, whatever
session or process group that has moved to, so it knows when none is left: then it has no child. It ends the command at
its timeout, when the node asks for it, and when the node has died.

The node passes three descriptors: the control pipe (0), and by number the pipes for the command's output and for the
report. The first line of the control pipe is the specification as JSON. Further bytes are requests: `T` ends the
command, first by SIGTERM and `kill_after` seconds later by SIGKILL; `S` does it within five seconds, because another
node may start the run soon; `K` kills at once. The end of the pipe means that the node has died. The report is one line
of JSON when nothing of the command is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the modules are not imported, because the start of a command waits for this one
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_SOON_GRACE = 5.0  # max seconds from SIGTERM to SIGKILL when another node may start the run soon
_BACKGROUND_GRACE = 0.2  # seconds in which processes end by themselves after the command has ended
_CPU_GRACE = 5  # seconds
_SOON = 0.01  # seconds
_WAIT = 0.5  # seconds between two checks for the node
_KILL_INTERVAL = 0.05  # seconds between two rounds of SIGKILL
_MAX_KILLING_SECONDS = 10.0  # seconds of killing before what is left is reported as survivors
_STOP_ROUNDS = 50
_LIMITS = {
    "memory": resource.RLIMIT_AS,
    "cpu": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
}


def main() -> None:
    output, report = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (0, output, report):
        os.set_inheritable(descriptor, False)
    specification, rest = _read_specification()
    supervisor = Supervisor(specification, report)
    supervisor.take_requests(rest)
    supervisor.run(output)


def _read_specification() -> tuple[dict[str, Any], bytes]:
    """Read the first line of the control pipe; return it and the requests that came with it."""
    data = b""
    while b"\n" not in data:
        part = os.read(0, 65_536)
        if not part:
            sys.exit(1)  # the node has died before it has asked for anything
        data += part
    line, _, rest = data.partition(b"\n")
    specification: dict[str, Any] = json.loads(line)
    return specification, rest


class Supervisor:
    def __init__(self, specification: dict[str, Any], report: int) -> None:
        self._specification = specification
        self._report = report
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._node = os.getppid()
        self._child = 0
        self._status: int | None = None  # of the command itself
        self._ended_at = 0.0
        self._reason: str | None = None  # why it was stopped
        self._kill_at = float("inf")
        self._killing_since: float | None = None
        self._left_behind = 0
        self._was_killed = False
        self._control_is_open = True

    def run(self, output: int) -> None:
        if self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self._write(error="this kernel has no sub-reapers (prctl); commands need Linux 3.4 or later")
            return
        self._libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # so that the command cannot open the pipes of this process
        try:
            self._supervise(output)
        except BaseException as error:  # else what the command has started would stay
            while self._reap() and self._kill_round(time.monotonic()):
                time.sleep(_KILL_INTERVAL)
            self._write(error=f"the supervisor of the command failed: {type(error).__name__}: {error}")

    def _supervise(self, output: int) -> None:
        waking, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop("stopped"))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        if self._reason is not None:  # stopped before it has begun
            self._finish()
            return
        if (error := self._start(output)) is not None:
            self._write(error=error)
            return
        os.close(output)  # its end then shows that nobody writes any more
        deadline = time.monotonic() + self._specification["timeout"]
        while self._reap():
            now = time.monotonic()
            self._check_node()
            if now >= deadline:
                self._stop("timeout")
            if self._status is not None and self._reason is None and now >= self._ended_at + _BACKGROUND_GRACE:
                self._left_behind = len(self._descendants())
                if self._left_behind:
                    self._stop("left_behind")
            if now >= self._kill_at and not self._kill_round(now):
                break
            self._wait(waking, deadline)
        self._finish()

    def take_requests(self, requests: bytes) -> None:
        if b"K" in requests:
            self._stop("stopped")
            self._kill_at = 0.0
        elif b"S" in requests:
            self._stop_soon("stopped")
        elif b"T" in requests:
            self._stop("stopped")

    def _start(self, output: int) -> str | None:
        """Start the command; return why it could not be started."""
        stdin = self._stdin()
        reading, writing = os.pipe()
        supervisor = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            name = "start"
            try:
                for name, action in self._steps(stdin, output, supervisor):  # noqa: B007 - the error names the step
                    action()
            except BaseException as failure:
                text = f"{name}: {getattr(failure, 'strerror', None) or failure}"
                os.write(writing, text.encode(errors="replace")[:1_000])
            os._exit(127)
        os.close(writing)
        os.close(stdin)
        error = os.read(reading, 1_000)  # ends when the command has been executed, because the pipe closes then
        os.close(reading)
        return error.decode(errors="replace") if error else None

    def _steps(self, stdin: int, output: int, supervisor: int) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield what the new process does before it becomes the command, each with its name for an error."""
        specification = self._specification
        arguments, environment = specification["arguments"], specification["environment"]
        yield "setsid", os.setsid
        yield "nice", lambda: os.nice(specification["nice"])
        if specification["umask"] is not None:
            yield "umask", lambda: os.umask(specification["umask"])
        if (user := specification["user"]) is not None:
            yield f"user {user['name']}", lambda: _become(user)
        yield f"cwd {specification['cwd']}", lambda: os.chdir(specification["cwd"])
        yield "prctl", lambda: self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(127)
        yield "stdin", lambda: os.dup2(stdin, 0)
        yield "stdout", lambda: os.dup2(output, 1)
        yield "stderr", lambda: os.dup2(output, 2)
        yield "signals", _reset_signals
        for name, value in specification["limits"].items():  # last, because they may leave little memory
            yield f"limits.{name}", lambda: _limit(_LIMITS[name], value)  # noqa: B023 - it is called at once
        yield arguments[0], lambda: os.execvpe(arguments[0], arguments, environment)

    def _stdin(self) -> int:
        """Return a descriptor of the command's input: a file in memory, which nobody has to feed."""
        text = self._specification["stdin"]
        if not text:
            return os.open(os.devnull, os.O_RDONLY)
        descriptor = os.memfd_create("stdin")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode(errors="surrogateescape"))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _reap(self) -> bool:
        """Collect processes that have ended; return False once none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._status, self._ended_at = status, time.monotonic()

    def _check_node(self) -> None:
        """Stop the command if the node has died: its pipe may be held open by a process that the node has forked."""
        if os.getppid() != self._node:
            self._lose_node()

    def _lose_node(self) -> None:
        self._control_is_open = False
        self._stop_soon("node_died")

    def _stop_soon(self, reason: str) -> None:
        self._stop(reason)
        self._kill_at = min(self._kill_at, time.monotonic() + _SOON_GRACE)

    def _stop(self, reason: str) -> None:
        """Ask everything to end, once; it is killed `kill_after` seconds later."""
        if self._reason is not None:
            return
        self._reason = reason
        self._kill_at = time.monotonic() + self._specification["kill_after"]
        processes = self._descendants()
        _signal(processes, signal.SIGTERM)
        _signal(processes, signal.SIGCONT)

    def _kill_round(self, now: float) -> bool:
        """Kill everything that is left; return False to give up, because it cannot be killed.

        Processes are stopped first, until no new one appears, so that none of them forks faster than it is killed.
        """
        if self._killing_since is None:
            self._killing_since = now
        if now > self._killing_since + _MAX_KILLING_SECONDS:
            return False
        seen: set[int] = set()
        for _ in range(_STOP_ROUNDS):
            new = self._descendants() - seen
            if not new:
                break
            _signal(new, signal.SIGSTOP)
            seen |= new
        if seen:
            self._was_killed = True
        _signal(seen, signal.SIGKILL)
        self._kill_at = now + _KILL_INTERVAL
        return True

    def _descendants(self) -> set[int]:
        """Return every process below this one that has not ended."""
        children: dict[int, list[int]] = {}
        ended = set()
        try:
            names = os.listdir("/proc")
        except OSError:
            return {self._child} if self._status is None and self._child else set()
        for name in names:
            if not name.isdigit():
                continue
            found = _parent_and_state(int(name))
            if found is not None:
                children.setdefault(found[0], []).append(int(name))
                if found[1] in "ZX":
                    ended.add(int(name))
        found_below, below = set(), list(children.get(os.getpid(), ()))
        while below:
            pid = below.pop()
            found_below.add(pid)
            below += children.get(pid, ())
        return found_below - ended

    def _wait(self, waking: int, deadline: float) -> None:
        """Sleep until a request, the end of a process, or the next thing to do."""
        now = time.monotonic()
        times = [now + _WAIT, self._kill_at]
        if self._reason is None:
            times.append(deadline if self._status is None else max(self._ended_at + _BACKGROUND_GRACE, now + _SOON))
        reading = [waking, 0] if self._control_is_open else [waking]
        ready, _, _ = select.select(reading, [], [], max(0.0, min(times) - now))
        if waking in ready:
            os.read(waking, 4_096)
        if 0 in ready:
            requests = os.read(0, 4_096)
            self.take_requests(requests)
            if not requests:
                self._lose_node()

    def _finish(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        survivors = sorted(self._descendants())
        status = self._status
        self._write(
            exit_code=None if status is None or not os.WIFEXITED(status) else os.WEXITSTATUS(status),
            signal=None if status is None or not os.WIFSIGNALED(status) else os.WTERMSIG(status),
            reason=self._reason,
            left_behind=self._left_behind,
            was_killed=self._was_killed,
            survivors=survivors[:20],
            max_memory_kib=usage.ru_maxrss,
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 3),
        )

    def _write(self, **report: object) -> None:
        with contextlib.suppress(OSError):  # the node has died
            os.write(self._report, json.dumps(report).encode() + b"\n")


def _parent_and_state(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before may contain anything
    return int(fields[1]), fields[0].decode()


def _signal(processes: Iterable[int], number: int) -> None:
    """Signal processes by handles, so that a number that another process has got meanwhile is not hit."""
    for pid in processes:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            found = _parent_and_state(pid)
            if found is not None and found[1] not in "ZX":
                signal.pidfd_send_signal(handle, number)
        except OSError:
            pass  # it has ended, or belongs to another user
        finally:
            os.close(handle)


def _limit(kind: int, value: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    most = float("inf") if hard == resource.RLIM_INFINITY else hard
    grace = _CPU_GRACE if kind == resource.RLIMIT_CPU else 0  # at the lower limit it is told, at the higher one killed
    resource.setrlimit(kind, (int(min(value, most)), int(min(value + grace, most))))


def _reset_signals() -> None:
    """Give the command the signal handling that programs expect at their start."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _become(user: dict[str, Any]) -> None:
    os.setgroups(user["groups"])
    os.setgid(user["gid"])
    os.setuid(user["uid"])


if __name__ == "__main__":
    main()
