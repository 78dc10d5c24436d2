"""OpenAPI schemas of answers, derived from their classes. They only document: `render` creates the JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from hourbell.answers import alerts, jobs, runs, server, timeline, times
from hourbell.answers.base import AnswerField, answer_fields
from hourbell.api.values import Instant
from hourbell.control.explain import Verdict

Model = type[BaseModel]
_models: dict[Any, Model] = {}  # by answer class: references to the class use its schema


def schema(
    name: str,
    kind: Any,
    extra: Sequence[str] = (),
    *,
    optional: Sequence[str] = (),
    others: Literal["forbid", "allow", "ignore"] = "forbid",
    **types: Any,
) -> Model:
    """Create the schema of an answer with the given extra fields. An answer may omit `optional` fields."""
    fields: dict[str, Any] = {
        each.key: (_documented(types.get(each.name, each.doc.type or each.type)), _info(each, each.name in optional))
        for each in answer_fields(kind)
        if not each.doc.is_extra or each.name in (*extra, *optional)
    }
    config = ConfigDict(extra=others, defer_build=True)  # few servers are asked for the document
    made: Model = create_model(name, __config__=config, __doc__=kind.__doc__, __module__=__name__, **fields)
    _models.setdefault(kind, made)
    return made


def _list(name: str, item: Model, *, has_pages: bool = True) -> Model:
    config = ConfigDict(extra="forbid", defer_build=True)
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
    """Convert the type of a field to the type that the document shows."""
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


Omitted = schema("Omitted", jobs.Omitted)
Totals = schema("Totals", jobs.Totals)
Paused = schema("Paused", jobs.Paused)
Warned = schema("Warned", jobs.Warned)
SecretAnswer = schema("SecretAnswer", jobs.StoredSecret)
RetryAnswer = schema("RetryAnswer", jobs.Retry)
JobAnswer = schema("JobAnswer", jobs.Job)
RecentTime = schema("RecentTime", times.RecentTime)
_RECENT = ["recent", "median_duration_ms", "p95_duration_ms", "streak"]
JobDetail = schema("JobDetail", jobs.Job, ["secrets"], optional=_RECENT)
JobDefined = schema("JobDefined", jobs.Job, ["warnings", "generated_secret"])
JobListed = schema("JobListed", jobs.Job, optional=["secrets", "omitted", *_RECENT])
JobList = create_model(
    "JobList",
    __base__=_list("JobList", JobListed),
    __module__=__name__,
    total=(int | None, Field(None, description="If asked for: the jobs on all pages; null for more than 10,000.")),
)
Occurrence = schema("Occurrence", jobs.Upcoming)
Instants = _list("Instants", Occurrence, has_pages=False)
Intention = schema("Intention", jobs.Intention)
FieldChanged = schema("FieldChanged", jobs.FieldChange)
PlannedJob = schema("PlannedJob", jobs.PlannedJob)
PlannedEntry = schema("PlannedEntry", jobs.PlannedEntry)
DeletedJob = schema("DeletedJob", jobs.DeletedJob)
Plan = schema("Plan", jobs.Plan)
BackfillAnswer = schema("BackfillAnswer", jobs.Backfill)
SecretMade = schema("SecretMade", jobs.RotatedSecret)
SkipAnswer = schema("SkipAnswer", jobs.Skip)
SkipList = _list("SkipList", SkipAnswer)
VersionAnswer = schema("VersionAnswer", jobs.Version)
VersionListed = schema("VersionListed", jobs.Version, optional=["omitted"])
VersionList = _list("VersionList", VersionListed)
StatsAnswer = schema("StatsAnswer", jobs.Stats)
ProblemError = schema("ProblemError", jobs.LineError, optional=["hint"])
ImportLine = schema("ImportLine", jobs.ImportResult, optional=["id", "version", "code", "message", "errors"])
ProblemAnswer = schema("ProblemAnswer", server.Problem, optional=["errors", "request_id"])

LogLine = schema("LogLine", runs.LogLine)
Progress = schema("Progress", runs.RunProgress)
AttemptAnswer = schema("AttemptAnswer", runs.Attempt)
RunAnswer = schema("RunAnswer", runs.Run)
RunDetail = schema("RunDetail", runs.Run, ["late_success", "log", "attempts"])
RunListed = schema("RunListed", runs.Run, optional=["omitted"])
RunList = _list("RunList", RunListed)
Triggered = schema("Triggered", runs.Triggered, run=RunDetail)
Replayed = schema("Replayed", runs.Replayed)
Cancelled = schema("Cancelled", runs.Cancelled)
Done = schema("Done", runs.Done)
Refused = schema("Refused", runs.Refused)
BulkAnswer = schema("BulkAnswer", runs.BulkResult)
FailureGroup = schema("FailureGroup", runs.FailureGroup)
FailureGroups = schema("FailureGroups", runs.FailureGroups)

JobDone = schema("JobDone", jobs.JobDone)
JobRefused = schema("JobRefused", jobs.JobRefused)
JobBulkAnswer = schema("JobBulkAnswer", jobs.JobBulk)
ConversionProblem = schema("ConversionProblem", jobs.ConversionProblem)
Converted = schema("Converted", jobs.Converted)
DemoJobs = _list("DemoJobs", JobListed, has_pages=False)

RunOfTime = schema("RunOfTime", times.RunOfTime)
SkipOfTime = schema("SkipOfTime", times.SkipOfTime)
LedgerItem = schema("LedgerItem", times.LedgerItem)
SeriesPoint = schema("SeriesPoint", times.SeriesPoint)
SeriesAnswer = schema("SeriesAnswer", times.Series)
DayAnswer = schema("DayAnswer", times.Day)
DaysAnswer = schema("DaysAnswer", times.Days)
LedgerList = _list("LedgerList", LedgerItem)
TimelinePause = schema("TimelinePause", timeline.TimelinePause)
TimelineRetry = schema("TimelineRetry", timeline.TimelineRetry)
TimelineJob = schema("TimelineJob", timeline.TimelineJob)
TimelineRun = schema("TimelineRun", timeline.TimelineRun)
TimelineSkip = schema("TimelineSkip", timeline.TimelineSkip)
TimelineBucket = schema("TimelineBucket", timeline.TimelineBucket)
TimelineItem = schema("TimelineItem", timeline.TimelineItem)
TimelineOutage = schema("TimelineOutage", timeline.Outage)
OutageAnswer = schema("OutageAnswer", timeline.Outage, ["found_by"], until=datetime, found_by=UUID)
OutageList = _list("OutageList", OutageAnswer)
TagAnswer = schema("TagAnswer", server.Tag)
TagList = _list("TagList", TagAnswer)
TimelineAnswer = schema("TimelineAnswer", timeline.Timeline)

PreviewAnswer = schema("PreviewAnswer", server.Preview, others="allow")
ExplainAnswer = schema("ExplainAnswer", server.Explanation, verdict=Verdict)
Bucket = schema("Bucket", server.Bucket)
ForecastAnswer = schema("ForecastAnswer", server.Forecast)
CountedDayAnswer = schema("CountedDayAnswer", server.CountedDay)
CountedDaysAnswer = schema("CountedDaysAnswer", server.CountedDays)
ConflictAnswer = schema("ConflictAnswer", server.JobConflict)
OverviewAnswer = schema("OverviewAnswer", server.Overview)
NodeAnswer = schema("NodeAnswer", server.Node)
NodeList = _list("NodeList", NodeAnswer, has_pages=False)
AuditAnswer = schema("AuditAnswer", server.AuditEntry)
AuditListed = schema("AuditListed", server.AuditEntry, optional=["omitted"])
AuditList = _list("AuditList", AuditListed)
TokenAnswer = schema("TokenAnswer", server.Token)
TokenMade = schema("TokenMade", server.Token, ["token"])
TokenList = _list("TokenList", TokenAnswer, has_pages=False)

ChannelAnswer = schema("ChannelAnswer", alerts.Channel)
ChannelDefined = schema("ChannelDefined", alerts.Channel, ["generated_secret"])
ChannelList = _list("ChannelList", ChannelAnswer, has_pages=False)
ChannelTested = schema("ChannelTested", alerts.ChannelTest)
EscalationAnswer = schema("EscalationAnswer", alerts.EscalationStep)
QuietHoursAnswer = schema("QuietHoursAnswer", alerts.QuietHours)
AlertPolicyAnswer = schema("AlertPolicyAnswer", alerts.AlertPolicy)
AlertPolicyList = _list("AlertPolicyList", AlertPolicyAnswer, has_pages=False)
NotificationAnswer = schema("NotificationAnswer", alerts.Notification)
IncidentAnswer = schema("IncidentAnswer", alerts.Incident)
IncidentDetail = schema("IncidentDetail", alerts.Incident, ["jobs", "notifications"])
IncidentList = _list("IncidentList", IncidentAnswer)
