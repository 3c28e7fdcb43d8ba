"""The death headers: which there are, of which types, and how they go on."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.queues.death_history import barred_queues, record_death, remains_of
from hareline.errors import MalformedFrame
from hareline.message import Address, DeadLetter, Message, Table, decode_fields, encode_fields
from hareline.wire.encoder import header_frame
from hareline.wire.table import Timestamp
from tests.support.messages import ARRIVAL_MS, make_address, make_message

NOW_MS = 1_700_000_123_999


def died(message: Message, queue: str, reason: Any, now_ms: int = NOW_MS) -> DeadLetter:
    """The dead letter of this message, published to the exchange ``dlx`` with its own key."""
    remains = remains_of(message, keeps_copies=True, is_for_default=False)
    headers = record_death(
        remains.history,
        queue=queue,
        reason=reason,
        now_ms=now_ms,
        exchange=message.address.exchange,
        routing_keys=[message.address.routing_key, *remains.copies],
        expiration=remains.parts.expiration,
    )
    history = encode_fields(headers)
    octets = remains.parts.with_fields(remains.fields + history)
    address = Address.of("dlx", message.address.routing_key)
    return DeadLetter(message, octets, address, now_ms, len(history))


def deaths(message: Message) -> list[Any]:
    found = message.headers["x-death"]
    assert isinstance(found, list)
    return found


# ------------------------------------------------------------------------ the first death


def test_the_first_death_writes_all_headers() -> None:
    letter = died(make_message(b"x", exchange="orders", routing_key="new"), "q", "rejected")
    assert letter.headers == {
        "x-death": [
            {
                "count": 1,
                "reason": "rejected",
                "queue": "q",
                "time": 1_700_000_123,
                "exchange": "orders",
                "routing-keys": ["new"],
            }
        ],
        "x-first-death-reason": "rejected",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "orders",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "orders",
    }


def test_every_octet_of_a_death_has_the_type_that_rabbitmq_writes() -> None:
    letter = died(make_message(exchange="e", routing_key="k", expiration="500"), "q", "expired")
    table = (
        b"\x05countl" + (1).to_bytes(8, "big")
        + b"\x06reasonS\0\0\0\x07expired"
        + b"\x05queueS\0\0\0\x01q"
        + b"\x04timeT" + (1_700_000_123).to_bytes(8, "big")
        + b"\x08exchangeS\0\0\0\x01e"
        + b"\x0crouting-keysA\0\0\0\x06S\0\0\0\x01k"
        + b"\x13original-expirationS\0\0\0\x03500"
    )  # fmt: skip
    array = b"F" + len(table).to_bytes(4, "big") + table
    headers = b"\x07x-deathA" + len(array).to_bytes(4, "big") + array
    for moment in (b"first", b"last"):
        for what, value in ((b"reason", b"expired"), (b"queue", b"q"), (b"exchange", b"e")):
            name = b"x-%b-death-%b" % (moment, what)
            headers += b"%c%bS\0\0\0%c%b" % (len(name), name, len(value), value)
    flags = (1 << 13).to_bytes(2, "big")  # headers and nothing else: the expiration is gone
    assert letter.property_octets == flags + len(headers).to_bytes(4, "big") + headers


def test_other_properties_and_headers_stay_octet_for_octet() -> None:
    message = make_message(
        b"body",
        content_type="text/plain",
        headers=Table(n=1, text="t", when=Timestamp(7)),
        delivery_mode=2,
        priority=3,
        message_id="m",
        timestamp=Timestamp(9),
    )
    letter = died(message, "q", "maxlen")
    assert letter.body == b"body"
    assert list(letter.headers.items())[:3] == list(message.headers.items())
    assert letter.headers.kinds["when"] == "T"
    for name in ("content_type", "delivery_mode", "priority", "message_id", "timestamp"):
        assert getattr(letter.properties, name) == getattr(message.properties, name)


def test_only_an_expiration_of_its_own_is_remembered_and_it_is_removed() -> None:
    letter = died(make_message(expiration="60000"), "q", "rejected")
    assert deaths(letter)[0]["original-expiration"] == "60000"
    assert letter.properties.expiration is None
    assert "original-expiration" not in deaths(died(letter, "r", "expired"))[0]
    assert "original-expiration" not in deaths(died(make_message(), "q", "expired"))[0]


def test_carbon_copies_are_among_the_routing_keys() -> None:
    message = make_message(routing_key="k", headers=Table(CC=["a", 7, "b"]))
    letter = died(message, "q", "expired")
    assert deaths(letter)[0]["routing-keys"] == ["k", "a", "b"]
    assert letter.headers["CC"] == ["a", 7, "b"]


def test_a_copies_header_that_is_no_array_routes_nowhere() -> None:
    letter = died(make_message(routing_key="k", headers=Table(CC="a")), "q", "maxlen")
    assert deaths(letter)[0]["routing-keys"] == ["k"]
    assert letter.headers["CC"] == "a"


def test_copies_may_be_left_out() -> None:
    message = make_message(headers=Table(a=1, CC=["copy"], b=Timestamp(2)))
    remains = remains_of(message, keeps_copies=False, is_for_default=False)
    assert remains.copies == ("copy",)
    assert decode_fields(remains.fields) == {"a": 1, "b": 2}
    assert decode_fields(remains.fields).kinds == {"a": "l", "b": "T"}


def test_the_message_that_died_stays_as_it_was() -> None:
    """It may wait in other queues too."""
    message = make_message(headers=Table(n=1), expiration="5")
    before = message.content
    died(message, "q", "expired")
    assert message.content == before
    assert message.headers == {"n": 1}
    assert message.arrival_ms == ARRIVAL_MS


def test_properties_that_cannot_be_read_are_named() -> None:
    header = header_frame(1, b"\x20\x00\x00\x00\x00\xff", 0)
    message = Message(make_address(), header, len(header), 0, 1, 0)
    with pytest.raises(MalformedFrame, match="basic properties"):
        died(message, "q", "expired")


# ------------------------------------------------------------------------ the next deaths


def test_another_queue_or_reason_is_a_death_of_its_own_and_the_latest_comes_first() -> None:
    letter = died(make_message(exchange="orders", routing_key="k"), "q", "expired")
    letter = died(letter, "r", "expired")
    letter = died(letter, "q", "rejected")
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths(letter)] == [
        ("q", "rejected", 1),
        ("r", "expired", 1),
        ("q", "expired", 1),
    ]
    assert [death["exchange"] for death in deaths(letter)] == ["dlx", "dlx", "orders"]


def test_a_repetition_counts_up_and_moves_to_the_front_with_its_first_time() -> None:
    letter = died(make_message(exchange="orders", expiration="5"), "q", "rejected", 1_000)
    letter = died(letter, "r", "expired", 2_000)
    letter = died(letter, "q", "rejected", 3_000)
    letter = died(letter, "q", "rejected", 4_000)
    first, second = deaths(letter)
    assert first == {
        "count": 3,
        "reason": "rejected",
        "queue": "q",
        "time": 1,
        "exchange": "orders",
        "routing-keys": [""],
        "original-expiration": "5",
    }
    assert first.kinds["count"] == "l"
    assert first.kinds["time"] == "T"
    assert (second["queue"], second["time"]) == ("r", 2)


def test_the_first_death_is_kept_and_the_last_one_is_not() -> None:
    letter = died(make_message(exchange="orders"), "q", "maxlen")
    letter = died(letter, "r", "expired")
    headers = letter.headers
    names = ("reason", "queue", "exchange")
    assert [headers[f"x-first-death-{name}"] for name in names] == ["maxlen", "q", "orders"]
    assert [headers[f"x-last-death-{name}"] for name in names] == ["expired", "r", "dlx"]


@pytest.mark.parametrize(
    "forged",
    [
        [Table(count=41, reason="rejected", queue="q", time=Timestamp(1))],
        ["no table"],
        "no array",
        None,
    ],
)
def test_death_headers_that_a_client_wrote_are_replaced_at_the_first_real_death(
    forged: object,
) -> None:
    headers = Table({"x-death": forged, "x-first-death-queue": "forged", "mine": 1})
    letter = died(make_message(headers=headers), "q", "rejected")
    assert [death["count"] for death in deaths(letter)] == [1]
    assert letter.headers["x-first-death-queue"] == "q"
    assert letter.headers["x-first-death-reason"] == "rejected"
    assert letter.headers["mine"] == 1


def test_names_of_the_default_exchange_are_only_taken_away_for_it() -> None:
    message = make_message(headers=Table({"x-dead-reason": "mine", "x-dead-line": 1}))
    remains = remains_of(message, keeps_copies=True, is_for_default=False)
    assert decode_fields(remains.fields) == message.headers
    remains = remains_of(message, keeps_copies=True, is_for_default=True)
    assert decode_fields(remains.fields) == {"x-dead-line": 1}


def test_a_death_that_a_client_only_mentions_is_no_header_of_ours() -> None:
    headers = Table({"life-and-death": "x-death", "cause": "x-first-death-reason"})
    letter = died(make_message(headers=headers), "q", "rejected")
    assert list(letter.headers.items())[:2] == list(headers.items())
    assert [death["count"] for death in deaths(letter)] == [1]


def test_the_history_is_found_behind_a_header_that_was_written_later() -> None:
    letter = died(make_message(headers=Table(n=1)), "q", "rejected")
    letter = died(letter.with_header("x-delivery-count", 2), "q", "rejected")
    assert [death["count"] for death in deaths(letter)] == [2]
    assert letter.headers["n"] == 1
    assert letter.headers["x-delivery-count"] == 2
    assert len([name for name in letter.headers if name == "x-death"]) == 1
    assert [death["count"] for death in deaths(died(letter, "q", "rejected"))] == [3]


# ----------------------------------------------------------------------------- its cycles


def death(queue: str, reason: str) -> Table:
    return Table(queue=queue, reason=reason)


@pytest.mark.parametrize(
    ("history", "barred"),
    [
        ([], set()),
        ([death("a", "expired")], {"a"}),
        ([death("a", "rejected")], set()),
        ([death("a", "expired"), death("b", "maxlen")], {"a", "b"}),
        ([death("a", "expired"), death("b", "rejected"), death("c", "expired")], {"a"}),
        ([death("b", "rejected"), death("a", "expired")], set()),
        ([death("a", "delivery_limit"), death("a", "rejected")], {"a"}),
    ],
)
def test_queues_are_barred_up_to_the_last_rejection(history: list[Table], barred: set[str]) -> None:
    assert barred_queues(history) == barred
