"""How does an image become a small one, without trusting the image?"""

from __future__ import annotations

import base64
import binascii
import io
import random
import uuid
from typing import TYPE_CHECKING, Any

from celery import shared_task

from .places import data_directory, resolve_in

if TYPE_CHECKING:
    from PIL.Image import Image

#: A file of a few kilobytes can unpack to gigabytes; its header says how many pixels before any is decoded.
MAX_PIXELS = 24_000_000
MAX_INPUT_BYTES = 8 * 1024 * 1024
MAX_EDGE = 2048
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")


class ImageRefused(ValueError):
    """The image is not one that this job takes."""


@shared_task(name="images.thumbnail")
def make_thumbnail(
    image: str | None = None,
    *,
    sample: dict[str, int] | None = None,
    max_edge: int = 256,
    save: bool = False,
) -> dict[str, Any]:
    """Shrink ``image`` (base64), or a generated one of ``sample`` = {width, height, seed}.

    Returns the sizes; with ``save`` the thumbnail is written below the data directory too, and named.
    """
    if not 1 <= max_edge <= MAX_EDGE:
        raise ImageRefused(f"max_edge is {max_edge}; it must be between 1 and {MAX_EDGE}")
    picture = _draw_sample(sample or {}) if image is None else _read_image(image)
    before = picture.size
    picture.thumbnail((max_edge, max_edge))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=82)
    result: dict[str, Any] = {
        "width": picture.width,
        "height": picture.height,
        "bytes": out.tell(),
        "source_width": before[0],
        "source_height": before[1],
    }
    if save:
        result["file"] = _save(out.getvalue())
    return result


def _read_image(text: str) -> Image:
    from PIL import Image as images
    from PIL import UnidentifiedImageError

    if len(text) > MAX_INPUT_BYTES * 4 // 3 + 4:
        raise ImageRefused(f"the image is larger than {MAX_INPUT_BYTES} bytes")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ImageRefused("the image is not base64") from exc
    try:
        picture = images.open(io.BytesIO(raw), formats=FORMATS)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as exc:
        raise ImageRefused(f"not a readable image of {', '.join(FORMATS)}") from exc
    except (images.DecompressionBombError, images.DecompressionBombWarning) as exc:
        raise ImageRefused(f"the image has more than {MAX_PIXELS} pixels") from exc
    check_pixels(picture.width, picture.height)
    picture.draft("RGB", (MAX_EDGE, MAX_EDGE))
    try:
        picture.load()
    except (OSError, SyntaxError, ValueError) as exc:
        raise ImageRefused(f"the image is damaged: {exc}") from exc
    return picture


def check_pixels(width: int, height: int) -> None:
    if width < 1 or height < 1 or width * height > MAX_PIXELS:
        raise ImageRefused(f"the image has {width} x {height} pixels; at most {MAX_PIXELS} are decoded")


def _draw_sample(sample: dict[str, int]) -> Image:
    """A picture with some detail, the same for the same seed."""
    from PIL import Image as images
    from PIL import ImageDraw

    width, height = int(sample.get("width", 640)), int(sample.get("height", 480))
    check_pixels(width, height)
    draw_from = random.Random(int(sample.get("seed", 0)))
    picture = images.linear_gradient("L").resize((width, height)).convert("RGB")
    pen = ImageDraw.Draw(picture)
    for _ in range(24):
        corner = draw_from.randrange(width), draw_from.randrange(height)
        edge = draw_from.randint(4, max(5, width // 4))
        colour = tuple(draw_from.randrange(256) for _ in range(3))
        pen.ellipse((*corner, corner[0] + edge, corner[1] + edge), fill=colour)
    return picture


def _save(jpeg: bytes) -> str:
    directory = data_directory() / "thumbnails"
    directory.mkdir(parents=True, exist_ok=True)
    path = resolve_in(directory, f"{uuid.uuid4().hex}.jpg")
    path.write_bytes(jpeg)
    return f"thumbnails/{path.name}"
