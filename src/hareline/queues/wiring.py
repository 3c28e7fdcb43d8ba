"""Calls of a queue for each entry, made of its parts: the one place that knows both.

``Queue`` calls ``wire`` when it is made and whenever a part comes or goes, and keeps what comes
back. A queue that does nothing with its entries but keep them in order gets the ordering's own
``add`` and no listeners, so it pays for nothing; each part that is there adds one call.       [hot]

=================  =========================  ================================================
part               a new entry                an entry that has left
=================  =========================  ================================================
ordering           is added                   (the ordering itself let go of it)
paging             is watched, where no page
                   can take it                -
last values        takes the place of an      its key is forgotten
                   older one
ledger             is added to the store      is settled there, or when its dead letter is out
overflow           needs admission            makes room
expiry, for all    needs admission            -
hold               needs admission, if it
                   holds new entries          -
browsers           need admission             -
unused             needs admission, if it
                   empties the queue          -
deduplication      needs admission            frees its id, unless that is in a cache
lane               needs admission, if it     frees its group, if it wants departures
                   wants new entries
=================  =========================  ================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hareline.message import UNWRITTEN
from hareline.queues.books import Listener, QueueBooks, Wires
from hareline.queues.core.entry import QueueEntry, RankedEntry
from hareline.queues.core.kinds import KEEPS_ALL
from hareline.queues.orders.last_values import LastValues, RetainedValues
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies.deduplication import IdsInQueue
from hareline.storage.interface import QueueLedger


def wire(queue: QueueBooks) -> Wires:
    """Return the calls of a queue with the parts that it has now."""
    order, lane, browsers = queue.order, queue.lane, queue.browsers
    expiry, overflow, paging = queue.expiry, queue.overflow, queue.paging
    last_values, ledger = queue.last_values, queue.ledger
    purges = queue.unused is not None and queue.unused.purges
    ids = queue.deduplication
    ids_in_queue = ids if isinstance(ids, IdsInQueue) else None
    needs_admission = (
        (expiry is not None and expiry.concerns_all)
        or (queue.hold is not None and bool(queue.hold.headers))
        or ids is not None
        or overflow is not None
        or lane.wants_new_entries
        or browsers is not None
        or purges
    )
    insert: Callable[[Any], None] = order.add
    insert_run: Callable[[list[Any]], None] = order.add_run
    if paging is not None and paging.add is not None:
        insert = paging.add
        insert_run = _Each(insert).call
    if last_values is not None:
        clears = isinstance(last_values, RetainedValues)
        insert = (_Clearing if clears else _Replacing)(queue, last_values, insert).insert
        insert_run = _Each(insert).call
    on_left = _all_of(
        None if last_values is None else last_values.forget,
        None if ids_in_queue is None else ids_in_queue.forget,
        lane.on_departed if lane.wants_departures else None,
        None if overflow is None else overflow.on_departed,
    )
    append, append_run, on_departed = insert, insert_run, on_left
    if ledger is not None:
        keeping = _Keeping(ledger, insert, insert_run, keeps_all=queue.keeps == KEEPS_ALL)
        append, append_run = keeping.append, keeping.append_run
        on_departed = _all_of(on_left, ledger.settle)
    entry_class = queue.entry_class
    if needs_admission or on_left is not None:
        entry_class = RankedEntry
    return Wires(
        insert,
        append,
        append_run,
        on_left,
        on_departed,
        entry_class,
        needs_admission=needs_admission,
        has_entries_to_itself=(
            browsers is None
            and last_values is None
            and ids_in_queue is None
            and not lane.keeps_entries
        ),
    )


def wire_deleted(order: EntryOrder, entry_class: type[QueueEntry]) -> Wires:
    """Return the calls of a deleted queue: none refers to it, so that it is freed at once."""
    return Wires(
        order.add,
        order.add,
        order.add_run,
        None,
        None,
        entry_class,
        needs_admission=False,
        has_entries_to_itself=True,
    )


def keep(entry: QueueEntry, ledger: QueueLedger) -> None:
    """Have the store keep a new entry, and its message with it."""
    if entry.message.position != UNWRITTEN:  # transient, or known to the store as another's
        entry.message = entry.message.unwritten()
    ledger.add(entry)


class _Keeping:
    """Adds an entry to the store, if its queue keeps it, and then to the ordering."""

    __slots__ = ("_insert", "_insert_run", "_keeps_all", "_ledger")

    def __init__(
        self,
        ledger: QueueLedger,
        insert: Callable[[Any], None],
        insert_run: Callable[[list[Any]], None],
        *,
        keeps_all: bool,
    ) -> None:
        self._ledger = ledger
        self._insert = insert
        self._insert_run = insert_run
        self._keeps_all = keeps_all

    def append(self, entry: QueueEntry) -> None:
        if entry.message.position or self._keeps_all:
            keep(entry, self._ledger)
        self._insert(entry)

    def append_run(self, entries: list[QueueEntry]) -> None:
        """Do the same for entries that came together, with one call of the store for all."""
        keeps_all = self._keeps_all
        has_transient = False
        for entry in entries:
            position = entry.message.position
            if position == UNWRITTEN:
                continue
            if position or keeps_all:
                entry.message = entry.message.unwritten()
            else:
                has_transient = True
        if has_transient:
            self._ledger.add_run([entry for entry in entries if entry.message.position])
        else:
            self._ledger.add_run(entries)
        self._insert_run(entries)


class _Replacing:
    """Lets an entry take the place of the older one with its key."""

    __slots__ = ("_insert", "_last_values", "_queue")

    def __init__(
        self, queue: QueueBooks, last_values: LastValues, insert: Callable[[Any], None]
    ) -> None:
        self._queue = queue
        self._last_values = last_values
        self._insert = insert

    def insert(self, entry: RankedEntry) -> None:
        """The older one leaves last: a dead letter of it may come to this very queue."""
        replaced = self._last_values.replaced_by(entry)
        self._insert(entry)
        if replaced is not None:
            self._queue.drop([replaced], "replaced")


class _Clearing(_Replacing):
    """Lets an entry without a body take the older one with its key along, and leave at once."""

    __slots__ = ()

    def insert(self, entry: RankedEntry) -> None:
        _Replacing.insert(self, entry)
        if not entry.message.size:
            self._queue.drop([entry], "replaced")


class _Each:
    """Calls a function for each entry of a run."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Any], None]) -> None:
        self._function = function

    def call(self, entries: list[Any]) -> None:
        function = self._function
        for entry in entries:
            function(entry)


class _Both:
    """Calls two listeners, in this order."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Listener, second: Listener) -> None:
        self._first = first
        self._second = second

    def call(self, entry: QueueEntry) -> None:
        self._first(entry)
        self._second(entry)


def _all_of(*listeners: Listener | None) -> Listener | None:
    """One call for all listeners that are there; None if there are none."""
    combined: Listener | None = None
    for listener in listeners:
        if combined is None:
            combined = listener
        elif listener is not None:
            combined = _Both(combined, listener).call
    return combined
