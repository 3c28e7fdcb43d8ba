"""The queue model over queues whose contents leave memory all the time, for every ordering.

Windows and pages are tiny, so that nearly every entry has been on disk before it is delivered; what
may leave memory is decided by what is durable, by the mark of the broker's memory, or by a limit.
"""

from __future__ import annotations

from array import array
from typing import Any, ClassVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hareline.broker.restoring import end_paged, restore_paged, takes_pages
from hareline.message import TRANSIENT, UNWRITTEN, ContentSource, Message, StoredMessage
from hareline.queues.books import QueueBooks, Wires
from hareline.queues.core import pages
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import SETTLED
from hareline.queues.core.start_position import STREAM_OFFSET
from hareline.queues.orders import fifo, log_columns, log_order, log_pages, read_back
from hareline.queues.orders import window as paging
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.window import set_spooling
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from hareline.storage.interface import MessageStore
from tests.support.content_stores import PagedLedger, PagedQueue, PagingStore
from tests.support.examples import examples
from tests.support.turns import ManualTurn

from .orderings import ORDERINGS, Ordering
from .test_policies_model import ORDERS, PoliciesModel
from .test_queue_model import QueueModel
from .test_reading_model import QUEUES, ReadingModel
from .test_selective_model import CHOSEN, GROUP_TYPES, GroupType, SelectiveModel

SMALL: dict[str, int] = {
    "WINDOW_ENTRIES": 4,
    "WINDOW_BYTES": 300,
    "DEEP_FROM": 1,
    "PRESSED_SHARE": 2,
    "STEP_ENTRIES": 8,
    "STEP_SPOOLED_BYTES": 200,
}

