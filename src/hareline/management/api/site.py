"""Parts of the broker that all routes of the API are given, and facts about the process.

``hareline.server.http_side`` makes one ``Site`` when the management port opens.

Invariant: nothing here changes the broker; routes do, by the same calls as ``amqp``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from hareline.administration import Administration
from hareline.amqp.context import Context
from hareline.auth.users import UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.management.authentication import Authenticator
from hareline.management.change_log import CALLER, ChangeLog
from hareline.metrics.source import MetricsSource
from hareline.settings import Settings
from hareline.statistics.facts import NodeFacts as ProcessFacts
from hareline.statistics.facts import TlsFacts
from hareline.statistics.sampler import Sampler


class Health(BaseModel):
    """The answer to a health check.

    ``alarms``: the resources that are short; each of them blocks connections that publish.
    ``store``: whether persistent messages are stored. ``reason``: what is wrong, as text.
    """

    status: Literal["ok", "failed", "stopping"]
    alarms: list[str] = []
    publishers_blocked: bool = False
    store: Literal["ok", "refusing", "failed"] = "ok"
    reason: str = ""


class ListenerFacts(NamedTuple):
    """One port that is listened on. ``protocol``: ``amqp``, ``amqp/ssl``, ``http``, ``https``, or
    one of the latter with ``/prometheus``.
    """

    protocol: str
    host: str
    port: int
    has_tls: bool = False


class ResourceFacts(NamedTuple):
    """A resource with a watermark: octets in use or free, and the mark."""

    bytes_now: int
    watermark_bytes: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The process. ``name``: what RabbitMQ calls the node. ``data_dir`` None: nothing is kept.

    What may change while it runs is a function. ``tls``: None where no port has TLS.
    ``descriptors``: file descriptors in use, and how
    many may be; -1: the system does not say.
    """

    name: str
    data_dir: Path | None
    listeners: Callable[[], Sequence[ListenerFacts]]
    health: Callable[[], Health]
    memory: Callable[[], ResourceFacts]
    disk: Callable[[], ResourceFacts]
    numbers: Callable[[], ProcessFacts]
    descriptors: Callable[[], tuple[int, int]]
    tls: Callable[[], TlsFacts | None] = lambda: None
    started_s: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Site:
    """``sampler`` (``hareline.statistics``) and ``metrics`` are None where the broker has none.

    ``changes``: what changed since the port opened; None before.
    """

    context: Context
    authenticator: Authenticator
    settings: Callable[[], Settings]
    node: NodeFacts
    administration: Administration
    sampler: Sampler | None = None
    metrics: MetricsSource | None = None
    changes: ChangeLog | None = None

    @property
    def vhosts(self) -> Mapping[str, VirtualHost]:
        """All virtual hosts by name; ``Caller.vhosts`` are those that a user sees."""
        return self.context.vhosts

    def note(self, event: str, **details: object) -> None:
        """Have the log of changes remember an act of the user who asks now."""
        if self.changes is not None:
            self.changes.note(event, details, CALLER.get())

    @property
    def users(self) -> UserRegistry:
        """All users."""
        return self.context.users
