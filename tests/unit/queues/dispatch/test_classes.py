"""Classes of consumers: which bits they have, how long they are known, what they cost."""

from __future__ import annotations

import pytest

from hareline.message import Publisher
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.classes import EVERYTHING, UNUSED_KEPT, MessageClasses
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.turns import ManualTurn


@pytest.fixture
def classes() -> MessageClasses:
    return MessageClasses(None)


def join(classes: MessageClasses, text: str | None, since_ms: int = 0) -> int:
    """The bit for one more consumer."""
    selector = None if text is None else compile_selector(text)
    bit = classes.use(selector, since_ms, None)
    return classes.add(selector, since_ms, None) if bit is None else bit


def mask(classes: MessageClasses, **headers: object) -> int:
    queue = Queue("q", FifoOrder(), ManualTurn())
    return classes.of(QueueEntry(queue, make_message(headers=headers), 0))[0]


def test_consumers_that_want_the_same_have_one_bit(classes: MessageClasses) -> None:
    one, two = join(classes, "a = 1"), join(classes, "a = 2")
    assert join(classes, "a = 1") == one
    assert len({EVERYTHING, one, two}) == 3
    assert mask(classes, a=2) == EVERYTHING | two
    assert join(classes, None) == EVERYTHING


def test_a_class_is_known_while_somebody_has_it(classes: MessageClasses) -> None:
    bit = join(classes, "a = 1")
    join(classes, "a = 1")
    classes.leave(bit)
    others = [join(classes, f"a = {number}") for number in range(2, 200)]
    assert mask(classes, a=1) == EVERYTHING | bit
    assert bit not in others


def test_the_bits_of_those_that_have_left_are_given_away_the_lowest_first(
    classes: MessageClasses,
) -> None:
    bits = [join(classes, f"a = {number}") for number in range(10)]
    for bit in (bits[7], bits[3]):
        classes.leave(bit)
    assert mask(classes, a=3) == EVERYTHING | bits[3]  # for who comes back
    assert join(classes, "b = 1") == bits[3]
    assert join(classes, "b = 2") == bits[7]
    assert join(classes, "b = 3") == bits[9] << 1
    assert mask(classes, a=3, b=1) == EVERYTHING | bits[3]


def test_only_so_many_selectors_that_nobody_has_are_held_against_messages(
    classes: MessageClasses,
) -> None:
    bits = [join(classes, f"a = {number}") for number in range(UNUSED_KEPT + 10)]
    for bit in bits:
        classes.leave(bit)
    assert not classes.has_users
    assert len(classes._classes) == UNUSED_KEPT
    assert mask(classes, a=9) == EVERYTHING
    assert mask(classes, a=10) == EVERYTHING | bits[10]


def test_the_cost_is_that_of_the_different_selectors_in_use(classes: MessageClasses) -> None:
    cheap, dear = compile_selector("a = 1"), compile_selector("a LIKE '%x%'")
    assert classes.cost_of(dear, 0, None) == dear.cost > cheap.cost == 1
    first = join(classes, cheap.text)
    second = join(classes, dear.text)
    join(classes, dear.text)
    assert classes.cost == cheap.cost + dear.cost
    assert classes.cost_of(dear, 0, None) == 0
    assert classes.cost_of(None, 17, None) == classes.cost_of(None, 0, Publisher()) == 1
    classes.leave(second)
    classes.leave(first)
    assert classes.cost == dear.cost
    assert classes.cost_of(cheap, 0, None) == 1


def test_what_depends_on_more_than_properties_is_asked_for_only_while_somebody_does(
    classes: MessageClasses,
) -> None:
    asked = [classes.is_conditional]
    late, early = join(classes, "a = 1", ARRIVAL_MS + 1), join(classes, "a = 1", ARRIVAL_MS)
    asked.append(classes.is_conditional)
    assert not mask(classes, a=1) & late
    assert mask(classes, a=1) & early
    classes.leave(late)
    classes.leave(early)
    join(classes, "b = 1")
    asked.append(classes.is_conditional)
    assert asked == [False, True, False]
