"""Replies keep the order of their requests, though commit-ok has to wait for the disk."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from hareline.amqp import method_dispatch as dispatch
from hareline.amqp.backlog import BACKLOG_MAX_BYTES, FRAME_COST_BYTES
from hareline.amqp.output import OUTPUT_TURN_MAX_BYTES
from hareline.queues.queue import Queue
from hareline.turn import WORK_PER_S, WORK_PER_TURN, Receiving, Turn
from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.properties import Properties
from tests.support.stores import FakeStore

from .peer import Peer, RunningClock, SteppedBroker, frame, header_payload, publish_octets

PERSISTENT = Properties(delivery_mode=2)
BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx
CLOSE = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
COMMIT = encode_method(1, TX.Commit)
DECLARE = encode_method(1, QUEUE.Declare, queue="d", passive=True)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def peer(broker: SteppedBroker, store: FakeStore) -> Peer:
    """Channel 1 is transactional, queue d is durable and has b"0" to b"2", t is empty."""
    peer = broker.connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.declare("t")
    for number in range(3):
        peer.publish(2, "d", b"%d" % number, properties=PERSISTENT)
    broker.run_turns()
    store.sync_all()
    peer.expect_nothing()
    peer.call(1, TX.Select)
    return peer


def commit(peer: Peer, *behind: bytes) -> None:
    """Send a commit that waits for the disk, and in the same breath what comes behind it."""
    peer.send_octets(publish_octets(1, "d", b"x", PERSISTENT) + COMMIT + b"".join(behind))


def names(peer: Peer) -> list[str]:
    return [one.name for one in peer.receive()]


# ------------------------------------------------------------------------------------ the order


@pytest.mark.parametrize(
    ("method_class", "fields", "reply"),
    [
        (QUEUE.Declare, {"queue": "d", "passive": True}, "queue.declare-ok"),
        (QUEUE.Purge, {"queue": "t"}, "queue.purge-ok"),
        (BASIC.Get, {"queue": "d"}, "basic.get-ok"),
        (BASIC.Get, {"queue": "t"}, "basic.get-empty"),
        (BASIC.Qos, {"prefetch_count": 1}, "basic.qos-ok"),
        (BASIC.Recover, {"requeue": True}, "basic.recover-ok"),
        (BASIC.Cancel, {"consumer_tag": "nobody"}, "basic.cancel-ok"),
        (CHANNEL.Flow, {"active": True}, "channel.flow-ok"),
        (CHANNEL.Close, CLOSE, "channel.close-ok"),
        (TX.Rollback, {}, "tx.rollback-ok"),
        (TX.Select, {}, "tx.select-ok"),
        (TX.Commit, {}, "tx.commit-ok"),
    ],
)
@pytest.mark.parametrize("is_in_one_breath", [True, False])
def test_replies_come_behind_the_commit_ok_that_was_asked_for_before(
    peer: Peer,
    store: FakeStore,
    method_class: type[Frame],
    fields: dict[str, object],
    reply: str,
    is_in_one_breath: bool,
) -> None:
    behind = encode_method(1, method_class, **fields)
    if is_in_one_breath:
        commit(peer, behind)
    else:
        commit(peer)
        peer.expect_nothing()
        peer.send_octets(behind)
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", reply]


def test_a_consumer_begins_behind_the_commit_and_its_consume_ok_comes_first(
    peer: Peer, store: FakeStore
) -> None:
    commit(peer, encode_method(1, BASIC.Consume, queue="d", consumer_tag="c"))
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", "basic.consume-ok", *["basic.deliver"] * 4]


def test_deliveries_go_on_while_a_commit_waits(peer: Peer, store: FakeStore) -> None:
    peer.subscribe("t", "c")
    commit(peer, DECLARE)
    peer.publish(2, "t", b"meanwhile")
    assert peer.bodies() == [b"meanwhile"]
    store.sync()
    assert names(peer) == ["tx.commit-ok", "queue.declare-ok"]


def test_no_delivery_follows_the_cancel_ok_of_a_cancel_that_waits(
    peer: Peer, store: FakeStore
) -> None:
    peer.subscribe("t", "c")
    commit(peer, encode_method(1, BASIC.Cancel, consumer_tag="c"))
    peer.publish(2, "t", b"1")
    assert peer.bodies() == [b"1"]
    store.sync()
    assert names(peer) == ["tx.commit-ok", "basic.cancel-ok"]
    peer.publish(2, "t", b"2")
    peer.expect_nothing()


def test_other_channels_and_connections_do_not_wait(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    other = broker.connect()
    commit(peer, DECLARE)
    for one, number in ((peer, 2), (other, 1)):
        declared = one.call(number, QUEUE.Declare, queue="d", passive=True)
        assert declared.message_count == 4
    store.sync()
    assert names(peer) == ["tx.commit-ok", "queue.declare-ok"]


def test_what_comes_behind_a_commit_is_part_of_the_next_transaction(
    peer: Peer, store: FakeStore
) -> None:
    """Acknowledgements would take a lane of the decoder, and overtake what was kept."""
    first, second = peer.get("d"), peer.get("d")
    assert first is not None
    assert second is not None
    commit(
        peer,
        publish_octets(1, "d", b"y", PERSISTENT),
        encode_method(1, BASIC.Ack, delivery_tag=first.method.delivery_tag),
        encode_method(1, TX.Rollback),
        encode_method(1, BASIC.Ack, delivery_tag=second.method.delivery_tag),
        COMMIT,
    )
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", "tx.rollback-ok"]
    assert store.ledgers["d"].settled == [1]
    assert peer.broker.queue("d").ready_count == 2  # b"2" and b"x"
    store.sync()
    peer.expect(TX.CommitOk)
    peer.ack(first.method.delivery_tag)
    peer.send_octets(COMMIT)
    peer.expect_nothing()
    store.sync()
    peer.expect(TX.CommitOk)
    assert store.ledgers["d"].settled == [1, 0]


def test_a_commit_behind_a_commit_keeps_what_is_behind_both(peer: Peer, store: FakeStore) -> None:
    commit(peer, publish_octets(1, "d", b"y", PERSISTENT), COMMIT, DECLARE)
    peer.expect_nothing()
    store.sync()
    peer.expect(TX.CommitOk)
    peer.send_octets(DECLARE)
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", *["queue.declare-ok"] * 2]


def test_a_content_may_be_cut_anywhere_by_the_end_of_the_wait(peer: Peer, store: FakeStore) -> None:
    octets = publish_octets(1, "t", b"body")
    method = octets[: octets.index(frame(2, 1, header_payload(4)))]
    commit(peer, method)
    peer.expect_nothing()
    store.sync()
    peer.expect(TX.CommitOk)
    peer.send_octets(octets[len(method) :] + COMMIT)
    peer.expect(TX.CommitOk)
    assert peer.drain("t") == [b"body"]


def test_the_end_of_an_alarm_lets_nothing_overtake(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    received = peer.get("d")
    assert received is not None
    commit(peer, encode_method(1, QUEUE.Declare, queue="new"))
    broker.context.alarms.set("memory")
    broker.context.alarms.clear("memory")
    peer.ack(received.method.delivery_tag)
    peer.send_octets(COMMIT)
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", "queue.declare-ok"]
    store.sync()
    peer.expect(TX.CommitOk)
    assert store.ledgers["d"].settled == [0]


# --------------------------------------------------------------------------- errors and the end


def test_an_error_behind_a_commit_closes_the_channel_behind_its_commit_ok(
    peer: Peer, store: FakeStore
) -> None:
    missing = encode_method(1, QUEUE.Declare, queue="missing", passive=True)
    commit(peer, missing, DECLARE, encode_method(1, CHANNEL.CloseOk))
    peer.expect_nothing()
    store.sync()
    commit_ok, close = peer.receive()
    assert (commit_ok.name, close.name) == ("tx.commit-ok", "channel.close")
    assert (close.method.reply_code, close.method.class_id, close.method.method_id) == (404, 50, 10)
    peer.open(1)


def test_an_error_of_the_connection_behind_a_commit_comes_behind_its_commit_ok(
    peer: Peer, store: FakeStore
) -> None:
    commit(peer, encode_method(1, CHANNEL.Open), DECLARE)
    peer.expect_nothing()
    store.sync()
    commit_ok, close = peer.receive()
    assert (commit_ok.name, close.name) == ("tx.commit-ok", "connection.close")
    assert (close.method.reply_code, close.method.class_id, close.method.method_id) == (504, 20, 10)
    peer.send(0, commands.Connection.CloseOk)
    assert peer.transport.state == "closed"


def test_a_channel_may_close_and_its_number_be_used_again_behind_a_commit(
    peer: Peer, store: FakeStore
) -> None:
    commit(
        peer,
        encode_method(1, CHANNEL.Close, **CLOSE),
        encode_method(1, CHANNEL.Open),
        DECLARE,
        publish_octets(1, "t", b"no transaction"),
    )
    peer.expect_nothing()
    store.sync()
    assert names(peer) == [
        "tx.commit-ok",
        "channel.close-ok",
        "channel.open-ok",
        "queue.declare-ok",
    ]
    assert peer.drain("t") == [b"no transaction"]


def test_a_store_that_fails_is_told_before_anything_behind_the_commit(
    peer: Peer, store: FakeStore
) -> None:
    commit(peer, DECLARE, encode_method(1, CHANNEL.Close, **CLOSE))
    peer.expect_nothing()
    store.fail("broken")
    close, close_ok = peer.receive()
    assert (close.name, close.method.reply_code) == ("channel.close", 506)
    assert close_ok.name == "channel.close-ok"
    peer.send(1, CHANNEL.CloseOk)
    peer.open(1)


def test_the_connection_closes_behind_its_commits(peer: Peer, store: FakeStore) -> None:
    """Whatever a client has asked for before is carried out, as if it had waited."""
    commit(peer, publish_octets(1, "d", b"y", PERSISTENT), COMMIT)
    peer.send(0, commands.Connection.Close, **CLOSE)
    peer.expect_nothing()
    store.sync()
    peer.expect(TX.CommitOk)
    assert peer.transport.state == "open"
    store.sync()
    assert names(peer) == ["tx.commit-ok", "connection.close-ok"]
    assert peer.transport.state == "closed"
    assert peer.broker.queue("d").ready_count == 5


def test_a_connection_that_closes_behind_a_commit_is_ended_by_an_operator_too(
    peer: Peer, store: FakeStore
) -> None:
    commit(peer)
    peer.send(0, commands.Connection.Close, **CLOSE)
    peer.expect_nothing()
    peer.connection.force_close("shutdown")
    peer.expect(commands.Connection.CloseOk)
    assert peer.transport.state == "closed"
    store.sync()
    peer.expect_nothing()


def test_a_lost_connection_leaves_nothing_behind(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit(peer, publish_octets(1, "d", b"y", PERSISTENT), COMMIT)
    peer.expect_nothing()
    peer.lose()
    store.sync()
    broker.run_turns()
    assert broker.queue("d").ready_count == 4  # the commit that was carried out
    assert peer.transport.written == b""


# ------------------------------------------------------------------------------------ the bounds


def test_a_client_that_sends_on_and_on_is_not_read_from(peer: Peer, store: FakeStore) -> None:
    count = BACKLOG_MAX_BYTES // FRAME_COST_BYTES
    commit(peer)
    sent = 0
    while peer.is_read_from():
        peer.send_octets(DECLARE * 100)
        sent += 100
        assert sent <= count
    peer.send_octets(DECLARE)  # what the socket had
    peer.expect_nothing()
    assert not peer.is_read_from()
    store.sync()
    received = names(peer)
    assert received == ["tx.commit-ok", *["queue.declare-ok"] * (sent + 1)]
    assert peer.is_read_from()


def test_a_client_that_is_not_read_from_for_one_channel_goes_on_when_that_is_answered(
    peer: Peer, store: FakeStore
) -> None:
    """Also if what was kept asks for no reply, so that nothing is written."""
    commit(peer)
    while peer.is_read_from():
        peer.send_octets(publish_octets(1, "t", bytes(10_000)))
    peer.send_octets(encode_method(2, QUEUE.Declare, queue="t", passive=True))
    peer.expect_nothing()
    store.sync()
    assert names(peer) == ["tx.commit-ok", "queue.declare-ok"]
    assert peer.is_read_from()


def test_what_was_kept_is_handled_in_shares_of_time() -> None:
    store = FakeStore()
    broker = SteppedBroker(store=store, clock=RunningClock())
    peer = broker.connect()
    peer.declare("d", durable=True)
    peer.call(1, TX.Select)
    other = broker.connect()
    commit(peer, DECLARE * 50)
    peer.expect_nothing()
    store.sync()
    most = 0
    total = 0
    while total < 51:
        other.send_octets(DECLARE)
        broker.scheduled.pop(0)()  # one turn
        octets, peer.transport.written = peer.transport.written, b""
        replies = octets.count(b"\xce")
        total += replies
        most = max(most, replies)
        assert other.transport.written, "somebody else has to wait"
        other.transport.written = b""
    assert 1 < most < 10


def test_what_was_asked_for_behind_a_commit_waits_for_room_in_the_output(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    size = OUTPUT_TURN_MAX_BYTES // 4
    for _ in range(20):
        peer.publish(2, "t", bytes(size))
    commit(peer, encode_method(1, BASIC.Get, queue="t", no_ack=True) * 20)
    peer.expect_nothing()
    store.sync()
    written = []
    while broker.scheduled:
        broker.scheduled.pop(0)()
        written.append(len(peer.transport.written))
    assert max(after - before for before, after in pairwise(written)) <= (
        OUTPUT_TURN_MAX_BYTES + size + 1000
    )
    assert names(peer) == ["tx.commit-ok", *["basic.get-ok"] * 20]


def test_a_socket_that_is_full_stops_what_was_kept_and_goes_on_when_it_has_drained(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit(peer, DECLARE)
    peer.expect_nothing()
    peer.connection.on_socket_full()
    store.sync()
    peer.expect(TX.CommitOk)  # it is in the socket's buffer
    peer.connection.on_socket_drained()
    peer.expect(QUEUE.DeclareOk)


# ------------------------------------------------------------- and other reasons to hold the input


def test_what_waits_behind_hundreds_of_commits_is_handled_in_shares_of_a_turn(
    broker: SteppedBroker, peer: Peer, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    broker.turn.now = lambda: now[0]
    deliver_due = Queue.deliver_due

    def slowly(queue: Queue) -> None:
        now[0] += 0.0001
        deliver_due(queue)

    monkeypatch.setattr(Queue, "deliver_due", slowly)
    peers = [broker.connect() for _ in range(100)]
    for each in peers:
        each.call(1, TX.Select)
        commit(each, DECLARE * 20)
    broker.run_turns()
    store.sync_all()
    handled_s = []
    while broker.scheduled:
        before_s = now[0]
        broker.scheduled.pop(0)()
        handled_s.append(now[0] - before_s)
    assert max(handled_s) * WORK_PER_S <= 2 * WORK_PER_TURN
    assert len(handled_s) >= 5
    assert {len(each.receive()) for each in peers} == {21}


LARGE = publish_octets(1, "d", b"x" * 100_000, PERSISTENT)


class Greedy(Receiving):
    """Another client, whose input is all that so many turns may read."""

    def __init__(self, turn: Turn, turns: int) -> None:
        self._turn = turn
        self._turns = turns
        turn.wait_in_line(self)

    def go_on(self) -> None:
        self._turn.work += WORK_PER_TURN
        self._turns -= 1
        if self._turns:
            self._turn.wait_in_line(self)


def commit_with_much_behind(peer: Peer) -> None:
    commit(peer)
    for _ in range(BACKLOG_MAX_BYTES // len(LARGE) + 1):
        peer.send_octets(LARGE)
    peer.send_octets(LARGE * 2 + DECLARE)
    peer.broker.run_turns()
    assert not peer.is_read_from()


@pytest.mark.parametrize("capabilities", [{}, {"connection.blocked": True}])
def test_much_that_waits_behind_a_commit_goes_on_after_an_alarm(
    broker: SteppedBroker, store: FakeStore, capabilities: dict[str, object]
) -> None:
    peer = broker.connect(channels=(1,), capabilities=capabilities)
    peer.declare("d", durable=True)
    peer.call(1, TX.Select)
    commit_with_much_behind(peer)
    broker.context.alarms.set("memory")
    broker.run_turns()
    store.sync_all()
    assert "queue.declare-ok" not in names(peer)
    broker.context.alarms.clear("memory")
    assert "queue.declare-ok" in names(peer)
    assert peer.is_read_from()


def test_much_that_waits_behind_a_commit_goes_on_beside_busy_clients(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit_with_much_behind(peer)
    for _ in range(3):
        Greedy(broker.turn, 3)
    store.sync_all()
    assert "queue.declare-ok" in names(peer)
    assert peer.is_read_from()


def test_what_waits_behind_a_commit_has_a_whole_share_of_a_turn_beside_a_busy_client(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit(peer, publish_octets(1, "t", b"x") * 100, DECLARE)
    broker.run_turns()
    Greedy(broker.turn, 1000)
    store.sync_all()
    peer.transport.written = b""
    turns = 0
    while b"\x01d" not in peer.transport.written:
        broker.scheduled.pop(0)()
        turns += 1
        assert turns < 20


def test_publishes_that_wait_behind_a_commit_block_their_connection_in_an_alarm(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit(peer)
    broker.context.alarms.set("memory")
    peer.send_octets(publish_octets(1, "t", b"x"))
    assert names(peer) == ["connection.blocked"]
    assert not peer.is_read_from()


def test_the_backlogs_of_all_channels_have_one_bound(
    broker: SteppedBroker, store: FakeStore
) -> None:
    channels = range(1, 20)
    peer = broker.connect(channels=channels)
    peer.declare("d", durable=True)
    part = BACKLOG_MAX_BYTES // 10 + 1
    sent = 0
    for number in channels:
        peer.call(number, TX.Select)
        peer.publish(number, "d", b"x", properties=PERSISTENT)
        peer.send(number, TX.Commit)
    for number in channels:
        if peer.is_read_from():
            peer.send_octets(publish_octets(number, "d", bytes(part)))
            sent += part
    assert BACKLOG_MAX_BYTES < sent <= BACKLOG_MAX_BYTES + part
    broker.run_turns()
    store.sync_all()
    assert names(peer) == ["tx.commit-ok"] * len(channels)
    assert peer.is_read_from()


def test_a_bug_in_what_waited_behind_a_commit_closes_the_connection(
    broker: SteppedBroker, peer: Peer, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    commit(peer, encode_method(1, QUEUE.Purge, queue="d"), DECLARE)
    peer.expect_nothing()
    monkeypatch.setitem(cast("dict[object, object]", dispatch.HANDLERS), QUEUE.Purge, broken)
    store.sync_all()
    ok, closed = peer.receive()
    assert (ok.name, closed.name) == ("tx.commit-ok", "connection.close")
    assert closed.method.reply_code == 541


def test_a_close_behind_a_commit_does_not_wait_for_the_end_of_an_alarm(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    commit(peer, publish_octets(1, "t", b"x"), encode_method(0, commands.Connection.Close, **CLOSE))
    broker.context.alarms.set("memory")
    broker.run_turns()
    store.sync_all()
    assert names(peer) == ["tx.commit-ok", "connection.close-ok"]
    assert broker.queue("t").ready_count == 0
