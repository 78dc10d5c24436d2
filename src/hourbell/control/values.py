"""Values and errors of the store that the interface of control uses. Callers of control need no other store types."""

from hourbell.store.access import Token
from hourbell.store.actor import Request
from hourbell.store.alert_verbs import ChannelView, IncidentView, NotificationView, PolicyView
from hourbell.store.bundles import Imported
from hourbell.store.errors import AlreadyAsked, Conflict, StoreLost, StoreReadOnly, StoreUnavailable, StoreUnwritable
from hourbell.store.lists import (
    AttemptView,
    AuditRow,
    JobQuery,
    JobSort,
    JobState,
    JobTotals,
    JobView,
    NodeView,
    Overview,
    Progress,
    RunView,
    SkipView,
    VersionView,
)
from hourbell.store.secrets import SecretRow
from hourbell.store.timeline import TimelineRun
from hourbell.store.times import RunTime, SkipTime

__all__ = [
    "AlreadyAsked",
    "AttemptView",
    "AuditRow",
    "ChannelView",
    "Conflict",
    "Imported",
    "IncidentView",
    "JobQuery",
    "JobSort",
    "JobState",
    "JobTotals",
    "JobView",
    "NodeView",
    "NotificationView",
    "Overview",
    "PolicyView",
    "Progress",
    "Request",
    "RunTime",
    "RunView",
    "SecretRow",
    "SkipTime",
    "SkipView",
    "StoreLost",
    "StoreReadOnly",
    "StoreUnavailable",
    "StoreUnwritable",
    "TimelineRun",
    "Token",
    "VersionView",
]
