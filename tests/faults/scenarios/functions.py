"""Runs that call functions of our own database, while processes are killed and frozen and PostgreSQL crashes.

Every function writes an effect with the id of its run, and then takes its time, fails or succeeds. Every other process
runs functions under a login of their own. In the end a run that succeeded has left one effect, of its last attempt, and
no other run has left any.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from hourbell.clock import elapsed
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import CatchUp, RetryPolicy
from hourbell.store.control.actor import Actor
from tests.database import Row
from tests.faults.accounts import unfinished
from tests.faults.books import Books, none_of
from tests.faults.cluster import Cluster, ClusterDatabase
from tests.faults.databases import come_to_rest
from tests.faults.fleet import START, Fleet, Member, until
from tests.faults.verdict import Setting, Verdict

NODES = 3
ROUNDS, KILLS = (
    6,
    2,
)  # a round is a process frozen past its leases, others killed meanwhile, and a crash of the database
RUNS = 2_000
JOBS = 40
RETRY = RetryPolicy(20, (timedelta(0),))
LOGIN = "hourbell_functions"
PAUSE = (0.2, 1.2)  # seconds between two kills
AWAY = (0.0, 0.5)  # seconds the server stays down
TAKEN_OVER = 90  # seconds; a transaction that was open when the process froze lasts for up to 60
TO_REST = 90  # seconds; every attempt is a commit of its own, and a slow disk takes its time

FUNCTIONS = """
create table public.effects (run_id uuid not null, attempt integer not null);

create function public.note_effect() returns void language sql as $$
    insert into public.effects
    values (current_setting('hourbell.run_id')::uuid, current_setting('hourbell.attempt')::integer)
$$;

create function public.work(seconds double precision) returns jsonb language plpgsql as $$
begin
    perform public.note_effect();
    perform pg_sleep(seconds * random());
    return '{"success": true, "message": "done"}';
end $$;

create function public.waver() returns jsonb language plpgsql as $$
begin
    perform public.note_effect();
    if random() < 0.3 then
        raise 'not this time';
    end if;
    return jsonb_build_object('success', random() < 0.7, 'message', 'perhaps');
end $$;

create function public.refuse() returns jsonb language plpgsql as $$
begin
    perform public.note_effect();
    return '{"success": false, "message": "never"}';
