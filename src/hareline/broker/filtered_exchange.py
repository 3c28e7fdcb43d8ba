"""A destination that does not accept every message: the target of a binding with a filter.

``broker.binder`` binds one of these in place of the queue or exchange, and ``broker.routing`` asks
it for each message that the exchange matched, so exchange types do not know filters. The arguments
are Broker-J's (``AMQPFilterTypes``); the language of selectors is described in docs/selectors.md.
                                                                                               [hot]

=====================  ============================================================================
argument               the message is accepted
=====================  ============================================================================
x-filter-jms-selector  if the selector is true for it
x-qpid-no-local        unless its publisher's connection owns the queue or consumes from it
=====================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.broker.exchanges.exchange import Destination
from hareline.errors import InvalidSelector
from hareline.message import Message, Publisher
from hareline.queues.core.ownership import is_own
from hareline.queues.declare.readers import SELECTOR
from hareline.queues.queue import Queue
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector

NO_LOCAL: Final = "x-qpid-no-local"


class FilteredDestination:
    """``destination`` gets the messages for which ``selector`` is true; None: all.

    ``is_no_local``: except those of connections that own the queue or consume from it.
    """

    __slots__ = ("destination", "is_no_local", "name", "selector")

    def __init__(
        self, destination: Destination, selector: Selector | None, *, is_no_local: bool
    ) -> None:
        self.name = destination.name
        self.destination = destination
        self.selector = selector
        self.is_no_local = is_no_local

    def takes(self, message: Message) -> bool:
        if self.is_no_local and _is_local(self.destination, message.address.publisher):
            return False
        return self.selector is None or self.selector.matches(message)


def _is_local(destination: Destination, publisher: Publisher | None) -> bool:
    """True if the publisher's connection owns this queue or consumes from it."""
    if publisher is None or not isinstance(destination, Queue):
        return False
    return is_own(destination.owner, publisher) or any(
        consumer.publisher is publisher for consumer in destination.consumers
    )


def is_true(value: object) -> bool:
    """A flag of Qpid's, which may come as text (``declare.readers.qpid_truth``)."""
    return str(value).lower() == "true"


def filtered(destination: Destination, arguments: Mapping[str, object]) -> Destination:
    """The destination of a binding with these arguments; raises InvalidSelector."""
    selector = selector_of(arguments)
    is_no_local = is_true(arguments.get(NO_LOCAL)) or (
        # no consumer of the queue would get its own messages, and they would gather there
        isinstance(destination, Queue)
        and destination.owner is not None
        and is_true(destination.arguments.get("no-local"))
    )
    if selector is None and not is_no_local:
        return destination
    return FilteredDestination(destination, selector, is_no_local=is_no_local)


def selector_of(arguments: Mapping[str, object]) -> Selector | None:
    """The selector in the arguments of a binding; None if absent or blank (Qpid's clients).

    Raises InvalidSelector, which says what is wrong with it.
    """
    text = arguments.get(SELECTOR)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidSelector(f"invalid arg '{SELECTOR}': expected a string")
    if not text.strip():
        return None
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise InvalidSelector(f"invalid arg '{SELECTOR}': {error}") from None
