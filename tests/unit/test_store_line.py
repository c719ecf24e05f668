"""What does a script's caller see when its connection is closed under it?"""

from __future__ import annotations

import pytest
import redis

from workers.store.scripts import _ask


class Torn:
    """A connection that another thread closes while its reply is read, as redis-py then behaves."""

    def __init__(self, fault: Exception) -> None:
        self.fault, self.closed = fault, False

    def send_command(self, *words: object) -> None:
        pass

    def read_response(self) -> object:
        raise self.fault

    def disconnect(self) -> None:
        self.closed = True


@pytest.mark.parametrize("fault", [ValueError("I/O operation on closed file."), AttributeError("recv")])
def test_a_connection_that_is_closed_in_the_middle_of_a_reply_is_a_lost_one(fault: Exception) -> None:
    torn = Torn(fault)
    with pytest.raises(redis.ConnectionError, match="in the middle of a reply"):
        _ask(torn, ("PING",), None)
    assert torn.closed


def test_what_cannot_be_written_is_not_taken_for_a_lost_connection() -> None:
    with pytest.raises(UnicodeEncodeError):
        _ask(Torn(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")), ("PING",), None)
