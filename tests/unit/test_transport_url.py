"""Does a broker's address, as banners and logs show it, hide the password and invent none?"""

from __future__ import annotations

import pytest
from kombu import Connection

from workers.transport import transport

transport.register()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sluicegate://localhost:6379/0", "sluicegate://localhost:6379/0"),
        ("sluicegate://:s3cret@localhost:6379/0", "sluicegate://:**@localhost:6379/0"),
        ("sluicegate://me:s3cret@localhost:6379/2", "sluicegate://me:**@localhost:6379/2"),
        ("sluicegates://host:6380/0", "sluicegates://host:6380/0"),
        ("sluicegate+socket:///run/redis.sock?virtual_host=0", "sluicegate+socket:///run/redis.sock"),
        (
            "sluicegate+socket://:s3cret@/run/redis.sock?virtual_host=0",
            "sluicegate+socket://:**@/run/redis.sock",
        ),
        ("sluicegate+sentinel://:s3cret@a:1,b:2/m?db=0", "sluicegate://:**@a:1/0"),
        ("sluicegate+sentinel://a:1,b:2/m?db=0", "sluicegate://a:1/0"),
    ],
)
def test_a_password_is_masked_where_there_is_one(url: str, told: str) -> None:
    connection = Connection(url)
    assert connection.as_uri() == told
    assert told in repr(connection)
    assert ("s3cret" in connection.as_uri(include_password=True)) == ("s3cret" in url)
    assert connection.clone().as_uri() == told
