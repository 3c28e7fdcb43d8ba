"""What a durable queue tells the store: of each entry once, however it comes and leaves.

The ledger of ``tests.support.stores`` fails by itself where an entry is added or settled twice, or
settled without having been added; here everything that a queue can do is led past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.broker.restoring import restore_entries
from hareline.message import TRANSIENT, Message
from hareline.queues.core.dead_letter_scheduler import SHARE_S
from hareline.queues.core.entry import SETTLED, QueueEntry
from hareline.queues.queue import Queue
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.examples import examples
from tests.support.messages import make_message
from tests.support.stores import FakeLedger
from tests.support.vhosts import NO_ARGUMENTS, StoredVhost, offer

ORDERS: dict[str, dict[str, object]] = {
    "fifo": {},
    "priority": {"x-max-priority": 3},
    "sorted": {"x-sort-key": "k"},
    "last_value": {"x-last-value-key": "k"},
    "groups": {"x-message-group-key": "k", "x-message-group-type": "shared"},
    "quorum": {"x-queue-type": "quorum"},
}
READ: dict[str, dict[str, object]] = {
    "non_destructive": {"x-non-destructive": True},
    "non_destructive_sorted": {"x-non-destructive": True, "x-sort-key": "k"},
    "non_destructive_last_value": {"x-non-destructive": True, "x-last-value-key": "k"},
    "stream": {"x-queue-type": "stream"},
}


class Stand(StoredVhost):
    """Messages are routed as ``amqp.publishing`` does."""

    def route(
        self,
        *queues: Queue,
        body: bytes = b"x",
        key: object = None,
        is_persistent: bool = True,
        headers: Mapping[str, object] = NO_ARGUMENTS,
        **properties: Any,
    ) -> Message:
        """One message to each of them."""
        if key is not None:
            headers = {**headers, "k": key}
        mode = 2 if is_persistent else 1
        message = self.message(body, headers=headers or None, delivery_mode=mode, **properties)
        for queue in queues:
            offer(queue, message)
        return message


@pytest.fixture
def stand() -> Stand:
    return Stand()


def living(ledger: FakeLedger) -> list[int]:
    return sorted(ledger.living)


def offsets(entries: Iterable[QueueEntry]) -> list[int]:
    return [entry.offset for entry in entries]


# --------------------------------------------------------------------------- coming in


@pytest.mark.parametrize("arguments", [*ORDERS.values(), *READ.values()], ids=[*ORDERS, *READ])
def test_a_persistent_message_is_added_with_its_offset(
    stand: Stand, arguments: dict[str, object]
) -> None:
    queue = stand.declare(arguments=arguments)
    for index in range(3):
        stand.route(queue, key=index)
    assert stand.ledger().added == [0, 1, 2]
    assert queue.next_offset == 3


@pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)
def test_a_transient_message_is_never_spoken_of(stand: Stand, arguments: dict[str, object]) -> None:
    if arguments.get("x-queue-type") == "quorum":
        return
    queue = stand.declare(arguments=arguments)
    stand.route(queue, key=1, is_persistent=False)
    stand.route(queue, key=2, is_persistent=True)
    stand.consume(queue).ack()
    assert stand.ledger().added == [1]
    assert stand.ledger().settled == [1]


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
def test_quorum_queues_and_streams_keep_everything(stand: Stand, queue_type: str) -> None:
    """RabbitMQ: their messages survive whatever the delivery mode says."""
    queue = stand.declare(arguments={"x-queue-type": queue_type})
    # differs: quorum-queues
    stand.route(queue, is_persistent=False)
    assert stand.ledger().added == [0]


def test_message_durability_always_keeps_transient_messages_too(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-message-durability": "always"})
    message = stand.route(queue, is_persistent=False)
    assert stand.ledger().added == [0]
    assert message.position == TRANSIENT  # other queues have it, and do not keep it
    stand.consume(queue).ack()
    assert stand.ledger().settled == [0]


def test_message_durability_never_keeps_nothing(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-message-durability": "never"})
    stand.route(queue)
    assert queue.ledger is None
    assert stand.ledger().added == []


@pytest.mark.parametrize("is_durable", [True, False])
def test_what_a_connection_holds_exclusively_is_not_kept(stand: Stand, is_durable: bool) -> None:
    queue = stand.declare(is_durable=is_durable, owner="my connection")
    stand.route(queue)
    assert queue.ledger is None
    assert stand.store.ledgers == {}


def test_a_queue_that_is_not_durable_has_no_ledger(stand: Stand) -> None:
    queue = stand.declare(is_durable=False, arguments={"x-message-durability": "always"})
    stand.route(queue)
    assert queue.ledger is None


def test_one_message_in_many_queues_has_one_place(stand: Stand) -> None:
    queues = [stand.declare(f"q{index}") for index in range(10)]
    stand.route(*queues, stand.declare("fleeting", is_durable=False))
    stand.turn.run()
    assert stand.store.batches == [1]
    entries = [queue.lane.ready_entries()[0] for queue in queues]
    assert len({id(entry.message) for entry in entries}) == 1
    assert entries[0].message.position > 0


def test_a_queue_that_keeps_all_does_not_make_others_keep_it(stand: Stand) -> None:
    everything = stand.declare("all", arguments={"x-message-durability": "always"})
    usual = stand.declare("usual")
    stand.route(usual, everything, usual, is_persistent=False)
    stand.turn.run()
    for queue in (everything, usual):
        queue.purge()
    assert (stand.ledger("all").settled, stand.ledger("usual").added) == ([0], [])


def test_refused_and_discarded_messages_are_not_added(stand: Stand) -> None:
    for policy in ("reject-publish", "discard"):
        queue = stand.declare(policy, arguments={"x-max-length": 1, "x-overflow": policy})
        for _ in range(3):
            stand.route(queue)
        assert stand.ledger(policy).added == [0]
        assert queue.ready_count == 1


# --------------------------------------------------------------------------- leaving


@pytest.mark.parametrize("acknowledges", [True, False])
@pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)
def test_what_consumers_have_done_with_is_settled(
    stand: Stand, arguments: dict[str, object], acknowledges: bool
) -> None:
    queue = stand.declare(arguments=arguments)
    for index in range(4):
        stand.route(queue, key=index)
    consumer = stand.consume(queue, acknowledges=acknowledges)
    ledger = stand.ledger()
    assert sorted(ledger.acquired) == [0, 1, 2, 3]
    if acknowledges:
        assert ledger.settled == []
        consumer.ack()
    assert sorted(ledger.settled) == [0, 1, 2, 3]


@pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)
def test_a_get_is_told_like_a_delivery(stand: Stand, arguments: dict[str, object]) -> None:
    queue = stand.declare(arguments=arguments)
    stand.route(queue, key=1)
    entry = queue.get()
    assert entry is not None
    assert stand.ledger().acquired == [0]
    queue.settle(entry)
    assert stand.ledger().settled == [0]


def test_a_consumer_with_a_selector_is_told_of_like_others(stand: Stand) -> None:
    queue = stand.declare()
    for number in range(4):
        stand.route(queue, headers={"n": number % 2})
    consumer = stand.consume(queue, selector="n = 1")
    assert stand.ledger().acquired == [1, 3]
    consumer.ack()
    assert living(stand.ledger()) == [0, 2]


@pytest.mark.parametrize("arguments", [*ORDERS.values(), *READ.values()], ids=[*ORDERS, *READ])
def test_a_purge_settles_what_nobody_has(stand: Stand, arguments: dict[str, object]) -> None:
    queue = stand.declare(arguments=arguments)
    for index in range(4):
        stand.route(queue, key=index)
    queue.purge()
    assert sorted(stand.ledger().settled) == [0, 1, 2, 3]


def test_a_purge_leaves_what_somebody_has_and_takes_what_is_held(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-hold-on-publish": True})
    stand.route(queue)
    stand.route(queue, headers={"x-delay": 1000})
    consumer = stand.consume(queue, 1)
    stand.route(queue)
    queue.purge()
    assert living(stand.ledger()) == [0]
    consumer.ack()
    assert living(stand.ledger()) == []


@pytest.mark.parametrize("arguments", [*ORDERS.values(), *READ.values()], ids=[*ORDERS, *READ])
def test_a_deletion_forgets_the_queue_and_says_nothing_of_entries(
    stand: Stand, arguments: dict[str, object]
) -> None:
    queue = stand.declare(arguments=arguments)
    for index in range(4):
        stand.route(queue, key=index)
    consumer = stand.consume(queue, 2)
    stand.vhost.delete_queue("q", "me")
    ledger = stand.ledger()
    assert (ledger.is_forgotten, ledger.settled) == (True, [])
    consumer.ack(1)
    consumer.release()
    assert ledger.settled == []


def test_a_lease_that_ends_forgets_the_queue(stand: Stand) -> None:
    stand.route(stand.declare(arguments={"x-expires": 100}))
    stand.timers.advance(200)
    assert stand.ledger().is_forgotten
    assert "q" not in stand.vhost.queues


@pytest.mark.parametrize("has_letters", [True, False])
def test_a_rejected_entry_is_settled_once(stand: Stand, has_letters: bool) -> None:
    letters = stand.declare("letters")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    queue = stand.declare(arguments=arguments if has_letters else {})
    for _ in range(3):
        stand.route(queue)
    queue.reject(stand.consume(queue).take_unacked())
    assert stand.ledger().settled == [0, 1, 2]
    assert stand.ledger("letters").added == ([0, 1, 2] if has_letters else [])
    assert letters.ready_count == 3 * has_letters


def test_a_dead_letter_and_the_end_of_its_source_are_in_one_batch(stand: Stand) -> None:
    stand.declare("letters")
    queue = stand.declare(
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    )
    count = 20
    for _ in range(count):
        stand.route(queue)
    consumer = stand.consume(queue)
    stand.timers.clock.work_s = SHARE_S / 10
    stand.turn.run()
    stand.store.sync_all()
    ledger, letters = stand.ledger(), stand.ledger("letters")
    queue.reject(consumer.take_unacked())
    assert 0 < len(ledger.settled) == len(letters.added) < count
    stand.turn.run()
    assert stand.store.batches[-1] == len(ledger.settled)
    stand.timers.advance(1)
    assert len(ledger.settled) == len(letters.added) == count


def test_a_queue_may_be_deleted_while_its_dead_letters_wait(stand: Stand) -> None:
    stand.declare("letters")
    queue = stand.declare(
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    )
    count = 20
    for _ in range(count):
        stand.route(queue)
    stand.timers.clock.work_s = SHARE_S / 10
    queue.reject(stand.consume(queue).take_unacked())
    assert 0 < len(stand.ledger("letters").added) < count
    stand.vhost.delete_queue("q", "me")
    stand.timers.advance(1)
    assert len(stand.ledger("letters").added) == count


DELETED = {**ORDERS, **{name: READ[name] for name in READ if name != "stream"}}


@pytest.mark.parametrize("arguments", DELETED.values(), ids=DELETED)
def test_a_deep_queue_with_an_alternate_is_deleted_in_shares(
    stand: Stand, arguments: dict[str, object]
) -> None:
    """Its entries are not even taken before it is their turn."""
    letters = stand.declare("letters")
    queue = stand.declare(arguments={**arguments, "alternateExchange": "letters"})
    for number in range(1_200):
        stand.route(queue, body=b"%d" % number)
    expected = [entry.message.body for entry in queue.lane.ready_entries()]
    entries = queue.lane.ready_entries()
    stand.timers.clock.work_s = SHARE_S / 10
    assert stand.vhost.delete_queue("q", "me") == 1_200
    assert 0 < letters.ready_count < 20
    assert sum(entry.state == SETTLED for entry in entries) < 1_000
    assert not stand.ledger().is_forgotten
    stand.timers.advance(1)
    assert [entry.message.body for entry in letters.lane.ready_entries()] == expected
    assert stand.ledger().is_forgotten


def test_dead_letters_of_transient_messages_are_transient(stand: Stand) -> None:
    letters = stand.declare("letters")
    queue = stand.declare(
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    )
    stand.route(queue, is_persistent=False)
    queue.reject(stand.consume(queue).take_unacked())
    assert letters.ready_count == 1
    assert stand.ledger("letters").added == []


def test_what_overflows_is_settled(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-max-length": 2})
    for _ in range(5):
        stand.route(queue)
    assert stand.ledger().settled == [0, 1, 2]
    assert living(stand.ledger()) == offsets(queue.lane.ready_entries())


@pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)
def test_what_expires_is_settled_ready_or_held_or_on_its_way_back(
    stand: Stand, arguments: dict[str, object]
) -> None:
    queue = stand.declare(arguments={**arguments, "x-hold-on-publish": True})
    stand.route(queue, key=1, ttl_ms=100)
    consumer = stand.consume(queue, 1)
    stand.route(queue, key=2, ttl_ms=100)
    stand.route(queue, key=3, ttl_ms=100, headers={"x-delay": 1000})
    assert (queue.ready_count, queue.held_count, queue.unacked_count) == (1, 1, 1)
    stand.timers.advance(200)
    assert sorted(stand.ledger().settled) == [1, 2]
    consumer.release()
    assert living(stand.ledger()) == []
    assert queue.unacked_count == 0


def test_what_comes_back_too_often_is_settled(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-queue-type": "quorum", "x-delivery-limit": 1})
    stand.route(queue)
    consumer = stand.consume(queue)
    ledger = stand.ledger()
    consumer.release()
    assert ledger.released == [(0, 1)]
    stand.turn.run()
    consumer.release()
    assert ledger.settled == [0]
    assert ledger.released == [(0, 1)]


def test_a_replaced_value_is_settled_and_a_stale_one_when_it_comes_back(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-last-value-key": "k"})
    for _ in range(3):
        stand.route(queue, key="a")
    ledger = stand.ledger()
    assert ledger.settled == [0, 1]
    consumer = stand.consume(queue, 1)
    stand.route(queue, key="a")
    assert ledger.settled == [0, 1]
    consumer.release()
    assert ledger.settled == [0, 1, 2]
    assert living(ledger) == [3]


def test_a_held_value_replaces_when_its_time_comes(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-last-value-key": "k", "x-hold-on-publish": True})
    stand.route(queue, key="a", headers={"x-delay": 100})
    stand.route(queue, key="a")
    stand.timers.advance(200)
    assert stand.ledger().settled == [1]
    assert offsets(queue.lane.ready_entries()) == living(stand.ledger()) == [0]


def test_what_is_retained_no_longer_is_settled(stand: Stand) -> None:
    by_age = stand.declare("age", arguments={"x-queue-type": "stream", "x-max-age": "1m"})
    by_size = stand.declare("size", arguments={"x-queue-type": "stream", "x-max-length-bytes": 20})
    for _ in range(5):
        stand.route(by_age, by_size, body=b"0123456789")
    stand.turn.run()
    assert living(stand.ledger("size")) == [3, 4]
    stand.timers.advance(90_000)
    stand.route(by_age)
    stand.turn.run()
    assert living(stand.ledger("age")) == [5]


@pytest.mark.parametrize("arguments", READ.values(), ids=READ)
def test_readers_settle_nothing(stand: Stand, arguments: dict[str, object]) -> None:
    queue = stand.declare(arguments=arguments)
    for index in range(3):
        stand.route(queue, key=index)
    consumer = stand.consume(queue, 2)
    consumer.ack(1)
    consumer.release()
    queue.reject([])
    ledger = stand.ledger()
    assert (ledger.settled, ledger.acquired, ledger.released) == ([], [], [])


# --------------------------------------------------------------------------- coming back


@pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)
def test_what_comes_back_is_told_with_its_count(stand: Stand, arguments: dict[str, object]) -> None:
    queue = stand.declare(arguments=arguments)
    stand.route(queue, key=1)
    stand.turn.run()
    consumer = stand.consume(queue, 1)
    consumer.release()
    stand.turn.run()
    assert consumer.redelivered == [False, True]
    assert stand.ledger().released == [(0, 1)]
    assert living(stand.ledger()) == [0]


def test_the_shown_delivery_count_does_not_make_another_message_of_it(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-queue-type": "quorum"})
    stand.route(queue)
    stand.turn.run()
    (entry,) = queue.lane.ready_entries()
    position = entry.message.position
    assert position > 0
    consumer = stand.consume(queue)
    consumer.release()
    assert entry.message.header("x-delivery-count") == 1
    assert entry.message.position == position


def test_what_was_never_delivered_is_not_told_as_released(stand: Stand) -> None:
    queue = stand.declare()
    for _ in range(3):
        stand.route(queue)
    consumer = RecordingConsumer(queue)
    consumer.room = 0  # takes one entry, the rest is put back
    queue.add_consumer(consumer)
    stand.turn.run()
    assert len(consumer.unacked) < 3
    assert stand.ledger().released == []


# --------------------------------------------------------------------------- another life


def restored(stand: Stand, queue: Queue, *entries: tuple[int, int, Message]) -> None:
    for _, _, message in entries:
        message.position = 77
    restore_entries(queue, entries)
    stand.ledger(queue.name).restored(queue.lane.ready_entries())


@pytest.mark.parametrize("arguments", [*ORDERS.values(), *READ.values()], ids=[*ORDERS, *READ])
def test_restored_entries_are_not_added_again(stand: Stand, arguments: dict[str, object]) -> None:
    queue = stand.vhost.restore_queue(4, "q", is_auto_delete=False, arguments=arguments)
    messages = [make_message(b"%d" % index, headers=Table(k=index)) for index in range(3)]
    restored(stand, queue, *((index + 5, 0, message) for index, message in enumerate(messages)))
    ledger = stand.ledger()
    assert ledger.added == [5, 6, 7]  # by the test alone: the ledger would refuse another time
    assert queue.next_offset == 8
    assert (queue.ready_count, queue.ready_bytes) == (3, 3)
    assert stand.store.pending == []
    queue.purge()
    assert sorted(ledger.settled) == [5, 6, 7]


def test_a_restored_entry_is_redelivered_and_says_how_often(stand: Stand) -> None:
    queue = stand.vhost.restore_queue(
        4, "q", is_auto_delete=False, arguments={"x-queue-type": "quorum"}
    )
    restored(stand, queue, (0, 2, make_message(b"x")), (1, 0, make_message(b"y")))
    consumer = stand.consume(queue)
    assert consumer.redelivered == [True, False]
    first, second = consumer.unacked
    assert first.message.header("x-delivery-count") == 2
    assert second.message.header("x-delivery-count") is None
    assert first.message.position == 77


def test_a_restored_time_to_live_counts_from_the_arrival(stand: Stand) -> None:
    queue = stand.vhost.restore_queue(
        4, "q", is_auto_delete=False, arguments={"x-message-ttl": 1000}
    )
    old, new = make_message(b"old"), make_message(b"new")
    old.arrival_ms = stand.timers.clock.now_ms - 2000
    new.arrival_ms = stand.timers.clock.now_ms - 400
    restored(stand, queue, (0, 0, old), (1, 0, new))
    stand.turn.run()
    queue.deliver_due()
    stand.timers.advance(1)
    assert offsets(queue.lane.ready_entries()) == [1]
    stand.timers.advance(700)
    assert offsets(queue.lane.ready_entries()) == []


def test_a_message_stored_while_it_was_held_gets_its_offset_when_it_is_shown(stand: Stand) -> None:
    queue = stand.declare(arguments={"x-non-destructive": True, "x-hold-on-publish": True})
    stand.route(queue, headers={"x-delay": 100})
    stand.turn.run()
    stand.store.sync_all()
    stand.timers.advance(200)
    (entry,) = queue.lane.ready_entries()
    assert entry.message.header("x-stream-offset") == 0
    assert entry.message.position > 0


# --------------------------------------------------------------------------- all of it


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("publish_expiring"), st.integers(0, 3), st.booleans()),
        st.tuples(st.sampled_from(["ack", "release", "reject"]), st.integers(1, 3), st.booleans()),
        st.tuples(
            st.sampled_from(["get", "purge", "turn", "sync", "pass", "delayed"]),
            st.just(0),
            st.just(False),
        ),
    ),
    max_size=40,
)
POLICIES: list[dict[str, object]] = [
    {},
    {"x-max-length": 3},
    {"x-message-ttl": 150, "x-delivery-limit": 1},
    {"x-hold-on-publish": True, "x-max-length-bytes": 4},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"},
]


@settings(max_examples=examples(1.5))
@given(st.sampled_from([*ORDERS.values()]), st.sampled_from(POLICIES), st.booleans(), STEPS)
def test_the_ledger_has_what_the_queue_has_whatever_happens(
    order: dict[str, object],
    policy: dict[str, object],
    acknowledges: bool,
    steps: list[tuple[str, int, bool]],
) -> None:
    stand = Stand()
    queue = stand.declare(arguments={**order, **policy})
    consumer = stand.consume(queue, 2, acknowledges=acknowledges)
    consumer.credit = 2 if acknowledges else 1_000_000
    ledger = stand.ledger()
    for step, number, flag in steps:
        if step == "publish":
            stand.route(queue, key=number, priority=number, is_persistent=flag)
        elif step == "publish_expiring":
            stand.route(queue, key=number, ttl_ms=100, is_persistent=flag)
        elif step == "delayed":
            stand.route(queue, key=1, headers={"x-delay": 120})
        elif step == "ack":
            consumer.ack(number)
        elif step == "release":
            consumer.release(number)
        elif step == "reject":
            taken = consumer.take_unacked(number)
            for entry in taken:
                consumer.restore_credit(entry.message.size)
            if taken:
                queue.reject(taken)
        elif step == "get":
            got = queue.get()
            if got is not None:
                queue.settle(got)
        elif step == "purge":
            queue.purge()
        elif step == "turn":
            stand.turn.run()
        elif step == "sync":
            stand.store.sync_all()
        else:
            stand.timers.advance(60)
        unsettled = {
            entry.offset: entry
            for entry in [*queue.lane.ready_entries(), *consumer.unacked]
            if entry.message.position != TRANSIENT
        }
        held = {
            offset: entry
            for offset, entry in ledger.living.items()
            if entry.state == 3 and offset not in unsettled
        }
        assert len(held) <= queue.held_count
        assert ledger.living == unsettled | held
