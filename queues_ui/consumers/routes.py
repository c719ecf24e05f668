"""Which WebSocket address leads where?"""

from django.urls import path

from .live import LiveConsumer

routes = [path("ws/live", LiveConsumer.as_asgi()), path("ws/live/", LiveConsumer.as_asgi())]
