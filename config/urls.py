"""Which address leads where?"""

from django.urls import path

from queues_ui.api.routes import api
from queues_ui.views import health, login, metrics, pages, refused

urlpatterns = [
    path("api/v1/", api.urls),
    path("login/", login.show_login, name="login"),
    path("logout/", login.log_out, name="logout"),
    path("metrics", metrics.show_metrics, name="metrics"),
    path("healthz", health.is_alive, name="healthz"),
    path("readyz", health.is_ready, name="readyz"),
    *pages.urlpatterns,
]

handler404 = refused.show_unknown
handler500 = refused.show_fault
