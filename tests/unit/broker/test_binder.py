"""Carrying bindings out: everywhere, or nowhere when the definitions fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.binder import Binder
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.topic import TopicExchange
from hareline.broker.unbinding import Unbinding
from hareline.errors import StoreError
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore
from tests.support.messages import make_message
from tests.support.stores import FakeDefinitions
from tests.support.turns import ManualTurn

OLD, NEW = {"x-filter-jms-selector": "n = 1"}, {"x-filter-jms-selector": "n = 2"}


class Place:
    """An exchange, a queue, and the definitions of both."""

    def __init__(self, definitions: DefinitionStore | None = None) -> None:
        self.definitions = definitions or FakeDefinitions()
        self.changes = 0
        self.binder = Binder(
            "/",
            self.definitions,
            self._on_changed,
            self._on_changed,
            lambda _: True,
            Unbinding(ManualTurn()),
            lambda _: None,
        )
        self.exchange = TopicExchange("x")
        self.queue = Queue("q", FifoOrder(), ManualTurn())

    def _on_changed(self) -> None:
        self.changes += 1

    def fail(self) -> None:
        assert isinstance(self.definitions, FakeDefinitions)
        self.definitions.failure = "disk I/O error"

    def bind(self, arguments: Mapping[str, object], *, is_by_key: bool = True) -> None:
        binding = Binding.of("x", "queue", "q", "key", arguments)
        self.binder.bind(self.exchange, self.queue, binding, is_kept=True, is_by_key=is_by_key)

    def unbind(self, arguments: Mapping[str, object], *, is_by_key: bool = True) -> bool:
        binding = Binding.of("x", "queue", "q", "key", arguments)
        return self.binder.unbind(
            self.exchange, self.queue, binding, is_kept=True, is_by_key=is_by_key
        )

    @property
    def arguments(self) -> list[dict[str, object]]:
        """Of the bindings in the table, as many of which the exchange must match by."""
        bindings = self.binder.table.from_source("x")
        matched = list(self.exchange.match("key", make_message()))
        assert len(matched) == len(bindings)
        return [dict(binding.arguments) for binding in bindings]


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_binding_by_key_takes_the_place_of_another(place: Place) -> None:
    place.bind(OLD)
    place.bind(NEW)
    assert place.arguments == [NEW]


def test_a_replacement_that_is_not_kept_leaves_what_was_there(place: Place) -> None:
    place.bind(OLD)
    place.fail()
    with pytest.raises(StoreError):
        place.bind(NEW)
    assert place.arguments == [OLD]


def test_a_first_binding_that_is_not_kept_is_none(place: Place) -> None:
    place.fail()
    with pytest.raises(StoreError):
        place.bind(OLD)
    assert place.arguments == []


def test_an_unbinding_that_is_not_kept_leaves_the_binding(place: Place) -> None:
    place.bind(OLD)
    place.fail()
    with pytest.raises(StoreError):
        place.unbind(OLD)
    assert place.arguments == [OLD]


def test_an_unbinding_by_key_takes_all_of_that_key() -> None:
    place = Place(DefinitionStore())
    place.bind(OLD, is_by_key=False)
    place.bind(NEW, is_by_key=False)
    assert place.arguments == [OLD, NEW]
    assert place.unbind({}) is True
    assert place.arguments == []
    assert place.unbind({}) is False


def test_every_change_of_what_matches_is_told(place: Place) -> None:
    place.bind(OLD)
    place.bind(OLD)
    assert place.changes == 1
    place.unbind(OLD)
    assert place.changes == 2


def test_an_exchange_that_is_gone_leaves_nothing_behind(place: Place) -> None:
    place.bind(OLD)
    place.binder.forget_source(place.exchange, lambda _: place.queue)
    assert len(place.binder.table) == 0
    assert not place.binder._filtered


def test_a_queue_that_is_gone_leaves_nothing_behind(place: Place) -> None:
    place.bind(OLD)
    sources = place.binder.forget_destination("queue", place.queue, {"x": place.exchange})
    assert sources == [place.exchange]
    assert place.arguments == []
    assert not place.binder._filtered
