"""How large a benchmark is: each size has a default, and the environment or the command line may say another.

`python -m bench drain:runs=2000:rounds=1` is the same as `HOURBELL_BENCH_RUNS=2000 HOURBELL_BENCH_ROUNDS=1 python -m
bench drain`. Each benchmark names its sizes in its own module.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_PREFIX = "HOURBELL_BENCH_"


def given(name: str, usual: str) -> str:
    return os.environ.get(f"{_PREFIX}{name.upper()}", usual)


def size(name: str, usual: int) -> int:
    return int(given(name, str(usual)))


def sizes(name: str, usual: str) -> list[int]:
    """Several sizes with commas between them, which may be none."""
    return [int(each) for each in given(name, usual).split(",") if each]


def parse_asked(text: str) -> tuple[str, dict[str, str]]:
    """The name of a benchmark and the sizes after it; a ValueError if it cannot be read."""
    name, *rest = text.split(":")
    if any("=" not in each for each in rest):
        raise ValueError(f"{text!r} cannot be read; write name:size=number, as in drain:runs=2000:rounds=1")
    return name, dict(each.split("=", 1) for each in rest)


@contextmanager
def applied(asked: Mapping[str, str]) -> Iterator[None]:
    """Let these sizes count within the block, for this process and those it starts."""
    names = {f"{_PREFIX}{name.upper()}": value for name, value in asked.items()}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
