"""Every answer that a fuzzer ever kept is harmless; the fuzzer and its oracle see what they are there for."""

import pytest

from tests.targets.http.fuzz.fuzzer import find_broken_promise, fuzz, read_corpus
from tests.targets.http.fuzz.oracle import Exact, read_exact

CORPUS = read_corpus()
LINE = b"HTTP/1.1 200 OK\r\n"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = {
    "body_just_short_enough": LINE + b"Content-Length: 65536\r\n\r\n" + b"x" * 65_536,
    "body_just_too_long": LINE + b"Content-Length: 65537\r\n\r\n" + b"x" * 65_537,
    "body_far_too_long": LINE + b"Content-Length: 400000\r\n\r\n" + b"x" * 400_000,
    "many_chunks": CHUNKED + b"1\r\nx\r\n" * 70_000,
    "long_chunk_extensions": CHUNKED + (b"1;" + b"e" * 500 + b"\r\nx\r\n") * 1_200,
    "long_headers": LINE + (b"A: " + b"b" * 1_000 + b"\r\n") * 100 + b"\r\n",
    "endless_headers": LINE + b"A: b\r\n" * 150_000,
}


def test_there_is_a_corpus() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("answer", CORPUS.values(), ids=CORPUS)
def test_an_answer_of_the_corpus_breaks_no_promise(answer: bytes) -> None:
    assert find_broken_promise(answer) is None


@pytest.mark.parametrize("answer", LARGE.values(), ids=LARGE)
def test_a_large_answer_breaks_no_promise(answer: bytes) -> None:
    assert find_broken_promise(answer) is None


def test_a_few_new_answers_break_no_promise() -> None:
    report = fuzz(3, 150, list(CORPUS.values()))

    assert report.broken == {}
    assert report.reused > 0, "some of them are good"


def test_a_seed_always_makes_the_same_answers() -> None:
    first, second = (fuzz(4, 30, []) for _ in range(2))

    assert (first.kept, first.reached) == (second.kept, second.reached)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (LINE + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (b"\r\n" + LINE + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + LINE + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (CHUNKED + b"2;a=b\r\nok\r\n0\r\nA: b\r\n\r\n", b"ok"),
        (LINE + b"Content-Length: 2\r\n\r\nok\r\n", None),
        (LINE + b"Content-Length: 2\r\n\r\no", None),
        (LINE + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", None),
        (LINE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
        (LINE + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", None),
        (LINE + b"\r\nok", None),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\nx", None),
    ],
)
def test_the_oracle_accepts_what_is_exactly_framed_and_nothing_else(answer: bytes, body: bytes | None) -> None:
    assert read_exact(answer) == (None if body is None else Exact(200, body))
