"""Messages whose content is on disk: ``StoredMessage`` and ``SpooledMessage`` of ``message``."""

from __future__ import annotations

from copy import copy

import pytest

from hareline.message import (
    UNWRITTEN,
    ContentSource,
    DeadLetter,
    ExpiringMessage,
    Message,
    SpooledMessage,
    StoredMessage,
    Table,
)
from tests.support.messages import make_address, make_message


class Disk(ContentSource):
    """One message at every position."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.read_at: list[int] = []
        self.dropped: list[int] = []

    def content(self, position: int) -> bytes:
        self.read_at.append(position)
        return self.message.content

    def read(self, position: int) -> Message:
        self.read_at.append(position)
        return copy(self.message)

    def drop_spooled(self, position: int) -> None:
        self.dropped.append(position)


def whole() -> Message:
    message = make_message(b"body", routing_key="k", priority=3, headers=Table({"a": 1}))
    message.position = 77
    return message


def test_it_is_the_message_it_stands_for_and_reads_what_it_is_asked() -> None:
    message = whole()
    disk = Disk(message)
    stored = StoredMessage(message, disk, 77)
    for name in ("address", "header_size", "size", "channel", "arrival_ms", "position"):
        assert getattr(stored, name) == getattr(message, name)
    assert disk.read_at == []
    assert stored.content == message.content
    assert stored.body == b"body"
    assert stored.priority == 3
    assert stored.header("a") == 1
    assert stored.headers == {"a": 1}
    assert set(disk.read_at) == {77}


def test_its_content_cannot_be_set() -> None:
    stored = StoredMessage(whole(), Disk(whole()), 77)
    with pytest.raises(AttributeError):
        stored.content = b""  # type: ignore[misc]


def test_what_is_special_about_the_message_stays() -> None:
    expiring = ExpiringMessage(whole(), 5_000)
    assert StoredMessage(expiring, Disk(expiring), 1).expires_at_ms == 5_000
    plain = whole()
    letter = DeadLetter(
        plain, plain.property_octets, make_address("x"), 1, 30, is_from_default=True
    )
    stored = StoredMessage(letter, Disk(letter), 1)
    assert (stored.history_size, stored.is_from_default) == (30, True)
    changed = stored.with_properties(letter.property_octets)
    assert isinstance(changed, DeadLetter)
    assert changed.history_size == 30


def test_a_copy_is_whole() -> None:
    message = whole()
    stored = StoredMessage(message, Disk(message), 77)
    twin = stored.unwritten()
    assert type(twin) is Message
    assert (twin.position, twin.body) == (UNWRITTEN, b"body")
    assert stored.position == 77


def test_another_header_makes_a_whole_message() -> None:
    message = whole()
    stored = StoredMessage(message, Disk(message), 77)
    changed = stored.with_header("n", 5)
    assert type(changed) is Message
    assert (changed.body, changed.headers["n"]) == (b"body", 5)


def test_what_is_spooled_is_dropped_when_nobody_refers_to_it() -> None:
    message = whole()
    disk = Disk(message)
    spooled = SpooledMessage(message, disk, 9)
    assert disk.dropped == []
    del spooled
    assert disk.dropped == [9]
    StoredMessage(message, disk, 9)
    assert disk.dropped == [9]
