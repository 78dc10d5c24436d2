"""Answers that no honest receiver sends, made by a fuzzer from the seed: the connection keeps every promise.

No process and no database is needed: the connection runs in memory, under virtual time (`tests/targets/http/fuzz`).
"""

import asyncio

from tests.faults.verdict import Setting, Verdict
from tests.targets.http.fuzz.fuzzer import fuzz, read_corpus

CASES = 4_000


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("hostile_answers", setting.backend)
    cases, seed = setting.sized(CASES), setting.random.getrandbits(32)
    corpus = list(read_corpus().values())
    report = await asyncio.to_thread(fuzz, seed, cases, corpus)
    verdict.equal(
        "answers that break a promise", [], [f"{answer!r}: {broken}" for answer, broken in report.broken.items()]
    )
    verdict.at_least("answers", cases + len(corpus), report.cases)
    verdict.at_least("connections used again", 1, report.reused)
    verdict.figures |= {"answers": report.cases, "steps reached": len(report.reached), "seed of the fuzzer": seed}
    return verdict
