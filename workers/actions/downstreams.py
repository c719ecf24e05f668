"""Which downstreams are there, and what are their settings?"""

from __future__ import annotations

from ..models import DownstreamVersion


def newest_version(name: str) -> DownstreamVersion | None:
    row: DownstreamVersion | None = DownstreamVersion.objects.filter(name=name).order_by("-version").first()
    return row


def newest_versions() -> dict[str, DownstreamVersion]:
    """The newest row of each name, removed ones included."""
    return {row.name: row for row in DownstreamVersion.objects.order_by("name", "version")}


def standing() -> dict[str, DownstreamVersion]:
    """Those that there are now."""
    return {name: row for name, row in newest_versions().items() if row.fields is not None}
