"""Exchanges with ``x-retain``: what they keep, and what a queue gets with a new binding."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from hareline.broker import retaining
from hareline.broker.restoring import restore_entries
from hareline.broker.retaining import retained_queue_name
from hareline.errors import (
    AccessRefused,
    PreconditionFailed,
    ResourceLocked,
    StoreError,
)
from hareline.events import DEFINITION_IMPOSSIBLE
from hareline.message import BlindAddress, Message
from hareline.queues.core.enqueueing import archive_message
from hareline.queues.queue import Queue
from tests.support.content_stores import PagingStore
from tests.support.deep_queues import make_windows_small
from tests.support.vhosts import (
    NO_ARGUMENTS,
    StoredVhost,
    VhostStand,
    bodies,
    declare_exchange,
    make_vhost,
    offer,
)

KEEPS = "amq.retained.x"


class Stand(StoredVhost):
    """The topic exchange ``x``; messages are published as a channel does."""

    def exchange(
        self,
        retain: object = "last",
        name: str = "x",
        type_name: str = "topic",
        *,
        is_durable: bool = True,
        **options: Any,
    ) -> None:
        arguments = {"x-retain": retain, **options.pop("arguments", {})}
        declare_exchange(
            self.vhost, name, type_name, is_durable=is_durable, arguments=arguments, **options
        )
        self.turn.run()

    def queue(
        self, name: str = "q", arguments: Mapping[str, object] = NO_ARGUMENTS, **options: Any
    ) -> Queue:
        return self.declare(name, arguments, **options)

    def bind(
        self,
        queue: Queue,
        key: str = "#",
        arguments: Mapping[str, object] = NO_ARGUMENTS,
        exchange: str = "x",
        **options: Any,
    ) -> None:
        self.vhost.bind(exchange, "queue", queue, key, arguments, **options)

    def send(
        self,
        *named: bytes,
        key: str = "k",
        exchange: str = "x",
        message: Message | None = None,
        **properties: Any,
    ) -> None:
        """Publish these bodies, in one turn; ``send`` is not its end."""
        for body in named or (b"m",):
            made = message or self.message(body, exchange=exchange, routing_key=key, **properties)
            copies = made.headers.get("CC", [])
            assert isinstance(copies, list)
            keys = [key, *copies, *made.address.blind_keys]
            queues, _, archives = self.vhost.routing.route(
                self.vhost.exchange(exchange), keys, made
            )
            takers = [queue for queue in queues if offer(queue, made)]
            archive_message(made, takers, archives)

    @property
    def kept(self) -> Queue:
        return self.vhost.queues[KEEPS]


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def slow(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two messages are copied at once, and one in each turn that follows."""
    monkeypatch.setattr(retaining, "AT_ONCE", 2)
    monkeypatch.setattr(retaining, "PER_ITEM", 1)
    seconds = count(0.0, 0.005)
    stand.turn.now = lambda: next(seconds)


# ------------------------------------------------------------------------- what is retained


@pytest.mark.row("E29")
def test_last_keeps_one_message_for_each_key_in_the_order_of_arrival(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"a1", key="a")
    stand.send(b"b1", key="b")
    stand.send(b"a2", key="a")
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == [b"b1", b"a2"]
    stand.send(b"live", key="a")
    assert bodies(queue) == [b"b1", b"a2", b"live"]


@pytest.mark.row("E29")
def test_an_empty_body_clears_its_key(stand: Stand) -> None:
    stand.exchange("last")
    early = stand.queue("early")
    stand.bind(early)
    stand.send(b"a1", key="a", delivery_mode=2)
    stand.send(b"b1", key="b", delivery_mode=2)
    stand.send(b"", key="a", delivery_mode=2)
    stand.send(b"", key="never", delivery_mode=2)
    stand.turn.run()
    assert bodies(early) == [b"a1", b"b1", b"", b""], "it is a message to who is bound"
    assert bodies(stand.kept) == [b"b1"]
    assert stand.kept.ready_count == 1
    assert list(stand.ledger(KEEPS).living) == [1]
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == [b"b1"]
    stand.send(b"a3", key="a")
    assert bodies(stand.kept) == [b"b1", b"a3"]


