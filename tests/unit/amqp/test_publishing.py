"""A publish: where it goes, what is returned, and what its properties may ask for.

Every case that a route cache could spoil is published twice: the first publish comes by the long
way, the second by the decoder's lane.
"""

from __future__ import annotations

from typing import Any

import pytest

from hareline.amqp import publishing
from hareline.auth.permissions import Permissions
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from hareline.wire.table import Short, SignedInt, Table, Timestamp, UnsignedByte

from .peer import Peer, Received, Refusal, SteppedBroker, publish_octets

NOW_MS = 1_700_000_000_000
EXCHANGE, QUEUE = commands.Exchange, commands.Queue


def headers(**values: object) -> Properties:
    return Properties(headers=Table(values))


def take(peer: Peer, queue: str) -> Received:
    received = peer.get(queue, no_ack=True)
    assert received is not None
    return received


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


@pytest.mark.parametrize("first", ["unbound", "bound"])
def test_a_binding_change_reaches_the_very_next_publish(peer: Peer, first: str) -> None:
    peer.declare("q")
    if first == "bound":
        peer.bind("q", "amq.direct", "k")
    publish = publish_octets(1, "k", b"x", exchange="amq.direct")
    bind = encode_method(1, QUEUE.Bind, queue="q", exchange="amq.direct", routing_key="k")
    unbind = encode_method(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="k")
    change, back = (unbind, bind) if first == "bound" else (bind, unbind)
    peer.send_octets(publish * 3 + change + publish * 3 + back + publish * 3)  # one read
    assert len(peer.receive()) == 2
    assert len(peer.drain("q")) == (6 if first == "bound" else 3)


def test_a_binding_change_of_another_connection_reaches_the_very_next_publish(
    broker: SteppedBroker, peer: Peer
) -> None:
    other = broker.connect()
    other.declare("q")
    peer.publish(1, "k", b"1", exchange="amq.direct")
    peer.publish(1, "k", b"2", exchange="amq.direct")
    other.bind("q", "amq.direct", "k")
    peer.publish(1, "k", b"3", exchange="amq.direct")
    other.call(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="k")
    peer.publish(1, "k", b"4", exchange="amq.direct")
    assert other.drain("q") == [b"3"]


