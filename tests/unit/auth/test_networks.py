"""Which addresses a list of networks has."""

from __future__ import annotations

import pytest

from hareline.auth.networks import Networks


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
