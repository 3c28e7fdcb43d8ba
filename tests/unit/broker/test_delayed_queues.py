"""x-delayed-message in a virtual host: where a message waits, and how it goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.restoring import restore_entries
from hareline.errors import AccessRefused, PreconditionFailed, ResourceLocked, StoreError
from hareline.message import BlindAddress, Message
from hareline.queues.policies.delay import SENT_PER_STEP
from hareline.queues.queue import Queue
from hareline.wire.table import SignedInt, Table
from tests.support.content_stores import PagingStore
from tests.support.messages import make_message
from tests.support.vhosts import (
    NO_ARGUMENTS,
    StoredVhost,
    bodies,
    declare_exchange,
    make_vhost,
    offer,
)

DIRECT: Mapping[str, object] = {"x-delayed-type": "direct"}
WAIT = "amq.delayed.d"


class Stand(StoredVhost):
    """The delayed exchange ``d``; messages are published as a channel does."""

    def exchange(
        self,
        name: str = "d",
        type_name: str = "x-delayed-message",
        arguments: Mapping[str, object] = DIRECT,
        *,
        is_durable: bool = True,
        is_auto_delete: bool = False,
    ) -> None:
        declare_exchange(
            self.vhost,
            name,
            type_name,
            is_durable=is_durable,
            is_auto_delete=is_auto_delete,
            arguments=arguments,
        )

    def queue(
        self, name: str = "q", key: str = "k", arguments: Mapping[str, object] = NO_ARGUMENTS
    ) -> Queue:
        """A durable queue, bound to ``d``."""
        queue = self.declare(name, arguments)
        self.vhost.bind("d", "queue", queue, key, {})
        return queue

    def bind_exchange(self, source: str, destination: str, key: str = "k") -> None:
        self.vhost.bind(source, "exchange", self.vhost.exchange(destination), key, {})

    def send(
        self,
        body: bytes = b"m",
        delay: object = 1000,
        *,
        exchange: str = "d",
        key: str = "k",
        message: Message | None = None,
        ttl_ms: int = 0,
        headers: Mapping[str, object] = NO_ARGUMENTS,
        **properties: Any,
    ) -> int:
        """Publish a message; returns how many queues took it."""
        if message is None:
            if delay is not None:
                headers = {"x-delay": delay, **headers}
            if ttl_ms:
                properties["expiration"] = str(ttl_ms)
            message = self.message(
                body,
                ttl_ms=ttl_ms,
                headers=headers,
                exchange=exchange,
                routing_key=key,
                **properties,
            )
        copies = message.headers.get("CC", [])
        assert isinstance(copies, list)
        keys = [key, *copies, *message.address.blind_keys]
        queues, is_static, _ = self.vhost.routing.route(
            self.vhost.exchange(exchange), keys, message
        )
        assert not is_static
        for queue in queues:
            assert offer(queue, message)
        self.turn.run()
        return len(queues)

    @property
    def waiting(self) -> Queue:
        return self.vhost.queues[WAIT]


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.exchange()
    return stand


def only(queue: Queue) -> Message:
    (entry,) = queue.lane.ready_entries()
    return entry.message


# ------------------------------------------------------------------------- waiting and going


@pytest.mark.row("S9")
def test_message_waits_and_then_is_routed(stand: Stand) -> None:
    queue = stand.queue()
    assert stand.send(delay=1000) == 1
    assert stand.waiting.held_count == 1
    stand.timers.advance(999)
    assert bodies(queue) == []
    stand.timers.advance(1)
    assert bodies(queue) == [b"m"]
    assert stand.waiting.held_count == stand.waiting.ready_count == 0


@pytest.mark.row("S9")
@pytest.mark.parametrize("delay", [None, 0, -5, "soon"])
def test_message_without_a_delay_is_routed_at_once(stand: Stand, delay: object) -> None:
    queue = stand.queue()
    # differs: delay-text
    stand.send(delay=delay)
    assert bodies(queue) == [b"m"]
    assert only(queue).header("x-delay") == delay  # and is as it came


@pytest.mark.row("S9")
@pytest.mark.parametrize("delay", [SignedInt(1000), 1000, 1000.7, "1000"])
def test_delay_is_delivered_negated(stand: Stand, delay: object) -> None:
    queue = stand.queue()
    stand.send(delay=delay, headers={"a": "b"}, message_id="id", delivery_mode=1)
    stand.timers.advance(1000)
    properties = only(queue).properties
    assert properties.headers == {"x-delay": -1000, "a": "b"}
    assert (properties.message_id, properties.delivery_mode) == ("id", 1)


def test_message_keeps_where_it_was_published_to(stand: Stand) -> None:
    stand.exchange("first", "fanout", {})
    stand.exchange("last", "fanout", {})
    queue = stand.vhost.declare_queue(
        "q", is_durable=False, is_auto_delete=False, owner=None, arguments={}
    )
    stand.bind_exchange("first", "d")
    stand.bind_exchange("d", "last")
    stand.vhost.bind("last", "queue", queue, "", {})
    stand.send(exchange="first")
    assert bodies(queue) == []
    stand.timers.advance(1000)
    address = only(queue).address
    assert (address.exchange, address.routing_key) == ("first", "k")


@pytest.mark.row("S9")
def test_it_is_routed_by_the_bindings_of_its_time(stand: Stand) -> None:
    before = stand.queue("before")
    stand.send()
    stand.vhost.unbind("d", "queue", before, "k", {})
    after = stand.queue("after")
    stand.timers.advance(1000)
    assert (bodies(before), bodies(after)) == ([], [b"m"])


def test_shorter_delays_overtake(stand: Stand) -> None:
    queue = stand.queue()
    for delay in (500, 100, 300, 200, 100, 400):
        stand.send(b"%d" % delay, delay)
    stand.timers.advance(500)
    assert bodies(queue) == [b"100", b"100", b"200", b"300", b"400", b"500"]


def test_two_delays_on_one_way_are_one(stand: Stand) -> None:
    stand.exchange("e")
    stand.bind_exchange("d", "e")
    queue = stand.queue()
    stand.vhost.unbind("d", "queue", queue, "k", {})
    stand.vhost.bind("e", "queue", queue, "k", {})
    stand.send()
    stand.timers.advance(1000)
    assert bodies(queue) == [b"m"]


def test_only_the_part_of_a_route_that_is_delayed_waits(stand: Stand) -> None:
    stand.exchange("first", "fanout", {})
    stand.bind_exchange("first", "d")
    at_once, later = stand.queue("at once"), stand.queue("later")
    stand.vhost.unbind("d", "queue", at_once, "k", {})
    stand.vhost.bind("first", "queue", at_once, "", {})
    assert stand.send(exchange="first") == 2
    assert (bodies(at_once), bodies(later)) == ([b"m"], [])
    stand.timers.advance(1000)
    assert (bodies(at_once), bodies(later)) == ([b"m"], [b"m"])
    assert only(at_once).header("x-delay") == 1000


@pytest.mark.row("S9")
def test_delays_of_the_jms_client_reach_their_destination(stand: Stand) -> None:
    """Its exchange, its headers, and a binding to the exchange of the destination."""
    stand.exchange("x-delayed-jms-message", arguments={"x-delayed-type": "headers"})
    for name in ("jms.durable.queues", "jms.temp.queues"):
        stand.exchange(name, "direct", {})
        arguments = {"delayed-exchange": name}
        destination = stand.vhost.exchange(name)
        stand.vhost.bind("x-delayed-jms-message", "exchange", destination, "", arguments)
    queue = stand.vhost.declare_queue(
        "work", is_durable=True, is_auto_delete=False, owner=None, arguments={}
    )
    stand.vhost.bind("jms.durable.queues", "queue", queue, "work", {})
    stand.vhost.bind("jms.temp.queues", "queue", queue, "work", {})
    stand.send(
        exchange="x-delayed-jms-message",
        key="work",
        headers={"delayed-exchange": "jms.durable.queues"},
    )
    assert bodies(queue) == []
    stand.timers.advance(1000)
    assert bodies(queue) == [b"m"]
    assert only(queue).headers["x-delay"] == -1000


# ----------------------------------------------------------------- copies, alternates, the lost


def test_copies_wait_once_and_go_by_all_keys(stand: Stand) -> None:
    queues = [stand.queue(key, key) for key in ("k", "cc", "bcc")]
    message = make_message(
        b"m", exchange="d", routing_key="k", headers=Table({"x-delay": 1000, "CC": ["cc"]})
    )
    message = message.replace(address=BlindAddress(message.address, ("bcc",)))
    assert stand.send(message=message) == 1
    assert stand.waiting.held_count == 1
    stand.timers.advance(1000)
    assert [bodies(queue) for queue in queues] == [[b"m"]] * 3


def test_copies_of_an_inner_type_that_matches_once_are_one(stand: Stand) -> None:
    stand.exchange("r", arguments={"x-delayed-type": "x-consistent-hash"})
    for name in ("a", "b", "c"):
        queue = stand.queue(name)
        stand.vhost.bind("r", "queue", queue, "1", {})
    stand.send(exchange="r", headers={"CC": [str(n) for n in range(50)]})
    stand.timers.advance(1000)
    assert sum(stand.vhost.queues[name].ready_count for name in "abc") == 1


def test_alternate_exchange_gets_what_matches_nothing_at_its_time(stand: Stand) -> None:
    stand.exchange("spare", "fanout", {})
    stand.exchange("e", arguments={**DIRECT, "alternate-exchange": "spare"})
    queue = stand.queue()
    stand.vhost.bind("spare", "queue", queue, "", {})
    assert stand.send(exchange="e") == 1
    assert bodies(queue) == []
    stand.timers.advance(1000)
    assert bodies(queue) == [b"m"]


def test_what_matches_nothing_and_what_is_refused_is_lost(stand: Stand) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = stand.queue(arguments=limits)
    stand.send(b"1", 1000)
    stand.send(b"2", 1001)
    stand.send(b"3", 1000, key="elsewhere")
    stand.timers.advance(2000)
    assert bodies(queue) == [b"1"]
    assert stand.waiting.held_count == 0


def test_dead_letters_can_be_delayed(stand: Stand) -> None:
    queue = stand.queue("back", "dead")
    source = stand.queue(
        "source",
        "in",
        {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "dead"},
    )
    stand.vhost.unbind("d", "queue", source, "in", {})
    source.put(make_message(b"m", exchange="", headers=Table({"x-delay": 1000})))
    entry = source.get()
    assert entry is not None
    source.reject([entry])
    assert (stand.waiting.held_count, bodies(queue)) == (1, [])
    stand.timers.advance(1000)
    headers = only(queue).headers
    assert headers["x-delay"] == -1000
    assert headers["x-first-death-reason"] == "rejected"
    assert only(queue).history_size, "its deaths count as the broker's still"


# ------------------------------------------------------------------------------------- time


@pytest.mark.row("S9")
def test_time_to_live_counts_from_when_it_reaches_its_queue(stand: Stand) -> None:
    queue = stand.queue()
    stand.send(delay=1000, ttl_ms=300)
    stand.timers.advance(1299)
    assert bodies(queue) == [b"m"]
    assert only(queue).properties.expiration == "300"
    stand.timers.advance(1)
    assert bodies(queue) == []


def test_an_expiration_that_is_an_instant_stays_one(stand: Stand) -> None:
    queue = stand.queue()
    instant_ms = stand.now_ms + 1500
    message = make_message(
        b"m",
        exchange="d",
        routing_key="k",
        headers=Table({"x-delay": 1000}),
        expiration=str(instant_ms),
    ).expiring_at(instant_ms)
    stand.send(message=message)
    stand.timers.advance(1499)
    assert bodies(queue) == [b"m"]
    stand.timers.advance(1)
    assert bodies(queue) == []


def test_it_has_arrived_when_it_reaches_its_queue(stand: Stand) -> None:
    """Queues that come back from disk count times to live from a message's arrival."""
    queue = stand.queue(arguments={"x-message-ttl": 300})
    stand.send(delay=1000)
    stand.timers.advance(1000)
    assert only(queue).arrival_ms == stand.now_ms


