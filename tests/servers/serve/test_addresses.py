"""From which address a request is said to have come."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.servers.serve.serving import Addresses

PROXIES = Addresses(["127.0.0.1", "10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "198.51.100.66, 203.0.113.7", "203.0.113.7"),  # the first may be the client's own invention
        ("127.0.0.1", "203.0.113.7, 10.9.9.9", "203.0.113.7"),  # two proxies of ours, one behind the other
        ("127.0.0.1", "10.1.1.1, 10.9.9.9", "10.1.1.1"),
        ("203.0.113.9", "198.51.100.66", "203.0.113.9"),  # not by a proxy
        ("::ffff:127.0.0.1", "203.0.113.7:4711", "203.0.113.7"),
        ("fd00::1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7, _hidden", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7, _hidden, 10.9.9.9", "10.9.9.9"),
        ("", "203.0.113.7", ""),
    ],
)
def test_the_last_that_is_no_proxy_of_ours_is_the_client(peer: str, forwarded: str, address: str) -> None:
    assert PROXIES.find(peer, forwarded) == address


@given(st.text(), st.ip_addresses())
def test_whatever_a_client_sends_the_address_that_our_proxy_has_added_counts(sent: str, real: ipaddress.IPv4Address) -> None:
    added = str(real)
    found = PROXIES.find("127.0.0.1", f"{sent}, {added}" if sent else added)
    in_proxies = any(real in network for network in PROXIES.trusted)
    mapped = getattr(real, "ipv4_mapped", None)
    assert in_proxies or found == str(mapped or real) or (mapped is not None and any(mapped in each for each in PROXIES.trusted))


@given(st.text(), st.text())
def test_what_is_no_address_of_a_proxy_is_never_replaced(peer: str, forwarded: str) -> None:
    assert Addresses([]).find(peer, forwarded) in (peer, PROXIES.find(peer, ""))
