"""Large bodies are written as their frames come; of one that does not come whole nothing stays."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hareline.amqp.content import ContentAssembler
from hareline.amqp.context import Limits
from hareline.storage.journal.files import Files
from hareline.storage.store.large_bodies import WRITE_BYTES
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .large import BODY, LARGE_BYTES, LargeBroker
from .peer import BODY as BODY_FRAME
from .peer import HEADER, Peer, SteppedBroker, frame, header_payload, publish_octets

FRAME_MAX = 131_072


class FullDisk(Files):
    """Takes ``room`` octets and no more."""

    def __init__(self, number: int = errno.ENOSPC, room: int = 0) -> None:
        self.number = number
        self.room = room

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        self.room -= sum(map(len, parts))
        if self.room < 0:
            raise OSError(self.number, os.strerror(self.number))
        super().write(fd, parts, offset)


@pytest.fixture
def broker(tmp_path: Path) -> LargeBroker:
    return LargeBroker(tmp_path / "large")


@pytest.fixture
def peer(broker: LargeBroker) -> Peer:
    peer = broker.connect(channels=(1, 2))
    peer.declare("q")
    return peer


def begin_publish(peer: Peer, routing_key: str = "q") -> bytes:
    """The first half of a publish on channel 1; returns the other."""
    octets = publish_octets(1, routing_key, BODY)
    peer.send_octets(octets[:600_000])
    return octets[600_000:]


# ------------------------------------------------------------------------- where


@pytest.mark.parametrize(
    ("size", "is_large"), [(LARGE_BYTES, False), (LARGE_BYTES + 1, True), (len(BODY), True)]
)
def test_a_body_above_the_limit_is_in_a_file(
    broker: LargeBroker, peer: Peer, size: int, is_large: bool
) -> None:
    for _ in range(3):  # also by what the publish lane knows by then
        peer.publish(1, "q", BODY[:size])
    assert broker.file_count == (3 if is_large else 0)
    entry = broker.queue("q").get()
    assert entry is not None
    assert (entry.message.large is not None) == is_large
    assert (entry.message.size, entry.message.body) == (size, BODY[:size])
    if is_large:
        assert len(entry.message.content) == entry.message.header_size


def test_without_a_place_for_files_all_bodies_stay_in_memory() -> None:
    broker = SteppedBroker(Limits(large_message_bytes=LARGE_BYTES))
    peer = broker.connect()
    peer.declare("q")
    peer.publish(1, "q", BODY)
    assert peer.drain("q") == [BODY]


def test_no_more_than_some_frames_are_in_memory_while_a_body_comes(
    broker: LargeBroker, peer: Peer
) -> None:
    rest = begin_publish(peer)
    (path,) = broker.directory.iterdir()
    assert path.stat().st_size > 600_000 - WRITE_BYTES - FRAME_MAX
    peer.send_octets(rest)
    assert peer.drain("q") == [BODY]


def test_contents_of_two_channels_may_interleave(broker: LargeBroker, peer: Peer) -> None:
    half = len(BODY) // 2
    for number in (1, 2):
        peer.send(number, commands.Basic.Publish, routing_key="q")
        peer.send_frame(HEADER, number, header_payload(len(BODY)))
    for part in (BODY[:half], BODY[half:]):
        for start in range(0, len(part), 100_000):
            for number in (1, 2):
                peer.send_frame(BODY_FRAME, number, part[start : start + 100_000])
    assert peer.drain("q") == [BODY, BODY]
    assert broker.file_count == 0


# ---------------------------------------------------------------- what it asks for


def test_confirms_come_as_for_any_other(broker: LargeBroker, peer: Peer) -> None:
    peer.call(1, commands.Confirm.Select)
    peer.fill("q", b"small", BODY, b"small")
    acks = peer.receive()
    assert acks[-1].method.delivery_tag == 3


def test_copies_and_blind_copies_share_the_body(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("copy")
    peer.declare("blind")
    headers = Table({"CC": ["copy"], "BCC": ["blind"], "mine": 1})
    peer.publish(1, "q", BODY, properties=Properties(headers=headers))
    assert broker.file_count == 1
    for name in ("q", "copy", "blind"):
        got = peer.get(name, no_ack=True)
        assert got is not None
        assert got.body == BODY
        assert got.properties is not None
        assert got.properties.headers == {"CC": ["copy"], "mine": 1}
    assert broker.file_count == 0


def test_an_expiration_counts_and_takes_the_file_along(broker: LargeBroker, peer: Peer) -> None:
    peer.publish(1, "q", BODY, properties=Properties(expiration="1000"))
    assert broker.file_count == 1
    broker.advance(1.5)
    assert peer.get("q") is None
    assert broker.file_count == 0


def test_headers_route_it_and_selectors_choose_it(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("red")
    peer.bind("red", "amq.headers", arguments={"x-match": "all", "colour": "red"})
    for colour in ("red", "blue"):
        headers = Table({"colour": colour})
        peer.publish(1, "", BODY, exchange="amq.headers", properties=Properties(headers=headers))
    assert broker.file_count == 1
    peer.consume("red", "c", arguments={"x-filter-jms-selector": "colour = 'red'"}, no_ack=True)
    assert peer.receive()[1].body == BODY


def test_a_commit_publishes_it_and_a_rollback_removes_it(broker: LargeBroker, peer: Peer) -> None:
    peer.call(1, commands.Tx.Select)
    peer.publish(1, "q", BODY)
    assert (broker.file_count, broker.queue("q").ready_count) == (1, 0)
    peer.call(1, commands.Tx.Rollback)
    assert broker.file_count == 0
    peer.publish(1, "q", BODY)
    peer.call(1, commands.Tx.Commit)
    assert broker.queue("q").ready_count == 1
    got = peer.get("q", number=2)
    assert got is not None
    assert got.body == BODY


def test_a_full_queue_drops_its_file_with_it(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("short", arguments={"x-max-length": 1})
    peer.fill("short", BODY, BODY, BODY)
    assert broker.file_count == 1
    peer.declare("narrow", arguments={"x-max-length-bytes": len(BODY) + 1})
    peer.fill("narrow", BODY, BODY)
    assert broker.queue("narrow").ready_count == 1


def test_a_stream_writes_its_offset_beside_the_body(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("log", durable=True, arguments={"x-queue-type": "stream"})
    peer.fill("log", BODY, BODY)
    peer.call(1, commands.Basic.Qos, prefetch_count=10)
    for tag in ("a", "b"):
        peer.consume("log", tag, arguments={"x-stream-offset": "first"})
        received = peer.receive()[1:]
        assert [each.body for each in received] == [BODY, BODY]
        offsets = [each.properties.headers for each in received if each.properties is not None]
        assert offsets == [{"x-stream-offset": 0}, {"x-stream-offset": 1}]


# ----------------------------------------------------------- what does not come whole


def test_a_connection_that_is_lost_half_way_leaves_nothing(broker: LargeBroker, peer: Peer) -> None:
    begin_publish(peer)
    assert broker.file_count == 1
    peer.lose()
    assert broker.file_count == 0


def test_a_frame_out_of_its_place_leaves_nothing(broker: LargeBroker, peer: Peer) -> None:
    peer.send(1, commands.Basic.Publish, routing_key="q")
    peer.send_frame(HEADER, 1, header_payload(len(BODY)))
    for start in range(0, 500_000, 100_000):
        peer.send_frame(BODY_FRAME, 1, BODY[start : start + 100_000])
    assert broker.file_count == 1
    peer.send(1, commands.Channel.Close)
    assert peer.refusal().code == 505
    assert broker.file_count == 0


def test_an_exchange_that_is_missing_is_told_at_the_end(broker: LargeBroker, peer: Peer) -> None:
    assert peer.publish_refused(1, "q", body=BODY, exchange="missing") == (
        404,
        "NOT_FOUND - no exchange 'missing' in vhost '/'",
    )
    assert broker.file_count == 0
    assert peer.get("q", number=2) is None  # the connection goes on


def test_too_large_is_told_before_anything_is_written(tmp_path: Path) -> None:
    limits = Limits(large_message_bytes=LARGE_BYTES, max_message_bytes=100_000)
    broker = LargeBroker(tmp_path / "large", limits=limits)
    peer = broker.connect()
    octets = publish_octets(1, "q", bytes(100_001))
    peer.send_octets(octets)
    assert peer.refusal().code == 406
    assert broker.file_count == 0


def test_more_than_was_announced_is_501_and_leaves_nothing(broker: LargeBroker, peer: Peer) -> None:
    peer.send(1, commands.Basic.Publish, routing_key="q")
    peer.send_frame(HEADER, 1, header_payload(300_000))
    for _ in range(3):
        peer.send_octets(frame(BODY_FRAME, 1, bytes(120_000)))
    assert peer.refusal().code == 501
    assert broker.file_count == 0


@pytest.mark.parametrize("room", [0, 300_000, len(BODY)])
def test_a_full_disk_closes_the_channel_and_nothing_else(tmp_path: Path, room: int) -> None:
    files = FullDisk(room=room)
    broker = LargeBroker(tmp_path / "large", files=files)
    peer = broker.connect(channels=(1, 2))
    peer.declare("q")
    peer.publish(1, "q", BODY)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code, refusal.class_id, refusal.method_id) == (
        "channel",
        311,
        60,
        40,
    )
    assert refusal.text == (
        f"CONTENT_TOO_LARGE - no room for a message of {len(BODY)} octets: No space left on device"
    )
    assert broker.file_count == 0
    files.room = 10 * len(BODY)
    peer.open(1)
    peer.publish(1, "q", BODY)
    got = peer.get("q", number=2)
    assert got is not None
    assert got.body == BODY


def test_a_disk_that_fails_closes_the_connection_with_the_reason(tmp_path: Path) -> None:
    broker = LargeBroker(tmp_path / "large", files=FullDisk(errno.EIO))
    peer = broker.connect()
    peer.publish(1, "q", BODY)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 506)
    assert refusal.text.endswith("octets cannot be kept: Input/output error")
    assert broker.file_count == 0


def test_the_assembler_gives_a_body_away_once(broker: LargeBroker) -> None:
    content = ContentAssembler(1_000_000, broker.context.large_bodies, LARGE_BYTES)
    content.begin(b"")
    content.add_header(header_payload(LARGE_BYTES + 1))
    assert content.add_body(bytes(LARGE_BYTES + 1))
    _, octets, header_size, size = content.take(1)
    assert (len(octets), size) == (header_size, LARGE_BYTES + 1)
    large = content.take_large()
    assert large is not None
    assert content.take_large() is None
    content.begin(b"")
    content.add_header(header_payload(1))
    assert content.add_body(b"a")
    assert len(content.take(1)[1]) > header_size
    assert content.take_large() is None
