"""Addresses of this machine, and lists of networks, in every way of writing them."""

from __future__ import annotations

import pytest

from hareline.auth.certificates import PeerCertificate
from hareline.auth.peer import Networks, Peer, is_loopback, network_of


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


# ----------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize(
    ("texts", "host"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.255"),
        (["192.0.2.0/24"], "::ffff:192.0.2.1"),
        (["2001:db8::/32"], "2001:db8::1"),
        (["fe80::/10"], "fe80::1%eth0"),
    ],
)
def test_an_address_is_in_the_network(texts: list[str], host: str) -> None:
    assert host in Networks(texts)


@pytest.mark.parametrize(
    ("texts", "host"),
    [
        ([], "192.0.2.7"),
        (["192.0.2.7"], "192.0.2.8"),
        (["0.0.0.0/0"], "2001:db8::1"),
        (["::/0"], "192.0.2.1"),
        (["0.0.0.0/0", "::/0"], ""),
        (["0.0.0.0/0", "::/0"], "localhost"),
    ],
)
def test_an_address_elsewhere_and_a_name_are_not(texts: list[str], host: str) -> None:
    assert host not in Networks(texts)


def test_only_a_list_with_a_network_counts_as_true() -> None:
    assert not Networks()
    assert Networks(["192.0.2.7"])


def test_a_network_with_bits_of_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match="host bits"):
        Networks(["10.0.0.1/8"])
