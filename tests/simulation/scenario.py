"""The script of a simulation, as data drawn from a seed: jobs, nodes, and timed actions.

Everything random is decided here, or follows from the seed and an id, so that an act can be left out and the rest still
happens: that is how the shortest history is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

# Past the clock of any machine that runs this. An ordinary Monday, and the two nights of the year clocks are changed.
MOMENTS = (
    datetime(2040, 1, 2, tzinfo=UTC),
    datetime(2040, 3, 25, 0, 59, 10, tzinfo=UTC),
    datetime(2040, 10, 28, 0, 59, 10, tzinfo=UTC),
)
BERLIN = "Europe/Berlin"
SCHEDULES = ("every 2s", "every 5s", "every 7s", "every 20s", "*/10 * * * * *", "* * * * *")
LOCAL_SCHEDULES = (*SCHEDULES, "30 2 * * *", "0 2,3 * * *", "0-5 * * * *")
LEASE = 12.0  # seconds: longer than the longest backoff, twice over, as the default is
VERBS = ("sample_time", "heartbeat", "plan_due", "lanes", "claim", "definitions", "begin", "settle", "reap", "expire")
THREADED = frozenset({"task:a", "task:b"})  # lanes whose functions run in threads and cannot be stopped
TROUBLE = 40.0  # seconds in which everything happens
CROWD_LANE = "hung-"
CROWD, CROWDED_SLOTS = 8, 48


@dataclass(frozen=True)
class Act:
    """Something that happens at a moment, in seconds from the start."""

    at: float
    what: str
    node: int = 0  # by its place among those alive
    job: int = 0
    seconds: float = 0.0
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = [f"node {self.node}", f"job {self.job}", f"{self.seconds:g} s", *self.arguments]
        return f"{self.at:7.3f}  {self.what:<14} {', '.join(facts)}"


@dataclass(frozen=True)
class JobSpec:
    name: str
    schedule: str
    timezone: str
    catch_up: str
    overlap: str
    at_most_once: bool
    attempts: int
    backoff: float
    lane: str
    priority: str
    window: float | None
    jitter: float
    max_age: float
    behaviour: str  # quick, slow, fails, kills, hangs, crowds


@dataclass(frozen=True)
class Scenario:
    seed: int
    moment: datetime
    nodes: int
    slots: int
    latency: float
    poison_after: int
    retention: float
    drifts: tuple[float, ...]  # of the nodes' own clocks, as a part
    jobs: tuple[JobSpec, ...]
    acts: tuple[Act, ...] = field(default=())
    connections: int = 6  # that the loops and attempts of a node share
    threads: int = 32  # that the runs in `THREADED` lanes share on each node
    crowd: int = 0  # lanes besides those of the jobs, in which every call hangs; there are then fewer slots than calls

    @property
    def all_jobs(self) -> tuple[JobSpec, ...]:
        return *self.jobs, *(_hanging(number) for number in range(self.crowd))


def scenario_of(seed: int) -> Scenario:
    random = Random(seed)
    moment = random.choices(MOMENTS, (4, 1, 1))[0]
    jobs = tuple(_job(random, number, moment) for number in range(random.randint(2, 6)))
    has_killer = any(job.behaviour == "kills" for job in jobs)
    acts = sorted((_act(random, len(jobs)) for _ in range(random.randint(1, 14))), key=lambda act: act.at)
    return Scenario(
        seed,
        moment,
        nodes=random.randint(2, 3),
        slots=random.choice([2, 5, 1_000]),
        latency=random.choice([0.0, 0.001, 0.05]),
        poison_after=3 if has_killer else random.choice([3, 1_000]),
        retention=random.choice([5.0, 86_400.0]),
        drifts=tuple(random.choice([0.0, 0.0005, -0.0005]) for _ in range(5)),
        jobs=jobs,
        acts=tuple(acts),
        connections=random.choice([1, 2, 6]),
        threads=random.choice([1, 3, 32]),
        crowd=random.choice([0, 0, 0, 0, 0, 0, 0, CROWD]),
    )


def _job(random: Random, number: int, moment: datetime) -> JobSpec:
    is_local = moment != MOMENTS[0] and random.random() < 0.7
    kills = number == 0 and random.random() < 0.08
    return JobSpec(
        name=f"job-{number}",
        schedule="every 20s" if kills else random.choice(LOCAL_SCHEDULES if is_local else SCHEDULES),
        timezone=BERLIN if is_local else "UTC",
        catch_up=random.choice(["latest", "earliest", "all", "all", "none"]),
        overlap=random.choice(["allow", "allow", "queue_all", "queue_one", "skip", "cancel_running"]),
        at_most_once=random.random() < 0.12,
        attempts=random.choice([1, 3, 50, 50]),
        backoff=random.choice([0.0, 1.0, 10.0]),
        lane=random.choice("abc"),
        priority=random.choice(["low", "normal", "high"]),
        window=random.choice([None, None, None, 30.0]),
        jitter=random.choice([0.0, 0.0, 3.0]),
        max_age=random.choice([45.0, 86_400.0, 86_400.0]),
        behaviour="kills" if kills else random.choice(["quick", "slow", "slow", "fails", "hangs"]),
    )


def _hanging(number: int) -> JobSpec:
    """A job that fires every second in a lane of its own, in which nothing answers."""
    return JobSpec(
        name=f"hangs-{number}",
        schedule="every 1s",
        timezone="UTC",
        catch_up="all",
        overlap="allow",
        at_most_once=False,
        attempts=50,
        backoff=1.0,
        lane=f"{CROWD_LANE}{number}",
        priority="normal",
        window=None,
        jitter=0.0,
        max_age=86_400.0,
        behaviour="crowds",
    )


def _act(random: Random, jobs: int) -> Act:
    at, node, job = round(random.uniform(0, TROUBLE), 3), random.randrange(4), random.randrange(jobs)
    what = random.choices(list(_ACTS), [weight for weight, _, _ in _ACTS.values()])[0]
    _, seconds, arguments = _ACTS[what]
    return Act(at, what, node, job, random.choice(seconds), tuple(random.choice(each) for each in arguments))


_FAULTS = ("fail before", "fail after", "die before", "die after", "delay before", "delay after", "freeze after")
_BYTES = ("before begin", "first byte", "last byte")
_NOW = (0.0,)
# How often, for how many seconds, and what more is drawn.
_ACTS: dict[str, tuple[int, Sequence[float], Sequence[Sequence[str]]]] = {
    "crash": (3, (0.0, 3.0), ()),
    "restart": (2, (0.0, 2.0), ()),
    "start": (1, _NOW, ()),
    "freeze": (4, (0.5, 14.0, 18.0, 24.0), ()),
    "cut off": (2, (1.0, 14.0, 30.0), ()),
    "outage": (2, (0.05, 3.0, 14.0, 36.0), ()),
    "step": (2, (-600.0, -59.0, -5.0, 1.0, 59.0, 61.0, 600.0), ()),
    "stand still": (1, (1.0, 8.0, 30.0), ()),
    "pause": (2, (0.01, 1.0, 12.0), (("skip", "catch up"), ("keep", "cancel waiting"))),
    "pause until": (1, (1.0, 12.0), ()),
    "edit": (3, _NOW, (SCHEDULES, ("allow", "skip", "queue_one"), ("latest", "all"))),
    "retarget": (1, _NOW, ("abc",)),
    "plain sql": (2, _NOW, (SCHEDULES,)),
    "trigger": (2, _NOW, ()),
    "cancel": (2, (0.0, 0.3, 0.7), ()),
    "delete": (1, _NOW, ()),
    "verb": (10, (0.05, 2.0, 14.0), (VERBS, _FAULTS, "1125")),
    "delivery": (5, (0.05, 2.0, 14.0), (_BYTES, ("raise", "die", "delay", "freeze"))),
}
