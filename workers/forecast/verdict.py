"""Is it all right, where not, since when, what comes and what helps? One sentence and three lines at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..states import REASON_STATUS
from .queue_state import SHAPES, WORST_FIRST
from .wording import NBSP, join_names, put_duration, put_number, put_rate, put_share

STATE_WORDS = {
    "past_guard": "past its guard",
    "past_ceiling": "past its ceiling",
    "at_bound": "at its bound",
    "stalled": "stalled",
    "unknown": "unknown",
    "closed": "closed",
    "in_bounds": "in bounds",
}
BOUND_WORDS = {"count": "count", "bytes": "bytes", "cost_ms": "work", "age_s": "age", "spill": "spill"}
ABNORMAL = ("at_bound", "past_ceiling", "stalled", "past_guard", "unknown")
#: What a queue that is in bounds refuses by; what is wrong with the offer itself (a duplicate) is none of it.
REFUSED_BY = {
    "count": "count bound",
    "bytes": "bytes bound",
    "cost": "work bound",
    "age": "age bound",
    "tenant": "a tenant's share",
    "rate": "rate limit",
    "deadline": "deadlines that could not be kept",
    "downstream": "its downstream",
    "waiting_room": "waiting room",
}
NOTICED_PER_S = 0.05  # what is shown as 0.1 and more


@dataclass(frozen=True, slots=True)
class Verdict:
    shape: str
    headline: str
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"shape": self.shape, "headline": self.headline, "lines": list(self.lines)}


def give_verdict(
    queues: Sequence[Mapping[str, Any]],
    *,
    mode: str,
    mode_reason: str,
    redis_state: str,
    redis_detail: str,
    offerers: Mapping[str, tuple[str, float]],
    now_ms: int,
    mode_by: str = "",
    refusals: Mapping[str, Mapping[str, float]] | None = None,
) -> Verdict:
    """`queues` are the frame's rows; `offerers` names who offers most to a queue, with the share.

    `mode_by` is the operator who set the mode, empty if it was entered by itself; `refusals` are each queue's
    refusals a second by their reason.
    """
    if redis_state not in ("ok", "unknown"):
        detail = f" ({redis_detail})" if redis_detail else ""
        return Verdict(
            "diamond",
            f"Redis is {REDIS_WORDS.get(redis_state, redis_state)}{detail}: nothing can be accepted.",
            tuple(
                line
                for line in (
                    "What was accepted stays in Redis and runs again as it can.",
                    REDIS_HELP.get(redis_state),
                )
                if line
            ),
        )
    if not queues:
        return Verdict("dashed", "No queue has a policy yet: there is nothing to watch.", ())
    ranked = sorted(
        queues, key=lambda q: (WORST_FIRST.index(q["state"]), q["strict_rank"] is None, q["name"])
    )
    bad = [q for q in ranked if q["state"] in ABNORMAL]
    if mode == "failed":
        again = "Redis can be written again; the gate opens once that has held for its hold time."
        beside = ((again,) if redis_state == "ok" else ()) + _others(bad, queues)
        return Verdict("diamond", f"The gate is failed and admits nothing: {mode_reason}.", beside)
    if not bad:
        return _none_bad(queues, mode=mode, mode_by=mode_by, mode_reason=mode_reason, refusals=refusals or {})
    worst = bad[0]
    lines = [_since(worst, offerers, now_ms=now_ms)]
    others = _others(bad[1:], queues)
    help_line = _what_helps(worst, mode=mode)
    lines += [line for line in (*others, help_line) if line]
    return Verdict(SHAPES[worst["state"]], _headline(worst), tuple(lines[:3]))


REDIS_WORDS = {
    "down": "not reachable",
    "timeout": "not answering",
    "loading": "loading its data",
    "readonly": "not writable",
    "full": "full",
    "auth": "refusing the password",
}
REDIS_HELP = {
    "loading": "No act is needed: the gate opens by itself once its file is read.",
    "readonly": "Look in its log whether its disk is full, or whether it is a replica now.",
    "full": "Raise its maxmemory, or take out what else lies in it; the gate then opens by itself.",
    "auth": "Put the right password into SLUICEGATE_REDIS_URL.",
}


def _none_bad(
    queues: Sequence[Mapping[str, Any]],
    *,
    mode: str,
    mode_by: str,
    mode_reason: str,
    refusals: Mapping[str, Mapping[str, float]],
) -> Verdict:
    """No queue is past a line; one that is closed, or turns work away within its bounds, is named."""
    age = _oldest(queues)
    closed = [q for q in queues if q["state"] == "closed"]
    whole = "The one queue is" if len(queues) == 1 else f"All {len(queues)} queues are"
    away = _turned_away([q for q in queues if q["state"] != "closed"], refusals)
    if mode == "draining":
        left = sum(q["depth"] + q["delayed"] + q["in_flight"] for q in queues)
        still = [q["name"] for q in queues if q["state"] != "closed"]
        admitted = f"only {join_names(still)} {_is(still)} admitted" if still else "nothing new is admitted"
        jobs = "1 job is left" if left == 1 else f"{put_number(left)} jobs are left"
        backlog = f"{jobs}; {age}" if left else "no job is left"
        refused = sum(q["rates"].get("refused") or 0.0 for q in closed)
        costs = f"It refuses {put_rate(refused)}; setting normal lets new work in again."
        told = (_sentence(away) if away else "", costs if refused >= NOTICED_PER_S else "")
        return Verdict("square", f"Draining, {admitted}: {backlog}.", tuple(filter(None, told)))
    if closed:
        rest = _rest(queues, closed) + (f", but {away}" if away else "")
        why = f"The gate is {mode}: {mode_reason}." if mode != "normal" and mode_reason else ""
        headline = f"{_say_closed(closed, mode=mode, mode_by=mode_by)}; {rest}."
        return Verdict("square", headline, tuple(line for line in (_sentence(age), why) if line))
    lines = (f"The gate is {mode}: {mode_reason}.",) if mode == "saturated" and mode_reason else ()
    return Verdict("ring", f"{whole} in bounds{f', but {away}' if away else ''}; {age}.", lines)


def _oldest(queues: Sequence[Mapping[str, Any]]) -> str:
    oldest = max(queues, key=lambda q: q["oldest_age_ms"] or 0)
    if not oldest["oldest_age_ms"]:
        return "no job waits"
    return f"the oldest job has waited {put_duration(oldest['oldest_age_ms'] / 1000)} ({oldest['name']})"


def _say_closed(closed: Sequence[Mapping[str, Any]], *, mode: str, mode_by: str) -> str:
    """Whose mode closes which queues, and what they refuse: the gate's first, then each its own."""
    parts = []
    by_gate = [q for q in closed if q["mode"] == mode]
    if by_gate:
        who = f"set by {mode_by}" if mode_by else "entered by itself"
        parts.append(f"{mode.capitalize()}, {who}: {_closed_and_refusing(by_gate)}")
    for own in dict.fromkeys(q["mode"] for q in closed if q["mode"] != mode):
        rows = [q for q in closed if q["mode"] == own]
        its = "its own mode" if len(rows) == 1 else "their own mode"
        parts.append(_closed_and_refusing(rows, f" by {its}, {own},"))
    return "; ".join(parts)


