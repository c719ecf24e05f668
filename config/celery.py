"""Which Celery app do workers and the door share?"""

import os

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.conf import settings  # noqa: E402  settings exist only after setup

from workers import install  # noqa: E402

app = Celery("sluicegate", set_as_current=True)
app.conf.update(settings.CELERY_SETTINGS)
install(app)
