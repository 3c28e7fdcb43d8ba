"""Tables of the file ``definitions.sqlite``, how it is opened, and how names are stored.

An empty or missing file gets the tables; a file of another version, of another program, or without
a table or column that it should have is refused and not changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from hareline.errors import StoreError
from hareline.message import Table, encode_fields

FILE_NAME: Final = "definitions.sqlite"
VERSION: Final = 5  # PRAGMA user_version; a change of the tables raises it
APPLICATION_ID: Final = 0x48415245  # "HARE"; tells our files from those of other programs
_MODE: Final = 0o640

SCHEMA: Final = """
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
    incarnation,
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
CREATE TABLE readers (
    queue_id INTEGER NOT NULL,
    name NOT NULL,
    next_offset INTEGER NOT NULL,
    is_pinned INTEGER NOT NULL,
    put_ms INTEGER NOT NULL,
    PRIMARY KEY (queue_id, name)
) WITHOUT ROWID;
CREATE TABLE queue_settings (
    queue_id INTEGER PRIMARY KEY,
    is_paused INTEGER NOT NULL,
    changes BLOB NOT NULL
);
CREATE TABLE users (
    name NOT NULL PRIMARY KEY,
    password_hash NOT NULL,
    hashing NOT NULL,
    scram NOT NULL,
    tags NOT NULL,
    limits NOT NULL,
    is_own INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE vhosts (
    name NOT NULL PRIMARY KEY,
    description NOT NULL,
    tags NOT NULL,
    default_queue_type NOT NULL,
    is_traced INTEGER NOT NULL,
    is_protected INTEGER NOT NULL,
    limits NOT NULL,
    is_own INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE permissions (
    user NOT NULL,
    vhost NOT NULL,
    configure NOT NULL,
    write NOT NULL,
    read NOT NULL,
    PRIMARY KEY (user, vhost)
) WITHOUT ROWID;
CREATE TABLE topic_permissions (
    user NOT NULL,
    vhost NOT NULL,
    exchange NOT NULL,
    write NOT NULL,
    read NOT NULL,
    PRIMARY KEY (user, vhost, exchange)
) WITHOUT ROWID;
CREATE TABLE policies (
    vhost NOT NULL,
    is_operator INTEGER NOT NULL,
    name NOT NULL,
    pattern NOT NULL,
    apply_to NOT NULL,
    priority INTEGER NOT NULL,
    definition NOT NULL,
    PRIMARY KEY (vhost, is_operator, name)
) WITHOUT ROWID;
CREATE TABLE parameters (
    component NOT NULL,
    vhost NOT NULL,
    name NOT NULL,
    value NOT NULL,
    PRIMARY KEY (component, vhost, name)
) WITHOUT ROWID;
CREATE TABLE global_parameters (
    name NOT NULL PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;
CREATE TABLE removed_defaults (
    kind NOT NULL,
    name NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
"""


StoredName = str | bytes


def stored_name(name: str) -> StoredName:
    """Return the column value of a name, which has surrogates for octets that are not UTF-8.

    UTF-8 is stored as text, which SQLite's own tools show, anything else as a blob of its octets;
    to SQLite a text never equals a blob.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape")
    return name


def read_name(stored: StoredName) -> str:
    """Return the name of a column value."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogateescape")


def encoded_arguments(arguments: Mapping[str, object]) -> bytes:
    """Return the octets of the arguments as an AMQP table."""
    return encode_fields(Table(arguments))


def binding_key(
    vhost: str,
    source: str,
    kind: str,
    destination: str,
    routing_key: str,
    arguments: Mapping[str, object],
) -> tuple[object, ...]:
    """Return the columns that identify a binding; the order of its arguments does not matter."""
    return (
        stored_name(vhost),
        stored_name(source),
        kind,
        stored_name(destination),
        stored_name(routing_key),
        encoded_arguments(dict(sorted(arguments.items()))),
    )


class DefinitionsMissing(StoreError):
    """There are no definitions: the file is missing or empty."""


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into StoreError, which names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Make everything in the block durable at its end, or nothing. Raises StoreError."""
    with store_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # some errors have ended it already
                connection.execute("ROLLBACK")
            raise


def open_database(path: Path, *, may_create: bool) -> sqlite3.Connection:
    """Open the file with the tables of this version; its directory must exist.

    Raises DefinitionsMissing for an empty or missing file unless ``may_create``, and StoreError.
    """
    if not may_create:  # SQLite would remove the log beside an empty file, all that is left
        if not path.exists():
            raise DefinitionsMissing(f"{path}: missing")
        if not path.stat().st_size:
            raise DefinitionsMissing(f"{path}: empty")
    with store_errors(path):
        # SQLite would make the file, and its log with it, readable for every user
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
        # one thread at a time uses it: the loop's, and later the one that writes
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path, may_create=may_create)
            _check_tables(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a file that ``open_database`` has prepared once more. Raises StoreError."""
    with store_errors(path):
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, *, may_create: bool) -> None:
    """Create the tables of a new file. Raises StoreError for a file that is not ours to change."""
    execute = connection.execute
    (version,) = execute("PRAGMA user_version").fetchone()
    (application_id,) = execute("PRAGMA application_id").fetchone()
    (tables,) = execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application_id != APPLICATION_ID and (tables or application_id or version):
        raise StoreError(f"{path}: a database of another program")
    if version != VERSION and (tables or version):
        raise StoreError(f"{path}: version {version}; this Hareline reads version {VERSION} only")
    if not tables and not may_create:
        raise DefinitionsMissing(f"{path}: empty")
    execute("PRAGMA synchronous = FULL")
    execute("PRAGMA journal_mode = WAL")
    if not tables:
        with transaction(connection, path):
            for statement in SCHEMA.split(";"):
                execute(statement)
            execute(f"PRAGMA user_version = {VERSION}")
            execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _sync_directory(path.parent)


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError for a table that is missing, or lacks a column."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(SCHEMA)
        expected = _columns_by_table(model)
    there = _columns_by_table(connection)
    for table, columns in expected.items():
        if table not in there:
            raise StoreError(f"{path}: damaged, there is no table '{table}'")
        lacking = columns - there[table]
        if lacking:
            raise StoreError(f"{path}: damaged, the table '{table}' has no column '{min(lacking)}'")


def _columns_by_table(connection: sqlite3.Connection) -> dict[str, set[str]]:
    rows = connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_schema AS tables"
        " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
    )
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table, set()).add(column)
    return columns


def _sync_directory(path: Path) -> None:
    """Make a new file's name durable: syncing the file does not."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
