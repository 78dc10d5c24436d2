"""`manage.py hourbell`: run the project's scheduler by itself, with the API and the page, until a signal."""

from typing import Any

from django.core.management.base import BaseCommand

from hourbell.django import scheduler


class Command(BaseCommand):
    help = "Run the project's scheduler, with the API, until SIGINT or SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        del args, options
        scheduler().run()
