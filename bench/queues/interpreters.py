"""The interpreter that can run a peer: this one, or that of the environment for peers that conflict with others.

None if neither can.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

SECOND = Path(__file__).parents[2] / ".bench-venv-apart" / "bin" / "python"
_CELERY = "import celery, redis, kombu.transport.redis; assert redis.VERSION >= (6, 1, 0)"
_APSCHEDULER_4 = "import asyncpg; from apscheduler import AsyncScheduler; import apscheduler.datastores.sqlalchemy"
NO_CELERY = "Celery: not measured; its Redis transport needs a newer redis-py than arq; install celery[redis] apart"
NO_APSCHEDULER_4 = "APScheduler 4: not measured; .bench-venv-apart lacks it or something it imports (a6 needs sniffio)"


def for_celery() -> str | None:
    return _able(_CELERY)


def for_apscheduler_4() -> str | None:
    return _able(_APSCHEDULER_4)


@cache
def _able(trial: str) -> str | None:
    for interpreter in (sys.executable, str(SECOND)):
        if Path(interpreter).exists():
            tried = subprocess.run([interpreter, "-c", trial], capture_output=True, check=False)
            if tried.returncode == 0:
                return interpreter
    return None
