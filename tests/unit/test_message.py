"""A message keeps its octets as they came, and cuts everything else out of them on demand."""

from __future__ import annotations

import pytest

from hareline.errors import MalformedFrame
from hareline.message import Address, Message
from hareline.wire.constants import FRAME_END_OCTET
from hareline.wire.encoder import body_frame_head, header_frame
from hareline.wire.table import Table
from tests.support.messages import make_address, make_message


def test_the_body_is_cut_out_of_the_content() -> None:
    message = make_message(b"payload")
    assert (message.body, message.size) == (b"payload", 7)
    assert message.content[message.header_size :] == (b"\x03\x00\x01\x00\x00\x00\x07payload\xce")


def test_a_message_without_body_is_a_header_alone() -> None:
    message = make_message()
    assert (message.body, message.size) == (b"", 0)
    assert len(message.content) == message.header_size


def test_a_body_may_hold_frame_ends() -> None:
    body = b"\xce\x03\x00\x01" * 3
    assert make_message(body).body == body


def test_a_body_larger_than_any_frame_is_one_piece() -> None:
    body = bytes(range(256)) * 4096
    assert make_message(body).body == body


@pytest.mark.parametrize("size", [0, 5])
def test_property_octets_are_verbatim(size: int) -> None:
    octets = b"\x90\x00\x04text\x02"
    header = header_frame(3, octets, size)
    body = body_frame_head(3, size) + bytes(size) + FRAME_END_OCTET if size else b""
    message = Message(make_address(), header + body, len(header), size, 3, 0)
    assert message.property_octets == octets
    assert message.properties.content_type == "text"
    assert message.properties.delivery_mode == 2


def test_properties_are_decoded_once() -> None:
    message = make_message(b"x", content_type="text/plain", priority=7)
    assert message.properties.priority == 7
    assert message.properties is message.properties


def test_a_message_without_headers_has_an_empty_table() -> None:
    assert make_message(b"x").headers == {}
    assert make_message(b"x", priority=1).headers == {}


def test_headers_are_those_of_the_properties() -> None:
    message = make_message(b"x", headers=Table(kind="report", number=7))
    assert message.headers == {"kind": "report", "number": 7}
    assert message.headers is message.properties.headers


def test_octets_that_are_no_properties_are_refused_when_looked_at() -> None:
    octets = b"\x80\x00\xff"  # a content type of 255 octets that are not there
    header = header_frame(1, octets, 0)
    message = Message(make_address(), header, len(header), 0, 1, 0)
    assert message.property_octets == octets
    with pytest.raises(MalformedFrame):
        _ = message.properties


def test_an_address_shows_exchange_and_routing_key() -> None:
    address = Address("amq.topic", "a.b", b"\x09amq.topic\x03a.b")
    assert repr(address) == "Address('amq.topic', 'a.b')"


def test_a_messages_repr_tells_where_it_goes_and_its_size() -> None:
    message = make_message(b"four", exchange="x", routing_key="k")
    assert repr(message) == "<Message to Address('x', 'k'), 4 octets>"


def test_messages_carry_no_dict() -> None:
    """Slots: a queue of a million messages holds a million of them."""
    message = make_message(b"x")
    for thing in (message, message.address):
        assert not hasattr(thing, "__dict__")
