"""What a channel says it has counted, held against what its client did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.amqp.channel import Channel
from hareline.counts import ChannelCounts, ExchangeCounts, QueueCounts
from hareline.statistics.readings import channels_of
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table
from tests.support.examples import examples

from .peer import Peer, SteppedBroker, publish_octets

PERSISTENT = Properties(delivery_mode=2)


def channel_of(peer: Peer, number: int = 1) -> Channel:
    return peer.connection.channels.by_number[number]


def counts(peer: Peer, number: int = 1) -> dict[str, int]:
    """The channel's, without those that are 0."""
    found = channel_of(peer, number).counts.as_dict()
    return {name: count for name, count in found.items() if count}


def exchange_counts(broker: SteppedBroker, name: str) -> tuple[int, int]:
    """As they are when all channels were asked."""
    for channel in channels_of(broker.context):
        assert channel.counts.publish >= 0  # it collects
    found = broker.vhost.exchanges[name].counts
    return found.publish_in, found.publish_out


def test_publishes_of_a_run_and_single_ones(broker: SteppedBroker, peer: Peer) -> None:
    for name in ("a", "b"):
        peer.declare(name)
        peer.bind(name, "amq.fanout")
    one = publish_octets(1, "", b"body", exchange="amq.fanout")
    for number in (1, 1, 5, 20):
        peer.send_octets(one * number)
    peer.fill("a", b"by the default exchange")
    assert counts(peer) == {"publish": 28}
    assert exchange_counts(broker, "amq.fanout") == (27, 54)
    assert exchange_counts(broker, "") == (1, 1)
    assert broker.queue("a").counts.publish == 28


def test_what_no_queue_takes(broker: SteppedBroker, peer: Peer) -> None:
    for _ in range(3):
        peer.publish(1, "nowhere", b"dropped")
    peer.publish(1, "nowhere", b"returned", mandatory=True)
    peer.publish(1, "nowhere", b"returned", mandatory=True)
    assert peer.bodies() == [b"returned", b"returned"]
    assert counts(peer) == {"publish": 5, "return_unroutable": 2, "drop_unroutable": 3}
    assert exchange_counts(broker, "") == (5, 0)


