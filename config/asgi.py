"""What does an ASGI server serve? The pages and the API by HTTP, the live stream by WebSocket."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
http = get_wsgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings

from queues_ui.access.address_limit import AddressLimit
from queues_ui.access.body_limit import BodyLimit
from queues_ui.access.counted import teller
from queues_ui.access.entrance import Entrance
from queues_ui.access.patience import Patience, RoomBell
from queues_ui.access.threads import Threads
from queues_ui.consumers.routes import routes
from queues_ui.queries.engine import celery_app, open_gate

celery_app()  # the first submit must not wait for the tasks to be imported

entrance = Entrance(Threads(http), teller=teller())
door = BodyLimit(Patience(entrance, RoomBell(open_gate), teller()))
application = AddressLimit(
    ProtocolTypeRouter({"http": door, "websocket": URLRouter(routes)}),
    rate=settings.SLUICEGATE_ADDRESS_RATE,
    burst=settings.SLUICEGATE_ADDRESS_BURST,
    trusted=settings.SLUICEGATE_TRUSTED_PROXIES,
)
