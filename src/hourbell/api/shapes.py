"""The OpenAPI schemas of answers, derived from their classes. They only describe: `render` makes the JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from hourbell import answers
from hourbell.answers.base import AnswerField, answer_fields
from hourbell.api.values import Instant
from hourbell.control.explain import Verdict

Model = type[BaseModel]
_models: dict[Any, Model] = {}  # by the class of the answer: what refers to it refers to this


def schema(
    name: str,
    kind: Any,
    extra: Sequence[str] = (),
    *,
    optional: Sequence[str] = (),
    others: Literal["forbid", "allow", "ignore"] = "forbid",
    **types: Any,
) -> Model:
    """A schema of an answer, with these of its extra fields. Of `optional` ones, an answer may lack them."""
    fields: dict[str, Any] = {
        each.name: (_documented(types.get(each.name, each.doc.type or each.type)), _info(each, each.name in optional))
        for each in answer_fields(kind)
        if not each.doc.is_extra or each.name in (*extra, *optional)
    }
    config = ConfigDict(extra=others)
    made: Model = create_model(name, __config__=config, __doc__=kind.__doc__, __module__=__name__, **fields)
    _models.setdefault(kind, made)
    return made


def _list(name: str, item: Model, *, has_pages: bool = True) -> Model:
    config = ConfigDict(extra="forbid")
    fields: dict[str, Any] = {"items": (list[item], ...)}  # type: ignore[valid-type]
    if has_pages:
        fields["next_cursor"] = (str | None, ...)
    return create_model(name, __config__=config, __module__=__name__, **fields)


def _info(each: AnswerField, is_optional: bool) -> FieldInfo:
    info: dict[str, Any] = {"description": each.doc.text or None, "examples": list(each.doc.examples) or None}
    if is_optional:
        info["default"] = [] if each.default == () else each.default
    return FieldInfo(**{name: value for name, value in info.items() if value is not None or name == "default"})


def _documented(hint: Any) -> Any:
    """A type as the document describes it."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is datetime:
        return Instant
    if origin in (Union, UnionType):
        return Union[tuple(_documented(part) for part in parts)]  # noqa: UP007
    if origin is tuple:
        return list[_documented(parts[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[parts[0], _documented(parts[1])]  # type: ignore[valid-type, misc]
    return _models.get(hint, hint) if isinstance(hint, type) else hint


Omitted = schema("Omitted", answers.Omitted)
Totals = schema("Totals", answers.Totals)
Paused = schema("Paused", answers.Paused)
Warned = schema("Warned", answers.Warned)
SecretAnswer = schema("SecretAnswer", answers.KeptSecret)
RetryAnswer = schema("RetryAnswer", answers.Retry)
JobAnswer = schema("JobAnswer", answers.Job)
JobDetail = schema("JobDetail", answers.Job, ["secrets"])
JobDefined = schema("JobDefined", answers.Job, ["warnings", "generated_secret"])
JobListed = schema("JobListed", answers.Job, optional=["secrets", "omitted"])
JobList = _list("JobList", JobListed)
Occurrence = schema("Occurrence", answers.Upcoming)
Instants = _list("Instants", Occurrence, has_pages=False)
Intention = schema("Intention", answers.Intention)
FieldChanged = schema("FieldChanged", answers.FieldChange)
PlannedJob = schema("PlannedJob", answers.PlannedJob)
DeletedJob = schema("DeletedJob", answers.DeletedJob)
Plan = schema("Plan", answers.Plan)
BackfillAnswer = schema("BackfillAnswer", answers.Backfill)
SecretMade = schema("SecretMade", answers.RotatedSecret)
SkipAnswer = schema("SkipAnswer", answers.Skip)
SkipList = _list("SkipList", SkipAnswer)
VersionAnswer = schema("VersionAnswer", answers.Version)
VersionListed = schema("VersionListed", answers.Version, optional=["omitted"])
VersionList = _list("VersionList", VersionListed)
StatsAnswer = schema("StatsAnswer", answers.Stats)
ProblemError = schema("ProblemError", answers.LineError, optional=["hint"])
ImportLine = schema("ImportLine", answers.ImportResult, optional=["id", "version", "code", "message", "errors"])
ProblemAnswer = schema("ProblemAnswer", answers.Problem, optional=["errors", "request_id"])

LogLine = schema("LogLine", answers.LogLine)
Progress = schema("Progress", answers.RunProgress)
AttemptAnswer = schema("AttemptAnswer", answers.Attempt)
RunAnswer = schema("RunAnswer", answers.Run)
RunDetail = schema("RunDetail", answers.Run, ["late_success", "log", "attempts"])
RunListed = schema("RunListed", answers.Run, optional=["omitted"])
RunList = _list("RunList", RunListed)
Triggered = schema("Triggered", answers.Triggered, run=RunDetail)
Replayed = schema("Replayed", answers.Replayed)
Cancelled = schema("Cancelled", answers.Cancelled)
Done = schema("Done", answers.Done)
Refused = schema("Refused", answers.Refused)
BulkAnswer = schema("BulkAnswer", answers.BulkResult)

PreviewAnswer = schema("PreviewAnswer", answers.Preview, others="allow")
ExplainAnswer = schema("ExplainAnswer", answers.Explanation, verdict=Verdict)
Bucket = schema("Bucket", answers.Bucket)
ForecastAnswer = schema("ForecastAnswer", answers.Forecast)
ConflictAnswer = schema("ConflictAnswer", answers.JobConflict)
OverviewAnswer = schema("OverviewAnswer", answers.Overview)
NodeAnswer = schema("NodeAnswer", answers.Node)
NodeList = _list("NodeList", NodeAnswer, has_pages=False)
AuditAnswer = schema("AuditAnswer", answers.AuditEntry)
AuditListed = schema("AuditListed", answers.AuditEntry, optional=["omitted"])
AuditList = _list("AuditList", AuditListed)
TokenAnswer = schema("TokenAnswer", answers.Token)
TokenMade = schema("TokenMade", answers.Token, ["token"])
TokenList = _list("TokenList", TokenAnswer, has_pages=False)
