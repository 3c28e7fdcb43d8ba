"""Which addresses are of this machine, in every way of writing them."""

from __future__ import annotations

import pytest

from hareline.auth.certificates import PeerCertificate
from hareline.auth.peer import Peer, is_loopback, network_of


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_an_address_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["192.0.2.7", "0.0.0.0", "fe80::1%eth0", "::ffff:192.0.2.7", "localhost", "", "%"]
)
def test_any_other_address_and_what_is_none(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.200.3.4", "127.0.0.1"),
        ("::ffff:127.0.0.9", "127.0.0.1"),
        ("::1", "::1"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("unknown", "unknown"),
    ],
)
def test_what_one_machine_may_have_many_of_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_peer_is_without_tls_unless_it_is_said() -> None:
    peer = Peer("192.0.2.7", is_loopback=False)
    assert not peer.is_tls
    assert peer.certificate is None


def test_a_peer_carries_the_certificate_that_it_has_shown() -> None:
    certificate = PeerCertificate(
        "CN=ann,O=Example",
        "ann",
        ("ann.example",),
        (),
        (),
        "CN=Example CA",
        "2a",
        1_900_000_000_000,
    )
    peer = Peer("192.0.2.7", is_loopback=False, is_tls=True, certificate=certificate)
    assert peer.certificate is not None
    assert (peer.certificate.common_name, peer.certificate.serial) == ("ann", "2a")
