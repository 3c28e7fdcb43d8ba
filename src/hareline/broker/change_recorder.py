"""Interface of the log of changes, for the parts that report them.

The registry and the binder of each virtual host tell a ``ChangeRecorder`` what comes and goes, and
``amqp`` and ``management`` whose doing that is. The management side has one
(``management.change_log``); a broker without it has none, and pays a comparison for each
declaration.

Invariant: a ``doer`` is one while its own call lasts, so what ends by itself has none.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from hareline.broker.exchanges.bindings import Binding
    from hareline.broker.exchanges.exchange import Exchange
    from hareline.queues.queue import Queue


class Doer(NamedTuple):
    """Author of a change. ``address``: host and port of the client; empty where not known.

    ``backend``: who has let the user in.
    """

    via: Literal["amqp", "http", "settings", "broker"]
    user: str
    address: str = ""
    backend: str = "internal"


#: What happens by itself: a lease ends, an alarm is set.
NOBODY: Final = Doer("broker", "")


class ChangeRecorder(metaclass=ABCMeta):
    """``doer``: for whom the broker works now."""

    def __init__(self) -> None:
        self.doer = NOBODY

    def acting(self, doer: Doer) -> Acting:
        """Name the author of the changes made within it."""
        return Acting(self, doer)

    @abstractmethod
    def on_queue(self, event: str, vhost: str, queue: Queue, details: Mapping[str, object]) -> None:
        """Something has happened to a queue, such as "queue.created"; ``details`` beside it."""

    @abstractmethod
    def on_exchange(self, event: str, vhost: str, exchange: Exchange) -> None:
        """``exchange.created`` or ``exchange.deleted``."""

    @abstractmethod
    def on_binding(self, event: str, vhost: str, binding: Binding) -> None:
        """``binding.created`` or ``binding.deleted``; not those that end with one of their ends."""


class Acting:
    """Sets ``ChangeRecorder.doer`` while it lasts. A class of its own: it is made for each declare,
    and costs a quarter of what a generator does."""

    __slots__ = ("_before", "_doer", "_recorder")

    def __init__(self, recorder: ChangeRecorder, doer: Doer) -> None:
        self._recorder = recorder
        self._doer = self._before = doer

    def __enter__(self) -> None:
        self._before, self._recorder.doer = self._recorder.doer, self._doer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.doer = self._before
