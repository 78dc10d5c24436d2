"""Let a server begin at another time: Python imports this module at its start if its folder is on PYTHONPATH."""

import os
import time
from datetime import datetime, timedelta

from hourbell import clock

_SHIFT = float(os.environ["TEST_CLOCK_SHIFT_SECONDS"])
_now, _time = clock.now, time.time


def _shifted_now() -> datetime:
    return _now() + timedelta(seconds=_SHIFT)


def _shifted_time() -> float:
    return _time() + _SHIFT


clock.now = _shifted_now
time.time = _shifted_time  # for the Date of responses
