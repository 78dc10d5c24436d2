"""No node is left: all killed, all frozen, all cut off from the database. Somebody outside learns it in two minutes.

Each fault has nodes and a database of its own, and strikes them again and again. Outside are `hourbell watch`, and a
monitor that gets their pings, as Healthchecks does: it alerts when none has come for its period and its grace. The
first round has the settings that docs/alerts.md advises; the others have shorter ones: `--interval` and `--after` of
the watcher, and `HOURBELL_PING_INTERVAL`. Nobody may be notified of anything else.

Beside them one of three nodes is killed, and then one frozen: the others notify a channel.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from hourbell.clock import elapsed
from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.policy import parse_policy
from hourbell.store.control.actor import Actor
from hourbell.targets.channel.webhook import WebhookChannel
from tests.database import Database
from tests.examples.processes import free_port
from tests.faults.books import none_of
from tests.faults.databases import database_for, is_writable, url_of
from tests.faults.fleet import Cut, Fleet, Member, until
from tests.faults.hooks import Delivered, Hooks, Ping
from tests.faults.proxy import Proxy
from tests.faults.verdict import Setting, Verdict

ROUNDS = 10  # of each fault
NODES, PEERS = 2, 3
LIMIT_SECONDS = 120.0  # until somebody outside is notified
WARM_UP = 65.0  # seconds, before a node reports that another one is silent
MONITOR_SECONDS = 2  # the period and the grace of the monitor, in intervals between pings
ON_ITS_WAY = 2.0  # seconds in which a ping that was sent before the fault may still come
PATIENCE = 150.0
STARTING = 240.0  # seconds until a node serves, while those of every fault start at one time
BY = "campaign"


@dataclass(frozen=True, slots=True)
class _Pace:
    """The settings of those outside, and what they lead to."""

    name: str
    watch: tuple[str, ...]
    ping_interval: float


ADVISED = _Pace("advised", (), 60.0)
SHORT = _Pace("short", ("--interval", "2s", "--after", "10s"), 5.0)


@dataclass
class _Scene:
    """The nodes of one fault. Their addresses stay the same when they are started again."""

    folder: Path
    hooks: Hooks
    fleet: Fleet
    proxy: Proxy | None
    ports: Sequence[int]
    pace: _Pace = SHORT
    cuts: list[Cut] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    async def start(self) -> None:
        ping = {
            "HOURBELL_PING_URL": self.hooks.ping_url(f"/{self.pace.name}"),
            "HOURBELL_PING_INTERVAL": f"{self.pace.ping_interval:g}s",
        }
        for port in self.ports:
            self.fleet.start(HTTP_ADDR=f"127.0.0.1:{port}", **ping)
        for member in self.fleet.running:
            await member.ready(STARTING)

    def pings(self) -> list[Ping]:
        return self.hooks.pings(f"/{self.pace.name}")


class Failure(Protocol):
    name: str

    async def strike(self, scene: _Scene) -> None: ...

    async def heal(self, scene: _Scene) -> None: ...


class Killed:
    name = "killed"

    async def strike(self, scene: _Scene) -> None:
        scene.cuts = [scene.fleet.kill(member) for member in scene.fleet.running]

    async def heal(self, scene: _Scene) -> None:
        await scene.start()


class Frozen:
    name = "frozen"

    async def strike(self, scene: _Scene) -> None:
        scene.cuts = [scene.fleet.freeze(member) for member in scene.fleet.running]

    async def heal(self, scene: _Scene) -> None:
        for member, cut in zip(scene.fleet.running, scene.cuts, strict=True):
            scene.fleet.thaw(member, cut)


class CutOff:
    """Connections are closed, or everything sent on them disappears, in turn."""

    name = "cut off from the database"

    def __init__(self) -> None:
        self._times = 0

    async def strike(self, scene: _Scene) -> None:
        assert scene.proxy is not None
        self._times += 1
        await asyncio.to_thread(scene.proxy.stop if self._times % 2 else scene.proxy.drop)

    async def heal(self, scene: _Scene) -> None:
        assert scene.proxy is not None
        await asyncio.to_thread(scene.proxy.restore)


@dataclass
class _Found:
    """The alerts outside: seconds from each fault, and what should not have come."""

    watch: dict[str, list[float]] = field(default_factory=dict)  # by pace
    monitor: dict[str, list[float]] = field(default_factory=dict)
    false_alarms: list[object] = field(default_factory=list)
    not_over: list[object] = field(default_factory=list)


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("silence", setting.backend)
    rounds = setting.sized(ROUNDS, least=2)
    faults: list[Failure] = [Killed(), Frozen()]
    if setting.backend == "postgres":  # SQLite has no connection that could be cut
        faults.append(CutOff())
    is_whole = setting.scale >= 1
    peers = _peers(setting) if is_whole else _nothing()
    async with asyncio.TaskGroup() as group:  # if one breaks off, the processes of the others end before their folders
        tasks = [group.create_task(_rounds(setting, fault, rounds, is_whole)) for fault in faults]
        watched = group.create_task(peers)
    found, silent = [task.result() for task in tasks], watched.result()
    for fault, each in zip(faults, found, strict=True):
        for pace in each.watch:
            seconds, pings = each.watch[pace], each.monitor[pace]
            verdict.equal(
                f"all {fault.name}, {pace} settings: rounds", 1 if pace == ADVISED.name else rounds, len(seconds)
            )
            verdict.at_most(
                f"all {fault.name}, {pace} settings: seconds until `hourbell watch` notifies",
                LIMIT_SECONDS,
                _max(seconds),
            )
            verdict.at_most(
                f"all {fault.name}, {pace} settings: seconds until the monitor would alert", LIMIT_SECONDS, _max(pings)
            )
            verdict.figures[f"{fault.name}, {pace}: seconds until watch notifies, and the monitor alerts"] = (
                f"{_max(seconds):g}, {_max(pings):g}"
            )
        none_of(verdict, f"all {fault.name}: notified of anything else", each.false_alarms)
        none_of(verdict, f"all {fault.name}: nodes that did not come back", each.not_over)
    if silent is not None:
        for what, seconds in silent.items():
            verdict.at_most(f"one of three nodes {what}: seconds until the others notify", LIMIT_SECONDS, seconds)
    return verdict


async def _nothing() -> dict[str, float] | None:
    return None


def _max(seconds: Sequence[float]) -> float:
    return round(max(seconds, default=PATIENCE), 1)


async def _rounds(setting: Setting, fault: Failure, rounds: int, is_whole: bool) -> _Found:
    found = _Found()
    async with _scene(setting, fault) as scene:
        for pace, number in ((ADVISED, int(is_whole)), (SHORT, rounds)):
            if not number:
                continue
            scene.pace = pace
            await scene.start()
            with _watching(scene, pace) as state:
                await until(state.exists, STARTING, "the first look of `hourbell watch`")
                await _until_pinged(scene, 0.0)
                for _ in range(number):
                    await _round(scene, fault, found)
                    await asyncio.sleep(setting.random.uniform(0.5, 2.0))
            opened = [each for each in _messages(scene) if each.type == Event.OPENED]
            found.false_alarms += opened[number:]
            await scene.fleet.stop_all()
    return found


async def _round(scene: _Scene, fault: Failure, found: _Found) -> None:
    """Strike, wait until `hourbell watch` has notified, heal, and wait for that message, too."""
    pace, known = scene.pace, len(_messages(scene))
    began_at = elapsed()
    await fault.strike(scene)
    await until(lambda: len(_messages(scene)) > known, PATIENCE, f"a message of `hourbell watch`, {fault.name}")
    [opened, *more] = _messages(scene)[known:]
    is_right = opened.type == Event.OPENED and opened.incident["kind"] == IncidentKind.SCHEDULER_SILENT
    found.false_alarms += more if is_right else [opened, *more]
    found.watch.setdefault(pace.name, []).append(opened.at - began_at)
    oks = [ping.at for ping in scene.pings() if ping.path == f"/{pace.name}"]
    found.false_alarms += [f"a ping {at - began_at:.1f} s after the fault" for at in oks if at > began_at + ON_ITS_WAY]
    last = max((at for at in oks if at <= began_at + ON_ITS_WAY), default=began_at)
    found.monitor.setdefault(pace.name, []).append(last + MONITOR_SECONDS * pace.ping_interval - began_at)
    healed_at = elapsed()
    await fault.heal(scene)
    try:
        await until(lambda: len(_messages(scene)) > known + 1, STARTING, f"the end, {fault.name}")
        await _until_pinged(scene, healed_at)
    except AssertionError as error:
        found.not_over.append(error)
    found.false_alarms += [each for each in _messages(scene)[known + 1 :] if each.type != Event.RESOLVED]


async def _until_pinged(scene: _Scene, since: float) -> None:
    def pinged() -> bool:
        return any(ping.at > since and ping.path == f"/{scene.pace.name}" for ping in scene.pings())

    await until(pinged, STARTING + 2 * scene.pace.ping_interval, "a ping that all is well")


def _messages(scene: _Scene) -> list[Delivered]:
    return scene.hooks.messages(f"/watch/{scene.pace.name}")


@asynccontextmanager
async def _scene(setting: Setting, fault: Failure) -> AsyncIterator[_Scene]:
    folder = setting.folder / fault.name.partition(" ")[0]
    folder.mkdir()
    async with database_for(setting.backend) as database:
        with ExitStack() as stack:
            hooks = stack.enter_context(Hooks(folder))
            url = url_of(database)
            proxy = stack.enter_context(Proxy(url)) if isinstance(fault, CutOff) else None
            fleet = stack.enter_context(Fleet(folder, proxy.url if proxy else url))
            yield _Scene(folder, hooks, fleet, proxy, [free_port() for _ in range(NODES)])


@contextmanager
def _watching(scene: _Scene, pace: _Pace) -> Iterator[Path]:
    """`hourbell watch` as it runs on another machine; the file is there from its first look on."""
    state = scene.folder / f"{pace.name}.json"
    urls = [option for url in scene.urls for option in ("--url", url)]
    notify = ("--notify", scene.hooks.url(path=f"/watch/{pace.name}"))
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "hourbell", "watch", *urls, *notify, *pace.watch, "--state", str(state)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield state
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def _peers(setting: Setting) -> dict[str, float] | None:
    """One of three nodes is killed, and then another one frozen; seconds until a channel has the message of each."""
    folder, found = setting.folder / "peers", dict[str, float]()
    folder.mkdir()
    async with database_for(setting.backend) as database:
        with Hooks(folder) as hooks, Fleet(folder, url_of(database)) as fleet:
            await _add_channel(database, hooks)
            for member in [fleet.start() for _ in range(PEERS)]:
                await member.ready(STARTING)
            await asyncio.sleep(WARM_UP)
            for what in ("killed", "frozen"):
                member, known, began_at = fleet.running[0], len(hooks.messages("/peers")), elapsed()
                cut = fleet.kill(member) if what == "killed" else await _freeze(fleet, member, database)
                await until(lambda known=known: len(hooks.messages("/peers")) > known, PATIENCE, f"one {what}")  # type: ignore[misc]
                [message] = hooks.messages("/peers")[known:]
                assert message.incident["kind"] == IncidentKind.SCHEDULER_SILENT, message
                found[what] = round(message.at - began_at, 1)
                if what == "killed":
                    await fleet.start().ready(STARTING)
                else:
                    fleet.thaw(member, cut)
                await until(
                    lambda known=known: len(hooks.messages("/peers")) > known + 1, STARTING, f"the end of one {what}"
                )  # type: ignore[misc]
                assert hooks.messages("/peers")[-1].type == Event.RESOLVED
            await fleet.stop_all()
    return found


async def _add_channel(database: Database, hooks: Hooks) -> None:
    parsed = WebhookChannel().parse({"type": "webhook", "url": hooks.url(path="/peers")})
    actor, alerts = Actor(BY, await database.engine().sample_time()), database.alert_control()
    await alerts.put_channel("peers", parsed, uuid4(), lambda _: [], actor)
    await alerts.put_policy("default", parse_policy({"on": ["failed"]}), actor)


async def _freeze(fleet: Fleet, member: Member, database: Database) -> Cut:
    """Freeze a process that is not within a transaction, which on SQLite would stop the others, too."""
    while True:
        cut = fleet.freeze(member)
        await member.stopped()
        if await is_writable(database):
            return cut
        fleet.thaw(member, cut)
        await asyncio.sleep(0.05)
