"""Tickets, group commit, errors, and the end: what the loop sees of the durable store."""

from __future__ import annotations

import errno
from collections.abc import Callable
from queue import Queue

import pytest

from hareline.errors import StoreError
from hareline.message import TRANSIENT
from hareline.storage.journal.format.frame import CLEAN, FREE, MESSAGE
from hareline.storage.journal.syncer import InlineSyncer, ThreadSyncer, Work
from hareline.storage.store.batch import BatchBuilder
from hareline.storage.store.durable import BEHIND_BYTES, DurableStore
from hareline.storage.store.state import RecoveredState
from tests.crash.forgetful_files import ForgetfulFiles, Operation
from tests.support.messages import make_message
from tests.support.store_stand import (
    JOURNAL,
    SPOOL,
    FakeEntry,
    Reopened,
    StoreStand,
    persistent,
)


def is_of_journal(operation: Operation) -> bool:
    return operation.path.startswith(JOURNAL)


def test_what_is_added_is_durable_with_the_ticket_of_that_moment() -> None:
    stand = StoreStand(is_automatic=False)
    store = stand.store
    ticket = store.ticket
    stand.entry(1)
    store.write_pending()
    assert store.ticket == ticket + 1
    assert store.durable_ticket < ticket
    stand.syncer.step()
    assert store.durable_ticket == ticket
    stand.crash()
    assert stand.reopen().bodies(1) == [b"body"]


def test_what_comes_while_the_disk_is_busy_is_one_batch() -> None:
    stand = StoreStand(is_automatic=False)
    store = stand.store
    stand.entry(1)
    store.write_pending()
    syncs = stand.syncs
    for _ in range(10):
        stand.entry(1)
        store.write_pending()
    stand.settle_down()
    assert stand.syncs == syncs + 2
    assert store.durable_ticket == store.ticket - 1


def test_what_is_of_a_queue_whose_definition_is_not_durable_waits_for_it() -> None:
    unwritten = {2}
    stand = StoreStand(added_queues=lambda: unwritten)
    store = stand.store
    stand.entry(1)
    stand.turn()
    assert store.durable_ticket == store.ticket - 1
    stand.entry(1)
    stand.entry(2, persistent(bytes(BEHIND_BYTES)))
    ticket = store.ticket
    stand.turn()
    assert (store.ticket, store.is_behind) == (ticket, True)
    unwritten.clear()
    stand.turn()
    assert (store.durable_ticket, store.is_behind) == (ticket, False)


def test_the_next_batch_is_the_turn_s_to_build() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entry(1)
    stand.store.write_pending()
    late = stand.entry(1)
    stand.turns = 0
    stand.syncer.step()
    assert stand.turns == 1
    assert late.message.position < 0  # not before the turn has dispatched


def test_whatever_gathers_first_asks_for_a_turn() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 2)
    assert stand.turns == 1
    stand.turn()
    stand.settle(1, entries[:1])  # an ack marks nothing else
    assert stand.turns == 1
    stand.settle(1, entries[1:])
    assert stand.turns == 1
    stand.turn()
    stand.queue(1).forget()
    assert stand.turns == 1


