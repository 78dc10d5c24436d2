"""Models of request bodies, for validation and for the OpenAPI document.

Jobs are only described here: `core.job_body` parses them and reports all validation errors at once.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator
from pydantic.config import JsonDict

from hourbell.api.values import Duration, Instant
from hourbell.control.job_bulk import JobAction
from hourbell.control.values import JobState
from hourbell.core.access.roles import Role
from hourbell.core.alerts.kinds import JOB_KINDS
from hourbell.core.job.field_kinds import Kind
from hourbell.core.job.fields import BODY_FIELDS, NAME_PATTERN, JobField
from hourbell.core.job.tags import MAX_TAG_CHARACTERS, MAX_TAGS
from hourbell.core.run.attention import Attention
from hourbell.core.run.policies import RETRY_PRESETS
from hourbell.core.run.states import RunState

_EXAMPLE_JOB: JsonDict = {
    "name": "daily-report",
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Paris",
    "target": {"type": "http", "url": "https://example.com/hook"},
    "payload": {"days": 30},
}


class Body(BaseModel):
    """A request body. Unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"additionalProperties": False}, defer_build=True
    )


def _default(duration: str) -> Any:
    """Return a field with a default in its written form, which is not validated."""
    return Field(duration, validate_default=False)


class RetryBody(Body):
    attempts: int = Field(ge=1, le=100)
    backoff: list[Duration] = Field(min_length=1, max_length=100)
    spread: float = Field(0, ge=0, le=1)


class HttpTarget(Body):
    """An HTTP request to send."""

    type: Literal["http"]
    url: str = Field(min_length=1, examples=["https://example.com/hook"])
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = Field({}, max_length=50)
    body: Any = Field(None, description="Text, or JSON with placeholders in its strings; default: the envelope.")
    timeout: Duration = _default("30s")
    secret: str | None = Field(None, description="`generate`, or your own secret; only when the job is created.")


class SqlTarget(Body):
    """A PostgreSQL function to call."""

    type: Literal["sql"]
    function: str = Field(min_length=1, examples=["public.run_daily_cleanup"])
    args: dict[str, Any] = {}
    database: str = Field("default", pattern=r"^[A-Za-z0-9_-]{1,63}$")
    timeout: Duration = _default("30s")
    lock_timeout: Duration | None = None
    search_path: list[str] = ["public"]


class TaskTarget(Body):
    """A Python function to call."""

    type: Literal["task"]
    name: str = Field(min_length=1, examples=["send_reports"])
    args: dict[str, Any] = {}
    timeout: Duration = _default("10m")


class CommandLimits(Body):
    """Limits of each process of a command; sizes in bytes or with K, M, G or T."""

    memory: str | int | None = Field(None, examples=["512M"])
    cpu: Duration | None = None
    processes: int | None = Field(None, ge=1, description="Of the command's user, on the whole machine.")
    open_files: int | None = Field(None, ge=8)
    file_size: str | int | None = Field(None, examples=["1G"])


class CommandExitCodes(Body):
    """The meaning of exit codes. Others are failures."""

    ok: int | list[int] = [0]
    nothing: int | list[int] = Field([], description="A success: there was nothing to do.")
    retry: int | list[int] | None = Field(None, description="The failures to retry; default: every failure.")


class CommandTarget(Body):
    """A command to run on a node's machine. Needs the role admin, and a node that allows commands."""

    type: Literal["command"]
    command: str | list[str] = Field(
        min_length=1,
        description="The program and its arguments, or a text for /bin/sh.",
        examples=[["/usr/bin/pg_dump", "-Fc", "-f", "/backup/shop.dump", "shop"]],
    )
    label: str = Field("default", pattern=r"^[A-Za-z0-9_.-]{1,63}$", description="Run only on nodes with this label.")
    cwd: str | None = Field(None, description="The folder to start in; default: the user's home.")
    env: dict[str, str] = Field({}, max_length=200)
    inherit_env: list[str] = Field([], max_length=200, description="Variables of the node that the command gets, too.")
    env_file: str | None = Field(None, description="A file of the node's machine with lines NAME=value.")
    user: str | None = Field(None, description="Run as this user; the node must run as root and allow it.")
    umask: str | None = Field(None, pattern="^0?[0-7]{3}$", examples=["027"])
    nice: int = Field(0, ge=0, le=19)
    stdin: str | None = Field(None, description="The input; default: the payload as JSON, if there is one.")
    timeout: Duration = _default("1h")
    kill_after: Duration = _default("10s")
    limits: CommandLimits | None = None
    exit_codes: CommandExitCodes | None = None


