"""A destination behind a message selector: what a binding with ``x-filter-jms-selector`` leads to.

``broker.vhost`` binds one of these in place of the queue or exchange and asks it for each message
that the exchange matched, so exchange types know nothing of selectors. The argument is Broker-J's
(``AMQPFilterTypes.JMS_SELECTOR``); the language is described in docs/selectors.md.        [hot]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.broker.exchanges.exchange import Destination
from hareline.broker.selectors.error import SelectorError
from hareline.broker.selectors.selector import Selector, compile_selector
from hareline.errors import PreconditionFailed

SELECTOR_ARGUMENT: Final = "x-filter-jms-selector"


class FilteredDestination:
    """``destination`` gets the messages of which ``selector`` is true."""

    __slots__ = ("destination", "name", "selector")

    def __init__(self, destination: Destination, selector: Selector) -> None:
        self.name = destination.name
        self.destination = destination
        self.selector = selector


def selector_of(arguments: Mapping[str, object]) -> Selector | None:
    """The selector in the arguments of a binding; None for none, or a blank one (Qpid's clients).

    Raises PreconditionFailed that says what is wrong with it.
    """
    text = arguments.get(SELECTOR_ARGUMENT)
    if text is None:
        return None
    if not isinstance(text, str):
        raise PreconditionFailed(f"invalid arg '{SELECTOR_ARGUMENT}': expected a string")
    if not text.strip():
        return None
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise PreconditionFailed(f"invalid arg '{SELECTOR_ARGUMENT}': {error}") from None
