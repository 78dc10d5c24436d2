"""Ids of what has none of its own, such as a job, or a run that somebody asks for."""

import os
from uuid import UUID

from hourbell import clock
from hourbell.core.values.ids import timed_id


def new_id() -> UUID:
    return timed_id(int(clock.now().timestamp() * 1_000), os.urandom(10), version=7)
