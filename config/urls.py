"""Which address leads where?"""

from django.urls import path

urlpatterns: list[path] = []
