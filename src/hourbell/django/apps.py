"""The application for INSTALLED_APPS. It starts nothing by itself: `manage.py migrate` is no reason to run jobs."""

from django.apps import AppConfig


class HourbellConfig(AppConfig):
    name = "hourbell.django"
    label = "hourbell"
    verbose_name = "Hourbell"
