"""An address is two names and their octets; some have a publisher or keys that nobody sees."""

from __future__ import annotations

import pytest

from hareline.message import Address, BlindAddress, Publisher, PublisherAddress
from tests.support.messages import make_address


def test_an_address_shows_exchange_and_routing_key() -> None:
    address = Address("amq.topic", "a.b", b"\x09amq.topic\x03a.b")
    assert repr(address) == "Address('amq.topic', 'a.b')"


def test_an_address_can_be_made_of_its_texts() -> None:
    address = Address.of("dlx", "é")
    assert (address.exchange, address.routing_key) == ("dlx", "é")
    assert address.octets == b"\x03dlx\x02\xc3\xa9"
    assert (address.blind_keys, address.publisher) == ((), None)


def test_blind_keys_are_in_no_octets() -> None:
    address = BlindAddress(make_address("x", "k"), ("secret",))
    assert address.blind_keys == ("secret",)
    assert address.octets == b"\x01x\x01k"
    assert address.publisher is None


def test_an_address_may_say_who_publishes_to_it() -> None:
    publisher = Publisher("client-1")
    address = PublisherAddress(make_address("x", "k"), publisher)
    assert (address.exchange, address.routing_key, address.octets) == ("x", "k", b"\x01x\x01k")
    assert address.publisher is publisher
    assert BlindAddress(address, ("secret",)).publisher is publisher
    assert repr(publisher).startswith("<Publisher 'client-1' 0x")


@pytest.mark.parametrize(
    "address",
    [
        make_address("x", "k"),
        PublisherAddress(make_address("x", "k"), None),
        BlindAddress(make_address("x", "k"), ("a",)),
    ],
)
def test_addresses_carry_no_dict(address: Address) -> None:
    assert not hasattr(address, "__dict__")
