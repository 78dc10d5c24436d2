"""Plans as text for people: what would be created, changed and deleted, and when the jobs fire before and after."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.shared.output import fitted, json_line, plain
from hourbell.core.schedule import ScheduleError

if TYPE_CHECKING:
    from hourbell.client import Plan, PlannedEntry, PlannedJob, Upcoming
    from hourbell.core.job.definition import Definition

_MAX_VALUE_CHARACTERS = 200  # characters of a value
_HEADS = {
    "create": ("+ create", "green"),
    "change": ("~ change", "yellow"),
    "none": ("= keep", ""),
    "delete": ("- delete", "red"),
}


def plan_lines(plan: "Plan", definitions: "Mapping[str, Definition]") -> Iterator[str]:
    """Format the plan, with the counts on the last line. What is unchanged is shown only if it has notes.

    A new job is shown with its definition, looked up by name.
    """
    if plan.is_empty and not any([*(job.notes for job in plan.jobs), *(channel.notes for channel in plan.channels)]):
        yield "nothing to change"
        return
    for what, entry in _entries(plan):
        if entry.action != "none" or entry.notes:
            yield from _entry_lines(what, entry)
    for job in plan.jobs:
        if job.action != "none" or job.notes:
            yield from _job_lines(job, definitions.get(job.name))
    for deleted in plan.deleted:
        yield click.style(f"- delete {plain(deleted.name)}", fg="red")
        yield f"    next before: {_instants(deleted.before)}"
    yield "nothing to change" if plan.is_empty else _counts(plan, "to create", "to change", "to delete")


def done_lines(plan: "Plan") -> Iterator[str]:
    """Format the result of an apply, with the generated secrets."""
    for job in plan.jobs:
        if job.generated_secret:
            yield f"secret of {plain(job.name)}: {plain(job.generated_secret)}  (it is not shown again)"
    for channel in plan.channels:
        if channel.generated_secret:
            yield f"secret of the channel {plain(channel.name)}: {channel.generated_secret}  (it is not shown again)"
    yield _counts(plan, "created", "changed", "deleted")


def _entries(plan: "Plan") -> "Iterator[tuple[str, PlannedEntry]]":
    yield from (("channel", each) for each in plan.channels)
    yield from (("alert policy", each) for each in plan.alert_policies)


def taken_over(plan: "Plan") -> list[str]:
    """Return how many jobs, channels and alert policies currently have another owner, such as `2 jobs`."""
    return _by_kind(
        *(
            sum(any(change.field == "owner" for change in each.fields) for each in entries)
            for entries in (plan.jobs, plan.channels, plan.alert_policies)
        )
    )


def deleted(plan: "Plan") -> list[str]:
    """Return how many jobs, channels and alert policies are deleted, such as `1 channel`."""
    entries = (plan.channels, plan.alert_policies)
    return _by_kind(len(plan.deleted), *(sum(each.action == "delete" for each in of_kind) for of_kind in entries))


def _by_kind(*counts: int) -> list[str]:
    kinds = (("job", "jobs"), ("channel", "channels"), ("alert policy", "alert policies"))
    return [f"{count} {kind[count > 1]}" for count, kind in zip(counts, kinds, strict=True) if count]


def _counts(plan: "Plan", created: str, changed: str, deleted: str) -> str:
    """Count jobs, channels and alert policies together."""
    actions = Counter(job.action for job in plan.jobs)
    actions.update(each.action for each in (*plan.channels, *plan.alert_policies))
    actions["delete"] += len(plan.deleted)
    counts = (actions["create"], created), (actions["change"], changed), (actions["delete"], deleted)
    return ", ".join([*(f"{count} {what}" for count, what in counts), f"{actions['none']} unchanged"])


def _entry_lines(what: str, entry: "PlannedEntry") -> Iterator[str]:
    text, colour = _HEADS.get(entry.action, (plain(entry.action), ""))
    yield click.style(f"{text} {what} {plain(entry.name)}", fg=colour or None)
    for change in entry.fields if entry.action == "change" else ():
        yield f"    {plain(change.field)}: {_value(change.before)} → {_value(change.after)}"
    for each in entry.notes:
        yield f"    note: {plain(each)}"


def _job_lines(job: "PlannedJob", definition: "Definition | None") -> Iterator[str]:
    text, colour = _HEADS.get(job.action, (plain(job.action), ""))
    yield click.style(f"{text} {plain(job.name)}", fg=colour or None)
    if job.action == "change":
        for change in job.fields:
            yield f"    {plain(change.field)}: {_value(change.before)} → {_value(change.after)}"
    if job.action == "create":
        yield from _definition_lines(definition) if definition else ()
        yield f"    next: {_instants(job.after)}"
    elif [each.local for each in job.before] != [each.local for each in job.after]:
        yield f"    next before: {_instants(job.before)}"
        yield f"    next after:  {_instants(job.after)}"
    for warning in job.warnings:
        yield f"    {click.style('warning', fg='yellow')}: {plain(warning.message)}"
    for each in job.notes:
        yield f"    note: {plain(each)}"


def _definition_lines(definition: "Definition") -> Iterator[str]:
    try:
        text = f" ({definition.parsed().describe()})"
    except ScheduleError:
        text = ""
    yield f"    schedule: {plain(definition.schedule)}{text}, {definition.timezone}"
    yield f"    target: {fitted(plain(_target(definition.target)), _MAX_VALUE_CHARACTERS)}"
    if not definition.enabled:
        yield "    paused: the file says enabled = false"


def _target(target: "Mapping[str, Any]") -> str:
    match target.get("type"):
        case "http":
            return f"http {target.get('method', 'POST')} {target.get('url')}"
        case "sql":
            return f"sql {target.get('function')}"
        case "task":
            return f"task {target.get('name')}"
        case "command":
            command = target.get("command")
            return f"command {shlex.join(command) if isinstance(command, list) else command}"
        case kind:
            return f"{kind} {target.get('queue')}"


def _value(value: object) -> str:
    """Format a value as JSON, which distinguishes text from numbers; a hidden value is shown without quotes."""
    if value is None:
        return "(none)"
    if isinstance(value, str) and value.startswith("(hidden"):
        return plain(value)
    return fitted(json_line(value), _MAX_VALUE_CHARACTERS)


def _instants(instants: "Sequence[Upcoming]") -> str:
    shown = [plain(f"{each.local.replace('T', ' ')} {each.zone_abbreviation}") for each in instants]
    return ", ".join(shown) or "none"
