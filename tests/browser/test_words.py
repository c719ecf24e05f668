"""Are numbers, sizes, durations and forecasts written the same everywhere, and is unknown never a zero?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stack import Stack

from .room import Room

if TYPE_CHECKING:
    from playwright.sync_api import Page

UNITS = [
    ("count", 20000, "20,000"),
    ("count", None, "\u2013"),
    ("rate", 42, "42.0"),
    ("rate", 0, "0.0"),
    ("rate", 1234.5, "1,235"),
    ("rate", -3.2, "\u22123.2"),
    ("bytes", 8192, "8 KiB"),
    ("bytes", 0, "0 KiB"),
    ("bytes", 16148070, "15.4 MiB"),
    ("bytes", 67108864, "64 MiB"),
    ("bytes", 432013312, "412 MiB"),
    ("duration", 250000, "4 min 10 s"),
    ("duration", 660000, "11 min"),
    ("duration", 11520000, "3 h 12 min"),
    ("duration", 200, "0.2 s"),
    ("duration", None, "\u2013"),
    ("age", 210, "0.21 s"),
    ("age", 49000, "49 s"),
    ("age", 0, "0 s"),
    ("wait", 212, "212 ms"),
    ("wait", 194000, "194 s"),
    ("wait", 1200000, "20 min"),
    ("percent", 0.69, "69 %"),
]
DRAINS: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"state": "draining", "seconds": 250, "low": 180, "high": 360},
        "past_guard",
        "drains in 4 min 10 s",
        "3 to 6 min, modeled",
    ),
    ({"state": "growing", "full_in_s": 120}, "past_guard", "growing: full in 2 min", "modeled"),
    ({"state": "stalled"}, "stalled", "stalled: no consumer", "1,240 waiting"),
    (
        {"state": "stalled", "reason": "no slot is free for it"},
        "past_guard",
        "stalled: no slot is free for it",
        "1,240 waiting",
    ),
    (
        {"state": "stalled", "reason": "starved by critical"},
        "past_guard",
        "stalled: starved by critical",
        "1,240 waiting",
    ),
    (
        {"state": "draining", "seconds": 660, "low": 540, "high": 840},
        "closed",
        "refusing",
        "1,240 drain in 11 min, 9 to 14 min, modeled",
    ),
    ({"state": "unknown", "reason": "no samples yet"}, "unknown", "unknown", "no samples yet"),
]


#: until, what waits and runs in the queues it is for, and how the dialog says when the mode will end.
ENDS: list[tuple[str | int | None, list[dict[str, int | None]], str]] = [
    (
        "drained",
        [{"depth": 0, "in_flight": 0}],
        "Nothing waits or runs now: it ends at once, and new work is admitted again. "
        "To keep it closed choose a time or \u201cuntil changed\u201d.",
    ),
    (
        "drained",
        [{"depth": 3, "in_flight": 1}, {"depth": 0, "in_flight": 2}],
        "Ends by itself once the 6 jobs that wait or run are gone; then new work is admitted again.",
    ),
    (
        "drained",
        [{"depth": None, "in_flight": 0}],
        "Ends by itself once what waits or runs is gone; then new work is admitted again.",
    ),
    (None, [{"depth": 0, "in_flight": 0}], "Stays until an operator changes it."),
]


@pytest.fixture
def page_with_modules(gate_up: Callable[..., Stack], page: Page) -> Page:
    room = Room(page, gate_up(name="pages", SLUICEGATE_WORKERS="2"))
    room.open("/login/")
    return page


def test_units_are_written_as_agreed(page_with_modules: Page) -> None:
    said = page_with_modules.evaluate(
        "(rows) => import('/static/js/units.js').then((units) => rows.map(([f, v]) => units[f](v)))",
        [[name, value] for name, value, _ in UNITS],
    )
    wanted = [text for _, _, text in UNITS]
    assert [text.replace("\u00a0", " ") for text in said] == wanted


def test_forecasts_are_written_as_agreed(page_with_modules: Page) -> None:
    queues = [
        {"name": "bulk", "depth": 1240, "state": state, "drain": drain} for drain, state, _, _ in DRAINS
    ]
    full: dict[str, Any] = {"name": "bulk", "depth": 600, "state": "at_bound"}
    queues.append({**full, "drain": {"state": "growing", "full_in_s": 1}})
    idle: dict[str, Any] = {"name": "bulk", "depth": 0, "state": "in_bounds", "drain": {"state": "empty"}}
    queues += [{**idle, "rates": {"accepted": 0.0, "refused": rate}} for rate in (0.0, 5.2)]
    said = page_with_modules.evaluate(
        "(queues) => import('/static/js/states.js').then((states) => queues.map(states.forecastWords))",
        queues,
    )
    found = [(row["head"].replace("\u00a0", " "), row["line"].replace("\u00a0", " ")) for row in said]
    # A queue whose limits let nothing in is not merely empty.
    wanted = [*((head, line) for _, _, head, line in DRAINS), ("full", "more comes than is done")]
    wanted.append(("empty", "no backlog"))
    assert found == [*wanted, ("refusing", "no backlog")]


def test_guard_and_ceiling_stand_at_one_place_for_every_queue(page_with_modules: Page) -> None:
    places = page_with_modules.evaluate(
        """async () => {
          const { agePosition } = await import('/static/js/bars.js');
          return [[1000, 5000], [2000, 10000], [30000, 120000], [600000, 1800000]].map(
            ([guard, ceiling]) =>
              [0, guard, ceiling, ceiling * 9, null].map((age) => agePosition(age, guard, ceiling)));
        }"""
    )
    assert places == [[0, 0.5, 0.9, 1, None]] * 4


def test_the_dialog_says_when_a_mode_will_end_and_that_an_idle_gate_drains_at_once(
    page_with_modules: Page,
) -> None:
    said = page_with_modules.evaluate(
        "(rows) => import('/static/js/modeswitch.js')"
        ".then(({ untilWords }) => rows.map(([until, queues]) => untilWords(until, queues, 0)))",
        [[until, queues] for until, queues, _ in ENDS],
    )
    assert [row["text"].replace("\u00a0", " ") for row in said] == [words for _, _, words in ENDS]
    assert [row["warns"] for row in said] == [True, False, False, False]


def test_a_changed_bound_says_what_it_would_mean_under_the_mode_as_it_is(page_with_modules: Page) -> None:
    queue = {"depth": 24, "delayed": 0, "mode": "normal", "saturated_share": 0, "on_full": "reject"}
    saturated = {**queue, "depth": 0, "mode": "saturated"}
    rows: list[tuple[dict[str, Any], int, dict[str, Any], str]] = [
        (queue, 3000, {}, "now 24 held: 1 % of the new bound"),
        (queue, 5, {}, "now 24 held: at the bound at once: new offers are refused"),
        (queue, 5, {"on_full": "spill"}, "now 24 held: at the bound at once: new offers are spilled"),
        (
            saturated,
            3000,
            {},
            "now 0 held: closed by mode saturated; otherwise 0 % of the new bound",
        ),
        (
            {**saturated, "mode": "draining"},
            3000,
            {},
            "now 0 held: closed by mode draining; otherwise 0 % of the new bound",
        ),
        (
            {**saturated, "depth": 30},
            3000,
            {"saturated_share": 0.1},
            "now 30 held: 10 % of the 300 in force of the new bound",
        ),
    ]
    said = page_with_modules.evaluate(
        "(rows) => import('/static/pages/policy-fields.js')"
        ".then(({ effectWords }) => rows.map(([q, next, edits]) =>"
        " effectWords({ name: 'max_count' }, next, q, edits)))",
        [[q, next_, edits] for q, next_, edits, _ in rows],
    )
    assert [text.replace("\u00a0", " ") for text in said] == [words for _, _, _, words in rows]


def test_a_replay_is_judged_by_earlier_ones_of_its_cause_and_is_unknown_without(
    page_with_modules: Page,
) -> None:
    none = dict.fromkeys(("of", "succeeded", "failed", "open", "other", "unknown"), 0)
    rows: list[tuple[dict[str, Any], int, str, str]] = [
        (
            {"cause": none, "task": none},
            1,
            "unknown",
            "no replay of this cause, nor of pay, is known to have ended",
        ),
        (
            {"cause": None, "task": {**none, "of": 1, "open": 1}},
            1,
            "unknown",
            "1 earlier replay has not ended yet",
        ),
        (
            {"cause": {**none, "succeeded": 2}, "task": none},
            200,
            "unknown",
            "2 earlier replays of this cause succeeded: too few to say",
        ),
        (
            {"cause": {**none, "failed": 1}, "task": none},
            200,
            "1 of 1 did",
            "of the earlier replays of this cause; too few to model from",
        ),
        (
            {"cause": {**none, "succeeded": 6, "failed": 4, "open": 2}, "task": none},
            200,
            "80 of 200",
            "4 of the 10 earlier replays of this cause failed again; 2 more have not ended",
        ),
        (
            {"cause": {**none, "unknown": 3}, "task": {**none, "succeeded": 49, "failed": 1}},
            3,
            "1 of 3",
            "1 of the 50 earlier replays of pay failed again",
        ),
        (
            {"cause": {**none, "failed": 5}, "task": none},
            1,
            "100 %",
            "5 of the 5 earlier replays of this cause failed again",
        ),
    ]
    said = page_with_modules.evaluate(
        "(rows) => import('/static/pages/replayed.js')"
        ".then(({ failAgain }) => rows.map(([known, n]) => failAgain(known, n, 'pay')))",
        [[known, n] for known, n, _, _ in rows],
    )
    assert [(row["said"].replace("\u00a0", " "), row["why"].replace("\u00a0", " ")) for row in said] == [
        (words, why) for _, _, words, why in rows
    ]
    ended = {"of": 9, "succeeded": 3, "failed": 1, "open": 2, "other": 1, "unknown": 2}
    words = "3 succeeded, 1 failed again, 2 have not ended, 1 ended otherwise, 2 unknown, no longer kept"
    assert (
        page_with_modules.evaluate(
            "(ended) => import('/static/pages/replayed.js').then((own) => own.outcomeWords(ended))", ended
        )
        == words
    )