def test_last_keeps_a_bounded_number_of_keys(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retaining, "KEYS_MAX", 2)
    stand.exchange("last")
    for key in ("a", "b", "a", "c"):
        stand.send(key.encode(), key=key)
    assert bodies(stand.kept) == [b"a", b"c"]
    assert stand.reports == []


@pytest.mark.row("E29")
@pytest.mark.parametrize(
    ("retain", "kept"),
    [("count:2", [b"222", b""]), ("bytes:5", [b"222", b""]), ("bytes:6", [b"111", b"222", b""])],
)
def test_count_and_bytes_keep_the_newest_of_all_keys(
    stand: Stand, retain: str, kept: list[bytes]
) -> None:
    stand.exchange(retain)
    for number, body in enumerate((b"000", b"111", b"222", b"")):
        stand.send(body, key=f"k.{number}")
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == kept
    stand.timers.advance(60_000)
    assert stand.reports == [], "it is always full, which is no news"


@pytest.mark.row("E29")
def test_age_keeps_what_is_younger(stand: Stand) -> None:
    stand.exchange("age:1000")
    stand.send(b"old")
    stand.timers.advance(600)
    stand.send(b"new")
    stand.timers.advance(600)
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == [b"new"]
    stand.timers.advance(5000)
    assert bodies(queue) == [b"new"], "the age is that in the exchange"
    assert bodies(stand.kept) == []