class TestLingering:
    """Settlements that nobody waits for are joined by others before they are written."""

    @pytest.fixture
    def stand(self) -> StoreStand:
        return StoreStand(linger_ms=5)

    def test_settlements_wait_for_their_time(self, stand: StoreStand) -> None:
        entries = stand.entries(1, 3)
        stand.turn()
        syncs = stand.syncs
        for entry in entries:
            stand.settle(1, [entry])
            stand.turn()
        assert stand.runs() == []
        assert [delay_s for delay_s, _ in stand.syncer.submitted] == [0.005]
        stand.syncer.step()
        stand.settle_down()
        assert stand.runs() == [(1, 0, 3)]
        assert stand.syncs == syncs + 1

    def test_a_second_pause_follows_the_first(self, stand: StoreStand) -> None:
        entries = stand.entries(1, 2)
        stand.turn()
        for entry in entries:
            stand.settle(1, [entry])
            stand.turn()
            assert len(stand.syncer.submitted) == 1
            stand.syncer.step()
            stand.settle_down()
        assert stand.runs() == [(1, 0, 1), (1, 1, 1)]

    def test_a_new_message_takes_them_along_at_once(self, stand: StoreStand) -> None:
        first, _ = stand.entries(1, 2)
        stand.turn()
        stand.settle(1, [first])
        stand.turn()
        stand.entry(2)
        stand.turn()
        assert stand.runs() == [(1, 0, 1)]
        stand.syncer.step()  # the pause comes to an end in which there is nothing
        stand.settle_down()
        assert not stand.syncer.submitted

    def test_who_waits_for_them_does_not_wait_longer(self, stand: StoreStand) -> None:
        first, _ = stand.entries(1, 2)
        stand.turn()
        stand.settle(1, [first])
        stand.turn()
        told: list[str] = []
        stand.store.when_durable(stand.store.ticket, lambda: told.append("durable"))
        stand.settle_down()
        assert told == ["durable"]
        assert stand.runs() == [(1, 0, 1)]

    def test_the_end_does_not_wait(self, stand: StoreStand) -> None:
        entries = stand.entries(1, 2)
        stand.turn()
        stand.settle(1, entries[:1])
        stand.turn()
        stand.store.close()
        assert stand.reopen().bodies(1) == [b"body"]
        assert stand.runs() == [(1, 0, 1)]

    def test_a_crash_brings_back_what_waited(self, stand: StoreStand) -> None:
        entries = stand.entries(1, 2)
        stand.turn()
        stand.acquire(1, entries)
        stand.turn()
        stand.settle(1, entries)
        stand.turn()
        stand.crash()
        again = stand.reopen()
        assert again.counts(1) == [1, 1]  # and as delivered before


# ------------------------------------------------------------------ who waits


def test_who_waits_is_called_once_when_the_batch_is_durable_and_never_from_within() -> None:
    stand = StoreStand(is_automatic=False)
    store = stand.store
    calls: list[str] = []
    stand.entry(1)
    store.when_durable(store.ticket, lambda: calls.append("first"))
    store.when_durable(store.ticket, lambda: calls.append("second"))
    assert calls == []
    store.write_pending()
    assert calls == []
    stand.syncer.step()
    assert calls == ["first", "second"]
    stand.turn()
    assert calls == ["first", "second"]


def test_a_ticket_with_nothing_in_it_is_durable_in_the_next_turn() -> None:
    stand = StoreStand()
    store = stand.store
    calls: list[int] = []
    store.when_durable(store.ticket, lambda: calls.append(1))
    assert stand.turns == 1  # and one is asked for
    assert calls == []
    written = stand.written_bytes
    store.write_pending()
    assert calls == [1]
    assert stand.written_bytes == written


def test_a_ticket_whose_entries_are_all_settled_is_durable_at_once() -> None:
    stand = StoreStand()
    ticket = stand.store.ticket
    entries = stand.entries(1, 3)
    stand.settle(1, entries)
    stand.store.write_pending()
    assert stand.store.durable_ticket == ticket
    assert stand.kinds(MESSAGE) == []


def test_a_ticket_that_is_durable_already_is_told_in_the_next_turn() -> None:
    stand = StoreStand()
    stand.entry(1)
    stand.turn()
    calls: list[int] = []
    stand.store.when_durable(stand.store.durable_ticket, lambda: calls.append(1))
    assert calls == []
    stand.store.write_pending()
    assert calls == [1]


def test_waiting_for_the_gathered_ticket_while_the_disk_is_busy_ends() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entry(1)
    stand.store.write_pending()
    calls: list[int] = []
    stand.store.when_durable(stand.store.ticket, lambda: calls.append(1))
    stand.settle_down()
    assert calls == [1]