SMALL_LOG: dict[str, int] = {
    "LOG_PAGE_ENTRIES": 5,
    "FILLED_AT_ONCE": 2,
    "PEEKED": 2,
    "LOOKED_AT": 3,
}


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Everything that has a size is reached all the time."""
    for name, value in SMALL.items():
        patch.setattr(paging, name, value)
    patch.setattr(read_back, "RECENT_BYTES", 100)
    patch.setattr(fifo, "DEAD_ALLOWED", 2)
    for name, value in SMALL_LOG.items():
        patch.setattr(log_pages, name, value)
    patch.setattr(log_columns, "LOG_PAGE_ENTRIES", 5)
    patch.setattr(log_columns, "RECENT_BYTES", 4000)
    patch.setattr(log_order, "POSITIONS_AT_ONCE", 7)
    for module in (pages, fifo, log_order, paging):
        patch.setattr(module, "PAGE_ENTRIES", 3)
    for module in (pages, paging):
        patch.setattr(module, "PAGE_BYTES", 200)


class CountedMessage(StoredMessage):
    """``living`` has where each of those is stored that are spooled."""

    living: ClassVar[set[int]] = set()

    def __init__(
        self, message: Message, source: ContentSource, stored_at: int, *, is_spooled: bool = False
    ) -> None:
        super().__init__(message, source, stored_at, is_spooled=is_spooled)
        self.owners = self.living if is_spooled else set()  # those of its own test case
        self.owners.add(stored_at)

    def __del__(self) -> None:
        self.owners.remove(self.stored_at)


class PagedModel(QueueModel):
    """``kind``: "durable", "mixed" (every third message is transient), or "transient"."""

    kind: str

    def make_queue(self) -> tuple[ManualTurn, Queue]:
        make_small(self.patch)
        CountedMessage.living = set()
        self.patch.setattr(paging, "StoredMessage", CountedMessage)
        self.paged = PagedQueue(self.ordering.make(), is_durable=self.kind != "transient")
        return self.paged.turn, self.paged.queue

    def is_persistent(self, number: int) -> bool:
        return self.kind == "durable" or (self.kind == "mixed" and number % 3 > 0)

    @rule()
    def disk_has_written(self) -> None:
        self.paged.store.sync()

    @rule(is_high=st.booleans())
    def memory_mark_is_passed(self, is_high: bool) -> None:
        set_spooling(self.paged.environment, [self.queue], is_high)

    @rule()
    def look_at_everything(self) -> None:
        bodies = [entry.message.body for entry in self.queue.lane.ready_entries()]
        assert bodies == self.ready

    @rule()
    def drop_the_least(self) -> None:
        least = self.queue.lane.least()
        if least is None:
            assert not self.ready
            return
        body = least.message.body
        self.queue.drop([least], "maxlen")
        self.ready.remove(body)
        self.gone += 1

    def teardown(self) -> None:
        if not hasattr(self, "paged"):
            return
        for consumer in self.consumers + self.cancelled:
            consumer.unacked.clear()
        self.got.clear()
        unacked = self.queue.unacked_count
        assert self.queue.purge() == len(self.ready)
        if self.paged.ledger is not None:
            assert len(self.paged.ledger.living) <= unacked
        self.queue.delete()
        # what somebody still looks at (the reports of hypothesis do) is dropped when he is done
        assert set(self.paged.content_store.spooled) == CountedMessage.living
        super().teardown()


def machine_of(chosen: Ordering, chosen_kind: str) -> type[PagedModel]:
    class Machine(PagedModel):
        ordering = chosen
        kind = chosen_kind

    return Machine


@pytest.mark.row("C4", "C8")
@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["durable", "mixed", "transient"])
@pytest.mark.parametrize("chosen", ORDERINGS, ids=str)
def test_a_queue_on_disk_behaves_like_one_in_memory(chosen: Ordering, kind: str) -> None:
    run_state_machine_as_test(machine_of(chosen, kind))


class FlowToDiskModel(PagedModel):
    """Transient messages behind the limits of the queue, whatever memory there is."""

    kind = "transient"
    counts_unacked: bool

    def make_queue(self) -> tuple[ManualTurn, Queue]:
        made: Any = super().make_queue()
        self.queue = made[1]
        self.queue.overflow = Overflow(
            self.queue,
            self.paged.environment,
            max_length=3,
            max_length_bytes=150,
            policy="flow-to-disk",
            counts_unacked=self.counts_unacked,
        )
        self.queue.install()
        return made[0], made[1]

    def take_in(self, message: Message) -> None:
        assert self.queue.put(message)

    def teardown(self) -> None:
        if hasattr(self, "paged"):
            overflow = self.queue.overflow
            assert overflow is not None
            entries = self.queue.acquire(len(self.ready))
            for entry in entries:
                self.queue.settle(entry)
            self.ready.clear()
            for consumer in self.consumers + self.cancelled:
                for entry in consumer.unacked:
                    self.queue.settle(entry)
            for entry in self.got:
                self.queue.settle(entry)
            assert all(entry.state == SETTLED for entry in entries)
            assert (overflow.depth_count, overflow.depth_bytes) == (0, 0)
        super().teardown()


@pytest.mark.row("A24")
@pytest.mark.hypothesis
@pytest.mark.parametrize("counts", [False, True], ids=["rabbitmq", "qpid"])
@pytest.mark.parametrize("chosen", ORDERINGS, ids=str)
def test_flow_to_disk_keeps_order_and_books(chosen: Ordering, counts: bool) -> None:
    class Machine(FlowToDiskModel):
        ordering = chosen
        counts_unacked = counts

    run_state_machine_as_test(Machine)


# ------------------------------------------------------ the other models, over the same disk


CONNECT = QueueBooks._connect


def connect_shared(books: QueueBooks, wires: Wires) -> None:
    """As a queue with browsers is wired: its entries are not the ordering's alone."""
    CONNECT(books, wires._replace(has_entries_to_itself=False))


class SharedQueue(Queue):
    """A queue that is wired so."""

    def _connect(self, wires: Wires) -> None:
        connect_shared(self, wires)


class PagedSelectiveModel(SelectiveModel):
    """Groups and selectors. The model goes by the identity of entries, so they all stay, and only
    the contents of their messages leave."""

    is_kept: bool

    def make_queue(self) -> Queue:
        make_small(self.patch)
        self.paged = PagedQueue(
            self.order, is_durable=self.is_kept, keeps_all=True, make_queue=SharedQueue
        )
        self.turn = self.paged.turn
        if not self.is_kept:
            set_spooling(self.paged.environment, [], True)
        return self.paged.queue

    def prepare(self, message: Message) -> None:
        message.position = UNWRITTEN if self.is_kept else TRANSIENT

    @rule()
    def disk_has_written(self) -> None:
        self.paged.store.sync()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kept", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("grouped", GROUP_TYPES, ids=str)
@pytest.mark.parametrize("chosen", [o for o in ORDERINGS if str(o) in CHOSEN], ids=str)
def test_a_selective_queue_on_disk_behaves_like_one_in_memory(
    chosen: Ordering, grouped: GroupType, kept: bool
) -> None:
    class Machine(PagedSelectiveModel):
        ordering = chosen
        group_type = grouped
        live_limit = 0
        is_kept = kept

    run_shortly(Machine)


