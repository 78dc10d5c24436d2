"""Conversion of a crontab's entries to jobs: of commands, which mean what they mean to cron, or disabled jobs of tasks.

Commands need nodes that allow them. Without them, the user writes the task, and the job's description stores all of the
entry that a job has no field for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hourbell.core.formats.crontab import Crontab, Entry
from hourbell.core.job.command import SHELL
from hourbell.core.job.definition import Definition
from hourbell.core.job.fields import MAX_DESCRIPTION_CHARACTERS
from hourbell.core.job.target import TargetError, lane_of
from hourbell.core.run.policies import RETRY_PRESETS, Overlap
from hourbell.core.schedule import zone_names

TAG = "crontab"
_TIMEOUT = "1d"  # cron has none, and a run needs an end
_MAX_SLUG_CHARACTERS = 80
_MAX_ENVIRONMENT_CHARACTERS = 1_000  # in a description; every job repeats it
_ODD = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SEPARATORS = re.compile(r"&&|\|\||[;|&()]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_PREPARING = frozenset(("cd", "test", "[", "[[", "sleep", "export", "set", "true", ":", "source", ".", "umask", "if"))
_WRAPPING = frozenset(("sudo", "nice", "ionice", "env", "exec", "time", "nohup", "chronic", "command", "then", "do"))
_INTERPRETING = re.compile(r"(?:ba|da|z|k)?sh|python[0-9.]*|perl|ruby|php[0-9.]*|node", re.ASCII)
_SECRET_NAME = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL", re.IGNORECASE)
_ABSENT_ZONE = "cron uses the machine's zone, which a crontab does not say; without CRON_TZ jobs are in {zone}{why}"


@dataclass(frozen=True, slots=True)
class AsCommands:
    """Options for jobs of commands: the nodes that run them, what to do on overlap, and whether they start paused."""

    label: str | None = None
    overlap: Overlap = Overlap.ALLOW
    paused: bool = False


def crontab_to_jobs(
    crontab: Crontab,
    timezone: str | None = None,
    *,
    prefix: str = "",
    advice: str = "--timezone sets another",
    commands: AsCommands | None = None,
) -> tuple[list[Definition], list[str]]:
    """Return a job for each entry, and notes about them, each with its line: of a command, or a disabled one of a task.

    The zone is that of CRON_TZ; without it `timezone`, then TZ, then UTC. All names begin with `prefix`.
    `advice` tells the user how to choose another zone.
    """
    taken: dict[str, int] = {}
    jobs, notes = [], []
    zoneless = set()
    shared = {id(entry.environment): entry.environment for entry in crontab.entries}
    environments = {key: _environment(environment) for key, environment in shared.items()}
    for entry in crontab.entries:
        name = _free_name((prefix + slug_of(entry.command))[:_MAX_SLUG_CHARACTERS], taken)
        by_tz = _known_zone(entry.environment.get("TZ", ""))
        zone = entry.timezone or timezone or by_tz or "UTC"
        if entry.timezone is None and timezone is None:
            zoneless.add((zone, ", as TZ says" if by_tz else ""))
        if commands is not None:
            made, more = _command_job(entry, name, zone, commands)
            notes += [f"line {entry.line}: {note}" for note in more]
            if made is not None:
                jobs.append(made)
                continue
        target = {"type": "task", "name": f"crontab.{name}"}
        description, lost = _description(entry, environments[id(entry.environment)])
        notes += [f"line {entry.line}: {note}" for note in (entry.note, lost) if note is not None]
        jobs.append(
            Definition(
                name,
                entry.schedule,
                target,
                timezone=zone,
                description=description,
                enabled=False,
                tags=(TAG,),
                lane=lane_of(target),
            )
        )
    notes += [f"{_ABSENT_ZONE.format(zone=zone, why=why)}; {advice}" for zone, why in sorted(zoneless)]
    if commands is None:
        where, advised = "descriptions", "take it out if it is a secret"
    else:
        where, advised = "env of the jobs", "if it is a secret, put it into a file and name that in env_file"
        notes += _mail_notes(crontab)
    notes += [
        f"line {each.line}: the value of {each.name} is in the {where} below; {advised}"
        for each in crontab.env
        if _SECRET_NAME.search(each.name) and each.value
    ]
    return jobs, notes


def _command_job(entry: Entry, name: str, zone: str, options: AsCommands) -> tuple[Definition | None, list[str]]:
    """Return a job that runs an entry's command as cron does, None if it cannot; and notes about it."""
    notes = [] if entry.note is None else [entry.note]
    variables = dict(entry.environment)
    shell = variables.pop("SHELL", SHELL)
    mail_to = variables.pop("MAILTO", None)
    for odd in [each for each in variables if _VARIABLE.fullmatch(each) is None]:
        del variables[odd]
        notes.append(f"the variable {odd} is left out, because programs cannot read a variable of this name")
    for given in ("LOGNAME", "USER"):  # cron sets them itself
        variables.pop(given, None)
    target: dict[str, Any] = {"type": "command", "command": entry.command}
    if shell != SHELL:
        target["command"] = [shell, "-c", entry.command]
    if options.label is not None:
        target["label"] = options.label
    if entry.user is not None:
        user, _, group = entry.user.partition(":")
        target["user"] = user
        if group:
            notes.append(f"it runs with the groups of {user}, and not with the group {group}")
    if variables.get("HOME", "").startswith("/"):
        target["cwd"] = variables["HOME"]
    if variables:
        target["env"] = variables
    if entry.stdin:
        target["stdin"] = entry.stdin if entry.stdin.endswith("\n") else f"{entry.stdin}\n"
    target["timeout"] = _TIMEOUT
    try:
        lane = lane_of(target)
    except TargetError as error:
        notes.append(f"its command cannot be taken over, so the job is a disabled one of a task: {error}")
        return None, notes
    comments = "\n".join(entry.comments).strip()
    origin = f"Imported from a crontab, line {entry.line}."
    made = Definition(
        name,
        entry.schedule,
        target,
        timezone=zone,
        description=f"{comments}\n\n{origin}" if comments else origin,
        overlap=options.overlap,
        retry=RETRY_PRESETS["none"],
        enabled=not options.paused,
        tags=(TAG,),
        alert_policy="none" if mail_to == "" else "",
        lane=lane,
    )
    return made, notes


