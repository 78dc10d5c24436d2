"""The environment, the user and the folder of a command."""

import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from hourbell.core.job.command import CommandCall

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MAX_FILE_BYTES = 1_048_576
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII)


class CannotPrepare(Exception):
    """A command that this node cannot run as it is defined; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a command runs as. `groups` is None if it is the node's own, so that nothing has to change."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] | None = None


def account_of(user: str | None, allowed: frozenset[str]) -> Account:
    """Return the account of a user, by default the node's own; raise CannotPrepare if it may not be used."""
    own = _own_account()
    if user is None or (user == own.name and os.geteuid() != 0):
        return own
    if os.geteuid() != 0:
        raise CannotPrepare(
            f"this node runs as {own.name}, so it cannot run a command as {user}: leave user out, or run a node as "
            "root that has the user in HOURBELL_COMMAND_USERS"
        )
    if user not in allowed:
        raise CannotPrepare(f"the user {user} is not in HOURBELL_COMMAND_USERS of this node; add it there")
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise CannotPrepare(f"this machine has no user {user}") from None
    groups = tuple(os.getgrouplist(user, found.pw_gid))
    return Account(user, found.pw_uid, found.pw_gid, found.pw_dir, groups)


def _own_account() -> Account:
    uid, gid = os.geteuid(), os.getegid()
    try:
        found = pwd.getpwuid(uid)
    except KeyError:  # as in a container
        return Account(str(uid), uid, gid, "/")
    return Account(found.pw_name, uid, gid, found.pw_dir)


def folder_of(call: CommandCall, account: Account) -> str:
    """Return the folder to start in: by default the home of the user."""
    if call.cwd is not None:
        return call.cwd
    return account.home if os.path.isdir(account.home) else "/"


def environment_of(
    call: CommandCall, account: Account, own: Mapping[str, str], of_run: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a command, each from the last of these that sets it.

    A few that programs expect, those of the node that it inherits, its file, its own, and those of the run.
    """
    return {
        "PATH": PATH,
        "LANG": own.get("LANG") or "C.UTF-8",
        "SHELL": "/bin/sh",
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        **{name: own[name] for name in call.inherit_env if name in own},
        **({} if call.env_file is None else read_env_file(call.env_file)),
        **call.env,
        **of_run,
    }


def read_env_file(path: str) -> dict[str, str]:
    """Read lines such as NAME=value; quotes around a value are removed, and nothing is expanded.

    A file that other users can change is refused, because its variables decide what a program loads.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CannotPrepare(f"env_file {path} is not a file")
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & _WRITABLE_BY_OTHERS:
                raise CannotPrepare(f"env_file {path} can be changed by other users; run: chmod go-w {path}")
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CannotPrepare(f"env_file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CannotPrepare(f"env_file {path} is not UTF-8 text") from None
    if len(text) > _MAX_FILE_BYTES:
        raise CannotPrepare(f"env_file {path} is larger than {_MAX_FILE_BYTES:,} bytes")
    variables = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        assigned = _ASSIGNMENT.fullmatch(stripped)
        if assigned is None or "\0" in stripped:
            raise CannotPrepare(f"env_file {path}: line {number} is not NAME=value")
        variables[assigned[1]] = _unquoted(assigned[2].strip())
    return variables


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
