"""Names that RabbitMQ 4.0 to 4.2 takes, and the page that says which of them Hareline has.

The lists are those of RabbitMQ's own validators: exchange types, arguments of queues and consumers,
policy keys, and components of parameters, with those of the plugins that it ships. Whether Hareline
has one is read from the code; a row says why not, or which differences of decision 0007 concern it.
``write_reference`` writes docs/rabbitmq-4.md; tests/test_rabbitmq_4.py keeps the rows true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hareline.administration.parameters import COMPONENTS, VHOST_LIMITS
from hareline.administration.policy_keys import KEYS, WITHOUT_EFFECT
from hareline.broker.exchange_types import EXCHANGE_TYPES
from hareline.queues.declare.table import BY_NAME

HAS: Final = "has it"
NO_EFFECT: Final = "taken, no effect"
NOT_HERE: Final = "not here"


@dataclass(frozen=True, slots=True)
class Row:
    """``plugin``: what of RabbitMQ has it; empty: its core. ``since``: the release that brought it,
    empty if 3.13 had it. ``differs``: names of decision 0007. ``is_operator``: of policy keys that
    operator policies may have too."""

    name: str
    why: str = ""
    plugin: str = ""
    since: str = ""
    differs: tuple[str, ...] = ()
    is_operator: bool = False


_ONE_NODE: Final = "one node"
_NO_FEDERATION: Final = "no federation"
_BY_MESSAGE: Final = "a stream drops, and is filtered, by message"
_ALL_LEAVE: Final = "every deep queue leaves memory"

# fmt: off
EXCHANGES: Final = (
    Row("direct"),
    Row("fanout"),
    Row("topic", differs=("topic-hashes",)),
    Row("headers", differs=("headers-timestamp", "headers-table")),
    Row("x-local-random", since="4.0"),
    Row("x-consistent-hash", plugin="consistent_hash_exchange",
        differs=("hash-weights", "hash-unbind", "hash-routes", "hash-header")),
    Row("x-random", plugin="random_exchange"),
    Row("x-jms-topic", plugin="jms_topic_exchange",
        differs=("jms-no-condition", "jms-older-binding", "jms-evaluation", "jms-division",
                 "jms-like", "jms-regex", "jms-utf8", "jms-dot")),
    Row("x-recent-history", "a stream gives new readers what came before",
        plugin="recent_history_exchange"),
    Row("x-modulus-hash", "x-consistent-hash spreads messages over queues", plugin="sharding"),
    Row("x-event", "the topic exchange amq.rabbitmq.event gets the events",
        plugin="event_exchange"),
    Row("x-federation-upstream", _NO_FEDERATION, plugin="federation"),
)

QUEUE_ARGUMENTS: Final = (
    Row("x-queue-type", differs=("quorum-queues", "quorum-priorities", "exclusive-quorum")),
    Row("x-expires"),
    Row("x-message-ttl", differs=("expiry-anywhere",)),
    Row("x-dead-letter-exchange"),
    Row("x-dead-letter-routing-key", differs=("dead-letter-key", "dead-letter-cc")),
    Row("x-dead-letter-strategy", "a message is on disk until its dead letter is"),
    Row("x-max-length"),
    Row("x-max-length-bytes", differs=("stream-retention",)),
    Row("x-max-in-memory-length", _ALL_LEAVE),
    Row("x-max-in-memory-bytes", _ALL_LEAVE),
    Row("x-overflow", differs=("overflow-priority",)),
    Row("x-max-priority"),
    Row("x-queue-mode", _ALL_LEAVE),
    Row("x-queue-version", "one format"),
    Row("x-single-active-consumer"),
    Row("x-delivery-limit", differs=("delivery-limit", "delivery-limit-type")),
    Row("x-consumer-timeout", differs=("consumer-timeout",)),
    Row("x-quorum-initial-group-size", _ONE_NODE),
    Row("x-quorum-target-group-size", _ONE_NODE),
    Row("x-initial-cluster-size", _ONE_NODE),
    Row("x-queue-leader-locator", _ONE_NODE),
    Row("x-queue-master-locator", _ONE_NODE),
    Row("x-max-age", differs=("max-age-number", "stream-retention")),
    Row("x-stream-max-segment-size-bytes", _BY_MESSAGE),
    Row("x-stream-filter-size-bytes", _BY_MESSAGE),
)

POLICY_KEYS: Final = (
    Row("alternate-exchange"),
    Row("dead-letter-exchange"),
    Row("dead-letter-routing-key"),
    Row("dead-letter-strategy", "as the argument"),
    Row("message-ttl", is_operator=True),
    Row("expires", is_operator=True),
    Row("max-length", is_operator=True),
    Row("max-length-bytes", differs=("policy-precedence",), is_operator=True),
    Row("max-in-memory-length", _ALL_LEAVE, is_operator=True),
    Row("max-in-memory-bytes", _ALL_LEAVE, is_operator=True),
    Row("overflow", differs=("policy-precedence",), is_operator=True),
    Row("delivery-limit", is_operator=True),
    Row("queue-mode", _ALL_LEAVE),
    Row("queue-version", "one format", is_operator=True),
    Row("consumer-timeout", differs=("consumer-timeout",)),
    Row("max-age", differs=("policy-precedence",)),
    Row("stream-max-segment-size-bytes", _BY_MESSAGE),
    Row("stream-filter-size-bytes", _BY_MESSAGE),
    Row("queue-leader-locator", _ONE_NODE),
    Row("queue-master-locator", _ONE_NODE, is_operator=True),
    Row("initial-cluster-size", _ONE_NODE),
    Row("target-group-size", _ONE_NODE, is_operator=True),
    Row("federation-upstream", _NO_FEDERATION, plugin="federation"),
    Row("federation-upstream-set", _NO_FEDERATION, plugin="federation"),
    Row("federation-upstream-pattern", _NO_FEDERATION, plugin="federation"),
    Row("shards-per-node", "no sharding", plugin="sharding", differs=("policy-sharding",)),
    Row("routing-key", "no sharding", plugin="sharding", differs=("policy-sharding",)),
)

PARAMETERS: Final = (
    Row("policy", differs=("policy-patterns", "policy-old-keys")),
    Row("operator_policy"),
    Row("vhost-limits"),
    Row("federation-upstream", _NO_FEDERATION, plugin="federation"),
    Row("federation-upstream-set", _NO_FEDERATION, plugin="federation"),
    Row("shovel", "no shovels", plugin="shovel"),
)
# fmt: on


def exchange_status(name: str) -> str:
    return HAS if name in EXCHANGE_TYPES else NOT_HERE


def argument_status(name: str) -> str:
    """An argument that no row of the table knows is taken, as every unknown one."""
    argument = BY_NAME.get(name)
    return NO_EFFECT if argument is None or argument.field is None else HAS


def policy_status(name: str) -> str:
    if name not in KEYS:
        return NOT_HERE
    return NO_EFFECT if name in WITHOUT_EFFECT else HAS


def parameter_status(name: str) -> str:
    if name in ("policy", "operator_policy", VHOST_LIMITS):
        return HAS
    return NO_EFFECT if name in COMPONENTS else NOT_HERE


LISTS: Final[tuple[tuple[str, str, tuple[Row, ...], Callable[[str], str]], ...]] = (
    ("Exchange types", "Type", EXCHANGES, exchange_status),
    ("Queue arguments", "Argument", QUEUE_ARGUMENTS, argument_status),
    ("Policy keys", "Key", POLICY_KEYS, policy_status),
    ("Parameters", "Component", PARAMETERS, parameter_status),
)

HEAD: Final = """# What RabbitMQ 4 takes, and what Hareline has of it

Written by `make reference` from `scripts/rabbitmq_4.py`: the names that the validators of RabbitMQ
4.0 to 4.2 know, those of the plugins that it ships included. Other behaviour, and the reasons at
length, is in [decision 7](decisions/0007-differences-from-rabbitmq.md), to which the names in the
last column refer. What Hareline adds is in [exchanges](exchanges.md),
[queue arguments](queue-arguments.md) and [policies](administration.md#policies).
"""


def page() -> str:
    """The text of docs/rabbitmq-4.md."""
    parts = [HEAD]
    for title, heading, rows, status in LISTS:
        lines = [
            f"| {heading} | In RabbitMQ | Hareline | Why, or what differs |",
            "|---|---|---|---|",
        ]
        for row in rows:
            whence = f"plugin `rabbitmq_{row.plugin}`" if row.plugin else "core"
            if row.since:
                whence += f", from {row.since} on"
            if row.is_operator:
                whence += ", operators too"
            remarks = [row.why] if row.why else []
            remarks += [f"`{name}`" for name in row.differs]
            lines.append(f"| `{row.name}` | {whence} | {status(row.name)} | {', '.join(remarks)} |")
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
