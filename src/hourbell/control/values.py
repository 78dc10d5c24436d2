"""Values and errors of the store that the interface of control uses. Callers of control need no other store types."""

from hourbell.store.alerts.verbs import ChannelView, IncidentView, NotificationView, PolicyView
from hourbell.store.control.access import Token
from hourbell.store.control.actor import Request
from hourbell.store.control.bundles import Imported
from hourbell.store.control.secrets import SecretRow
from hourbell.store.errors import AlreadyAsked, Conflict, StoreLost, StoreReadOnly, StoreUnavailable, StoreUnwritable
from hourbell.store.lists.query import (
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
from hourbell.store.lists.timeline import TimelineRun
from hourbell.store.lists.times import RunTime, SkipTime

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
