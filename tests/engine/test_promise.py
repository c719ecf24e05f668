"""Does ``max_wait_s`` alone bound a queue, from its first burst on, and is the wait kept?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workers.loops.modeler import model_all
from workers.metrics.history import History
from workers.simulate import Arrival, SteppedStore, World
from workers.store import Offer

from . import audit
from .conftest import publish


@pytest.fixture
def gate(redis_url: str) -> Iterator[SteppedStore]:
    """A gate whose clock the test moves; what it holds at the end must add up."""
    store = SteppedStore.from_url(redis_url, "simulated")
    publish(store, {"normal": {"max_wait_s": 2}, "bulk": {}})
    yield store
    faults = audit.find_faults(store)
    store.client.close()
    assert not faults, "\n".join(faults[:20])


def offer(name: str, **facts: object) -> Offer:
    return Offer(name, "t", "normal", b"{}", **facts)  # type: ignore[arg-type]


def test_a_first_burst_is_let_in_up_to_the_prior(gate: SteppedStore) -> None:
    verdicts = gate.admit([offer(f"x{n}") for n in range(100)])
    assert sum(v.accepted for v in verdicts) == 80  # 2 s of four slots of 100 ms
    refused = verdicts[-1]
    assert (refused.reason, refused.figures["bound"]) == ("count", 80)


def test_an_empty_queue_takes_one_job_whatever_it_costs(gate: SteppedStore) -> None:
    first, second = gate.admit([offer("big", cost_ms=3_600_000), offer("next", cost_ms=1)])
    assert (first.accepted, second.accepted, second.reason) == (True, False, "cost")


def test_the_published_rates_take_the_place_of_the_prior(gate: SteppedStore) -> None:
    gate.publish_model("normal", {"work_rate": 500.0, "job_rate": 5.0, "least_wait_s": 0.1})
    assert sum(v.accepted for v in gate.admit([offer(f"x{n}") for n in range(20)])) == 10


def test_a_lower_downstream_limit_refuses_by_its_own_name(gate: SteppedStore) -> None:
    publish(gate, {"normal": {"max_count": 40, "downstream": "bank"}})
    gate.publish_model("normal", {"downstream_share": 0.25, "service_rate_per_s": 2.0})
    verdicts = gate.admit([offer(f"x{n}") for n in range(12)])
    assert [v.accepted for v in verdicts] == [True] * 10 + [False] * 2
    assert (verdicts[-1].reason, verdicts[-1].figures["bound"]) == ("downstream", 10)
    assert verdicts[-1].retry_after_s is not None
    assert verdicts[-1].retry_after_s >= 0.5  # by the rate that the downstream allows


def test_under_three_times_the_load_the_promised_wait_is_kept_and_no_slot_idles(gate: SteppedStore) -> None:
    history = History()

    def tick(store: SteppedStore) -> None:
        history.add(store.snapshot())
        assert history.latest is not None
        for queue, figures in model_all(history, history.latest).items():
            store.publish_model(queue, figures)

    world = World(gate, slots=2, queues=("normal", "bulk"), on_tick=tick)
    arrivals = [Arrival(n * 33, offer(f"x{n}"), 200) for n in range(1_200)]  # 30 a second for 10 a second
    world.run(arrivals, until_ms=40_000)
    late = [job for job in world.ended if job.arrived_ms > 20_000]
    waits = sorted(job.started_ms - job.arrived_ms for job in late)
    print(f"waits: median {waits[len(waits) // 2]} ms, most {waits[-1]} ms; {len(late)} done in 20 s")
    assert waits[-1] <= 2_400
    assert waits[len(waits) // 2] >= 1_200  # and the room of the promise is used
    assert len(late) >= 0.9 * 17 * 10
