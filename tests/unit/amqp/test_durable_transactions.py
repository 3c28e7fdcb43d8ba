"""tx.commit-ok follows the durable position, and a commit is in one batch or refused."""

from __future__ import annotations

import pytest

from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from tests.support.stores import FakeStore

from .peer import Peer, SteppedBroker, publish_octets

PERSISTENT = Properties(delivery_mode=2)
COMMIT, COMMIT_OK = commands.Tx.Commit, commands.Tx.CommitOk
FULL = "no space left on device"


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    """Channel 1 is transactional, channel 2 is not; queue d is durable and has three messages."""
    peer = broker.connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.declare("t")
    keep(peer, 2, 3)
    broker.run_turns()
    store = broker.store
    assert isinstance(store, FakeStore)
    store.sync_all()
    peer.expect_nothing()
    peer.call(1, commands.Tx.Select)
    return peer


def keep(peer: Peer, number: int = 1, count: int = 1, queue: str = "d") -> None:
    peer.send_octets(publish_octets(number, queue, b"x", PERSISTENT) * count)


def test_a_commit_is_answered_when_its_publishes_are_durable(peer: Peer, store: FakeStore) -> None:
    keep(peer, count=100)
    peer.expect_nothing()
    assert store.pending == []
    peer.send(1, COMMIT)
    peer.expect_nothing()
    assert store.batches[-1] == 100
    store.sync()
    peer.expect(COMMIT_OK)


def test_a_commit_waits_for_its_own_batch(peer: Peer, store: FakeStore) -> None:
    keep(peer, 2)
    peer.expect_nothing()
    keep(peer)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    store.sync()  # that of the other channel
    peer.expect_nothing()
    store.sync()
    peer.expect(COMMIT_OK)


def test_publishes_and_acknowledgements_of_a_commit_are_in_one_batch(
    peer: Peer, store: FakeStore
) -> None:
    received = peer.get("d")
    assert received is not None
    keep(peer, count=2)
    peer.ack(received.method.delivery_tag)
    peer.expect_nothing()
    before = len(store.batches)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    assert store.ledgers["d"].settled == [0]
    assert store.batches[before:] == [2]
    store.sync()
    peer.expect(COMMIT_OK)
    assert len(store.batches) == before + 1


def test_a_commit_of_acknowledgements_waits_for_them(peer: Peer, store: FakeStore) -> None:
    received = peer.get("d")
    # differs: commit-durable
    assert received is not None
    peer.ack(received.method.delivery_tag)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    store.sync()
    peer.expect(COMMIT_OK)


def test_a_commit_that_concerns_nothing_durable_waits_for_nobody(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer, 2)
    peer.expect_nothing()
    assert store.is_writing
    peer.call(1, COMMIT)
    peer.publish(1, "d", b"x")
    keep(peer, queue="t")
    peer.call(1, COMMIT)
    assert peer.broker.queue("d").ready_count == 5


def test_each_of_several_commits_is_answered_when_it_is_durable(
    peer: Peer, store: FakeStore
) -> None:
    before = len(store.batches)
    for _ in range(3):
        keep(peer)
        peer.send(1, COMMIT)
    peer.expect_nothing()
    for count in (1, 2, 3):
        assert len(store.batches) == before + count
        store.sync()
        peer.expect(COMMIT_OK)
    assert peer.broker.queue("d").ready_count == 6


def test_a_rollback_stores_nothing(peer: Peer, store: FakeStore) -> None:
    before = list(store.batches)
    keep(peer, count=3)
    peer.call(1, commands.Tx.Rollback)
    assert store.batches == before
    assert store.pending == []
    peer.call(1, COMMIT)


# --------------------------------------------------------------------------- refusals


def test_a_commit_is_refused_as_a_whole_while_nothing_new_is_taken(
    peer: Peer, store: FakeStore
) -> None:
    received = peer.get("d")
    assert received is not None
    peer.ack(received.method.delivery_tag)
    keep(peer, queue="t")
    keep(peer)
    store.refuse(FULL)
    code, text = peer.refused(1, COMMIT)
    assert code == 506
    assert text == f"RESOURCE_ERROR - transaction not committed, it cannot be stored: {FULL}"
    assert store.ledgers["d"].settled == []
    assert peer.broker.queue("t").ready_count == 0
    assert peer.broker.queue("d").ready_count == 3


