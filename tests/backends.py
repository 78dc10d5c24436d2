"""The databases that a test runs on, in `make test` and in `make test-all`."""

import pytest

# What differs by database. SQLite in memory is the same code as in a file, and most other tests run on it.
EACH = ["postgres", "sqlite", pytest.param("memory", marks=pytest.mark.full)]
# What does not: whatever speaks to a store through control, the API or a client.
ONE = ["memory", pytest.param("postgres", marks=pytest.mark.full), pytest.param("sqlite", marks=pytest.mark.full)]
# The same for what needs a file, or more than one process.
ONE_IN_A_FILE = ["sqlite", pytest.param("postgres", marks=pytest.mark.full)]
