"""The policies, written a second time and differently: which scheduled times run, and why a run may end."""

from typing import Any

from tests.simulation.changes import Row

SECOND = 1_000_000
MAX_BACKOFF = 10 * SECOND  # of any job of a simulation
MAX_PASS_RUNS = 100
_AT_ONCE = {"skip": 1, "queue_one": 2}


def runs_of(job: Row, due: list[int], now: int, unfinished: int) -> list[int]:
    """Return the due times that get a run, if the job has so many unfinished ones."""
    if job["catch_up_window"] is not None:
        due = [instant for instant in due if now - instant <= job["catch_up_window"]]
    policy = job["catch_up"]
    if policy == "all":
        due = due[:MAX_PASS_RUNS]  # what is left of a backlog that an edit drops
    if policy == "none" and due and now - due[-1] > job["late_after"]:
        return []
    chosen = {"all": due, "earliest": due[:1]}.get(policy, due[-1:])
    if job["overlap"] == "cancel_running":
        return chosen[-1:]
    if job["overlap"] in _AT_ONCE:
        return chosen[: max(0, _AT_ONCE[job["overlap"]] - unfinished)]
    return chosen


def wrong_reason(run: Row, *, max_attempts: int, poison_after: int, verb: str, at: int) -> str | None:
    """Return the error in the reason a run failed for, if any."""
    rules: dict[Any, tuple[bool, str]] = {
        "exhausted": (run["failures"] >= max_attempts, "it has attempts left"),
        "lost": (bool(run["at_most_once"]), "it may be tried again"),
        "poison": (run["crashes"] >= poison_after, "too few nodes died"),
        "expired": (
            at + (MAX_BACKOFF if verb == "settle" else 0) + SECOND >= run["expires_at"],
            "it is not too old",
        ),
    }
    holds, message = rules.get(run["reason"], (False, f"no target of a simulation says {run['reason']}"))
    return None if holds else message
