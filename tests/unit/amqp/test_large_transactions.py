"""Commits and rollbacks that are too much for one turn: in shares, in order, to the end."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.amqp.transactions import ENTRIES_PER_LOOK
from hareline.storage.interface import StoreTransaction
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from tests.support.stores import FakeStore

from .peer import Peer, RunningClock, SteppedBroker, publish_octets

BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx
PERSISTENT = Properties(delivery_mode=2)
CLOSE = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
COUNT = 40 * ENTRIES_PER_LOOK
COMMIT = encode_method(1, TX.Commit)
DECLARE = encode_method(1, QUEUE.Declare, queue="d", passive=True)


class Stretches(StoreTransaction):
    """Writes down how often it was entered, and what was added and settled meanwhile."""

    __slots__ = ("added", "before", "is_finished", "settled", "shares", "store")

    def __init__(self, store: KeepingStore) -> None:
        self.store = store
        self.shares = 0
        self.added = 0
        self.settled = 0
        self.before: tuple[int, int] | None = None
        self.is_finished = False

    def enter(self) -> None:
        assert self.before is None
        self.shares += 1
        self.before = self.store.told()

    def leave(self) -> None:
        assert self.before is not None
        assert not self.is_finished
        added, settled = self.store.told()
        self.added += added - self.before[0]
        self.settled += settled - self.before[1]
        self.before = None

    def finish(self) -> None:
        assert self.before is None
        self.is_finished = True


class KeepingStore(FakeStore):
    """Remembers its transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[Stretches] = []

    def begin_transaction(self) -> Stretches:
        self.transactions.append(Stretches(self))
        return self.transactions[-1]

    def told(self) -> tuple[int, int]:
        ledgers = self.ledgers.values()
        return sum(len(each.added) for each in ledgers), sum(len(each.settled) for each in ledgers)


@pytest.fixture
def store() -> KeepingStore:
    return KeepingStore()


@pytest.fixture
def broker(store: KeepingStore) -> SteppedBroker:
    return SteppedBroker(store=store, clock=RunningClock())


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    """Channel 1 is transactional; d is durable, t is not."""
    peer = broker.connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.declare("t")
    peer.call(1, TX.Select)
    return peer


def publish(peer: Peer, count: int = COUNT, queue: str = "d", **fields: Any) -> None:
    peer.send_octets(publish_octets(1, queue, b"x", PERSISTENT, **fields) * count)


def one_turn(broker: SteppedBroker) -> None:
    broker.scheduled.pop(0)()


def sync_to_the_end(peer: Peer, store: KeepingStore) -> list[str]:
    """Let the disk work until nothing more comes; the names of all that has come."""
    names = [one.name for one in peer.receive()]
    while store.is_writing:
        store.sync()
        names += [one.name for one in peer.receive()]
    return names


def take_all(peer: Peer, store: KeepingStore, count: int = COUNT) -> None:
    """``count`` messages are in the queue and with channel 1, with tags from 1 on."""
    peer.send_octets(publish_octets(2, "d", b"x", PERSISTENT) * count)
    sync_to_the_end(peer, store)
    peer.consume("d", "c")
    assert len(peer.receive()) == count + 1


# ---------------------------------------------------------------------------------------- commits


