"""Rights of queues, exchanges and bindings on the places that they pass messages on to.

Checks only, the same for AMQP and for HTTP; docs/security.md has the table of rights.
"""

from __future__ import annotations

from collections.abc import Mapping

from hareline.auth.permissions import AccessChecker, Resource
from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.queues.dead_letters.targets import alternate_of
from hareline.queues.declare.table import QueueArguments


def require_queue_rights(
    access: AccessChecker, vhost: VirtualHost, name: str, arguments: QueueArguments
) -> None:
    """Raise AccessRefused unless the user may have a queue with these arguments.

    For dead letters it needs read on itself and write on all that they can go to; for an alternate
    that x-dlq-auto makes it needs configure too. The text calls an alternate what it is now; the
    right covers an exchange and a queue of that name alike. Where topic permissions bound the keys
    of a place, they bound the dead-letter routing key too, and without one there is no such queue:
    it would pass on whatever came.
    """
    alternate = alternate_of(arguments, name)
    if (arguments.dead_letter_exchange, alternate, arguments.archive_to) != (None, None, None):
        access.require("read", "queue", name)
    if alternate is not None:
        is_made = arguments.alternate_binding is None and alternate not in vhost.queues
        if is_made:
            access.require("configure", "queue", alternate)
    require_dead_letter_rights(access, vhost, arguments, alternate)
    if arguments.archive_to is not None:
        access.require("write", "queue", arguments.archive_to)


def require_dead_letter_rights(
    access: AccessChecker, vhost: VirtualHost, arguments: QueueArguments, alternate: str | None
) -> None:
    """Raise AccessRefused unless the user may write to where these arguments send dead letters.

    ``alternate``: the exchange or queue of the alternate binding.
    """
    exchange = arguments.dead_letter_exchange
    if exchange is not None:
        key = arguments.dead_letter_routing_key
        access.require("write", "exchange", exchange, key)
        if _needs_topics(access, vhost.exchanges.get(exchange)):
            if key is None:
                access.require_every_topic("write", exchange)
            else:
                access.require_topic("write", exchange, key)
    if alternate is not None:
        resource: Resource = "exchange" if alternate in vhost.exchanges else "queue"
        access.require("write", resource, alternate)
        place = vhost.exchanges.get(alternate)  # messages go there before to a queue of its name
        is_queue = place is None and (
            arguments.alternate_binding is None or alternate in vhost.queues
        )
        if not (is_queue and access.has_grants) and _needs_topics(access, place):
            access.require_every_topic("write", alternate)


def _needs_topics(access: AccessChecker, exchange: Exchange | None) -> bool:
    """True if topic permissions count for what passes messages on to an exchange.

    Another authority is asked about keys of topic exchanges alone, as for publishes, and of what
    does not exist yet, which may become one.
    """
    return not access.has_grants or exchange is None or exchange.type_name == "topic"


def require_exchange_rights(
    access: AccessChecker, name: str, arguments: Mapping[str, object]
) -> None:
    """Raise AccessRefused unless the user may have an exchange with these arguments.

    ``arguments``: as ``exchanges.alternate.with_alternate`` reads them.
    """
    alternate = arguments.get(ALTERNATE_EXCHANGE)
    if isinstance(alternate, str):
        require_all_messages_of(access, name)
        require_alternate_rights(access, alternate)
    archive = arguments.get(ARCHIVE_TO)
    if isinstance(archive, str):
        require_all_messages_of(access, name)
        access.require("write", "queue", archive)


def require_all_messages_of(access: AccessChecker, exchange: str) -> None:
    """Raise AccessRefused unless the user may have the exchange's messages, whatever their keys."""
    access.require("read", "exchange", exchange)
    access.require_every_topic("read", exchange)


def require_alternate_rights(access: AccessChecker, alternate: str) -> None:
    """Raise AccessRefused unless whatever an exchange does not route may go to this one."""
    access.require("write", "exchange", alternate)
    access.require_every_topic("write", alternate)


def require_passing_on(access: AccessChecker, destination: Exchange) -> None:
    """Raise AccessRefused unless the user may bind an exchange to this one.

    Messages bring all their keys along, whichever of them a binding is for.
    """
    if destination.type_name == "topic":
        access.require_every_topic("write", destination.name)
