"""Nodes killed with -9 between a fact and its message, again and again; before that, some incidents without a fault.

Each kill has a fact of its own: a job that begins to fail, or one that is well again. Most are aimed: the node that
gets to a named moment about that fact dies there (`tests/faults/traps.py`), wherever the fact is by then: committed,
watched, claimed or received. The others strike any node at a random time after the fact. Every incident must be
notified, both its beginning and its end, under one id each, and again only if the sender died.
"""

import asyncio
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from hourbell.clock import elapsed
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.policy import parse_policy
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import RETRY_PRESETS, Overlap
from hourbell.store.control.actor import Actor
from hourbell.targets.channel.webhook import WebhookChannel
from tests.database import Database
from tests.faults.accounts import Row
from tests.faults.books import none_of, percentile
from tests.faults.databases import database_for, url_of
from tests.faults.fleet import Fleet, Member, until
from tests.faults.hooks import Delivered, Hooks
from tests.faults.traps import Moment, Trap
from tests.faults.verdict import Setting, Verdict

NODES = 3
KILLS = 100
AIMED = 0.8  # of the kills
UNDISTURBED = 30  # incidents without a fault
AFTER_THE_FACT = (0.0, 2.5)  # seconds until a kill that is not aimed
HELD = 0.05  # seconds until the receiver answers
PATIENCE, STARTING = 60.0, 120.0  # seconds to wait for a message, and for a process to serve, on a very busy machine
PATH, CHANNEL, BY = "/alerts", "ops", "campaign"
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class _Flaky:
    """A task that fails while a file is there."""

    folder: Path

    @property
    def source(self) -> str:
        return f"""
from tests.faults.traps import install

install({str(self.folder)!r})

@scheduler.task(name="flaky")
async def flaky(run, broken):
    if os.path.exists(broken):
        raise RuntimeError("out of order")
"""