# ----------------------------------------------------------------------------- whose queue it is


def test_no_client_can_use_the_delay_queue(stand: Stand) -> None:
    connection = object()
    vhost = stand.vhost
    with pytest.raises(ResourceLocked, match=r"locked queue 'amq\.delayed\.d'"):
        vhost.queue(WAIT, connection)
    with pytest.raises(ResourceLocked):
        vhost.delete_queue(WAIT, connection)
    for owner in (None, connection):
        with pytest.raises(ResourceLocked):
            vhost.declare_queue(
                WAIT, is_durable=True, is_auto_delete=False, owner=owner, arguments={}
            )
    stand.exchange("elsewhere", is_durable=False)
    with pytest.raises(AccessRefused):
        vhost.declare_queue(
            "amq.delayed.other", is_durable=True, is_auto_delete=False, owner=None, arguments={}
        )


def test_default_exchange_does_not_lead_there(stand: Stand) -> None:
    queues, _, _ = stand.vhost.routing.route(stand.vhost.exchange(""), [WAIT], make_message())
    assert queues == ()
    queue = stand.queue()
    assert stand.vhost.routing.route(stand.vhost.exchange(""), ["q"], make_message())[0] == (queue,)


def test_each_exchange_has_a_queue_of_its_own(stand: Stand) -> None:
    long_name = "e" * 255
    stand.exchange(long_name)
    assert delay_queue_name(long_name) in stand.vhost.queues
    queue = stand.queue()
    stand.vhost.bind(long_name, "queue", queue, "k", {})
    stand.send(exchange=long_name)
    assert stand.waiting.held_count == 0
    stand.timers.advance(1000)
    assert bodies(queue) == [b"m"]