def test_a_large_commit_takes_many_turns_in_which_others_are_served(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    other = broker.connect()
    publish(peer, queue="t")
    peer.send_octets(COMMIT)
    turns = 0
    while broker.queue("t").ready_count < COUNT:
        before = broker.queue("t").ready_count
        other.send_octets(DECLARE)
        one_turn(broker)
        assert other.transport.written, "somebody else has to wait"
        other.transport.written = b""
        assert broker.queue("t").ready_count - before <= 5 * ENTRIES_PER_LOOK
        assert not broker.turn.is_behind, "publishers are made to pause"
        turns += 1
    assert turns >= 10
    peer.expect(TX.CommitOk)


def test_all_of_it_is_one_transaction_of_the_store(peer: Peer, store: KeepingStore) -> None:
    take_all(peer, store)
    publish(peer)
    peer.ack(COUNT, multiple=True)
    peer.send_octets(COMMIT)
    names = sync_to_the_end(peer, store)
    assert sorted(names) == [*["basic.deliver"] * COUNT, "tx.commit-ok"]
    (transaction,) = store.transactions
    assert (transaction.added, transaction.settled) == (COUNT, COUNT)
    assert transaction.shares > 10
    assert transaction.is_finished


def test_a_small_commit_is_done_at_once_and_needs_none(peer: Peer, store: KeepingStore) -> None:
    publish(peer, ENTRIES_PER_LOOK // 2)
    peer.send_octets(COMMIT)
    assert peer.broker.queue("d").ready_count == ENTRIES_PER_LOOK // 2
    assert sync_to_the_end(peer, store) == ["tx.commit-ok"]
    assert store.transactions == []


def test_the_answer_follows_the_batch_with_the_last_of_it(peer: Peer, store: KeepingStore) -> None:
    publish(peer)
    peer.send_octets(COMMIT + DECLARE)
    while peer.broker.queue("d").ready_count < COUNT:
        peer.expect_nothing()
        store.sync()
    peer.expect_nothing()
    names = sync_to_the_end(peer, store)
    assert names == ["tx.commit-ok", "queue.declare-ok"]
    assert len(store.batches) > 3, "the disk had nothing to do meanwhile"
    assert max(store.batches) < COUNT // 2, "a batch has more than a few shares"


def test_what_comes_behind_waits_for_a_commit_that_concerns_no_disk_too(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    publish(peer, queue="t")
    peer.send_octets(COMMIT + encode_method(1, QUEUE.Declare, queue="t", passive=True))
    one_turn(broker)
    assert peer.transport.written == b""
    commit_ok, declare_ok = peer.receive()
    assert (commit_ok.name, declare_ok.method.message_count) == ("tx.commit-ok", COUNT)


def test_a_commit_that_concerns_no_disk_does_not_wait_for_a_disk_that_is_slow(
    peer: Peer, store: KeepingStore
) -> None:
    peer.send_octets(publish_octets(2, "d", b"x", PERSISTENT))
    peer.expect_nothing()
    assert store.is_writing
    publish(peer, queue="t")
    peer.send_octets(COMMIT)
    peer.expect(TX.CommitOk)


def test_a_next_transaction_begins_behind_it(peer: Peer) -> None:
    publish(peer, queue="t")
    peer.send_octets(COMMIT)
    publish(peer, 1, queue="t")
    peer.send_octets(encode_method(1, TX.Rollback))
    publish(peer, 2, queue="t")
    peer.send_octets(COMMIT)
    assert [one.name for one in peer.receive()] == [
        "tx.commit-ok",
        "tx.rollback-ok",
        "tx.commit-ok",
    ]
    assert peer.broker.queue("t").ready_count == COUNT + 2


def test_returns_come_in_front_of_the_answer(peer: Peer) -> None:
    publish(peer, queue="nowhere", mandatory=True)
    peer.send_octets(COMMIT)
    names = [one.name for one in peer.receive()]
    assert names == [*["basic.return"] * COUNT, "tx.commit-ok"]


def test_a_large_commit_may_be_partial(peer: Peer) -> None:
    limits = {"x-max-length": COUNT - 1, "x-overflow": "reject-publish"}
    peer.declare("full", arguments=limits)
    publish(peer, queue="full")
    publish(peer, 1, queue="t")
    peer.send_octets(COMMIT + encode_method(1, QUEUE.Declare, queue="t", passive=True))
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 406)
    assert refusal.text == "PRECONDITION_FAILED - partial tx completion"
    assert (refusal.class_id, refusal.method_id) == (90, 20)
    assert peer.broker.queue("t").ready_count == 1
    peer.open(1)


@pytest.mark.parametrize("way", ["ack", "multiple", "reject", "requeue"])
def test_a_large_commit_of_settlements(
    broker: SteppedBroker, peer: Peer, store: KeepingStore, way: str
) -> None:
    take_all(peer, store)
    peer.call(1, BASIC.Cancel, consumer_tag="c")
    if way == "ack":
        for tag in reversed(range(1, COUNT + 1)):
            peer.ack(tag)
    elif way == "multiple":
        peer.ack(COUNT, multiple=True)
    else:
        peer.nack(COUNT, multiple=True, requeue=way == "requeue")
    peer.send_octets(COMMIT)
    one_turn(broker)
    assert 0 < broker.queue("d").unacked_count < COUNT
    assert sync_to_the_end(peer, store) == ["tx.commit-ok"]
    queue = broker.queue("d")
    assert queue.unacked_count == 0
    assert queue.ready_count == (COUNT if way == "requeue" else 0)


# -------------------------------------------------------------------------- once begun, to the end


def begin(broker: SteppedBroker, peer: Peer, *, queue: str = "d") -> None:
    """A commit of which a part is carried out."""
    publish(peer, queue=queue)
    peer.send_octets(COMMIT)
    one_turn(broker)
    assert 0 < broker.queue(queue).ready_count < COUNT


def test_a_lost_connection_does_not_stop_it(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    publish(peer, 10, queue="nowhere", mandatory=True)
    begin(broker, peer)
    publish(peer, 10)
    peer.lose()
    store.sync_all()
    broker.run_turns()
    store.sync_all()
    broker.run_turns()
    while store.is_writing:
        store.sync()
        broker.run_turns()
    assert broker.queue("d").ready_count == COUNT
    (transaction,) = store.transactions
    assert (transaction.added, transaction.is_finished) == (COUNT, True)


def test_acknowledgements_that_were_committed_stay_so_when_the_connection_is_lost(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    take_all(peer, store, COUNT + 1)
    peer.ack(COUNT, multiple=True)
    peer.send_octets(COMMIT)
    one_turn(broker)
    peer.lose()
    sync_to_the_end(peer, store)
    queue = broker.queue("d")
    assert (queue.unacked_count, queue.ready_count) == (0, 1)


def test_full_queues_do_not_stop_a_publisher_that_is_gone(
    broker: SteppedBroker, peer: Peer
) -> None:
    limits = {"x-max-length": 10, "x-overflow": "flow-control"}
    peer.declare("full", arguments=limits)
    begin(broker, peer, queue="full")
    peer.lose()
    assert broker.queue("full").ready_count == COUNT
    other = broker.connect()
    assert len(other.drain("full")) == COUNT


def test_the_connection_closes_behind_it(peer: Peer, store: KeepingStore) -> None:
    publish(peer)
    peer.send_octets(COMMIT)
    peer.send(0, commands.Connection.Close, **CLOSE)
    assert sync_to_the_end(peer, store) == ["tx.commit-ok", "connection.close-ok"]
    assert peer.broker.queue("d").ready_count == COUNT


def test_a_store_that_has_no_more_room_does_not_divide_it(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    """It is in memory then, and waits for room like what the broker itself adds."""
    begin(broker, peer)
    store.refuse("no space left on device")
    broker.run_turns()
    store.refuse("")
    assert sync_to_the_end(peer, store) == ["tx.commit-ok"]
    assert broker.queue("d").ready_count == COUNT


def test_a_store_that_fails_meanwhile_is_told_at_the_end(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    begin(broker, peer)
    store.fail("broken")
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 506)
    assert "it is unknown whether the transaction was stored: broken" in refusal.text
    assert (refusal.class_id, refusal.method_id) == (90, 20)
    assert broker.queue("d").ready_count == COUNT


def test_a_queue_may_be_deleted_meanwhile(broker: SteppedBroker, peer: Peer) -> None:
    begin(broker, peer, queue="t")
    peer.send(2, QUEUE.Delete, queue="t")
    assert [one.name for one in peer.receive()] == ["queue.delete-ok", "tx.commit-ok"]


def test_a_broker_that_stops_carries_it_out(
    broker: SteppedBroker, peer: Peer, store: KeepingStore
) -> None:
    begin(broker, peer)
    peer.connection.force_close("shutdown")
    broker.context.shares.finish()
    (transaction,) = store.transactions
    assert transaction.is_finished
    assert broker.queue("d").ready_count == COUNT


# -------------------------------------------------------------------------------------- rollbacks


def test_a_large_rollback_takes_many_turns(broker: SteppedBroker, peer: Peer) -> None:
    other = broker.connect()
    publish(peer, queue="t")
    peer.send_octets(encode_method(1, TX.Rollback) + DECLARE)
    turns = 0
    while peer.transport.written == b"":
        other.send_octets(DECLARE)
        one_turn(broker)
        assert other.transport.written
        other.transport.written = b""
        turns += 1
    assert turns >= 5
    assert [one.name for one in peer.receive()] == ["tx.rollback-ok", "queue.declare-ok"]
    assert broker.queue("t").ready_count == 0


def test_a_large_rollback_puts_every_delivery_back(peer: Peer, store: KeepingStore) -> None:
    take_all(peer, store)
    for tag in range(COUNT, 0, -2):
        peer.ack(tag)
    peer.call(1, TX.Rollback)
    assert peer.broker.queue("d").unacked_count == COUNT
    peer.ack(COUNT // 2, multiple=True)
    peer.ack(0, multiple=True)
    peer.send_octets(COMMIT)
    assert sync_to_the_end(peer, store) == ["tx.commit-ok"]
    assert peer.broker.queue("d").unacked_count == 0


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_channel_that_ends_with_a_large_transaction_gives_everything_back(
    broker: SteppedBroker, peer: Peer, store: KeepingStore, is_begun: bool
) -> None:
    take_all(peer, store)
    publish(peer)
    peer.ack(COUNT, multiple=True)
    if is_begun:
        peer.send_octets(encode_method(1, TX.Rollback))
        one_turn(broker)
    peer.lose()
    queue = broker.queue("d")
    assert (queue.ready_count, queue.unacked_count) == (COUNT, 0)


def test_a_rollback_of_the_qpid_dialect_gives_back_behind_its_answer(
    broker: SteppedBroker, store: KeepingStore
) -> None:
    peer = broker.connect(qpid="client", channels=(1, 2))
    peer.declare("d", durable=True)
    peer.call(1, TX.Select)
    take_all(peer, store)
    peer.ack(COUNT // 2, multiple=True)
    peer.send_octets(encode_method(1, TX.Rollback))
    rollback_ok, *again = peer.receive()
    assert rollback_ok.name == "tx.rollback-ok"
    assert len(again) == COUNT
    assert all(one.method.redelivered for one in again)