def test_publishes_that_ask_for_something(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("a")
    peer.declare("b", arguments={"x-max-length": 10})
    peer.publish(1, "a", properties=Properties(headers=Table({"CC": ["b"]})))
    peer.publish(1, "a", properties=Properties(expiration="1000"))
    peer.publish(1, "b")
    assert counts(peer) == {"publish": 3}
    assert exchange_counts(broker, "") == (3, 4)


def test_a_route_that_depends_on_the_message(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.match", arguments={"x-match": "all", "kind": "a"})
    for kind in "abaab":
        peer.publish(
            1, "", exchange="amq.match", properties=Properties(headers=Table({"kind": kind}))
        )
    assert counts(peer) == {"publish": 5, "drop_unroutable": 2}
    assert exchange_counts(broker, "amq.match") == (5, 3)


def test_confirmed_and_refused_publishes(peer: Peer) -> None:
    peer.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    peer.call(1, commands.Confirm.Select)
    for _ in range(5):
        peer.publish(1, "q", b"m")
    peer.receive()
    assert counts(peer) == {"publish": 5, "confirm": 2}
    confirms = channel_of(peer).publishing.confirms
    assert confirms is not None
    assert confirms.unconfirmed_count == 0
    peer.publish(1, "q", b"m")
    assert confirms.unconfirmed_count == 1


def test_routes_that_are_forgotten_lose_nothing(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    for number in range(5):
        peer.fill("q", b"m")
        peer.declare(f"other {number}")  # all routes are looked up again
    assert counts(peer) == {"publish": 5}
    assert exchange_counts(broker, "") == (5, 5)


def test_deliveries_and_what_becomes_of_them(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "c")
    peer.fill("q", *[b"m"] * 8)
    assert len(peer.receive()) == 8
    peer.ack(1)
    peer.ack(3, multiple=True)
    peer.nack(4, requeue=False)
    peer.send(1, commands.Basic.Reject, delivery_tag=5, requeue=True)
    assert len(peer.receive()) == 1
    assert counts(peer) == {
        "publish": 8,
        "deliver": 9,
        "ack": 3,
        "redeliver": 1,
        "deliver_get": 9,
    }
    of_queue = broker.queue("q").counts
    assert of_queue == QueueCounts(publish=8, deliver=9, ack=3, redeliver=1)


def test_deliveries_without_acknowledgement(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "c", no_ack=True)
    peer.fill("q", b"1", b"2", b"3")
    peer.receive()
    assert counts(peer) == {"publish": 3, "deliver_no_ack": 3, "deliver_get": 3}
    assert broker.queue("q").counts == QueueCounts(publish=3, deliver_no_ack=3)


def test_gets(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    assert peer.get("q") is not None
    assert peer.get("q", no_ack=True) is not None
    peer.nack(1)
    assert peer.get("q") is not None
    peer.ack(3)
    assert peer.get("q", no_ack=True) is not None
    assert peer.get("q") is None
    expected = {"publish": 3, "get": 2, "get_no_ack": 2, "get_empty": 1, "ack": 1, "redeliver": 1}
    assert counts(peer) == {**expected, "deliver_get": 4}
    assert broker.queue("q").counts == QueueCounts(**expected)


def test_a_redelivery_is_counted_where_it_arrives(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    for _ in range(2):
        assert peer.get("q") is not None
    peer.send(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    peer.expect(commands.Channel.CloseOk)
    other = broker.connect()
    other.consume("q", "c")
    assert len(other.receive()) == 3
    other.fill("q", b"3")
    assert len(other.receive()) == 1
    assert counts(other) == {"publish": 1, "deliver": 3, "redeliver": 2, "deliver_get": 3}
    assert broker.queue("q").counts.redeliver == 2
    assert broker.queue("q").returned_count == 0


def test_in_a_transaction_all_counts_at_the_commit(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3", b"4")
    for _ in range(4):
        assert peer.get("q") is not None
    peer.call(1, commands.Tx.Select)
    peer.publish(1, "q", b"new")
    peer.ack(1)
    peer.nack(2)
    before = {"publish": 4, "get": 4, "deliver_get": 4}
    assert counts(peer) == before
    peer.call(1, commands.Tx.Rollback)
    assert counts(peer) == before
    peer.publish(1, "q", b"new")
    peer.ack(1)
    peer.nack(2)
    peer.nack(3, requeue=False)
    assert counts(peer) == before
    peer.call(1, commands.Tx.Commit)
    assert counts(peer) == {**before, "publish": 5, "ack": 1}
    assert exchange_counts(broker, "") == (5, 5)


def test_direct_replies_count_as_deliveries(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("requests")
    peer.subscribe("amq.rabbitmq.reply-to", "replies", no_ack=True)
    peer.publish(1, "requests", properties=Properties(reply_to="amq.rabbitmq.reply-to"))
    server = broker.connect()
    request = server.get("requests", no_ack=True)
    assert request is not None
    assert request.properties is not None
    server.publish(1, str(request.properties.reply_to), b"reply")
    assert peer.bodies() == [b"reply"]
    assert counts(peer) == {"publish": 1, "deliver_no_ack": 1, "deliver_get": 1}
    assert counts(server) == {"publish": 1, "get_no_ack": 1, "deliver_get": 1}


def test_readers_of_a_stream(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    peer.fill("s", b"1", b"2", b"3")
    peer.call(1, commands.Basic.Qos, prefetch_count=10)
    peer.consume("s", "c", arguments={"x-stream-offset": "first"})
    assert len(peer.receive()) == 4
    peer.ack(2, multiple=True)
    assert counts(peer) == {"publish": 3, "deliver": 3, "ack": 2, "deliver_get": 3}
    assert broker.queue("s").counts == QueueCounts(publish=3, deliver=3, ack=2)


def test_what_a_closed_channel_and_connection_counted_stays_in_the_totals(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    peer.open(2)
    peer.publish(2, "q", b"1")
    peer.publish(2, "nowhere", b"2")
    peer.call(2, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    gone = broker.context.counts.gone
    assert gone.channels == ChannelCounts(publish=2, drop_unroutable=1)
    assert exchange_counts(broker, "") == (2, 1)
    peer.fill("q", b"3")
    assert peer.get("q") is not None
    peer.lose()
    assert gone.channels == ChannelCounts(publish=3, drop_unroutable=1, get=1)
    assert broker.vhost.counts.gone.channels == gone.channels
    assert gone.connections.send_oct == peer.transport.sent_bytes > 0
    churn = broker.context.counts.churn
    assert (churn.connection_created, churn.connection_closed) == (1, 1)
    assert (churn.channel_created, churn.channel_closed) == (2, 2)


def test_an_idle_channel_has_nothing_to_count_with(peer: Peer) -> None:
    assert channel_of(peer).port.tally is None
    assert counts(peer) == {}


@pytest.mark.parametrize("is_open", [True, False])
def test_a_connection_that_is_never_open_is_none(broker: SteppedBroker, is_open: bool) -> None:
    peer = broker.connect() if is_open else broker.accept()
    peer.lose()
    churn = broker.context.counts.churn
    assert (churn.connection_created, churn.connection_closed) == (is_open, is_open)


ACTIONS = st.sampled_from(
    [
        *("publish", "publish", "run", "dropped", "get", "get", "get no-ack", "ack", "ack"),
        *("ack all", "requeue", "reject", "consume", "cancel", "recover", "declare"),
        *("select", "commit", "rollback", "purge"),
    ]
)


@given(st.lists(ACTIONS, max_size=40))
@settings(deadline=None, max_examples=examples(0.6))
def test_counts_are_those_of_the_client(actions: list[str]) -> None:
    broker = SteppedBroker()
    client = _Client(broker)
    for action in actions:
        client.do(action)
        client.check()
    client.peer.lose()
    assert broker.context.counts.gone.channels == client.expected
    assert broker.vhost.exchanges[""].counts == client.exchange


class _Client:
    """Does things at random, and counts what it does by itself."""

    def __init__(self, broker: SteppedBroker) -> None:
        self.broker = broker
        self.peer = broker.connect()
        self.peer.declare("q")
        self.expected = ChannelCounts()
        self.exchange = ExchangeCounts()
        self.unacked: list[int] = []
        self.is_transactional = False
        self.acked: list[int] = []  # in the open transaction
        self.given_back: list[int] = []
        self.published = 0
        self.dropped = 0

    def do(self, action: str) -> None:
        peer, expected = self.peer, self.expected
        if action in ("publish", "run", "dropped"):
            number = 4 if action == "run" else 1
            key = "nowhere" if action == "dropped" else "q"
            peer.send_octets(publish_octets(1, key, b"body", PERSISTENT) * number)
            self.published += number
            self.dropped += action == "dropped"
            if not self.is_transactional:
                self._publish()
        elif action in ("get", "get no-ack"):
            self._read()
            is_automatic = action == "get no-ack"
            received = peer.get("q", no_ack=is_automatic)
            if received is None:
                expected.get_empty += 1
            else:
                expected.redeliver += received.method.redelivered
                if is_automatic:
                    expected.get_no_ack += 1
                else:
                    expected.get += 1
                    self.unacked.append(received.method.delivery_tag)
        elif action in ("ack", "requeue", "reject") and self.unacked:
            tag = self.unacked.pop(len(self.unacked) // 2)
            if action == "ack":
                peer.ack(tag)
                self._settle(self.acked, [tag])
            else:
                peer.nack(tag, requeue=action == "requeue")
                self._settle(self.given_back, [tag])
        elif action == "ack all" and self.unacked:
            tags, self.unacked = self.unacked, []
            peer.ack(max(tags), multiple=True)
            self._settle(self.acked, tags)
        elif action == "consume" and not channel_of(peer).consumers.by_tag:
            peer.consume("q", "c")
        elif action == "cancel":
            peer.send(1, commands.Basic.Cancel, consumer_tag="c")
        elif action == "recover":
            self._read()
            peer.send(1, commands.Basic.Recover, requeue=True)
            self.unacked.clear()
        elif action == "declare":
            peer.send(1, commands.Queue.Declare, queue=f"other {self.published}")
        elif action == "select":
            peer.send(1, commands.Tx.Select)
            self.is_transactional = True
        elif action in ("commit", "rollback") and self.is_transactional:
            peer.send(1, commands.Tx.Commit if action == "commit" else commands.Tx.Rollback)
            if action == "commit":
                self._publish()
                expected.ack += len(self.acked)
            else:
                self.published = self.dropped = 0
                self.unacked = sorted(self.unacked + self.acked + self.given_back)
            self.acked.clear()
            self.given_back.clear()
        elif action == "purge":
            peer.send(1, commands.Queue.Purge, queue="q")
        self._read()

    def _publish(self) -> None:
        self.expected.publish += self.published
        self.expected.drop_unroutable += self.dropped
        self.exchange.publish_in += self.published
        self.exchange.publish_out += self.published - self.dropped
        self.published = self.dropped = 0

    def _settle(self, kept: list[int], tags: list[int]) -> None:
        if self.is_transactional:
            kept += tags
        elif kept is self.acked:
            self.expected.ack += len(tags)

    def _read(self) -> None:
        for received in self.peer.receive():
            if received.name == "basic.deliver":
                self.expected.deliver += 1
                self.expected.redeliver += received.method.redelivered
                self.unacked.append(received.method.delivery_tag)

    def check(self) -> None:
        assert channel_of(self.peer).counts == self.expected
        found = self.broker.queue("q").counts
        expected = self.expected
        assert found == QueueCounts(
            publish=self.exchange.publish_out,
            deliver=expected.deliver,
            get=expected.get,
            get_no_ack=expected.get_no_ack,
            get_empty=expected.get_empty,
            ack=expected.ack,
            redeliver=expected.redeliver,
        )
