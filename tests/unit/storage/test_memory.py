"""The store that keeps nothing: nothing waits for it, and ids are still used once."""

from __future__ import annotations

from hareline.storage.memory import MemoryDefinitions, MemoryStore


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
    definitions = MemoryDefinitions()
    first = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    definitions.delete_queue("/", "q")
    second = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    of_exchange = definitions.add_exchange(
        "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}, queue="own"
    )
    assert 0 < first < second < of_exchange


def test_an_exchange_without_a_queue_needs_no_id() -> None:
    without = MemoryDefinitions().add_exchange(
        "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}
    )
    assert without == 0
