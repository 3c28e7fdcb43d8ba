"""Targets of the dead messages of a queue, by the reason of their death.

``broker.making`` works it out once, when the queue is made:

=======================  =====================================  ==================================
target                   used for                               routed with
=======================  =====================================  ==================================
dead-letter exchange     rejected, expired, maxlen,             the dead-letter routing key, or
(RabbitMQ)               delivery_limit, or ``reasons``         all keys it came with
alternate binding        rejected, delivery_limit, deleted,     all keys it came with; a queue by
(Qpid)                   and expired where the policy says so   its name
default dead-letter      rejected, expired, maxlen,             ``<queue>.<reason>``
exchange (virtual host)  delivery_limit, or ``reasons``
=======================  =====================================  ==================================

If the virtual host has copies, its default exchange is also the first target of what goes elsewhere
or would be dropped.

Invariant: every name and key of a target fits a short string of the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from hareline.errors import PreconditionFailed
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

if TYPE_CHECKING:
    from hareline.queues.declare.table import QueueArguments

USUAL_REASONS: Final = frozenset(("rejected", "expired", "maxlen", "delivery_limit"))
ALTERNATE_REASONS: Final = frozenset(("rejected", "delivery_limit"))
DLQ_SUFFIX: Final = "_DLQ"  # Broker-J: qpid.broker_dead_letter_queue_suffix


class Target(NamedTuple):
    """``routing_key`` None: the message keeps its own, and is routed by CC and BCC as well.

    ``is_default``: it is the virtual host's default dead-letter exchange. ``is_copy``: the targets
    behind it get the message as well.
    """

    exchange: str
    routing_key: str | None
    is_default: bool = False
    is_copy: bool = False


Targets = Mapping[str, tuple[Target, ...]]


def find_targets(
    queue_name: str,
    vhost_name: str,
    *,
    exchange: str | None = None,
    routing_key: str | None = None,
    alternate: str | None = None,
    default_exchange: str | None = None,
    has_copies: bool = False,
    reasons: Collection[str] | None = None,
    expiry_policy: str | None = None,
) -> Targets:
    """Find the targets of messages by the reason of their death; none for one that is missing.

    Of several targets the first one counts that reaches a queue. ``exchange`` and ``routing_key``:
    RabbitMQ's x-dead-letter-exchange and -routing-key. ``alternate``: the destination of Qpid's
    alternate binding, an exchange or a queue. ``default_exchange``: the virtual host's, for a queue
    that has neither; ``has_copies``: and for copies of what dies in others. ``reasons``: which
    deaths to publish in place of the usual ones (an alternate binding also gets "deleted").
    ``expiry_policy`` "delete": what expired is never published; "route-to-alternate": it goes by
    the alternate binding.

    Raises PreconditionFailed for a name or key of more than 255 octets.
    """
    for name, what in (
        (exchange, "dead-letter exchange"),
        (routing_key, "dead-letter routing key"),
        (alternate, "alternate binding"),
        (default_exchange, "default dead-letter exchange"),
    ):
        if name is not None and len(_octets(name)) > SHORTSTR_MAX_OCTETS:
            raise PreconditionFailed(
                f"{what} of queue '{queue_name}' in vhost '{vhost_name}' is longer "
                f"than {SHORTSTR_MAX_OCTETS} octets"
            )
    targets: dict[str, tuple[Target, ...]] = {}
    # Broker-J: an exchange is looked for before a queue of that name
    by_alternate = () if alternate is None else (Target(alternate, None), Target("", alternate))
    if exchange is not None:
        for reason in USUAL_REASONS if reasons is None else reasons:
            targets[reason] = (Target(exchange, routing_key),)
    elif alternate is not None:
        for reason in ALTERNATE_REASONS if reasons is None else reasons:
            targets[reason] = by_alternate
    elif default_exchange is not None:
        for reason in USUAL_REASONS if reasons is None else reasons:
            key = _default_key(queue_name, reason)
            targets[reason] = (Target(default_exchange, key, is_default=True),)
    if alternate is not None:
        targets["deleted"] = by_alternate
    else:
        targets.pop("deleted", None)
    if expiry_policy == "delete":
        targets.pop("expired", None)
    elif expiry_policy == "route-to-alternate" and alternate is not None:
        targets["expired"] = by_alternate
    if has_copies and default_exchange is not None and not (exchange is None and alternate is None):
        dead = {*(USUAL_REASONS if reasons is None else reasons), *targets}
        dead -= {"expired"} if expiry_policy == "delete" else set()
        dead -= {"deleted"} if alternate is None else set()
        for reason in dead:
            key = _default_key(queue_name, reason)
            copy = Target(default_exchange, key, is_default=True, is_copy=True)
            targets[reason] = (copy, *targets.get(reason, ()))
    return targets


def alternate_of(arguments: QueueArguments, queue_name: str) -> str | None:
    """The destination of the alternate binding, which ``x-dlq-auto`` sets to ``<queue>_DLQ``."""
    if arguments.alternate_binding is not None:
        return arguments.alternate_binding
    return queue_name + DLQ_SUFFIX if arguments.dlq_auto else None


def _default_key(queue_name: str, reason: str) -> str:
    """``<queue>.<reason>``; a name that leaves no room for the reason is cut at its end."""
    octets = _octets(queue_name)
    room = SHORTSTR_MAX_OCTETS - len(reason) - 1
    if len(octets) > room:
        queue_name = octets[:room].decode("utf-8", "ignore")
    return f"{queue_name}.{reason}"


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
