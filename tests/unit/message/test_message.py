"""A message keeps its octets as they came, and cuts everything else out of them on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hareline.errors import MalformedFrame
from hareline.message import (
    TRANSIENT,
    UNWRITTEN,
    Address,
    Facts,
    Message,
    broker_message,
    dead_letter,
    decode_fields,
    encode_fields,
    large_message,
)
from hareline.wire.constants import FRAME_END_OCTET
from hareline.wire.encoder import body_frame_head, content_frames, header_frame
from hareline.wire.table import Table
from tests.support.large_bodies import BodyInMemory
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
    assert message.extras is None  # only the table was decoded, and it is not kept
    assert message.properties.headers == message.headers
    assert message.headers is message.properties.headers  # not decoded twice


def test_octets_that_are_no_properties_are_refused_when_looked_at() -> None:
    octets = b"\x80\x00\xff"  # a content type of 255 octets that are not there
    header = header_frame(1, octets, 0)
    message = Message(make_address(), header, len(header), 0, 1, 0)
    assert message.property_octets == octets
    with pytest.raises(MalformedFrame):
        _ = message.properties


def test_a_messages_repr_tells_where_it_goes_and_its_size() -> None:
    message = make_message(b"four", exchange="x", routing_key="k")
    assert repr(message) == "<Message to Address('x', 'k'), 4 octets>"


def test_a_plain_message_is_eight_slots_and_nothing_else() -> None:
    """A queue of a million messages holds a million of them."""
    message = make_message(b"x")
    assert not hasattr(message, "__dict__")
    assert len(Message.__slots__) == 8
    assert message.extras is None
    assert not hasattr(Facts(), "__dict__")


def test_decoded_properties_leave_nothing_behind_when_they_are_forgotten() -> None:
    message = make_message(b"x", priority=7)
    assert message.properties is message.properties
    message.forget_properties()
    assert message.extras is None
    message.forget_properties()
    expiring = message.expiring_at(5)
    assert expiring.properties.priority == 7
    expiring.forget_properties()
    assert expiring.extras is not None
    assert (expiring.extras.properties, expiring.expires_at_ms) == (None, 5)


def test_a_plain_message_has_no_time_to_live_no_deaths_and_its_body_in_memory() -> None:
    for message in (make_message(b"x"), make_message(b"x", priority=1)):
        assert (message.expires_at_ms, message.history_size) == (0, 0)
        assert (message.is_from_default, message.large) == (False, None)
        assert message.facts() is None
        assert message.priority == message.properties.priority  # decoded, and as plain as before
        assert message.facts() is None


def test_priority_and_header_are_found_without_decoding_the_others() -> None:
    message = make_message(b"x", priority=7, headers=Table({"a": "b", "k": 5, "v": None}))
    assert message.priority == 7
    assert [message.header(name) for name in ("a", "k", "v", "absent")] == ["b", 5, None, None]
    assert message.extras is None


def test_a_message_without_them_has_neither_priority_nor_header() -> None:
    for message in (make_message(b"x"), make_message(b"x", content_type="k")):
        assert message.priority is None
        assert message.header("k") is None


def test_header_comes_from_the_decoded_properties_where_there_are_any() -> None:
    message = make_message(b"x", headers=Table({"k": 5}))
    bare = make_message(b"x")
    assert message.properties.headers == {"k": 5}
    assert bare.properties.headers is None
    assert (message.header("k"), message.header("absent"), bare.header("k")) == (5, None, None)


def test_priority_and_header_look_at_the_properties_and_not_at_the_body() -> None:
    octets = b"\x28\x00"  # headers and priority announced, and none there
    header = header_frame(1, octets, 40)
    message = Message(make_address(), header + bytes(60), len(header), 40, 1, 0)
    with pytest.raises(MalformedFrame):
        _ = message.priority
    with pytest.raises(MalformedFrame):
        message.header("k")


def test_a_header_can_be_taken_away() -> None:
    message = make_message(b"x", headers=Table({"a": 1, "k": 2}), priority=3).expiring_at(7)
    changed = message.without_header("k")
    assert (changed.headers, changed.properties.priority) == ({"a": 1}, 3)
    assert (changed.body, changed.expires_at_ms) == (b"x", 7)
    assert message.headers == {"a": 1, "k": 2}
    assert message.without_header("absent") is message


def test_a_dead_letter_has_the_body_and_whatever_else_it_is_given() -> None:
    message = make_message(b"body", channel=3, expiration="5").expiring_at(5)
    fields = encode_fields(Table({"x-death": []}))
    octets = message.parts.with_fields(fields)
    letter = dead_letter(message, octets, make_address("dlx", "k"), 99, len(fields))
    assert (letter.body, letter.channel, letter.arrival_ms) == (b"body", 3, 99)
    assert letter.headers == decode_fields(fields) == {"x-death": []}
    assert letter.properties.expiration is None
    assert letter.expires_at_ms == 0
    assert (letter.history_size, letter.is_from_default) == (len(fields), False)
    assert (message.history_size, message.is_from_default) == (0, False)


@pytest.mark.parametrize(("position", "expected"), [(0, TRANSIENT), (-1, UNWRITTEN), (9, -1)])
def test_a_dead_letter_is_another_message_to_the_store(position: int, expected: int) -> None:
    message = make_message(b"body")
    message.position = position
    assert dead_letter(message, b"\x00\x00", make_address(), 5, 0).position == expected


# -------------------------------------------------------- what stays in another message


def facts_of(message: Message) -> tuple[object, ...]:
    return (
        message.expires_at_ms,
        message.history_size,
        message.is_from_default,
        message.large,
        message.arrival_ms,
        message.channel,
        message.size,
        message.body,
    )


def with_all_facts() -> Message:
    message = make_message(b"body", channel=3, headers=Table(n=1), priority=2)
    message.arrival_ms = 1234
    message.extras = Facts(99, 7, True)
    return message


def large_with_all_facts() -> Message:
    message = make_large(headers=Table(n=1))
    message.extras = Facts(99, 7, True, message.large)
    return message


@pytest.mark.parametrize("make", [with_all_facts, large_with_all_facts])
def test_what_is_not_named_stays(make: Callable[[], Message]) -> None:
    message = make()
    octets = make_message(content_type="t").property_octets
    other = make_address("other", "key")
    for changed, address, headers in (
        (message.replace(), message.address, {"n": 1}),
        (message.replace(properties=octets), message.address, {}),
        (message.replace(address=other), other, {"n": 1}),
        (message.replace(properties=octets, address=other), other, {}),
        (message.with_header("m", 2), message.address, {"n": 1, "m": 2}),
        (message.without_header("n"), message.address, {}),
        (message.unwritten(), message.address, {"n": 1}),
        (message.expiring_at(99), message.address, {"n": 1}),
    ):
        assert facts_of(changed) == facts_of(message)
        assert (changed.address, changed.headers) == (address, headers)
        assert changed is not message
        assert changed.extras is not message.extras


def test_another_time_to_live_leaves_the_rest() -> None:
    message = with_all_facts()
    assert facts_of(message.expiring_at(5)) == (5, *facts_of(message)[1:])
    assert message.expires_at_ms == 99


def test_other_properties_are_not_those_that_were_decoded_before() -> None:
    message = make_message(b"x", priority=7)
    assert message.properties.priority == 7
    changed = message.replace(properties=make_message(priority=8).property_octets)
    assert (changed.properties.priority, message.properties.priority) == (8, 7)


@pytest.mark.parametrize(("position", "expected"), [(0, TRANSIENT), (-1, UNWRITTEN), (9, -1)])
def test_another_message_has_another_position_and_one_that_expires_the_same(
    position: int, expected: int
) -> None:
    message = make_message(b"x", headers=Table(n=1))
    message.position = position
    for changed in (
        message.replace(),
        message.with_header("m", 1),
        message.without_header("n"),
    ):
        assert changed.position == expected
    assert message.unwritten().position == UNWRITTEN
    assert message.expiring_at(5).position == position


# --------------------------------------------------------------------------- large ones


def make_large(**properties: Any) -> Message:
    small = make_message(**properties)
    header = header_frame(3, small.property_octets, 9)
    return large_message(make_address("e", "k"), header, BodyInMemory(b"in a file"), 1234, -1)


def test_a_large_message_has_its_properties_in_memory_and_its_body_elsewhere() -> None:
    message = make_large(content_type="a/b", priority=3, headers=Table({"n": 1}))
    assert (message.body, message.size, message.arrival_ms) == (b"in a file", 9, 1234)
    assert (message.priority, message.header("n")) == (3, 1)
    assert message.properties.content_type == "a/b"
    assert message.content == header_frame(3, message.property_octets, 9)
    assert message.channel == 0  # its content is the whole content on no channel


def test_copies_of_a_large_message_share_its_body() -> None:
    message = make_large(headers=Table({"n": 1}))
    for changed in (
        message.with_header("m", 2),
        message.without_header("n"),
        message.expiring_at(99),
        message.expiring_at(99).with_header("m", 2),
        message.unwritten(),
        dead_letter(message, b"\x00\x00", make_address("", "q"), 5, 0),
    ):
        assert changed.large is message.large
        assert (changed.channel, changed.size, changed.position) == (0, 9, UNWRITTEN)
        assert len(changed.content) == changed.header_size
    assert message.with_header("m", 2).headers == {"n": 1, "m": 2}
    assert message.expiring_at(99).with_header("m", 2).expires_at_ms == 99
    assert message.expires_at_ms == 0


def test_a_large_dead_letter_stays_one_whatever_is_written_into_it() -> None:
    message = make_large(content_type="a/b").expiring_at(7)
    octets = make_message(headers=Table({"x-death": []})).property_octets
    letter = dead_letter(message, octets, make_address("", "q"), 5, 12, is_from_default=True)
    assert letter.expires_at_ms == 0
    for one in (letter, letter.with_header("m", 1), letter.expiring_at(7)):
        assert (one.history_size, one.is_from_default, one.arrival_ms) == (12, True, 5)
        assert one.address.routing_key == "q"
        assert one.large is message.large
    assert (message.history_size, message.is_from_default) == (0, False)


def test_a_message_of_the_broker_is_whole_for_any_channel() -> None:
    address = Address.of("", "q")
    message = broker_message(
        address, b"body", 5, content_type="text/plain", headers=Table({"n": 2})
    )
    assert (message.address, message.body, message.size) == (address, b"body", 4)
    assert (message.arrival_ms, message.position) == (5, UNWRITTEN)
    properties = message.properties
    assert (properties.content_type, properties.delivery_mode) == ("text/plain", 2)
    assert message.headers == {"n": 2}
    octets = b"".join(content_frames(message, 3, 4096))
    header, body = octets[: message.header_size], octets[message.header_size :]
    assert header[:3] == b"\x02\x00\x03"
    assert body == b"\x03\x00\x03\x00\x00\x00\x04body\xce"
