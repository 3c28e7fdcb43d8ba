"""The book of last values: keys, which value is stale, and what is forgotten when.

What a queue makes of it is in test_last_value_order.py.
"""

from __future__ import annotations

import gc
import weakref
from decimal import Decimal

import pytest

from hareline.message import Table
from hareline.queues.core.entry import ACQUIRED, SETTLED, RankedEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValues, last_value_key
from hareline.queues.queue import Queue
from hareline.wire.table import Array, Float, LongLong, Short, SignedInt, Timestamp
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

KEY = "stock"


@pytest.fixture
def values() -> LastValues:
    return LastValues(KEY)


def entry_of(key: object, offset: int = 0) -> RankedEntry:
    queue = Queue("q", FifoOrder(), ManualTurn())
    return RankedEntry(queue, make_message(headers=Table({KEY: key})), offset)


def test_a_newer_value_replaces_the_older_of_its_key(values: LastValues) -> None:
    first, other, second = entry_of("IBM", 0), entry_of("SUN", 1), entry_of("IBM", 2)
    assert values.replaced_by(first) is None
    assert values.replaced_by(other) is None
    assert values.replaced_by(second) is first
    assert values.replaced_by(second) is None, "an entry does not replace itself"
    assert values.key_count == 2


def test_one_that_a_consumer_has_is_stale_and_not_replaced(values: LastValues) -> None:
    older, newer = entry_of("IBM", 0), entry_of("IBM", 1)
    values.replaced_by(older)
    older.state = ACQUIRED
    assert values.replaced_by(newer) is None
    assert values.is_stale(older)
    assert not values.is_stale(newer)


def test_a_stale_one_is_forgotten_when_it_is_settled(values: LastValues) -> None:
    older, newer = entry_of("IBM", 0), entry_of("IBM", 1)
    values.replaced_by(older)
    older.state = ACQUIRED
    values.replaced_by(newer)
    older.state = SETTLED
    values.forget(older)
    assert not values.is_stale(older)
    assert values.key_count == 1, "the newer one is still there"
    values.forget(newer)
    assert values.key_count == 0


def test_everything_is_forgotten_with_the_queue(values: LastValues) -> None:
    older, newest = entry_of("IBM", 0), entry_of("IBM", 1)
    values.replaced_by(older)
    older.state = ACQUIRED
    values.replaced_by(newest)
    values.forget_all()
    assert values.key_count == 0
    assert not values.is_stale(older)
    values.forget(newest)  # settled later, which is no error
    values.forget(older)


class WatchedValues(LastValues):
    __slots__ = ("__weakref__",)


def test_it_is_in_no_reference_cycle() -> None:
    values = WatchedValues(KEY)
    values.replaced_by(entry_of("IBM"))
    assert values.key_count == 1
    watched = weakref.ref(values)
    gc.disable()
    try:
        del values
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "keys",
    [
        (1, "1", 1.0, True, Timestamp(1), SignedInt(1), Short(1), Float(1.0), Decimal(1), b"1"),
        ("", 0, False, 0.0, b""),
        (Decimal("1.0"), Decimal("1.00")),
        (Array([1]), Array([SignedInt(1)]), Array(), Table(), Table({"a": 1})),
        (float("nan"), "nan"),
    ],
)
def test_keys_differ_in_type_and_value(keys: tuple[object, ...]) -> None:
    assert len({last_value_key(value) for value in keys}) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IBM", "IBM"),
        (5, LongLong(5)),
        (float("nan"), float("nan")),
        (Table({"a": 1, "b": Array(["x"])}), Table({"b": Array(["x"]), "a": 1})),
        (b"\xff", b"\xff"),
    ],
)
def test_equal_values_of_one_type_are_one_key(one: object, other: object) -> None:
    assert last_value_key(one) == last_value_key(other)
