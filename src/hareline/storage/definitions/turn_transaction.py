"""One SQLite transaction for all changes of a turn, and what follows when it is lost.

Used by ``definitions.sqlite`` and ``definitions.hosts`` for every change. After ``gather`` the
changes of a turn gather in one transaction, which ``commit`` makes durable before any client has a
reply and before the journal gets what the turn has brought: a sync takes milliseconds, and a client
may send thousands of changes at once. Without ``gather`` each change is a transaction, durable when
the call returns (write-ahead log, synchronous FULL).

========================  =======================================================================
what goes wrong           what follows
========================  =======================================================================
a change cannot be made   it alone raises StoreError; those before it stay gathered
SQLite gives up the       so does every later one until ``commit``, which finds them lost
transaction at a change
the commit fails          all changes of the turn are undone, in reverse, then waiting callbacks
                          run; deletions are not undone, but made with the next change
========================  =======================================================================
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hareline.errors import StoreError
from hareline.storage.definitions.encoding import StoredName
from hareline.storage.definitions.schema import store_errors, transaction

Key = tuple[StoredName, StoredName]  # virtual host and name
Removal = tuple[Callable[[sqlite3.Connection, Key], None], Key]


class TurnTransaction:
    """The changes of a turn. Every method raises StoreError, which names the file.

    ``has_gathered``: there are changes that wait for ``commit``. ``on_lost`` is called when a
    commit has failed, before anything is undone.
    """

    __slots__ = (
        "_ask_for_turn",
        "_connection",
        "_failure",
        "_on_lost",
        "_path",
        "_removals",
        "_undo",
        "_waiting",
        "has_gathered",
    )

    def __init__(
        self, connection: sqlite3.Connection, path: Path, on_lost: Callable[[], None]
    ) -> None:
        """``path``: of the database, for error texts."""
        self._connection = connection
        self._path = path
        self._on_lost = on_lost
        self._ask_for_turn: Callable[[], None] | None = None
        self.has_gathered = False
        self._failure = ""  # why what has gathered is lost already
        self._removals: list[Removal] = []  # of this transaction, and those that were lost
        self._undo: list[Callable[[StoreError], None]] = []
        self._waiting: dict[Callable[[StoreError], None], None] = {}

    def gather(self, ask_for_turn: Callable[[], None]) -> None:
        """Let changes wait for ``commit`` from now on; asks for the turn that calls it."""
        self._ask_for_turn = ask_for_turn

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        """See ``DefinitionStore.undo_if_lost``."""
        if self.has_gathered:
            self._undo.append(undo)

    def tell_if_lost(self, callback: Callable[[StoreError], None]) -> None:
        """See ``DefinitionStore.tell_if_lost``."""
        if self.has_gathered:
            self._waiting[callback] = None

    def commit(self) -> None:
        """Make durable what has gathered; if that fails, undo it and run waiting callbacks."""
        if not self.has_gathered:
            return
        failure, self._failure = self._failure, ""
        undo, self._undo = self._undo, []
        waiting, self._waiting = self._waiting, {}
        self.has_gathered = False
        try:
            if not self._connection.in_transaction:
                raise StoreError(failure)
            with store_errors(self._path):
                self._connection.execute("COMMIT")
            self._removals.clear()
        except StoreError as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._on_lost()
            for call in (*reversed(undo), *waiting):
                call(error)
            self.commit()  # the callbacks may have closed connections and deleted queues

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Make everything in the block or nothing: durable at its end, or with ``commit``."""
        if self._ask_for_turn is None:
            with transaction(self._connection, self._path) as connection:
                yield connection
            return
        connection = self._connection
        if self.has_gathered and not connection.in_transaction:
            raise StoreError(self._failure)
        with store_errors(self._path):
            if not self.has_gathered:
                self._begin(connection)
                self.has_gathered = True
                self._ask_for_turn()
        try:
            with store_errors(self._path):
                connection.execute("SAVEPOINT change")
                yield connection
                connection.execute("RELEASE change")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO change")
                connection.execute("RELEASE change")
            else:  # SQLite has given it up, with all that had gathered
                self._failure = str(error)
            raise

    def remove(self, *removals: Removal) -> None:
        """Make these deletions in one change; if they are lost, the next change repeats them."""
        with self.change() as connection:
            for remove, key in removals:
                remove(connection, key)
        if self.has_gathered:
            self._removals += removals

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a turn's transaction with the deletions that were lost with an earlier one."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            for remove, key in self._removals:
                remove(connection, key)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