def test_a_callback_may_add_and_wait_again() -> None:
    stand = StoreStand(is_automatic=False)
    store = stand.store
    calls: list[str] = []

    def again() -> None:
        calls.append("first")
        stand.entry(1)
        store.when_durable(store.ticket, lambda: calls.append("second"))

    stand.entry(1)
    store.when_durable(store.ticket, again)
    stand.turn()
    stand.settle_down()
    assert calls == ["first", "second"]


def test_an_idle_turn_writes_nothing() -> None:
    stand = StoreStand()
    before = stand.written_bytes
    for _ in range(5):
        stand.turn()
    assert stand.written_bytes == before


def test_publishers_pause_while_too_much_waits_for_the_disk() -> None:
    stand = StoreStand(is_automatic=False, segment_bytes=1 << 22)
    store = stand.store
    stand.entry(1)
    assert not store.write_pending()
    piece = BEHIND_BYTES // 8
    for _ in range(7):
        stand.entry(1, persistent(bytes(piece)))
        assert not store.write_pending()
    stand.entry(1, persistent(bytes(piece)))
    assert store.write_pending()
    assert store.is_behind
    stand.syncer.step()
    assert stand.turns  # the turn in which they may go on
    assert not store.write_pending()


# ------------------------------------------------------------------ sync and its rivals


def test_at_intervals_confirms_follow_the_write_and_a_sync_follows_in_time() -> None:
    stand = StoreStand(sync="interval", sync_interval_ms=250)
    ticket = stand.store.ticket
    stand.entry(1)
    before = stand.syncs
    stand.turn()
    assert stand.store.durable_ticket == ticket
    assert stand.syncs == before
    assert [delay_s for delay_s, _ in stand.syncer.submitted] == [0.25]
    stand.entry(1)
    stand.turn()
    assert len(stand.syncer.submitted) == 1  # one sync for all that was written meanwhile
    stand.syncer.step()
    assert stand.syncs == before + 1
    stand.crash()
    assert len(stand.reopen().bodies(1)) == 2


def test_at_intervals_a_failed_sync_is_final() -> None:
    stand = StoreStand(sync="interval")
    stand.entry(1)
    stand.turn()
    stand.forgetful.fail_next("sync", errno.EIO)
    stand.syncer.step()
    assert "sync failed" in stand.store.failure


def test_never_synced_confirms_follow_the_write() -> None:
    stand = StoreStand(sync="never")
    ticket = stand.store.ticket
    stand.entry(1)
    stand.turn()
    assert stand.store.durable_ticket == ticket
    assert stand.syncs == 0


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("name", ["write", "sync"])
def test_an_error_is_final_and_everybody_is_told(name: str) -> None:
    stand = StoreStand(is_automatic=False)
    store = stand.store
    kept = stand.entry(1, persistent(b"kept"))
    stand.turn()
    stand.settle_down()
    calls: list[str] = []
    store.on_refusal_changed.append(lambda: calls.append(f"refusal {bool(store.refusal)}"))
    ticket = store.ticket
    stand.entry(1)
    store.when_durable(ticket, lambda: calls.append("waiter"))
    stand.forgetful.fail_next(name, errno.EIO)
    store.write_pending()
    stand.entry(1)
    store.when_durable(store.ticket, lambda: calls.append("waiter of the next"))
    stand.settle_down()
    assert store.failure == f"{JOURNAL}/{1:016x}.log: {name} failed: Input/output error"
    assert stand.failures == [store.failure]
    assert store.refusal == store.failure
    assert calls == ["refusal True", "waiter", "waiter of the next"]
    assert store.durable_ticket < ticket

    # what goes on in memory leaves no trace here
    stand.settle(1, [kept])
    stand.entry(1)
    stand.acquire(1, stand.entries(1, 3))
    stand.turn()
    assert not stand.queue(1).is_gathered
    assert stand.queue(1).added == []
    store.when_durable(store.ticket, lambda: calls.append("later"))
    store.write_pending()
    assert calls[-1] == "later"
    store.close()
    assert stand.forgetful.open_files == 0


