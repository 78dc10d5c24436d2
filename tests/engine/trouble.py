"""Random faults from a seed, for tests that examine the tables afterwards.

`tests/simulation` is what holds the engine to its promises.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from hourbell.core.job.definition import Job
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, RetryPolicy
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from tests.engine.nodes import ENDED, LEASE, SECOND, Cluster, Node

ACTS = 30
CALM = 4 * LEASE  # for the last lease to run out, the reaper to warm up and the rest to be done


class Trouble:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._jobs: list[Job] = []

    async def add_jobs(self) -> None:
        for number, overlap in enumerate(Overlap):
            await self._add(f"overlap-{number}", overlap=overlap, catch_up=CatchUp.ALL)
        for number, policy in enumerate(CatchUp):
            await self._add(f"policy-{number}", catch_up=policy)
        for number in range(3):
            await self._add(f"once-{number}", delivery=Delivery.AT_MOST_ONCE, catch_up=CatchUp.ALL)

    async def _add(self, name: str, **more: object) -> None:
        schedule = self._random.choice(["every 7s", "every 20s", "* * * * *"])
        retry = RetryPolicy(50, (self._random.choice([0, 1, 10]) * SECOND,))
        lane = self._random.choice("abc")
        self._jobs.append(await self._cluster.add_job(name, schedule, lane=lane, retry=retry, **more))

    async def deliver(self, *_: object) -> Outcome:
        await asyncio.sleep(self._random.choice([0, 0, 0.1, 2, 30]))
        return Failed("bad luck") if self._random.random() < 0.2 else Succeeded()

    async def act(self) -> None:
        acts: list[Callable[[], Awaitable[None]]] = [
            self.crash,
            self.crash,
            self.restart,
            self.freeze,
            self.cut_off,
            self.outage,
            self.step,
            self.pause,
            self.edit,
            self.cancel,
            self.block,
        ]
        await self._random.choice(acts)()
        await self._cluster.advance(self._random.choice([0.01, 1, 5, 15]))

    def _some_node(self) -> Node | None:
        well = [node for node in self._cluster.alive if not node.is_frozen]
        return self._random.choice(well) if well else None

    async def crash(self) -> None:
        if node := self._some_node():
            node.crash()
        await self._cluster.start()

    async def restart(self) -> None:
        if node := self._some_node():
            stopping = asyncio.create_task(node.stop())
            await self._cluster.start()
            await stopping

    async def freeze(self) -> None:
        if node := self._some_node():
            node.freeze()
            seconds = self._random.choice([0.5, 20, 70, 130])
            asyncio.get_running_loop().call_later(seconds, lambda: node.is_dead or node.thaw())

    async def cut_off(self) -> None:
        if node := self._some_node():
            node.is_cut_off = True
            asyncio.get_running_loop().call_later(self._random.choice([1, 70]), setattr, node, "is_cut_off", False)

    async def outage(self) -> None:
        with self._cluster.outage():
            await self._cluster.advance(self._random.choice([0.05, 3, 40, 130]))

    async def step(self) -> None:
        self._cluster.step(self._random.choice([-59, -5, 1, 59, 61, 600]) * SECOND)

    async def pause(self) -> None:
        job = self._random.choice(self._jobs)
        await self._cluster.pause(job)
        await self._cluster.advance(self._random.choice([1, 30]))
        await self._cluster.resume(job, catch_up=self._random.random() < 0.5)

    async def edit(self) -> None:
        job = self._random.choice(self._jobs)
        await self._cluster.edit(job, schedule=self._random.choice(["every 5s", "every 30s", "* * * * *"]))

    async def cancel(self) -> None:
        runs = [run for run in await self._cluster.runs() if run["state"] not in ENDED]
        if runs:
            await self._cluster.cancel(self._random.choice(runs)["id"])

    async def block(self) -> None:
        """Everything stands still, as on a machine that is starved."""
        self._cluster.time.block(self._random.choice([1, 10, 70]))
