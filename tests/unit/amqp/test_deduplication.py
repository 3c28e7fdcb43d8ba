"""Numbered publishes over the protocol: what is a duplicate, and what moves the highest number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hareline import events
from hareline.amqp.transactions import ENTRIES_PER_LOOK
from hareline.storage.journal.format.frame import MESSAGE
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table
from tests.support.store_stand import StoreStand
from tests.support.stores import FakeStore

from .large import BODY, LargeBroker
from .peer import Peer, Received, RunningClock, SteppedBroker, publish_octets

CONFIRM, TX = commands.Confirm, commands.Tx


def numbered(sequence: int, producer: str = "p", *, mode: int = 2, **more: Any) -> Properties:
    headers = Table({"x-producer-id": producer, "x-producer-seq": sequence, **more.pop("also", {})})
    return Properties(delivery_mode=mode, headers=headers, **more)


def publish(peer: Peer, *sequences: int, queue: str = "d", channel: int = 1, **more: Any) -> None:
    """One message for each, whose body is its sequence."""
    fields = {
        name: more.pop(name) for name in ("mandatory", "immediate", "exchange") if name in more
    }
    for sequence in sequences:
        properties = numbered(sequence, **more)
        peer.publish(channel, queue, b"%d" % sequence, properties=properties, **fields)


def answers(received: list[Received]) -> list[str]:
    """Each frame in one word; acks and nacks with their tags, ``*`` for multiple."""
    return [
        f"{one.name.removeprefix('basic.')} {one.method.delivery_tag}{'*' * one.method.multiple}"
        if one.name in ("basic.ack", "basic.nack")
        else one.name
        for one in received
    ]


def bodies(peer: Peer, queue: str = "d") -> list[int]:
    found = []
    while (received := peer.get(queue, no_ack=True)) is not None:
        found.append(int(received.body))
    return found


@pytest.fixture
def confirming(peer: Peer) -> Peer:
    """In confirm mode, on a store that keeps nothing; queue d is there."""
    peer.declare("d", durable=True)
    peer.call(1, CONFIRM.Select)
    return peer


# ------------------------------------------------------------------------------ what a duplicate is


def test_a_duplicate_is_confirmed_and_not_enqueued(confirming: Peer) -> None:
    publish(confirming, 0, 1, 1, 0, 2)
    assert answers(confirming.receive()) == ["ack 5*"]
    assert bodies(confirming) == [0, 1, 2]


def test_all_publishes_sent_again_over_another_connection_are_duplicates(
    broker: SteppedBroker, confirming: Peer
) -> None:
    publish(confirming, *range(20))
    confirming.receive()
    confirming.lose()
    again = broker.connect()
    again.call(1, CONFIRM.Select)
    publish(again, *range(25))
    assert answers(again.receive()) == ["ack 25*"]
    assert bodies(again) == list(range(25))


def test_the_same_octets_twice_are_a_duplicate_too(confirming: Peer) -> None:
    """Known properties take a short cut, which these must not."""
    octets = publish_octets(1, "d", b"7", numbered(7))
    confirming.send_octets(octets * 3)
    confirming.receive()
    assert bodies(confirming) == [7]


def test_headers_stay_in_the_message(confirming: Peer) -> None:
    publish(confirming, 3)
    confirming.receive()
    received = confirming.get("d", no_ack=True)
    assert received is not None
    assert received.properties == numbered(3)


def test_producers_are_told_apart_and_so_are_virtual_hosts(broker: SteppedBroker) -> None:
    broker.add_vhost("other")
    broker.add_user("u", "u", vhosts=("/", "other"))
    for vhost in ("/", "other"):
        peer = broker.connect("u", vhost=vhost)
        peer.declare("d")
        publish(peer, 5)
        publish(peer, 5, producer="q")
        publish(peer, 5)
        peer.receive()
        assert bodies(peer) == [5, 5]


def test_without_confirms_a_duplicate_is_left_out_in_silence(peer: Peer) -> None:
    peer.declare("d")
    publish(peer, 0, 0, 1)
    peer.expect_nothing()
    assert bodies(peer) == [0, 1]


def test_where_it_is_sent_to_does_not_matter(confirming: Peer) -> None:
    confirming.declare("e")
    publish(confirming, 0)
    publish(confirming, 0, queue="e")
    publish(confirming, 0, queue="nowhere", mandatory=True)
    assert answers(confirming.receive()) == ["ack 3*"]  # and nothing is returned
    assert bodies(confirming, "e") == []


@pytest.mark.parametrize(
    "more",
    [
        {"expiration": "60000"},
        {"user_id": "guest"},
        {"also": {"CC": ["e"]}},
        {"also": {"BCC": ["e"]}},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"message_id": "x" * 200, "also": {"x" * 100: "y" * 200}},
    ],
)
def test_what_else_properties_ask_for_is_done_once(confirming: Peer, more: dict[str, Any]) -> None:
    confirming.declare("e")
    confirming.consume("amq.rabbitmq.reply-to", "r", no_ack=True)
    confirming.receive()
    publish(confirming, 0, **more)
    publish(confirming, 0, **more)
    publish(confirming, 1, **more)
    assert answers(confirming.receive()) == ["ack 3*"]
    assert bodies(confirming) == [0, 1]
    assert bodies(confirming, "e") == ([0, 1] if "also" in more and len(more) == 1 else [])


@pytest.mark.parametrize("count", [1, 20])  # the route is wide, or is not
def test_each_queue_of_a_route_has_it_once(confirming: Peer, count: int) -> None:
    for number in range(count):
        confirming.declare(f"q{number}")
        confirming.bind(f"q{number}", "amq.fanout")
    publish(confirming, 0, 1, 1, 0, exchange="amq.fanout", queue="")
    assert answers(confirming.receive()) == ["ack 4*"]
    assert [bodies(confirming, f"q{number}") for number in range(count)] == [[0, 1]] * count


def test_a_route_that_depends_on_headers_has_it_once(confirming: Peer) -> None:
    confirming.bind("d", "amq.headers", arguments={"x-match": "all", "kind": "order"})
    for _ in range(2):
        publish(confirming, 0, exchange="amq.headers", also={"kind": "other"})
        publish(confirming, 1, exchange="amq.headers", also={"kind": "order"})
    confirming.receive()
    assert bodies(confirming) == [1]


def test_an_immediate_publish_that_no_consumer_takes_may_come_again(broker: SteppedBroker) -> None:
    peer = broker.connect(qpid="jms")
    peer.declare("q")
    publish(peer, 0, queue="q", immediate=True)
    assert answers(peer.receive()) == ["basic.return"]
    publish(peer, 0, queue="q")
    peer.receive()
    assert bodies(peer, "q") == [0]


def test_a_wrong_user_id_moves_nothing(confirming: Peer) -> None:
    code, _ = confirming.publish_refused(1, "d", properties=numbered(0, user_id="another"))
    assert code == 406
    confirming.open(1)
    publish(confirming, 0)
    confirming.receive()
    assert bodies(confirming) == [0]


@pytest.mark.parametrize("mode", [CONFIRM, TX])
def test_a_large_body_is_numbered_as_well(tmp_path: Path, mode: Any) -> None:
    broker = LargeBroker(tmp_path)
    peer = broker.connect()
    peer.declare("d")
    peer.call(1, mode.Select)
    for _ in range(2):
        peer.publish(1, "d", BODY, properties=numbered(0))
    if mode is TX:
        peer.call(1, TX.Commit)
    else:
        assert answers(peer.receive()) == ["ack 2*"]
    assert broker.queue("d").ready_count == 1
    assert broker.file_count == 1


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"x-producer-id": "p"}, "header 'x-producer-id' needs 'x-producer-seq' beside it"),
        ({"x-producer-seq": 1}, "header 'x-producer-seq' needs 'x-producer-id' beside it"),
        (
            {"x-producer-id": "p", "x-producer-seq": -1},
            "header 'x-producer-seq' must be 0 or more, not -1",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["plain", "tx"])
def test_invalid_numbers_close_the_channel(
    peer: Peer, headers: dict[str, object], text: str, mode: str
) -> None:
    peer.declare("d")
    if mode == "tx":
        peer.call(1, TX.Select)
    properties = Properties(headers=Table(headers))
    code, reason = peer.publish_refused(1, "d", properties=properties)
    assert (code, reason) == (406, f"PRECONDITION_FAILED - {text}")


# --------------------------------------------------------------------------- what moves the number


def test_what_no_queue_took_may_come_again(confirming: Peer) -> None:
    publish(confirming, 5, queue="later", mandatory=True)
    publish(confirming, 5, queue="later")
    assert answers(confirming.receive()) == ["basic.return", "ack 2*"]
    confirming.declare("later")
    publish(confirming, 5, 5, queue="later")
    confirming.receive()
    assert bodies(confirming, "later") == [5]


def test_what_a_full_queue_refused_may_come_again(confirming: Peer) -> None:
    confirming.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(confirming, 0, 1, queue="full")
    assert answers(confirming.receive()) == ["ack 1", "nack 2"]
    assert bodies(confirming, "full") == [0]
    publish(confirming, 1, queue="full")
    assert answers(confirming.receive()) == ["ack 3"]
    publish(confirming, 1, queue="full")
    assert answers(confirming.receive()) == ["ack 4"]
    assert bodies(confirming, "full") == [1]


def test_what_only_some_queues_took_may_come_again(confirming: Peer) -> None:
    """It was nacked: the queue that refused it must get it, and the other has it twice."""
    confirming.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    for queue in ("d", "full"):
        confirming.bind(queue, "amq.fanout")
    publish(confirming, 0, 0, exchange="amq.fanout", queue="")
    assert answers(confirming.receive()) == ["nack 2*"]
    assert bodies(confirming) == [0, 0]


def test_dead_letters_are_not_publishes_of_the_producer(confirming: Peer) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    confirming.declare("q", arguments=arguments)
    confirming.declare("dead")
    publish(confirming, 0, queue="q")
    confirming.receive()
    received = confirming.get("q")
    assert received is not None
    confirming.send(1, commands.Basic.Reject, delivery_tag=1, requeue=False)
    confirming.receive()
    assert bodies(confirming, "dead") == [0]


def test_duplicates_are_reported(broker: SteppedBroker, confirming: Peer) -> None:
    publish(confirming, 0, 0, 0)
    confirming.receive()
    assert broker.reported(events.PRODUCER_DUPLICATES) == [
        {"vhost": "/", "producer": "p", "count": 1}
    ]
    assert broker.vhost.producers.duplicate_count == 2


# ------------------------------------------------------------------------------- a store that waits


@pytest.fixture
def disk() -> FakeStore:
    return FakeStore()


@pytest.fixture
def durable(disk: FakeStore) -> Peer:
    """Channels 1 and 2 are in confirm mode; d is durable, t is not."""
    peer = SteppedBroker(store=disk).connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.declare("t")
    for channel in (1, 2):
        peer.call(channel, CONFIRM.Select)
    return peer


def test_a_duplicate_is_confirmed_when_its_original_is_durable(
    durable: Peer, disk: FakeStore
) -> None:
    publish(durable, 0)
    durable.expect_nothing()
    publish(durable, 0, channel=2)
    durable.expect_nothing()
    disk.sync()
    assert sorted(answers(durable.receive())) == ["ack 1", "ack 1"]
    publish(durable, 0, channel=2)
    assert answers(durable.receive()) == ["ack 2"]
    assert disk.sequences["/"].noted == [(b"p", 0)]


def test_a_duplicate_of_what_failed_to_be_stored_is_refused(durable: Peer, disk: FakeStore) -> None:
    publish(durable, 0)
    durable.broker.run_turns()
    disk.sync()
    publish(durable, 1)
    publish(durable, 1, channel=2)
    durable.receive()
    disk.fail("broken")
    assert sorted(answers(durable.receive())) == ["nack 1", "nack 2"]
    publish(durable, 1, 0, channel=2)  # of 0 it is not known any more when it was durable
    assert answers(durable.receive()) == ["nack 3*"]


def test_what_the_store_refuses_moves_nothing(durable: Peer, disk: FakeStore) -> None:
    disk.refuse("full")
    publish(durable, 0)
    assert answers(durable.receive()) == ["nack 1"]
    disk.refuse("")
    publish(durable, 0)
    durable.broker.run_turns()
    disk.sync()
    assert answers(durable.receive()) == ["ack 2"]
    assert bodies(durable) == [0]


def test_transient_messages_are_numbered_in_memory(durable: Peer, disk: FakeStore) -> None:
    publish(durable, 0, 0, queue="t")
    publish(durable, 1, 1, mode=1)
    assert answers(durable.receive()) == ["ack 4*"]
    assert (bodies(durable, "t"), bodies(durable)) == ([0], [1])
    assert disk.sequences["/"].noted == []


# ------------------------------------------------------------------------------------ transactions


@pytest.fixture
def transacting(peer: Peer) -> Peer:
    peer.declare("d", durable=True)
    peer.call(1, TX.Select)
    return peer


def test_a_transaction_moves_the_number_at_its_commit(transacting: Peer) -> None:
    transacting.open(2)
    publish(transacting, 5)
    publish(transacting, 3, channel=2)
    transacting.call(1, TX.Commit)
    publish(transacting, 4, 5, 6, channel=2)
    transacting.receive()
    assert bodies(transacting) == [3, 5, 6]


def test_a_rolled_back_transaction_moves_nothing(transacting: Peer) -> None:
    publish(transacting, 5)
    transacting.call(1, TX.Rollback)
    publish(transacting, 5)
    transacting.call(1, TX.Commit)
    assert bodies(transacting) == [5]


def test_duplicates_within_a_transaction_are_found(transacting: Peer) -> None:
    publish(transacting, 0, 1, 1, 0, 2)
    transacting.call(1, TX.Commit)
    assert bodies(transacting) == [0, 1, 2]


def test_a_commit_of_duplicates_waits_for_their_originals() -> None:
    store = FakeStore()
    peer = SteppedBroker(store=store).connect(channels=(1, 2))
    peer.declare("d", durable=True)
    peer.call(1, TX.Select)
    peer.call(2, CONFIRM.Select)
    publish(peer, 0, channel=2)
    peer.expect_nothing()
    publish(peer, 0, queue="nowhere")  # nothing in it is for the store
    peer.send(1, TX.Commit)
    peer.expect_nothing()
    while store.is_writing:
        store.sync()
        peer.broker.run_turns()
    assert sorted(answers(peer.receive())) == ["ack 1", "tx.commit-ok"]


COUNT = 20 * ENTRIES_PER_LOOK  # so that the commit takes several turns


class LargeCommit:
    """A commit that has had the first of its turns, on a real store on a disk that forgets."""

    def __init__(self, count: int = COUNT) -> None:
        self.stand = StoreStand(is_automatic=False)
        self.broker = SteppedBroker(store=self.stand.store, clock=RunningClock())
        self.peer = self.broker.connect(channels=(1, 2))
        self.peer.declare("d", durable=True)
        self.peer.call(1, TX.Select)
        self.peer.call(2, CONFIRM.Select)
        publish(self.peer, *range(count))
        self.peer.send(1, TX.Commit)
        assert 0 < self.broker.queue("d").ready_count < count

    def write_a_batch(self) -> None:
        """One turn, and all that the disk has been given."""
        self.broker.scheduled.pop(0)()
        while self.stand.syncer.submitted:
            self.stand.syncer.step()

    def finish(self) -> list[Received]:
        """Turns and batches until nothing more comes; returns what came."""
        received = self.peer.receive()
        while self.stand.syncer.submitted:
            self.stand.syncer.step()
            received += self.peer.receive()
        return received


def test_a_duplicate_of_a_commit_that_is_under_way_is_refused() -> None:
    commit = LargeCommit()
    publish(commit.peer, 0, channel=2)
    assert sorted(answers(commit.finish())) == ["nack 1", "tx.commit-ok"]
    publish(commit.peer, 0, COUNT - 1, COUNT, channel=2)
    assert answers(commit.finish()) == ["ack 4*"]
    assert commit.broker.queue("d").ready_count == COUNT + 1


def test_duplicates_within_a_commit_of_several_turns_are_found() -> None:
    commit = LargeCommit()
    commit.finish()
    publish(commit.peer, *range(COUNT, 2 * COUNT), *range(2 * COUNT + 5))
    commit.peer.send(1, TX.Commit)
    assert answers(commit.finish()) == ["tx.commit-ok"]
    assert commit.broker.queue("d").ready_count == 2 * COUNT + 5


def test_a_commit_of_what_another_one_has_under_way_is_partial() -> None:
    commit = LargeCommit()
    commit.peer.open(3)
    commit.peer.call(3, TX.Select)
    assert commit.broker.queue("d").ready_count < COUNT
    publish(commit.peer, 0, channel=3)
    commit.peer.send(3, TX.Commit)
    received = commit.finish()
    [closed] = [one for one in received if one.name == "channel.close"]
    assert (closed.channel, closed.method.reply_code) == (3, 406)
    assert commit.broker.queue("d").ready_count == COUNT


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_crash_within_a_commit_moves_the_number_with_all_of_it_or_not_at_all(
    is_whole: bool,
) -> None:
    commit = LargeCommit()
    commit.write_a_batch()
    assert commit.stand.kinds(MESSAGE)
    if is_whole:
        commit.finish()
    commit.stand.crash()
    again = commit.stand.reopen(queue_ids=(1,))
    by_id = again.store.open_sequences("/").by_id
    assert len(again.found[1]) == (COUNT if is_whole else 0)
    assert [known.highest for known in by_id.values()] == ([COUNT - 1] if is_whole else [])


def test_a_lost_connection_leaves_its_commit_to_be_carried_out() -> None:
    commit = LargeCommit()
    commit.peer.lose()
    commit.finish()
    again = commit.broker.connect()
    again.call(1, CONFIRM.Select)
    publish(again, *range(COUNT + 1))
    again.receive()
    commit.stand.settle_down()
    assert commit.broker.queue("d").ready_count == COUNT + 1
