"""Limits on queues, exchanges and bindings of a virtual host.

``broker.declarations`` and ``broker.binder`` ask before they make anything new; what exists already
is never asked for again, nor is what the recovery restores. The limits are those of the virtual
host, those of the whole broker, and its memory: what clients declare takes memory as messages do,
and blocking publishers does not stop it.

Invariant: a check changes nothing but the count of limits that were reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Final

from hareline.broker.exchanges.bindings import Binding
from hareline.counts import ReachedLimits
from hareline.errors import MemoryShort, PreconditionFailed

LOW_ON_MEMORY: Final = "the broker is low on memory, far above its watermark; try again later"
_HEAD_OCTETS: Final = 5  # of a text, table or array in a table: its type, and four of length
_NUMBER_OCTETS: Final = 9


class BrokerCapacity:
    """The limits of a whole broker, where 0 means no limit, and its memory.

    ``is_critical``: so far above its watermark that nothing may come that takes memory for long.
    ``reached`` counts refusals.
    """

    __slots__ = (
        "_bindings",
        "_exchanges",
        "_queues",
        "is_critical",
        "max_arguments_bytes",
        "max_bindings",
        "max_exchanges",
        "max_queues",
        "reached",
    )

    def __init__(self, reached: ReachedLimits | None = None) -> None:
        self.reached = ReachedLimits() if reached is None else reached
        self.max_queues = 0
        self.max_exchanges = 0
        self.max_bindings = 0
        self.max_arguments_bytes = 0
        self.is_critical = False
        self._queues: list[Sized] = []
        self._exchanges: list[Sized] = []
        self._bindings: list[Sized] = []

    @property
    def queue_count(self) -> int:
        """Queues of all virtual hosts."""
        return sum(map(len, self._queues))

    @property
    def exchange_count(self) -> int:
        """Exchanges of all virtual hosts, also those that each of them begins with."""
        return sum(map(len, self._exchanges))

    @property
    def binding_count(self) -> int:
        """Bindings in all virtual hosts."""
        return sum(map(len, self._bindings))

    def on_critical(self, is_critical: bool) -> None:
        """Memory is far above the watermark, or no longer is."""
        self.is_critical = is_critical

    def add(self, queues: Sized, exchanges: Sized, bindings: Sized) -> None:
        """Count these tables of a virtual host as well."""
        self._queues.append(queues)
        self._exchanges.append(exchanges)
        self._bindings.append(bindings)

    def remove(self, queues: Sized, exchanges: Sized, bindings: Sized) -> None:
        """Count these tables no more: their virtual host is deleted."""
        for tables, table in (
            (self._queues, queues),
            (self._exchanges, exchanges),
            (self._bindings, bindings),
        ):
            tables[:] = [each for each in tables if each is not table]


class VhostCapacity:
    """``max_...``: how many there may be in this virtual host; None means no limit.

    ``whole``: what holds for all virtual hosts together.
    """

    __slots__ = (
        "_bindings",
        "_exchanges",
        "_queues",
        "_vhost_name",
        "max_bindings",
        "max_exchanges",
        "max_queues",
        "whole",
    )

    def __init__(
        self,
        vhost_name: str,
        whole: BrokerCapacity,
        queues: Sized,
        exchanges: Sized,
        bindings: Sized,
    ) -> None:
        self._vhost_name = vhost_name
        self.whole = whole
        self._queues = queues
        self._exchanges = exchanges
        self._bindings = bindings
        self.max_queues: int | None = None
        self.max_exchanges: int | None = None
        self.max_bindings: int | None = None
        whole.add(queues, exchanges, bindings)

    @property
    def binding_count(self) -> int:
        """Bindings of this virtual host."""
        return len(self._bindings)

    def close(self) -> None:
        """The virtual host is deleted: what is left of it counts no more."""
        self.whole.remove(self._queues, self._exchanges, self._bindings)

    def check_queue(self, name: str, arguments: Mapping[str, object]) -> None:
        """Raise PreconditionFailed or MemoryShort unless this new queue may be declared."""
        whole = self.whole
        what = f"queue '{name}'"
        if self.max_queues is not None and len(self._queues) >= self.max_queues:
            whole.reached.count("vhost.max-queues")
            raise PreconditionFailed(
                f"cannot declare {what}: queue limit in vhost '{self._vhost_name}' "
                f"({self.max_queues}) is reached"
            )
        if whole.max_queues and whole.queue_count >= whole.max_queues:
            whole.reached.count("max_queues")
            raise PreconditionFailed(
                f"cannot declare {what}: queue limit in cluster ({whole.max_queues}) is reached"
            )
        self.check_arguments(what, arguments)
        self._check_memory(f"declare {what}")

    def check_exchange(self, name: str, arguments: Mapping[str, object]) -> None:
        """Raise PreconditionFailed or MemoryShort unless this new exchange may be declared."""
        whole = self.whole
        what = f"exchange '{name}'"
        if self.max_exchanges is not None and len(self._exchanges) >= self.max_exchanges:
            whole.reached.count("vhost.max-exchanges")
            raise PreconditionFailed(
                f"cannot declare {what}: exchange limit in vhost '{self._vhost_name}' "
                f"({self.max_exchanges}) is reached"
            )
        if whole.max_exchanges and whole.exchange_count >= whole.max_exchanges:
            whole.reached.count("max_exchanges")
            raise PreconditionFailed(
                f"cannot declare {what} in vhost '{self._vhost_name}': exchange limit of "
                f"{whole.max_exchanges} is reached"
            )
        self.check_arguments(what, arguments)
        self._check_memory(f"declare {what}")

    def check_binding(self, binding: Binding) -> None:
        """Raise PreconditionFailed or MemoryShort unless this new binding may be made."""
        whole = self.whole
        what = f"{binding.kind} '{binding.destination}' to exchange '{binding.source}'"
        if self.max_bindings is not None and len(self._bindings) >= self.max_bindings:
            whole.reached.count("vhost.max-bindings")
            raise PreconditionFailed(
                f"cannot bind {what}: binding limit in vhost '{self._vhost_name}' "
                f"({self.max_bindings}) is reached"
            )
        if whole.max_bindings and whole.binding_count >= whole.max_bindings:
            whole.reached.count("max_bindings")
            raise PreconditionFailed(
                f"cannot bind {what} in vhost '{self._vhost_name}': binding limit of "
                f"{whole.max_bindings} is reached"
            )
        self.check_arguments(f"a binding of {what}", binding.arguments)
        self._check_memory(f"bind {what}")

    def check_arguments(self, what: str, arguments: Mapping[str, object]) -> None:
        """Raise PreconditionFailed if the arguments of ``what`` have too many octets."""
        limit = self.whole.max_arguments_bytes
        if arguments and limit and not is_within(arguments, limit):
            self.whole.reached.count("max_arguments_bytes")
            raise PreconditionFailed(
                f"the arguments of {what} in vhost '{self._vhost_name}' have more than {limit} "
                "octets (max_arguments_bytes)"
            )

    def check_consumer(self, queue_name: str) -> None:
        """Raise MemoryShort unless a consumer more may come."""
        self._check_memory(f"consume from queue '{queue_name}'")

    def _check_memory(self, act: str) -> None:
        if self.whole.is_critical:
            self.whole.reached.count("memory")
            raise MemoryShort(f"cannot {act} in vhost '{self._vhost_name}': {LOW_ON_MEMORY}")


def is_within(arguments: Mapping[str, object], limit_octets: int) -> bool:
    """True if a table has no more octets in a frame, behind its length; any number counts as 9.

    It looks no further than the limit, since a table of one frame may have 40,000 values.
    """
    octets = 0
    waiting: list[object] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            octets += sum([1 + _length_of(str(key)) for key in value])
            octets += _HEAD_OCTETS
            waiting += value.values()
        elif isinstance(value, list | tuple):
            octets += _HEAD_OCTETS
            waiting += value
        elif isinstance(value, str):
            octets += _HEAD_OCTETS + _length_of(value)
        elif isinstance(value, bytes):
            octets += _HEAD_OCTETS + len(value)
        else:
            octets += _NUMBER_OCTETS
        if octets - _HEAD_OCTETS > limit_octets:
            return False
    return True


def _length_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