class QueueTarget(Body):
    """A queue to add the run to."""

    type: Literal["queue"]
    queue: str = Field(min_length=1)


Target = Annotated[HttpTarget | SqlTarget | TaskTarget | CommandTarget | QueueTarget, Field(discriminator="type")]


_TYPES: dict[str, Any] = {
    "duration": Duration,
    "instant": Instant,
    "flag": bool,
    "retry": Literal[tuple(RETRY_PRESETS)] | RetryBody,
    "tags": Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARACTERS)]], Field(max_length=MAX_TAGS)
    ],
    "json": Any,
    "target": Target,
}


def _type_of(kind: Kind) -> Any:
    if kind.name == "choice":
        return Literal[kind.choices] if kind.restore is str else kind.restore
    if kind.name == "text":
        given = kind.schema.get
        limits = Field(min_length=given("minLength"), max_length=given("maxLength"), pattern=given("pattern"))
        return Annotated[str, limits]
    return _TYPES[kind.name]


def _described(field: JobField) -> tuple[Any, Any]:
    """Return the type and the `Field` of a job field for pydantic."""
    about: dict[str, Any] = {"description": field.help, "examples": list(field.examples) or None}
    if field.is_required:
        return _type_of(field.kind), Field(**about)
    given = _type_of(field.kind)
    may_be_null = field.is_nullable and given is not Any
    return (given | None if may_be_null else given), Field(field.shown_default, validate_default=False, **about)


if TYPE_CHECKING:
    _JobFields = Body
else:
    _JobFields = create_model(
        "JobFields", __base__=Body, __module__="", **{field.name: _described(field) for field in BODY_FIELDS}
    )


class JobBody(_JobFields):
    """The definition of a job. Only `name`, `schedule` and `target` are required."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "examples": [_EXAMPLE_JOB]})

    secret_headers: dict[str, str] = Field(
        {}, max_length=50, description="Sent with each request to the URL's origin, and never shown."
    )


class ApplyBody(Body):
    """All jobs of a source, with its channels and alert policies."""

    jobs: list[SkipValidation[JobBody]] = Field(max_length=10_000)
    channels: dict[str, SkipValidation["ChannelBody"]] = Field(
        {}, description="By name. A secret that is not given stays as it is. In a dry run it may be null: not known."
    )
    alert_policies: dict[str, SkipValidation["AlertPolicyBody"]] = Field({}, description="By name.")
    source: str = Field("", max_length=200, description="Identifies the jobs of this file.")
    prune: bool = Field(False, description="Delete what belongs to this source and is not in the request.")
    take_over: bool = Field(False, description="Become the owner of what has these names and others own.")
    drop_secrets: bool = Field(
        False,
        description="Give up secret headers that were set for another origin than the new one. Needs admin.",
    )
    expect: str | None = Field(None, max_length=100, description="The `state` of the plan to carry out.")


class PatchBody(BaseModel):
    """A JSON merge patch (RFC 7396) of a job's fields. Absent fields stay unchanged, and null restores the default."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"schedule": "0 4 * * *", "description": None}]}
    )


class PauseBody(Body):
    note: str = Field("", max_length=1_000, examples=["database maintenance"])
    until: Instant | None = None
    cancel_waiting: bool = False


class ResumeBody(Body):
    catch_up: bool = Field(False, description="Plan the times of the pause by the job's catch-up policy.")


class TriggerBody(Body):
    payload: Any = None
    key: str | None = Field(
        None, min_length=1, max_length=255, description="Requests with the same key run the job once."
    )


