"""Messages whose content is on disk, in the store or in the spool."""

from __future__ import annotations

import pytest

from hareline.message import (
    UNWRITTEN,
    ContentSource,
    Facts,
    Message,
    StoredMessage,
    Table,
)
from tests.support.messages import make_message


class Disk(ContentSource):
    """One message at every position."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.read_at: list[int] = []
        self.dropped: list[int] = []

    def content(self, position: int) -> bytes:
        self.read_at.append(position)
        return self.message.content

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
    message = whole()
    message.extras = Facts(5_000, 30, True)
    message.arrival_ms = 77
    stored = StoredMessage(message, Disk(message), 1)
    for one in (stored, stored.replace(properties=b"\x00\x00"), stored.with_header("n", 1)):
        assert (one.expires_at_ms, one.history_size, one.is_from_default) == (5_000, 30, True)
        assert (one.arrival_ms, one.body) == (77, b"body")


def test_decoded_properties_are_not_kept_with_it() -> None:
    message = whole()
    assert message.properties.priority == 3
    assert StoredMessage(message, Disk(message), 1).extras is None


def test_what_is_made_of_it_is_whole() -> None:
    message = whole()
    for make in (
        StoredMessage.unwritten,
        StoredMessage.replace,
        lambda stored: stored.expiring_at(5),
        lambda stored: stored.with_header("n", 5),
        lambda stored: stored.without_header("a"),
    ):
        disk = Disk(message)
        stored = StoredMessage(message, disk, 77)
        made = make(stored)
        assert type(made) is Message
        disk.read_at.clear()
        assert made.body == b"body"
        assert disk.read_at == []
        assert stored.position == 77


def test_a_copy_that_is_to_be_written_is_in_no_store() -> None:
    message = whole()
    stored = StoredMessage(message, Disk(message), 77)
    assert stored.unwritten().position == UNWRITTEN
    assert stored.with_header("n", 5).headers == {"a": 1, "n": 5}
    assert stored.without_header("a").headers == {}


def test_what_is_spooled_is_dropped_with_the_last_reference() -> None:
    message = whole()
    disk = Disk(message)
    spooled = StoredMessage(message, disk, 9, is_spooled=True)
    assert spooled.body == b"body"
    assert disk.dropped == []
    del spooled
    assert disk.dropped == [9]
    StoredMessage(message, disk, 9)
    assert disk.dropped == [9]