def test_a_deleted_queue_gets_nothing_more_and_a_new_one_of_its_name_does(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.call(1, QUEUE.Delete, queue="q")
    peer.fill("q", b"3")
    peer.declare("q")
    peer.fill("q", b"4")
    assert peer.drain("q") == [b"4"]


def test_a_deleted_exchange_is_404_even_for_a_cached_route(peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.publish(1, "k", exchange="x")
    peer.publish(1, "k", exchange="x")
    peer.call(1, EXCHANGE.Delete, exchange="x")
    assert peer.publish_refused(1, "k", exchange="x") == (
        404,
        "NOT_FOUND - no exchange 'x' in vhost '/'",
    )


def test_more_routes_than_are_remembered_still_arrive(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "ROUTES_MAX", 4)
    peer.declare("q")
    for number in range(10):
        peer.bind("q", "amq.direct", f"k{number}")
    for _ in range(2):
        for number in range(10):
            peer.publish(1, f"k{number}", b"%d" % number, exchange="amq.direct")
    assert len(peer.drain("q")) == 20
    assert len(peer.connection.channels.by_number[1].publishing.routes) <= 4


def test_more_property_sets_than_are_remembered_still_arrive(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PLAIN_PROPERTIES_MAX", 4)
    peer.declare("q")
    for number in range(10):
        peer.publish(1, "q", properties=Properties(message_id=str(number)))
    ids = []
    while (received := peer.get("q", no_ack=True)) is not None:
        assert received.properties is not None
        ids.append(received.properties.message_id)
    assert ids == [str(number) for number in range(10)]


def test_messages_carry_the_time_of_their_turn(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    start = broker.clock.now_ms
    peer.fill("q", b"1", b"2")
    broker.advance(1.5)
    peer.fill("q", b"3")
    arrivals = [entry.message.arrival_ms - start for entry in broker.queue("q").acquire(3)]
    assert arrivals == [0, 0, 1500]


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("is_known", [False, True])
def test_an_unknown_exchange_is_404(peer: Peer, is_known: bool) -> None:
    if is_known:
        peer.publish_refused(1, "k", exchange="nope")
        peer.open(1)
    peer.publish(1, "k", b"body", exchange="nope")
    assert peer.refusal() == Refusal(
        "channel", 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", 60, 40
    )


def test_an_internal_exchange_is_403_to_clients(peer: Peer) -> None:
    peer.declare_exchange("inside", internal=True)
    assert peer.publish_refused(1, "k", exchange="inside") == (
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'",
    )


def test_the_trace_exchange_is_internal(peer: Peer) -> None:
    assert peer.publish_refused(1, "k", exchange="amq.rabbitmq.trace")[0] == 403


def test_immediate_is_540_in_these_words(peer: Peer) -> None:
    peer.declare("q")
    peer.publish(1, "q", b"x", immediate=True)
    assert peer.refusal() == Refusal("connection", 540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


def test_a_refused_publish_reaches_no_queue(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.publish_refused(1, "q", body=b"x", properties=Properties(expiration="soon"))
    assert broker.queue("q").ready_count == 0


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("expiration", "problem"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        (" 5", "no_integer"),
        ("-", "no_integer"),
        ("5x", '{leftover_string,"x"}'),
        ("5 ", '{leftover_string," "}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-5x", '{leftover_string,"x"}'),
        ("-1", "{value_negative,-1}"),
        ("\u0665", "no_integer"),
    ],
)
def test_an_expiration_that_is_no_whole_number_is_406(
    peer: Peer, expiration: str, problem: str, is_known: bool
) -> None:
    peer.declare("q")
    if is_known:
        peer.fill("q", b"", b"")
    assert peer.publish_refused(1, "q", properties=Properties(expiration=expiration)) == (
        406,
        f"PRECONDITION_FAILED - invalid expiration '{expiration}': {problem}",
    )


@pytest.mark.parametrize(
    "expiration", ["0", "1", "+5", "-0", "0060", "315360000000", "1700000000000"]
)
def test_a_good_expiration_travels_as_it_was_written(peer: Peer, expiration: str) -> None:
    peer.declare("q")
    peer.subscribe("q", "c", no_ack=True)
    peer.publish(1, "q", properties=Properties(expiration=expiration))
    peer.publish(1, "q", properties=Properties(expiration=expiration))
    assert [each.properties for each in peer.receive()] == [Properties(expiration=expiration)] * 2


@pytest.mark.parametrize(
    ("expiration", "ttl_ms"),
    [
        ("0", 0),
        ("1", 1),
        ("+5", 5),
        ("-0", 0),
        ("0060", 60),
        ("315360000000", 315_360_000_000),
        ("315360000001", 315_360_000_001 - NOW_MS),  # above ten years it is an instant
        (str(NOW_MS - 1), -1),
        (str(NOW_MS + 60_000), 60_000),
        ("9" * 255, (1 << 63) - 1 - NOW_MS),  # and never, which the journal can still write
    ],
)
@pytest.mark.parametrize(
    "others",
    [
        {},  # nothing else is asked for
        {"message_id": "m", "headers": Table(a=1), "delivery_mode": 2},
        {"user_id": "guest"},  # so that the properties have to be decoded
        {"headers": Table(CC=["cc"])},
        {"headers": Table(BCC=["bcc"])},  # and written anew
        {"message_id": "m" * 255},  # too long to be remembered
    ],
)
def test_an_expiration_is_an_instant_from_the_publish_on(
    broker: SteppedBroker, peer: Peer, expiration: str, ttl_ms: int, others: dict[str, Any]
) -> None:
    assert broker.clock.now_ms == NOW_MS
    peer.declare("q")
    properties = Properties(expiration=expiration, **others)
    for _ in range(3):
        peer.publish(1, "q", properties=properties)
        broker.clock.advance(10)
    entries = broker.queue("q").acquire(3)
    is_instant = ttl_ms < 0 or int(expiration) > 315_360_000_000
    later_ms = 0 if is_instant else 10
    times = [entry.message.expires_at_ms - NOW_MS for entry in entries]
    assert times == [ttl_ms, ttl_ms + later_ms, ttl_ms + 2 * later_ms]


def test_a_message_without_an_expiration_has_no_end(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    for properties in (Properties(expiration="5"), Properties(), Properties(message_id="5")):
        peer.publish(1, "q", properties=properties)
    entries = broker.queue("q").acquire(3)
    assert [entry.message.expires_at_ms != 0 for entry in entries] == [True, False, False]


def test_expirations_are_remembered_in_bounds(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    for number in range(3 * publishing.EXPIRATIONS_MAX):
        peer.publish(1, "q", properties=Properties(expiration=str(1000 + number)))
    lane = peer.connection.channels.by_number[1].publishing
    assert 0 < len(lane._expirations) <= publishing.EXPIRATIONS_MAX
    entries = broker.queue("q").acquire(3 * publishing.EXPIRATIONS_MAX)
    assert [entry.message.expires_at_ms - NOW_MS for entry in entries] == [
        1000 + number for number in range(3 * publishing.EXPIRATIONS_MAX)
    ]


def test_in_a_transaction_an_expiration_counts_from_the_commit(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    peer.call(1, commands.Tx.Select)
    peer.publish(1, "q", properties=Properties(expiration="100"))
    peer.publish(1, "q", properties=Properties(expiration=str(NOW_MS + 700)))
    broker.clock.advance(500)
    peer.call(1, commands.Tx.Commit)
    entries = broker.queue("q").acquire(2)
    assert [entry.message.expires_at_ms - NOW_MS for entry in entries] == [600, 700]


def test_an_expired_message_is_gone(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.publish(1, "q", b"short", properties=Properties(expiration="100"))
    peer.publish(1, "q", b"long", properties=Properties(expiration="200"))
    peer.receive()
    broker.advance(0.1)
    assert broker.queue("q").ready_count == 1
    assert peer.drain("q") == [b"long"]


# ----------------------------------------------------------------------------------------- user-id


def test_the_own_user_id_is_accepted(peer: Peer) -> None:
    peer.declare("q")
    for _ in range(2):
        peer.publish(1, "q", properties=Properties(user_id="guest"))
        assert take(peer, "q").properties == Properties(user_id="guest")


def test_a_foreign_user_id_is_406(peer: Peer) -> None:
    assert peer.publish_refused(1, "q", properties=Properties(user_id="bob")) == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'",
    )


def test_an_impersonator_may_use_any_user_id(broker: SteppedBroker) -> None:
    broker.add_user("shovel", "shovel", tags=["impersonator"])
    peer = broker.connect("shovel")
    peer.declare("q")
    peer.publish(1, "q", properties=Properties(user_id="bob"))
    assert take(peer, "q").properties == Properties(user_id="bob")


def test_the_user_id_is_checked_before_the_expiration(peer: Peer) -> None:
    properties = Properties(user_id="bob", expiration="soon", headers=Table(CC=1))
    assert "user_id" in peer.publish_refused(1, "q", properties=properties)[1]


def test_the_expiration_is_checked_before_cc(peer: Peer) -> None:
    properties = Properties(expiration="soon", headers=Table(CC=1))
    assert "expiration" in peer.publish_refused(1, "q", properties=properties)[1]


# --------------------------------------------------------------------------------------- CC and BCC


def bodies_by_queue(peer: Peer, *queues: str) -> dict[str, list[bytes]]:
    return {queue: peer.drain(queue) for queue in queues}


def test_cc_and_bcc_add_routing_keys(peer: Peer) -> None:
    for name in ("a", "b", "c", "d"):
        peer.declare(name)
    properties = headers(CC=["b"], BCC=["c"])
    peer.publish(1, "a", b"1", properties=properties)
    peer.publish(1, "a", b"2", properties=properties)
    got = bodies_by_queue(peer, "a", "b", "c", "d")
    assert got == {"a": [b"1", b"2"], "b": [b"1", b"2"], "c": [b"1", b"2"], "d": []}


def test_a_queue_reached_by_several_keys_gets_one_copy(peer: Peer) -> None:
    peer.declare("a")
    peer.publish(1, "a", b"1", properties=headers(CC=["a", "a"], BCC=["a"]))
    assert peer.drain("a") == [b"1"]


def test_cc_is_seen_by_everybody_and_bcc_by_nobody(peer: Peer) -> None:
    peer.declare("a")
    peer.declare("c")
    sent = Properties(
        content_type="x/y", headers=Table(CC=["b"], BCC=["c"], n=SignedInt(7)), app_id="z"
    )
    peer.publish(1, "a", b"body", properties=sent)
    for queue in ("a", "c"):
        received = take(peer, queue)
        assert received.body == b"body"
        assert received.properties is not None
        assert received.properties.headers == {"CC": ["b"], "n": 7}
        assert received.properties.headers.kinds == {"CC": "A", "n": "I"}
        assert (received.properties.content_type, received.properties.app_id) == ("x/y", "z")


def test_the_routing_key_delivered_is_the_one_published_with(peer: Peer) -> None:
    peer.declare("c")
    peer.publish(1, "a", properties=headers(CC=["c"]))
    assert take(peer, "c").method.routing_key == "a"


def test_cc_counts_for_mandatory(peer: Peer) -> None:
    peer.declare("c")
    peer.publish(1, "nowhere", properties=headers(CC=["c"]), mandatory=True)
    peer.expect_nothing()


def test_a_returned_message_shows_no_bcc(peer: Peer) -> None:
    peer.publish(1, "nowhere", properties=headers(CC=["x"], BCC=["y"]), mandatory=True)
    (returned,) = peer.receive()
    assert returned.properties == headers(CC=["x"])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (SignedInt(1), "signedint"),
        (Short(1), "short"),
        (UnsignedByte(1), "unsignedbyte"),
        (1, "long"),
        ("a", "longstr"),
        (True, "bool"),
        (None, "void"),
        (b"a", "binary"),
        (1.5, "double"),
        ({"a": 1}, "table"),
        (Timestamp(1), "timestamp"),
    ],
)
@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_cc_and_bcc_must_be_arrays(peer: Peer, name: str, value: object, kind: str) -> None:
    assert peer.publish_refused(1, "q", properties=headers(**{name: value})) == (
        406,
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}',
    )


def test_what_is_no_string_in_cc_is_skipped(peer: Peer) -> None:
    peer.declare("a")
    peer.declare("b")
    values: list[Any] = [5, "a", None, b"b", ["b"]]
    peer.publish(1, "nowhere", b"1", properties=headers(CC=values))
    assert bodies_by_queue(peer, "a", "b") == {"a": [b"1"], "b": []}


def test_names_are_compared_with_their_case(peer: Peer) -> None:
    peer.declare("a")
    peer.publish(1, "nowhere", properties=headers(cc=["a"]))
    assert peer.drain("a") == []


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


# ------------------------------------------------------------------------------------- permissions


def test_publishing_needs_write_on_the_exchange(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "^amq.direct$", ""))
    peer = broker.connect("alice")
    peer.publish(1, "k", exchange="amq.direct")
    peer.expect_nothing()
    assert peer.publish_refused(1, "k", exchange="amq.topic") == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.topic' in vhost '/' "
        "refused for user 'alice'",
    )


@pytest.mark.parametrize("routing_key", ["q", "amq.rabbitmq.reply-to.somebody"])
def test_the_default_exchange_is_shown_as_amq_default(
    broker: SteppedBroker, routing_key: str
) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "^q$", ""))
    peer = broker.connect("alice")
    assert peer.publish_refused(1, routing_key) == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' "
        "refused for user 'alice'",
    )


def test_the_right_to_write_comes_before_the_existence(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "", ""))
    peer = broker.connect("alice")
    assert peer.publish_refused(1, "k", exchange="nope")[0] == 403


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


def test_a_known_route_notices_that_its_queue_became_full(
    broker: SteppedBroker, peer: Peer
) -> None:
    """The lane of the decoder must not carry publishes past the limit."""
    peer.declare("full", arguments={"x-max-length": 3})
    peer.send_octets(publish_octets(1, "full", b"x") * 100)
    peer.expect_nothing()
    assert broker.queue("full").ready_count == 3


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