def _mail_notes(crontab: Crontab) -> list[str]:
    """Return notes about MAILTO: cron mails every output, and alert policies tell failures."""
    notes = []
    for each in crontab.env:
        if each.name == "MAILTO" and each.value:
            how = f"hourbell channel create mail --type email --set to={each.value}"
            notes.append(f"line {each.line}: cron mailed all output to {each.value}; to get failures by mail: {how}")
    if any(each.name == "MAILTO" and not each.value for each in crontab.env):
        notes.append("where MAILTO is empty, the jobs have alert_policy none")
    return notes


def _known_zone(text: str) -> str | None:
    """Return the zone that TZ names, or None for the other forms that TZ allows."""
    zone = text.removeprefix(":")
    return zone if zone in zone_names() else None


def slug_of(command: str) -> str:
    """Derive a job's name from the program that a command runs, ignoring preparing commands and wrappers."""
    for part in _SEPARATORS.split(command):
        words = [word.strip("\"'") for word in part.split() if not _ASSIGNMENT.match(word)]
        while words and words[0].rpartition("/")[2] in _WRAPPING:
            words = _without_options(words[1:])
        if not words or words[0] in _PREPARING:
            continue
        program = words[0].rpartition("/")[2]
        if _INTERPRETING.fullmatch(program):
            scripts = _without_options(words[1:])
            program = scripts[0].rpartition("/")[2] if scripts else program
        slug = _ODD.sub("-", re.sub(r"\.(?:sh|py|pl|rb|php|js)$", "", program)).strip("-").lower()
        if slug:
            return slug[:_MAX_SLUG_CHARACTERS]
    return "entry"


def _without_options(words: list[str]) -> list[str]:
    """Remove leading options and their numbers."""
    while words and (words[0].startswith("-") or words[0].isdigit()):
        words = words[1:]
    return words


def _free_name(slug: str, taken: dict[str, int]) -> str:
    """Return the slug, numbered if it is taken. `taken` has the last number of each name, so that no search is long."""
    name, number = slug, taken.get(slug, 1)
    while name in taken:
        number += 1
        name = f"{slug}-{number}"
    taken[slug] = number
    taken.setdefault(name, 1)
    return name


def _description(entry: Entry, environment: str | None) -> tuple[str, str | None]:
    """Describe an entry with its variables; return a note too if they are too long to be included (None)."""
    comments = "\n".join(entry.comments)
    parts = [comments] if comments.strip() else []
    lines = [f"Imported from a crontab, line {entry.line}. Disabled: the task is not written yet. The command was:"]
    lines.append(entry.command)
    if entry.stdin is not None:
        lines += ["Its input:", entry.stdin]
    if entry.user is not None:
        lines.append(f"User: {entry.user}")
    if entry.is_quiet:
        lines.append("Not logged by cron (-).")
    parts.append("\n".join(lines))
    plain = "\n\n".join(parts)
    whole = f"{plain}\n\n{environment}" if environment else plain
    if environment is not None and len(whole) <= MAX_DESCRIPTION_CHARACTERS:
        return whole, None
    lost = "the variables above it are too long for the description of its job; they are not in it"
    return plain, lost


def _environment(environment: Mapping[str, str]) -> str | None:
    """Return the text about variables, empty if there are none, or None if it is too long."""
    if sum(len(name) + len(value) + 2 for name, value in environment.items()) > _MAX_ENVIRONMENT_CHARACTERS:
        return None
    pairs = [f"{name}={value}" for name, value in environment.items()]
    return "\n".join(["Environment:", *pairs]) if pairs else ""
