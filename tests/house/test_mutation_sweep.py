"""`make mutation-sweep` changes the sources in every way it claims to, and its list of survivors is current."""

from pathlib import Path

import pytest
from tests.mutants.mutations import mutations_of
from tests.mutants.sweep import SOURCE, TESTS, survivors, unknown_survivors

ROOT = Path(__file__).parents[2]


PYTHON = """
def f(a, b):
    if a <= b and not b:
        a.c = b - 1
    return a is None
"""
SQL = """
update runs set state = 'x'  -- and so on
where id = 1 and state in ('a', 'b')
  and (attempt = 2 or begun)
"""


def test_a_python_expression_is_mutated_in_every_way() -> None:
    assert [(found.line, found.change) for found in mutations_of("f.py", PYTHON)] == [
        ("if a <= b and not b:", "condition negated"),
        ("if a <= b and not b:", "<= becomes <"),
        ("if a <= b and not b:", "<= becomes >"),
        ("if a <= b and not b:", "and becomes or"),
        ("if a <= b and not b:", "without not"),
        ("a.c = b - 1", "statement removed"),
        ("a.c = b - 1", "- becomes +"),
        ("a.c = b - 1", "1 becomes 1 + 1"),
        ("return a is None", "returns None"),
        ("return a is None", "is becomes is not"),
    ]


def test_a_condition_of_sql_is_removed() -> None:
    first, second = [found.applied_to(SQL) for found in mutations_of("f.sql", SQL)]

    assert first == SQL.replace("and state in ('a', 'b')", "")
    assert second == SQL.replace("and (attempt = 2 or begun)", "")


@pytest.mark.parametrize("file", [file for file in TESTS if file.endswith(".py")])
def test_every_mutant_of_a_file_is_python_and_another_one(file: str) -> None:
    text = (ROOT / SOURCE / file).read_text()
    mutants = [found.applied_to(text) for found in mutations_of(file, text)]

    assert text not in mutants
    assert len(set(mutants)) == len(mutants) > 0
    for mutant in mutants:
        compile(mutant, file, "exec")


def test_every_survivor_of_the_list_is_a_mutant_of_todays_code_and_has_a_reason() -> None:
    found = survivors()

    assert unknown_survivors(found) == []
    assert [survivor.key for survivor in found if len(survivor.reason) < 20] == []
