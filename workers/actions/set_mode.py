"""Set the mode of the installation or of one queue."""

from __future__ import annotations

from typing import Final

from django.db import transaction

from ..exceptions import StoreUnavailable
from ..models import Transition
from ..store import Store
from .actor import Actor, NotPossible, Result
from .gate import redis_now_ms
from .journal import FAILED, require_role, write_entry
from .moments import read_moment
from .naming import tell_no_queue

VERB: Final = "set_mode"
SETTABLE: Final = ("normal", "saturated", "draining")  # failed is a finding, never a choice
EVERYWHERE: Final = "*"


def execute(
    actor: Actor,
    *,
    store: Store,
    mode: str,
    scope: str = EVERYWHERE,
    reason: str = "",
    until: int | str | None = None,
    pinned: bool = False,
) -> Result:
    require_role(actor, "operator", VERB, target=scope, reason=reason)
    if mode not in SETTABLE:
        raise NotPossible("invalid", f"mode must be one of {', '.join(SETTABLE)}.", field="mode")
    drained = until == "drained"
    if drained and mode != "draining":
        raise NotPossible("invalid", 'until "drained" goes with the mode draining.', field="until")
    until_at_ms = None if drained else read_moment(until, field="until")
    if pinned and until_at_ms is None:
        raise NotPossible("invalid", "A pin needs an expiry: give until as a time.", field="until")
    if scope != EVERYWHERE:
        known = store.read_policies()
        if scope not in known:
            raise NotPossible("unknown_queue", tell_no_queue(scope, known), field="queue", status=404)
    now_ms = redis_now_ms(store)
    if until_at_ms is not None and until_at_ms <= now_ms:
        raise NotPossible("invalid", "until lies in the past.", field="until")
    try:
        # The row is written first: a mode that is in force but written nowhere would not survive Redis.
        with transaction.atomic():
            row = Transition.objects.create(
                scope=scope,
                before="",
                after=mode,
                by=actor.name,
                automatic=False,
                pinned=pinned,
                reason=reason[:2000],
                until="drained" if drained else str(until_at_ms or ""),
                at_ms=now_ms,
            )
            change = store.set_mode(
                scope,
                mode,
                by=actor.name,
                reason=reason[:2000],
                until_at_ms=until_at_ms,
                until="drained" if drained else None,
                pinned=pinned,
            )
            row.before = (change["before"] or {}).get("mode") or "normal"
            row.at_ms = change["after"]["since_at_ms"]
            row.save(update_fields=["before", "at_ms"])
            write_entry(
                actor, VERB, target=scope, reason=reason, before=change["before"], after=change["after"]
            )
    except StoreUnavailable as fault:
        write_entry(
            actor,
            VERB,
            target=scope,
            reason=reason,
            after={"mode": mode, "fault": fault.reason},
            outcome=FAILED,
        )
        raise
    return Result(VERB, scope, {"scope": scope, **change["after"], "before": change["before"]})