def test_after_a_failure_what_is_durable_can_still_be_read() -> None:
    stand = StoreStand()
    entry = stand.entry(1, persistent(b"kept"))
    stand.turn()
    stand.forgetful.fail_next("sync", errno.EIO)
    stand.syncer.is_automatic = False
    lost = stand.entry(1, persistent(b"lost"))
    stand.turn()
    assert stand.store.failure
    content_store = stand.store.content_store
    assert content_store is not None
    assert content_store.read(entry.message.position).body == b"kept"
    assert content_store.read(lost.message.position).body == b"lost"  # it is in memory
    stand.crash()
    assert stand.reopen().bodies(1) == [b"kept"]


def test_no_room_to_write_refuses_new_messages_and_the_batch_waits_for_room() -> None:
    stand = StoreStand(segment_bytes=4096)
    store, files = stand.store, stand.forgetful
    files.fail_when(lambda each: errno.ENOSPC if each.name == "write" else None)
    ticket = store.ticket
    stand.entry(1, persistent(b"waits"))
    stand.turn()
    assert stand.alarms == [True]
    assert "no room on disk" in store.refusal
    assert not store.failure
    assert store.durable_ticket < ticket
    stand.syncer.step()  # tries again, in vain
    assert store.durable_ticket < ticket
    files.heal()
    for _ in range(3):
        stand.syncer.step()
    assert store.durable_ticket == ticket
    assert (store.refusal, stand.alarms) == ("", [True, False])
    stand.crash()
    assert stand.reopen().bodies(1) == [b"waits"]


def test_a_stop_without_room_does_not_hang() -> None:
    stand = StoreStand(segment_bytes=4096)
    stand.entry(1, persistent(b"durable"))
    stand.turn()
    stand.forgetful.fail_when(lambda each: errno.ENOSPC if each.name == "write" else None)
    stand.entry(1, persistent(b"never"))
    stand.store.close()
    assert stand.kinds(CLEAN) == []
    stand.forgetful.heal()
    stand.crash()
    assert stand.reopen().bodies(1) == [b"durable"]


def test_a_directory_that_cannot_be_had_is_a_failure_that_says_so() -> None:
    files = ForgetfulFiles()
    files.fail_next("sync_directory", errno.EACCES)
    stand = StoreStand(files)
    assert stand.store.failure == f"{JOURNAL}: Permission denied"


# ------------------------------------------------------------------ the end


def test_an_orderly_end_keeps_everything_and_says_that_it_was_one() -> None:
    stand = StoreStand()
    stand.entry(1, persistent(b"in the journal"))
    stand.turn()
    stand.entry(1, persistent(b"gathered"))
    stand.store.close()
    assert len(stand.kinds(CLEAN)) == 1
    assert stand.forgetful.open_files == 0
    stand.crash()
    again = stand.reopen()
    assert again.bodies(1) == [b"in the journal", b"gathered"]
    assert again.counts(1) == [0, 0]


def test_closing_twice_is_closing_once() -> None:
    stand = StoreStand()
    stand.store.close()
    stand.store.close()
    assert len(stand.kinds(CLEAN)) == 1


def test_a_store_goes_on_after_many_restarts() -> None:
    stand: StoreStand = StoreStand(segment_bytes=8192)
    expected: list[bytes] = []
    for index in range(20):
        body = b"%d" % index
        stand.entry(1, persistent(body))
        expected.append(body)
        stand.turn()
        if index % 2:
            stand.store.close()
        else:
            stand.crash()
        again = stand.reopen()
        assert again.bodies(1) == expected
        stand = again
    assert stand.segment_count <= 21  # a message each, and none is worth moving


