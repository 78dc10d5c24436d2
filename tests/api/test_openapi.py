"""The OpenAPI document: checked in as it is served, whole, and true about what a job may leave empty."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hourbell.core.job.body import FIELDS, parse_job
from hourbell.core.values.field_errors import BodyError

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
JOB = {"name": "report", "schedule": "0 9 * * *", "target": {"type": "http", "url": "https://example.com/hook"}}


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DOCUMENT.read_text())
    return found


OPERATIONS = [
    pytest.param(operation, id=f"{method} {path}")
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
]


def test_the_checked_in_document_is_the_one_that_is_served() -> None:
    made = subprocess.run([sys.executable, "-m", "hourbell.api.openapi"], capture_output=True, text=True, check=True)

    assert made.stdout == DOCUMENT.read_text(), "make openapi writes it anew"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_a_summary_and_its_answers(operation: dict[str, Any]) -> None:
    assert operation["operationId"].isidentifier()
    assert operation["summary"]
    assert operation["description"].endswith(".")
    good = {status: answer for status, answer in operation["responses"].items() if status < "300"}
    assert good
    assert all("content" in answer for status, answer in good.items() if status != "204")


def test_no_two_operations_have_the_same_id() -> None:
    ids = [parameters.values[0]["operationId"] for parameters in OPERATIONS]

    assert len(set(ids)) == len(ids)


def test_every_reference_resolves() -> None:
    text = DOCUMENT.read_text()
    components = document()["components"]
    named = {f"#/components/{kind}/{name}" for kind, group in components.items() for name in group}

    assert {each.partition('"')[0] for each in text.split('"$ref": "')[1:]} <= named


@pytest.mark.parametrize("field", FIELDS)
def test_a_job_field_accepts_null_if_the_document_says_so(field: str) -> None:
    schema = document()["components"]["schemas"]["JobBody"]["properties"][field]
    kinds = schema.get("anyOf", [schema])
    says_so = {"type": "null"} in kinds or not {"type", "$ref", "anyOf", "oneOf"} & schema.keys()  # anything at all
    try:
        parse_job({**JOB, field: None})
    except BodyError:
        assert not says_so
    else:
        assert says_so
