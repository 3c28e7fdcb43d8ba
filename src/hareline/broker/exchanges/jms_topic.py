"""The ``x-jms-topic`` exchange: a message goes where the condition of a binding is true for it.

RabbitMQ's type of this name, which its JMS client declares for each subscriber of a topic that has
a selector and binds behind the topic's exchange. Called by ``broker.routing`` for every message.
[hot: match]

The condition is the binding's argument ``rjms_erlang_selector``, a term that the client made of the
selector (``selectors.erlang_condition``). It reads only headers; routing keys have
no effect on matching. As in RabbitMQ, a destination has one condition for each binding key: the one
that was bound last. Here the one before it counts again when that binding is removed.

Equal conditions are tested once for each message, however many bindings have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, cast

from hareline.broker.exchanges.bindings import ArgumentsKey, arguments_key
from hareline.broker.exchanges.destinations import DestinationSet
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import PreconditionFailed
from hareline.message import Message
from hareline.queues.declare import readers
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import ERLANG_TERMS, compile_selector

CONDITION_ARGUMENT: Final = "rjms_erlang_selector"


class _Condition:
    """``destinations``: those with a binding whose condition in force is this one."""

    __slots__ = ("destinations", "selector")

    def __init__(self, text: str) -> None:
        """Raises SelectorError."""
        self.selector = compile_selector(text, ERLANG_TERMS)
        self.destinations = DestinationSet()


# The conditions of one destination under one key, by the other arguments, in the order of binding.
_Places = dict[tuple[str, Destination], dict[ArgumentsKey, str]]


class JmsTopicExchange(Exchange):
    """``_conditions``: those in force, by text. ``_places``: the bindings of each destination."""

    type_name: ClassVar[str] = "x-jms-topic"
    matches_every_key: ClassVar[bool] = False

    __slots__ = ("_conditions", "_places")

    def _begin(self) -> None:
        self.is_static = False
        self._conditions: dict[str, _Condition] = {}
        self._places: _Places = {}

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        subject = cast("Message", message)  # what the vhost routes is one
        found: list[Destination] = []
        for condition in self._conditions.values():
            if condition.selector.matches(subject):
                found.extend(condition.destinations.members())
        return found

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises PreconditionFailed if the argument is missing or not a valid condition."""
        text = arguments.get(CONDITION_ARGUMENT)
        if not isinstance(text, str):
            raise _refusal(f"expected a string, not {readers.type_name(text)}")
        try:
            condition = self._conditions.get(text) or _Condition(text)
        except SelectorError as error:
            raise _refusal(str(error)) from None
        place = self._places.setdefault((routing_key, destination), {})
        if place:
            self._withdraw(_last(place), destination)
        place[arguments_key(arguments)] = text
        self._enforce(condition, destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        place = self._places[routing_key, destination]
        before = _last(place)
        del place[arguments_key(arguments)]
        self._withdraw(before, destination)
        if place:
            text = _last(place)
            self._enforce(self._conditions.get(text) or _Condition(text), destination)
        else:
            del self._places[routing_key, destination]

    def _enforce(self, condition: _Condition, destination: Destination) -> None:
        self._conditions[condition.selector.text] = condition
        condition.destinations.add(destination)

    def _withdraw(self, text: str, destination: Destination) -> None:
        condition = self._conditions[text]
        condition.destinations.remove(destination)
        if not condition.destinations:
            del self._conditions[text]


def _refusal(problem: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{CONDITION_ARGUMENT}': {problem}")


def _last(place: dict[ArgumentsKey, str]) -> str:
    """The condition that is in force."""
    return next(reversed(place.values()))
