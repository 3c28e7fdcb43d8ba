"""Direct reply-to: replies without a queue, from the requester's channel and back to it."""

from __future__ import annotations

import re

import pytest

from hareline import events
from hareline.amqp import reply_to
from hareline.amqp.reply_to import REPLY_TO_NAME
from hareline.wire.methods import Frame, commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker

BASIC, QUEUE = commands.Basic, commands.Queue
REQUEST = Properties(reply_to=REPLY_TO_NAME, correlation_id="c1", headers=Table(a="b"))


@pytest.fixture
def server(broker: SteppedBroker) -> Peer:
    """Answers what is in the queue "requests"."""
    server = broker.connect()
    server.declare("requests")
    return server


@pytest.fixture
def requester(peer: Peer) -> Peer:
    peer.subscribe(REPLY_TO_NAME, "replies", no_ack=True)
    return peer


def address_of_request(requester: Peer, server: Peer) -> str:
    """Publish a request; the address that the server finds in it."""
    requester.publish(1, "requests", b"question", properties=REQUEST)
    received = server.get("requests", no_ack=True)
    assert received is not None
    assert received.properties is not None
    assert received.properties.reply_to is not None
    return received.properties.reply_to


def test_the_reply_to_of_a_request_is_made_an_address(requester: Peer, server: Peer) -> None:
    requester.publish(1, "requests", b"question", properties=REQUEST)
    received = server.get("requests", no_ack=True)
    assert received is not None
    assert received.properties is not None
    address = received.properties.reply_to
    assert address is not None
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\..{20,200}", address)
    assert received.properties == Properties(
        reply_to=address, correlation_id="c1", headers=Table(a="b")
    )
    assert received.body == b"question"


@pytest.mark.row("E10")
def test_a_reply_comes_straight_to_the_requesters_channel(requester: Peer, server: Peer) -> None:
    address = address_of_request(requester, server)
    server.publish(1, address, b"answer", properties=Properties(correlation_id="c1"))
    (reply,) = requester.receive()
    assert (reply.channel, reply.name, reply.body) == (1, "basic.deliver", b"answer")
    method = reply.method
    assert (method.consumer_tag, method.exchange, method.routing_key) == ("replies", "", address)
    assert (method.delivery_tag, method.redelivered) == (1, False)
    assert reply.properties == Properties(correlation_id="c1")


def test_all_requests_of_a_channel_have_one_address(requester: Peer, server: Peer) -> None:
    addresses = {address_of_request(requester, server) for _ in range(3)}
    assert len(addresses) == 1


def test_replies_keep_their_order_and_count_the_channels_tags(
    requester: Peer, server: Peer
) -> None:
    address = address_of_request(requester, server)
    server.fill(address, b"1", b"2", b"3")
    replies = [(one.method.delivery_tag, one.body) for one in requester.receive()]
    assert replies == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_a_long_reply_is_cut_to_the_requesters_frames(broker: SteppedBroker, server: Peer) -> None:
    requester = broker.connect(frame_max=4096, channels=[1, 5])
    requester.subscribe(REPLY_TO_NAME, "t", number=5, no_ack=True)
    requester.publish(5, "requests", properties=REQUEST)
    received = server.get("requests", no_ack=True)
    assert received is not None
    assert received.properties is not None
    server.publish(1, str(received.properties.reply_to), b"x" * 30_000)
    (reply,) = requester.receive()
    assert (reply.channel, reply.body) == (5, b"x" * 30_000)


