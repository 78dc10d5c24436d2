"""Runs a scheduler in a thread beside a Flask application; tasks run inside the application's context.

It starts only where the application is served: `flask db upgrade` must not run jobs.
"""

import os
from typing import TYPE_CHECKING

from hourbell.library.scheduler import Scheduler

if TYPE_CHECKING:
    from flask import Flask


class Hourbell:
    """The extension: `Hourbell(app, scheduler)`, or `init_app` later. Every worker runs one; a run still happens once.

    Nothing is started with `HOURBELL_START = False` in the application's config or HOURBELL_START=0 in the environment.
    """

    def __init__(self, app: "Flask | None" = None, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler
        if app is not None:
            self.init_app(app)

    @property
    def scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise RuntimeError("no scheduler was given; write Hourbell(app, scheduler)")
        return self._scheduler

    def init_app(self, app: "Flask", scheduler: Scheduler | None = None) -> None:
        """Start the scheduler for this application."""
        self._scheduler = scheduler or self._scheduler
        app.extensions["hourbell"] = self
        self.scheduler.task_context = app.app_context
        if app.config.get("HOURBELL_START", True) and _is_served():
            self.scheduler.start()


def _is_served() -> bool:
    """Return True if this process serves requests: not another Flask command, nor the reloader's parent process."""
    import click
    from flask.cli import FlaskGroup
    from flask.helpers import get_debug_flag

    command = click.get_current_context(silent=True)
    if command is None or not isinstance(command.find_root().command, FlaskGroup):
        return True
    if command.info_name != "run":
        return False
    reloads = command.params.get("reload")
    return not (get_debug_flag() if reloads is None else reloads) or os.environ.get("WERKZEUG_RUN_MAIN") == "true"
