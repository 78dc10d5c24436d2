"""Arguments of the benchmarks, and errors for invalid ones."""

import pytest
from bench.sizes import parse_asked

KNOWN = {"drain": ("runs", "processes", "peers"), "growth": ("rounds",), "start": ()}


def test_a_benchmark_is_asked_for_with_its_sizes() -> None:
    asked = parse_asked("drain:runs=2000:processes=1,2:peers=huey", KNOWN)

    assert asked == ("drain", {"runs": "2000", "processes": "1,2", "peers": "huey"})


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("rain", "no benchmark is named 'rain'; there are drain, growth, start"),
        ("drain:2000", "'drain:2000' cannot be read; write name:size=number, as in drain:runs=2000:rounds=1"),
        ("drain:colour=2", "drain has no size 'colour'; it has runs, processes, peers"),
        ("start:runs=2", "start has no size 'runs'; it has none"),
        ("drain:runs=abc", "runs=abc of drain is no number; write runs=2000, or several with commas"),
        ("growth:rounds=0", "rounds=0 of growth is no number of rounds; write rounds=1 or more"),
        ("growth:rounds=2,3", "rounds=2,3 of growth is no number of rounds; write rounds=1 or more"),
    ],
)
def test_invalid_arguments_are_refused_with_the_valid_ones(text: str, reported: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_asked(text, KNOWN)

    assert str(refused.value) == reported
