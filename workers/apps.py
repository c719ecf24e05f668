"""How does Django know the engine? As one app that owns every table."""

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "workers"
    label = "workers"
    verbose_name = "Sluicegate engine"
    default_auto_field = "django.db.models.BigAutoField"
