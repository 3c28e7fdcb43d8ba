"""Publishing and consuming with audit, by octets: what is recorded, when, and what never is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hareline.amqp.consuming import AuditedConsumer, ChannelConsumer
from hareline.amqp.publishing import AuditedPublishing, Publishing
from hareline.queues.core.audit_recorder import AUDIT_STREAM
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table
from tests.support.audits import AuditLog, Event

from .peer import Peer, SteppedBroker

BASIC, TX = commands.Basic, commands.Tx
ONLY_THE_BROKER = (
    "only the broker publishes to queue 'hareline.audit' in vhost '/', its audit stream, while the "
    "virtual host's option 'audit' is on"
)


class Audited:
    """A broker whose virtual host "/" has audit, and one client of it."""

    def __init__(self, share: float = 1.0) -> None:
        self.broker = SteppedBroker()
        self.log = AuditLog(self.broker.turn, self.broker.clock, self.broker, share=share)
        self.broker.add_vhost("/", audit=self.log.recorder).open_audit()
        self.peer = self.broker.connect()
        self.peer.declare("q")

    def events(self) -> list[Event]:
        self.broker.run_turns()
        events = self.log.read(self.broker.vhost)
        for event in events:
            assert event.pop("ts_us") == self.broker.clock.now_ms * 1000
        return events


@pytest.fixture
def audited() -> Audited:
    return Audited()


def published(queues: int, size: int = 1, key: str = "q", exchange: str = "") -> Event:
    place = {"exchange": exchange, "routing_key": key}
    return {"event": "published", **place, "size": size, "queues": queues}


def unroutable(key: str) -> Event:
    return {"event": "unroutable", "exchange": "", "routing_key": key, "size": 1}


def entry(word: str, offset: int = 0, **further: Any) -> Event:
    count = {} if word == "routed" else {"delivery_count": 0}
    place = {"queue": "q", "offset": offset, "exchange": "", "routing_key": "q"}
    return {"event": word, **place, "size": 1, **count, **further}


def test_without_audit_channels_and_consumers_are_plain_ones(peer: Peer) -> None:
    peer.declare("q")
    peer.consume("q", "c")
    channel = peer.connection.channels.by_number[1]
    assert type(channel.publishing) is Publishing
    assert type(channel.consumers.by_tag["c"]) is ChannelConsumer


def test_with_audit_they_are_those_that_record(audited: Audited) -> None:
    peer = audited.peer
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.consume("q", "c")
    channel = peer.connection.channels.by_number[1]
    assert type(channel.publishing) is AuditedPublishing
    assert type(channel.consumers.by_tag["c"]) is AuditedConsumer
    peer.consume(AUDIT_STREAM, "reader")
    assert type(channel.consumers.by_tag["reader"]) is ChannelConsumer


def test_the_first_publish_and_those_by_the_lane_are_recorded_alike(audited: Audited) -> None:
    for _ in range(3):
        audited.peer.publish(1, "q", b"x")
    audited.peer.publish(1, "q", b"x", properties=Properties(priority=3))
    each = [[published(1), entry("routed", offset)] for offset in range(4)]
    assert audited.events() == [event for pair in each for event in pair]


def test_a_share_of_publishes_is_taken_at_random() -> None:
    random.seed(1)
    audited = Audited(0.25)
    for _ in range(2_000):
        audited.peer.publish(1, "q", b"x")
    audited.peer.publish(1, "q", b"x", properties=Properties(priority=3))
    words = [event["event"] for event in audited.events()]
    assert 400 < words.count("published") < 600
    assert 490 < words.count("routed") < 510


def test_a_message_without_a_queue_is_published_and_unroutable(audited: Audited) -> None:
    audited.peer.publish(1, "nowhere", b"x")
    audited.peer.publish(1, "nowhere", b"x", mandatory=True)
    expected = [published(0, key="nowhere"), unroutable("nowhere")]
    assert audited.events() == 2 * expected


def test_copies_count_as_queues(audited: Audited) -> None:
    audited.peer.declare("p")
    properties = Properties(headers=Table({"CC": ["p"]}))
    audited.peer.publish(1, "q", b"x", properties=properties)
    assert [event.get("queues") for event in audited.events()] == [2, None, None]


def test_a_message_that_no_consumer_waits_for_is_unroutable() -> None:
    audited = Audited()
    peer = audited.broker.connect(qpid="client")
    peer.publish(1, "q", b"x", immediate=True)
    assert audited.events() == [published(0), unroutable("q")]


def test_deliveries_and_acks_name_the_consumer(audited: Audited) -> None:
    audited.peer.consume("q", "mine")
    audited.peer.publish(1, "q", b"x")
    audited.broker.run_turns()
    audited.peer.ack(1)
    assert audited.events()[2:] == [
        entry("delivered", consumer_tag="mine"),
        entry("acked", consumer_tag="mine"),
    ]


def test_a_reject_and_the_end_of_the_channel_name_the_consumer(audited: Audited) -> None:
    audited.peer.consume("q", "mine")
    audited.peer.publish(1, "q", b"x")
    audited.peer.publish(1, "q", b"x")
    audited.broker.run_turns()
    audited.peer.nack(1, requeue=False)
    audited.peer.lose()
    assert audited.events()[-2:] == [
        entry("rejected", consumer_tag="mine"),
        entry("requeued", 1, consumer_tag="mine", delivery_count=1),
    ]


def test_without_acks_a_message_is_delivered_and_settled_at_once(audited: Audited) -> None:
    audited.peer.consume("q", "mine", no_ack=True)
    audited.peer.publish(1, "q", b"x")
    assert audited.events()[2:] == [
        entry("delivered", consumer_tag="mine"),
        entry("acked", reason="automatic"),
    ]


def test_a_get_has_no_consumer(audited: Audited) -> None:
    audited.peer.publish(1, "q", b"x")
    audited.peer.get("q", no_ack=True)
    assert audited.events()[2:] == [entry("delivered"), entry("acked")]


def test_only_what_a_full_output_took_is_delivered(audited: Audited) -> None:
    audited.peer.consume("q", "mine", no_ack=True)
    body = b"x" * 300_000
    for _ in range(8):
        audited.peer.publish(1, "q", body)
    told = audited.events()
    delivered = [event["offset"] for event in told if event["event"] == "delivered"]
    assert delivered == [event["offset"] for event in told if event["event"] == "acked"]
    assert delivered == sorted(set(delivered))
    assert len(delivered) == audited.broker.queue("q").delivered_count


def test_a_transaction_is_recorded_at_its_commit(audited: Audited) -> None:
    peer = audited.peer
    peer.publish(1, "q", b"0")
    peer.get("q")
    assert len(audited.events()) == 3
    peer.call(1, TX.Select)
    peer.publish(1, "q", b"1")
    peer.publish(1, "nowhere", b"2")
    peer.ack(1)
    assert audited.events() == []
    peer.call(1, TX.Commit)
    assert audited.events() == [
        published(1),
        entry("routed", 1),
        published(0, key="nowhere"),
        unroutable("nowhere"),
        entry("acked"),
    ]


def test_a_transaction_that_is_rolled_back_is_not_recorded(audited: Audited) -> None:
    peer = audited.peer
    peer.publish(1, "q", b"0")
    peer.get("q")
    audited.events()
    peer.call(1, TX.Select)
    peer.publish(1, "q", b"1")
    peer.ack(1)
    peer.call(1, TX.Rollback)
    assert audited.events() == []
    peer.call(1, TX.Commit)
    assert audited.events() == []


def test_clients_do_not_publish_to_the_stream(audited: Audited) -> None:
    assert audited.peer.publish_refused(1, AUDIT_STREAM) == (
        403,
        f"ACCESS_REFUSED - {ONLY_THE_BROKER}",
    )
    audited.peer.open(1)
    properties = Properties(headers=Table({"CC": [AUDIT_STREAM]}))
    audited.peer.publish(1, "q", b"x", properties=properties)
    assert audited.events() == [published(1), entry("routed")]


def test_without_audit_the_name_and_the_empty_key_mean_nothing(peer: Peer) -> None:
    peer.declare(AUDIT_STREAM)
    peer.publish(1, AUDIT_STREAM, b"x")
    peer.publish(1, "", b"x")
    peer.expect_nothing()
    assert peer.broker.queue(AUDIT_STREAM).ready_count == 1


def test_clients_do_not_bind_or_delete_the_stream(audited: Audited) -> None:
    peer = audited.peer
    fields = {"queue": AUDIT_STREAM, "exchange": "amq.fanout", "routing_key": ""}
    code, text = peer.refused(1, commands.Queue.Bind, **fields)
    assert (code, text) == (403, f"ACCESS_REFUSED - {ONLY_THE_BROKER}")
    peer.open(1)
    code, text = peer.refused(1, commands.Queue.Delete, queue=AUDIT_STREAM)
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - cannot delete queue 'hareline.audit' in vhost '/': the broker "
        "writes its audit there; switch the virtual host's option 'audit' off first",
    )


def test_clients_read_the_stream(audited: Audited) -> None:
    peer = audited.peer
    peer.publish(1, "q", b"x")
    audited.broker.run_turns()
    peer.call(1, BASIC.Qos, prefetch_count=5)
    peer.consume(AUDIT_STREAM, "reader", arguments={"x-stream-offset": "first"})
    _, delivery = peer.receive()
    assert delivery.body.count(b"\n") == 2
    peer.ack(1)
    peer.expect_nothing()