def test_with_a_thread_everything_is_as_with_steps() -> None:
    files = ForgetfulFiles()
    files.make_directory("/data")
    calls: Queue[Callable[[], None]] = Queue()
    store = DurableStore(JOURNAL, SPOOL, files=files, syncer=ThreadSyncer(calls.put))
    store.start(RecoveredState())
    ledger = store.open_queue(1, "q")
    told: list[int] = []
    for offset in range(100):
        ledger.add(FakeEntry(persistent(b"%d" % offset), offset))
        store.when_durable(store.ticket, lambda: told.append(1))
        store.write_pending()
        while not calls.empty():
            calls.get()()
    store.close()
    assert store.durable_ticket == store.ticket - 1
    assert len(told) == 100
    files.crash()
    stand = Reopened(files, (1,), {})
    assert stand.bodies(1) == [b"%d" % offset for offset in range(100)]


# ------------------------------------------------------------------ retention


def test_with_retention_freed_segments_are_kept() -> None:
    stand = StoreStand(segment_bytes=4096, retention_age_s=3600)
    for _ in range(10):
        stand.settle(1, stand.entries(1, 10, bytes(100)))
        stand.turn()
    assert stand.kinds(FREE) != []
    assert len(stand.files.list(f"{JOURNAL}/retained")) == stand.store.freed_segments > 2
    stand.crash()
    assert stand.reopen().bodies(1) == []


# ------------------------------------------------------------------ the spool


def test_the_spool_is_erased_at_start_and_its_messages_come_back_as_they_were() -> None:
    stand = StoreStand()
    content_store = stand.store.content_store
    assert content_store is not None
    transient, kept = make_message(b"transient"), persistent(b"persistent")
    positions = [content_store.spool(transient), content_store.spool(kept)]
    read = content_store.read_run(positions)
    assert [message.body for message in read] == [b"transient", b"persistent"]
    assert [message.position for message in read] == [TRANSIENT, kept.position]
    stand.store.close()
    again = stand.reopen().store.content_store
    assert again is not None
    with pytest.raises(StoreError, match="nothing was spooled"):
        again.read(positions[0])


def test_what_only_the_system_had_is_durable_before_anything_is_built_on_it() -> None:
    """Killed between a write and its sync, started again; then the power fails."""
    stand = StoreStand()
    stand.forgetful.fail_next("sync", errno.EIO)
    stand.entry(1, persistent(b"written, and not synced"))
    stand.turn()
    assert stand.store.failure
    again = stand.reopen()
    assert again.bodies(1) == [b"written, and not synced"]
    for _ in range(3):
        again.entry(2)
        again.turn()
    again.crash()
    assert again.reopen().bodies(1) == [b"written, and not synced"]


@pytest.mark.pure("replaces a method, which compiled code calls directly")
def test_a_bug_where_a_batch_is_made_is_a_failure_and_not_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = StoreStand()
    told: list[str] = []

    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(BatchBuilder, "build", broken)
    stand.store.when_durable(stand.store.ticket, lambda: told.append("told"))
    stand.entry(1)
    stand.turn()
    assert stand.failures == [stand.store.failure]
    assert stand.store.failure.startswith("no batch could be made: KeyError('a bug') in broken")
    assert told == ["told"]
    assert stand.store.refusal


def test_a_bug_in_the_thread_is_a_failure() -> None:
    stand = StoreStand()

    class Broken(Work):
        def run(self) -> None:
            raise KeyError("a bug")

        def finished(self) -> None:
            pass

    stand.syncer.submit(Broken())
    assert stand.store.failure.startswith("Broken: KeyError('a bug')")


def test_a_disk_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = StoreStand()
    monkeypatch.setattr(InlineSyncer, "drain", lambda syncer, until_s: False)
    stand.store.close(0.0)
    assert stand.store.is_hung
    assert stand.reports == [
        "the disk does not answer; what it has not taken is lost as in a crash"
    ]
