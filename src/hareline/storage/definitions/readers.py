"""The positions of readers in streams, in the table ``readers``.

Made by ``definitions.sqlite``; ``broker.stream_readers`` writes it by ``definitions.writer``, and
recovery reads it. The rows of a queue are deleted with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from hareline.errors import StoreError
from hareline.storage.definitions.encoding import read_name, stored_name
from hareline.storage.definitions.schema import store_errors
from hareline.storage.definitions.writer import DefinitionWriter
from hareline.storage.interface import ReaderStore, StoredReader


class SqliteReaders(ReaderStore):
    """The table of an open file. Every method raises StoreError, which names the file."""

    __slots__ = ("_path", "_reading", "_writer")

    def __init__(self, reading: sqlite3.Connection, path: Path, writer: DefinitionWriter) -> None:
        self._reading = reading
        self._path = path
        self._writer = writer

    def readers(self, queue_id: int) -> list[StoredReader]:
        """Return the readers of a queue."""
        with store_errors(self._path):
            rows = self._reading.execute(
                "SELECT name, next_offset, is_pinned, put_ms FROM readers"
                " WHERE queue_id = ? ORDER BY name",
                (queue_id,),
            ).fetchall()
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

        self._writer.change(write)
        self._writer.undo_if_lost(on_lost)
