"""The firehose by itself: what it cannot copy, and what it must not disturb.

What a copy looks like is in tests/unit/amqp/test_tracing.py, by octets.
"""

from __future__ import annotations

import pytest

from hareline.broker.tracing import TRACE_EXCHANGE, Origin
from hareline.errors import StoreError
from hareline.later import ITEMS_PER_LOOK
from hareline.message import ContentSource, Message, StoredMessage, Timestamp
from hareline.queues.core.kinds import KEEPS_ALL
from tests.support.messages import make_message
from tests.support.vhosts import VhostStand, bind, declare

ORIGIN = Origin("a -> b", 1, "guest")


class Stand(VhostStand):
    """A virtual host that is traced, and a queue that gets all copies."""

    def __init__(self) -> None:
        super().__init__()
        self.firehose = self.vhost.firehose
        self.copies = self.declare("copies", is_durable=False)
        bind(self.vhost, TRACE_EXCHANGE, self.copies, "#")
        self.firehose.switch(True)

    def trace(self, message: Message) -> None:
        self.firehose.on_published(message, (), ORIGIN)


@pytest.fixture
def stand() -> Stand:
    return Stand()


class Disk(ContentSource):
    def __init__(self, content: bytes) -> None:
        self.content_there: bytes | None = content

    def content(self, position: int) -> bytes:
        if self.content_there is None:
            raise StoreError("gone")
        return self.content_there

    def drop_spooled(self, position: int) -> None:
        raise AssertionError("it is not in the spool")


def test_switching_forgets_routes_once_each_way(stand: Stand) -> None:
    version = stand.vhost.routing.version
    assert not stand.firehose.switch(True)
    assert stand.vhost.routing.version == version
    assert stand.firehose.switch(False)
    assert stand.vhost.routing.version == version + 1


def test_off_it_forgets_what_waits(stand: Stand) -> None:
    stand.trace(make_message(b"x"))
    stand.firehose.switch(False)
    stand.turn.run()
    assert stand.copies.ready_count == 0


def test_a_copy_does_not_expire(stand: Stand) -> None:
    message = make_message(b"x", expiration="1000").expiring_at(1_700_000_001_000)
    stand.trace(message)
    stand.turn.run()
    (entry,) = list(stand.copies.order)
    assert entry.message.expires_at_ms == 0
    assert message.expires_at_ms == 1_700_000_001_000


def test_a_delivery_from_disk_is_whole_when_its_turn_comes(stand: Stand) -> None:
    message = make_message(b"from disk")
    disk = Disk(message.content)
    source = declare(stand.vhost, "source")
    source.put(message)
    entry = source.get()
    assert entry is not None
    entry.message = StoredMessage(message, disk, 1)
    stand.firehose.on_delivered([entry], "source", ORIGIN)
    disk.content_there = None
    stand.turn.run()
    (copy,) = list(stand.copies.order)
    assert copy.message.body == b"from disk"


def test_a_delivery_that_cannot_be_read_is_lost(stand: Stand) -> None:
    message = make_message(b"x")
    disk = Disk(message.content)
    disk.content_there = None
    source = declare(stand.vhost, "source")
    source.put(message)
    entry = source.get()
    assert entry is not None
    entry.message = StoredMessage(message, disk, 1)
    stand.firehose.on_delivered([entry], "source", ORIGIN)
    stand.turn.run()
    assert (stand.copies.ready_count, stand.firehose.lost.count) == (0, 1)


def test_headers_that_cannot_be_read_cost_their_copy(stand: Stand) -> None:
    message = make_message(b"x", headers={"a": 1})
    broken = message.replace(properties=message.property_octets[:-3])
    stand.trace(broken)
    stand.trace(message)
    stand.turn.run()
    assert (stand.copies.ready_count, stand.firehose.lost.count) == (1, 1)


def test_a_store_without_room_gets_no_copies(stand: Stand) -> None:
    kept = declare(stand.vhost, "kept")
    kept.keeps = KEEPS_ALL
    bind(stand.vhost, TRACE_EXCHANGE, kept, "#")
    stand.vhost.environment.store.refuse("no room")
    stand.trace(make_message(b"x"))
    stand.turn.run()
    assert (kept.ready_count, stand.copies.ready_count) == (0, 1)
    assert stand.firehose.lost.count == 1


def test_a_long_backlog_is_published_in_shares(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn's clock moves on with each look, so that a share is one look long."""
    times = iter(range(100_000))
    monkeypatch.setattr(stand.turn, "now", lambda: float(next(times)))
    count = 3 * ITEMS_PER_LOOK
    for _ in range(count):
        stand.trace(make_message(b"x"))
    stand.turn.step()
    assert stand.turn.is_behind
    assert stand.firehose.published_count == ITEMS_PER_LOOK
    stand.turn.run()
    assert stand.copies.ready_count == count


def test_a_timestamp_beyond_32_bits_keeps_its_value(stand: Stand) -> None:
    stand.trace(make_message(b"x", timestamp=Timestamp(1 << 40)))
    stand.turn.run()
    (entry,) = list(stand.copies.order)
    properties = entry.message.headers["properties"]
    assert properties == {"timestamp": 1 << 40}
