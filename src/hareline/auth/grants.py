"""What a user may do where another authority decides it: a token's scopes, or an HTTP service.

A user of this broker has patterns (``auth.permissions``); a user of another authority has
``Grants`` in their place, and ``AccessChecker`` asks them. An authority may have to be asked over
the network. Then ``RightsPending`` is raised: ``amqp.channels`` and ``management.middleware``
do the same again when the answer is there, so nothing on the event loop waits for it.

Invariant: grants say yes only if the authority has said so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

Right = Literal["configure", "write", "read"]
Resource = Literal["queue", "exchange"]


class RightsPending(Exception):
    """An authority is being asked for a right. Raised before anything has changed.

    ``when_decided``: calls back once, on the event loop, when asking again will find the answer.
    ``again``: what is to be done then, where that is less than everything.
    """

    def __init__(self, when_decided: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("a right is being asked for")
        self.when_decided = when_decided
        self.again: Callable[[], None] | None = None


class Grants(ABC):
    """Each method may raise RightsPending, unless ``never_pends``."""

    __slots__ = ()

    never_pends = False

    @abstractmethod
    def enters(self, vhost_name: str) -> bool:
        """True if the user may open this virtual host."""

    @abstractmethod
    def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
        """True if the user has this right on the queue or exchange."""

    @abstractmethod
    def allows_topic(self, vhost_name: str, right: Right, exchange: str, routing_key: str) -> bool:
        """True if the user may use this routing key with the topic exchange."""
