"""Do slots go where the dispatch policy sends them?"""

from __future__ import annotations

import math

import pytest

from workers.forecast.allocation import Claimant, Through, allocate


def busy(name: str, **changes: object) -> Claimant:
    return Claimant(**{"name": name, "wants": math.inf, "open_slots": 10.0, **changes})  # type: ignore[arg-type]


def test_rank_zero_takes_all_it_can_use() -> None:
    given = allocate([busy("critical", strict_rank=0), busy("urgent", strict_rank=1), busy("bulk")], total=10)
    assert given == {"critical": 10, "urgent": 0, "bulk": 0}


def test_the_rest_is_shared_by_weight() -> None:
    given = allocate([busy("normal", weight=3), busy("bulk", weight=1)], total=8)
    assert given == {"normal": pytest.approx(6), "bulk": pytest.approx(2)}


def test_what_a_queue_does_not_want_goes_to_the_others() -> None:
    given = allocate([busy("normal", weight=3, wants=1.0), busy("bulk", weight=1)], total=8)
    assert given == {"normal": pytest.approx(1), "bulk": pytest.approx(7)}


def test_reserved_slots_are_kept_free_for_their_queue() -> None:
    given = allocate([busy("urgent", strict_rank=1), busy("bulk", reserved=2)], total=10)
    assert given["urgent"] == 8
    assert given["bulk"] == 2


def test_queues_behind_one_downstream_share_what_it_takes_at_a_time() -> None:
    behind = {"through": (Through("bank", 3.0),)}
    given = allocate(
        [busy("normal", weight=3, **behind), busy("bulk", weight=1, **behind), busy("free")], total=10
    )
    assert given["normal"] + given["bulk"] == pytest.approx(3)
    assert given["free"] == pytest.approx(7)


def test_half_the_work_behind_a_downstream_lets_a_queue_have_twice_its_calls() -> None:
    halves = busy("normal", through=(Through("bank", 3.0, 0.5),))
    assert allocate([halves], total=10)["normal"] == pytest.approx(6)


def test_a_task_s_downstream_shares_its_calls_with_the_queues_behind_it() -> None:
    mixed = busy("normal", strict_rank=1, through=(Through("bank", 4.0, 0.5),), wants=4.0)
    given = allocate([mixed, busy("bulk", through=(Through("bank", 4.0),))], total=10)
    assert given == {"normal": pytest.approx(4), "bulk": pytest.approx(2)}


def test_a_cap_on_in_flight_holds() -> None:
    assert allocate([busy("bulk", cap=3)], total=10)["bulk"] == 3


def test_late_jobs_get_a_tenth_but_never_ahead_of_rank_zero() -> None:
    late = busy("bulk", past_ceiling=True)
    assert allocate([busy("urgent", strict_rank=1), late], total=10) == {"urgent": 9, "bulk": 1}
    assert allocate([busy("critical", strict_rank=0), late], total=10) == {"critical": 10, "bulk": 0}


def test_no_slots_give_nothing() -> None:
    assert allocate([busy("a"), busy("b")], total=0) == {"a": 0, "b": 0}
