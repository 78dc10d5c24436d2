"""A primary and its standby under one URL with two hosts, which change roles."""

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import psycopg

from tests.faults.cluster import Cluster

_FOLLOWED = "select count(*) from pg_stat_replication where state = 'streaming'"


class Pair:
    """Two servers while its context is open. The URL names the first primary first, even after roles were exchanged."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.primary = stack.enter_context(Cluster())
            self.standby = stack.enter_context(Cluster(copy_of=self.primary))
            self.url = f"postgresql://postgres@/postgres?host={self.primary.host},{self.standby.host}"
            self._running = stack.pop_all()
        self._wait_until_followed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)

    def fail_over(self) -> None:
        """Stop the primary and promote the standby. Nothing that was committed is lost."""
        self.primary.stop()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def return_old(self) -> None:
        """Start the old primary again as a standby of the new one, which it follows when this returns."""
        self.standby.start_as_standby_of(self.primary)
        self._wait_until_followed()

    def _wait_until_followed(self) -> None:
        """Wait for the standby: a primary that stops sends what is missing only to one that is connected."""
        with psycopg.connect(host=str(self.primary.host), user="postgres", autocommit=True) as connection:
            while connection.execute(_FOLLOWED).fetchone() == (0,):
                time.sleep(0.02)
