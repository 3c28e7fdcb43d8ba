"""The meaning of names and values in a language of conditions.

Read by ``selectors.compiler``; compiled code depends only on these rules and the tree. There
are two languages: ``JMS`` is that of selectors, ``ERLANG`` that of the terms that RabbitMQ's JMS
client sends to ``x-jms-topic`` exchanges. They differ in this:

========================  ================================  ====================================
.                         JMS                               ERLANG
========================  ================================  ====================================
a name                    a property of the message         a header of any name
                          (``identifiers``), or a header
octets, tables, arrays    not NULL, and equal to nothing    unknown, as if absent
1 = 'a', 1 <> 'a'         both false                        false, true
1 < 'a', 'a' < 'b'        both false                        both true
7 / 2                     3                                 3.5
the largest long plus 1   the smallest                      2**63
========================  ================================  ====================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from hareline.selectors import erlang_values, values
from hareline.selectors.identifiers import KNOWN_NAMES, KnownName, expiration_ms

_NO_HEADERS: Final[Mapping[str, object]] = {}

_COMPARING: Final = ("equal", "unequal", "less", "at_most", "between", "not_between")
_COMPUTING: Final = ("add", "subtract", "multiply", "divide", "remainder", "negate", "number")


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The rules of one language.

    ``names``: names that are not headers. ``reading``: a Python expression for
    the header whose name is the constant ``{name}``; only it uses the local ``h``.

    ``has_one_order``: values of all types have one order, and values of different types are
    unequal; without it only numbers have an order, and such values are neither equal nor unequal.
    ``namespace``: the names that generated code sees, with the functions that compare and compute.
    """

    names: Mapping[str, KnownName]
    reading: str
    has_one_order: bool
    namespace: Mapping[str, object]


def _namespace(module: ModuleType, **more: object) -> Mapping[str, object]:
    """The functions that code of every language calls, and those in ``module``."""
    computing: dict[str, Callable[..., object]] = {
        name: getattr(module, name)
        for name in (*_COMPARING, *_COMPUTING)
        if hasattr(module, name)  # Erlang's language has no remainder
    }
    return {
        "__builtins__": {},
        "IS_NUMBER": values.IS_NUMBER,
        "NO_HEADERS": _NO_HEADERS,
        "TEXT": str,
        "all_of": values.all_of,
        "any_of": values.any_of,
        "boolean": values.boolean,
        "length": len,
        "opposite": values.opposite,
        **computing,
        **more,
    }


JMS: Final = Rules(
    names=KNOWN_NAMES,
    reading="headers.get({name})",
    has_one_order=False,
    namespace=_namespace(values, expiration_ms=expiration_ms),
)
ERLANG: Final = Rules(
    names={},
    reading="(h if IS_SCALAR[(h := headers.get({name})).__class__] else None)",
    has_one_order=True,
    namespace=_namespace(erlang_values, IS_SCALAR=erlang_values.IS_SCALAR),
)