@dataclass
class _Stage:
    """Jobs that are broken and repaired on purpose, each once, and what the receiver got about them."""

    database: Database
    folder: Path
    hooks: Hooks
    numbers: int = 0
    broken: dict[UUID, Path] = field(default_factory=dict)
    repaired: list[UUID] = field(default_factory=list)
    retired: set[UUID] = field(default_factory=set)
    facts: dict[tuple[UUID, Event], float] = field(default_factory=dict)  # when each was made

    async def prepare(self) -> None:
        parsed = WebhookChannel().parse({"type": "webhook", "url": self.hooks.url(path=PATH, after=HELD)})
        alerts, actor = self.database.alert_control(), await self._actor()
        await alerts.put_channel(CHANNEL, parsed, uuid4(), lambda _: [], actor)
        await alerts.put_policy("default", parse_policy({"on": ["failed"], "after": 1}), actor)

    async def break_one(self, job_id: UUID | None = None) -> UUID:
        """Create a job that fails every second."""
        self.numbers += 1
        job_id, file = job_id or uuid4(), self.folder / f"broken-{self.numbers:03}"
        file.touch()
        target = {"type": "task", "name": "flaky", "args": {"broken": str(file)}}
        definition = Definition(
            f"job-{self.numbers:03}",
            "* * * * * *",
            target,
            lane=lane_of(target),
            retry=RETRY_PRESETS["none"],
            overlap=Overlap.SKIP,
        )
        self.broken[job_id], self.facts[job_id, Event.OPENED] = file, elapsed()
        await self.database.control().create_job(definition, job_id, await self._actor())
        return job_id

    def repair(self, job_id: UUID) -> None:
        self.facts[job_id, Event.RESOLVED] = elapsed()
        self.broken.pop(job_id).unlink()
        self.repaired.append(job_id)

    async def wait_until_notified(self, jobs: Iterable[UUID], event: Event) -> None:
        wanted = {str(job) for job in jobs}
        await until(lambda: wanted <= self.notified(event), PATIENCE + len(wanted), f"{event} of {len(wanted)} jobs")

    async def retire(self) -> None:
        """Pause the jobs whose story is over."""
        control, actor, over = self.database.control(), await self._actor(), self.notified(Event.RESOLVED)
        for job_id in [each for each in self.repaired if each not in self.retired and str(each) in over]:
            await control.pause_job(job_id, actor, note="", until=None, cancel_waiting=False)
            self.retired.add(job_id)

    def notified(self, event: Event) -> set[str]:
        """The jobs of which the receiver has got this event."""
        return {each.facts["job"]["id"] for each in self.messages() if each.type == event and each.facts["job"]}

    def messages(self) -> list[Delivered]:
        return self.hooks.messages(PATH)

    async def _actor(self) -> Actor:
        return Actor(BY, await self.database.engine().sample_time())


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("alerts", setting.backend)
    kills, undisturbed = setting.sized(KILLS, least=6), setting.sized(UNDISTURBED, least=4)
    trap, moments = Trap(setting.folder), Counter[str]()
    async with database_for(setting.backend) as database:
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))}
        with (
            Hooks(setting.folder) as hooks,
            Fleet(setting.folder, url_of(database), _Flaky(setting.folder), **environment) as fleet,
        ):
            stage = _Stage(database, setting.folder, hooks)
            await stage.prepare()
            for member in [fleet.start() for _ in range(NODES)]:
                await member.ready(STARTING)
            jobs = [await stage.break_one() for _ in range(undisturbed)]
            await stage.wait_until_notified(jobs, Event.OPENED)
            for job_id in jobs:
                stage.repair(job_id)
            await stage.wait_until_notified(jobs, Event.RESOLVED)
            calm = len(stage.messages())
            for number in range(kills):
                await stage.retire()
                await until(lambda: all(member.is_serving for member in fleet.running), STARTING, "all of them serve")
                moments[await _kill(stage, fleet, trap, setting, aims=number < kills * AIMED)] += 1
                fleet.start()
            await until(lambda: all(member.is_serving for member in fleet.running), STARTING, "all of them serve")
            await stage.wait_until_notified([*stage.broken, *stage.repaired], Event.OPENED)
            for job_id in [*stage.broken]:
                stage.repair(job_id)
            await stage.wait_until_notified(stage.repaired, Event.RESOLVED)
            await stage.retire()
            await _until_settled(database)
            exits = await fleet.stop_all()
            messages, members = stage.messages(), fleet.members
        incidents = await database.rows("incidents")
        notifications = await database.rows("notifications")
        runs = {row["id"]: row for row in await database.rows("runs")}
    verdict.equal("kills between a fact and its message", kills, sum(moments.values()))
    verdict.equal("incidents of jobs that failed and were repaired", len(stage.facts) // 2, len(incidents))
    _check_incidents(verdict, stage, incidents)
    _check_messages(verdict, messages, incidents, notifications, runs)
    once = Counter(each.id for each in messages[:calm])
    verdict.equal("without a fault: messages", 2 * undisturbed, len(once))
    none_of(verdict, "without a fault: messages that came twice", [each for each in once if once[each] > 1])
    none_of(verdict, "messages repeated although their sender lived", _unexplained(messages, members))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    repeated = sum(count - 1 for count in Counter(each.id for each in messages).values())
    seconds = _seconds_to_message(stage, messages[calm:])
    verdict.figures |= {
        "incidents": len(incidents),
        "messages": len({each.id for each in messages}),
        "repeated with the same id": repeated,
        "from fact to message, p50, seconds": round(percentile(seconds, 50), 2),
        "from fact to message, max, seconds": round(max(seconds, default=0.0), 2),
        "kills when": dict(moments),
    }
    return verdict


async def _kill(stage: _Stage, fleet: Fleet, trap: Trap, setting: Setting, *, aims: bool) -> str:
    """Make a fact, and kill a node between it and its message; return the moment."""
    random = setting.random
    known = stage.notified(Event.OPENED)
    repairable = [job_id for job_id in stage.broken if str(job_id) in known]
    event = Event.RESOLVED if repairable and random.random() < 0.5 else Event.OPENED
    job_id = random.choice(repairable) if event is Event.RESOLVED else uuid4()
    moment = random.choice(list(Moment))
    alive = fleet.running
    if aims:
        trap.set(moment, job_id, event)
    if event is Event.OPENED:
        await stage.break_one(job_id)
    else:
        stage.repair(job_id)
    if not aims:
        await asyncio.sleep(random.uniform(*AFTER_THE_FACT))
        fleet.kill(random.choice(fleet.running))
        return "at random"
    await until(lambda: any(not member.is_running for member in alive), PATIENCE, f"a death when {moment}")
    [dead] = [member for member in alive if not member.is_running]
    assert await dead.exit_code(1) == -signal.SIGKILL
    fleet.cut("kill", dead)
    return moment.value


async def _until_settled(database: Database) -> None:
    """Wait until every message is written as delivered; one whose sender died is claimed again after its lease."""
    end = elapsed() + PATIENCE
    with suppress(TimeoutError):
        while any(row["finished_at"] is None for row in await database.rows("runs")):
            if elapsed() > end:
                return  # the checks say what is left
            await asyncio.sleep(0.2)


def _check_incidents(verdict: Verdict, stage: _Stage, incidents: Sequence[Row]) -> None:
    of_job = Counter(row["job_id"] for row in incidents if row["kind"] == "failed")
    none_of(verdict, "jobs without an incident", [job for job in stage.repaired if of_job[job] == 0])
    none_of(verdict, "jobs with several incidents", [job for job, count in of_job.items() if count > 1])
    none_of(verdict, "incidents nobody caused", [row for row in incidents if row["job_id"] not in stage.repaired])
    none_of(verdict, "incidents that are not over", [row for row in incidents if row["state"] != "resolved"])


def _check_messages(
    verdict: Verdict,
    messages: Sequence[Delivered],
    incidents: Sequence[Row],
    notifications: Sequence[Row],
    runs: Mapping[UUID, Row],
) -> None:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for message in messages:
        found[message.incident["id"], message.type].add(message.id)
        bodies[message.id].add(message.body)
    wanted = [(str(row["id"]), event) for row in incidents for event in (Event.OPENED, Event.RESOLVED)]
    none_of(verdict, "beginnings and ends of incidents without a message", [each for each in wanted if not found[each]])
    none_of(verdict, "beginnings and ends under several ids", [each for each, ids in found.items() if len(ids) > 1])
    none_of(verdict, "ids with several bodies", [each for each, kinds in bodies.items() if len(kinds) > 1])
    planned = {str(row["run_id"]) for row in notifications}
    none_of(verdict, "messages received that were not planned", [each for each in bodies if each not in planned])
    none_of(verdict, "messages planned that were not received", [each for each in planned if each not in bodies])
    undelivered = [row for row in notifications if runs[row["run_id"]]["state"] != "succeeded"]
    none_of(verdict, "messages that are not written as delivered", undelivered)


def _unexplained(messages: Sequence[Delivered], members: Sequence[Member]) -> list[Any]:
    """Messages that came again although the process that sent them before was not killed."""
    killed = {member.name for member in members if member.server.exit_status == -signal.SIGKILL}
    by_id: dict[str, list[Delivered]] = defaultdict(list)
    for message in messages:
        by_id[message.id].append(message)
    return [again for sent in by_id.values() for first, again in pairwise(sent) if first.member not in killed]


def _seconds_to_message(stage: _Stage, messages: Sequence[Delivered]) -> list[float]:
    """Seconds from each fact to its first message."""
    found: dict[tuple[str, str], float] = {}
    for message in messages:
        if message.facts["job"]:
            found.setdefault((message.facts["job"]["id"], message.type), message.at)
    return [
        found[key] - at for (job_id, event), at in stage.facts.items() if (key := (str(job_id), str(event))) in found
    ]