def test_declaring_it_again_changes_nothing(stand: Stand) -> None:
    waiting = stand.waiting
    stand.exchange()
    assert stand.waiting is waiting
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        stand.exchange("d", "direct", {})


# ---------------------------------------------------------------------------------- deleting


@pytest.mark.row("S9")
def test_what_is_delayed_goes_with_the_exchange(stand: Stand) -> None:
    queue = stand.queue()
    stand.send(delivery_mode=2)
    stand.vhost.delete_exchange("d", if_unused=False)
    assert WAIT not in stand.vhost.queues
    assert stand.store.ledgers[WAIT].is_forgotten
    assert stand.definitions.queues == {"q": 2}
    stand.exchange()
    stand.vhost.bind("d", "queue", queue, "k", {})
    stand.timers.advance(5000)
    assert bodies(queue) == []


def test_automatic_deletion_takes_the_queue_along() -> None:
    stand = Stand()
    stand.exchange(is_auto_delete=True)
    queue = stand.queue()
    stand.send()
    stand.vhost.unbind("d", "queue", queue, "k", {})
    assert stand.definitions.exchanges == set()
    assert list(stand.vhost.queues) == ["q"]
    assert stand.timers.pending == []


def test_message_on_its_way_when_the_exchange_goes_is_dropped(stand: Stand) -> None:
    """It left its queue, and waits for dead letters that came first."""
    stand.exchange("spare", "fanout", {})
    stand.exchange("e", arguments={**DIRECT, "alternate-exchange": "spare"})
    queue = stand.queue()
    stand.vhost.bind("spare", "queue", queue, "", {})
    scheduler = stand.vhost.environment.dead_letter_scheduler
    scheduler.hold()
    stand.send(exchange="e", delivery_mode=2)
    stand.timers.advance(1000)
    stand.vhost.delete_exchange("e", if_unused=False)
    stand.exchange("e", arguments={**DIRECT, "alternate-exchange": "spare"})
    scheduler.release()
    assert bodies(queue) == []


