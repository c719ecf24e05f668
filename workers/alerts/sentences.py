"""What does an alert say, in one sentence a person can act on?"""

from __future__ import annotations

from ..forecast.wording import put_duration, put_number, put_rate


def say_alert(measure: str, queue: str, value: float | None, threshold: float) -> str:
    where = queue or "the gate"
    if measure == "oldest_age_s":
        return f"{where}: the oldest job has waited {_age(value)}, the rule says {put_duration(threshold)}."
    if measure == "depth":
        return f"{where}: {_count(value)} jobs wait, the rule says {put_number(threshold)}."
    if measure == "gate_failed":
        return "the gate has failed: nothing new is accepted."
    if measure == "queues_draining":
        number = "" if queue else "1 queue is " if value == 1 else f"{_count(value)} queues are "
        return f"{where}: {number}draining, nothing new is accepted there."
    if measure == "no_consumer":
        return f"{where}: jobs wait and no live worker consumes it."
    if measure == "shed_rate":
        return f"{where}: {_rate(value)} are shed after acceptance, the rule says {put_rate(threshold)}."
    if measure == "refused_rate":
        return f"{where}: {_rate(value)} are refused, the rule says {put_rate(threshold)}."
    if measure in BURN_WORDS:
        return (
            f"{where}: jobs miss the completion promise {_times(value)} as fast as it allows, over "
            f"{BURN_WORDS[measure]}; the rule says {threshold:g} times."
        )
    if measure == "quarantine_count":
        return f"{where}: {_count(value)} jobs are in quarantine, the rule says {put_number(threshold)}."
    if measure == "quarantine_age_s":
        return f"{where}: a job is in quarantine for {_age(value)}, the rule says {put_duration(threshold)}."
    return f"{where}: {measure} is past {threshold:g}."


def say_cleared(measure: str, queue: str, peak: float | None, threshold: float) -> str:
    """``peak`` is the worst that it was, which nobody should take for how it is."""
    return f"No longer so. At its worst: {say_alert(measure, queue, peak, threshold)}"


BURN_WORDS = {
    "burn_rate_fast": "the last 5 min and the last hour",
    "burn_rate_slow": "the last 30 min and the last 6 h",
}


def _times(value: float | None) -> str:
    return "an unknown number of times" if value is None else f"{value:.1f} times"


def _age(value: float | None) -> str:
    return "an unknown time" if value is None else put_duration(value)


def _count(value: float | None) -> str:
    return "an unknown number of" if value is None else put_number(value)


def _rate(value: float | None) -> str:
    return "an unknown rate" if value is None else put_rate(value)
