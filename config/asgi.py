"""What does an ASGI server serve? The pages and the API by HTTP, the live stream by WebSocket."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
http = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402  apps must be ready first

from queues_ui.access.body_limit import BodyLimit  # noqa: E402
from queues_ui.consumers.routes import routes  # noqa: E402

application = ProtocolTypeRouter({"http": BodyLimit(http), "websocket": URLRouter(routes)})
