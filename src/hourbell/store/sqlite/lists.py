"""Lists for users, on SQLite."""

from collections.abc import Sequence

from hourbell.store.lists.pages import numbered, with_columns
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.statements import Wanted
from hourbell.store.rows import Row
from hourbell.store.sql.queries import load_queries
from hourbell.store.sql.statements import load_shared
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import Executor

_FILES = ("lists.sql", "timeline.sql")
SQL = with_columns(
    {
        name: text
        for file in _FILES
        for each in (load_shared(f"lists/{file}", for_sqlite=True), load_queries("hourbell.store.sqlite", file))
        for name, text in each.items()
    }
)


class SqliteListStore(ListStore):
    def __init__(self, runner: Executor) -> None:
        super().__init__(SQL)
        self._runner = runner

    async def _read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        prepared = [(*numbered(statement, "?"), values) for statement, values in wanted]

        def read(session: Session) -> list[list[Row]]:
            return [session.fetch(text, *(values[name] for name in names)) for text, names, values in prepared]

        return await self._runner.read(read)
