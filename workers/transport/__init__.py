"""How does Celery reach the gate? A kombu transport, and the line that hooks an application."""

from .hook import install

__all__ = ["install"]
