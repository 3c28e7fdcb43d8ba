"""The stores that keep nothing, and what any store does."""

from __future__ import annotations

import pytest

from hareline.queues.core.entry import READY, QueueEntry
from hareline.storage.administration import (
    KEY_FIELDS,
    AdministrationStore,
    GlobalParameterRecord,
    PolicyRecord,
    key_of,
)
from hareline.storage.interface import DefinitionStore, StoredEntry
from hareline.storage.memory import MemoryStore
from tests.support.messages import make_message
from tests.support.stores import FakeStore, persistent
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost

# --------------------------------------------------------------------------------------- interface


def test_a_change_of_the_refusal_is_reported_once() -> None:
    store = FakeStore()
    seen: list[str] = []
    store.on_refusal_changed.append(lambda: seen.append(store.refusal))
    for reason in ("", "no room", "no room", "it has failed", "", ""):
        store.refuse(reason)
    assert seen == ["no room", "it has failed", ""]


def test_a_ledger_adds_a_run_entry_by_entry_unless_it_can_do_better() -> None:
    ledger = FakeStore().open_queue(1, "q")
    assert ledger is not None
    queue = declare(make_vhost(ManualTurn()))
    ledger.add_run([QueueEntry(queue, persistent(make_message()), offset) for offset in (3, 4, 5)])
    assert ledger.added == [3, 4, 5]


@pytest.mark.pure("hands over an object that is of another class")
def test_an_entry_of_a_queue_is_what_a_store_reads_and_has_no_dictionary() -> None:
    message = make_message()
    entry = QueueEntry(None, message, 7)  # type: ignore[arg-type]
    stored: StoredEntry = entry
    assert (stored.message, stored.offset, stored.state) == (message, 7, READY)
    assert stored.delivery_count == 0
    assert not hasattr(entry, "__dict__")


# ------------------------------------------------------------------------------------------ memory


def test_what_is_added_now_is_as_durable_as_it_will_be() -> None:
    store = MemoryStore()
    assert store.durable_ticket >= store.ticket
    assert not store.write_pending()
    assert not store.is_behind
    assert store.open_queue(1, "q") is None
    assert store.content_store is None
    transaction = store.begin_transaction()
    transaction.enter()
    transaction.leave()
    transaction.finish()
    assert store.durable_ticket >= store.ticket


def test_an_id_is_never_given_again() -> None:
    definitions = DefinitionStore()
    first = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    definitions.delete_queue("/", "q")
    second = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    of_exchange = definitions.add_exchange(
        "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}, queue="own"
    )
    assert 0 < first < second < of_exchange


def test_an_exchange_without_a_queue_needs_no_id() -> None:
    without = DefinitionStore().add_exchange(
        "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}
    )
    assert without == 0


# ---------------------------------------------------------------------------------- administration


def test_a_key_tells_records_of_a_kind_apart() -> None:
    policy = PolicyRecord("/", True, "p", "", "all", 0, {})
    assert key_of(policy) == ("/", True, "p")
    assert key_of(policy._replace(pattern="x", priority=3)) == key_of(policy)
    assert all(0 < count <= len(kind.__annotations__) for kind, count in KEY_FIELDS.items())


def test_memory_keeps_no_records() -> None:
    store = AdministrationStore()
    store.put(GlobalParameterRecord("g", 1))
    assert not store.when_settled(lambda _: None)
    assert store.records(GlobalParameterRecord) == []
    store.delete(GlobalParameterRecord("g", 1))
    store.delete_vhost("/")
    assert not store.has_definitions("/")