end $$;
"""
GRANTS = f"""
create role {LOGIN} login;
grant usage on schema hourbell to {LOGIN};
grant execute on function hourbell.settle_run to {LOGIN};
grant insert on public.effects to {LOGIN};
"""
# Most of them are long enough to be caught at work.
KINDS = [("work", {"seconds": 1.5}, RETRY), ("work", {"seconds": 0.05}, RETRY), ("waver", {}, RETRY)]
REFUSED = ("refuse", {}, RetryPolicy(2, (timedelta(0),)))


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("functions", setting.backend)
    rounds, wanted = setting.sized(ROUNDS), setting.sized(RUNS, least=60)
    with Cluster(max_connections="200") as cluster, Fleet(setting.folder, cluster.url) as fleet:
        await fleet.start_all(1)
        async with cluster.opened() as database:
            await _prepare(database, setting.sized(JOBS, least=12))
        login = _url_as(cluster.url, LOGIN)
        for member in [_start(fleet, login) for _ in range(NODES - 1)]:
            await member.ready()
        for _ in range(rounds):
            await _trouble(setting, fleet, cluster, login)
        async with cluster.opened() as database:
            await _until_ran(database, wanted)
            left = await come_to_rest(database, TO_REST)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
            effects = [dict(row) for row in await database.connection.fetch("select * from public.effects")]
            nonces = await database.rows("function_calls")
    cuts = Counter(cut.kind for cut in fleet.cuts)
    for kind, number in {"kill": rounds * KILLS, "freeze": rounds, "crash": rounds}.items():
        verdict.at_least(f"faults: {kind}", number, cuts[kind])
    verdict.at_least("runs", wanted, len(books.runs))
    lost = [row for row in books.attempts.values() if row["outcome"] == "lost"]
    verdict.at_least("functions that a fault caught at work", rounds, len(lost))
    late = [row for row in lost if row["late_outcome"]]
    verdict.at_least("functions of frozen processes that came back late", rounds, len(late))
    _check_effects(verdict, books, effects)
    none_of(verdict, "instants without exactly one place", books.misplaced())
    none_of(verdict, "runs that did not end", unfinished(books.runs))
    none_of(verdict, "nonces of runs that are not there", _strays(nonces, books))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "runs": len(books.runs),
        "succeeded": sum(run["state"] == "succeeded" for run in books.runs),
        "attempts": len(books.attempts),
        "attempts by outcome": dict(Counter(row["outcome"] for row in books.attempts.values())),
        "late outcomes": dict(Counter(row["late_outcome"] for row in late)),
        "nonces left": len(nonces),
        "left unfinished": dict(left),
    }
    return verdict


def _check_effects(verdict: Verdict, books: Books, effects: list[Row]) -> None:
    """Exactly once where it succeeded, and nowhere else."""
    names = {job["id"]: job["name"] for job in books.jobs}
    last = {run["id"]: run["attempt"] for run in books.runs if run["state"] == "succeeded"}
    number = Counter(effect["run_id"] for effect in effects)
    none_of(verdict, "succeeded runs without their effect", [run_id for run_id in last if not number[run_id]])
    none_of(verdict, "effects that happened twice", [run_id for run_id, times in number.items() if times > 1])
    none_of(verdict, "effects of runs that did not succeed", [run_id for run_id in number if run_id not in last])
    others = [effect for effect in effects if last.get(effect["run_id"]) != effect["attempt"]]
    none_of(verdict, "effects of another attempt than the one that succeeded", others)
    wrong = [
        run
        for run in books.runs
        if (run["state"], run["reason"])
        != (("failed", "exhausted") if names[run["job_id"]].startswith("refuse") else ("succeeded", None))
    ]
    none_of(verdict, "runs that ended otherwise than their function", wrong)


async def _prepare(database: ClusterDatabase, jobs: int) -> None:
    """The functions, the login and the jobs, of which one in ten can never succeed."""
    await database.sql(FUNCTIONS)
    await database.sql(GRANTS)
    control, store = database.control(), database.engine()
    for number in range(jobs):
        function, args, retry = REFUSED if number % 10 == 9 else KINDS[number % len(KINDS)]
        target = {"type": "sql", "function": f"public.{function}", "args": args}
        definition = Definition(
            f"{function}-{number:03}",
            "* * * * * *",
            target,
            lane=lane_of(target),
            catch_up=CatchUp.ALL,
            jitter=timedelta(seconds=1),
            retry=retry,
            managed_by="sql",
        )
        await control.create_job(definition, uuid4(), Actor("campaign", await store.sample_time()))


def _start(fleet: Fleet, login: str) -> Member:
    """Another process; every second one has a login of its own for functions."""
    return fleet.start(**({"HOURBELL_SQL_DATABASE_URL": login} if len(fleet.members) % 2 else {}))


async def _trouble(setting: Setting, fleet: Fleet, cluster: Cluster, login: str) -> None:
    """Freeze the busiest process; kill the busiest of the others, and again; wake the first; crash the database."""
    random = setting.random
    async with cluster.opened() as database:
        frozen = await _busiest(database, fleet)
        freeze = fleet.freeze(frozen)
        for _ in range(KILLS):
            fleet.kill(await _busiest(database, fleet, but=frozen))
            _start(fleet, login)
            await asyncio.sleep(random.uniform(*PAUSE))
        await _until_taken_over(database, frozen)
        fleet.thaw(frozen, freeze)
    await until(lambda: all(member.is_serving for member in fleet.running), START, "all of them serve")
    await asyncio.sleep(random.uniform(*PAUSE))
    crash = fleet.cut("crash")
    await asyncio.to_thread(cluster.crash)
    await asyncio.sleep(random.uniform(*AWAY))
    await asyncio.to_thread(cluster.start)
    crash.ended_at = elapsed()


async def _busiest(database: ClusterDatabase, fleet: Fleet, but: Member | None = None) -> Member:
    """A process with as many functions at work as any, once there is one."""
    busy = "select lease_owner from hourbell.runs where state = 'running' group by 1 order by count(*) desc"
    end = elapsed() + START
    while elapsed() < end:
        nodes = {node: member for node, member in fleet.nodes().items() if member.is_running and member is not but}
        for row in await database.connection.fetch(busy):
            if row["lease_owner"] in nodes:
                return nodes[row["lease_owner"]]
        await asyncio.sleep(0.02)
    raise AssertionError("no function is at work")


async def _until_taken_over(database: ClusterDatabase, frozen: Member) -> None:
    """Until no run is the frozen process's any more, also if it was frozen within a transaction."""
    held = "select count(*) from hourbell.runs where state = 'running' and lease_owner = $1"
    end = elapsed() + TAKEN_OVER
    while count := await database.connection.fetchval(held, frozen.node):
        if elapsed() > end:
            raise AssertionError(f"after {TAKEN_OVER} s, {count} runs are still those of the frozen process")
        await asyncio.sleep(0.1)


async def _until_ran(database: ClusterDatabase, wanted: int) -> None:
    ended = "select count(*) from hourbell.runs where finished_at is not null"
    while await database.connection.fetchval(ended) < wanted:
        await asyncio.sleep(0.2)


def _strays(nonces: list[Row], books: Books) -> list[Row]:
    runs = {run["id"] for run in books.runs}
    return [row for row in nonces if row["run_id"] not in runs]


def _url_as(url: str, login: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
