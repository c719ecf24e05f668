"""What wires the parts together? Settings, routes and the Celery app."""
