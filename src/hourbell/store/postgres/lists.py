"""Lists and single objects for users, on PostgreSQL."""

from collections.abc import Sequence

from hourbell.store.lists.pages import numbered, with_columns
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.statements import Wanted
from hourbell.store.postgres.connections import Connections
from hourbell.store.rows import Row
from hourbell.store.sql.queries import load_queries
from hourbell.store.sql.statements import load_shared

_FILES = ("lists.sql", "timeline.sql")
SQL = with_columns(
    {
        name: text
        for file in _FILES
        for each in (load_shared(f"lists/{file}", for_sqlite=False), load_queries("hourbell.store.postgres", file))
        for name, text in each.items()
    }
)


class PostgresListStore(ListStore):
    def __init__(self, connections: Connections) -> None:
        super().__init__(SQL)
        self._connections = connections

    async def _read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        prepared = [(*numbered(statement, "$"), values) for statement, values in wanted]
        async with self._connections.connection() as connection:
            if len(prepared) == 1:  # one statement sees one snapshot anyway
                [(text, names, values)] = prepared
                return [await connection.fetch(text, *(values[name] for name in names))]
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return [
                    await connection.fetch(text, *(values[name] for name in names)) for text, names, values in prepared
                ]
