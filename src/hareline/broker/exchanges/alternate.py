"""The alternate of an exchange, by the names that exchange.declare accepts for it.

=======================  ===========================  =============================================
name                     value                        where an unmatched message goes
=======================  ===========================  =============================================
``alternate-exchange``   text (RabbitMQ)              to the exchange of this name, if there is one
``alternateExchange``    text (Qpid)                  the same
``alternateBinding``     table or JSON with           the same, or else to the queue of this name
                         ``destination`` (Qpid)
=======================  ===========================  =============================================

``broker.declarations`` stores the value of Qpid's names under RabbitMQ's name, by which exchanges
are compared, kept in the definitions and checked for permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.errors import PreconditionFailed
from hareline.queues.declare import readers
from hareline.queues.declare.readers import InvalidValue, Reader

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
ALTERNATE_BINDING: Final = "alternateBinding"
_QPID_READERS: Final[Mapping[str, Reader]] = {
    "alternateExchange": readers.filled_text,
    ALTERNATE_BINDING: readers.alternate_binding,
}


def with_alternate(
    arguments: Mapping[str, object], *, exchange: str, vhost: str
) -> Mapping[str, object]:
    """The arguments, with ``alternate-exchange`` if one of Qpid's names gives it.

    Raises PreconditionFailed for invalid values of Qpid's names, and for names that differ.
    The caller checks the value of RabbitMQ's name.
    """
    given = [name for name in _QPID_READERS if name in arguments]
    if not given:
        return arguments
    place = f"exchange '{exchange}' in vhost '{vhost}'"
    result = dict(arguments)
    setter = ALTERNATE_EXCHANGE
    for name in given:
        value = arguments[name]
        try:
            alternate = _QPID_READERS[name](value, readers.type_name(value))
        except InvalidValue as problem:
            raise PreconditionFailed(f"invalid arg '{name}' for {place}: {problem.term}") from None
        if ALTERNATE_EXCHANGE not in result:
            setter = name
            result[ALTERNATE_EXCHANGE] = alternate
        elif result[ALTERNATE_EXCHANGE] != alternate:
            raise PreconditionFailed(
                f"contradictory args '{setter}' and '{name}' for {place}: "
                "they mean the same and differ"
            )
    return result
