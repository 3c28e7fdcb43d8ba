"""The hosts that Qpid clients come from, in the table ``qpid_hosts``.

Made by ``definitions.sqlite``; ``amqp.product`` reads and writes it, by ``definitions.writer``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from hareline.errors import StoreError
from hareline.storage.definitions.encoding import read_name, stored_name
from hareline.storage.definitions.schema import store_errors
from hareline.storage.definitions.writer import DefinitionWriter, statement
from hareline.storage.interface import HostStore


class SqliteHosts(HostStore):
    """The table of an open file. Every method raises StoreError, which names the file."""

    __slots__ = ("_path", "_reading", "_writer")

    def __init__(self, reading: sqlite3.Connection, path: Path, writer: DefinitionWriter) -> None:
        self._reading = reading
        self._path = path
        self._writer = writer

    def hosts(self) -> list[tuple[str, int]]:
        with store_errors(self._path):
            rows = self._reading.execute("SELECT host, seen_day FROM qpid_hosts ORDER BY number")
            return [(read_name(host), seen_day) for host, seen_day in rows]

    def remember_host(
        self, host: str, seen_day: int, on_lost: Callable[[StoreError], None]
    ) -> None:
        self._writer.change(  # REPLACE gives a new number, the highest
            statement(
                "INSERT OR REPLACE INTO qpid_hosts (host, seen_day) VALUES (?, ?)",
                (stored_name(host), seen_day),
            )
        )
        self._writer.undo_if_lost(on_lost)

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        self._writer.change(
            *(
                statement("DELETE FROM qpid_hosts WHERE host = ?", (stored_name(host),))
                for host in hosts
            )
        )
