"""Values as Erlang terms, as RabbitMQ writes them in a reply text: ``<<"text">>`` or ``5``.

Clients and their tests compare these texts, so exchanges that quote a client's value
write it the same way. Checked against the replies of RabbitMQ 3.10.8. Called only to make an
error text.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from hareline.queues.declare.readers import type_name

_ESCAPES: Final = {
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
    0x1B: "\\e",
    0x22: '\\"',
    0x5C: "\\\\",
}


def term(value: object) -> str:
    """A value of a decoded table, as Erlang's ``~tp`` prints it on one line."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return binary_term(value)
    if isinstance(value, Decimal):
        return _decimal_term(value)
    if isinstance(value, Mapping):
        fields = [f"{{{binary_term(key)},{_typed(item)}}}" for key, item in value.items()]
        return f"[{','.join(fields)}]"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([f'{{{_typed(item)}}}' for item in value])}]"
    return str(value)


def binary_term(value: str | bytes) -> str:
    """``<<"text">>`` if every octet is printable in Latin-1, else ``<<1,2,3>>``, octet by octet."""
    octets = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if not octets:
        return "<<>>"
    if all(map(_is_printable, octets)):
        # the reply has the octets as they came, so that UTF-8 stays readable
        return f'<<"{octets.decode("utf-8", "replace").translate(_ESCAPES)}">>'
    return f"<<{','.join([str(octet) for octet in octets])}>>"


def _typed(value: object) -> str:
    return f"{type_name(value)},{term(value)}"


def _is_printable(octet: int) -> bool:
    return 0x20 <= octet < 0x7F or octet >= 0xA0 or 0x08 <= octet <= 0x0D or octet == 0x1B


def _decimal_term(value: Decimal) -> str:
    """``{scale,mantissa}``, as it stands on the wire."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN and infinity, which no wire type holds
        return str(value)
    mantissa = int("".join([str(digit) for digit in digits])) * (-1 if sign else 1)
    return f"{{{max(-exponent, 0)},{mantissa * 10 ** max(exponent, 0)}}}"
