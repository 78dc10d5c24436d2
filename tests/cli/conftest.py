from collections.abc import Iterator

import pytest

from tests.cli.live import Live, live


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A node on SQLite for all tests of a module; each uses jobs with names of its own."""
    with live(tmp_path_factory.mktemp("node")) as made:
        yield made
