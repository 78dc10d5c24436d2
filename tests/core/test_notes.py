"""Notes of a task are bounded, and every database can store them."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from hourbell.core.run.notes import MAX_LOG_BYTES, MAX_LOG_LINES, MAX_TEXT_CHARACTERS, Notebook

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
RUN = UUID(int=1)


def texts(book: Notebook) -> list[str]:
    return [line.text for line in book.notes(RUN, 1).log]


def test_the_oldest_of_too_many_lines_are_dropped() -> None:
    book = Notebook()
    for number in range(MAX_LOG_LINES + 5):
        book.add_line(NOW, number)

    assert texts(book) == [str(number) for number in range(5, MAX_LOG_LINES + 5)]


def test_the_oldest_lines_of_too_much_text_are_dropped() -> None:
    book = Notebook()
    for letter in "abc":
        for _ in range(20):
            book.add_line(NOW, letter * MAX_TEXT_CHARACTERS)

    kept = texts(book)
    assert len(kept) == MAX_LOG_BYTES // MAX_TEXT_CHARACTERS
    assert set(kept[-20:]) == {"c" * MAX_TEXT_CHARACTERS}


def test_text_is_counted_in_bytes() -> None:
    book = Notebook()
    for _ in range(20):
        book.add_line(NOW, "€" * MAX_TEXT_CHARACTERS)

    assert len(texts(book)) == MAX_LOG_BYTES // (3 * MAX_TEXT_CHARACTERS)


def test_a_long_line_is_cut() -> None:
    book = Notebook()
    book.add_line(NOW, "x" * (MAX_TEXT_CHARACTERS + 1))

    assert texts(book) == ["x" * MAX_TEXT_CHARACTERS]


def test_text_that_no_database_can_store_is_replaced() -> None:
    book = Notebook()
    book.add_line(NOW, "a\0b\ud800c")

    assert texts(book) == ["a\ufffdb?c"]


@pytest.mark.parametrize(
    ("reported", "kept"), [(0.5, 0.5), (-1e-9, 0.0), (sum([0.1] * 3) / 0.3, 1.0), (True, 1.0), (None, None)]
)
def test_progress_is_a_fraction(reported: float | None, kept: float | None) -> None:
    book = Notebook()
    book.set_progress(reported, "so far")

    notes = book.notes(RUN, 2)
    assert (notes.attempt, notes.fraction, notes.message) == (2, kept, "so far")


@pytest.mark.parametrize("reported", [2, -1, 1.01, float("nan"), float("inf")])
def test_progress_that_is_no_fraction_is_refused(reported: float) -> None:
    with pytest.raises(ValueError, match="fraction from 0 to 1"):
        Notebook().set_progress(reported)
