"""Does a burst wait in line: in order, nobody overtaken, nobody held up by who left, no tenant by another?"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from celery import Celery
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.exceptions import AdmissionRefused
from workers.store import Settlement, Store, Verdict

from . import audit
from .test_admission import an_offer
from .test_races import all_at_once
from .test_refusals import app  # noqa: F401


def open_room(store: Store, places: int = 5, most: int = 1000, **policy: Any) -> None:
    fields = {"max_count": places, "waiting_room_max": most, "waiting_room_slot_s": 30, **policy}
    store.publish_policy("normal", fields, version=2)
    store.publish_model("normal", {"service_rate_per_s": 10.0})


def ask(store: Store, tenant: str = "a", ticket: str | None = None, **facts: Any) -> Verdict:
    return store.admit([an_offer(tenant=tenant, ticket=ticket, **facts)])[0]


def work(store: Store, number: int) -> int:
    jobs = store.claim("w", ["normal"], number)
    store.settle([Settlement(job.id, job.epoch, "succeeded") for job in jobs])
    return len(jobs)


def leave(store: Store, *tickets: str) -> None:
    """Their holders' time is over."""
    if tickets:
        store.client.zadd(store.root + "tickets:due:normal", dict.fromkeys(tickets, 1), xx=True)


def test_who_finds_it_full_draws_a_ticket_and_is_told_where_it_stands(store: Store) -> None:
    open_room(store)
    assert [ask(store).accepted for _ in range(5)] == [True] * 5
    told = [ask(store) for _ in range(3)]
    assert {verdict.reason for verdict in told} == {"waiting_room"}
    tickets = [verdict.ticket for verdict in told]
    assert all(tickets)
    assert [ticket.position for ticket in tickets if ticket] == [1, 2, 3]
    assert [ticket.modeled_s for ticket in tickets if ticket] == [0.1, 0.2, 0.3]
    assert all(verdict.retry_after_s == 1 for verdict in told)
    assert len({ticket.id for ticket in tickets if ticket}) == 3
    first = tickets[0]
    assert first is not None
    again = ask(store, ticket=first.id).ticket
    assert again is not None
    assert (again.id, again.position) == (first.id, 1)
    told_by_id = store.read_ticket(first.id)
    assert told_by_id is not None
    assert (told_by_id.queue, told_by_id.position, told_by_id.out) == ("normal", 1, 3)


@pytest.mark.parametrize("tenants", [1, 300], ids=["one tenant", "each its own"])
def test_hundreds_are_let_in_in_the_order_of_their_tickets(store: Store, tenants: int) -> None:
    """Who comes back does so in any order; one in seven never does."""
    open_room(store, places=20)
    draw = random.Random(5)
    waiting: list[tuple[int, str, str]] = []  # number, tenant, ticket
    admitted: list[int] = []
    for number in range(300):
        verdict = ask(store, f"t{number % tenants}")
        if verdict.accepted:
            admitted.append(number)
        else:
            assert verdict.ticket is not None
            waiting.append((number, f"t{number % tenants}", verdict.ticket.id))
    assert admitted == list(range(20))
    gone = {ticket for number, _, ticket in waiting if number % 7 == 3}
    present = [row for row in waiting if row[2] not in gone]
    left = len(gone)
    rounds = 0
    while present:
        rounds += 1
        assert rounds < 100, "the line stands still"
        work(store, draw.randint(10, 20))
        leave(store, *gone)
        # Those whose time it is come back, in any order, and some who are far too early.
        coming = present[:40] + draw.sample(present[40:], min(5, len(present[40:])))
        draw.shuffle(coming)
        let_in: list[int] = []
        for row in coming:
            if ask(store, row[1], row[2]).accepted:
                let_in.append(row[0])
                present.remove(row)
        # Nobody who is still there was overtaken by one with a later ticket.
        assert not let_in or not present or max(let_in) < min(row[0] for row in present)
        admitted += let_in
        assert store.size("normal") <= 20
        # A newcomer does not slip in past those who wait.
        if present:
            newcomer = ask(store, "newcomer")
            assert not newcomer.accepted
            gone.update([newcomer.ticket.id] if newcomer.ticket else [])
    assert len(admitted) == 300 - left
    told = store.snapshot()["queues"]["normal"]["tickets"]
    assert told["given"] == told["admitted"] + told["expired"] + told["line"] + told["called"]
    assert told["admitted"] == 280 - left


def test_coming_back_in_order_is_being_let_in_in_order(store: Store) -> None:
    open_room(store, places=3)
    line = [ask(store, f"t{n}").ticket for n in range(30)]
    order: list[int] = []
    while len(order) < 27:
        work(store, 2)
        for number, ticket in enumerate(line):
            if ticket and number not in order and ask(store, f"t{number}", ticket.id).accepted:
                order.append(number)
    assert order == list(range(3, 30))


def test_a_place_is_kept_for_who_was_called_and_given_on_when_it_does_not_come(store: Store) -> None:
    open_room(store, places=1)
    ask(store)
    first, second = ask(store, "b").ticket, ask(store, "c").ticket
    assert first and second
    work(store, 1)
    assert not ask(store, "c", second.id).accepted  # it is the first one's place
    told = store.read_ticket(first.id)
    assert told is not None
    assert told.position == 0
    assert not ask(store, "d").accepted
    leave(store, first.id)
    assert ask(store, "c", second.id).accepted
    late = ask(store, "b", first.id)
    assert late.ticket is not None
    assert late.ticket.id != first.id  # it has to draw anew
    assert store.read_ticket(first.id) is None


