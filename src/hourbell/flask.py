"""A scheduler beside a Flask application, in a thread of its own; tasks run inside the application's context."""

from typing import TYPE_CHECKING

from hourbell.library.scheduler import Scheduler

if TYPE_CHECKING:
    from flask import Flask


class Hourbell:
    """`Hourbell(app, scheduler)`, or `init_app` later. Every worker process runs one, and a run still happens once.

    With `HOURBELL_START = False` in the application's config nothing is started.
    """

    def __init__(self, app: "Flask | None" = None, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler
        if app is not None:
            self.init_app(app)

    @property
    def scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise RuntimeError("there is no scheduler; write Hourbell(app, scheduler)")
        return self._scheduler

    def init_app(self, app: "Flask", scheduler: Scheduler | None = None) -> None:
        """Run the scheduler for this application."""
        self._scheduler = scheduler or self._scheduler
        app.extensions["hourbell"] = self
        self.scheduler.surroundings = app.app_context
        if app.config.get("HOURBELL_START", True):
            self.scheduler.start()
