"""What is a job called that its worker gives back, by how far its pool has come with it?"""

from __future__ import annotations

import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

from billiard.pool import ApplyResult

from workers.transport.holdings import Held


def held(run: object | None = None, *, started_at_ms: int | None = None) -> Held:
    return Held(
        "id",
        1,
        "normal",
        "t",
        1,
        3,
        0,
        "tag",
        taken=True,
        run=None if run is None else weakref.ref(run),
        started_at_ms=started_at_ms,
    )


def test_what_no_pool_has_is_released_and_what_runs_is_not() -> None:
    assert held().word_to_give_back() == "released"
    assert held(started_at_ms=1).word_to_give_back() == "requeued"


def test_a_thread_that_has_not_begun_never_will_and_one_that_has_goes_on() -> None:
    go, ran = Event(), []
    with ThreadPoolExecutor(1) as pool:
        first: Future[bool] = pool.submit(go.wait, 30)
        second = pool.submit(ran.append, 1)
        while not first.running():
            pass
        assert held(first).word_to_give_back() == "requeued"  # though nobody has told of its start yet
        assert held(second).word_to_give_back() == "released"
        go.set()
    assert not ran


def test_what_lies_before_a_child_may_have_begun() -> None:
    run = ApplyResult({}, None)
    assert held(run).word_to_give_back() == "released"
    run._write_to = object()
    assert held(run).word_to_give_back() == "lost"
