"""Can a tenant's URL reach into the operator's network?"""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tasks.targets import TargetRefused, check_target, is_public, resolve

PUBLIC = ["93.184.215.14"]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICEGATE_SINK_URL", raising=False)
    monkeypatch.delenv("SLUICEGATE_WEBHOOK_HOSTS", raising=False)


def test_a_public_host_is_called_at_the_address_that_was_checked() -> None:
    target = check_target("https://hooks.example:8443/a?b=c", resolver=lambda host, port: PUBLIC)
    assert target.connect_url == "https://93.184.215.14:8443/a?b=c"
    assert target.host_header == "hooks.example:8443"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1",
        "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "::7f00:1", "",
    ],
)  # fmt: skip
def test_a_host_with_an_inner_address_is_refused(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(TargetRefused):
        check_target("http://hooks.example/", resolver=lambda host, port: [*PUBLIC, address])


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_the_same_however_it_is_wrapped(address: ipaddress.IPv4Address) -> None:
    wrapped = [
        f"::ffff:{address}",
        str(ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(address))),
    ]
    for text in wrapped:
        assert is_public(text) == is_public(str(address))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example/", "file:///etc/passwd", "//hooks.example/", "hooks.example", "http://",
        "http://a@hooks.example/", "http://a:b@hooks.example/", "http://hooks.example:0/",
        "http://hooks.example:99999/", "http://hooks.example\\@10.0.0.1/",
        "http://hooks.example/\r\nHost: x", "http://hooks.example /", "http://[::1",
        "gopher://hooks.example/", "",
    ],
)  # fmt: skip
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        check_target(url, resolver=lambda host, port: PUBLIC)


@given(st.text(max_size=60))
def test_no_text_gets_past_with_a_private_address(text: str) -> None:
    with pytest.raises(TargetRefused):
        check_target(text, resolver=lambda host, port: ["10.0.0.1"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "[::1]"]
)
def test_ways_to_write_loopback_are_refused_by_the_real_resolver(host: str) -> None:
    with pytest.raises(TargetRefused):
        check_target(f"http://{host}/", resolver=resolve)


def test_an_allow_list_leaves_only_its_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_WEBHOOK_HOSTS", "*.partner.example, hooks.example")
    assert check_target("https://a.partner.example/", resolver=lambda host, port: PUBLIC)
    with pytest.raises(TargetRefused, match="allowed"):
        check_target("https://partner.example.evil.example/", resolver=lambda host, port: PUBLIC)


def test_an_allowed_host_must_still_be_public() -> None:
    with pytest.raises(TargetRefused, match="public"):
        check_target(
            "http://hooks.example/", allowed=["hooks.example"], resolver=lambda host, port: ["10.0.0.1"]
        )


def test_the_demonstrations_sink_is_the_one_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_SINK_URL", "http://127.0.0.1:8099")
    assert check_target("http://127.0.0.1:8099/hooks/a").connect_url == "http://127.0.0.1:8099/hooks/a"
    for url in (
        "http://127.0.0.1:8098/",
        "https://127.0.0.1:8099/",
        "http://localhost:8099/",
        "http://127.0.0.2:8099/",
    ):
        with pytest.raises(TargetRefused):
            check_target(url)


def test_a_sink_elsewhere_is_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_SINK_URL", "http://10.0.0.1:8099")
    with pytest.raises(TargetRefused):
        check_target("http://10.0.0.1:8099/", resolver=lambda host, port: ["10.0.0.1"])
