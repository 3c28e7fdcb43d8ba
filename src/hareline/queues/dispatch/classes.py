"""The class of a message for the selective lane: the selectors that are true of it, and its group.

Consumers with the same selector, the same start in time and the same ``no_local_of`` are a
*selector class*, and each of these has a bit; a message's mask has the bits of the selector classes
that it is for. Mask and group are worked out once for each set of properties. ``placing`` asks for
the class of every entry that comes up.                                                      [hot]

Invariant: a bit stands for the same selector class as long as a consumer has it, and is given to
another one only by ``add``.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from hareline.queues.core.property_cache import PropertyCache
from hareline.selectors.selector import Selector

if TYPE_CHECKING:
    from hareline.message import Message, Publisher
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.groups import GroupKeys

EVERYTHING: Final = 1  # the bit of consumers that may have any entry
FIRST_NUMBER: Final = 1  # of a class; its bit comes behind that one

# Selector classes that are remembered when the last consumer has left: nothing changes when one
# comes back with the same selector, as for the next reply.
UNUSED_KEPT: Final = 64

MessageClass = tuple[int, Any, int]  # mask, key of the group or None, JMSXGroupSeq or 0
ClassKey = tuple[str | None, int, "Publisher | None"]  # text, since_ms, no_local_of


class SelectorClass:
    """Consumers that want the same messages.

    ``bit``, the one of this ``number``, is in the mask of each message that is for them.
    ``user_count``: how many they are. ``cost``: as how many ordinary selectors it counts.
    """

    __slots__ = ("bit", "key", "no_local_of", "number", "selector", "since_ms", "user_count")

    def __init__(
        self, number: int, selector: Selector | None, since_ms: int, no_local_of: Publisher | None
    ) -> None:
        self.number = number
        self.bit = 1 << number
        self.selector = selector
        self.since_ms = since_ms
        self.no_local_of = no_local_of
        self.key: ClassKey = _key(selector, since_ms, no_local_of)
        self.user_count = 0

    @property
    def cost(self) -> int:
        return 1 if self.selector is None else self.selector.cost

    @property
    def asks_redelivered(self) -> bool:
        return self.selector is not None and "JMSRedelivered" in self.selector.identifiers

    @property
    def is_conditional(self) -> bool:
        return bool(self.since_ms) or self.no_local_of is not None or self.asks_redelivered


def _key(selector: Selector | None, since_ms: int, no_local_of: Publisher | None) -> ClassKey:
    return None if selector is None else selector.text, since_ms, no_local_of


class MessageClasses:
    """``keys`` reads the groups; None in a queue without groups.

    ``by_properties`` gives the class of a message as far as its properties decide it; while
    ``is_conditional``, more has to be looked at, and ``of`` does. ``cost``: that of all selector
    classes that consumers have.
    """

    __slots__ = (
        "_classes",
        "_conditional",
        "_free_numbers",
        "_unused",
        "_used",
        "by_properties",
        "cost",
        "is_conditional",
    )

    def __init__(self, keys: GroupKeys | None) -> None:
        self._classes: dict[ClassKey, SelectorClass] = {}
        self._used: dict[int, SelectorClass] = {}  # by number; a dict by long bits would be slow
        self._unused: dict[ClassKey, SelectorClass] = {}  # the longest unused first
        self._conditional: dict[ClassKey, SelectorClass] = {}
        self._free_numbers: list[int] = []  # a heap; all below the highest ever used
        # a partial of a function, as a method of this object would make a reference cycle of it
        self.by_properties: PropertyCache[MessageClass] = PropertyCache(
            partial(_read, self._classes, keys)
        )
        self.is_conditional = False
        self.cost = 0

    @property
    def has_users(self) -> bool:
        """True if a consumer has a selector class, and may not have everything."""
        return bool(self._used)

    def use(
        self, selector: Selector | None, since_ms: int, no_local_of: Publisher | None
    ) -> int | None:
        """The bit of this selector class for one more consumer; None if it has to be added."""
        if selector is None and not since_ms and no_local_of is None:
            return EVERYTHING
        one = self._classes.get(_key(selector, since_ms, no_local_of))
        return None if one is None else self._use(one)

    def _use(self, one: SelectorClass) -> int:
        if not one.user_count:
            self._unused.pop(one.key, None)
            self._used[one.number] = one
            self.cost += one.cost
        one.user_count += 1
        return one.bit

    def leave(self, bit: int) -> None:
        """Count one consumer less for the selector class with this bit."""
        if bit == EVERYTHING:
            return
        one = self._used[bit.bit_length() - 1]
        one.user_count -= 1
        if not one.user_count:
            del self._used[one.number]
            self.cost -= one.cost
            self._unused[one.key] = one
            if len(self._unused) > UNUSED_KEPT:
                self._give_up(next(iter(self._unused.values())))

    def _give_up(self, one: SelectorClass) -> None:
        """Forget an unused selector class; masks with its bit stay good, as no consumer has it."""
        del self._unused[one.key]
        del self._classes[one.key]
        if self._conditional.pop(one.key, None) is not None:
            self.is_conditional = bool(self._conditional)
        heappush(self._free_numbers, one.number)

    def add(self, selector: Selector | None, since_ms: int, no_local_of: Publisher | None) -> int:
        """The bit of a new selector class, for its first consumer.

        Unused ones are given up, and all message classes are worked out again.
        """
        self.by_properties.clear()
        for unused in list(self._unused.values()):
            self._give_up(unused)
        free = self._free_numbers
        number = heappop(free) if free else FIRST_NUMBER + len(self._classes)
        one = SelectorClass(number, selector, since_ms, no_local_of)
        self._classes[one.key] = one
        if one.is_conditional:
            self._conditional[one.key] = one
            self.is_conditional = True
        return self._use(one)

    def cost_of(
        self, selector: Selector | None, since_ms: int, no_local_of: Publisher | None
    ) -> int:
        """Return the ``cost`` that a consumer of this selector class would add."""
        one = self._classes.get(_key(selector, since_ms, no_local_of))
        if one is not None and one.user_count:
            return 0
        return 1 if selector is None else selector.cost

    def of(self, entry: QueueEntry) -> MessageClass:
        """The class of an entry's message, with what depends on more than the properties."""
        found = self.by_properties(entry.message)
        if not self.is_conditional:
            return found
        mask, key, sequence = found
        message = entry.message
        for one in self._conditional.values():
            is_own = one.no_local_of is not None and message.address.publisher is one.no_local_of
            if is_own or message.arrival_ms < one.since_ms:
                mask &= ~one.bit
            elif one.selector is not None and entry.delivery_count and one.asks_redelivered:
                is_true = one.selector.matches(message, True)
                message.forget_properties()
                mask = mask | one.bit if is_true else mask & ~one.bit
        return mask, key, sequence


def _read(
    classes: dict[ClassKey, SelectorClass], keys: GroupKeys | None, message: Message
) -> MessageClass:
    """The class of a message that was not delivered before."""
    mask = EVERYTHING
    for one in classes.values():
        if one.selector is None or one.selector.matches(message):
            mask |= one.bit
    message.forget_properties()
    if keys is None:
        return mask, None, 0
    key, sequence = keys(message)
    return mask, key, sequence