def test_commits_without_anything_to_keep_go_on_meanwhile(peer: Peer, store: FakeStore) -> None:
    received = peer.get("d")
    assert received is not None
    store.refuse(FULL)
    keep(peer, queue="t")
    peer.ack(received.method.delivery_tag)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    store.sync()
    peer.expect(COMMIT_OK)


def test_what_was_refused_is_not_remembered_by_the_next_transaction(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer)
    peer.call(1, commands.Tx.Rollback)
    store.refuse(FULL)
    keep(peer, queue="t")
    peer.call(1, COMMIT)


def test_a_commit_that_waits_when_the_store_fails_is_told_so(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    store.fail("fdatasync: input/output error")
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 506)
    assert refusal.text == (
        "RESOURCE_ERROR - it is unknown whether the transaction was stored: "
        "fdatasync: input/output error"
    )
    assert (refusal.class_id, refusal.method_id) == (90, 20)
    peer.get("d", number=2)  # the connection goes on


def test_two_commits_that_wait_when_the_store_fails_close_the_channel_once(
    peer: Peer, store: FakeStore
) -> None:
    for _ in range(2):
        keep(peer)
        peer.send(1, COMMIT)
    peer.expect_nothing()
    store.fail("broken")
    assert peer.refusal().code == 506


def test_acknowledgements_are_committed_in_memory_after_a_failure(
    peer: Peer, store: FakeStore
) -> None:
    received = peer.get("d")
    assert received is not None
    store.fail("broken")
    peer.ack(received.method.delivery_tag)
    peer.call(1, COMMIT)
    assert peer.broker.queue("d").unacked_count == 0
    keep(peer)
    assert peer.refused(1, COMMIT)[0] == 506


# --------------------------------------------------------------------------- the end


@pytest.mark.parametrize("is_in_one_breath", [True, False])
def test_a_channel_may_close_while_its_commit_waits(
    peer: Peer, store: FakeStore, is_in_one_breath: bool
) -> None:
    keep(peer)
    close = encode_method(
        1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0
    )
    if is_in_one_breath:
        peer.send_octets(encode_method(1, COMMIT) + close)
    else:
        peer.send(1, COMMIT)
        peer.expect_nothing()
        peer.send_octets(close)
    peer.expect_nothing()
    store.sync()
    assert [one.name for one in peer.receive()] == ["tx.commit-ok", "channel.close-ok"]
    peer.open(1)
    assert peer.broker.queue("d").ready_count == 4  # it was committed


def test_a_connection_may_be_lost_while_its_commit_waits(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.send(1, COMMIT)
    peer.expect_nothing()
    peer.lose()
    writes = peer.transport.writes
    store.sync()
    peer.broker.run_turns()
    assert peer.transport.writes == writes


def test_an_error_while_a_commit_waits_closes_the_channel_once(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer)
    peer.send(1, COMMIT)
    peer.send(1, commands.Queue.Declare, queue="missing", passive=True)
    peer.expect_nothing()
    store.sync()
    commit_ok, close = peer.receive()
    assert (commit_ok.name, close.name) == ("tx.commit-ok", "channel.close")
    assert close.method.reply_code == 404
    peer.call(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)


def test_a_commit_of_more_than_is_written_at_once_is_refused_as_a_whole(
    peer: Peer, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.amqp.transactions.COMMIT_BYTES_MAX", 1000)
    before = list(store.batches)
    keep(peer, count=200)
    peer.send(1, COMMIT)
    close = peer.expect(commands.Channel.Close)
    assert close.reply_code == 311
    assert close.reply_text.endswith("octets to be stored, the limit is 1000")
    assert store.batches == before
    peer.send(1, commands.Channel.CloseOk)


def test_what_waits_behind_a_commit_waits_for_the_end_of_an_alarm_too(
    broker: SteppedBroker, peer: Peer, store: FakeStore
) -> None:
    alarms = broker.context.alarms
    keep(peer)
    peer.send(1, COMMIT)
    peer.send_octets(publish_octets(1, "t", b"1") * 2 + encode_method(1, COMMIT))
    peer.expect_nothing()
    alarms.set("memory")
    store.sync()
    assert [one.name for one in peer.receive()] == ["tx.commit-ok", "connection.blocked"]
    assert broker.queue("t").ready_count == 0
    assert not peer.is_read_from()
    alarms.clear("memory")
    assert [one.name for one in peer.receive()] == ["connection.unblocked", "tx.commit-ok"]
    assert broker.queue("t").ready_count == 2
    assert peer.is_read_from()
