"""The database commits and says so, and the answer never arrives: at plan, at claim and at settle.

A second load fails on purpose, because what is charged twice shows only where something is charged.
"""

import asyncio
from dataclasses import replace
from random import Random

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books, none_of
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import Fleet
from tests.faults.proxy import Proxy
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 5
COMMITS = 500  # of each verb
# A lost plan costs the next pass and a lost settlement is repeated; a lost claim costs a lease, and a run that loses
# two is a suspect, of which a node takes one at a time. So few of many claims.
CHANCES = {"plan": 0.7, "claim": 0.2, "settle": 0.4}
PATIENCE = 480  # seconds, on a busy machine
ATTEMPTS = 3  # of the load that fails
GOOD = Load(jobs=150, seconds=0.1, options={"jitter": "1s"}, prefix="good")
BAD = Load(
    jobs=4,
    schedule="*/4 * * * * *",
    seconds=10,
    options={"timeout": "1s", "retry": {"attempts": ATTEMPTS, "backoff": [0]}},
    prefix="bad",
)


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("swallowed_commits", setting.backend)
    wanted = setting.sized(COMMITS, least=10)
    good = replace(GOOD, jobs=setting.sized(GOOD.jobs, least=100))
    async with database_for(setting.backend) as database:
        with (
            Proxy(url_of(database), random=Random(setting.random.random())) as proxy,
            Fleet(setting.folder, proxy.url, good, BAD) as fleet,
        ):
            await fleet.start_all(setting.sized(NODES, least=3))
            cut = fleet.cut("swallow")
            for verb, chance in CHANCES.items():
                proxy.swallow(verb, wanted, chance=chance)
            end = elapsed() + PATIENCE
            while not proxy.is_sated and elapsed() < end:
                await asyncio.sleep(0.1)
            cut.ended_at = elapsed()
            left = await come_to_rest(database, 90)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    for verb in CHANCES:
        verdict.at_least(f"swallowed answers to a commit of {verb}", wanted, proxy.swallowed[verb])
    check_books(verdict, _of(books, "good"))
    _check_charges(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    lost = sum(row["outcome"] == "lost" for row in books.attempts.values())
    verdict.figures |= {
        "attempts lost": lost,
        "seconds of swallowing": round(cut.ended_at - cut.began_at, 1),
        "left unfinished": dict(left),
    }
    return verdict


def _check_charges(verdict: Verdict, books: Books) -> None:
    """A run that succeeded is never delivered again, and each failed attempt is charged once."""
    good, bad = _of(books, "good"), _of(books, "bad")
    again = [again for first, again in good.repeated() if good.attempts[first.key]["outcome"] == "succeeded"]
    none_of(verdict, "deliveries of a run that had succeeded", again)
    none_of(verdict, "good runs charged with a failure", [run for run in good.runs if run["failures"]])
    failed = {run["id"]: 0 for run in bad.runs}
    for (run_id, _), row in bad.attempts.items():
        failed[run_id] += row["outcome"] == "failed"
    wrong = [run for run in bad.runs if not run["failures"] == failed[run["id"]] == ATTEMPTS]
    none_of(verdict, "failing runs not charged once for each of their attempts", wrong)
    none_of(verdict, "failing runs not ended as exhausted", [run for run in bad.runs if run["reason"] != "exhausted"])
    none_of(verdict, "instants of failing jobs without exactly one place", bad.misplaced())
    verdict.figures["failing runs"] = len(bad.runs)


def _of(books: Books, prefix: str) -> Books:
    """Return the accounting of the jobs of one load."""
    jobs = [job for job in books.jobs if job["name"].startswith(prefix)]
    ids = {job["id"] for job in jobs}
    runs = [run for run in books.runs if run["job_id"] in ids]
    run_ids = {run["id"] for run in runs}
    return replace(
        books,
        jobs=jobs,
        runs=runs,
        skips=[skip for skip in books.skips if skip["job_id"] in ids],
        attempts={key: row for key, row in books.attempts.items() if key[0] in run_ids},
        lines=[line for line in books.lines if line.job_id in ids],
    )
