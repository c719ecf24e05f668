"""Which WebSocket address leads where?"""

from typing import Any

routes: list[Any] = []
