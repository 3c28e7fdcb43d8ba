"""Records of what is administered at run time, in tables of the definitions.

Each kind of record has one table, whose columns are its fields in their order, the key first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hareline.errors import StoreError
from hareline.storage.administration import (
    KEY_FIELDS,
    AdministrationStore,
    GlobalParameterRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    R,
    Record,
    RemovedDefault,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
    key_of,
)
from hareline.storage.definitions.file import DefinitionFile, Operation, statement
from hareline.storage.definitions.schema import StoredName, read_name, stored_name


class _Table(NamedTuple):
    """``json``: the fields that are stored as JSON; ``flags``: those that are true or false."""

    name: str
    json: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


_TABLES: Final[dict[type, _Table]] = {
    UserRecord: _Table("users", frozenset(("tags", "limits")), frozenset(("is_own",))),
    VhostRecord: _Table(
        "vhosts",
        frozenset(("tags", "limits")),
        frozenset(("is_own", "is_traced", "is_protected")),
    ),
    PermissionRecord: _Table("permissions"),
    TopicPermissionRecord: _Table("topic_permissions"),
    PolicyRecord: _Table("policies", frozenset(("definition",)), frozenset(("is_operator",))),
    ParameterRecord: _Table("parameters", frozenset(("value",))),
    GlobalParameterRecord: _Table("global_parameters", frozenset(("value",))),
    RemovedDefault: _Table("removed_defaults"),
}

# What goes with a virtual host. Some are found by the queues, so they come before them.
_OF_VHOST: Final = (
    "DELETE FROM readers WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ?1)",
    "DELETE FROM queue_settings WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ?1)",
    "DELETE FROM queues WHERE vhost = ?1",
    "DELETE FROM deleted_queues WHERE vhost = ?1",
    "DELETE FROM exchanges WHERE vhost = ?1",
    "DELETE FROM bindings WHERE vhost = ?1",
    "DELETE FROM permissions WHERE vhost = ?1",
    "DELETE FROM topic_permissions WHERE vhost = ?1",
    "DELETE FROM policies WHERE vhost = ?1",
    "DELETE FROM parameters WHERE vhost = ?1",
    "DELETE FROM vhosts WHERE name = ?1",
)


class SqliteAdministration(AdministrationStore):
    """Its tables in the file of the definitions."""

    __slots__ = ("_file",)

    def __init__(self, file: DefinitionFile) -> None:
        self._file = file

    def put(self, *records: Record) -> None:
        if records:
            self._file.change(*map(_replacing, records))

    def delete(self, *records: Record) -> None:
        if records:
            self._file.change(*map(_deleting, records))

    def records(self, kind: type[R]) -> list[R]:
        table = _TABLES[kind]
        columns = ", ".join(kind._fields)
        key = ", ".join(kind._fields[: KEY_FIELDS[kind]])
        rows = self._file.rows(f"SELECT {columns} FROM {table.name} ORDER BY {key}")
        return [kind(*self._values(kind, table, row)) for row in rows]

    def delete_vhost(self, name: str, *, is_repeated: bool = False) -> None:
        deletions = (statement(each, (stored_name(name),)) for each in _OF_VHOST)
        self._file.change(*deletions, is_removal=is_repeated)

    def has_definitions(self, vhost: str) -> bool:
        ((has_any,),) = self._file.rows(
            "SELECT EXISTS (SELECT 1 FROM queues WHERE vhost = ?1)"
            " OR EXISTS (SELECT 1 FROM exchanges WHERE vhost = ?1)",
            stored_name(vhost),
        )
        return bool(has_any)

    def when_settled(self, callback: Callable[[StoreError | None], None]) -> bool:
        return self._file.when_settled(callback)

    def _values(self, kind: type[R], table: _Table, row: tuple[Any, ...]) -> list[Any]:
        """The fields of a record. Raises StoreError for what is not JSON where it should be."""
        values: list[Any] = []
        for field, value in zip(kind._fields, row, strict=True):
            if field in table.json:
                try:
                    decoded = json.loads(value)
                except (TypeError, ValueError) as error:
                    where = f"the column '{field}' of the table '{table.name}'"
                    raise StoreError(f"{self._file.path}: damaged, {where}: {error}") from error
                values.append(tuple(decoded) if field == "tags" else decoded)
            elif field in table.flags:
                values.append(bool(value))
            elif isinstance(value, bytes):
                values.append(read_name(value))
            else:
                values.append(value)
        return values


def _replacing(record: Record) -> Operation:
    table = _TABLES[type(record)]
    places = ", ".join("?" * len(record))
    return statement(f"INSERT OR REPLACE INTO {table.name} VALUES ({places})", _row(record, table))


def _deleting(record: Record) -> Operation:
    key = record._fields[: KEY_FIELDS[type(record)]]
    condition = " AND ".join(f"{column} = ?" for column in key)
    return statement(
        f"DELETE FROM {_TABLES[type(record)].name} WHERE {condition}",
        [_stored(value) for value in key_of(record)],
    )


def _row(record: Record, table: _Table) -> list[Any]:
    return [
        json.dumps(value) if field in table.json else _stored(value)
        for field, value in zip(record._fields, record, strict=True)
    ]


def _stored(value: object) -> StoredName | object:
    return stored_name(value) if isinstance(value, str) else value