def _closed_and_refusing(rows: Sequence[Mapping[str, Any]], by: str = "") -> str:
    names = [q["name"] for q in rows]
    said = f"{join_names(names)} {_is(names)} closed{by}"
    rates = [q["rates"].get("refused") for q in rows]
    if any(rate is None for rate in rates):
        return said.removesuffix(",")
    refused = sum(rates)
    verb = "refuses" if len(rows) == 1 else "refuse"
    return f"{said} and {verb} {put_rate(refused) if refused >= NOTICED_PER_S else 'nothing now'}"


def _rest(queues: Sequence[Mapping[str, Any]], closed: Sequence[Mapping[str, Any]]) -> str:
    left = len(queues) - len(closed)
    if not left:
        return "so nothing is admitted"
    return "the other queue is in bounds" if left == 1 else "the rest is in bounds"


def _turned_away(queues: Sequence[Mapping[str, Any]], refusals: Mapping[str, Mapping[str, float]]) -> str:
    """Which queue refuses or sheds most within its bounds; empty if none does."""
    found = []
    for q in queues:
        told = refusals.get(q["name"], {})
        by = {name: rate for name, rate in told.items() if REASON_STATUS.get(name) == 429}
        refused, shed = sum(by.values()), q["rates"].get("shed") or 0.0
        parts = []
        if refused >= NOTICED_PER_S:
            chief = max(by, key=lambda name: by[name])
            amount, offered = put_rate(refused), put_rate(q["rates"].get("offered") or refused)
            if offered != amount:
                amount = f"{amount.split(NBSP)[0]} of {offered}"
            parts.append(f"refuses {amount} ({REFUSED_BY.get(chief, chief)})")
        if shed >= NOTICED_PER_S:
            parts.append(f"sheds {put_rate(shed)} of what it accepted")
        if parts:
            found.append((refused + shed, f"{q['name']} {' and '.join(parts)}"))
    if not found:
        return ""
    most = max(found)[1]
    others = len(found) - 1
    return most if not others else f"{most}, and {others} more {'does' if others == 1 else 'do'} so"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _headline(queue: Mapping[str, Any]) -> str:
    drain, name, state = queue["drain"], queue["name"], queue["state"]
    age_s = (queue["oldest_age_ms"] or 0) / 1000
    if state == "unknown":
        return f"{name} is unknown: no samples of it."
    if state == "stalled":
        what = f"{put_number(queue['depth'])} {'job waits' if queue['depth'] == 1 else 'jobs wait'}"
        full = f", full in {put_duration(drain['full_in_s'])}" if drain["full_in_s"] is not None else ""
        return f"{name} is stalled: no consumer, {what}, oldest {put_duration(age_s)}{full}."
    direction = {"growing": " and growing", "draining": " and draining"}.get(drain["state"], "")
    parts = [_measure(queue, age_s)]
    if drain["state"] == "growing" and drain["full_in_s"] is not None and state != "at_bound":
        parts.append(f"full in {put_duration(drain['full_in_s'])}")
    elif drain["state"] == "draining" and drain["seconds"] is not None:
        parts.append(f"drains in {put_duration(drain['seconds'])}")
    elif drain.get("reason"):
        parts.append(str(drain["reason"]))
    return f"{name} is {STATE_WORDS[state]}{direction}: {', '.join(parts)}."


