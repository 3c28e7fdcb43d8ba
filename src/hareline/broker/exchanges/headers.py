"""The headers exchange: a message goes where its headers meet the conditions of a binding.

AMQP 0-9-1 section 3.1.3.4. Called by ``broker.routing`` for every message.          [hot: match]

The binding arguments are the conditions, one per name; ``x-match`` says how they count:

==========  =============================================  =====================
x-match     met when                                       names in "x-..."
==========  =============================================  =====================
all         every condition holds (none at all: always)    do not count
any         at least one holds (none at all: never)        do not count
all-with-x  as all                                         count, except x-match
any-with-x  as any                                         count, except x-match
==========  =============================================  =====================

Without ``x-match`` it is ``all``. A condition with a void value holds if the header is present, any
other if the header has this value *of this class of types* (``comparable``).

A match does not try every binding. The conditions are indexed by (name, value), and the headers
of the message are looked up there: an ``any`` binding is indexed by each of its conditions, an
``all`` binding by one, the rarest when it was made, and the others are checked if that one holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import ClassVar, Final

from hareline.broker.exchanges import erlang_terms
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import PreconditionFailed
from hareline.queues.declare import readers

_MATCH_ARGUMENT: Final = "x-match"
_TIMESTAMP_KIND: Final = "T"
_PRESENT: Final = object()  # stands for the value in a condition without one


def comparable(value: object) -> object:
    """A hashable stand-in for a header value, equal for equal values of one class of types only.

    The classes: bool; integer, of any width; float, of both widths; text or octets; timestamp;
    decimal, of one scale; array; table; void. So True is not 1, and 1 is neither 1.0 nor "1", as
    in RabbitMQ 4 (it compares with ``=:=``, for which text and octets are the same).
    """
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is bool:
        return ("bool", value)
    # wire.table's subclasses carry the octet of their wire type; asked for before mypyc makes a
    # plain int of the value
    is_timestamp = getattr(value, "kind", None) == _TIMESTAMP_KIND
    if isinstance(value, int):
        return ("timestamp", int(value)) if is_timestamp else int(value)
    if isinstance(value, float):
        return ("float", float(value))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")  # as table decodes text
    if isinstance(value, Mapping):
        return ("table", frozenset([(key, comparable(item)) for key, item in value.items()]))
    if isinstance(value, (list, tuple)):
        return ("array", tuple([comparable(item) for item in value]))
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    return (kind.__name__, value)


class _Binding:
    """The bindings of one destination with one set of conditions; ``count`` of them.

    ``posted``: the conditions it is found by. ``rest``: the conditions that must also hold. A
    condition is (name, comparable value or ``_PRESENT``).
    """

    __slots__ = ("count", "destination", "posted", "rest")

    def __init__(
        self,
        destination: Destination,
        posted: list[tuple[str, object]],
        rest: list[tuple[str, object]],
    ) -> None:
        self.destination = destination
        self.posted = posted
        self.rest = rest
        self.count = 1


_Posting = dict[_Binding, None]  # in binding order, with removal by key


class HeadersExchange(Exchange):
    """``_always``: bindings that match every message. ``_postings``: name -> value -> bindings."""

    type_name: ClassVar[str] = "headers"
    matches_every_key: ClassVar[bool] = False

    __slots__ = ("_always", "_bindings", "_postings")

    def _begin(self) -> None:
        self.is_static = False
        self._always: _Posting = {}
        self._bindings: dict[tuple[Destination, object], _Binding] = {}
        self._postings: dict[str, dict[object, _Posting]] = {}

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        found = [binding.destination for binding in self._always]
        postings = self._postings
        if not postings:
            return found
        headers = message.headers
        names: Iterable[str] = headers
        if len(headers) > len(postings):
            names = [name for name in postings if name in headers]
        for name in names:
            by_value = postings.get(name)
            if by_value is None:
                continue
            value = headers[name]
            posting = by_value.get(comparable(value))
            if posting is not None:
                self._check(posting, headers, found)
            posting = by_value.get(_PRESENT)
            if posting is not None:
                self._check(posting, headers, found)
        return found

    def _check(self, posting: _Posting, headers: Arguments, found: list[Destination]) -> None:
        """Append the destinations whose remaining conditions also hold."""
        for binding in posting:
            for name, wanted in binding.rest:
                if name not in headers:
                    break
                if wanted is not _PRESENT and comparable(headers[name]) != wanted:
                    break
            else:
                found.append(binding.destination)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises PreconditionFailed (RabbitMQ's text) if ``x-match`` is invalid."""
        mode = _match_mode(arguments)
        key = (destination, comparable(arguments))
        binding = self._bindings.get(key)
        if binding is not None:  # the same conditions under another routing key
            binding.count += 1
            return
        conditions = _conditions(arguments, counts_x=mode.endswith("-with-x"))
        if mode.startswith("any"):
            binding = _Binding(destination, conditions, [])
        elif conditions:
            rarest = self._rarest(conditions)
            rest = [condition for condition in conditions if condition is not rarest]
            binding = _Binding(destination, [rarest], rest)
        else:
            binding = _Binding(destination, [], [])
            self._always[binding] = None
        self._bindings[key] = binding
        for name, wanted in binding.posted:
            self._postings.setdefault(name, {}).setdefault(wanted, {})[binding] = None

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        key = (destination, comparable(arguments))
        binding = self._bindings[key]
        binding.count -= 1
        if binding.count:
            return
        del self._bindings[key]
        self._always.pop(binding, None)
        for name, wanted in binding.posted:
            by_value = self._postings[name]
            posting = by_value[wanted]
            del posting[binding]
            if not posting:
                del by_value[wanted]
                if not by_value:
                    del self._postings[name]

    def _rarest(self, conditions: list[tuple[str, object]]) -> tuple[str, object]:
        """The condition that indexes the fewest bindings; a value rather than a presence."""
        rarest = conditions[0]
        fewest = self._posting_weight(rarest)
        for condition in conditions[1:]:
            weight = self._posting_weight(condition)
            if weight < fewest:
                rarest, fewest = condition, weight
        return rarest

    def _posting_weight(self, condition: tuple[str, object]) -> tuple[bool, int]:
        name, wanted = condition
        return wanted is _PRESENT, len(self._postings.get(name, {}).get(wanted, {}))


def _match_mode(arguments: Arguments) -> str:
    """The value of ``x-match``, checked."""
    if _MATCH_ARGUMENT not in arguments:
        return "all"
    mode = arguments[_MATCH_ARGUMENT]
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {readers.type_name(mode)}"
            f" (value {erlang_terms.term(mode)}); expected longstr"
        )
    if mode not in ("all", "any", "all-with-x", "any-with-x"):
        raise PreconditionFailed(
            f"Invalid x-match field value {erlang_terms.term(mode)};"
            " expected all, any, all-with-x, or any-with-x"
        )
    return mode


def _conditions(arguments: Arguments, *, counts_x: bool) -> list[tuple[str, object]]:
    """The arguments that are conditions, with their values made comparable."""
    conditions: list[tuple[str, object]] = []
    for name, value in arguments.items():
        if name == _MATCH_ARGUMENT or (name.startswith("x-") and not counts_x):
            continue
        conditions.append((name, _PRESENT if value is None else comparable(value)))
    return conditions