def test_a_ticket_is_of_use_to_its_tenant_alone_and_once(store: Store) -> None:
    open_room(store, places=1)
    ask(store)
    mine = ask(store, "b").ticket
    assert mine
    work(store, 1)
    thief = ask(store, "c", mine.id)
    assert thief.reason == "waiting_room"
    assert thief.ticket and thief.ticket.id != mine.id
    forged = mine.id[:-1] + ("0" if mine.id[-1] != "0" else "1")
    assert not ask(store, "b", forged).accepted
    assert store.read_ticket(mine.id, tenant="c") is None
    assert ask(store, "b", mine.id).accepted
    work(store, 1)
    assert not ask(store, "b", mine.id).accepted


def test_a_tenant_that_floods_waits_behind_itself_and_not_before_the_others(store: Store) -> None:
    open_room(store, places=4, most=100)
    for _ in range(4):
        ask(store, "flood")
    flood = [ticket.id for _ in range(100) if (ticket := ask(store, "flood").ticket)]
    late = ask(store, "late").ticket
    assert late
    assert late.position <= 2
    assert len(flood) == 80
    work(store, 2)
    assert ask(store, "late", late.id).accepted
    assert all(ask(store, "late").ticket for _ in range(3))


def test_how_many_tickets_are_out_is_bounded_in_all_and_for_a_tenant(store: Store) -> None:
    open_room(store, places=1, most=10)
    ask(store, "a")
    ask(store, "b")
    told = [ask(store, "a") for _ in range(12)]
    assert sum(verdict.ticket is not None for verdict in told) == 8  # its part, with two tenants about
    full = told[-1]
    assert (full.reason, full.ticket) == ("waiting_room", None)
    assert full.retry_after_s and full.retry_after_s >= 1
    assert ask(store, "c").ticket is not None
    assert ask(store, "d").ticket is None


def test_a_tenant_at_its_share_holds_nobody_up(store: Store) -> None:
    open_room(store, places=10, tenant_share=0.5)
    ask(store, "b")
    assert [ask(store, "a").accepted for _ in range(6)] == [True] * 5 + [False]
    mine = ask(store, "a").ticket
    assert mine
    assert ask(store, "b").accepted  # there is room, and who waits may not have it
    assert store.read_ticket(mine.id).position > 0  # type: ignore[union-attr]


def test_a_canvas_gets_no_ticket_and_passes_nobody(store: Store) -> None:
    open_room(store, places=4)
    [ask(store) for _ in range(4)]
    ticket = ask(store, "b").ticket
    assert ticket
    work(store, 4)
    refused = store.admit([an_offer() for _ in range(4)], whole=True)
    assert {(verdict.reason, verdict.ticket) for verdict in refused} == {("waiting_room", None)}
    assert ask(store, "b", ticket.id).accepted
    assert all(verdict.accepted for verdict in store.admit([an_offer() for _ in range(3)], whole=True))


def test_a_closed_mode_calls_nobody_and_keeps_the_line(store: Store) -> None:
    open_room(store, places=1)
    ask(store)
    ticket = ask(store, "b").ticket
    assert ticket
    work(store, 1)
    store.set_mode("normal", "draining", by="o", reason="r")
    assert ask(store, "b", ticket.id).reason == "mode"
    store.clear_mode("normal")
    assert ask(store, "b", ticket.id).accepted


def test_without_a_waiting_room_a_queue_pays_nothing_for_it(store: Store) -> None:
    store.publish_policy("normal", {"max_count": 1}, version=2)
    assert [ask(store).reason for _ in range(2)] == [None, "count"]
    assert not list(store.client.scan_iter("*tickets*"))


def test_racing_newcomers_get_a_ticket_each_and_the_bound_holds(store: Store, redis_url: str) -> None:
    open_room(store, places=20)

    def come(own: Store, index: int) -> list[str | None]:
        told = [ask(own, f"t{index}") for _ in range(10)]
        return [verdict.ticket.id if verdict.ticket else None for verdict in told]

    tickets = [ticket for told in all_at_once(redis_url, 16, come) for ticket in told]
    assert Counter(ticket is None for ticket in tickets) == {True: 20, False: 140}
    assert len(set(tickets)) == 141
    assert store.size("normal") == 20


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["come", "come", "back", "back", "work", "leave", "look"]),
            st.integers(0, 3),
            st.integers(0, 30),
        ),
        max_size=40,
    )
)
def test_whatever_happens_the_tickets_add_up_and_none_is_overtaken(store: Store, steps: Any) -> None:
    store.client.flushall()
    open_room(store, places=3, most=12)
    out: list[tuple[str, str]] = []  # tenant and ticket, in order
    for what, tenant, number in steps:
        name = f"t{tenant}"
        if what == "come":
            verdict = ask(store, name)
            if verdict.ticket:
                out.append((name, verdict.ticket.id))
        elif what == "work":
            work(store, 1 + number % 3)
        elif out:
            row = out[number % len(out)]
            if what == "leave":
                leave(store, row[1])
                out.remove(row)
            elif what == "look":
                assert store.read_ticket(row[1]) is not None
            elif ask(store, *row).accepted:
                earlier = [ticket for other, ticket in out[: out.index(row)] if other == row[0]]
                assert not [t for t in earlier if store.client.zscore(store.root + "tickets:line:normal", t)]
                out.remove(row)
        assert store.size("normal") <= 3
    audit.check(store)


def test_delay_follows_with_its_ticket(app: Celery, store: Store) -> None:  # noqa: F811
    open_room(store, places=1)
    t = app.tasks["t"]
    t.delay()
    with pytest.raises(AdmissionRefused) as caught:
        t.delay()
    refused = caught.value
    assert (refused.reason, refused.position) == ("waiting_room", 1)
    work(store, 1)
    with pytest.raises(AdmissionRefused):
        t.delay()
    assert t.apply_async(headers={"sluicegate": {"ticket": refused.ticket}}).id
