"""The definitions' file: read at once, changed by transactions in a thread, one at a time.

After ``gather`` changes gather while the transaction before them is written, so a slow disk or a
lock stops no loop; before, each is durable when the call returns. A lost transaction loses what has
gathered behind it: all is undone in reverse, and deletions are made with the next one.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import Any, Final

from hareline.errors import StoreError
from hareline.storage.definitions.schema import (
    open_database,
    open_for_reading,
    store_errors,
    transaction,
)
from hareline.storage.journal.syncer import Syncer, Work, bug_text

Name = tuple[str, str]  # of a virtual host, and of a queue or an exchange there
Operation = Callable[[sqlite3.Connection], object]

_NO_QUEUES: Final[Set[int]] = frozenset()


def statement(sql: str, parameters: Sequence[object] = ()) -> Operation:
    """Return the operation that executes this."""
    return lambda connection: connection.execute(sql, parameters)


class DefinitionTransaction(Work):
    """Changes that become durable together. ``error``: why they are not; None: they are."""

    __slots__ = (
        "_connection",
        "_on_finished",
        "_path",
        "added",
        "deleted",
        "error",
        "names",
        "operations",
        "removals",
        "undo",
        "waiting",
    )

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        on_finished: Callable[[DefinitionTransaction], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._on_finished = on_finished
        self.error: StoreError | None = StoreError(f"{path}: not written")
        self.operations: list[Operation] = []
        self.removals: list[Operation] = []  # those among them that delete
        self.names: set[Name] = set()  # whose changes they are
        self.added: set[int] = set()  # ids of queues
        self.deleted: set[int] = set()
        self.undo: list[Callable[[StoreError], None]] = []
        self.waiting: dict[Callable[[StoreError | None], None], None] = {}

    def run(self) -> None:
        try:
            with transaction(self._connection, self._path) as connection:
                for operation in self.operations:
                    operation(connection)
            self.error = None
        except StoreError as error:
            self.error = error

    def finished(self) -> None:
        self._on_finished(self)


class DefinitionFile:
    """One open file; every method raises StoreError, which names its ``path``.

    What is read comes from a connection of its own, which sees what is durable and waits for no
    change.
    """

    __slots__ = (
        "_ask_for_turn",
        "_connection",
        "_gathered",
        "_lost_removals",
        "_reading",
        "_syncer",
        "_writing",
        "path",
    )

    def __init__(self, path: Path, *, may_create: bool = True) -> None:
        """Open the file, and fill it if it is empty or missing; its directory must exist.

        Raises DefinitionsMissing for an empty or missing file unless ``may_create``.
        """
        self.path = path
        self._connection = open_database(path, may_create=may_create)
        try:
            self._reading = open_for_reading(path)
        except BaseException:
            self._connection.close()
            raise
        self._syncer: Syncer | None = None
        self._ask_for_turn: Callable[[], object] = int  # asks nobody
        self._gathered: DefinitionTransaction | None = None
        self._writing: DefinitionTransaction | None = None
        self._lost_removals: list[Operation] = []

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with store_errors(self.path):
            return self._reading.execute(sql, parameters).fetchall()

    def close(self) -> None:
        """Write what has gathered, and bring the write-ahead log into the file."""
        self.drain()
        with store_errors(self.path):
            self._reading.close()
            self._connection.close()

    def gather(self, syncer: Syncer, ask_for_turn: Callable[[], object]) -> None:
        """Let changes wait for ``commit`` from now on; asks for the turn that calls it.

        ``syncer``: where they are written.
        """
        self._syncer = syncer
        self._ask_for_turn = ask_for_turn

    def added_queues(self) -> Set[int]:
        """Return the ids of queues that were added, but not durably so far."""
        gathered, writing = self._gathered, self._writing
        if gathered is None:
            return _NO_QUEUES if writing is None else writing.added
        return gathered.added if writing is None else gathered.added | writing.added

    def is_deleting(self, queue_id: int) -> bool:
        """True for a queue that was deleted, but not durably so far."""
        return any(
            each is not None and queue_id in each.deleted
            for each in (self._gathered, self._writing)
        )

    def change(
        self,
        *operations: Operation,
        names: Iterable[Name] = (),
        queue_id: int = 0,
        is_removal: bool = False,
    ) -> None:
        """Make these operations in one transaction. Raises StoreError if nothing gathers.

        ``names``: of what is changed. ``queue_id``: of the queue that is added or deleted with it.
        """
        if self._syncer is None:
            with transaction(self._connection, self.path) as connection:
                for operation in operations:
                    operation(connection)
            return
        gathered = self._gathered
        if gathered is None:
            gathered = DefinitionTransaction(self._connection, self.path, self._on_finished)
            self._gathered = gathered
            self._ask_for_turn()
        gathered.operations += operations
        gathered.names.update(names)
        if is_removal:
            gathered.removals += operations
        if queue_id:
            (gathered.deleted if is_removal else gathered.added).add(queue_id)

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        """See ``DefinitionStore.undo_if_lost``."""
        latest = self._gathered or self._writing
        if latest is not None:
            latest.undo.append(undo)

    def when_settled(
        self, callback: Callable[[StoreError | None], None], vhost: str = "", *names: str
    ) -> bool:
        """See ``DefinitionStore.when_settled``."""
        for latest in (self._gathered, self._writing):
            if latest is not None and (
                not names or any((vhost, name) in latest.names for name in names)
            ):
                is_new = callback not in latest.waiting
                latest.waiting[callback] = None
                return is_new
        return False

    def commit(self) -> None:
        """Hand over what has gathered, unless the transaction before it is still being written."""
        gathered = self._gathered
        if gathered is None or self._writing is not None:
            return
        assert self._syncer is not None
        removals, self._lost_removals = self._lost_removals, []
        gathered.operations[:0] = removals
        gathered.removals[:0] = removals
        self._writing, self._gathered = gathered, None
        self._syncer.submit(gathered)

    def drain(self, until_s: float = math.inf) -> bool:
        """Stop until all changes are durable or lost.

        ``until_s``: on the monotonic clock. False if it has passed: the disk hangs.
        """
        while self._gathered is not None or self._writing is not None:
            assert self._syncer is not None
            self.commit()
            if not self._syncer.drain(until_s):
                return False
        return True

    def _on_finished(self, written: DefinitionTransaction) -> None:
        self._writing = None
        if written.error is None:
            for callback in written.waiting:
                self._call(callback, None)
        else:
            self._lose(written, written.error)
        self._ask_for_turn()  # the journal may have waited for these queues

    def _lose(self, written: DefinitionTransaction, error: StoreError) -> None:
        """Undo this transaction and what has gathered behind it."""
        gathered, self._gathered = self._gathered, None
        lost = [written] if gathered is None else [written, gathered]
        self._lost_removals += [removal for each in lost for removal in each.removals]
        for each in reversed(lost):
            for undo in reversed(each.undo):
                self._call(undo, error)
        for each in lost:
            for callback in each.waiting:
                self._call(callback, error)

    def _call(self, callback: Callable[[Any], None], error: StoreError | None) -> None:
        """A bug in one of them must not leave the others waiting."""
        assert self._syncer is not None
        try:
            callback(error)
        except Exception as bug:
            self._syncer.on_bug(bug_text("a callback of the definitions", bug))
