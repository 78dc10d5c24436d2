"""Errors for unknown job options, with what to write instead."""

import difflib
from collections.abc import Iterable

from hourbell.library.declaring import JobOptions

_KNOWN = (*JobOptions.__annotations__, "schedule", "name", "isolate")
_A_SCHEDULE = "write the schedule as text, as in '0 9 * * mon-fri' or 'every 15m'"
_OF_OTHERS = {
    "max_instances": "write overlap='skip' for one run at a time",
    "misfire_grace_time": "write catch_up='none' with late_after='1s', or catch_up_window='1h'",
    "coalesce": "write catch_up='latest' for True and catch_up='all' for False",
    "id": "write name=",
    "kwargs": "write args={'days': 30}",
    "trigger": _A_SCHEDULE,
    "run_date": "call scheduler.once(f, at=when)",
    "next_run_time": "call scheduler.trigger with the job's name",
    "replace_existing": "leave it out: the program always says what its jobs are; create() takes on_conflict='update'",
    "isolate": "write it where the task is defined: @scheduler.task(isolate=True)",
    "start_date": "write starts_at=",
    "end_date": "write ends_at=",
    "max_retries": "write retry={'attempts': 5, 'backoff': ['10s', '1m']}",
    "tz": "write timezone=",
    **dict.fromkeys(
        ("year", "month", "day", "week", "day_of_week", "day_of_month", "hour", "minute", "second"), _A_SCHEDULE
    ),
    **dict.fromkeys(("weeks", "days", "hours", "minutes", "seconds"), _A_SCHEDULE),
}


def check_change_options(given: Iterable[str]) -> None:
    """Raise ValueError for an option that `update` does not change."""
    if "enabled" in (options := list(given)):
        raise ValueError("update does not change enabled; call pause() or resume()")
    check_options(options)


def check_options(given: Iterable[str]) -> None:
    """Raise ValueError that lists all unknown options, each with what to write instead."""
    hints: dict[str, list[str]] = {}
    for name in given:
        if name not in JobOptions.__annotations__:
            hints.setdefault(_hint(name), []).append(name)
    if hints:
        hints_by_name = (f"no option {' or '.join(names)}; {hint}" for hint, names in hints.items())
        raise ValueError(f"there is {', and '.join(hints_by_name)}")


def _hint(name: str) -> str:
    if name in _OF_OTHERS:
        return _OF_OTHERS[name]
    near = difflib.get_close_matches(name, _KNOWN, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(_KNOWN))}"
