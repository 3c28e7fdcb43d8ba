"""A virtual host and its definitions: what is written, when, and what a refused change leaves."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.errors import NotFound, PreconditionFailed, StoreError
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.vhosts import StoredVhost, declare_exchange, routed

BROKEN = "definitions.sqlite: disk I/O error"


class Stand(StoredVhost):
    def exchange(
        self, name: str = "e", *, is_durable: bool = True, is_auto_delete: bool = False
    ) -> None:
        declare_exchange(
            self.vhost, name, "topic", is_durable=is_durable, is_auto_delete=is_auto_delete
        )

    def bind(self, source: str, queue: Queue, key: str = "k") -> None:
        self.vhost.bind(source, "queue", queue, key, {})

    def not_deleted(self) -> list[object]:
        return [
            fields["what"]
            for event, fields in self.reports
            if event is events.DEFINITION_NOT_DELETED
        ]


@pytest.fixture
def stand() -> Stand:
    return Stand()


# --------------------------------------------------------------------------- what is written


def test_durable_things_are_defined_before_the_declare_returns(stand: Stand) -> None:
    queue = stand.declare()
    stand.exchange()
    stand.bind("e", queue)
    stand.bind("amq.direct", queue)
    assert stand.definitions.queues == {"q": 1}
    assert stand.definitions.exchanges == {"e"}
    assert stand.definitions.bindings == {
        ("e", "queue", "q", "k"),
        ("amq.direct", "queue", "q", "k"),
    }
    assert stand.vhost.queue_ids == {"q": 1}


def test_transient_and_exclusive_things_are_not_defined(stand: Stand) -> None:
    transient = stand.declare("t", is_durable=False)
    mine = stand.declare("mine", owner="my connection")
    stand.exchange("e", is_durable=False)
    stand.exchange("d")
    for queue in (transient, mine):
        stand.bind("e", queue)
        stand.bind("d", queue)
    stand.bind("e", stand.declare())
    assert (stand.definitions.queues, stand.definitions.exchanges) == ({"q": 1}, {"d"})
    assert stand.definitions.bindings == set()


def test_a_repeated_declare_or_bind_writes_nothing(stand: Stand) -> None:
    queue = stand.declare()
    stand.exchange()
    stand.bind("e", queue)
    stand.definitions.failure = BROKEN
    assert stand.declare() is queue
    stand.exchange()
    stand.bind("e", queue)


def test_an_automatic_dead_letter_queue_is_defined_as_well(stand: Stand) -> None:
    stand.declare(arguments={"x-dlq-auto": True})
    assert stand.definitions.queues == {"q": 1, "q_DLQ": 2}


def test_deletions_are_written(stand: Stand) -> None:
    stand.exchange()
    queue = stand.declare()
    stand.bind("e", queue, "1")
    stand.bind("e", queue, "2")
    stand.vhost.unbind("e", "queue", queue, "1", {})
    assert stand.definitions.bindings == {("e", "queue", "q", "2")}
    stand.vhost.delete_queue("q", "me")
    stand.vhost.delete_exchange("e", if_unused=False)
    assert stand.definitions.queues == {}
    assert stand.definitions.exchanges == set()
    assert stand.definitions.bindings == set()
    assert stand.vhost.queue_ids == {}
    assert stand.store.ledgers["q"].is_forgotten


def test_a_queue_that_was_deleted_and_declared_again_is_another_one(stand: Stand) -> None:
    stand.declare()
    stand.vhost.delete_queue("q", "me")
    stand.declare()
    assert stand.vhost.queue_ids == {"q": 2}


def test_what_deletes_itself_is_deleted_there_too(stand: Stand) -> None:
    stand.exchange(is_auto_delete=True)
    queue = stand.declare(is_auto_delete=True)
    stand.declare("leased", arguments={"x-expires": 100})
    stand.bind("e", queue)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    stand.timers.advance(200)
    assert stand.definitions.queues == {}
    assert stand.definitions.exchanges == set()


# --------------------------------------------------------------------------- when it cannot be


def test_a_declare_that_cannot_be_written_makes_nothing(stand: Stand) -> None:
    queue = stand.declare("there")
    stand.exchange("there")
    stand.definitions.failure = BROKEN
    before = stand.vhost.routing.version
    with pytest.raises(StoreError, match="disk I/O error"):
        stand.declare("q", arguments={"x-expires": 1000})
    with pytest.raises(StoreError, match="disk I/O error"):
        stand.exchange("e")
    with pytest.raises(StoreError, match="disk I/O error"):
        stand.bind("there", queue)
    assert set(stand.vhost.queues) == {"there"}
    assert "e" not in stand.vhost.exchanges
    assert routed(stand.vhost, "there") == []
    assert stand.timers.pending == []  # the lease of the queue that came to nothing
    assert stand.vhost.routing.version >= before
    stand.definitions.failure = ""
    stand.bind("there", queue)
    assert routed(stand.vhost, "there") == [queue.name]


def test_transient_things_go_on_when_nothing_can_be_written(stand: Stand) -> None:
    stand.definitions.failure = BROKEN
    stand.exchange("e", is_durable=False)
    stand.bind("e", stand.declare(is_durable=False))
    stand.bind("e", stand.declare("mine", owner="me"))
    stand.vhost.delete_queues_of("me")
    stand.vhost.delete_queue("q", "me")
    assert stand.vhost.queues == {}


def test_a_deletion_that_cannot_be_written_is_refused(stand: Stand) -> None:
    stand.exchange()
    queue = stand.declare()
    stand.bind("e", queue)
    stand.definitions.failure = BROKEN
    with pytest.raises(StoreError):
        stand.vhost.delete_queue("q", "me")
    with pytest.raises(StoreError):
        stand.vhost.delete_exchange("e", if_unused=False)
    with pytest.raises(StoreError):
        stand.vhost.unbind("e", "queue", queue, "k", {})
    assert routed(stand.vhost, "e") == [queue.name]
    assert not queue.is_deleted
    stand.definitions.failure = ""
    stand.vhost.unbind("e", "queue", queue, "k", {})
    stand.vhost.delete_queue("q", "me")
    stand.vhost.delete_exchange("e", if_unused=False)
    assert stand.definitions.bindings == set()


def test_what_deletes_itself_goes_all_the_same_and_it_is_reported(stand: Stand) -> None:
    """Its consumer is in the middle of leaving: an error would stop that half-way."""
    stand.exchange(is_auto_delete=True)
    queue = stand.declare(is_auto_delete=True)
    leased = stand.declare("leased", arguments={"x-expires": 100})
    stand.bind("e", queue)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    stand.definitions.failure = BROKEN
    queue.remove_consumer(consumer)
    stand.timers.advance(200)
    assert queue.is_deleted
    assert leased.is_deleted
    assert stand.vhost.queues == {}
    assert "e" not in stand.vhost.exchanges
    assert stand.not_deleted() == ["queue 'q'", "exchange 'e'", "queue 'leased'"]
    assert stand.store.ledgers["q"].is_forgotten


# --------------------------------------------------------------------------- a turn that is lost


@pytest.fixture
def lossy(stand: Stand) -> Stand:
    """``e`` and ``there`` are durable, what follows is lost with the commit."""
    stand.exchange()
    stand.declare("there")
    stand.definitions.gathers = True
    stand.definitions.loss = BROKEN
    return stand


class TestLost:
    def routed(self, stand: Stand, name: str = "e") -> list[str]:
        exchange = stand.vhost.exchange(name)
        found, _, _ = stand.vhost.routing.route(exchange, ["k"], make_message())
        return [queue.name for queue in found]

    def test_what_was_declared_and_bound_is_gone(self, lossy: Stand) -> None:
        queue = lossy.declare("q", arguments={"x-expires": 1000})
        lossy.exchange("f")
        lossy.bind("e", queue)
        lossy.bind("e", lossy.vhost.queues["there"])
        lossy.bind("f", queue)
        consumer = RecordingConsumer(queue)
        queue.add_consumer(consumer)
        queue.enqueue(make_message())
        assert self.routed(lossy) == ["there"], "and to none that is not durable so far"
        before = lossy.vhost.routing.version
        lossy.definitions.commit()
        assert queue.is_deleted
        assert consumer.is_cancelled
        assert set(lossy.vhost.queues) == {"there"}
        assert lossy.vhost.queue_ids == {"there": 1}
        assert "f" not in lossy.vhost.exchanges
        assert self.routed(lossy) == []
        assert len(lossy.vhost.bindings) == 0
        assert lossy.vhost.routing.version != before
        assert lossy.store.ledgers["q"].is_forgotten
        assert lossy.timers.pending == []
        assert lossy.not_deleted() == []

    def test_what_is_declared_again_is_another_one(self, lossy: Stand) -> None:
        lossy.declare("q")
        lossy.exchange("f")
        lossy.definitions.commit()
        lossy.definitions.loss = ""
        queue = lossy.declare("q")
        lossy.exchange("f")
        lossy.bind("f", queue)
        lossy.definitions.commit()
        assert self.routed(lossy, "f") == ["q"]
        assert lossy.definitions.queues == {"there": 1, "q": 3}

    def test_what_was_unbound_is_bound_again(self, lossy: Stand) -> None:
        lossy.definitions.loss = ""
        queue = lossy.vhost.queues["there"]
        lossy.bind("e", queue)
        lossy.definitions.commit()
        lossy.definitions.loss = BROKEN
        lossy.vhost.unbind("e", "queue", queue, "k", {})
        assert self.routed(lossy) == []
        lossy.definitions.commit()
        assert self.routed(lossy) == ["there"]
        assert lossy.definitions.bindings == {("e", "queue", "there", "k")}

    def test_a_binding_that_made_room_for_another_is_back(self, lossy: Stand) -> None:
        lossy.definitions.loss = ""
        queue = lossy.vhost.queues["there"]
        lossy.bind("e", queue)
        lossy.definitions.commit()
        lossy.definitions.loss = BROKEN
        selector = {"x-filter-jms-selector": "a = 1"}
        lossy.vhost.bind("e", "queue", queue, "k", selector, is_by_key=True)
        assert self.routed(lossy) == []
        lossy.definitions.commit()
        assert self.routed(lossy) == ["there"]
        assert [one.arguments for one in lossy.vhost.bindings.from_source("e")] == [{}]

    def test_what_was_deleted_stays_so_and_it_is_reported(self, lossy: Stand) -> None:
        lossy.bind("e", lossy.vhost.queues["there"])
        lossy.vhost.unbind("e", "queue", lossy.vhost.queues["there"], "k", {})
        lossy.vhost.delete_queue("there", "me")
        lossy.vhost.delete_exchange("e", if_unused=False)
        lossy.definitions.commit()
        assert lossy.vhost.queues == {}
        assert "e" not in lossy.vhost.exchanges
        assert len(lossy.vhost.bindings) == 0
        assert lossy.not_deleted() == ["exchange 'e'", "queue 'there'"]
        assert lossy.definitions.queues == {"there": 1}

    def test_what_came_and_went_meanwhile_is_left_alone(self, lossy: Stand) -> None:
        lossy.bind("e", lossy.declare("q"))
        lossy.vhost.delete_queue("q", "me")
        transient = lossy.declare("q", is_durable=False)
        lossy.exchange("f")
        lossy.vhost.delete_exchange("f", if_unused=False)
        lossy.exchange("f", is_durable=False)
        lossy.definitions.commit()
        assert lossy.vhost.queues["q"] is transient
        assert "f" in lossy.vhost.exchanges

    def test_both_queues_go_where_one_came_with_the_other(self, lossy: Stand) -> None:
        lossy.declare("q", arguments={"x-dlq-auto": True})
        lossy.vhost.declare_exchange(
            "d",
            "x-delayed-message",
            is_durable=True,
            is_auto_delete=False,
            is_internal=False,
            arguments={"x-delayed-type": "direct"},
        )
        assert len(lossy.vhost.queues) == 4
        lossy.definitions.commit()
        assert set(lossy.vhost.queues) == {"there"}
        assert "d" not in lossy.vhost.exchanges

    def test_nothing_is_undone_of_a_turn_that_is_durable(self, lossy: Stand) -> None:
        lossy.definitions.loss = ""
        lossy.bind("e", lossy.declare("q"))
        lossy.definitions.commit()
        lossy.definitions.loss = BROKEN
        lossy.declare("p")
        lossy.definitions.commit()
        assert self.routed(lossy) == ["q"]
        assert set(lossy.vhost.queues) == {"there", "q"}


# --------------------------------------------------------------------------- another life


def test_what_is_restored_is_not_written(stand: Stand) -> None:
    stand.definitions.failure = BROKEN
    vhost = stand.vhost
    vhost.restore_exchange("e", "topic", is_auto_delete=False, is_internal=True, arguments={})
    queue = vhost.restore_queue(7, "q", is_auto_delete=True, arguments={"x-max-priority": 4})
    vhost.restore_binding("e", "queue", "q", "a.*", {})
    vhost.restore_binding("amq.topic", "exchange", "e", "#", {})
    assert vhost.queue_ids == {"q": 7}
    assert queue.ledger is stand.store.ledgers["q"]
    assert (queue.is_durable, queue.is_auto_delete) == (True, True)
    assert vhost.exchange("e").is_internal
    found = vhost.routing.route(vhost.exchange("amq.topic"), ["a.b"], make_message())[0]
    assert found == (queue,)


def test_what_was_restored_is_there_for_an_equal_declare(stand: Stand) -> None:
    queue = stand.vhost.restore_queue(7, "q", is_auto_delete=False, arguments={"x-max-priority": 4})
    stand.vhost.restore_exchange(
        "e", "topic", is_auto_delete=False, is_internal=False, arguments={}
    )
    stand.exchange()
    assert stand.declare(arguments={"x-max-priority": 4}) is queue
    with pytest.raises(PreconditionFailed):
        stand.declare()


def test_a_restored_queue_is_deleted_in_the_definitions(stand: Stand) -> None:
    stand.definitions.queues["q"] = 7
    stand.vhost.restore_queue(7, "q", is_auto_delete=False, arguments={})
    stand.vhost.delete_queue("q", "me")
    assert stand.definitions.queues == {}


def test_a_binding_of_something_that_is_gone_is_not_restored(stand: Stand) -> None:
    with pytest.raises(NotFound, match="no queue 'q' in vhost '/'"):
        stand.vhost.restore_binding("amq.topic", "queue", "q", "#", {})
    stand.declare()
    with pytest.raises(NotFound, match="no exchange 'e' in vhost '/'"):
        stand.vhost.restore_binding("e", "queue", "q", "#", {})


# --------------------------------------------------------------------------- refusal


def test_routes_are_made_anew_when_the_store_begins_or_ends_to_refuse(stand: Stand) -> None:
    before = stand.vhost.routing.version
    stand.store.refuse("no space left")
    refusing = stand.vhost.routing.version
    assert refusing != before
    stand.store.refuse("no space left")
    assert stand.vhost.routing.version == refusing
    stand.store.refuse("")
    assert stand.vhost.routing.version not in (before, refusing)
