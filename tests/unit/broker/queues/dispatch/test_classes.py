"""Classes of consumers: which bits they have, how long they are known, what they cost."""

from __future__ import annotations

import pytest

from hareline.broker.queues.dispatch.classes import EVERYTHING, UNUSED_KEPT, Labels
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.orders.fifo import FifoOrder
from hareline.broker.queues.queue import Queue
from hareline.broker.selectors.selector import compile_selector
from hareline.message import Publisher
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.turns import ManualTurn


@pytest.fixture
def labels() -> Labels:
    return Labels(None)


def join(labels: Labels, text: str | None, since_ms: int = 0) -> int:
    """The bit for one more consumer."""
    selector = None if text is None else compile_selector(text)
    bit = labels.use(selector, since_ms, None)
    return labels.add(selector, since_ms, None) if bit is None else bit


def mask(labels: Labels, **headers: object) -> int:
    queue = Queue("q", FifoOrder(), ManualTurn())
    return labels.of(QueueEntry(queue, make_message(headers=headers), 0))[0]


def test_consumers_that_want_the_same_have_one_bit(labels: Labels) -> None:
    one, two = join(labels, "a = 1"), join(labels, "a = 2")
    assert join(labels, "a = 1") == one
    assert len({EVERYTHING, one, two}) == 3
    assert mask(labels, a=2) == EVERYTHING | two
    assert join(labels, None) == EVERYTHING


def test_a_class_is_known_while_somebody_has_it(labels: Labels) -> None:
    bit = join(labels, "a = 1")
    join(labels, "a = 1")
    labels.leave(bit)
    others = [join(labels, f"a = {number}") for number in range(2, 200)]
    assert mask(labels, a=1) == EVERYTHING | bit
    assert bit not in others


def test_the_bits_of_those_that_have_left_are_given_away_the_lowest_first(labels: Labels) -> None:
    bits = [join(labels, f"a = {number}") for number in range(10)]
    for bit in (bits[7], bits[3]):
        labels.leave(bit)
    assert mask(labels, a=3) == EVERYTHING | bits[3]  # for who comes back
    assert join(labels, "b = 1") == bits[3]
    assert join(labels, "b = 2") == bits[7]
    assert join(labels, "b = 3") == bits[9] << 1
    assert mask(labels, a=3, b=1) == EVERYTHING | bits[3]


def test_only_so_many_selectors_that_nobody_has_are_held_against_messages(labels: Labels) -> None:
    bits = [join(labels, f"a = {number}") for number in range(UNUSED_KEPT + 10)]
    for bit in bits:
        labels.leave(bit)
    assert not labels.has_users
    assert len(labels._classes) == UNUSED_KEPT
    assert mask(labels, a=9) == EVERYTHING
    assert mask(labels, a=10) == EVERYTHING | bits[10]


def test_the_cost_is_that_of_the_different_selectors_in_use(labels: Labels) -> None:
    cheap, dear = compile_selector("a = 1"), compile_selector("a LIKE '%x%'")
    assert labels.cost_of(dear, 0, None) == dear.cost > cheap.cost == 1
    first = join(labels, cheap.text)
    second = join(labels, dear.text)
    join(labels, dear.text)
    assert labels.cost == cheap.cost + dear.cost
    assert labels.cost_of(dear, 0, None) == 0
    assert labels.cost_of(None, 17, None) == labels.cost_of(None, 0, Publisher()) == 1
    labels.leave(second)
    labels.leave(first)
    assert labels.cost == dear.cost
    assert labels.cost_of(cheap, 0, None) == 1


def test_what_depends_on_more_than_properties_is_asked_for_only_while_somebody_does(
    labels: Labels,
) -> None:
    asked = [labels.is_conditional]
    late, early = join(labels, "a = 1", ARRIVAL_MS + 1), join(labels, "a = 1", ARRIVAL_MS)
    asked.append(labels.is_conditional)
    assert not mask(labels, a=1) & late
    assert mask(labels, a=1) & early
    labels.leave(late)
    labels.leave(early)
    join(labels, "b = 1")
    asked.append(labels.is_conditional)
    assert asked == [False, True, False]
