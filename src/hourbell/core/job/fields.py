"""The table of job fields: one row defines how a field is set, stored and shown everywhere.

It drives the parser and the JSON of jobs and versions, the jobs file and its schema, the API document, SQL columns, and
the options of the command line and of the library. `Definition` has the types and defaults, and an import-time check
ensures that it and the table have the same fields. To add a field, add a line there, a row here and a migration.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from hourbell.core.job.definition import Definition
from hourbell.core.job.field_kinds import ANY_JSON, FLAG, INSTANT, RETRY, TAGS, TARGET, Kind, choice, duration, text
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.values.readers import ZERO

NAME_PATTERN = "^[A-Za-z0-9_-]+$"
MAX_NAME_CHARACTERS, MAX_SCHEDULE_CHARACTERS, MAX_DESCRIPTION_CHARACTERS, MAX_SUBJECT_CHARACTERS = (
    100,
    4_096,
    10_000,
    200,
)
MAX_POLICY_CHARACTERS = 60
DST = ("once", "wall", "skip")


@dataclass(frozen=True, slots=True)
class JobField:
    """A field of a job; its default is that of `Definition`.

    `is_planning`: it decides which instants are planned, and how. `is_given`: users set it, and not the server.
    `follows_schedule`: its default depends on the kind of schedule. `has_option`: it has a command-line option.
    """

    name: str
    kind: Kind
    help: str = ""
    examples: tuple[str, ...] = ()
    is_planning: bool = False
    is_given: bool = True
    follows_schedule: bool = False
    has_option: bool = True
    default: Any = ...  # from `Definition`; MISSING if there is none

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def is_nullable(self) -> bool:
        """True if null is accepted, and means the default."""
        return self.default is None or self.follows_schedule

    @property
    def shown_default(self) -> Any:
        """The default as users write it."""
        return None if self.is_nullable else self.kind.show(self.default)


def _checked(*rows: JobField) -> Iterator[JobField]:
    """Add the defaults of `Definition` to the rows; raise a TypeError unless both have the same fields."""
    defaults = {each.name: each.default for each in fields(Definition)}
    if sorted(defaults) != sorted(row.name for row in rows):
        raise TypeError(f"not in both Definition and table: {defaults.keys() ^ {row.name for row in rows}}")
    for row in rows:
        yield replace(row, default=defaults[row.name])


_NAME = text(MAX_NAME_CHARACTERS, min_length=1, pattern=NAME_PATTERN)
_SCHEDULE = "Cron such as 0 9 * * 1-5, @daily, every 15m, at …, yearly … or RRULE:…"
_RETRY = "Attempts and the waits between them: the name of a preset, or a policy."
_ENABLED = "Whether a new job fires; ignored for an existing job."
# fmt: off
JOB_FIELDS = tuple(_checked(
    JobField("name", _NAME, "Letters, digits, _ and -; unique.", ("daily-cleanup",), has_option=False),
    JobField("schedule", text(MAX_SCHEDULE_CHARACTERS, min_length=1), _SCHEDULE, ("0 3 * * *",), is_planning=True),
    JobField("timezone", text(), "An IANA time zone such as Europe/Paris.", ("America/New_York",), is_planning=True),
    JobField("dst", choice(DST), "What to do when clocks change.", is_planning=True),
    JobField("target", TARGET, "The target to call."),
    JobField("payload", ANY_JSON, "Any JSON value; the target gets it with each run."),
    JobField("description", text(MAX_DESCRIPTION_CHARACTERS), "A description for people."),
    JobField("catch_up", choice(CatchUp), "What happens to scheduled times that were missed.", is_planning=True,
             follows_schedule=True),
    JobField("catch_up_window", duration(), "How old a missed scheduled time may be."),
    JobField("overlap", choice(Overlap), "What to do while an earlier run has not ended."),
    JobField("retry", RETRY, _RETRY),
    JobField("delivery", choice(Delivery), "What to do when it is unknown whether a run happened."),
    JobField("max_age", duration(), "How long after its scheduled time a run may still start."),
    JobField("late_after", duration(), "How long after its scheduled time a run counts as late."),
    JobField("priority", choice(Priority), "Which runs start first when slots are scarce."),
    JobField("jitter", duration(ZERO), "Spreads runs over this long after their scheduled times."),
    JobField("starts_at", INSTANT, "Nothing fires before this time.", is_planning=True),
    JobField("ends_at", INSTANT, "Nothing fires after this time.", is_planning=True),
    JobField("enabled", FLAG, _ENABLED, is_planning=True, has_option=False),
    JobField("tags", TAGS, "Labels to filter jobs by."),
    JobField("subject", text(MAX_SUBJECT_CHARACTERS), "Who or what the job is for; lists can be filtered by it."),
    JobField("alert_policy", text(MAX_POLICY_CHARACTERS), "When to alert, and whom: the name of a policy, or none.",
             ("billing",)),
    JobField("lane", text(), is_given=False, has_option=False),
    JobField("managed_by", text(), is_given=False, has_option=False),
    JobField("source", text(), is_given=False, has_option=False),
))
# fmt: on
BODY_FIELDS = tuple(field for field in JOB_FIELDS if field.is_given)
FIELDS = tuple(field.name for field in BODY_FIELDS)
PLANNING_FIELDS = tuple(field.name for field in JOB_FIELDS if field.is_planning)
