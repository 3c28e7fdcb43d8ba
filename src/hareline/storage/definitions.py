"""Durable exchanges, queues and bindings in one SQLite file, ``definitions.sqlite``.

With them what else is small and must be there after a restart: the newest segment of the journal,
and the hosts that Qpid clients come from (``amqp.product``).

Called by ``broker.vhost`` for each change, and by ``recovery.read_journal`` once, at the start. In
a broker the changes of a turn are one transaction (``gather``), which ``commit`` makes durable
before any client has a reply and before the journal gets what the turn has brought: a sync takes
milliseconds, and a client may send thousands of changes at once. Without ``gather`` each change is
a transaction, and durable when the call returns (write-ahead log, synchronous FULL).

========================  =======================================================================
what goes wrong           what follows
========================  =======================================================================
a change cannot be made   it alone raises StoreError; those before it stay gathered
SQLite gives up the       so does every other one until ``commit``, which finds them lost
transaction at a change
the commit fails          all changes of the turn are undone, in reverse, and who waits is told;
                          deletions are not undone, but made with the next change
========================  =======================================================================

What a client chose survives as it came: names need not be UTF-8, and arguments are kept as the
octets of an AMQP table, with the wire type of each value. A name that is UTF-8 is stored as text,
for whoever looks into the file with SQLite's own tools, any other as a blob of its octets; the two
are never equal to SQLite, so each name has one form.

Invariants: what an id once stood for it stands for alone, also after the queue was deleted. A file
of any former version is brought to this one when it is opened, in one transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hareline.errors import MalformedFrame, StoreError
from hareline.message import Table, decode_fields, encode_fields
from hareline.storage.interface import DefinitionStore, HostStore

FILE_NAME: Final = "definitions.sqlite"
VERSION: Final = 2  # PRAGMA user_version; a change of the tables raises it, and adds to _UPGRADES
APPLICATION_ID: Final = 0x48415245  # "HARE"; tells our files from those of other programs
QUEUE_ID_MAX: Final = 0xFFFF_FFFF  # what a record of the journal has room for
_MODE: Final = 0o640
DELETED_QUEUES_MAX: Final = 10_000  # whose ids are remembered, for a replay of what they had

BindingKind = Literal["queue", "exchange"]
StoredName = str | bytes
Key = tuple[StoredName, StoredName]  # virtual host and name
Removal = tuple[Callable[[sqlite3.Connection, Key], None], Key]

_SCHEMA: Final = """
CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost NOT NULL,
    name NOT NULL,
    type NOT NULL,
    is_auto_delete INTEGER NOT NULL,
    is_internal INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    UNIQUE (vhost, name)
);
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost NOT NULL,
    name NOT NULL,
    is_auto_delete INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    owner,
    UNIQUE (vhost, name)
);
CREATE TABLE deleted_queues (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id INTEGER NOT NULL,
    vhost NOT NULL,
    name NOT NULL
);
CREATE INDEX deleted_queues_by_name ON deleted_queues (vhost, name);
CREATE TABLE bindings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost NOT NULL,
    source NOT NULL,
    kind NOT NULL,
    destination NOT NULL,
    routing_key NOT NULL,
    arguments BLOB NOT NULL,
    arguments_key BLOB NOT NULL,
    UNIQUE (vhost, source, kind, destination, routing_key, arguments_key)
);
CREATE INDEX bindings_by_destination ON bindings (vhost, kind, destination);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    newest_segment INTEGER NOT NULL
);
INSERT INTO journal VALUES (1, 0);
CREATE TABLE qpid_hosts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    host NOT NULL UNIQUE,
    seen_day INTEGER NOT NULL
);
"""

# From the version that is the key to the next one; never changed once a release has it.
_UPGRADES: Final = {
    1: """
