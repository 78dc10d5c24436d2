"""Alert policies: what opens an incident, and who is notified when. Parsing reports all errors at once.

`policy_to_body` writes what `parse_policy` reads.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from hourbell.core.alerts.kinds import JOB_KINDS, IncidentKind
from hourbell.core.schedule import Schedule
from hourbell.core.values.field_errors import FieldError, RequestError, shown, unknown_fields
from hourbell.core.values.readers import InvalidValue, read_duration, read_zone, show_duration

DEFAULT_POLICY = "default"
NO_POLICY = "none"  # the name that a job gives for no alerts
MAX_CHANNEL_NAMES, MAX_ESCALATION_ITEMS, MAX_RATE_RUNS = 20, 10, 100
MIN_REPEAT, MIN_WAIT = timedelta(minutes=5), timedelta(minutes=1)
NAME_PATTERN = "^[A-Za-z0-9_-]{1,60}$"
FIELDS = (
    "on", "after", "rate", "notify", "repeat", "escalate", "resolve", "quiet_hours", "group", "slow_after",
    "no_success_for", "paused_for", "losing_share",
)  # fmt: skip
_NEVER_NULL = frozenset({"on", "escalate", "resolve", "group"})
READ_ONLY = ("name", "managed_by", "source", "updated_at", "updated_by")
GROUPS = ("host", "none")
_NAME = re.compile(NAME_PATTERN, re.ASCII)
_RATE = re.compile(r"([1-9][0-9]{0,2}) of ([1-9][0-9]{0,2})", re.ASCII)
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_ONE_DAY = timedelta(days=1)
# The field that a kind needs, and an example.
LIMITS: Mapping[IncidentKind, tuple[str, str]] = {
    IncidentKind.SLOW: ("slow_after", "10m"),
    IncidentKind.NO_SUCCESS: ("no_success_for", "26h"),
    IncidentKind.PAUSED_TOO_LONG: ("paused_for", "7d"),
    IncidentKind.LOSING_RUNS: ("losing_share", "0.5"),
}
_DEFAULT_KINDS = frozenset({IncidentKind.FAILED, IncidentKind.MISSED, IncidentKind.LATE, IncidentKind.UNSERVED})


@dataclass(frozen=True, slots=True)
class Rate:
    """`failed` failures among the last `of` runs that ended open an incident, whatever their order."""

    failed: int
    of: int

    def __str__(self) -> str:
        return f"{self.failed} of {self.of}"


@dataclass(frozen=True, slots=True)
class Escalation:
    """Further channels to notify if nobody has acknowledged the incident so long after its first message."""

    after: timedelta
    notify: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Local hours in which no message is sent; they may cross midnight."""

    start: time
    end: time
    timezone: str = "UTC"

    def until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours that `now` falls in end; None if it falls in none."""
        end = _next_time(self.end, self.timezone, now)
        start = _next_time(self.start, self.timezone, now)
        return end if end < start else None


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The rules for when to alert, and whom. `notify` is None for every channel there is, and empty for nobody.

    `after` is the number of consecutive failures that open an incident; None decides by the job (`failures_needed`).
    """

    on: frozenset[IncidentKind] = _DEFAULT_KINDS
    after: int | None = None
    rate: Rate | None = None
    notify: tuple[str, ...] | None = None
    repeat: timedelta | None = None
    escalate: tuple[Escalation, ...] = ()
    resolve: bool = True
    quiet_hours: QuietHours | None = None
    group: str = "host"
    slow_after: timedelta | None = None
    no_success_for: timedelta | None = None
    paused_for: timedelta | None = None
    losing_share: float | None = None

    def failures_needed(self, *, never_began: bool, is_rare: bool) -> int:
        """Return how many consecutive failures open an incident.

        Unless `after` says so: one for a run that never began, or for a job that runs less than daily; else two.
        """
        if self.after is not None:
            return self.after
        return 1 if never_began or is_rare else 2


BUILT_IN = AlertPolicy()
SILENT = AlertPolicy(on=frozenset(), notify=())


def policy_for(name: str, policies: Mapping[str, AlertPolicy]) -> tuple[str, AlertPolicy]:
    """Return the policy that applies to a job that names this one, and its name.

    A job without a policy, or with an unknown one, gets `default`; if nobody has defined that, the built-in one.
    """
    if name == NO_POLICY:
        return NO_POLICY, SILENT
    if name in policies:
        return name, policies[name]
    return DEFAULT_POLICY, policies.get(DEFAULT_POLICY, BUILT_IN)


def is_built_in(name: str) -> bool:
    """Return True for the names that a job can always give: none, `default`, and the empty one, which means it."""
    return name in ("", DEFAULT_POLICY, NO_POLICY)


