"""What a publish's properties may ask for: an expiration, a user-id, further routing keys."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.amqp import inspection
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Short, SignedInt, Table, Timestamp, UnsignedByte

from .peer import Peer, Received, SteppedBroker

NOW_MS = 1_700_000_000_000


def headers(**values: object) -> Properties:
    return Properties(headers=Table(values))


def take(peer: Peer, queue: str) -> Received:
    received = peer.get(queue, no_ack=True)
    assert received is not None
    return received


# -------------------------------------------------------------------------------------- expiration


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
        {"user_id": "guest"},
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
    for number in range(3 * inspection.EXPIRATIONS_MAX):
        peer.publish(1, "q", properties=Properties(expiration=str(1000 + number)))
    lane = peer.connection.channels.by_number[1].publishing
    assert 0 < len(lane._inspection._expirations) <= inspection.EXPIRATIONS_MAX
    entries = broker.queue("q").acquire(3 * inspection.EXPIRATIONS_MAX)
    assert [entry.message.expires_at_ms - NOW_MS for entry in entries] == [
        1000 + number for number in range(3 * inspection.EXPIRATIONS_MAX)
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