def test_an_expiration_goes_on(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(message=stand.message(b"m", exchange="x", routing_key="k", ttl_ms=1000))
    stand.timers.advance(600)
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == [b"m"]
    stand.timers.advance(600)
    assert bodies(queue) == bodies(stand.kept) == []


def test_what_comes_from_other_exchanges_is_retained(stand: Stand) -> None:
    stand.exchange("last")
    declare_exchange(stand.vhost, "up", "fanout", is_durable=True)
    stand.vhost.bind("up", "exchange", stand.vhost.exchange("x"), "", {})
    stand.send(b"m", exchange="up")
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == [b"m"]


# --------------------------------------------------------------------- what a binding matches


@pytest.mark.row("E29")
@pytest.mark.parametrize(
    ("type_name", "key", "arguments", "expected"),
    [
        ("direct", "a.b", {}, [b"a.b"]),
        ("fanout", "", {}, [b"a.b", b"a.c", b"d"]),
        ("topic", "a.*", {}, [b"a.b", b"a.c"]),
        ("headers", "", {"of": "a.c"}, [b"a.c"]),
        ("fanout", "", {"x-filter-jms-selector": "of <> 'd'"}, [b"a.b", b"a.c"]),
    ],
)
def test_only_what_the_binding_matches(
    stand: Stand, type_name: str, key: str, arguments: dict[str, object], expected: list[bytes]
) -> None:
    stand.exchange("count:9", type_name=type_name)
    for sent in ("a.b", "a.c", "d"):
        stand.send(sent.encode(), key=sent, headers={"of": sent})
    queue = stand.queue()
    stand.bind(queue, key, arguments)
    assert bodies(queue) == expected


def test_keys_of_cc_and_bcc_match_as_well(stand: Stand) -> None:
    stand.exchange("count:9")
    stand.send(b"cc", key="k", headers={"CC": ["copy"]})
    message = stand.message(b"bcc", exchange="x", routing_key="k")
    stand.send(message=message.replace(address=BlindAddress(message.address, ("blind",))))
    first, second = stand.queue("1"), stand.queue("2")
    stand.bind(first, "copy")
    stand.bind(second, "blind")
    assert (bodies(first), bodies(second)) == ([b"cc"], [b"bcc"])


def test_each_new_binding_gets_it_and_one_that_exists_does_not(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m")
    queue = stand.queue()
    for _ in range(2):
        stand.bind(queue, "k")
    assert bodies(queue) == [b"m"]
    stand.bind(queue, "#")
    assert bodies(queue) == [b"m", b"m"]
    stand.vhost.unbind("x", "queue", queue, "k", {})
    stand.bind(queue, "k")
    assert len(bodies(queue)) == 3


def test_a_queue_behind_another_exchange_gets_nothing(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m")
    declare_exchange(stand.vhost, "down", "fanout", is_durable=True)
    queue = stand.queue()
    stand.vhost.bind("down", "queue", queue, "", {})
    stand.vhost.bind("x", "exchange", stand.vhost.exchange("down"), "#", {})
    assert bodies(queue) == []
    stand.send(b"live")
    assert bodies(queue) == [b"live"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x-queue-type": "stream"}, [b"1", b"2", b"1"]),
        ({"x-max-priority": 5}, [b"2", b"1", b"1"]),
        ({"x-last-value-key": "of"}, [b"1"]),
        ({"x-message-deduplication": True}, [b"1", b"2"]),
        ({"x-max-length": 1}, [b"1"]),
        ({"x-max-length": 1, "x-overflow": "reject-publish"}, [b"1"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_queue_does_to_copies_what_it_does_to_messages(
    stand: Stand, arguments: dict[str, object], expected: list[bytes]
) -> None:
    stand.exchange("count:9")
    for body, priority in ((b"1", 1), (b"2", 2), (b"1", 1)):
        stand.send(
            body,
            priority=priority,
            message_id=body.decode(),
            headers={"of": "k", "x-deduplication-header": body.decode()},
        )
    queue = stand.queue(arguments=arguments)
    stand.bind(queue)
    stand.turn.run()
    assert bodies(queue) == expected


def test_a_time_to_live_of_the_queue_begins_with_the_copy(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m")
    stand.timers.advance(900)
    queue = stand.queue(arguments={"x-message-ttl": 1000})
    stand.bind(queue)
    (entry,) = queue.lane.ready_entries()
    assert entry.message.arrival_ms == stand.now_ms
    stand.timers.advance(900)
    assert bodies(queue) == [b"m"]


def test_copies_go_into_the_archive_of_the_queue(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m")
    stream = stand.queue("s", {"x-queue-type": "stream"})
    queue = stand.queue(arguments={"x-archive-to": "s"})
    stand.bind(queue)
    assert bodies(queue) == bodies(stream) == [b"m"]


# --------------------------------------------------------------------------- much, in shares


def settled(stand: Stand, *names: str) -> list[StoreError | None]:
    """A list that gets the outcome of what is asked for now."""
    outcome: list[StoreError | None] = []
    assert stand.vhost.when_settled(outcome.append, *names)
    return outcome


@pytest.mark.row("E29")
@pytest.mark.usefixtures("slow")
def test_live_messages_come_behind_all_that_is_retained_each_once(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(b"0", b"1", b"2", b"3", b"4")
    queue = stand.queue()
    stand.bind(queue)
    outcome = settled(stand, "x", "q")
    assert bodies(queue) == [b"0", b"1"]
    stand.send(b"5")
    stand.turn.step()
    stand.send(b"6")
    assert bodies(queue) == [b"0", b"1", b"2"]
    assert (outcome, stand.vhost.has_bindings_to_come) == ([], True)
    while not outcome:
        stand.turn.step()
    assert outcome == [None]
    assert bodies(queue) == [b"%d" % number for number in range(7)]
    stand.send(b"7")
    assert bodies(queue)[-1] == b"7"
    assert stand.definitions.bindings == {("x", "queue", "q", "#")}
    assert not stand.vhost.has_bindings_to_come
    assert not stand.vhost.when_settled(outcome.append, "x", "q")


@pytest.mark.usefixtures("slow")
def test_what_comes_meanwhile_by_another_binding_is_not_doubled(stand: Stand) -> None:
    stand.exchange("count:100")
    queue = stand.queue()
    stand.bind(queue, "a")
    stand.send(b"0", b"1", b"2", key="a")
    stand.bind(queue, "#")
    stand.send(b"3", key="a")
    stand.send(b"4", key="b")
    stand.turn.run()
    got = bodies(queue)
    assert got == [b"0", b"1", b"2", b"0", b"1", b"3", b"2", b"4"]


@pytest.mark.usefixtures("slow")
def test_what_has_left_meanwhile_is_passed_over(stand: Stand) -> None:
    stand.exchange("last")
    for key in "abcd":
        stand.send(key.encode(), key=key)
    queue = stand.queue()
    stand.bind(queue)
    stand.send(b"C", key="c")
    stand.send(b"", key="d")
    stand.turn.run()
    assert bodies(queue) == [b"a", b"b", b"C"]


@pytest.mark.usefixtures("slow")
def test_publishers_wait_only_while_live_messages_are_left(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 6)
    queue = stand.queue()
    stand.turn.run()
    stand.bind(queue)
    stand.turn.step()
    assert not stand.turn.is_behind
    stand.send(*[b"m"] * 6)
    was_behind = []
    while stand.vhost.has_bindings_to_come:
        stand.turn.step()
        was_behind.append(stand.turn.is_behind)
    assert was_behind[0] is False
    assert True in was_behind
    assert len(bodies(queue)) == 12


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("gone", ["queue", "exchange", "both", "vhost"])
def test_an_end_that_goes_meanwhile_ends_it(stand: Stand, gone: str) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 6, delivery_mode=2)
    queue = stand.queue()
    stand.bind(queue)
    outcome = settled(stand)
    if gone == "vhost":
        stand.vhost.begin_removal()
        assert stand.vhost.forget_a_queue()
    if gone in ("queue", "both"):
        stand.vhost.delete_queue("q", None)
    if gone in ("exchange", "both"):
        stand.vhost.delete_exchange("x", if_unused=False)
    stand.turn.run()
    assert outcome == [None]
    assert stand.definitions.bindings == set()
    assert len(stand.vhost.bindings) == 0
    assert not stand.vhost.has_bindings_to_come
    if gone == "exchange":
        assert bodies(queue) == [b"m", b"m"]


@pytest.mark.usefixtures("slow")
def test_the_same_bind_again_meanwhile_is_the_one_that_waits(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 5)
    queue = stand.queue()
    stand.bind(queue)
    first = settled(stand, "x", "q")
    stand.bind(queue)
    second = settled(stand, "x", "q")
    stand.turn.run()
    assert (first, second) == ([None], [None])
    assert bodies(queue) == [b"m"] * 5


@pytest.mark.usefixtures("slow")
def test_others_do_not_wait_for_it(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 5)
    stand.bind(stand.queue())
    stand.turn.step()
    assert not stand.vhost.when_settled(print, "x", "")
    assert not stand.vhost.when_settled(print, "other")


@pytest.mark.usefixtures("slow")
def test_a_binding_that_cannot_be_made_at_the_end_is_told(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 5)
    stand.bind(stand.queue())
    outcome = settled(stand, "q")
    stand.definitions.failure = "disk I/O error"
    stand.turn.run()
    (error,) = outcome
    assert isinstance(error, StoreError)
    assert len(stand.vhost.bindings) == 0
    ((event, fields),) = stand.reports
    assert event is DEFINITION_IMPOSSIBLE
    assert fields["what"] == "binding of queue 'q' to exchange 'x'"


@pytest.mark.usefixtures("slow")
def test_it_is_settled_when_the_definitions_are(stand: Stand) -> None:
    stand.exchange("count:100")
    stand.send(*[b"m"] * 5)
    stand.bind(stand.queue())
    outcome = settled(stand, "q")
    stand.definitions.gathers = True
    stand.turn.run()
    assert outcome == []
    stand.definitions.commit()
    assert outcome == [None]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_what_dies_in_the_queue_does_not_come_back_for_ever(stand: Stand, overflow: str) -> None:
    stand.exchange("count:100")
    stand.send(*[b"%d" % number for number in range(6)])
    queue = stand.queue(
        arguments={"x-max-length": 1, "x-overflow": overflow, "x-dead-letter-exchange": "x"}
    )
    stand.bind(queue)
    stand.turn.run()
    assert bodies(queue) == [b"5" if overflow == "drop-head" else b"0"]
    assert stand.kept.ready_count == 11
    assert len(stand.vhost.bindings) == 1


def test_a_bind_at_once_looks_at_few_octets(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retaining, "AT_ONCE_BYTES", 10)
    stand.exchange("count:100")
    stand.send(*[b"12345"] * 5)
    queue = stand.queue()
    stand.bind(queue)
    assert len(bodies(queue)) == 2
    stand.turn.run()
    assert len(bodies(queue)) == 5


# ------------------------------------------------------------------------------- refusals


@pytest.mark.row("E29")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "Last",
        "last:1",
        "count",
        "count:",
        "count:0",
        "count:-1",
        "count:1.5",
        "count:01",
        "bytes:1k",
        "age:123456789012",
        "age:\u0661",
        "count:1\n",
        5,
        None,
        True,
        [],
        {},
    ],
)
def test_other_values_are_refused(stand: Stand, value: object) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        stand.exchange(value)
    assert refusal.value.explanation == (
        "invalid arg 'x-retain' for exchange 'x' in vhost '/': expected last, count:N, bytes:N "
        "or age:MS, a number of up to 11 digits"
    )
    assert "x" not in stand.vhost.exchanges
    assert dict(stand.vhost.queues) == {}


@pytest.mark.parametrize(
    ("type_name", "arguments"),
    [("x-random", {}), ("x-delayed-message", {"x-delayed-type": "topic"}), ("x-jms-topic", {})],
)
def test_other_types_are_refused(
    stand: Stand, type_name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(PreconditionFailed, match=f"of type '{type_name}' retains nothing"):
        stand.exchange("last", type_name=type_name, arguments=arguments)


def test_a_redeclaration_must_be_alike(stand: Stand) -> None:
    stand.exchange("last")
    kept = stand.kept
    stand.exchange("last")
    assert stand.kept is kept
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-retain' for exchange 'x'"):
        stand.exchange("count:5")
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-retain'"):
        declare_exchange(stand.vhost, "x", "topic", is_durable=True)


def test_what_forbids_a_binding_forbids_the_copies(stand: Stand) -> None:
    stand.exchange("last", type_name="headers")
    stand.send(b"m")
    queue = stand.queue()
    with pytest.raises(PreconditionFailed, match="x-match"):
        stand.bind(queue, "", {"x-match": "some"})
    with pytest.raises(PreconditionFailed):
        stand.bind(queue, "", {"x-filter-jms-selector": "("})
    stand.vhost.capacity.max_bindings = 0
    with pytest.raises(PreconditionFailed, match="binding limit"):
        stand.bind(queue, "", {})
    assert bodies(queue) == []
    assert len(stand.vhost.bindings) == 0


def test_headers_that_cannot_be_read_match_nothing(stand: Stand) -> None:
    stand.exchange("count:9", type_name="headers")
    stand.send(b"good", headers={"a": 1})
    broken = stand.message(b"bad", exchange="x", routing_key="k", headers={"a": 1})
    octets = broken.property_octets
    stand.kept.put(broken.replace(properties=octets[:-6] + b"?" + octets[-5:]))
    queue = stand.queue()
    stand.bind(queue, "", {"a": 1})
    assert bodies(queue) == [b"good"]


# ------------------------------------------------------------------------ the queue behind it


def test_no_client_can_use_the_queue(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m")
    connection, vhost = object(), stand.vhost
    with pytest.raises(ResourceLocked, match=r"locked queue 'amq\.retained\.x'"):
        vhost.queue(KEEPS, connection)
    with pytest.raises(ResourceLocked):
        vhost.delete_queue(KEEPS, connection)
    for owner in (None, connection):
        with pytest.raises(ResourceLocked):
            vhost.declare_queue(
                KEEPS, is_durable=True, is_auto_delete=False, owner=owner, arguments={}
            )
    with pytest.raises(AccessRefused):
        vhost.declare_queue(
            "amq.retained.other", is_durable=True, is_auto_delete=False, owner=None, arguments={}
        )
    assert vhost.routing.route(vhost.exchange(""), [KEEPS], stand.message())[0] == ()
    with pytest.raises(PreconditionFailed, match="is for an exchange alone"):
        vhost.live_arguments.change(stand.kept, {"x-max-priority": 3})


def test_it_goes_with_the_exchange(stand: Stand) -> None:
    stand.exchange("last")
    stand.send(b"m", delivery_mode=2)
    stand.vhost.delete_exchange("x", if_unused=False)
    assert KEEPS not in stand.vhost.queues
    assert stand.store.ledgers[KEEPS].is_forgotten
    assert stand.definitions.queues == {}
    stand.exchange("last")
    queue = stand.queue()
    stand.bind(queue)
    assert bodies(queue) == []


def test_an_automatic_deletion_takes_it_along(stand: Stand) -> None:
    stand.exchange("age:1000", is_auto_delete=True)
    stand.send(b"m")
    queue = stand.queue()
    stand.bind(queue)
    stand.vhost.unbind("x", "queue", queue, "#", {})
    assert list(stand.vhost.queues) == ["q"]
    stand.timers.advance(5000)


def test_a_lost_definition_takes_both_back(stand: Stand) -> None:
    stand.definitions.gathers = True
    declare_exchange(stand.vhost, "x", is_durable=True, arguments={"x-retain": "last"})
    stand.send(b"m", delivery_mode=2)
    assert bodies(stand.kept) == [], "a crash would take it along"
    stand.definitions.loss = "disk I/O error"
    stand.definitions.commit()
    assert "x" not in stand.vhost.exchanges
    assert KEEPS not in stand.vhost.queues


def test_persistent_messages_of_a_durable_exchange_are_kept(stand: Stand) -> None:
    stand.exchange("count:2")
    stand.send(b"transient")
    stand.send(b"1", b"2", b"3", delivery_mode=2)
    assert stand.ledger(KEEPS).added == [1, 2, 3]
    assert stand.ledger(KEEPS).settled == [1]
    stand.exchange("count:2", "t", is_durable=False)
    stand.send(b"1", exchange="t", delivery_mode=2)
    assert retained_queue_name("t") not in stand.store.ledgers


@pytest.mark.row("E29")
def test_a_restart_brings_back_what_was_retained(stand: Stand) -> None:
    vhost = stand.vhost
    vhost.restore_exchange(
        "x", "topic", is_auto_delete=False, is_internal=False, arguments={"x-retain": "last"}
    )
    kept = vhost.restore_queue(1, KEEPS, is_auto_delete=False, arguments={})
    queue = vhost.restore_queue(2, "q", is_auto_delete=False, arguments={})
    vhost.restore_binding("x", "queue", "q", "#", {})
    messages = [stand.message(key.encode(), exchange="x", routing_key=key) for key in ("a", "b")]
    restore_entries(kept, [(at, 0, message) for at, message in enumerate(messages)])
    assert bodies(queue) == [], "the binding is not new"
    stand.send(b"A", key="a")
    late = stand.queue("late")
    stand.bind(late)
    assert bodies(late) == [b"b", b"A"]


def test_an_exchange_of_an_older_version_with_such_an_argument_retains_nothing() -> None:
    stand = VhostStand()
    for number, value in enumerate(("last", "nonsense")):
        stand.vhost.restore_exchange(
            f"x{number}",
            "topic",
            is_auto_delete=False,
            is_internal=False,
            arguments={"x-retain": value},
        )
        queue = stand.declare(f"q{number}")
        stand.vhost.bind(f"x{number}", "queue", queue, "#", {})
        stand.vhost.delete_exchange(f"x{number}", if_unused=False)
    assert list(stand.vhost.queues) == ["q0", "q1"]


def test_limits_of_the_virtual_host_hold_for_who_declares() -> None:
    stand = StoredVhost()
    stand.vhost.max_queues = 1
    declare_exchange(stand.vhost, "x", "fanout", arguments={"x-retain": "last"})
    with pytest.raises(PreconditionFailed, match="queue limit"):
        stand.declare("q")


@pytest.mark.pure("makes windows small")
@pytest.mark.parametrize("retain", ["last", "count:1000", "bytes:9999"])
def test_what_is_deep_leaves_memory_and_is_read_for_a_binding(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, retain: str
) -> None:
    make_windows_small(monkeypatch)
    store = PagingStore()
    stand.turn.write_pending = store.write_pending
    stand.vhost = make_vhost(
        stand.turn, timers=stand.timers, store=store, definitions=stand.definitions
    )
    stand.exchange(retain)
    sent = [b"%03d" % number for number in range(100)]
    for body in sent:
        stand.send(body, key=body.decode(), delivery_mode=2)
        stand.turn.run()
        store.sync()
    stand.send(b"100", key="k", delivery_mode=2)
    stand.turn.run()
    kept = stand.kept
    assert kept.paging is not None
    assert kept.paging.has_stored or kept.paging.is_paged
    queue = stand.queue()
    stand.bind(queue)
    stand.turn.run()
    assert (queue.ready_count, kept.ready_count) == (101, 101)
    taken = [queue.get() for _ in range(101)]
    assert [entry.message.body for entry in taken if entry] == [*sent, b"100"]
