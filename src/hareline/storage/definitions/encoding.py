"""How names and arguments stand in the tables.

Called by ``definitions.sqlite`` and ``definitions.hosts``. What a client chose survives as it came:
names need not be UTF-8, and arguments are kept as the octets of an AMQP table, with the wire type
of each value.

Invariant: each name has one form. A name that is UTF-8 is stored as text, which SQLite's own tools
show, any other as a blob of its octets; to SQLite a text never equals a blob.
"""

from __future__ import annotations

from collections.abc import Mapping

from hareline.message import Table, encode_fields

StoredName = str | bytes


def stored_name(name: str) -> StoredName:
    """Return the column value of a name, which has surrogates for octets that are not UTF-8."""
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
