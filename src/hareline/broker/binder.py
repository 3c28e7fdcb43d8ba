"""Bindings made and removed: in the table, in the exchange that matches, in the definitions.

They are in the definitions where both ends survive a restart. Called by ``broker.vhost`` to bind
and unbind, and by ``broker.registry`` when one end is deleted.

Invariant: a binding stands in all of its places or in none, whatever fails in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from hareline.broker.change_recorder import ChangeRecorder
from hareline.broker.event_exchange import EventExchange
from hareline.broker.exchanges.bindings import Binding, Bindings, BindingTable, DestinationKind, End
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.filtered_exchange import FilteredDestination, filtered
from hareline.broker.unbinding import MATCHED_ALONE, Leaving, Unbinding
from hareline.errors import PreconditionFailed, StoreError
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore

# Where a binding is its key, and its arguments only filter; elsewhere they say what matches.
_KEYED_TYPES: Final = frozenset(("direct", "fanout", "topic"))

BoundTo = Queue | Exchange


class Binder:
    """The bindings of one virtual host; ``table`` is for reading.

    ``events`` and ``recorder`` are told of what is bound and unbound; None: not wanted.
    ``on_changed`` is called at every change of what matches, ``on_no_local`` when a binding refuses
    the messages of some publishers. ``is_there`` is True for an exchange or queue that is not
    deleted. ``unbinding`` takes bindings of deleted ones out of the exchanges. ``check_new`` raises
    what forbids a binding more.
    """

    __slots__ = (
        "_check_new",
        "_definitions",
        "_filtered",
        "_is_there",
        "_on_changed",
        "_on_no_local",
        "_unbinding",
        "_vhost_name",
        "events",
        "recorder",
        "table",
    )

    def __init__(
        self,
        vhost_name: str,
        definitions: DefinitionStore,
        on_changed: Callable[[], None],
        on_no_local: Callable[[], None],
        is_there: Callable[[BoundTo], bool],
        unbinding: Unbinding,
        check_new: Callable[[Binding], None],
    ) -> None:
        self._vhost_name = vhost_name
        self._definitions = definitions
        self._on_changed = on_changed
        self._on_no_local = on_no_local
        self._is_there = is_there
        self._unbinding = unbinding
        self._check_new = check_new
        self._filtered: dict[Binding, FilteredDestination] = {}
        self.table = BindingTable()
        self.events: EventExchange | None = None
        self.recorder: ChangeRecorder | None = None

    def bind(
        self,
        exchange: Exchange,
        destination: BoundTo,
        binding: Binding,
        *,
        is_kept: bool,
        is_by_key: bool,
    ) -> None:
        """Add the binding; a repetition is no error. ``is_kept``: also to the definitions.

        ``is_by_key``: bindings of the same ends and key make room for this one (Broker-J, topic
        exchanges); otherwise another set of arguments is a binding of its own. Raises
        PreconditionFailed for arguments that the exchange refuses, and StoreError; and what
        ``check_new`` raises.
        """
        others = self._with_key(exchange, binding) if is_by_key else []
        replaced = [other for other in others if other != binding]
        if not replaced and binding not in self.table:
            self._check_new(binding)
        is_new = self.add(exchange, destination, binding)
        for other in replaced:
            self._remove(exchange, destination, other)
        if is_kept and (is_new or replaced):
            undo = partial(self._undo, exchange, destination, [binding] if is_new else [], replaced)
            try:
                self._definitions.bind(
                    self._vhost_name,
                    *_place(binding),
                    replaced=[other.arguments for other in replaced],
                )
            except StoreError as error:
                undo(error)
                raise
            self._definitions.undo_if_lost(undo)

    def unbind(
        self,
        exchange: Exchange,
        destination: BoundTo,
        binding: Binding,
        *,
        is_kept: bool,
        is_by_key: bool,
    ) -> bool:
        """True if there was one. ``is_by_key``: whatever its arguments. Raises StoreError."""
        others = self._with_key(exchange, binding) if is_by_key else []
        was_bound = self._remove_kept(exchange, destination, binding, is_kept)
        for other in others:
            was_bound = self._remove_kept(exchange, destination, other, is_kept) or was_bound
        return was_bound

    def add(self, exchange: Exchange, destination: BoundTo, binding: Binding) -> bool:
        """As ``bind``, but not in the definitions; False if the binding exists already."""
        if not self.table.add(binding):
            return False
        try:
            bound = filtered(destination, binding.arguments)
            exchange.bind(bound, binding.routing_key, binding.arguments)
        except PreconditionFailed:
            self.table.remove(binding)
            raise
        if isinstance(bound, FilteredDestination):
            self._filtered[binding] = bound
            if bound.is_no_local:
                self._on_no_local()
        self._on_changed()
        if self.events is not None:
            self.events.on_binding("binding.created", self._vhost_name, binding)
        if self.recorder is not None:
            self.recorder.on_binding("binding.created", self._vhost_name, binding)
        return True

    def forget_source(self, exchange: Exchange, find: Callable[[End], BoundTo]) -> None:
        """Drop the bindings of an exchange that is gone. ``find`` returns their other ends."""
        itself, leaving = ("exchange", exchange.name), []
        for end, bindings in self.table.take_from_source(exchange.name).items():
            self._tell_all_removed(bindings)
            destination = exchange if end == itself else find(end)
            filtered = self._take_filtered(bindings)
            leaving.append(Leaving(exchange, destination, bindings, filtered))
        if exchange.type_name in MATCHED_ALONE:  # nobody asks it any more; to free it takes time
            self._unbinding.release(leaving)

    def forget_destination(
        self, kind: DestinationKind, destination: BoundTo, exchanges: Mapping[str, Exchange]
    ) -> list[Exchange]:
        """Drop the bindings to an end that is gone; returns the exchanges that lost one."""
        leaving = []
        taken = self.table.take_to_destination(kind, destination.name)
        for source, bindings in taken.items():
            self._tell_all_removed(bindings)
            filtered = self._take_filtered(bindings)
            if source in exchanges:  # else the virtual host goes as a whole
                leaving.append(Leaving(exchanges[source], destination, bindings, filtered))
        self._unbinding.release(leaving)
        return [each.source for each in leaving]

    def _take_filtered(self, bindings: Bindings) -> Mapping[Binding, FilteredDestination]:
        """Destinations to match for bindings with a selector; equal ones of a new end may come."""
        if not self._filtered:
            return {}
        return {each: self._filtered.pop(each) for each in bindings if each in self._filtered}

    def _with_key(self, exchange: Exchange, like: Binding) -> list[Binding]:
        """The bindings between the same ends with the same key, where arguments only filter."""
        if exchange.type_name not in _KEYED_TYPES:
            return []
        return [
            binding
            for binding in self.table.between(like.source, like.kind, like.destination)
            if binding.routing_key == like.routing_key
        ]

    def _remove_kept(
        self, exchange: Exchange, destination: BoundTo, binding: Binding, is_kept: bool
    ) -> bool:
        stored = self._remove(exchange, destination, binding)
        if stored is None:
            return False
        if is_kept:
            undo = partial(self._undo, exchange, destination, [], [stored])
            try:
                self._definitions.unbind(self._vhost_name, *_place(stored))
            except StoreError as error:
                undo(error)
                raise
            self._definitions.undo_if_lost(undo)
        return True

    def _undo(
        self,
        exchange: Exchange,
        destination: BoundTo,
        made: list[Binding],
        removed: list[Binding],
        _error: StoreError,
    ) -> None:
        """The definitions refused or lost the change; both ends may be gone by now."""
        if self._is_there(exchange) and self._is_there(destination):
            for binding in made:
                self._remove(exchange, destination, binding)
            for binding in removed:
                self.add(exchange, destination, binding)

    def _remove(self, exchange: Exchange, destination: BoundTo, binding: Binding) -> Binding | None:
        """The binding that was there, with the arguments that it was made with."""
        stored = self.table.remove(binding)
        if stored is not None:
            self._release(exchange, destination, stored)
            self._on_changed()
            self._tell_removed(stored)
            if self.recorder is not None:
                self.recorder.on_binding("binding.deleted", self._vhost_name, stored)
        return stored

    def _tell_all_removed(self, bindings: Iterable[Binding]) -> None:
        if self.events is not None:
            for binding in bindings:
                self._tell_removed(binding)

    def _tell_removed(self, binding: Binding) -> None:
        if self.events is not None:
            self.events.on_binding("binding.deleted", self._vhost_name, binding)

    def _release(self, exchange: Exchange, destination: BoundTo, stored: Binding) -> None:
        bound = self._filtered.pop(stored, destination)
        exchange.unbind(bound, stored.routing_key, stored.arguments)


def _place(
    binding: Binding,
) -> tuple[str, DestinationKind, str, str, Mapping[str, object]]:
    """Identity of a binding in the definitions."""
    return (
        binding.source,
        binding.kind,
        binding.destination,
        binding.routing_key,
        binding.arguments,
    )