# --------------------------------------------------------------------------- what is kept


def test_durable_exchange_and_its_queue_are_defined_together(stand: Stand) -> None:
    assert stand.definitions.exchanges == {"d"}
    assert stand.definitions.queues == {WAIT: 1}
    assert stand.vhost.queue_ids == {WAIT: 1}
    stand.definitions.failure = "disk I/O error"
    with pytest.raises(StoreError):
        stand.exchange("e")
    assert "e" not in stand.vhost.exchanges
    assert list(stand.vhost.queues) == [WAIT]
    with pytest.raises(StoreError):
        stand.vhost.delete_exchange("d", if_unused=False)
    assert (list(stand.vhost.queues), "d" in stand.vhost.exchanges) == ([WAIT], True)


def test_nothing_is_kept_of_a_transient_exchange() -> None:
    stand = Stand()
    stand.exchange(is_durable=False)
    queue = stand.queue()
    assert list(stand.definitions.queues) == ["q"]
    stand.send(delivery_mode=2)
    assert list(stand.store.ledgers) == ["q"]
    assert not stand.waiting.is_durable
    stand.timers.advance(1000)
    assert bodies(queue) == [b"m"]
    assert stand.store.ledgers["q"].added == [0], "its queue keeps it"
    stand.vhost.delete_exchange("d", if_unused=False)


