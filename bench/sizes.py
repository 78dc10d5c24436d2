"""Sizes of benchmarks: each has a default, which the environment or the command line may override.

`python -m bench drain:runs=2000:rounds=1` is the same as `HOURBELL_BENCH_RUNS=2000 HOURBELL_BENCH_ROUNDS=1 python -m
bench drain`. Each benchmark names its sizes in its own module.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

_PREFIX = "HOURBELL_BENCH_"
_NAMES = {"databases", "peers", "plot", "schemes"}  # the others are numbers


def given(name: str, usual: str) -> str:
    return os.environ.get(f"{_PREFIX}{name.upper()}", usual)


def size(name: str, usual: int) -> int:
    return int(given(name, str(usual)))


def sizes(name: str, usual: str) -> list[int]:
    """Parse several sizes, separated by commas; there may be none."""
    return [int(each) for each in given(name, usual).split(",") if each]


def parse_asked(text: str, known: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, str]]:
    """The name of a benchmark and the sizes after it; a ValueError that says what is wrong with them."""
    name, *rest = text.split(":")
    if name not in known:
        raise ValueError(f"no benchmark is named {name!r}; there are {', '.join(known)}")
    if any("=" not in each for each in rest):
        raise ValueError(f"{text!r} cannot be read; write name:size=number, as in drain:runs=2000:rounds=1")
    asked = dict(each.split("=", 1) for each in rest)
    for unknown in asked.keys() - set(known[name]):
        raise ValueError(f"{name} has no size {unknown!r}; it has {', '.join(known[name]) or 'none'}")
    for of, value in asked.items():
        if of not in _NAMES and not all(each.isdecimal() for each in value.split(",") if each):
            raise ValueError(f"{of}={value} of {name} is no number; write {of}=2000, or several with commas")
    rounds = asked.get("rounds", "1")
    if not rounds.isdecimal() or int(rounds) == 0:
        raise ValueError(f"rounds={rounds} of {name} is no number of rounds; write rounds=1 or more")
    return name, asked


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
