"""The application for INSTALLED_APPS. It starts nothing by itself: `manage.py migrate` must not run jobs."""

from django.apps import AppConfig


class HourbellConfig(AppConfig):
    name = "hourbell.django"
    label = "hourbell"
    verbose_name = "Hourbell"
