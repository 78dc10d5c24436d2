"""Ids for objects without a derived one, such as jobs and manual runs."""

import os
from uuid import UUID

from hourbell import clock
from hourbell.core.values.ids import timed_id


def new_id() -> UUID:
    return timed_id(int(clock.now().timestamp() * 1_000), os.urandom(10), version=7)
