"""Do slots go where the dispatch policy sends them?"""

from __future__ import annotations

import math

import pytest
from hypothesis import given as given_that
from hypothesis import strategies as st

from workers.forecast.allocation import Claimant, Crew, Through, allocate


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


def test_the_last_slot_is_kept_for_nobody() -> None:
    for total, left in ((1, 1), (2, 1), (4, 1), (5, 2)):
        idle = busy("urgent", strict_rank=1, reserved=3, wants=0.0)
        assert allocate([idle, busy("bulk")], total=total)["bulk"] == left


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


def served_by(*crews: Crew) -> dict[str, object]:
    return {"crews": crews, "open_slots": sum(crew.slots for crew in crews)}


def test_queues_share_only_the_workers_that_serve_them() -> None:
    two, eight = Crew(frozenset(("first", "behind")), 2.0), Crew(frozenset(("other",)), 8.0)
    given = allocate(
        [
            busy("first", strict_rank=0, **served_by(two)),
            busy("behind", **served_by(two)),
            busy("other", **served_by(eight)),
        ],
        total=10,
    )
    assert given == {"first": 2, "behind": 0, "other": 8}


def test_weights_hold_among_the_queues_of_one_crew_whatever_others_have() -> None:
    small, large = Crew(frozenset(("normal", "bulk")), 4.0), Crew(frozenset(("other",)), 96.0)
    given = allocate(
        [
            busy("normal", weight=3, **served_by(small)),
            busy("bulk", weight=1, **served_by(small)),
            busy("other", weight=1, **served_by(large)),
        ],
        total=100,
    )
    assert given == {"normal": pytest.approx(3), "bulk": pytest.approx(1), "other": pytest.approx(96)}


def test_who_is_served_by_two_crews_leaves_the_shared_one_to_who_has_no_other() -> None:
    shared, own = Crew(frozenset(("a", "b")), 2.0), Crew(frozenset(("a",)), 2.0)
    given = allocate([busy("a", **served_by(shared, own)), busy("b", **served_by(shared))], total=4)
    assert given == {"a": pytest.approx(2), "b": pytest.approx(2)}


def test_a_slot_is_kept_only_by_who_could_use_it() -> None:
    here, there = Crew(frozenset(("bulk",)), 4.0), Crew(frozenset(("urgent",)), 4.0)
    idle = busy("urgent", strict_rank=1, reserved=2, wants=0.0, **served_by(there))
    assert allocate([busy("bulk", **served_by(here)), idle], total=8)["bulk"] == 4


@given_that(
    st.dictionaries(
        st.frozensets(st.sampled_from("abcd"), min_size=1), st.integers(1, 9), min_size=1, max_size=4
    ),
    st.lists(st.tuples(st.sampled_from((None, 0, 1)), st.integers(1, 5)), min_size=4, max_size=4),
)
def test_no_two_queues_get_more_than_their_workers_have_and_no_slot_idles(
    slots_of: dict[frozenset[str], int], ranks: list[tuple[int | None, int]]
) -> None:
    crews = [Crew(queues, float(slots)) for queues, slots in slots_of.items()]
    claimants = [
        busy(name, strict_rank=rank, weight=weight, **served_by(*(c for c in crews if name in c.queues)))
        for name, (rank, weight) in zip("abcd", ranks, strict=True)
    ]
    total = sum(crew.slots for crew in crews)
    found = allocate(claimants, total=total)
    for one in claimants:
        for other in claimants:
            both = found[one.name] + (found[other.name] if other is not one else 0.0)
            assert both <= sum(crew.slots for crew in {*one.crews, *other.crews}) + 1e-6
    assert sum(found.values()) == pytest.approx(total)
