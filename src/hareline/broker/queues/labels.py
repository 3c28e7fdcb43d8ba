"""What can be read off a message for the selective lane: the selectors true of it, and its group.

Consumers with the same selector, the same start in time and the same publisher that is barred to
them are a *class*, and each class has a bit; a message's mask has the bits of the classes whose
selector is true. Both are worked out once for each set of properties. ``selective`` asks for every
entry that comes up.                                                                         [hot]

Invariant: a bit stands for the same class as long as anybody has it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hareline.broker.queues.property_cache import PropertyCache
from hareline.broker.selectors.selector import Selector

if TYPE_CHECKING:
    from hareline.broker.queues.entry import QueueEntry
    from hareline.broker.queues.groups import GroupKeys
    from hareline.message import Message, Publisher

EVERYTHING: Final = 1  # the bit of consumers that may have any entry

Label = tuple[int, Any, int]  # mask, key of the group or None, JMSXGroupSeq or 0


class SelectorClass:
    """Consumers that want the same messages: ``bit`` says in a mask that they match."""

    __slots__ = ("barred", "bit", "selector", "since_ms")

    def __init__(
        self, bit: int, selector: Selector | None, since_ms: int, barred: Publisher | None
    ) -> None:
        self.bit = bit
        self.selector = selector
        self.since_ms = since_ms
        self.barred = barred

    @property
    def asks_redelivered(self) -> bool:
        return self.selector is not None and "JMSRedelivered" in self.selector.identifiers


class Labels:
    """``keys`` reads the groups, None in a queue without.

    ``by_properties`` gives the label of a message as far as that is a matter of its properties;
    while ``is_conditional``, more has to be looked at, and ``of`` does.
    """

    __slots__ = ("_classes", "by_properties", "is_conditional")

    def __init__(self, keys: GroupKeys | None) -> None:
        self._classes: list[SelectorClass] = []
        # a partial of a function, as a method of this object would make a reference cycle of it
        self.by_properties: PropertyCache[Label] = PropertyCache(
            partial(_read, self._classes, keys)
        )
        self.is_conditional = False

    def known_bit(
        self, selector: Selector | None, since_ms: int, barred: Publisher | None
    ) -> int | None:
        """The bit of this class; None for a class that has to be added."""
        if selector is None and not since_ms and barred is None:
            return EVERYTHING
        text = None if selector is None else selector.text
        for one in self._classes:
            is_same = one.since_ms == since_ms and one.barred is barred
            if is_same and text == (one.selector and one.selector.text):
                return one.bit
        return None

    def add(
        self,
        selector: Selector | None,
        since_ms: int,
        barred: Publisher | None,
        bits_in_use: set[int],
    ) -> int:
        """The bit of a new class. Those that nobody has are given up, and all labels are void."""
        self.by_properties.clear()
        classes = self._classes
        classes[:] = [one for one in classes if one.bit in bits_in_use]
        bit = EVERYTHING << 1
        while bit in bits_in_use:
            bit <<= 1
        classes.append(SelectorClass(bit, selector, since_ms, barred))
        self.is_conditional = any(
            one.since_ms or one.barred is not None or one.asks_redelivered for one in classes
        )
        return bit

    def of(self, entry: QueueEntry) -> Label:
        """The label with what depends on more than the properties."""
        label = self.by_properties(entry.message)
        if not self.is_conditional:
            return label
        mask, key, sequence = label
        message = entry.message
        for one in self._classes:
            is_own = one.barred is not None and message.address.publisher is one.barred
            if is_own or message.arrival_ms < one.since_ms:
                mask &= ~one.bit
            elif one.selector is not None and entry.delivery_count and one.asks_redelivered:
                is_true = one.selector.matches(message, True)
                message.forget_properties()
                mask = mask | one.bit if is_true else mask & ~one.bit
        return mask, key, sequence


def _read(classes: list[SelectorClass], keys: GroupKeys | None, message: Message) -> Label:
    """As for a message that was not delivered before."""
    mask = EVERYTHING
    for one in classes:
        if one.selector is None or one.selector.matches(message):
            mask |= one.bit
    message.forget_properties()
    if keys is None:
        return mask, None, 0
    key, sequence = keys(message)
    return mask, key, sequence
