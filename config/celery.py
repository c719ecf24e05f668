"""Which Celery app do workers and the door share?"""

import os

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.conf import settings

from workers import install

app = Celery("sluicegate", set_as_current=True)
app.conf.update(settings.CELERY_SETTINGS)
install(app)
