"""Does a producer attempt only what it has credits for, and ask in time?"""

from __future__ import annotations

import threading

import pytest

from workers.limits.credits import Credits
from workers.limits.producer import Producer
from workers.store.offers import Grant


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def credits(clock: Clock) -> Credits:
    return Credits("p", 1, now_s=clock)


def test_the_first_attempt_asks_and_so_does_one_at_half_of_the_grant(credits: Credits) -> None:
    ask = credits.begin("q")
    assert ask is not None
    assert (ask.producer, ask.epoch, ask.used) == ("p", 1, 0)
    credits.learn("q", Grant(10, 5.0))
    asks = [credits.begin("q") for _ in range(5)]
    assert [ask is not None for ask in asks] == [False] * 4 + [True]
    assert asks[-1] is not None
    assert asks[-1].used == 5


def test_a_question_on_its_way_is_not_asked_again_unless_it_is_lost(credits: Credits, clock: Clock) -> None:
    assert credits.begin("q")
    assert credits.begin("q") is None
    clock.now += 6
    assert credits.begin("q")


def test_a_grant_is_renewed_before_its_time_is_over(credits: Credits, clock: Clock) -> None:
    credits.begin("q")
    credits.learn("q", Grant(100, 5.0))
    clock.now += 2
    assert credits.begin("q") is None
    clock.now += 1
    assert credits.begin("q")


def test_who_has_none_left_refuses_until_the_answer_comes(credits: Credits, clock: Clock) -> None:
    credits.begin("q")
    credits.learn("q", Grant(2, 5.0, reason="count"))
    assert not credits.tight
    assert credits.begin("q")  # the first of two: half is used
    assert credits.begin("q") is None
    assert credits.tight == {"q"}
    assert credits.why_not("q") == ("count", 0.05)
    credits.learn("q", Grant(4, 5.0, reason="count"))
    assert not credits.tight
    assert credits.why_not("q") is None
    # What was used between the question and its answer is part of the new grant, and told with the next one.
    ask = [credits.begin("q") for _ in range(3)]
    assert ask[0] is not None
    assert ask[0].used == 2


def test_told_that_it_is_closed_it_refuses_for_that_time(credits: Credits, clock: Clock) -> None:
    credits.begin("q")
    credits.learn("q", Grant(0, 5.0, closed_s=0.4, reason="mode"))
    assert credits.tight == {"q"}
    assert credits.why_not("q") == ("mode", pytest.approx(0.4))
    assert credits.why_not("other") is None
    clock.now += 0.5
    assert credits.why_not("q") is None
    assert not credits.tight
    assert credits.begin("q")


def test_an_attempt_that_failed_leaves_it_free_to_try_and_loses_no_count(credits: Credits) -> None:
    credits.begin("q")
    credits.learn("q", Grant(2, 5.0))
    ask = credits.begin("q")
    assert ask is not None
    credits.learn("q", None)
    assert credits.why_not("q") is None
    again = credits.begin("q")
    assert again is not None
    assert again.used == ask.used == 1


def test_a_grant_whose_time_is_over_binds_nobody(credits: Credits, clock: Clock) -> None:
    credits.begin("q")
    credits.learn("q", Grant(1, 5.0))
    assert credits.begin("q")
    assert credits.why_not("q")
    clock.now += 5.1
    assert credits.why_not("q") is None


def test_a_batch_uses_as_many_as_it_has_jobs_and_never_more_than_there_are(credits: Credits) -> None:
    credits.begin("q", 3)
    credits.learn("q", Grant(10, 5.0))
    assert credits.begin("q", 4) is None
    ask = credits.begin("q", 20)
    assert ask is not None
    assert ask.used == 10


def test_threads_never_use_more_than_was_granted(credits: Credits) -> None:
    credits.begin("q")
    credits.learn("q", Grant(50, 5.0))
    used: list[int] = []

    def work() -> None:
        for _ in range(20):
            ask = credits.begin("q")
            if ask is not None:
                used.append(ask.used)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(used) + credits.give_back()["q"] == 50


def test_an_answer_that_comes_after_all_was_given_back_is_let_go(credits: Credits) -> None:
    credits.begin("q")
    credits.give_back()
    credits.learn("q", Grant(10, 5.0))
    assert credits.why_not("q") is None


def test_two_producers_of_one_process_are_told_apart() -> None:
    assert Producer().name != Producer().name
