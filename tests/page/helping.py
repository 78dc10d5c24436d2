"""Requests to a server beside the browser's."""

import time
from collections.abc import Callable
from typing import Any

import httpx

PATIENCE_SECONDS = 40.0


def post(url: str, path: str, body: object = None) -> Any:
    answer = httpx.post(f"{url}/api/v1{path}", json=body, timeout=20, trust_env=False)
    return answer.raise_for_status().json()


def until_api(url: str, path: str, is_so: Callable[[Any], bool]) -> Any:
    """Return what the API says once it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = httpx.get(f"{url}/api/v1{path}", timeout=20, trust_env=False).json()
        if is_so(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{path}: {found}")
