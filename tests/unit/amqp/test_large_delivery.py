"""Large contents go out in pieces: what else may be written meanwhile, and what has to wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hareline.amqp.output import PIECE_BYTES, WAITING_MAX_BYTES, WAITING_MAX_CONTENTS
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table
from tests.support.stores import FakeStore

from .large import BODY, LargeBroker, frames_of, named, on_channel
from .peer import HEADER, Peer


@pytest.fixture
def broker(tmp_path: Path) -> LargeBroker:
    return LargeBroker(tmp_path / "large")


@pytest.fixture
def peer(broker: LargeBroker) -> Peer:
    peer = broker.connect(channels=(1, 2, 3))
    peer.declare("q")
    peer.declare("other")
    return peer


def begin_delivery(broker: LargeBroker, peer: Peer) -> None:
    """The first piece of a large message is on its way to consumer "c" on channel 2."""
    peer.publish(1, "q", BODY)
    broker.run_turns()
    peer.consume("q", "c", number=2)
    broker.run_turn()
    first = frames_of(peer)
    assert [each.kind for each in first[:3]] == [1, 1, HEADER]  # consume-ok, deliver, header
    assert sum(len(each.payload) for each in first if each.kind == 3) <= PIECE_BYTES


# ------------------------------------------------------------------------- whole


@pytest.mark.parametrize("frame_max", [4096, 65_536, 131_072, 1_000_000])
def test_a_large_message_comes_whole_in_frames_that_were_negotiated(
    tmp_path: Path, frame_max: int
) -> None:
    broker = LargeBroker(tmp_path / "large")
    peer = broker.connect(frame_max=min(frame_max, 131_072), channels=(1, 2))
    peer.declare("q")
    peer.publish(1, "q", BODY, properties=Properties(content_type="a/b", priority=3))
    peer.consume("q", "c", number=2)
    ok, delivered = peer.receive()
    assert ok.name == "basic.consume-ok"
    assert (delivered.name, delivered.channel) == ("basic.deliver", 2)
    assert delivered.body == BODY
    assert delivered.properties == Properties(content_type="a/b", priority=3)


def test_it_is_got_and_returned_whole(broker: LargeBroker, peer: Peer) -> None:
    peer.publish(1, "q", BODY)
    got = peer.get("q", number=3)
    assert got is not None
    assert got.body == BODY
    peer.publish(1, "nowhere", BODY, mandatory=True)
    (returned,) = peer.receive()
    assert (returned.name, returned.body) == ("basic.return", BODY)
    assert broker.file_count == 1  # that of the message that is not acknowledged yet


def test_no_more_than_a_piece_is_written_in_a_turn(broker: LargeBroker, peer: Peer) -> None:
    begin_delivery(broker, peer)
    turns = 1
    while broker.scheduled:
        broker.run_turn()
        turns += 1
        assert len(peer.transport.written) < PIECE_BYTES + 100
        peer.transport.written = b""
    assert turns == 3


def test_four_channels_share_a_turn_and_the_others_come_next(
    broker: LargeBroker, peer: Peer
) -> None:
    for number in range(4, 7):
        peer.open(number)
    for number in range(1, 7):
        peer.publish(number, "q", BODY)
        peer.send(number, commands.Basic.Get, queue="q")
    broker.run_turn()
    first = frames_of(peer)
    broker.run_turn()
    second = frames_of(peer)
    assert sum(len(each.payload) for each in first) < 4 * PIECE_BYTES + 5000
    assert {each.channel for each in second} >= {5, 6}
    broker.run_turns()
    frames = first + second + frames_of(peer)
    for number in range(1, 7):
        assert [each.body for each in on_channel(frames, number)] == [BODY]


def test_nothing_is_written_to_a_socket_that_is_full(broker: LargeBroker, peer: Peer) -> None:
    begin_delivery(broker, peer)
    peer.connection.on_socket_full()
    broker.run_turns()
    assert peer.transport.written == b""
    peer.connection.on_socket_drained()
    broker.run_turns()
    assert peer.transport.written.endswith(BODY[-100:] + b"\xce")


# ------------------------------------------------------------------- who waits


def test_replies_on_its_channel_wait_and_those_on_others_do_not(
    broker: LargeBroker, peer: Peer
) -> None:
    begin_delivery(broker, peer)
    peer.send(2, commands.Queue.Declare, queue="new")
    peer.send(3, commands.Queue.Declare, queue="newer")
    broker.run_turn()
    frames = frames_of(peer)
    assert named(on_channel(frames, 3)) == ["queue.declare-ok"]
    assert {each.kind for each in frames if each.channel == 2} == {3}
    broker.run_turns()
    last = frames_of(peer)[-1]
    assert (last.channel, last.kind) == (2, 1)


def test_its_own_consumers_are_full_and_those_of_others_are_not(
    broker: LargeBroker, peer: Peer
) -> None:
    begin_delivery(broker, peer)
    peer.consume("other", "same", number=2)
    peer.consume("other", "elsewhere", number=3)
    peer.fill("other", b"1", b"2", b"3")
    broker.run_turn()
    assert [each.body for each in on_channel(frames_of(peer), 3)[1:]] == [b"1", b"2", b"3"]
    peer.fill("other", b"4", b"5")
    broker.run_turns()
    frames = frames_of(peer)
    assert [each.body for each in on_channel(frames, 3)] == [b"4", b"5"]
    peer.fill("other", b"6", b"7")  # now that it is free again
    received = peer.receive()
    assert {each.method.consumer_tag for each in received} == {"same", "elsewhere"}


def test_a_suspended_consumer_goes_on_when_the_content_has_left(
    broker: LargeBroker, peer: Peer
) -> None:
    begin_delivery(broker, peer)
    peer.consume("other", "same", number=2)
    peer.fill("other", b"1")
    broker.run_turns()
    frames = frames_of(peer)
    assert [each.kind for each in frames[-4:]] == [1, 1, HEADER, 3]  # consume-ok before it
    assert frames[-1].payload == b"1"


def test_confirms_of_its_channel_wait_and_stay_in_order(broker: LargeBroker, peer: Peer) -> None:
    peer.call(2, commands.Confirm.Select)
    peer.call(3, commands.Confirm.Select)
    begin_delivery(broker, peer)
    peer.publish(2, "other", b"a")
    peer.publish(3, "other", b"b")
    broker.run_turn()
    frames = frames_of(peer)
    assert named(on_channel(frames, 3)) == ["basic.ack"]
    peer.publish(2, "other", b"c")
    broker.run_turns()
    methods = [each for each in frames_of(peer) if each.kind == 1]
    assert len(methods) == 2  # one ack for each turn, and no body frame behind them
    assert [each.channel for each in methods] == [2, 2]


def test_small_ones_of_the_same_batch_keep_their_places(broker: LargeBroker, peer: Peer) -> None:
    bodies = [b"1", BODY, b"2", b"3", BODY[::-1], b"4"]
    peer.fill("q", *bodies)
    broker.run_turns()
    peer.consume("q", "c", number=2, no_ack=True)
    received = peer.receive()[1:]
    assert [each.body for each in received] == bodies
    assert [each.method.delivery_tag for each in received] == [1, 2, 3, 4, 5, 6]
    assert broker.file_count == 0


def test_two_consumers_of_one_channel_share_large_messages_in_order(
    broker: LargeBroker, peer: Peer
) -> None:
    peer.subscribe("q", "a", number=2)
    peer.subscribe("q", "b", number=2)
    bodies = [bytes([index]) * 100_000 for index in range(8)]
    peer.fill("q", *bodies)
    received = peer.receive()
    assert [each.body for each in received] == bodies


def test_replies_to_a_requester_wait_behind_a_large_one(broker: LargeBroker, peer: Peer) -> None:
    peer.subscribe("amq.rabbitmq.reply-to", "replies", number=2, no_ack=True)
    peer.publish(2, "q", b"request", properties=Properties(reply_to="amq.rabbitmq.reply-to"))
    request = peer.get("q")
    assert request is not None
    assert request.properties is not None
    address = request.properties.reply_to
    assert address is not None
    peer.publish(3, address, BODY)
    broker.run_turn()
    peer.publish(3, address, b"second")
    assert peer.bodies() == [BODY, b"second"]
    assert broker.file_count == 0


# ----------------------------------------------------------------------- lifetime


def test_three_queues_share_one_file_until_the_last_acknowledgement(
    broker: LargeBroker, peer: Peer
) -> None:
    for name in ("a", "b", "c"):
        peer.declare(name)
        peer.bind(name, "amq.fanout")
    peer.publish(1, "", BODY, exchange="amq.fanout")
    for tag, name in enumerate(("a", "b", "c"), 1):
        assert broker.file_count == 1
        got = peer.get(name)
        assert got is not None
        assert got.body == BODY
        peer.ack(tag)
    assert broker.file_count == 0


def test_what_is_put_back_comes_again_redelivered(broker: LargeBroker, peer: Peer) -> None:
    peer.publish(1, "q", BODY)
    for is_redelivered in (False, True, True):
        got = peer.get("q")
        assert got is not None
        assert (got.method.redelivered, got.body) == (is_redelivered, BODY)
        peer.nack(got.method.delivery_tag)
    assert broker.file_count == 1
    peer.call(1, commands.Queue.Purge, queue="q")
    assert broker.file_count == 0


def test_a_dead_letter_has_the_same_body(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("dead")
    peer.declare(
        "dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    peer.publish(1, "dying", BODY, properties=Properties(headers=Table({"mine": 1})))
    got = peer.get("dying")
    assert got is not None
    peer.nack(1, requeue=False)
    assert broker.file_count == 1
    letter = peer.get("dead")
    assert letter is not None
    assert letter.body == BODY
    assert letter.properties is not None
    headers = letter.properties.headers
    assert headers is not None
    assert headers["mine"] == 1
    assert headers["x-first-death-reason"] == "rejected"
    peer.ack(2)
    assert broker.file_count == 0


def test_a_dead_letter_that_expires_dies_again(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("end")
    peer.declare(
        "second",
        arguments={
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "end",
        },
    )
    peer.declare(
        "first", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"}
    )
    peer.publish(1, "first", BODY, properties=Properties(expiration="500"))
    broker.advance(0.6)
    broker.advance(1.1)
    letter = peer.get("end")
    assert letter is not None
    assert letter.properties is not None
    assert letter.properties.headers is not None
    deaths = letter.properties.headers["x-death"]
    assert isinstance(deaths, list)
    assert [death["queue"] for death in deaths] == ["second", "first"]
    assert letter.body == BODY


def test_the_delivery_count_is_written_and_the_body_stays(broker: LargeBroker, peer: Peer) -> None:
    peer.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    peer.publish(1, "quorum", BODY)
    first = peer.get("quorum")
    assert first is not None
    peer.nack(1)
    again = peer.get("quorum")
    assert again is not None
    assert again.body == BODY
    assert again.properties is not None
    assert again.properties.headers == {"x-delivery-count": 1}
    assert broker.file_count == 1


def test_octet_credit_counts_the_body(broker: LargeBroker, peer: Peer) -> None:
    peer.call(2, commands.Basic.Qos, prefetch_size=800_000, prefetch_count=0)
    peer.subscribe("q", "c", number=2)
    peer.fill("q", BODY, BODY)
    (first,) = peer.receive()
    peer.ack(first.method.delivery_tag, number=2)
    assert peer.bodies() == [BODY]


# -------------------------------------------------------------------------- ends


def test_a_client_that_closes_the_channel_gets_the_rest_first(
    broker: LargeBroker, peer: Peer
) -> None:
    begin_delivery(broker, peer)
    peer.send(2, commands.Channel.Close)
    peer.send(2, commands.Channel.Open)  # the number is free for the broker
    broker.run_turns()
    frames = frames_of(peer)
    assert [each.kind for each in frames[-3:]] == [3, 1, 1]
    assert named(on_channel(frames[-2:], 2)) == ["channel.close-ok", "channel.open-ok"]
    again = peer.get("q", number=2)
    assert again is not None
    assert (again.method.redelivered, again.body) == (True, BODY)


def test_an_error_ends_the_channel_behind_the_content_and_drops_what_waits(
    broker: LargeBroker, peer: Peer
) -> None:
    bodies = [bytes([index]) * 400_000 for index in range(5)]
    peer.fill("q", *bodies)
    for _ in bodies:
        peer.send(2, commands.Basic.Get, queue="q")
    broker.run_turn()
    peer.send(2, commands.Queue.Declare, queue="missing", passive=True)
    broker.run_turns()
    received = on_channel(frames_of(peer), 2)
    assert named(received) == ["basic.get-ok", "channel.close"]
    assert received[0].body == bodies[0]
    peer.send(2, commands.Channel.CloseOk)
    assert peer.drain("q") == bodies
    assert broker.file_count == 0


def test_other_channels_go_on_after_the_error_of_one(broker: LargeBroker, peer: Peer) -> None:
    begin_delivery(broker, peer)
    peer.send(2, commands.Queue.Declare, queue="missing", passive=True)
    peer.send(3, commands.Basic.Get, queue="other")
    broker.run_turn()
    assert named(on_channel(frames_of(peer), 3)) == ["basic.get-empty"]


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_connection_that_is_lost_half_way_puts_back_what_is_not_acknowledged(
    broker: LargeBroker, peer: Peer, no_ack: bool
) -> None:
    peer.publish(1, "q", BODY)
    broker.run_turns()
    peer.consume("q", "c", number=2, no_ack=no_ack)
    broker.run_turn()
    peer.lose()
    assert broker.file_count == (0 if no_ack else 1)
    assert broker.connect().drain("q") == ([] if no_ack else [BODY])


def test_connection_close_does_not_wait_for_the_content(broker: LargeBroker, peer: Peer) -> None:
    begin_delivery(broker, peer)
    peer.send(0, commands.Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert named(on_channel(frames_of(peer), 0)) == ["connection.close-ok"]
    assert peer.transport.state == "closed"


def test_a_body_that_cannot_be_read_ends_the_connection(broker: LargeBroker, peer: Peer) -> None:
    peer.publish(1, "q", BODY)
    broker.run_turns()
    (path,) = broker.directory.iterdir()
    octets = bytearray(path.read_bytes())
    octets[500_000] ^= 1
    path.write_bytes(octets)
    peer.send(1, commands.Basic.Get, queue="q")
    broker.run_turns()
    frames = frames_of(peer)
    assert sum(len(each.payload) for each in frames if each.kind == 3) < len(BODY)
    (close,) = on_channel(frames, 0)
    assert close.method.reply_code == 506
    assert os.fspath(path) in close.method.reply_text
    assert broker.queue("q").ready_count == 1


# ---------------------------------------------------------------------- the store


def test_nothing_of_it_is_written_before_the_store_knows_of_the_delivery(tmp_path: Path) -> None:
    store = FakeStore()
    broker = LargeBroker(tmp_path / "large", store=store)
    peer = broker.connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.publish(1, "d", BODY, properties=Properties(delivery_mode=2))
    broker.run_turns()
    store.sync_all()
    store.ledgers["d"].covers = 0
    peer.send(2, commands.Basic.Get, queue="d")
    broker.run_turns()
    assert peer.transport.written == b""
    store.sync()
    assert peer.bodies() == [BODY]


def test_a_confirm_of_a_large_message_waits_for_the_store(tmp_path: Path) -> None:
    store = FakeStore()
    broker = LargeBroker(tmp_path / "large", store=store)
    peer = broker.connect()
    peer.declare("d", durable=True)
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "d", BODY, properties=Properties(delivery_mode=2))
    peer.expect_nothing()
    store.sync()
    assert peer.expect(commands.Basic.Ack).delivery_tag == 1


def test_one_that_the_store_refuses_is_nacked_and_its_file_removed(tmp_path: Path) -> None:
    store = FakeStore()
    broker = LargeBroker(tmp_path / "large", store=store)
    peer = broker.connect()
    peer.declare("d", durable=True)
    peer.call(1, commands.Confirm.Select)
    store.fail("the disk is broken")
    peer.publish(1, "d", BODY, properties=Properties(delivery_mode=2))
    assert peer.expect(commands.Basic.Nack).delivery_tag == 1
    assert broker.file_count == 0


# -------------------------------------------------------------------------- floods


def test_who_asks_for_too_many_is_not_listened_to_until_they_have_left(
    broker: LargeBroker, peer: Peer
) -> None:
    count = WAITING_MAX_CONTENTS + 10
    bodies = [bytes([index]) * 70_000 for index in range(count)]
    peer.fill("q", *bodies)
    broker.run_turns()
    for _ in bodies:
        peer.send(2, commands.Basic.Get, queue="q", no_ack=True)
    assert not peer.is_read_from()
    assert broker.queue("q").ready_count == count - WAITING_MAX_CONTENTS - 1
    assert peer.bodies() == bodies
    assert peer.is_read_from()


def test_small_ones_behind_a_large_content_are_bounded_too(broker: LargeBroker, peer: Peer) -> None:
    count = 2 * WAITING_MAX_BYTES // 50_000
    peer.publish(1, "q", BODY * 6)
    peer.fill("other", *[b"x" * 50_000] * count)
    broker.run_turns()
    peer.send(2, commands.Basic.Get, queue="q")
    for _ in range(count):
        peer.send(2, commands.Basic.Get, queue="other", no_ack=True)
    for _ in range(5):
        broker.run_turn()
        assert broker.queue("other").ready_count > count // 3
        assert not peer.is_read_from()
    assert peer.bodies() == [BODY * 6] + [b"x" * 50_000] * count
    assert peer.is_read_from()


def test_returns_that_nobody_reads_stop_their_publisher(broker: LargeBroker, peer: Peer) -> None:
    peer.connection.on_socket_full()
    for _ in range(WAITING_MAX_CONTENTS + 1):
        assert peer.is_read_from()
        peer.publish(1, "nowhere", bytes(70_000), mandatory=True)
    broker.run_turns()
    assert not peer.is_read_from()
    peer.connection.on_socket_drained()
    assert len(peer.receive()) == WAITING_MAX_CONTENTS + 1
    assert peer.is_read_from()
    assert broker.file_count == 0