def _measure(queue: Mapping[str, Any], age_s: float) -> str:
    age = f"oldest {put_duration(age_s)}"
    if queue["state"] == "past_guard":
        return f"{age}, guard {put_duration(queue['guard_age_s'])}"
    if queue["state"] == "past_ceiling":
        return f"{age}, ceiling {put_duration(queue['age_ceiling_s'])}"
    if queue["state"] == "at_bound" and queue.get("full_bound"):
        return f"{BOUND_WORDS[queue['full_bound']]} bound reached, {age}"
    return age


def _since(queue: Mapping[str, Any], offerers: Mapping[str, tuple[str, float]], *, now_ms: int) -> str:
    lasted_s = max(0, now_ms - queue["state_since_at_ms"]) / 1000
    said = "Since just now" if lasted_s < 1 else f"For {put_duration(lasted_s)}"
    rates = queue["rates"]
    if rates.get("offered") is not None and rates.get("succeeded") is not None:
        done = rates["succeeded"] + (rates.get("failed") or 0.0)
        said += f"; {put_rate(rates['offered'])} offered, {put_rate(done)} done"
        for name in ("refused", "shed"):
            if (rates.get(name) or 0.0) >= NOTICED_PER_S:
                said += f", {put_rate(rates[name])} {name}"
    who = offerers.get(queue["name"])
    if who is not None and who[1] >= 0.5:
        said += f"; {who[0]} offers {put_share(who[1])} of {queue['name']}"
    return said + "."


def _others(bad: Sequence[Mapping[str, Any]], queues: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    lines = []
    if bad:
        first = f"{bad[0]['name']} is {STATE_WORDS[bad[0]['state']]} too"
        lines.append(f"{first}, and {len(bad) - 1} more." if len(bad) > 1 else f"{first}.")
    closed = [q for q in queues if q["state"] == "closed"]
    if closed:
        lines.append(f"{_closed_and_refusing(closed)}.")
    well = [q["name"] for q in queues if q["state"] == "in_bounds"]
    if well and len(well) <= 4:
        lines.append(f"{join_names(well)} {'is' if len(well) == 1 else 'are'} in bounds.")
    elif well:
        lines.append(f"{len(well)} other queues are in bounds.")
    return (" ".join(lines),) if lines else ()


def _what_helps(queue: Mapping[str, Any], *, mode: str) -> str:
    """The act that helps, and what the tempting wrong one would do."""
    name, drain = queue["name"], queue["drain"]
    if queue["state"] == "stalled":
        return (
            f"Start a worker that consumes {name} (celery{NBSP}worker{NBSP}-Q{NBSP}{name}); "
            "draining would refuse new work and run none of this."
        )
    if drain.get("reason", "").startswith("starved"):
        return f"{name} is {drain['reason']}: reserved slots or more workers help, weight does not."
    if drain["state"] == "draining" and mode == "normal":
        return "It recovers by itself; no act is needed."
    held_back = _held_back(queue)
    if held_back:
        return held_back
    if drain["state"] == "growing" and mode == "normal":
        share = queue["saturated_share"]
        room = (
            "nothing more"
            if not share
            else f"only {put_share(share)} of its bounds"
            if share < 1
            else "as much"
        )
        return f"Saturated would admit {room} to {name}; {_more_workers(queue)}, replaying or purging do not."
    if drain["state"] == "growing" and mode == "saturated":
        return f"Already saturated: {_more_workers(queue)}; normal would let the backlog grow faster."
    return ""


def _more_workers(queue: Mapping[str, Any]) -> str:
    """More workers only load what is slow already, and the gate does not know how long a run usually is."""
    runs_ms = (queue.get("service_ms") or {}).get("p50")
    if runs_ms is None:
        return "more workers help"
    runs = f"a run takes {put_duration(runs_ms / 1000)} (p50)"
    return f"{runs}: if that is unusual look at what it calls, else more workers help"


def _held_back(queue: Mapping[str, Any]) -> str:
    """Most of what waits does so for a downstream: slots are not short, and one worker more stands idle."""
    name, waiting = queue["name"], queue["depth"] or 0
    aside = max(queue.get("set_aside") or (), key=lambda row: row["jobs"], default=None)
    if aside is not None and aside["jobs"] * 2 > waiting:
        who, what = aside["downstream"], f"{put_number(min(aside['jobs'], waiting))} of {put_number(waiting)}"
        jobs = f"{what} waiting jobs of {name} stand aside for {who}"
    elif queue.get("downstream") and queue.get("downstream_share", 1) < 1:
        who = queue["downstream"]
        jobs = f"{who} lets {put_share(queue['downstream_share'])} of the slots of {name} work"
    else:
        return ""
    return f"{jobs}: look at {who}, what it answers and its limit; more workers do not help."
