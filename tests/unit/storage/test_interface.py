"""What every store has of the interface itself."""

from __future__ import annotations

import pytest

from hareline.queues.core.entry import READY, QueueEntry
from hareline.storage.interface import StoredEntry
from tests.support.messages import make_message
from tests.support.stores import FakeStore, persistent
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost


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
