"""The text of a message: what a person needs to know at three at night, as plain text and as HTML.

`describe` decides what is said; every channel renders that in its own format and escapes it for it. No text has more
than one line, so that values from users and receivers cannot pretend to be other fields.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.message import DigestItem, IncidentSummary, JobSummary, Message
from hourbell.core.alerts.outside import OUTSIDE
from hourbell.core.run.error_line import error_line
from hourbell.core.schedule.zones import local_time_at
from hourbell.core.values.readers import show_duration

MAX_LINE_CHARACTERS = 500
MAX_TITLE_CHARACTERS = 200
_MAX_JOBS = 5
_MAX_ITEMS = 20  # of a digest
_PREFIX = {
    Event.OPENED: "",
    Event.FLAPPING: "Flapping: ",
    Event.REPEATED: "Still: ",
    Event.ESCALATED: "Escalated: ",
    Event.DIGEST: "Digest: ",
    Event.RESOLVED: "Resolved: ",
}
_JOB_TITLES = {
    IncidentKind.MISSED: "{who} missed scheduled times",
    IncidentKind.LATE: "{who} has not begun in time",
    IncidentKind.NO_SUCCESS: "{who} has not succeeded in time",
    IncidentKind.LOSING_RUNS: "{who} skips too many runs",
    IncidentKind.SLOW: "{who} takes too long",
    IncidentKind.PAUSED_TOO_LONG: "{who} has been paused for too long",
}
_TITLES = {
    IncidentKind.CHANNEL_FAILED: "An alert channel cannot deliver",
    IncidentKind.SCHEDULER_SILENT: "A part of Hourbell is silent",
    IncidentKind.RECOVERY: "Recovery mode: many runs are late",
}
RED, GREEN, GREY = "#d0342c", "#2e7d32", "#607d8b"
_PAGE_STYLE = (
    "margin:0;padding:16px;background:#f4f5f7;color:#1f2933;font:14px/1.5 'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
)
_CARD_STYLE = (
    "max-width:640px;margin:0 auto;padding:16px 20px;background:#fff;border:1px solid #d9dee5;border-radius:6px"
)
_TITLE_STYLE = "margin:0 0 12px;font-size:20px;line-height:1.3;overflow-wrap:anywhere"
_TABLE_STYLE = "border-collapse:collapse;font-size:14px"
_NAME_STYLE = "padding:3px 16px 3px 0;color:#52606d;font-weight:600;white-space:nowrap"
_VALUE_STYLE = "padding:3px 0;overflow-wrap:anywhere"
_LINK_STYLE = "margin-right:16px;color:#1d4ed8"
_COMMAND_STYLE = "margin:12px 0 0;color:#52606d;font-size:13px"
_CODE_STYLE = "color:#1f2933;overflow-wrap:anywhere"
_SPACES = {ord(char): " " for char in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class MessageText:
    """A message in words, not escaped.

    `fields` are names with values, `links` names with URLs, `commands` names with what to run in a shell. `color` tells
    trouble from its end and from a test.
    """

    title: str
    fields: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    color: str = RED


def describe(message: Message) -> MessageText:
    """Return what a message says."""
    incident = message.incident
    if message.event is Event.QUIET_DIGEST:
        return _describe_digest(message)
    if incident is None:
        title = f"Test of the channel {message.channel}"
        return MessageText(one_line(title), (("Result", "Alerts of Hourbell arrive here."),), color=GREY)
    fields = tuple((name, one_line(value)) for name, value in _fields(message, incident) if value)
    links = tuple((name.capitalize(), url) for name, url in message.links.items())
    is_known = message.event is not Event.RESOLVED and incident.policy != OUTSIDE  # to a node that can change it
    commands = _commands(incident) if is_known else ()
    color = GREEN if message.event is Event.RESOLVED else RED
    return MessageText(one_line(title_of(message, incident), MAX_TITLE_CHARACTERS), fields, links, commands, color)


def _describe_digest(message: Message) -> MessageText:
    """Return what a digest of quiet hours says: one line for each incident, what goes on before what is over."""
    over = sum(item.event is Event.RESOLVED for item in message.items)
    noun = "incident" if message.total == 1 else "incidents"
    title = f"After quiet hours: {message.total} {noun}" + (f", {over} of them over" if over else "")
    items = sorted(message.items, key=lambda item: item.event is Event.RESOLVED)
    fields = [(_item_name(item), one_line(_item_text(message, item))) for item in items[:_MAX_ITEMS]]
    if message.total > len(fields):
        fields.append(("More", f"{message.total - len(fields)} incidents; see `hourbell incident list`"))
    links = tuple((name.capitalize(), url) for name, url in message.links.items())
    return MessageText(one_line(title, MAX_TITLE_CHARACTERS), tuple(fields), links)


def _item_name(item: DigestItem) -> str:
    return _PREFIX[item.event].rstrip(": ") or "Open"


def _item_text(message: Message, item: DigestItem) -> str:
    incident = item.incident
    since = _since(incident.opened_at, message.at, "UTC")
    if incident.resolved_at is not None:
        since = f"{_at(incident.opened_at, 'UTC')}{_until(incident, 'UTC')}"
    error = error_line(incident.error)
    return f"{_trouble(message, incident)}, {since}" + (f": {error}" if error else "")


def title_of(message: Message, incident: IncidentSummary) -> str:
    """Return the title: whom it is about and what is wrong."""
    return _PREFIX[message.event] + _trouble(message, incident)


def one_line(text: str, max_characters: int = MAX_LINE_CHARACTERS) -> str:
    """Return text without line breaks and control characters, shortened."""
    plain = " ".join("".join(char if char.isprintable() else "�" for char in text.translate(_SPACES)).split(" "))
    plain = plain.strip()
    return plain if len(plain) <= max_characters else f"{plain[: max_characters - 1]}…"


def utf16_units(text: str) -> int:
    """Return the length of a text as chats count it: a character outside of the basic plane, as most emoji, is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def clipped(text: str, max_units: int) -> str:
    """Return as much of a text as fits into so many UTF-16 units, with an ellipsis if something is missing."""
    if utf16_units(text) <= max_units:
        return text
    kept, left = 0, max_units - 1
    for char in text:
        left -= utf16_units(char)
        if left < 0:
            break
        kept += 1
    return f"{text[:kept]}…"


