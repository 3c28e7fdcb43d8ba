"""Definitions of a broker in one open SQLite file: exchanges, queues, bindings, readers, hosts.

The id of a queue never stands for another one, also after the queue was deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hareline.errors import MalformedFrame, StoreError
from hareline.message import Table, decode_fields
from hareline.storage.definitions.administration import SqliteAdministration
from hareline.storage.definitions.file import DefinitionFile, Operation, statement
from hareline.storage.definitions.schema import (
    StoredName,
    binding_key,
    encoded_arguments,
    read_name,
    stored_name,
)
from hareline.storage.interface import (
    DefinitionStore,
    HostStore,
    ReaderStore,
    StoredReader,
    new_incarnation,
)

QUEUE_ID_MAX: Final = 0xFFFF_FFFF  # what a record of the journal has room for
DELETED_QUEUES_MAX: Final = 10_000  # whose ids are remembered, so that they can be replayed

BindingKind = Literal["queue", "exchange"]
Key = tuple[StoredName, StoredName]  # virtual host and name

_UNBIND: Final = (
    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND kind = ?"
    " AND destination = ? AND routing_key = ? AND arguments_key = ?"
)
_ADD_QUEUE: Final = (
    "INSERT INTO queues (id, vhost, name, is_auto_delete, arguments, owner, incarnation)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class ExchangeDefinition(NamedTuple):
    name: str
    type_name: str
    is_auto_delete: bool
    is_internal: bool
    arguments: Table


class QueueDefinition(NamedTuple):
    """``owner``: the only client id whose connections may use the queue; None: all may.

    ``incarnation``: 16 hex digits that no other declaration of a queue of this name has.
    ``changes``, ``is_paused``: what operators have set (``broker.live_arguments``).
    """

    queue_id: int
    name: str
    is_auto_delete: bool
    arguments: Table
    owner: str | None = None
    incarnation: str = ""
    changes: Table | None = None
    is_paused: bool = False


class BindingDefinition(NamedTuple):
    source: str
    kind: BindingKind
    destination: str
    routing_key: str
    arguments: Table


class SqliteDefinitions(DefinitionStore):
    """Definitions in a ``file``. Every method raises StoreError, which names it.

    ``host_store``: the hosts in the same file; ``administration``: users and all else that is
    administered at run time.
    """

    __slots__ = ("_readers", "administration", "file", "host_store")

    def __init__(self, path: Path, *, may_create: bool = True) -> None:
        """Open the file as ``DefinitionFile`` does."""
        super().__init__()
        self.file = file = DefinitionFile(path, may_create=may_create)
        try:
            highest = file.rows("SELECT seq FROM sqlite_sequence WHERE name = 'queues'")
            self._last_queue_id = int(highest[0][0]) if highest else 0
        except BaseException:
            file.close()
            raise
        self.host_store = SqliteHosts(file)
        self._readers = SqliteReaders(file)
        self.administration = SqliteAdministration(file)

    @property
    def reader_store(self) -> SqliteReaders:
        """The readers of streams, in the same file."""
        return self._readers

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        self.file.undo_if_lost(undo)

    def when_settled(
        self, callback: Callable[[StoreError | None], None], vhost: str, *names: str
    ) -> bool:
        return self.file.when_settled(callback, vhost, *names)

    def close(self) -> None:
        self.file.close()

    @property
    def newest_segment(self) -> int:
        """Number of the newest segment of the journal that is durable for certain; 0: none."""
        rows = self.file.rows("SELECT newest_segment FROM journal")
        if not rows or not isinstance(rows[0][0], int):
            raise StoreError(
                f"{self.file.path}: damaged, the table 'journal' has no newest segment"
            )
        return int(rows[0][0])

    def note_segment(self, number: int) -> None:
        """Note that this segment is durable and the newest, so that a start misses its file."""
        self.file.change(statement("UPDATE journal SET newest_segment = ?", (number,)))

    # ---------------------------------------------------------- changes

    def add_queue(
        self,
        vhost: str,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
        incarnation: str | None = None,
    ) -> int:
        queue_id = self._next_queue_id()
        values = (
            queue_id,
            *_key(vhost, name),
            is_auto_delete,
            encoded_arguments(arguments),
            None if owner is None else stored_name(owner),
            incarnation or new_incarnation(),
        )
        self.file.change(statement(_ADD_QUEUE, values), names=((vhost, name),), queue_id=queue_id)
        return queue_id

    def _next_queue_id(self) -> int:
        if self._last_queue_id >= QUEUE_ID_MAX:
            raise StoreError(f"{self.file.path}: all {QUEUE_ID_MAX} queue ids have been used")
        self._last_queue_id += 1
        return self._last_queue_id

    def delete_queue(self, vhost: str, name: str, *, queue_id: int = 0) -> None:
        remove = partial(_remove_queue, key=_key(vhost, name))
        self.file.change(remove, names=((vhost, name),), queue_id=queue_id, is_removal=True)

    def set_queue_settings(
        self, vhost: str, name: str, *, is_paused: bool, changes: Mapping[str, object]
    ) -> None:
        self.file.change(
            statement(
                "INSERT OR REPLACE INTO queue_settings (queue_id, is_paused, changes)"
                " SELECT id, ?, ? FROM queues WHERE vhost = ? AND name = ?",
                (is_paused, encoded_arguments(changes), *_key(vhost, name)),
            ),
            names=((vhost, name),),
        )

    def add_exchange(
        self,
        vhost: str,
        name: str,
        type_name: str,
        *,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
        queue: str | None = None,
    ) -> int:
        values = (
            *_key(vhost, name),
            type_name,
            is_auto_delete,
            is_internal,
            encoded_arguments(arguments),
        )
        operations = [
            statement(
                "INSERT INTO exchanges (vhost, name, type, is_auto_delete, is_internal, arguments)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )
        ]
        queue_id, changed = 0, [(vhost, name)]
        if queue is not None:
            changed.append((vhost, queue))
            queue_id = self._next_queue_id()
            of_queue = (queue_id, *_key(vhost, queue), False, encoded_arguments({}), None)
            operations.append(statement(_ADD_QUEUE, (*of_queue, new_incarnation())))
        self.file.change(*operations, names=changed, queue_id=queue_id)
        return queue_id

    def delete_exchange(
        self, vhost: str, name: str, *, queue: str | None = None, queue_id: int = 0
    ) -> None:
        operations: list[Operation] = [partial(_remove_exchange, key=_key(vhost, name))]
        if queue is not None:
            operations.append(partial(_remove_queue, key=_key(vhost, queue)))
        self.file.change(*operations, names=((vhost, name),), queue_id=queue_id, is_removal=True)

    def bind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
        replaced: Sequence[Mapping[str, object]] = (),
    ) -> None:
        place = (vhost, source, kind, destination, routing_key)
        values = (*binding_key(*place, arguments), encoded_arguments(arguments))
        self.file.change(
            *(statement(_UNBIND, binding_key(*place, each)) for each in replaced),
            statement(
                "INSERT OR IGNORE INTO bindings (vhost, source, kind, destination, routing_key,"
                " arguments_key, arguments) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            ),
            names=((vhost, source), (vhost, destination)),
        )

    def unbind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        key = binding_key(vhost, source, kind, destination, routing_key, arguments)
        self.file.change(statement(_UNBIND, key), names=((vhost, source), (vhost, destination)))

    # ---------------------------------------------------------- reading

    def vhosts(self) -> list[str]:
        """Return the names of all virtual hosts with a queue or an exchange."""
        rows = self.file.rows(
            "SELECT vhost FROM queues UNION SELECT vhost FROM exchanges ORDER BY 1"
        )
        return [read_name(vhost) for (vhost,) in rows]

    def exchanges(self, vhost: str) -> list[ExchangeDefinition]:
        """Return the exchanges in the order of their declaration."""
        rows = self.file.rows(
            "SELECT name, type, is_auto_delete, is_internal, arguments FROM exchanges"
            " WHERE vhost = ? ORDER BY id",
            stored_name(vhost),
        )
        return [
            ExchangeDefinition(
                read_name(name),
                type_name,
                bool(is_auto_delete),
                bool(is_internal),
                self._decoded(arguments, f"exchange '{read_name(name)}'"),
            )
            for name, type_name, is_auto_delete, is_internal, arguments in rows
        ]

    def queues(self, vhost: str) -> list[QueueDefinition]:
        """Return the queues in the order of their declaration."""
        rows = self.file.rows(
            "SELECT id, name, is_auto_delete, arguments, owner, incarnation, changes, is_paused"
            " FROM queues LEFT JOIN queue_settings ON queue_id = id WHERE vhost = ? ORDER BY id",
            stored_name(vhost),
        )
        return [
            QueueDefinition(
                queue_id,
                read_name(name),
                bool(is_auto_delete),
                self._decoded(arguments, f"queue '{read_name(name)}'"),
                None if owner is None else read_name(owner),
                incarnation,
                None if changes is None else self._decoded(changes, f"queue '{read_name(name)}'"),
                bool(is_paused),
            )
            for (
                queue_id,
                name,
                is_auto_delete,
                arguments,
                owner,
                incarnation,
                changes,
                is_paused,
            ) in rows
        ]

    def queue_ids(self, vhost: str, name: str) -> list[int]:
        """Return the ids of the queue of this name and of earlier ones, ascending.

        The last ``DELETED_QUEUES_MAX`` deleted queues are remembered.
        """
        rows = self.file.rows(
            "SELECT id FROM queues WHERE vhost = ?1 AND name = ?2"
            " UNION SELECT id FROM deleted_queues WHERE vhost = ?1 AND name = ?2 ORDER BY 1",
            *_key(vhost, name),
        )
        return [queue_id for (queue_id,) in rows]

    def bindings(self, vhost: str) -> list[BindingDefinition]:
        """Return the bindings in the order they were made in: matching may depend on it."""
        rows = self.file.rows(
            "SELECT source, kind, destination, routing_key, arguments FROM bindings"
            " WHERE vhost = ? ORDER BY id",
            stored_name(vhost),
        )
        return [
            BindingDefinition(
                read_name(source),
                kind,
                read_name(destination),
                read_name(routing_key),
                self._decoded(arguments, f"a binding of exchange '{read_name(source)}'"),
            )
            for source, kind, destination, routing_key, arguments in rows
        ]

    @property
    def binding_count(self) -> int:
        """Number of bindings in all virtual hosts."""
        ((count,),) = self.file.rows("SELECT count(*) FROM bindings")
        return int(count)

    def _decoded(self, octets: bytes, whose: str) -> Table:
        try:
            return decode_fields(octets)
        except MalformedFrame as error:
            raise StoreError(f"{self.file.path}: arguments of {whose}: {error}") from error


def _key(vhost: str, name: str) -> Key:
    return stored_name(vhost), stored_name(name)


def _remove_queue(connection: sqlite3.Connection, key: Key) -> None:
    for table in ("readers", "queue_settings"):
        connection.execute(
            f"DELETE FROM {table} WHERE queue_id IN"
            " (SELECT id FROM queues WHERE vhost = ? AND name = ?)",
            key,
        )
    cursor = connection.execute(
        "INSERT INTO deleted_queues (id, vhost, name)"
        " SELECT id, vhost, name FROM queues WHERE vhost = ? AND name = ?",
        key,
    )
    if cursor.rowcount:
        connection.execute(
            "DELETE FROM deleted_queues WHERE number <= ?",
            ((cursor.lastrowid or 0) - DELETED_QUEUES_MAX,),
        )
    connection.execute("DELETE FROM queues WHERE vhost = ? AND name = ?", key)
    connection.execute(
        "DELETE FROM bindings WHERE vhost = ? AND kind = 'queue' AND destination = ?", key
    )


def _remove_exchange(connection: sqlite3.Connection, key: Key) -> None:
    connection.execute("DELETE FROM exchanges WHERE vhost = ? AND name = ?", key)
    connection.execute("DELETE FROM bindings WHERE vhost = ? AND source = ?", key)
    connection.execute(
        "DELETE FROM bindings WHERE vhost = ? AND kind = 'exchange' AND destination = ?", key
    )


class SqliteHosts(HostStore):
    """Its table in the file of the definitions."""

    __slots__ = ("_file",)

    def __init__(self, file: DefinitionFile) -> None:
        self._file = file

    def hosts(self) -> list[tuple[str, int]]:
        rows = self._file.rows("SELECT host, seen_day FROM qpid_hosts ORDER BY number")
        return [(read_name(host), seen_day) for host, seen_day in rows]

    def remember_host(
        self, host: str, seen_day: int, on_lost: Callable[[StoreError], None]
    ) -> None:
        self._file.change(  # REPLACE gives a new number, the highest
            statement(
                "INSERT OR REPLACE INTO qpid_hosts (host, seen_day) VALUES (?, ?)",
                (stored_name(host), seen_day),
            )
        )
        self._file.undo_if_lost(on_lost)

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        self._file.change(
            *(
                statement("DELETE FROM qpid_hosts WHERE host = ?", (stored_name(host),))
                for host in hosts
            )
        )


class SqliteReaders(ReaderStore):
    """Its table in the file of the definitions."""

    __slots__ = ("_file",)

    def __init__(self, file: DefinitionFile) -> None:
        self._file = file

    def readers(self, queue_id: int) -> list[StoredReader]:
        """Return the readers of a queue."""
        rows = self._file.rows(
            "SELECT name, next_offset, is_pinned, put_ms FROM readers"
            " WHERE queue_id = ? ORDER BY name",
            queue_id,
        )
        return [
            StoredReader(queue_id, read_name(name), offset, bool(is_pinned), put_ms)
            for name, offset, is_pinned, put_ms in rows
        ]

    def write_readers(
        self,
        changed: Mapping[tuple[int, str], StoredReader | None],
        on_lost: Callable[[StoreError], None],
    ) -> None:
        gone = [
            (queue_id, stored_name(name))
            for (queue_id, name), reader in changed.items()
            if reader is None
        ]
        there = [
            (stored_name(reader.name), reader.offset, reader.is_pinned, reader.put_ms, queue_id)
            for (queue_id, _), reader in changed.items()
            if reader is not None
        ]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM readers WHERE queue_id = ? AND name = ?", gone)
            connection.executemany(  # not for a queue whose own definition was lost
                "INSERT OR REPLACE INTO readers (queue_id, name, next_offset, is_pinned, put_ms)"
                " SELECT id, ?, ?, ?, ? FROM queues WHERE id = ?",
                there,
            )

        self._file.change(write)
        self._file.undo_if_lost(on_lost)
