"""The line of an error text that says what is wrong."""

import pytest

from hourbell.core.run.error_line import error_line

TRACEBACK = """Traceback (most recent call last):
  File "app.py", line 8, in invoice
    fetch()
    ~~~~~^^
  File "app.py", line 3, in fetch
    raise RuntimeError("HTTP 503\\nfrom billing.example")
RuntimeError: HTTP 503
from billing.example
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, ""),
        ("", ""),
        ("\n \n", ""),
        ("HTTP 503 Service Unavailable", "HTTP 503 Service Unavailable"),
        ("\nno route to host\ndetails", "no route to host"),
        (TRACEBACK, "RuntimeError: HTTP 503"),
        (TRACEBACK[60:], "RuntimeError: HTTP 503"),  # the start was cut off
        (
            '  File "app.py", line 8, in invoice\n    fetch()',
            'File "app.py", line 8, in invoice',
        ),  # the end was cut off
    ],
)
def test_the_error_line_is_short(error: str | None, line: str) -> None:
    assert error_line(error) == line