class BackfillBody(Body):
    start: Instant = Field(alias="from")
    end: Instant = Field(alias="to")
    per_minute: int = Field(60, ge=1, le=60_000, description="The number of runs that become ready per minute.")
    include_pruned: bool = Field(False, description="Also run times whose runs may have been pruned.")


class RotateBody(Body):
    keep_old: Duration = Field("24h", validate_default=False, description="How long the old secret stays valid.")  # type: ignore[assignment]


class PreviewBody(Body):
    schedule: str = Field(min_length=1, max_length=4096, examples=["0 9 * * 1-5"])
    timezone: str = Field("UTC", examples=["Europe/Paris"])
    dst: Literal["once", "wall", "skip"] = "once"
    name: str | None = Field(None, pattern=NAME_PATTERN, min_length=1, max_length=100)
    after: Instant | None = None
    count: int = Field(5, ge=1, le=100)


class RunFilterBody(Body):
    """A filter of runs: set `state`, `job`, `since` or `until`, or `"all": true` to select every run."""

    state: RunState | None = Field(None, strict=False)
    job: str | None = Field(None, min_length=1, max_length=100)
    since: Instant | None = None
    until: Instant | None = None
    everything: bool = Field(
        False, alias="all", description="Select every run of every job, unless another filter is set."
    )
    limit: int = Field(1_000, ge=1, le=1_000)

    @model_validator(mode="after")
    def _chooses(self) -> Self:
        """Require a filter or `"all": true`: a filter omitted by mistake must not act on every run."""
        if not (self.everything or self._is_filtered()):
            what = "without a filter, which would be every run of every job"
            raise ValueError(what, 'write state, job, since or until, or "all": true')
        return self

    def _is_filtered(self) -> bool:
        return any((self.state, self.job, self.since, self.until))


class JobFilterBody(Body):
    """A filter of jobs, as in the job list: set at least one field, or `"all": true` to select every job."""

    q: str | None = Field(None, max_length=100, description="A prefix of the name.")
    tag: str | None = Field(None, max_length=100)
    state: JobState | None = Field(None, strict=False)
    target: Literal["http", "sql", "task", "command", "queue"] | None = None
    managed_by: Literal["api", "app", "code", "sql", "file"] | None = None
    source: str | None = Field(None, max_length=200)
    subject: str | None = Field(None, max_length=200)
    last_result: RunState | None = Field(None, strict=False)
    next_before: Instant | None = None
    attention: Attention | None = Field(None, strict=False)
    everything: bool = Field(False, alias="all", description="Select every job, unless another filter is set.")

    @model_validator(mode="after")
    def _chooses(self) -> Self:
        """Require a filter or `"all": true`: a filter omitted by mistake must not act on every job."""
        if not self.everything and not any(value for name, value in self if name != "everything"):
            raise ValueError("it selects every job", 'set a filter, or "all": true')
        return self


class JobBulkBody(Body):
    """An action on the named jobs, or on those that match a filter."""

    action: JobAction = Field(strict=False)
    jobs: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        None, max_length=1_000, description="Names or ids."
    )
    filter: JobFilterBody | None = None
    expect: int | None = Field(None, ge=0, description="The number of jobs that must match; else nothing is changed.")
    note: str = Field("", max_length=1_000, description="Of a pause.")
    until: Instant | None = Field(None, description="The end of a pause.")
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARACTERS)]] = Field(
        [], max_length=MAX_TAGS, description="To add or to remove."
    )
    payload: Any = Field(None, description="Of the triggered runs, instead of the jobs' own.")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.jobs is None) is (self.filter is None):
            raise ValueError("it names no jobs or selects them twice", "write either jobs or filter")
        if (self.action in (JobAction.TAG, JobAction.UNTAG)) is not bool(self.tags):
            raise ValueError("tags are for the actions tag and untag", "write tags with these, and only with these")
        if self.action is not JobAction.PAUSE and (self.note or self.until is not None):
            raise ValueError("note and until are for the action pause", "leave them out")
        if self.action is not JobAction.TRIGGER and self.payload is not None:
            raise ValueError("payload is for the action trigger", "leave it out")
        return self


