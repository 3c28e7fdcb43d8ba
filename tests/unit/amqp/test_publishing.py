"""The way of a publish: lanes, routes, returns and what the broker answers."""

from __future__ import annotations

import pytest

from hareline.amqp.publishing import not_kept_text, return_message, return_refused
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Short, SignedInt, Table, Timestamp, UnsignedByte
from tests.support.messages import make_message

from .peer import Peer, SteppedBroker

# -------------------------------------------------------------------------------------- publishing


def headers(**values: object) -> Properties:
    return Properties(headers=Table(values))


# ---------------------------------------------------------------------------------------- routing


def test_the_default_exchange_reaches_the_queue_of_that_name(peer: Peer) -> None:
    peer.declare("q")
    peer.declare("p")
    peer.fill("q", b"1", b"2", b"3")
    assert peer.drain("q") == [b"1", b"2", b"3"]
    assert peer.drain("p") == []


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 8177, 300_000])
def test_bodies_of_any_size_arrive_whole(broker: SteppedBroker, size: int) -> None:
    peer = broker.connect(frame_max=4096)
    peer.declare("q")
    body = bytes(range(256)) * (size // 256 + 1)
    peer.fill("q", body[:size], body[:size])
    assert peer.drain("q") == [body[:size]] * 2


def test_a_message_is_stored_once_for_all_its_queues(broker: SteppedBroker, peer: Peer) -> None:
    for name in ("a", "b"):
        peer.declare(name)
        peer.bind(name, "amq.fanout")
    peer.publish(1, "", b"x", exchange="amq.fanout")
    entries = [broker.queue(name).acquire(1)[0] for name in ("a", "b")]
    assert entries[0].message is entries[1].message


def test_messages_carry_the_time_of_their_turn(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    start = broker.clock.now_ms
    peer.fill("q", b"1", b"2")
    broker.advance(1.5)
    peer.fill("q", b"3")
    arrivals = [entry.message.arrival_ms - start for entry in broker.queue("q").acquire(3)]
    assert arrivals == [0, 0, 1500]


# ---------------------------------------------------------------------------------------- refusals


def test_a_refused_publish_reaches_no_queue(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.publish_refused(1, "q", body=b"x", properties=Properties(expiration="soon"))
    assert broker.queue("q").ready_count == 0


# --------------------------------------------------------------------------------------- CC and BCC


def bodies_by_queue(peer: Peer, *queues: str) -> dict[str, list[bytes]]:
    return {queue: peer.drain(queue) for queue in queues}


# --------------------------------------------------------------------------------------- mandatory


def test_an_unroutable_mandatory_message_comes_back_whole(peer: Peer) -> None:
    properties = Properties(content_type="text/plain", headers=Table(a=SignedInt(1)))
    for body in (b"first", b"second", b""):
        peer.publish(
            1, "nowhere", body, exchange="amq.direct", properties=properties, mandatory=True
        )
        (returned,) = peer.receive()
        method = returned.method
        assert returned.name == "basic.return"
        assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
        assert (method.exchange, method.routing_key) == ("amq.direct", "nowhere")
        assert (returned.body, returned.properties) == (body, properties)


def test_a_long_returned_body_is_cut_to_the_publishers_frames(broker: SteppedBroker) -> None:
    peer = broker.connect(frame_max=4096)
    peer.publish(1, "nowhere", b"x" * 20_000, mandatory=True)
    assert peer.bodies() == [b"x" * 20_000]


def test_an_unroutable_message_that_is_not_mandatory_is_dropped(peer: Peer) -> None:
    peer.publish(1, "nowhere", b"1")
    peer.publish(1, "nowhere", b"2")
    peer.expect_nothing()


def test_a_routable_mandatory_message_is_not_returned(peer: Peer) -> None:
    peer.declare("q")
    peer.publish(1, "q", b"1", mandatory=True)
    peer.publish(1, "q", b"2", mandatory=True)
    peer.expect_nothing()
    assert peer.drain("q") == [b"1", b"2"]


def test_a_message_that_went_to_the_alternate_exchange_is_routed(peer: Peer) -> None:
    peer.declare_exchange("unrouted", "fanout")
    peer.declare("lost")
    peer.bind("lost", "unrouted")
    peer.declare_exchange("x", arguments={"alternate-exchange": "unrouted"})
    peer.publish(1, "nowhere", b"1", exchange="x", mandatory=True)
    peer.publish(1, "nowhere", b"2", exchange="x", mandatory=True)
    peer.expect_nothing()
    assert peer.drain("lost") == [b"1", b"2"]


# ------------------------------------------------------------------------ properties as they came


def test_property_octets_travel_verbatim(broker: SteppedBroker, peer: Peer) -> None:
    table = Table(a=Short(3), b=UnsignedByte(4), c=Timestamp(2**63), d=1.5, e=None, f="\udcff")
    properties = Properties(headers=table, timestamp=Timestamp(2**62), priority=255, cluster_id="c")
    peer.declare("q")
    for number in (1, 2):  # on the channel it came on, and on another one
        peer.open(2) if number == 2 else None
        peer.publish(1, "q", b"body", properties=properties)
        received = peer.get("q", number=number, no_ack=True)
        assert received is not None
        assert received.properties == properties
        assert received.properties is not None
        assert received.properties.headers is not None
        assert received.properties.headers.kinds == table.kinds


def test_headers_exchanges_look_at_every_message(peer: Peer) -> None:
    peer.declare("reds")
    peer.declare("blues")
    peer.bind("reds", "amq.headers", arguments={"colour": "red"})
    peer.bind("blues", "amq.headers", arguments={"colour": "blue"})
    for colour, body in (("red", b"1"), ("blue", b"2"), ("red", b"3"), ("green", b"4")):
        peer.publish(1, "", body, exchange="amq.headers", properties=headers(colour=colour))
    peer.publish(1, "", b"5", exchange="amq.headers")
    assert bodies_by_queue(peer, "reds", "blues") == {"reds": [b"1", b"3"], "blues": [b"2"]}


# ------------------------------------------------------------------------------------ full queues

REFUSING = {"x-max-length": 1, "x-overflow": "reject-publish"}


def returned_text(peer: Peer) -> str:
    (received,) = peer.receive()
    assert received.name == "basic.return"
    assert received.method.reply_code == 506
    return str(received.method.reply_text)


@pytest.mark.row("A25")
def test_a_mandatory_publish_that_a_queue_refuses_is_returned(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("full", arguments=REFUSING)
    # differs: mandatory-refused
    peer.publish(1, "full", b"1234", mandatory=True)
    peer.expect_nothing()
    peer.publish(1, "full", b"5", mandatory=True)
    assert returned_text(peer) == (
        "No route for message with exchange '' and routing key 'full':Maximum depth exceeded on "
        "'full' : current=[count: 1, size: 4], max=[count: 1, size: -1]"
    )
    assert broker.queue("full").ready_count == 1


def test_a_refused_publish_that_is_not_mandatory_is_dropped(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("full", arguments=REFUSING)
    peer.fill("full", b"1", b"2")
    peer.expect_nothing()
    assert broker.queue("full").ready_count == 1


def test_a_long_key_leaves_room_for_what_the_broker_has_to_say(peer: Peer) -> None:
    peer.declare("full", arguments=REFUSING)
    peer.bind("full", "amq.fanout")
    for _ in range(2):
        peer.publish(1, "k" * 200, b"1234", exchange="amq.fanout", mandatory=True)
    assert returned_text(peer).startswith("Maximum depth exceeded on 'full' : current=[count: 1")


def test_a_long_name_of_a_queue_makes_a_text_that_fits(peer: Peer) -> None:
    name = "n" * 255
    peer.declare(name, arguments=REFUSING)
    for _ in range(2):
        peer.publish(1, name, b"1234", mandatory=True)
    text = returned_text(peer)
    assert len(text) == 255
    assert text.endswith("nnn...")


def test_a_direct_reply_with_a_time_to_live_arrives(peer: Peer) -> None:
    peer.consume("amq.rabbitmq.reply-to", "t", no_ack=True)
    peer.expect(commands.Basic.ConsumeOk)
    peer.declare("server")
    peer.publish(
        1, "server", b"?", properties=Properties(reply_to="amq.rabbitmq.reply-to", expiration="9")
    )
    request = peer.get("server", no_ack=True)
    assert request is not None
    assert request.properties is not None
    assert request.properties.reply_to is not None
    peer.publish(1, request.properties.reply_to, b"!", properties=Properties(expiration="9"))
    assert peer.bodies() == [b"!"]


# ----------------------------------------------------------------------------------------- returns


FULL = {"x-max-length": 0, "x-overflow": "reject-publish"}


def test_a_message_is_returned_with_its_address_and_content(peer: Peer) -> None:
    port = peer.connection.channels.by_number[1].port
    return_message(port, make_message(b"body", exchange="x", routing_key="k"), 312, "NO_ROUTE")
    (returned,) = peer.receive()
    method = returned.method
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, returned.body) == ("x", "k", b"body")


def test_a_closing_channel_returns_nothing(peer: Peer) -> None:
    port = peer.connection.channels.by_number[1].port
    port.is_closing = True
    return_message(port, make_message(b"body"), 312, "NO_ROUTE")
    return_refused(port, make_message(b"body"), None, "no room")
    assert peer.transport.written == b""


def test_a_refused_message_says_who_refused_it(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("full", arguments=FULL)
    overflow = broker.queue("full").overflow
    port = peer.connection.channels.by_number[1].port
    message = make_message(b"body", exchange="", routing_key="full")
    return_refused(port, message, overflow, "")
    return_refused(port, message, overflow, "no room")
    by_queue, by_store = peer.receive()
    assert by_queue.method.reply_text.startswith("No route for message with exchange ''")
    assert by_store.method.reply_text == not_kept_text("no room")
    assert by_queue.method.reply_code == by_store.method.reply_code


def test_a_long_reason_is_cut_to_a_short_string() -> None:
    assert len(not_kept_text("x" * 300).encode()) <= 255
