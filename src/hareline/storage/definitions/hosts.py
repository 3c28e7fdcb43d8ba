"""The hosts that Qpid clients come from, in the table ``qpid_hosts``.

Made by ``definitions.sqlite``; ``amqp.product`` reads and writes it. Changes gather with those of
the turn (``definitions.turn_transaction``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from hareline.storage.definitions.encoding import read_name, stored_name
from hareline.storage.definitions.schema import store_errors
from hareline.storage.definitions.turn_transaction import TurnTransaction
from hareline.storage.interface import HostStore


class SqliteHosts(HostStore):
    """The table of an open file. Every method raises StoreError, which names the file."""

    __slots__ = ("_connection", "_path", "_turn")

    def __init__(self, connection: sqlite3.Connection, path: Path, turn: TurnTransaction) -> None:
        self._connection = connection
        self._path = path
        self._turn = turn

    def hosts(self) -> list[tuple[str, int]]:
        with store_errors(self._path):
            rows = self._connection.execute("SELECT host, seen_day FROM qpid_hosts ORDER BY number")
            return [(read_name(host), seen_day) for host, seen_day in rows]

    def remember_host(self, host: str, seen_day: int) -> None:
        with self._turn.change() as connection:  # REPLACE gives a new number, the highest
            connection.execute(
                "INSERT OR REPLACE INTO qpid_hosts (host, seen_day) VALUES (?, ?)",
                (stored_name(host), seen_day),
            )

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        with self._turn.change() as connection:
            connection.executemany(
                "DELETE FROM qpid_hosts WHERE host = ?", [(stored_name(host),) for host in hosts]
            )
