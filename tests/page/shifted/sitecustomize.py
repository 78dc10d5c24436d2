"""Let a server begin at another time: Python imports this module at its start if its folder is on PYTHONPATH."""

import os
import time
from datetime import datetime, timedelta

from hourbell import clock
from hourbell.store.postgres.engine import PostgresEngineStore

_SHIFT = float(os.environ["TEST_CLOCK_SHIFT_SECONDS"])
_now, _time = clock.now, time.time
_sample = PostgresEngineStore.sample_time


def _shifted_now() -> datetime:
    return _now() + timedelta(seconds=_SHIFT)


def _shifted_time() -> float:
    return _time() + _SHIFT


clock.now = _shifted_now
time.time = _shifted_time  # for the Date of responses


async def _shifted_sample(store: PostgresEngineStore) -> datetime:
    return await _sample(store) + timedelta(seconds=_SHIFT)


PostgresEngineStore.sample_time = _shifted_sample  # type: ignore[method-assign]  # PostgreSQL has a clock of its own