def check_name(name: object, what: str) -> None:
    """Raise a RequestError unless this can be the name of a policy or a channel."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        hint = "write letters, digits, _ and -, at most 60 of them"
        raise RequestError([FieldError("/name", f"{shown(name)} cannot be the name of {what}", hint)])


def check_policy_name(name: object) -> None:
    """Raise a RequestError unless this can be the name of a policy."""
    check_name(name, "an alert policy")
    if name == NO_POLICY:
        raise RequestError([FieldError("/name", "none is the name for no alerts", "take another name")])


def parse_policy(body: object) -> AlertPolicy:
    """Parse a policy, or raise a RequestError with all errors.

    An absent field gets its default, and so does one that is null, if null is a value of it.
    """
    if not isinstance(body, Mapping):
        raise RequestError(
            [FieldError("", "an alert policy is an object", 'as in {"on": ["failed"], "notify": ["ops"]}')]
        )
    errors: list[FieldError] = []
    values = {name: value for name, value in body.items() if value is not None or name in _NEVER_NULL}
    policy = AlertPolicy(
        on=_read_kinds(values["on"], errors) if "on" in values else _DEFAULT_KINDS,
        after=_read_count(values, errors),
        rate=_read_rate(values.get("rate"), errors),
        notify=None if "notify" not in values else read_names(values["notify"], "/notify", errors),
        repeat=_read_span(values, "repeat", MIN_REPEAT, errors),
        escalate=_read_escalations(values.get("escalate", ()), errors),
        resolve=_read_flag(values, "resolve", errors),
        quiet_hours=_read_quiet_hours(values.get("quiet_hours"), errors),
        group=_read_group(values.get("group", "host"), errors),
        slow_after=_read_span(values, "slow_after", timedelta(seconds=1), errors),
        no_success_for=_read_span(values, "no_success_for", MIN_WAIT, errors),
        paused_for=_read_span(values, "paused_for", MIN_WAIT, errors),
        losing_share=_read_share(values, errors),
    )
    for kind, (name, example) in LIMITS.items():
        if kind in policy.on and name not in values:
            errors.append(FieldError(f"/{name}", f"`on` has {kind}, which needs {name}", f"write one, as in {example}"))
    errors += unknown_fields("", body, (*FIELDS, *READ_ONLY), FIELDS)
    if errors:
        raise RequestError(errors)
    return policy


def policy_to_body(policy: AlertPolicy) -> dict[str, Any]:
    """Return all fields of a policy in the form that `parse_policy` reads."""
    return {
        "on": sorted(policy.on),
        "after": policy.after,
        "rate": None if policy.rate is None else str(policy.rate),
        "notify": None if policy.notify is None else list(policy.notify),
        "repeat": _shown_span(policy.repeat),
        "escalate": [{"after": show_duration(each.after), "notify": list(each.notify)} for each in policy.escalate],
        "resolve": policy.resolve,
        "quiet_hours": _shown_quiet_hours(policy.quiet_hours),
        "group": policy.group,
        "slow_after": _shown_span(policy.slow_after),
        "no_success_for": _shown_span(policy.no_success_for),
        "paused_for": _shown_span(policy.paused_for),
        "losing_share": policy.losing_share,
    }


def channels_of(policy: AlertPolicy) -> frozenset[str]:
    """Return the names of all channels that a policy mentions."""
    named = [policy.notify or (), *(each.notify for each in policy.escalate)]
    return frozenset(name for names in named for name in names)


def _read_kinds(value: object, errors: list[FieldError]) -> frozenset[IncidentKind]:
    known = sorted(JOB_KINDS)
    hint = f"write a list of {', '.join(known)}"
    if not isinstance(value, (list, tuple)):
        errors.append(FieldError("/on", f"on is {shown(value)}", hint))
        return frozenset()
    for position, each in enumerate(value[:100]):
        if each not in known:
            errors.append(FieldError(f"/on/{position}", f"{shown(each)} is nothing to alert on", hint))
    return frozenset(IncidentKind(each) for each in value if each in known)


def _read_count(values: Mapping[str, Any], errors: list[FieldError]) -> int | None:
    after = values.get("after")
    if after is None or (type(after) is int and 1 <= after <= 100):
        return after
    errors.append(FieldError("/after", f"after is {shown(after)}", "write how many failures in a row, from 1 to 100"))
    return None


def _read_rate(value: object, errors: list[FieldError]) -> Rate | None:
    if value is None:
        return None
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    rate = Rate(int(found[1]), int(found[2])) if found else None
    if rate is None or not rate.failed <= rate.of <= MAX_RATE_RUNS:
        hint = f"write how many failures of how many runs, as in `3 of 10`, at most {MAX_RATE_RUNS} runs"
        errors.append(FieldError("/rate", f"rate is {shown(value)}", hint))
        return None
    return rate


def read_names(value: object, pointer: str, errors: list[FieldError]) -> tuple[str, ...]:
    """Read a list of names of channels."""
    hint = f'write names of channels, as in ["ops"], at most {MAX_CHANNEL_NAMES}'
    if not isinstance(value, (list, tuple)) or len(value) > MAX_CHANNEL_NAMES:
        errors.append(FieldError(pointer, f"{pointer.rpartition('/')[2]} is {shown(value)}", hint))
        return ()
    names = []
    for position, each in enumerate(value):
        if isinstance(each, str) and _NAME.fullmatch(each):
            names.append(each)
        else:
            errors.append(FieldError(f"{pointer}/{position}", f"{shown(each)} is not the name of a channel", hint))
    return tuple(dict.fromkeys(names))


def _read_span(values: Mapping[str, Any], name: str, minimum: timedelta, errors: list[FieldError]) -> timedelta | None:
    if name not in values:
        return None
    try:
        return read_duration(values[name], minimum)
    except InvalidValue as error:
        errors.append(error.at(f"/{name}", name, values[name]))
        return None


def _read_flag(values: Mapping[str, Any], name: str, errors: list[FieldError]) -> bool:
    value = values.get(name, True)
    if not isinstance(value, bool):
        errors.append(FieldError(f"/{name}", f"{name} is {shown(value)}", "write true or false"))
        return True
    return value


def _read_escalations(value: object, errors: list[FieldError]) -> tuple[Escalation, ...]:
    hint = 'as in [{"after": "30m", "notify": ["pager"]}]'
    if not isinstance(value, (list, tuple)) or len(value) > MAX_ESCALATION_ITEMS:
        errors.append(FieldError("/escalate", f"escalate is no list of at most {MAX_ESCALATION_ITEMS} steps", hint))
        return ()
    steps: list[Escalation] = []
    for position, each in enumerate(value):
        pointer = f"/escalate/{position}"
        if not isinstance(each, Mapping):
            errors.append(FieldError(pointer, f"{shown(each)} is no step", hint))
            continue
        errors += unknown_fields(pointer, each, ("after", "notify"), ("after", "notify"))
        notify = read_names(each.get("notify"), f"{pointer}/notify", errors)
        try:
            after = read_duration(each.get("after"), MIN_WAIT)
        except InvalidValue as error:
            errors.append(error.at(f"{pointer}/after", "after", each.get("after")))
            continue
        if steps and after <= steps[-1].after:
            errors.append(FieldError(f"{pointer}/after", "each step comes after the one before it"))
        steps.append(Escalation(after, notify))
    return tuple(steps)


def _read_quiet_hours(value: object, errors: list[FieldError]) -> QuietHours | None:
    if value is None:
        return None
    pointer, hint = "/quiet_hours", 'as in {"from": "22:00", "until": "07:00", "timezone": "Europe/Berlin"}'
    if not isinstance(value, Mapping):
        errors.append(FieldError(pointer, f"quiet_hours is {shown(value)}", hint))
        return None
    count = len(errors)
    known = ("from", "until", "timezone")
    errors += unknown_fields(pointer, value, known, known)
    start, end = (_read_clock(value.get(name), f"{pointer}/{name}", name, errors) for name in ("from", "until"))
    zone = value.get("timezone", "UTC")
    try:
        zone = read_zone(zone)
    except InvalidValue as error:
        errors.append(error.at(f"{pointer}/timezone", "timezone", zone))
    if start is not None and start == end:
        errors.append(FieldError(pointer, "from and until are the same time", "leave quiet_hours out for none"))
    if len(errors) > count or start is None or end is None:
        return None
    return QuietHours(start, end, zone)


def _read_clock(value: object, pointer: str, name: str, errors: list[FieldError]) -> time | None:
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        errors.append(FieldError(pointer, f"{name} is {shown(value)}", "write a time of day, as in 22:00"))
        return None
    return time(int(found[1]), int(found[2]))


def _read_group(value: object, errors: list[FieldError]) -> str:
    if isinstance(value, str) and value in GROUPS:
        return value
    errors.append(FieldError("/group", f"group is {shown(value)}", f"write one of {', '.join(GROUPS)}"))
    return "host"


def _read_share(values: Mapping[str, Any], errors: list[FieldError]) -> float | None:
    share = values.get("losing_share")
    if share is None or (type(share) in (int, float) and 0 < share < 1):
        return share
    errors.append(FieldError("/losing_share", f"losing_share is {shown(share)}", "write a number between 0 and 1"))
    return None


def _shown_span(span: timedelta | None) -> str | float | None:
    return None if span is None else show_duration(span)


def _shown_quiet_hours(hours: QuietHours | None) -> dict[str, str] | None:
    if hours is None:
        return None
    return {"from": f"{hours.start:%H:%M}", "until": f"{hours.end:%H:%M}", "timezone": hours.timezone}


def _next_time(clock: time, timezone: str, now: datetime) -> datetime:
    """Return the next instant, after now, at which local clocks show this time."""
    found = Schedule.parse(f"{clock.minute} {clock.hour} * * *", timezone).next(now.astimezone(UTC))
    return found or now + _ONE_DAY
