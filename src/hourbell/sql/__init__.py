"""Statements that create or trigger a job inside the caller's own transaction, with any driver.

They commit or roll back with everything else in it. Nothing here opens a connection or imports a driver.
"""

from hourbell.core.values.field_errors import BodyError
from hourbell.sql.jobs import insert_job
from hourbell.sql.runs import trigger_job
from hourbell.sql.statement import Dialect, ParamStyle, Statement

__all__ = ["BodyError", "Dialect", "ParamStyle", "Statement", "insert_job", "trigger_job"]
