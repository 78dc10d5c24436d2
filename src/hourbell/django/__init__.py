"""Runs a scheduler in a Django project: `manage.py hourbell`, or `start()` in wsgi.py beside the application.

Put `hourbell.django` into INSTALLED_APPS and name the scheduler by `HOURBELL_SCHEDULER = "project.jobs.scheduler"`.
Modules named `jobs` of the installed apps are imported, so that their jobs are known.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hourbell.library.scheduler import Scheduler

__all__ = ["scheduler", "start"]


def scheduler() -> Scheduler:
    """Return the project's scheduler, with everything that its apps define."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.utils.module_loading import autodiscover_modules, import_string

    path = getattr(settings, "HOURBELL_SCHEDULER", None)
    if not path:
        hint = 'set HOURBELL_SCHEDULER = "project.jobs.scheduler" in the settings'
        raise ImproperlyConfigured(f"Hourbell does not know your scheduler; {hint}.")
    found = import_string(path)
    if not isinstance(found, Scheduler):
        raise ImproperlyConfigured(f"HOURBELL_SCHEDULER names {path}, which is not a hourbell.Scheduler.")
    autodiscover_modules("jobs")
    found.task_context = _with_fresh_connections
    return found


def start() -> None:
    """Run the scheduler beside the application, for wsgi.py or asgi.py. Every worker runs one; a run happens once."""
    scheduler().start()


@contextmanager
def _with_fresh_connections() -> Iterator[None]:
    """Close connections that are too old or broken before and after a task, as Django does around a request."""
    from django.db import close_old_connections

    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
