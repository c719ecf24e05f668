"""Are equal causes one, and different ones two?"""

from __future__ import annotations

from workers.quarantine.fingerprint import fingerprint, last_own_frame, strip_numbers

TRACE = """Traceback (most recent call last):
  File "/srv/app/billing/charge.py", line {line}, in charge
    pay(order)
  File "/venv/lib/python3.11/site-packages/stripe/api.py", line 80, in pay
    raise CardError(message)
"""


def print_of(**changes: str) -> str:
    base = {
        "reason": "failed",
        "error_type": "CardError",
        "message": "card 4242 of 'ann' was declined after 3 tries",
        "traceback": TRACE.format(line=12),
        "task": "billing.charge",
    }
    return fingerprint(**{**base, **changes})


def test_numbers_names_in_quotes_and_line_numbers_do_not_matter() -> None:
    other = print_of(message="card 17 of 'bob' was declined after 5 tries", traceback=TRACE.format(line=99))
    assert other == print_of()


def test_another_error_task_or_place_is_another_cause() -> None:
    different = {
        print_of(),
        print_of(error_type="Timeout"),
        print_of(task="billing.refund"),
        print_of(traceback=TRACE.replace("charge.py", "refund.py")),
        print_of(message="no such card"),
        print_of(reason="time_limit"),
    }
    assert len(different) == 6


def test_the_frame_is_the_projects_own() -> None:
    assert last_own_frame(TRACE.format(line=1)) == "charge.py:charge"
    assert last_own_frame("no traceback") == ""


def test_ids_and_addresses_are_taken_out() -> None:
    assert strip_numbers("order 8f14e45f-ceea-467f-9575-1f2b1c5d9a10 at 0x7f12ab, 12:30") == "order # at #, #"