ALTER TABLE queues ADD COLUMN owner;
CREATE TABLE qpid_hosts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    host NOT NULL UNIQUE,
    seen_day INTEGER NOT NULL
);
""",
}


_UNBIND: Final = (
    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND kind = ?"
    " AND destination = ? AND routing_key = ? AND arguments_key = ?"
)


class ExchangeDefinition(NamedTuple):
    name: str
    type_name: str
    is_auto_delete: bool
    is_internal: bool
    arguments: Table


class QueueDefinition(NamedTuple):
    """``owner``: the client id whose connections alone may use it, or None."""

    queue_id: int
    name: str
    is_auto_delete: bool
    arguments: Table
    owner: str | None = None


class BindingDefinition(NamedTuple):
    source: str
    kind: BindingKind
    destination: str
    routing_key: str
    arguments: Table


class DefinitionsMissing(StoreError):
    """There are none, neither in the file nor because there is no file."""


class SqliteDefinitions(DefinitionStore, HostStore):
    """One open file. Every method raises StoreError, which names the file.

    ``has_gathered``: there are changes that wait for ``commit``.
    """

    __slots__ = (
        "_ask_for_turn",
        "_connection",
        "_failure",
        "_highest_queue_id",
        "_path",
        "_removals",
        "_undo",
        "_void_queue_id",
        "_waiting",
        "has_gathered",
    )

    def __init__(self, path: Path, *, may_create: bool = True) -> None:
        """Opens the file, and fills it if it is empty or not there; the directory has to be there.

        Raises DefinitionsMissing instead unless ``may_create``; nothing has changed then.
        """
        self._path = path
        self._ask_for_turn: Callable[[], None] | None = None
        self.has_gathered = False
        self._failure = ""  # why what has gathered is lost already
        self._removals: list[Removal] = []  # of this transaction, and those that were lost
        self._undo: list[Callable[[StoreError], None]] = []
        self._waiting: dict[Callable[[StoreError], None], None] = {}
        self._highest_queue_id = 0  # of those that were handed out
        self._void_queue_id = 0  # SQLite would hand out ids up to this one again
        if not may_create:  # SQLite would remove the log beside an empty file, all that is left
            if not path.exists():
                raise DefinitionsMissing(f"{path}: missing")
            if not path.stat().st_size:
                raise DefinitionsMissing(f"{path}: empty")
        with self._told():
            # before SQLite does, which would let everybody read it, and its log with it
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
            self._connection = sqlite3.connect(path, isolation_level=None)
            try:
                self._prepare(may_create)
                self._check_tables()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, may_create: bool) -> None:
        execute = self._connection.execute
        (version,) = execute("PRAGMA user_version").fetchone()
        (application_id,) = execute("PRAGMA application_id").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application_id != APPLICATION_ID and (tables or application_id or version):
            raise StoreError(f"{self._path}: a database of another program")
        if version > VERSION:
            raise StoreError(
                f"{self._path}: version {version}, but this broker knows no later one than "
                f"{VERSION}; a newer Hareline has written it"
            )
        if not tables and not may_create:
            raise DefinitionsMissing(f"{self._path}: empty")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA journal_mode = WAL")
        if not tables:
            with self._transaction():
                for statement in _SCHEMA.split(";"):
                    execute(statement)
                execute(f"PRAGMA user_version = {VERSION}")
                execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._make_name_durable()
        elif version < VERSION:
            self._upgrade(version)

    def _upgrade(self, version: int) -> None:
        if version not in _UPGRADES:
            raise StoreError(f"{self._path}: version {version}, which no Hareline has written")
        with self._transaction() as connection:
            for former in range(version, VERSION):
                for statement in _UPGRADES[former].split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    def _check_tables(self) -> None:
        """Raises StoreError for one that is not there, or lacks a column."""
        with closing(sqlite3.connect(":memory:")) as model:
            model.executescript(_SCHEMA)
            expected = _columns_by_table(model)
        there = _columns_by_table(self._connection)
        for table, columns in expected.items():
            if table not in there:
                raise StoreError(f"{self._path}: damaged, there is no table '{table}'")
            lacking = columns - there[table]
            if lacking:
                raise StoreError(
                    f"{self._path}: damaged, the table '{table}' has no column '{min(lacking)}'"
                )

    def _make_name_durable(self) -> None:
        """A new file's directory entry is not synced by syncing the file."""
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite and the system say, as errors of ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror or error}") from error

    # ------------------------------------------------- the changes of a turn

    def gather(self, ask_for_turn: Callable[[], None]) -> None:
        """From now on changes wait for ``commit``, which a turn that is asked for is to call."""
        self._ask_for_turn = ask_for_turn

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        if self.has_gathered:
            self._undo.append(undo)

    def tell_if_lost(self, callback: Callable[[StoreError], None]) -> None:
        if self.has_gathered:
            self._waiting[callback] = None

    def commit(self) -> None:
        """Make durable what has gathered; if that fails, undo it and tell who waits."""
        if not self.has_gathered:
            return
        failure, self._failure = self._failure, ""
        undo, self._undo = self._undo, []
        waiting, self._waiting = self._waiting, {}
        self.has_gathered = False
        try:
            if not self._connection.in_transaction:
                raise StoreError(failure)
            with self._told():
                self._connection.execute("COMMIT")
            self._removals.clear()
        except StoreError as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._void_queue_id = self._highest_queue_id
            for call in (*reversed(undo), *waiting):
                call(error)
            self.commit()  # what the end of a connection or of a queue has changed

    def _begin(self, connection: sqlite3.Connection) -> None:
        """A turn's transaction; deletions that were lost with another one come first."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            for remove, key in self._removals:
                remove(connection, key)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Everything in the block, or nothing: durable at its end, or with what has gathered."""
        if self._ask_for_turn is None:
            with self._transaction() as connection:
                yield connection
            return
        connection = self._connection
        if self.has_gathered and not connection.in_transaction:
            raise StoreError(self._failure)
        with self._told():
            if not self.has_gathered:
                self._begin(connection)
                self.has_gathered = True
                self._ask_for_turn()
        try:
            with self._told():
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

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything in the block, durable at its end, or nothing."""
        connection = self._connection
        with self._told():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some errors have ended it already
                    connection.execute("ROLLBACK")
                raise

    @property
    def newest_segment(self) -> int:
        """Number of the newest segment of the journal that was on the disk for certain; 0: none."""
        with self._told():
            row = self._connection.execute("SELECT newest_segment FROM journal").fetchone()
        if row is None or not isinstance(row[0], int):
            raise StoreError(f"{self._path}: damaged, the table 'journal' has no newest segment")
        return row[0]

    def note_segment(self, number: int) -> None:
        """This one is on the disk, and is the newest: so it is missed if it is not there.

        Durable at once, with all that has gathered.
        """
        self.commit()
        with self._transaction() as connection:
            connection.execute("UPDATE journal SET newest_segment = ?", (number,))

    def close(self) -> None:
        """Commits, and brings the write-ahead log into the file."""
        self.commit()
        with self._told():
            self._connection.close()

    # ---------------------------------------------------------- changes

    def add_queue(
        self,
        vhost: str,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
    ) -> int:
        values = (
            _stored(vhost),
            _stored(name),
            is_auto_delete,
            _encoded(arguments),
            None if owner is None else _stored(owner),
        )
        with self._change() as connection:
            return self._insert_queue(connection, values)

    def _insert_queue(self, connection: sqlite3.Connection, values: tuple[object, ...]) -> int:
        given_id = self._void_queue_id + 1 if self._void_queue_id else None
        cursor = connection.execute(
            "INSERT INTO queues (id, vhost, name, is_auto_delete, arguments, owner)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (given_id, *values),
        )
        queue_id = cursor.lastrowid
        assert queue_id is not None
        if queue_id > QUEUE_ID_MAX:
            raise StoreError(f"{self._path}: all {QUEUE_ID_MAX} queue ids have been used")
        self._void_queue_id = 0
        self._highest_queue_id = max(self._highest_queue_id, queue_id)
        return queue_id

    def delete_queue(self, vhost: str, name: str) -> None:
        self._remove((_remove_queue, (_stored(vhost), _stored(name))))

    def _remove(self, *removals: Removal) -> None:
        with self._change() as connection:
            for remove, key in removals:
                remove(connection, key)
        if self.has_gathered:
            self._removals += removals

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
            _stored(vhost),
            _stored(name),
            type_name,
            is_auto_delete,
            is_internal,
            _encoded(arguments),
        )
        with self._change() as connection:
            connection.execute(
                "INSERT INTO exchanges (vhost, name, type, is_auto_delete, is_internal, arguments)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )
            if queue is None:
                return 0
            of_queue = (_stored(vhost), _stored(queue), False, _encoded({}), None)
            return self._insert_queue(connection, of_queue)

    def delete_exchange(self, vhost: str, name: str, *, queue: str | None = None) -> None:
        removals: list[Removal] = [(_remove_exchange, (_stored(vhost), _stored(name)))]
        if queue is not None:
            removals.append((_remove_queue, (_stored(vhost), _stored(queue))))
        self._remove(*removals)

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
        values = (*_binding_key(*place, arguments), _encoded(arguments))
        with self._change() as connection:
            connection.executemany(_UNBIND, [_binding_key(*place, each) for each in replaced])
            connection.execute(
                "INSERT OR IGNORE INTO bindings (vhost, source, kind, destination, routing_key,"
                " arguments_key, arguments) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
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
        with self._change() as connection:
            connection.execute(
                _UNBIND, _binding_key(vhost, source, kind, destination, routing_key, arguments)
            )

    def remember_host(self, host: str, seen_day: int) -> None:
        with self._change() as connection:  # a new number: the last one of all
            connection.execute(
                "INSERT OR REPLACE INTO qpid_hosts (host, seen_day) VALUES (?, ?)",
                (_stored(host), seen_day),
            )

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        with self._change() as connection:
            connection.executemany(
                "DELETE FROM qpid_hosts WHERE host = ?", [(_stored(host),) for host in hosts]
            )

    # ---------------------------------------------------------- reading

    def vhosts(self) -> list[str]:
        """The names of all virtual hosts that anything is kept of."""
        rows = self._rows("SELECT vhost FROM queues UNION SELECT vhost FROM exchanges ORDER BY 1")
        return [_read(vhost) for (vhost,) in rows]

    def exchanges(self, vhost: str) -> list[ExchangeDefinition]:
        """In the order in which they were declared."""
        rows = self._rows(
            "SELECT name, type, is_auto_delete, is_internal, arguments FROM exchanges"
            " WHERE vhost = ? ORDER BY id",
            vhost,
        )
        return [
            ExchangeDefinition(
                _read(name),
                type_name,
                bool(is_auto_delete),
                bool(is_internal),
                self._decoded(arguments, f"exchange '{_read(name)}'"),
            )
            for name, type_name, is_auto_delete, is_internal, arguments in rows
        ]

    def queues(self, vhost: str) -> list[QueueDefinition]:
        """In the order in which they were declared."""
        rows = self._rows(
            "SELECT id, name, is_auto_delete, arguments, owner FROM queues"
            " WHERE vhost = ? ORDER BY id",
            vhost,
        )
        return [
            QueueDefinition(
                queue_id,
                _read(name),
                bool(is_auto_delete),
                self._decoded(arguments, f"queue '{_read(name)}'"),
                None if owner is None else _read(owner),
            )
            for queue_id, name, is_auto_delete, arguments, owner in rows
        ]

    def queue_ids(self, vhost: str, name: str) -> list[int]:
        """Of the queue of this name and of those that had it before, ascending.

        Of deleted queues the last ``DELETED_QUEUES_MAX`` are remembered.
        """
        with self._told():
            rows = self._connection.execute(
                "SELECT id FROM queues WHERE vhost = ?1 AND name = ?2"
                " UNION SELECT id FROM deleted_queues WHERE vhost = ?1 AND name = ?2 ORDER BY 1",
                (_stored(vhost), _stored(name)),
            ).fetchall()
        return [queue_id for (queue_id,) in rows]

    def bindings(self, vhost: str) -> list[BindingDefinition]:
        """In the order in which they were made, which some exchanges' matching depends on."""
        rows = self._rows(
            "SELECT source, kind, destination, routing_key, arguments FROM bindings"
            " WHERE vhost = ? ORDER BY id",
            vhost,
        )
        return [
            BindingDefinition(
                _read(source),
                kind,
                _read(destination),
                _read(routing_key),
                self._decoded(arguments, f"a binding of exchange '{_read(source)}'"),
            )
            for source, kind, destination, routing_key, arguments in rows
        ]

    @property
    def binding_count(self) -> int:
        """In all virtual hosts."""
        ((count,),) = self._rows("SELECT count(*) FROM bindings")
        return int(count)

    def hosts(self) -> list[tuple[str, int]]:
        rows = self._rows("SELECT host, seen_day FROM qpid_hosts ORDER BY number")
        return [(_read(host), seen_day) for host, seen_day in rows]

    def _rows(self, statement: str, vhost: str | None = None) -> list[tuple[Any, ...]]:
        with self._told():
            parameters = () if vhost is None else (_stored(vhost),)
            return self._connection.execute(statement, parameters).fetchall()

    def _decoded(self, octets: bytes, whose: str) -> Table:
        try:
            return decode_fields(octets)
        except MalformedFrame as error:
            raise StoreError(f"{self._path}: arguments of {whose}: {error}") from error


def _remove_queue(connection: sqlite3.Connection, key: Key) -> None:
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


def _columns_by_table(connection: sqlite3.Connection) -> dict[str, set[str]]:
    rows = connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_schema AS tables"
        " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
    )
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table, set()).add(column)
    return columns


def _stored(name: str) -> StoredName:
    """A name from the wire holds surrogates for octets that are not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape")
    return name


def _read(stored: StoredName) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogateescape")


def _encoded(arguments: Mapping[str, object]) -> bytes:
    return encode_fields(Table(arguments))


def _binding_key(
    vhost: str,
    source: str,
    kind: str,
    destination: str,
    routing_key: str,
    arguments: Mapping[str, object],
) -> tuple[object, ...]:
    """What identifies a binding; the order of its arguments does not."""
    return (
        _stored(vhost),
        _stored(source),
        kind,
        _stored(destination),
        _stored(routing_key),
        _encoded(dict(sorted(arguments.items()))),
    )