@pytest.mark.row("S9")
def test_persistent_messages_are_kept_and_transient_ones_not(stand: Stand) -> None:
    stand.queue()
    # differs: delay-transient
    stand.send(b"kept", delivery_mode=2)
    stand.send(b"gone", delivery_mode=1)
    assert stand.store.ledgers[WAIT].added == [0]


def test_going_on_is_one_batch_for_the_store(stand: Stand) -> None:
    """Added there before it is gone here, and no batch has one without the other."""
    stand.queue()
    stand.send(delivery_mode=2)
    stand.store.sync_all()
    batches = len(stand.store.batches)
    stand.timers.advance(1000)
    assert stand.store.ledgers["q"].added == [0]
    assert stand.store.ledgers[WAIT].settled == [0]
    assert stand.store.ledgers[WAIT].living == {}
    stand.store.sync_all()
    assert len(stand.store.batches) == batches + 1


@pytest.mark.row("S9")
def test_restored_exchange_gets_its_queue_and_what_was_in_it(stand: Stand) -> None:
    message = make_message(b"m", exchange="d", routing_key="k", headers=Table({"x-delay": 1000}))
    message.arrival_ms = stand.now_ms - 400
    stand.definitions.failure = "nothing may be written"
    vhost = stand.vhost = make_vhost(
        stand.turn, timers=stand.timers, store=stand.store, definitions=stand.definitions
    )
    vhost.restore_exchange(
        "d", "x-delayed-message", is_auto_delete=False, is_internal=False, arguments=DIRECT
    )
    waiting = vhost.restore_queue(1, WAIT, is_auto_delete=False, arguments={})
    queue = vhost.restore_queue(2, "q", is_auto_delete=False, arguments={})
    vhost.restore_binding("d", "queue", "q", "k", {})
    assert vhost.queue_ids == {WAIT: 1, "q": 2}
    scheduler = vhost.environment.dead_letter_scheduler
    scheduler.hold()
    restore_entries(waiting, [(7, 0, message)])
    scheduler.release()
    stand.timers.advance(599)
    assert bodies(queue) == []
    stand.timers.advance(1)
    assert bodies(queue) == [b"m"]
    with pytest.raises(ResourceLocked):
        vhost.queue(WAIT, object())


def test_many_that_are_due_together_go_in_shares(stand: Stand) -> None:
    """No ring of a timer does more than a share of the work, and all is done in time."""
    queue = stand.queue()
    message = make_message(b"m", exchange="d", routing_key="k", headers=Table({"x-delay": 1000}))
    for _ in range(20_000):
        stand.waiting.put(message)
    assert stand.timers.set_count <= 2
    shares: list[int] = []
    stand.timers._on_rung = lambda: shares.append(queue.ready_count)
    stand.timers.advance(1000)
    assert queue.ready_count == 20_000
    assert max(b - a for a, b in zip([0, *shares], shares, strict=False)) <= SENT_PER_STEP


def test_the_queue_of_an_exchange_leaves_memory_like_any_other() -> None:
    store = PagingStore()
    stand = Stand()
    vhost = make_vhost(stand.turn, timers=stand.timers, store=store, definitions=stand.definitions)
    vhost.declare_exchange(
        "d",
        "x-delayed-message",
        is_durable=True,
        is_auto_delete=False,
        is_internal=False,
        arguments=DIRECT,
    )
    assert vhost.queues[WAIT].paging is not None
