"""Options of a virtual host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import model_validator
from pydantic_core import InitErrorDetails

from hareline.settings.section import Section, known_in, option, problem, refuse
from hareline.settings.values import Audit, MaxAge, Octets, PatternList, ShortString


class VirtualHost(Section):
    """A name space of exchanges and queues, with its own permissions."""

    name: ShortString = option(..., "Name, as clients give it when they connect.", reload="live")
    max_connections: int = option(
        0, "Open connections of this virtual host; 0 means no limit.", reload="live", ge=0
    )
    max_queues: int = option(
        0, "Queues of this virtual host; 0 means no limit.", reload="live", ge=0
    )
    max_exchanges: int = option(
        0,
        "Exchanges of this virtual host, with the seven that each begins with; 0 means no limit.",
        reload="live",
        ge=0,
    )
    max_bindings: int = option(
        0, "Bindings in this virtual host; 0 means no limit.", reload="live", ge=0
    )
    default_dead_letter_exchange: str = option(
        "",
        "Exchange that takes the dead letters of queues that name none themselves, with the "
        "routing key `queue.reason`; a topic exchange of this name is made if there is none. "
        "Empty: they are dropped. In force for queues declared afterwards.",
        reload="live",
        max_length=255,
    )
    dead_letter_copies: bool = option(
        False,
        "Whether `default_dead_letter_exchange` also gets a copy of the dead messages of queues "
        "that name an exchange themselves, each message once. In force for queues declared "
        "afterwards.",
        reload="live",
    )
    default_prefetch: int = option(
        0,
        "Messages that a consumer may have unacknowledged when its client has said nothing "
        "(basic.qos, x-prefetch-count); 0 means no limit.",
        reload="live",
        ge=0,
    )
    prefetch_profile: Literal["none", "activemq"] = option(
        "none",
        "In place of `default_prefetch`, a default for each kind of queue; `activemq`: 1000, but "
        "100 for the exclusive consumer of a durable queue, 32766 for a server-named auto-delete "
        "queue, 500 for a browser.",
        reload="live",
    )
    prefetch_max: int = option(
        0,
        "Upper bound of what a client may ask for, and of the defaults; a low one makes priorities "
        "and other orders exact. 0 means no bound.",
        reload="live",
        ge=0,
    )

    consumer_timeout_s: int = option(
        0,
        "Seconds for which a consumer may hold a message unacknowledged, unless it or its queue "
        "has an x-consumer-timeout; then it loses the message and is cancelled. 0 means no limit.",
        reload="live",
        ge=0,
    )

    auto_create_queues: PatternList = option(
        (),
        "Regular expressions. A queue in whose name one of them is found is made when a client "
        "first publishes to it by the default exchange, consumes from it, gets from it or declares "
        "it passively: durable, with the arguments of policies. The user needs the right to "
        "configure it.",
        reload="live",
    )
    virtual_topics: PatternList = option(
        (),
        "Regular expressions for names of exchanges. A queue `Consumer.GROUP.EXCHANGE` of one of "
        "them is made as with `auto_create_queues`, and gets all that is published to the "
        "exchange, which is made too if there is none.",
        reload="live",
    )

    max_producers: int = option(
        10_000,
        "Producers that number their messages (`x-producer-id`) and whose highest sequence is "
        "remembered; the one that was used least recently is forgotten for a new one.",
        reload="live",
        ge=1,
        le=100_000,
    )
    producer_max_age_s: int = option(
        604_800,
        "Seconds after its last message until a producer that numbers its messages is forgotten.",
        reload="live",
        ge=1,
    )

    tracing: bool = option(
        False,
        "Whether a copy of each message published and of each delivery goes to the exchange "
        "`amq.rabbitmq.trace` of this virtual host (the firehose).",
        reload="live",
    )

    audit: Audit = option(
        "off",
        "Which messages have each event of their life written to the stream `hareline.audit` of "
        "this virtual host: none, all, or a random share of them. The stream stays when this is "
        "switched off.",
    )
    audit_max_bytes: Octets = option(
        1 << 30,
        "Octets that the audit stream keeps at most, the oldest events go first; 0 means no limit.",
        ge=0,
    )
    audit_max_age: MaxAge = option(
        "7D", "How long the audit stream keeps events; empty means for as long as there is room."
    )

    @property
    def audit_share(self) -> float:
        """The share of messages that are audited: 0.0 none, 1.0 all."""
        if self.audit == "off":
            return 0.0
        return 1.0 if self.audit == "all" else float(self.audit.removeprefix("sample:"))

    @model_validator(mode="after")
    def _has_one_default_prefetch(self) -> Self:
        refuse(prefetch_problems(self))
        return self

    @model_validator(mode="after")
    def _has_a_place_for_copies(self) -> Self:
        refuse(copy_problems(self))
        return self


def copy_problems(vhost: object) -> Iterator[InitErrorDetails]:
    """Copies of dead letters without an exchange for them."""
    exchange = known_in(VirtualHost, vhost, "default_dead_letter_exchange", str)
    if known_in(VirtualHost, vhost, "dead_letter_copies", bool) and not exchange:
        message = "Input should be false where default_dead_letter_exchange is empty"
        yield problem(("dead_letter_copies",), message)


def prefetch_problems(vhost: object) -> Iterator[InitErrorDetails]:
    """A default prefetch beside a profile of defaults."""
    profile = known_in(VirtualHost, vhost, "prefetch_profile", str)
    if known_in(VirtualHost, vhost, "default_prefetch", int) and profile not in (None, "none"):
        message = "Input should be 0 where prefetch_profile is '{profile}'"
        yield problem(("default_prefetch",), message, profile=profile)
