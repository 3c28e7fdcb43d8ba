"""The death headers: which there are, of which types, and how they go on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hareline.errors import MalformedFrame
from hareline.message import (
    Address,
    Message,
    Table,
    dead_letter,
    decode_fields,
    encode_fields,
)
from hareline.queues.dead_letters import history as death_history
from hareline.queues.dead_letters.history import (
    DEATHS_MAX,
    DEATHS_MAX_BYTES,
    History,
    dead_message_of,
    first_death,
    record_death,
)
from hareline.wire.encoder import header_frame
from hareline.wire.table import Timestamp
from tests.support.messages import ARRIVAL_MS, make_address, make_message

NOW_MS = 1_700_000_123_999


def died(message: Message, queue: str, reason: Any, now_ms: int = NOW_MS) -> Message:
    """The dead letter of this message, published to the exchange ``dlx`` with its own key."""
    dead = dead_message_of(message, keeps_copies=True, is_for_default=False)
    history = record_death(
        dead.history,
        queue=queue,
        reason=reason,
        now_ms=now_ms,
        exchange=message.address.exchange,
        routing_keys=[message.address.routing_key, *dead.copies],
        expiration=dead.parts.expiration,
    )
    assert history is not None
    octets = dead.parts.with_fields(dead.fields + history.octets)
    address = Address.of("dlx", message.address.routing_key)
    return dead_letter(message, octets, address, now_ms, len(history.octets))


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
    dead = dead_message_of(message, keeps_copies=False, is_for_default=False)
    assert dead.copies == ("copy",)
    assert decode_fields(dead.fields) == {"a": 1, "b": 2}
    assert decode_fields(dead.fields).kinds == {"a": "l", "b": "T"}


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
    dead = dead_message_of(message, keeps_copies=True, is_for_default=False)
    assert decode_fields(dead.fields) == message.headers
    dead = dead_message_of(message, keeps_copies=True, is_for_default=True)
    assert decode_fields(dead.fields) == {"x-dead-line": 1}


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


def test_what_a_client_wrote_under_the_names_of_the_default_exchange_is_no_history() -> None:
    letter = died(make_message(headers=Table({"x-dead-reason": "mine"})), "q", "rejected")
    moved = letter.with_header("x-delivery-count", 2)
    dead = dead_message_of(moved, keeps_copies=True, is_for_default=True)
    assert decode_fields(dead.fields) == {"x-delivery-count": 2}
    assert "x-dead-reason" not in decode_fields(dead.history)
    dead = dead_message_of(moved, keeps_copies=True, is_for_default=False)
    assert decode_fields(dead.fields)["x-dead-reason"] == "mine"


# ----------------------------------------------------------------------------- its cycles


def history_of(*deaths: tuple[str, Any], **options: Any) -> History | None:
    """The history of a message that died in these queues for these reasons, the first one first."""
    history: History | None = History(b"", frozenset())
    for queue, reason in deaths:
        assert history is not None
        history = one_more(history, queue, reason, **options)
    return history


def one_more(history: History, queue: str, reason: Any, routing_key: str = "k") -> History | None:
    return record_death(
        history.octets,
        queue=queue,
        reason=reason,
        now_ms=NOW_MS,
        exchange="e",
        routing_keys=[routing_key],
        expiration=None,
    )


def queues_in(history: History | None) -> list[object]:
    assert history is not None
    found: Any = decode_fields(history.octets)["x-death"]
    return [death["queue"] for death in found]


@pytest.mark.parametrize(
    ("deaths", "barred"),
    [
        ([("a", "expired")], {"a"}),
        ([("a", "rejected")], set()),
        ([("b", "maxlen"), ("a", "expired")], {"a", "b"}),
        ([("c", "expired"), ("b", "rejected"), ("a", "expired")], {"a"}),
        ([("a", "expired"), ("b", "rejected")], set()),
        ([("a", "rejected"), ("a", "delivery_limit")], {"a"}),
        ([("b", "rejected"), ("a", "expired"), ("b", "rejected")], set()),
    ],
)
def test_queues_are_barred_up_to_the_last_rejection(
    deaths: list[tuple[str, str]], barred: set[str]
) -> None:
    history = history_of(*deaths)
    assert history is not None
    assert history.barred == barred


# ----------------------------------------------------------------------------- their bound


def test_a_long_history_keeps_the_first_and_the_latest_deaths() -> None:
    names = [f"q{number}" for number in range(DEATHS_MAX + 10)]
    history = history_of(*[(name, "rejected") for name in names])
    assert queues_in(history) == [*reversed(names[11:]), "q0"]
    assert history is not None
    headers = decode_fields(history.octets)
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("q0", names[-1])


def test_a_death_that_is_repeated_makes_a_full_history_no_longer() -> None:
    names = [f"q{number}" for number in range(DEATHS_MAX)]
    history = history_of(*[(name, "rejected") for name in names], ("q7", "rejected"))
    assert queues_in(history) == ["q7", *(n for n in reversed(names) if n != "q7")]


def test_no_queue_is_forgotten_for_good_in_which_it_died_since_it_was_rejected() -> None:
    """Else it could come back there, and go round in more queues than a history has."""
    names = [f"q{number}" for number in range(DEATHS_MAX + 50)]
    history = history_of(*[(name, "expired") for name in names])
    assert queues_in(history) == [*reversed(names[51:]), "q0"]
    assert history is not None
    assert all(history.bars(name) for name in names)
    assert not history.bars("another")
    assert decode_fields(history.octets)["x-death-forgotten"] == history.forgotten
    assert len(history.forgotten) == 8 * 50


def test_a_rejection_lets_it_come_back_to_forgotten_queues() -> None:
    names = [f"q{number}" for number in range(DEATHS_MAX + 50)]
    history = history_of(*[(name, "expired") for name in names], ("work", "rejected"))
    assert history is not None
    assert not any(history.bars(name) for name in names)
    assert "x-death-forgotten" not in decode_fields(history.octets)


def test_what_is_forgotten_has_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(death_history, "FORGOTTEN_MAX", 3)
    # differs: death-chain
    names = [f"q{number}" for number in range(DEATHS_MAX + 3)]
    full = history_of(*[(name, "expired") for name in names])
    assert full is not None
    assert one_more(full, "one-more", "maxlen") is None
    rejected = one_more(full, "work", "rejected")
    assert rejected is not None
    assert not rejected.forgotten


def test_what_the_default_exchange_adds_stays_behind_what_is_forgotten() -> None:
    names = [f"q{number}" for number in range(DEATHS_MAX + 1)]
    history = history_of(*[(name, "expired") for name in names])
    assert history is not None
    with_more = History(history.octets + encode_fields(Table({"x-dead-queue": "q"})), frozenset())
    longer = one_more(with_more, "one-more", "expired")
    assert longer is not None
    assert list(decode_fields(longer.octets))[-2:] == ["x-death-forgotten", "x-dead-queue"]
    assert longer.forgotten.startswith(history.forgotten)


def test_the_octets_of_a_history_have_a_bound_too() -> None:
    """Each death has all routing keys of the message, which may be many."""
    key = "k" * (DEATHS_MAX_BYTES // 4)
    # differs: death-history
    history = history_of(*[(name, "rejected") for name in "abcdef"], routing_key=key)
    assert queues_in(history) == ["f", "e", "a"]
    history = history_of(*[(name, "expired") for name in "abcd"], routing_key=key)
    assert queues_in(history) == ["d", "c", "a"]
    assert history is not None
    assert history.bars("b")


def test_two_deaths_are_kept_however_long_they_are() -> None:
    key = "k" * DEATHS_MAX_BYTES
    assert queues_in(history_of(("a", "expired"), ("b", "expired"), routing_key=key)) == ["b", "a"]


# --------------------------------------------------------------- without decoding the others


def decoded_and_encoded(
    history: bytes, queue: str, reason: str, now_ms: int, exchange: str, keys: list[str], ttl: Any
) -> bytes:
    """What ``record_death`` returns, by decoding all that there is and encoding it again."""
    headers = decode_fields(history)
    deaths: Any = headers.get("x-death", [])
    latest: Any
    found = [death for death in deaths if (death["queue"], death["reason"]) == (queue, reason)]
    latest = found[0] if found else Table(count=0, reason=reason, queue=queue)
    latest["count"] += 1
    if not found:
        latest["time"] = Timestamp(now_ms // 1000)
        latest["exchange"] = exchange
        latest["routing-keys"] = keys
        if ttl is not None:
            latest["original-expiration"] = ttl
    headers["x-death"] = [latest, *(death for death in deaths if death is not latest)]
    details = (("reason", reason), ("queue", queue), ("exchange", exchange))
    for name, value in details:
        headers.setdefault(f"x-first-death-{name}", value)
    for name, value in details:
        headers[f"x-last-death-{name}"] = value
    return encode_fields(headers)


# Names that look like octets of a history, and such as are not UTF-8.
_TRICKY = ["", "q", "\x06reasonS\0\0\0\x08rejected", "x-death", "\udcff", "é" * 100, "F\0\0\0\x05"]
_NAMES = st.sampled_from(_TRICKY) | st.text("ab", max_size=2)
_REASONS = st.sampled_from(["rejected", "expired", "maxlen", "delivery_limit"])
_DEATHS = st.tuples(
    _NAMES,
    _REASONS,
    st.integers(0, 2**40),
    _NAMES,
    st.lists(_NAMES, min_size=1, max_size=3),
    st.none() | st.just("5"),
)


@given(st.lists(_DEATHS, max_size=12), st.booleans())
def test_a_death_is_added_as_if_all_had_been_decoded_and_encoded(
    deaths: list[Any], is_from_default: bool
) -> None:
    expected = octets = b""
    for number, death in enumerate(deaths):
        queue, reason, now_ms, exchange, keys, expiration = death
        history = record_death(
            octets,
            queue=queue,
            reason=reason,
            now_ms=now_ms,
            exchange=exchange,
            routing_keys=keys,
            expiration=expiration,
        )
        assert history is not None
        octets = history.octets
        expected = decoded_and_encoded(expected, *death)
        if is_from_default and not number:  # the headers that only such a letter has
            more = encode_fields(Table({"x-dead-reason": "expired", "x-dead-queue": "q"}))
            octets, expected = octets + more, expected + more
        assert octets == expected
        tables: Any = decode_fields(octets)["x-death"]
        reasons = [table["reason"] for table in tables]
        rejected_at = reasons.index("rejected") if "rejected" in reasons else len(reasons)
        assert history.barred == {table["queue"] for table in tables[:rejected_at]}


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), _REASONS), max_size=60))
@example(
    [("a", "expired"), ("b", "rejected"), ("c", "expired"), ("d", "expired"), ("e", "expired")]
)
def test_no_message_goes_round_without_a_client_however_short_its_history(
    deaths: list[tuple[str, Any]],
) -> None:
    """Whatever was forgotten: barred are the queues in which it died since its last rejection."""
    history: History | None = History(b"", frozenset())
    since_rejected: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(death_history, "DEATHS_MAX", 4)
        for queue, reason in deaths:
            if queue in since_rejected:
                continue  # it does not get there
            assert history is not None
            history = one_more(history, queue, reason)
            since_rejected = set() if reason == "rejected" else since_rejected | {queue}
            assert history is not None
            assert {name for name in "abcdefgh" if history.bars(name)} == since_rejected
            assert len(queues_in(history)) <= 4


# ---------------------------------------------------------------------------- the first death

WORK = {"queue": "work", "reason": "rejected"}
RETRY = {"queue": "retry", "reason": "expired"}
WORK_EXPIRED = {"queue": "work", "reason": "expired"}


def headers(deaths: object, queue: object = "work", reason: object = "rejected") -> dict[str, Any]:
    return {"x-death": deaths, "x-first-death-queue": queue, "x-first-death-reason": reason}


@pytest.mark.parametrize(
    "deaths",
    [[WORK], [RETRY, WORK], [WORK, RETRY], [WORK_EXPIRED, WORK, RETRY], ["x", WORK, 3, RETRY]],
)
def test_the_table_of_queue_and_reason_is_found_wherever_it_stands(deaths: list[object]) -> None:
    assert first_death(headers(deaths)) is WORK


def test_the_oldest_table_where_the_headers_name_none_of_them() -> None:
    assert first_death({"x-death": [WORK, RETRY]}) is RETRY
    assert first_death(headers([WORK, RETRY], queue="forgotten")) is RETRY
    assert first_death(headers([WORK, RETRY], queue=["work"])) is RETRY


@pytest.mark.parametrize(
    "written", [{}, headers("x"), headers([]), headers(["x", 1]), headers(None)]
)
def test_headers_without_a_death(written: dict[str, Any]) -> None:
    assert first_death(written) is None