class PagedReadingModel(ReadingModel):
    """Readers and browsers; what they come to is read for them, or is in memory."""

    is_kept: bool
    store: PagingStore

    def make_store(self) -> MessageStore:
        make_small(self.patch)
        store = PagingStore(keeps_all=True)
        self.turn.write_pending = store.write_pending
        self.sent: dict[int, bytes] = {}
        return store

    def prepare(self, message: Message) -> None:
        self.queue.environment.pressure.is_high = not self.is_kept  # type: ignore[union-attr]
        message.position = UNWRITTEN if self.is_kept else TRANSIENT
        assert self.queue.next_offset not in self.sent, "an offset is never given again"
        self.sent[self.queue.next_offset] = message.body

    @rule()
    def disk_has_written(self) -> None:
        self.store.sync()

    @precondition(
        lambda self: (
            self.is_kept and isinstance(self.queue.order, LogOrder) and takes_pages(self.queue)
        )
    )
    @rule()
    def restart(self) -> None:
        """What is durable comes back as numbers, and readers come again."""
        self.turn.run()
        self.store.sync()
        self.turn.run()
        entries = self.queue.lane.ready_entries()
        living = cast("PagedLedger", self.queue.ledger).living
        assert list(living) == [entry.offset for entry in entries]
        next_offset, self.queue, self.readers = self.queue.next_offset, self.declare(), []
        self.shared = CreditWindow()
        self.queue.count_revived(next_offset - 1)
        cast("PagedLedger", self.queue.ledger).living = living
        sizes = array("I", [entry.message.size for entry in entries])
        restore_paged(
            self.queue,
            array("Q", living),
            array("Q", living.values()),
            sum(sizes),
            sizes=sizes,
        )
        end_paged(self.queue)
        self.turn.run()

    @invariant()
    def every_entry_is_what_was_published(self) -> None:
        for entry in self.queue.lane.ready_entries() if hasattr(self, "queue") else ():
            assert entry.message.body == self.sent[entry.offset]
            if not self.is_browsed:
                assert entry.message.header(STREAM_OFFSET) == entry.offset

    @invariant()
    def a_log_says_where_everything_is(self) -> None:
        log = self.queue.order if hasattr(self, "queue") else None
        if not isinstance(log, LogOrder):
            return
        entries = self.queue.lane.ready_entries()
        offsets = [entry.offset for entry in entries]
        assert log.first_offset == min(offsets, default=None)
        assert log.last_offset == max(offsets, default=None)
        found: dict[int, int] = {}
        start = 3
        while (columns := log.positions(start, self.queue.next_offset - 1))[0]:
            found.update(zip(*columns, strict=True))
            start = columns[0][-1] + 1
        assert found == {
            entry.offset: max(0, entry.message.position)
            for entry in entries
            if 3 <= entry.offset < self.queue.next_offset - 1
        }


@pytest.mark.hypothesis
@pytest.mark.parametrize("kept", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("name", QUEUES)
def test_readers_of_a_disk_agree_with_the_model(name: str, kept: bool) -> None:
    class Machine(PagedReadingModel):
        arguments = QUEUES[name]
        is_kept = kept

    run_state_machine_as_test(Machine)


class PagedPoliciesModel(PoliciesModel):
    """Everything that a queue can do besides, where contents have left memory."""

    is_kept: bool

    def make_store(self) -> MessageStore:
        make_small(self.patch)
        self.patch.setattr(QueueBooks, "_connect", connect_shared)
        self.store = PagingStore(keeps_all=True)
        self.turn.write_pending = self.store.write_pending
        return self.store

    def keep(self, made: Queue) -> None:
        assert made.environment is not None
        made.environment.pressure.is_high = not self.is_kept
        if self.is_kept:
            made.install(ledger=self.store.open_queue(1, made.name))

    def prepare(self, message: Message) -> None:
        message.position = UNWRITTEN if self.is_kept else TRANSIENT

    @rule()
    def disk_has_written(self) -> None:
        self.store.sync()


@pytest.mark.hypothesis
@pytest.mark.pure("writes down each entry where its queue makes it")
@pytest.mark.parametrize("kept", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("chosen", [one for one in ORDERINGS if str(one) in ORDERS], ids=str)
def test_policies_go_together_on_disk(chosen: Ordering, kept: bool) -> None:
    class Machine(PagedPoliciesModel):
        ordering = chosen
        is_kept = kept

    run_shortly(Machine)


def run_shortly(machine: type[RuleBasedStateMachine]) -> None:
    """Each example is a long one."""
    long = settings(max_examples=examples(0.25), stateful_step_count=40)
    run_state_machine_as_test(machine, settings=long)
