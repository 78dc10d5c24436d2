"""Looks for answers that break a promise, guided by the code they reach."""

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from hourbell.targets.http import client, http_connection
from tests.engine.virtual import VirtualTime, run_virtually
from tests.targets.http.fuzz.answers import make_answer, mutate
from tests.targets.http.fuzz.promises import BrokenPromise, Seen, hold_promises

CORPUS = Path(__file__).parent / "corpus"
_TRACED = frozenset({client.__file__, http_connection.__file__})
_MAX_CACHED_BYTES = 2_000  # of an answer that is kept because it reaches something new
_WAYS = 12  # in which an answer of the corpus is given
_NEW = 0.3  # of the answers are made, the others are mutations


@dataclass
class Report:
    """The findings of a fuzzer run."""

    cases: int = 0
    reused: int = 0
    reached: set[object] = field(default_factory=set)  # steps from line to line, and kinds of results
    kept: list[bytes] = field(default_factory=list)  # answers that reached something new
    broken: dict[bytes, str] = field(default_factory=dict)  # answers that break a promise, as short as can be


def read_corpus() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(CORPUS.glob("*.http"))}


def write_corpus(answers: Sequence[bytes]) -> None:
    for answer in answers:
        (CORPUS / f"{hashlib.sha256(answer).hexdigest()[:12]}.http").write_bytes(answer)


def find_broken_promise(answer: bytes) -> str | None:
    """Hold one answer to every promise, always in the same ways; return which one it breaks."""

    async def main(_: VirtualTime) -> str | None:
        try:
            for way in range(_WAYS):
                await hold_promises(answer, Random(way))
        except BrokenPromise as broken:
            return str(broken)
        return None

    return run_virtually(main)


def fuzz(seed: int, cases: int, corpus: Sequence[bytes], *, max_broken: int = 5) -> Report:
    """Try those of the corpus and so many others, or stop once enough of them broke a promise."""
    random, report = Random(seed), Report()
    pool = list(corpus) or [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]

    async def main(_: VirtualTime) -> None:
        for answer in corpus:
            await _try(answer, random, report)
        while report.cases < cases + len(corpus) and len(report.broken) < max_broken:
            answer = make_answer(random) if random.random() < _NEW else mutate(random, random.choice(pool), pool)
            is_new = await _try(answer, random, report)
            if is_new and len(answer) <= _MAX_CACHED_BYTES:
                pool.append(answer)
                report.kept.append(answer)

    run_virtually(main)
    report.broken = {shrink(answer): broken for answer, broken in report.broken.items()}
    return report


def shrink(answer: bytes) -> bytes:
    """Leave out bytes for as long as a promise stays broken."""
    size = len(answer) // 2
    while size:
        at = 0
        while at < len(answer):
            shorter = answer[:at] + answer[at + size :]
            if find_broken_promise(shorter) is not None:
                answer = shorter
            else:
                at += size
        size //= 2
    return answer


async def _try(answer: bytes, random: Random, report: Report) -> bool:
    """Hold one answer to the promises; return whether it reached something new."""
    report.cases += 1
    reached: set[object] = set()
    sys.settrace(_tracer(reached))
    try:
        seen = await hold_promises(answer, random)
    except BrokenPromise as broken:
        report.broken[answer] = str(broken)
        return False
    finally:
        sys.settrace(None)
    report.reused += seen.is_reused
    reached.add(_kind(seen))
    is_new = not reached <= report.reached
    report.reached |= reached
    return is_new


def _kind(seen: Seen) -> object:
    first = seen.result[0]
    return (first // 100 if isinstance(first, int) else first, seen.result[-1], seen.is_reused)


def _tracer(reached: set[object]) -> Callable[[FrameType, str, Any], Any]:
    """Collect the steps from line to line in the code under test."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename not in _TRACED:
            return None
        name, last = frame.f_code.co_name, [0]

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                reached.add((name, last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            return step

        return step

    return trace
