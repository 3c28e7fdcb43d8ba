"""Every kind of message is the same again after it was a record."""

from __future__ import annotations

import pytest

from hareline.message import (
    Address,
    BlindAddress,
    Facts,
    Message,
    dead_letter,
    large_message,
)
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MESSAGE, MalformedRecord
from hareline.storage.journal.format.message import DELIVERY_COUNT_MAX, decode_message
from hareline.storage.store import message_records
from hareline.storage.store.large_bodies import LargeBodies
from hareline.storage.store.message_records import (
    MessageReader,
    options_of,
    record_head,
)
from tests.support.messages import make_message

ENTRIES = [(1, 5, 0, 0), (7, 1 << 40, 3, 1)]


def payload_of(message: Message) -> bytes:
    head = record_head(message, ENTRIES)
    assert head[0] == MESSAGE
    return head[1:] + message.content


def again(message: Message, reader: MessageReader | None = None) -> Message:
    return (reader or MessageReader()).message_of(payload_of(message), 77)


def assert_same(read: Message, message: Message) -> None:
    assert (read.extras is None) == (message.extras is None)
    assert read.large is message.large
    for name in (
        "content",
        "header_size",
        "size",
        "channel",
        "arrival_ms",
        "expires_at_ms",
        "history_size",
        "is_from_default",
        "property_octets",
    ):
        assert getattr(read, name) == getattr(message, name), name
    assert read.address.octets == message.address.octets
    assert read.address.exchange == message.address.exchange
    assert read.address.routing_key == message.address.routing_key
    assert read.address.blind_keys == message.address.blind_keys
    assert read.position == 77


@pytest.mark.parametrize("body", [b"", b"x", bytes(70_000)])
@pytest.mark.parametrize("routing_key", ["", "k", "ü" * 120, "\udcff"])
def test_a_plain_message(body: bytes, routing_key: str) -> None:
    message = make_message(body, exchange="e", channel=300, content_type="text/plain")
    message.address = Address.of("e", routing_key)
    assert options_of(message) == (0, b"")
    assert_same(again(message), message)


def test_an_expiring_message() -> None:
    message = make_message(b"x").expiring_at(1_700_000_123_456)
    assert options_of(message) != (0, b"")
    assert_same(again(message), message)


@pytest.mark.parametrize("is_from_default", [False, True])
def test_a_dead_letter(is_from_default: bool) -> None:
    message = make_message(b"body", headers={"a": 1})
    letter = dead_letter(
        message,
        message.property_octets,
        Address.of("dlx", "dead"),
        99,
        17,
        is_from_default=is_from_default,
    )
    assert_same(again(letter), letter)


def test_the_time_to_live_of_a_dead_letter_is_over_whatever_its_record_says() -> None:
    message = make_message(b"body")
    letter = dead_letter(message, message.property_octets, Address.of("dlx", "dead"), 99, 17)
    read = again(letter.expiring_at(5))
    assert (read.expires_at_ms, read.history_size, read.body) == (0, 17, b"body")


def test_blind_keys_in_any_of_them() -> None:
    keys = ("bcc", "ü", "", "k" * 255, "\udcff")
    for message in (make_message(b"x"), make_message(b"x").expiring_at(5)):
        message.address = BlindAddress(Address.of("e", "k"), keys)
        assert options_of(message) != (0, b"")
        assert_same(again(message), message)


@pytest.mark.parametrize(("expires_at_ms", "history_size"), [(0, 0), (5, 0), (0, 9), (5, 9)])
def test_a_large_message_is_its_header_and_the_name_of_its_body(
    tmp_path: object, expires_at_ms: int, history_size: int
) -> None:
    bodies = LargeBodies(Files(), f"{tmp_path}/large", now_ms=1)
    draft = bodies.begin(10)
    draft.add(b"0123456789")
    plain = make_message(bytes(10), routing_key="k")
    message = large_message(plain.address, plain.content[: plain.header_size], draft.finish(), 99)
    message.extras = Facts(expires_at_ms, history_size, bool(history_size), message.large)
    read = again(message, MessageReader(bodies))
    assert_same(read, message)
    assert read.body == b"0123456789"
    with pytest.raises(MalformedRecord, match="large"):
        again(message)


def test_entries_are_as_they_were_given_and_counts_have_a_limit() -> None:
    message = make_message(b"x").expiring_at(5)
    head = record_head(message, [*ENTRIES, (9, 1, DELIVERY_COUNT_MAX + 1, 1)])
    record = decode_message(head[1:] + message.content)
    assert [tuple(entry) for entry in record.entries] == [*ENTRIES, (9, 1, DELIVERY_COUNT_MAX, 1)]


def test_options_are_as_long_as_they_are_said_to_be() -> None:
    message = make_message(b"x").expiring_at(5)
    message.address = BlindAddress(Address.of("e", "k"), ("a", "bc"))
    plain = make_message(b"x")
    plain.address = Address.of("e", "k")
    difference = len(payload_of(message)) - len(payload_of(plain))
    assert difference == len(options_of(message)[1])
    assert options_of(plain) == (0, b"")


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_addresses_are_shared_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_records, "_ADDRESSES_MAX", 3)
    reader = MessageReader()
    messages = [make_message(b"x", routing_key=f"k{number}") for number in range(5)]
    first = [again(message, reader) for message in messages[:3]]
    assert again(messages[0], reader).address is first[0].address
    for message in messages[3:]:
        assert_same(again(message, reader), message)
    assert_same(again(messages[0], reader), messages[0])
    assert len(reader._addresses) <= 3


def test_a_message_inside_of_what_was_read_is_cut_out() -> None:
    message = make_message(b"body", routing_key="k")
    payload = payload_of(message)
    read = MessageReader().message_at(b"before" + payload + b"behind", 6, 6 + len(payload), 77)
    assert_same(read, message)


@pytest.mark.parametrize("kept", range(57, 59))
def test_a_record_that_ends_before_its_address_is_malformed(kept: int) -> None:
    payload = payload_of(make_message(b"body", routing_key="k"))  # 27 and 2 x 15, then addresses
    with pytest.raises(MalformedRecord, match="too short"):
        MessageReader().message_of(payload[:kept], 1)