class ConvertBody(Body):
    format: Literal["crontab", "jobs-file"]
    text: str = Field(examples=["0 3 * * * /usr/local/bin/backup\n"])
    timezone: str | None = Field(None, max_length=100, description="Of crontab entries without CRON_TZ.")
    commands: bool = Field(False, description="Make jobs that run the commands of a crontab.")
    source: str = Field("", max_length=200, description="Returned, unless a jobs file has its own.")


class FailedFilterBody(RunFilterBody):
    """A filter of failed runs: set `fingerprint`, `job`, `since` or `until`, or `"all": true` to select every one."""

    fingerprint: str | None = Field(
        None, min_length=1, max_length=64, description="Exactly the failed runs of this group of `/runs/groups`."
    )

    def _is_filtered(self) -> bool:
        return self.fingerprint is not None or super()._is_filtered()


class ReplayAllBody(FailedFilterBody):
    per_minute: int = Field(600, ge=1, le=60_000, description="The number of replays that become ready per minute.")


class TokenBody(Body):
    name: str = Field(pattern=NAME_PATTERN, min_length=1, max_length=100)
    role: Role = Field(strict=False)
    expires_in: Duration | None = Field("90d", validate_default=False, description="Null means never.")  # type: ignore[assignment]


class SessionBody(Body):
    token: str = Field(examples=["hb_…"])


class ChannelPatchBody(BaseModel):
    """The fields of a channel to change. The type stays."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"to": ["ops@example.com", "night@example.com"]}, {"priority": 5}]},
    )


class ChannelBody(BaseModel):
    """A channel: its type, and the fields of that type. Each type checks its own fields.

    Fields by type: `webhook`: url, secret. `email`: to. `slack`, `mattermost`, `rocketchat` and `discord`: url. `ntfy`:
    topic, url, token, priority. `telegram`: token, chat_id, thread_id, url. `pagerduty`: routing_key, url, severity.
    `alertmanager`: url, token.
    """

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"type": "webhook", "url": "https://example.com/alerts"},
                {"type": "email", "to": ["ops@example.com"]},
                {"type": "slack", "url": "https://hooks.slack.com/services/T0/B0/x"},
                {"type": "ntfy", "topic": "my-secret-topic", "priority": 4},
                {"type": "telegram", "token": "123456:ABC…", "chat_id": "-1001234567890"},
                {"type": "pagerduty", "routing_key": "0123456789abcdef0123456789abcdef"},
                {"type": "alertmanager", "url": "https://alertmanager.example.com"},
            ]
        },
    )

    type: Literal[
        "webhook",
        "email",
        "slack",
        "mattermost",
        "rocketchat",
        "discord",
        "ntfy",
        "telegram",
        "pagerduty",
        "alertmanager",
    ]


class EscalationBody(Body):
    after: Duration
    notify: list[str]


class QuietHoursBody(Body):
    start: str = Field(alias="from", examples=["22:00"])
    until: str = Field(examples=["07:00"])
    timezone: str = "UTC"


class AlertPolicyBody(Body):
    """An alert policy, described only: `core.alerts.policy` parses it."""

    on: list[Literal[tuple(sorted(JOB_KINDS))]] = Field(  # type: ignore[valid-type]
        ["failed", "late", "missed", "unserved"], description="What opens an incident."
    )
    after: int | None = Field(None, ge=1, le=100, description="Consecutive failures; null: 2, or 1 if the job is rare.")
    rate: str | None = Field(None, examples=["3 of 10"])
    notify: list[str] | None = Field(None, description="Names of channels; null: every channel.")
    repeat: Duration | None = None
    escalate: list[EscalationBody] = []
    resolve: bool = True
    quiet_hours: QuietHoursBody | None = None
    group: Literal["host", "none"] = "host"
    slow_after: Duration | None = None
    no_success_for: Duration | None = None
    paused_for: Duration | None = None
    losing_share: float | None = Field(None, gt=0, lt=1)


class MuteBody(Body):
    until: Instant
