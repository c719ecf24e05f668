"""How does Django know the control room? As an app with no tables."""

from django.apps import AppConfig


class QueuesUiConfig(AppConfig):
    name = "queues_ui"
    label = "queues_ui"
    verbose_name = "Sluicegate control room"
