"""Do thousands of tenants in one queue each have their turn, and does what is told of them stay bounded?"""

from __future__ import annotations

from workers.store import Store

from .test_admission import an_offer

TENANTS = 2_000
JOBS_EACH = 2
SHOWN = 50
A_CALL = 150


def test_each_of_two_thousand_tenants_starts_once_before_any_starts_twice(store: Store) -> None:
    """And it all adds up, which the store of the tests looks at in its end."""
    store.publish_policy("normal", {}, version=2)
    offers = [
        # What a start costs gives nobody a second one before another's first.
        an_offer(tenant=f"tenant-{number}", cost_ms=50 + number % 7 * 100)
        for number in range(TENANTS)
        for _ in range(JOBS_EACH)
    ]
    for first in range(0, len(offers), A_CALL):
        assert all(verdict.accepted for verdict in store.admit(offers[first : first + A_CALL]))
    seen = store.snapshot()
    queue = seen["queues"]["normal"]
    assert (queue["depth"], queue["tenants_known"]) == (TENANTS * JOBS_EACH, TENANTS)
    assert [row["depth"] for row in seen["tenants"]] == [JOBS_EACH] * SHOWN

    # Half of the rows are of those whose work has waited longest, though they offered first.
    shown = {row["tenant"] for row in seen["tenants"]}
    assert len(shown) == SHOWN
    assert shown >= {f"tenant-{number}" for number in range(10)}
    assert any(tenant in shown for tenant in (f"tenant-{number}" for number in range(TENANTS - 100, TENANTS)))

    tenant_of = {offer.id: offer.tenant for offer in offers}
    started = [job.id for _ in range(TENANTS // 50) for job in store.claim("w", ["normal"], 50)]
    assert len(started) == TENANTS
    assert {tenant_of[op_id] for op_id in started} == set(tenant_of.values())
    assert store.snapshot()["queues"]["normal"]["in_flight"] == TENANTS