def test_the_tag_may_be_generated_and_the_answer_left_out(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    ok = peer.call(1, BASIC.Consume, queue=REPLY_TO_NAME, no_ack=True)
    assert ok.consumer_tag.startswith("amq.ctag-")
    peer.consume(REPLY_TO_NAME, "t", number=2, no_ack=True, nowait=True)
    peer.expect_nothing()


def test_a_request_with_cc_carries_the_address_everywhere(requester: Peer, server: Peer) -> None:
    server.declare("copies")
    properties = Properties(reply_to=REPLY_TO_NAME, headers=Table(BCC=["copies"]))
    requester.publish(1, "requests", properties=properties)
    seen = []
    for queue in ("requests", "copies"):
        received = server.get(queue, no_ack=True)
        assert received is not None
        assert received.properties is not None
        seen.append(received.properties.reply_to)
        assert received.properties.headers == {}
    assert seen[0] == seen[1]
    assert seen[0] != REPLY_TO_NAME


def test_a_reply_is_confirmed_like_any_publish(requester: Peer, server: Peer) -> None:
    address = address_of_request(requester, server)
    server.call(1, commands.Confirm.Select)
    server.publish(1, address, b"answer")
    assert server.expect(BASIC.Ack).delivery_tag == 1


def test_a_reply_in_a_transaction_waits_for_the_commit(requester: Peer, server: Peer) -> None:
    address = address_of_request(requester, server)
    server.call(1, commands.Tx.Select)
    server.publish(1, address, b"answer")
    requester.expect_nothing()
    server.call(1, commands.Tx.Commit)
    assert requester.bodies() == [b"answer"]


# ----------------------------------------------------------------------------- the requester goes


@pytest.mark.parametrize("how", ["cancel", "channel", "connection", "loss"])
def test_replies_to_a_requester_that_is_gone_are_dropped(
    broker: SteppedBroker, requester: Peer, server: Peer, how: str
) -> None:
    address = address_of_request(requester, server)
    server.publish(1, address, b"in time")
    assert requester.bodies() == [b"in time"]
    if how == "cancel":
        requester.call(1, BASIC.Cancel, consumer_tag="replies")
    elif how == "channel":
        requester.call(1, commands.Channel.Close)
    elif how == "connection":
        requester.call(0, commands.Connection.Close)
    else:
        requester.lose()
    server.publish(1, address, b"late", mandatory=True)
    server.expect_nothing()
    requester.expect_nothing()
    assert broker.vhost.reply_queues == {}


def test_a_requester_that_comes_back_has_another_address(requester: Peer, server: Peer) -> None:
    before = address_of_request(requester, server)
    requester.call(1, BASIC.Cancel, consumer_tag="replies")
    requester.subscribe(REPLY_TO_NAME, "replies", no_ack=True)
    after = address_of_request(requester, server)
    assert before != after
    server.fill(before, b"late")
    server.fill(after, b"in time")
    assert requester.bodies() == [b"in time"]


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_replies_wait_for_a_full_socket_up_to_a_limit_of_octets(
    broker: SteppedBroker, requester: Peer, server: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of_request(requester, server)
    # differs: direct-reply-full
    content_bytes = 22 + 9  # a header frame without properties, a body frame of one octet
    monkeypatch.setattr(reply_to, "WAITING_MAX_BYTES", 3 * content_bytes)
    for _ in range(2):
        requester.connection.on_socket_full()
        server.fill(address, *[b"%d" % number for number in range(5)])
        requester.expect_nothing()
        requester.connection.on_socket_drained()
        assert requester.bodies() == [b"0", b"1", b"2"]
    server.fill(address, b"5")
    assert requester.bodies() == [b"5"]
    once = {"peer": "127.0.0.1:40000", "channel": 1}  # for each time that the socket was full
    assert broker.reported(events.REPLIES_DROPPED) == [once, once]


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_one_reply_waits_however_long_it_is(
    requester: Peer, server: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_to, "WAITING_MAX_BYTES", 10)
    address = address_of_request(requester, server)
    requester.connection.on_socket_full()
    server.fill(address, b"x" * 1000, b"y")
    requester.connection.on_socket_drained()
    assert requester.bodies() == [b"x" * 1000]


def test_replies_fill_the_output_of_a_turn_like_deliveries(requester: Peer, server: Peer) -> None:
    address = address_of_request(requester, server)
    server.fill(address, *[bytes(100_000)] * 15)
    assert len(requester.bodies()) == 15
    assert not requester.connection.output.is_full


def test_copies_of_a_reply_go_to_their_queues(requester: Peer, server: Peer) -> None:
    server.declare("copies")
    address = address_of_request(requester, server)
    headers = Table(CC=["copies"])
    server.publish(1, address, b"answer", properties=Properties(headers=headers))
    assert requester.bodies() == [b"answer"]
    assert server.drain("copies") == [b"answer"]


def test_a_reply_committed_after_the_requester_left_is_dropped(
    requester: Peer, server: Peer
) -> None:
    address = address_of_request(requester, server)
    server.call(1, commands.Tx.Select)
    server.publish(1, address, b"answer", mandatory=True)
    requester.call(1, BASIC.Cancel, consumer_tag="replies")
    server.call(1, commands.Tx.Commit)
    requester.expect_nothing()


# ------------------------------------------------------------------------------------- refusals


def test_a_reply_consumer_cannot_acknowledge(peer: Peer) -> None:
    assert peer.refused(1, BASIC.Consume, queue=REPLY_TO_NAME) == (
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
    )


def test_a_channel_has_one_reply_consumer(requester: Peer) -> None:
    refusal = requester.refused(
        1, BASIC.Consume, queue=REPLY_TO_NAME, consumer_tag="more", no_ack=True
    )
    assert refusal == (406, "PRECONDITION_FAILED - reply consumer already set")


def test_its_tag_is_taken(requester: Peer) -> None:
    requester.declare("q")
    assert requester.refused(1, BASIC.Consume, queue="q", consumer_tag="replies") == (
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'replies'",
    )


@pytest.mark.parametrize("after_cancel", [False, True])
def test_a_request_without_a_reply_consumer_is_406(peer: Peer, after_cancel: bool) -> None:
    if after_cancel:
        peer.subscribe(REPLY_TO_NAME, "replies", no_ack=True)
        peer.publish(1, "requests", properties=REQUEST)
        peer.call(1, BASIC.Cancel, consumer_tag="replies")
    assert peer.publish_refused(1, "requests", properties=REQUEST) == (
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
    )


def test_the_reply_consumer_must_be_on_the_same_channel(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.subscribe(REPLY_TO_NAME, "t", no_ack=True)
    assert peer.publish_refused(2, "requests", properties=REQUEST)[0] == 406


# ------------------------------------------------------------------------------ as a queue name


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_the_name_says_that_it_is_there(peer: Peer, passive: bool) -> None:
    ok = peer.call(1, QUEUE.Declare, queue=REPLY_TO_NAME, passive=passive)
    assert (ok.queue, ok.message_count, ok.consumer_count) == (REPLY_TO_NAME, 0, 1)


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_an_address_asks_whether_the_requester_is_there(
    requester: Peer, server: Peer, passive: bool
) -> None:
    address = address_of_request(requester, server)
    ok = server.call(1, QUEUE.Declare, queue=address, passive=passive)
    assert (ok.queue, ok.message_count, ok.consumer_count) == (address, 0, 1)
    requester.lose()
    assert server.refused(1, QUEUE.Declare, queue=address, passive=passive) == (
        404,
        f"NOT_FOUND - no queue '{address}' in vhost '/'",
    )


@pytest.mark.parametrize("method_class", [QUEUE.Bind, QUEUE.Unbind])
@pytest.mark.parametrize("name", [REPLY_TO_NAME, f"{REPLY_TO_NAME}.x"])
def test_it_cannot_be_bound(peer: Peer, method_class: type[Frame], name: str) -> None:
    assert peer.refused(1, method_class, queue=name, exchange="amq.direct") == (
        403,
        "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue",
    )


@pytest.mark.parametrize("method_class", [BASIC.Get, QUEUE.Purge])
def test_it_is_no_queue_to_get_from_or_to_purge(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class, queue=REPLY_TO_NAME) == (
        404,
        f"NOT_FOUND - no queue '{REPLY_TO_NAME}' in vhost '/'",
    )