def plain_text(text: MessageText) -> str:
    """Render a message as plain text, without its title."""
    fields = [f"{name}: {value}" for name, value in text.fields]
    links = [f"{name}: {url}" for name, url in text.links]
    commands = [f"{name}: {command}" for name, command in text.commands]
    return "\n\n".join("\n".join(part) for part in (fields, links, commands) if part)


def html_text(text: MessageText) -> str:
    """Render a message as a whole HTML page, with everything escaped. Styles are inline, as mail programs need them."""
    rows = "".join(
        f'<tr><th align="left" valign="top" style="{_NAME_STYLE}">{escape(name)}</th>'
        f'<td style="{_VALUE_STYLE}">{escape(value)}</td></tr>'
        for name, value in text.fields
    )
    links = "".join(f'<a style="{_LINK_STYLE}" href="{escape(url)}">{escape(name)}</a>' for name, url in text.links)
    commands = "".join(
        f'<p style="{_COMMAND_STYLE}">{escape(name)}<br><code style="{_CODE_STYLE}">{escape(command)}</code></p>'
        for name, command in text.commands
    )
    title = escape(text.title)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title></head>'
        f'<body style="{_PAGE_STYLE}"><div style="{_CARD_STYLE};border-top:4px solid {text.color}">'
        f'<h1 style="{_TITLE_STYLE}">{title}</h1><table style="{_TABLE_STYLE}">{rows}</table>'
        f"{f'<p>{links}</p>' if links else ''}{commands}</div></body></html>"
    )


