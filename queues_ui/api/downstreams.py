"""Read and change what is known of a downstream: its settings, and the limit that was found."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from workers.actions import change_downstream
from workers.actions.downstreams import newest_version, standing
from workers.exceptions import StoreUnavailable
from workers.limits.downstream import FIELDS, Downstream, parse_downstream
from workers.models import DownstreamVersion

from ..access.door import Scope
from ..queries.frame import read_frame
from ..queries.reach import reach_gate
from .problems import unknown_downstream
from .reading import take_reason_and_version, tell_reason
from .schemas import BODY, ProblemDocument

router = Router(tags=["downstreams"])
FAULTS = dict.fromkeys((401, 403, 404, 409, 422, 503), ProblemDocument)


@router.get("/downstreams", auth=Scope("read"), response={200: dict, **FAULTS})
def list_downstreams(request: HttpRequest) -> dict[str, Any]:
    """Settings of each, and under `live` what the newest frame says of it (null before the first)."""
    live = _live()
    rows = standing()
    return {
        "downstreams": [{**_show(row), "live": live.get(name)} for name, row in sorted(rows.items())],
        "fields": list(FIELDS),
        "defaults": Downstream().as_fields(),
    }


@router.get("/downstreams/{name}", auth=Scope("read"), response={200: dict, **FAULTS})
def read_downstream(request: HttpRequest, name: str) -> dict[str, Any]:
    row = _standing(name)
    earlier = DownstreamVersion.objects.filter(name=name).order_by("-version")[:20]
    history = [{**_show(old, fields=False), "fields": old.fields} for old in earlier]
    return {**_show(row), "live": _live().get(name), "history": history}


@router.put("/downstreams/{name}", auth=Scope("operate"), response={200: dict, **FAULTS})
def write_downstream(request: HttpRequest, name: str, changes: dict[str, Any] = BODY) -> dict[str, Any]:
    """The fields that change; also `reason`, and `version` to be sure of the base. An admin may make one."""
    changes = dict(changes)
    reason, version = take_reason_and_version(changes)
    for shown in ("name", "by", "at_ms", "history", "live"):
        changes.pop(shown, None)  # what GET showed may come back with the rest
    _execute(request, name, changes, reason, version)
    return _show(_standing(name))


@router.delete("/downstreams/{name}", auth=Scope("operate"), response={200: dict, **FAULTS})
def remove_downstream(request: HttpRequest, name: str, reason: str = "") -> dict[str, Any]:
    """Nothing is limited by it any more, and what was learnt of it is forgotten. Its versions are kept."""
    _execute(request, name, None, tell_reason(reason), None)
    return {"name": name, "removed": True}


def _execute(
    request: HttpRequest, name: str, changes: dict[str, Any] | None, reason: str, version: int | None
) -> None:
    with reach_gate() as store:
        change_downstream.execute(
            request.auth.actor,
            store=store,
            name=name,
            changes=changes,
            reason=reason,
            expected_version=version,
        )


def _live() -> dict[str, dict[str, Any]]:
    try:
        with reach_gate() as store:
            frame = read_frame(store)
    except StoreUnavailable:
        return {}  # settings are in the database; what is live is unknown, as null says
    return {row["name"]: row for row in (frame or {}).get("downstreams") or ()}


def _show(row: DownstreamVersion, *, fields: bool = True) -> dict[str, Any]:
    shown = {
        "name": row.name,
        "version": row.version,
        "by": row.by,
        "reason": row.reason,
        "at_ms": int(row.at.timestamp() * 1000),
    }
    # Fields that a later release added have their default in an older row.
    return {**shown, **parse_downstream(row.fields).as_fields()} if fields else shown


def _standing(name: str) -> DownstreamVersion:
    row = newest_version(name)
    if row is None or row.fields is None:
        raise unknown_downstream(name, standing(), field="name")
    return row
