"""Test your schedules and tasks under a virtual clock.

The pytest plugin is `hourbell.testing.plugin`; without pytest, use `with Rehearsal() as hourbell:`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hourbell.testing.firing import fires
    from hourbell.testing.notes import ProgressRecord
    from hourbell.testing.records import AttemptRecord, RunRecord, SkipRecord
    from hourbell.testing.rehearsal import Rehearsal
    from hourbell.testing.webhooks import WebhookRecord

__all__ = ["AttemptRecord", "ProgressRecord", "Rehearsal", "RunRecord", "SkipRecord", "WebhookRecord", "fires"]

_MODULES = {"ProgressRecord": "notes", "Rehearsal": "rehearsal", "WebhookRecord": "webhooks", "fires": "firing"}


def __getattr__(name: str) -> object:
    """Import exports lazily, because pytest loads the plugin in every project that has Hourbell installed."""
    if name not in __all__:
        raise AttributeError(f"module 'hourbell.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hourbell.testing.{_MODULES.get(name, 'records')}"), name)