def _trouble(message: Message, incident: IncidentSummary) -> str:
    who, kind = _who(message, incident), incident.kind
    if kind is IncidentKind.FAILED:
        if incident.group_size > 1:
            return f"{incident.group_size} jobs fail"
        return f"{who} failed {_times(incident.count)}" if incident.count > 1 else f"{who} failed"
    if incident.policy == OUTSIDE:
        return "No node of Hourbell is ready"
    if kind is IncidentKind.UNSERVED:
        return f"No node serves {incident.lane or 'a lane'}"
    return _TITLES[kind] if kind in _TITLES else _JOB_TITLES[kind].format(who=who)


def _who(message: Message, incident: IncidentSummary) -> str:
    if message.job is not None:
        return message.job.name
    return incident.jobs[0] if incident.jobs else "A job"


def _fields(message: Message, incident: IncidentSummary) -> Iterator[tuple[str, str]]:
    job, run = message.job, message.run
    zone = "UTC" if job is None else job.timezone
    if job is not None:
        yield "Job", job.name
        yield "Schedule", f"{job.words or job.schedule} ({job.timezone})"
        yield "About", job.description
    elif incident.jobs or incident.group_size > 1:
        yield "Jobs", _names(incident)
    if incident.kind is IncidentKind.FAILED:
        yield "Host", incident.lane or ""
    what = "Summary" if incident.kind is IncidentKind.RECOVERY else "Error"
    yield what, error_line(incident.error or (run.error if run is not None else "") or "")
    if message.event is Event.RESOLVED:
        yield "Lasted", f"from {_at(incident.opened_at, zone)}{_until(incident, zone)}"
        yield "Resolved by", incident.resolved_by or ""
    else:
        yield "Since", _since(incident.opened_at, message.at, zone)
        yield "Acknowledged by", incident.acknowledged_by or ""
    if incident.count > 1:
        ended_at = run.finished_at if run is not None else None
        yield "Happened", f"{_times(incident.count)}, last at {_at(ended_at or incident.last_at, zone)}"
    if run is not None and run.scheduled_at is not None:
        yield (
            "Run",
            f"scheduled at {_at(run.scheduled_at, zone)}, {run.state}{f' ({run.reason})' if run.reason else ''}",
        )
    if job is not None:
        yield from _job_times(job, zone)


def _job_times(job: JobSummary, zone: str) -> Iterator[tuple[str, str]]:
    yield "Last success", "none" if job.last_success_at is None else _at(job.last_success_at, zone)
    yield "Next run", "none planned" if job.next_at is None else _at(job.next_at, zone)


def _commands(incident: IncidentSummary) -> tuple[tuple[str, str], ...]:
    return (
        ("To acknowledge", f"hourbell incident ack {incident.id}"),
        ("To mute", f"hourbell incident mute {incident.id} --until 2h"),
    )


def _names(incident: IncidentSummary) -> str:
    names = ", ".join(incident.jobs[:_MAX_JOBS])
    others = incident.group_size - min(len(incident.jobs), _MAX_JOBS)
    if not names:
        return str(incident.group_size)
    return f"{names} and {others} more" if others > 0 else names


def _times(count: int) -> str:
    return f"{count:,} times"


def _since(since: datetime, now: datetime, zone: str) -> str:
    seconds = int((now - since).total_seconds())
    return f"{_at(since, zone)} ({_span(seconds)} ago)" if seconds > 0 else _at(since, zone)


def _span(seconds: int) -> str:
    """Format a duration with its two or three largest units."""
    rounded = seconds if seconds < 3_600 else seconds // 60 * 60 if seconds < 86_400 else seconds // 3_600 * 3_600
    return str(show_duration(timedelta(seconds=rounded)))


def _until(incident: IncidentSummary, zone: str) -> str:
    if incident.resolved_at is None:
        return ""
    seconds = max(int((incident.resolved_at - incident.opened_at).total_seconds()), 0)
    return f" to {_at(incident.resolved_at, zone)} ({_span(seconds)})"


def _at(instant: datetime, zone: str) -> str:
    local, _, abbreviation = local_time_at(zone, instant)
    return f"{local:%Y-%m-%d %H:%M:%S} {abbreviation}"
