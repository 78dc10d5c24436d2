"""The rules of `hourbell doctor --production`, as a table: a deployment in, findings out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hourbell.core.doctor.deployment import AccessFacts, Deployment, check_deployment

CLOSED = AccessFacts(is_open=False, valid_tokens=1, own_function_jobs=0)
SAFE = Deployment(http_addr="127.0.0.1:8080", is_loopback=True, has_trusted_proxies=False, access=CLOSED)


def names(deployment: Deployment) -> list[str]:
    return [defect.check.name for defect in check_deployment(deployment)]


def test_a_safe_deployment_has_no_finding() -> None:
    assert names(SAFE) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"access": replace(CLOSED, is_open=True, valid_tokens=0)}, ["access_open"]),
        ({"access": replace(CLOSED, valid_tokens=0)}, ["token_missing"]),
        ({"access": None}, []),
        ({"http_addr": ":8080", "is_loopback": False}, ["http_unencrypted"]),
        ({"http_addr": ":8080", "is_loopback": False, "has_trusted_proxies": True}, []),
        ({"exposed_files": ("/a", "/a-wal")}, ["database_exposed", "database_exposed"]),
        ({"key_exposure": "it is"}, ["key_exposed"]),
        ({"has_key": False}, ["key_missing"]),
        ({"unencrypted": ("DATABASE_URL leads to db.example.com",)}, ["database_unencrypted"]),
        ({"access": replace(CLOSED, superuser="postgres")}, ["role_superuser"]),
        ({"access": replace(CLOSED, own_function_jobs=3)}, []),
        ({"access": replace(CLOSED, own_function_jobs=3), "has_function_login": False}, ["function_login_missing"]),
        ({"has_function_login": False}, []),
        ({"retention": timedelta(hours=23)}, ["retention_unusual"]),
        ({"retention": timedelta(days=1)}, []),
        ({"retention": timedelta(days=731)}, ["retention_unusual"]),
        ({"descriptors": 1_499}, ["descriptors_few"]),
        ({"descriptors": 1_500}, []),
        ({"descriptors": 1_024, "slots": 100}, []),
    ],
)
def test_each_weakness_is_found_by_its_name(change: dict[str, Any], found: list[str]) -> None:
    assert names(replace(SAFE, **change)) == found
