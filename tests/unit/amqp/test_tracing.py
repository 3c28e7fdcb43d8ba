"""The firehose by octets: what is copied, what its copies say, and what switching it changes."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.broker import tracing
from hareline.broker.tracing import TRACE_EXCHANGE
from hareline.later import REPORT_S
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import SignedInt, Table, Timestamp
from tests.support.audits import AuditLog

from .peer import Peer, Received, SteppedBroker

BASIC, TX = commands.Basic, commands.Tx


class Firehose:
    """A broker whose virtual host "/" is traced, a queue for all copies, and a client."""

    def __init__(self, broker: SteppedBroker, *, is_on: bool = True) -> None:
        self.broker = broker
        self.broker.vhost.firehose.node = "hareline@test"
        self.watcher = broker.connect()
        self.watcher.declare("copies")
        self.watcher.bind("copies", TRACE_EXCHANGE, "#")
        self.peer = broker.connect()
        self.peer.declare("q")
        self.switch(is_on)

    def switch(self, is_on: bool) -> None:
        self.broker.context.set_tracing(self.broker.vhost, is_on)

    def copies(self) -> list[Received]:
        self.broker.run_turns()
        found = []
        while (copy := self.watcher.get("copies", no_ack=True)) is not None:
            found.append(copy)
        return found

    def keys(self) -> list[str]:
        return [copy.method.routing_key for copy in self.copies()]


@pytest.fixture
def firehose(broker: SteppedBroker) -> Firehose:
    return Firehose(broker)


def headers_of(copy: Received) -> Table:
    assert copy.properties is not None
    assert copy.properties.headers is not None
    return copy.properties.headers


def test_a_publish_is_copied_with_what_rabbitmq_says_of_it(firehose: Firehose) -> None:
    firehose.peer.publish(
        1,
        "q",
        b"body",
        properties=Properties(
            content_type="text/plain",
            delivery_mode=2,
            headers=Table({"CC": ["elsewhere"], "number": 7}),
            timestamp=Timestamp(1_700_000_000),
        ),
    )
    (copy,) = firehose.copies()
    assert (copy.method.exchange, copy.method.routing_key) == (TRACE_EXCHANGE, "publish.")
    assert copy.body == b"body"
    assert copy.properties == Properties(headers=headers_of(copy))  # transient, nothing else
    connection = "127.0.0.1:40001 -> 127.0.0.1:5672"
    assert headers_of(copy) == {
        "exchange_name": "",
        "routing_keys": ["q", "elsewhere"],
        "properties": {
            "content_type": "text/plain",
            "delivery_mode": 2,
            "headers": {"CC": ["elsewhere"], "number": 7},
            "timestamp": 1_700_000_000,
        },
        "node": "hareline@test",
        "vhost": "/",
        "connection": connection,
        "channel": 1,
        "user": "guest",
        "routed_queues": ["q"],
    }
    properties = headers_of(copy)["properties"]
    assert isinstance(properties, Table)
    assert isinstance(headers_of(copy)["channel"], SignedInt)
    assert isinstance(properties["delivery_mode"], SignedInt)
    assert isinstance(properties["timestamp"], SignedInt)


def test_a_delivery_is_copied_with_its_queue(firehose: Firehose) -> None:
    firehose.peer.publish(1, "q", b"body")
    firehose.peer.consume("q", "c")
    firehose.peer.receive()
    publish, deliver = firehose.copies()
    assert publish.method.routing_key == "publish."
    assert deliver.method.routing_key == "deliver.q"
    assert deliver.body == b"body"
    headers = headers_of(deliver)
    assert headers["redelivered"] == 0
    assert isinstance(headers["redelivered"], SignedInt)
    assert "routed_queues" not in headers
    assert headers["routing_keys"] == ["q"]


def test_redeliveries_and_gets_are_deliveries(firehose: Firehose) -> None:
    peer = firehose.peer
    peer.publish(1, "q", b"x")
    received = peer.get("q")
    assert received is not None
    peer.nack(received.method.delivery_tag)
    assert peer.get("q", no_ack=True) is not None
    _, first, second = firehose.copies()
    assert [headers_of(each)["redelivered"] for each in (first, second)] == [0, 1]


def test_publishes_that_reach_no_queue_are_copied(firehose: Firehose) -> None:
    firehose.peer.publish(1, "nowhere", b"x")
    (copy,) = firehose.copies()
    assert headers_of(copy)["routed_queues"] == []


def test_every_message_of_a_run_is_copied(firehose: Firehose) -> None:
    for _ in range(3):  # the third is recognised by the octets of those before
        firehose.peer.publish(1, "q", b"x")
    assert firehose.keys() == ["publish."] * 3


def test_switching_concerns_channels_that_are_open(broker: SteppedBroker) -> None:
    firehose = Firehose(broker, is_on=False)
    peer = firehose.peer
    peer.consume("q", "c")
    peer.publish(1, "q", b"1")
    peer.receive()
    assert firehose.keys() == []
    firehose.switch(True)
    peer.publish(1, "q", b"2")
    peer.receive()
    assert firehose.keys() == ["publish.", "deliver.q"]
    firehose.switch(False)
    peer.publish(1, "q", b"3")
    peer.receive()
    assert firehose.keys() == []


def test_off_publishes_take_runs_again(broker: SteppedBroker) -> None:
    firehose = Firehose(broker)
    firehose.peer.publish(1, "q", b"1")
    lane = firehose.peer.connection.channels.by_number[1].publishing
    (route,) = lane.routes.values()
    assert not route.takes_runs
    firehose.switch(False)
    firehose.peer.publish(1, "q", b"2")
    firehose.peer.publish(1, "q", b"3")
    (route,) = lane.routes.values()
    assert route.takes_runs
    assert firehose.peer.connection.channels.by_number[1].port.tap is None


def test_a_channel_that_opens_while_it_is_on_is_traced(firehose: Firehose) -> None:
    firehose.peer.open(2)
    firehose.peer.publish(2, "q", b"x")
    (copy,) = firehose.copies()
    assert headers_of(copy)["channel"] == 2


def test_copies_are_not_traced(firehose: Firehose) -> None:
    watcher = firehose.watcher
    watcher.consume("copies", "watcher")
    firehose.peer.publish(1, "q", b"x")
    firehose.broker.run_turns()
    assert len([each for each in watcher.receive() if each.name == "basic.deliver"]) == 1
    firehose.broker.run_turns()
    watcher.expect_nothing()


def test_dead_letters_are_not_publishes(firehose: Firehose) -> None:
    peer = firehose.peer
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    peer.declare("dying", arguments=arguments)
    peer.publish(1, "dying", b"x")
    received = peer.get("dying")
    assert received is not None
    peer.send(1, BASIC.Reject, delivery_tag=received.method.delivery_tag, requeue=False)
    firehose.broker.run_turns()
    assert peer.drain("q") == [b"x"]
    assert firehose.keys() == ["publish.", "deliver.dying", "deliver.q"]


def test_a_transaction_is_traced_when_it_is_committed(firehose: Firehose) -> None:
    peer = firehose.peer
    peer.call(1, TX.Select)
    peer.publish(1, "q", b"rolled back")
    peer.call(1, TX.Rollback)
    peer.publish(1, "q", b"committed")
    assert firehose.keys() == []
    peer.call(1, TX.Commit)
    (copy,) = firehose.copies()
    assert copy.body == b"committed"


def test_other_virtual_hosts_are_not_traced(firehose: Firehose) -> None:
    broker = firehose.broker
    broker.add_vhost("other")
    broker.add_user("both", "both", vhosts=("/", "other"))
    other = broker.connect("both", vhost="other")
    other.declare("q")
    other.publish(1, "q", b"x")
    assert firehose.keys() == []


def test_without_a_binding_nothing_is_gathered(broker: SteppedBroker) -> None:
    peer = broker.connect()
    peer.declare("q")
    broker.context.set_tracing(broker.vhost, True)
    peer.publish(1, "q", b"x")
    broker.run_turns()
    assert broker.vhost.firehose.published_count == 0


def test_with_audit_both_see_the_message() -> None:
    broker = SteppedBroker()
    log = AuditLog(broker.turn, broker.clock, broker, share=1.0)
    del broker.context.vhosts["/"]
    broker.add_vhost("/", audit=log.recorder).open_audit()
    firehose = Firehose(broker)
    firehose.peer.publish(1, "q", b"x")
    assert firehose.keys() == ["publish."]
    assert {"published", "routed"} <= {event["event"] for event in log.read(broker.vhost)}


def test_what_is_more_than_it_can_hold_is_lost_and_reported(
    firehose: Firehose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "ITEMS_MAX", 2)
    for _ in range(5):
        firehose.peer.publish(1, "q", b"x")
    assert len(firehose.keys()) == 2
    firehose.broker.advance(REPORT_S)
    assert firehose.broker.reported(events.TRACES_LOST) == [{"vhost": "/", "count": 3}]


@pytest.mark.parametrize(
    ("name", "key"),
    [("x" * 255, "publish." + "x" * 247), ("ä" * 127, "publish." + "ä" * 123)],
)
def test_a_key_that_would_be_too_long_is_cut(firehose: Firehose, name: str, key: str) -> None:
    firehose.peer.declare_exchange(name)
    firehose.peer.publish(1, "k", b"x", exchange=name)
    (found,) = firehose.keys()
    assert found.encode("utf-8", "surrogateescape")[: len(key.encode())] == key.encode()
    assert len(found.encode("utf-8", "surrogateescape")) == 255


def test_trace_headers_pass_untouched(peer: Peer) -> None:
    """W3C Trace Context: what a client writes is what the next one reads, octet by octet."""
    traced = Table(
        {
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
        }
    )
    properties = Properties(headers=traced, message_id="1")
    peer.declare("q")
    peer.publish(1, "q", b"x", properties=properties)
    received = peer.get("q")
    assert received is not None
    assert received.properties == properties
