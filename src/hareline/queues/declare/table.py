"""The table of queue arguments: one row for each that this broker knows.

Read by ``queues.declare.arguments``, which makes a ``QueueArguments`` of a declare's arguments, and
by the test that keeps docs/queue-arguments.md complete. A row gives the RabbitMQ-style name, the
field of ``QueueArguments`` that holds the value, its reader, the queue types that know the
argument, and the Qpid wire and attribute names that mean the same (Broker-J,
``QueueArgumentsConverter``).

RabbitMQ has arguments that mean nothing here, since there is one node and one way to keep a queue.
Their rows are ``_no_effect``: the value is checked, and compared when the queue is declared again,
because clients go by that; it fills no field, and nothing else reads it.

Invariant: no name stands in two rows, and each field of ``QueueArguments`` but ``raw`` has one row.
A name of Qpid's that means something else than RabbitMQ's has a row and a field of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hareline.queues.declare import readers as read
from hareline.queues.declare.readers import Reader

DEFAULT_QUEUE_TYPE: Final = "classic"
SEGMENT_MAX_BYTES: Final = 3_000_000_000  # rabbit_stream_queue: ?MAX_STREAM_MAX_SEGMENT_SIZE


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of an argument, with its own reader.

    A ``is_fallback`` alias is a switch: it counts where no other name was given, may answer None
    for "off", and never contradicts another name.
    """

    name: str
    reader: Reader
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """One row.

    ``field`` None: accepted, without effect. ``needs`` is a field that must be set as well, with
    the error term if it is not. ``same_as_absent`` is the text that a redeclaration may leave out,
    or add. ``is_ordering``: it makes the queue one of an ordering, so no two of these go together.
    """

    name: str
    field: str | None
    reader: Reader
    queue_types: frozenset[str]
    aliases: tuple[Alias, ...] = ()
    needs: tuple[str, str] | None = None
    same_as_absent: str | None = None
    is_ordering: bool = False

    def names_in(self, arguments: Mapping[str, object]) -> list[Alias]:
        """Which of its names were given, the canonical one first.

        A void under one of Qpid's names counts as absent, as it does there.
        """
        canonical = [Alias(self.name, self.reader)] if self.name in arguments else []
        return canonical + [
            alias for alias in self.aliases if arguments.get(alias.name) is not None
        ]


def _also(reader: Reader, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(name, reader) for name in names)


def _switch(reader: Reader, name: str) -> tuple[Alias, ...]:
    return (Alias(name, reader, is_fallback=True),)


def _no_effect(name: str, reader: Reader, queue_types: frozenset[str]) -> Argument:
    return Argument(name, None, reader, queue_types)


_CLASSIC: Final = frozenset(("classic",))
_QUORUM: Final = frozenset(("quorum",))
_STREAM: Final = frozenset(("stream",))
_QUEUES: Final = _CLASSIC | _QUORUM
_ANY: Final = _QUEUES | _STREAM

_QUEUE_TYPE: Final = read.one_of(
    "classic", "quorum", "stream", otherwise="\"unsupported queue type '{}'\""
)
_QUEUE_MODE: Final = read.one_of("default", "lazy", otherwise="\"unsupported queue mode '{}'\"")
_LOCATOR: Final = read.one_of(
    "client-local",
    "balanced",
    "random",
    "least-leaders",
    "min-masters",
    otherwise="invalid_queue_locator_arg",
)
_STRATEGY: Final = read.one_of("at-most-once", "at-least-once", otherwise="invalid_dlx_strategy")
_RETRY_TYPE: Final = read.one_of(
    "disabled", "all", "returned", "failed", otherwise="invalid_delayed_retry_type"
)
_SEGMENT_SIZE: Final = read.between(
    0, SEGMENT_MAX_BYTES, "Exceeded max value for x-stream-max-segment-size-bytes"
)
_FILTER_SIZE: Final = read.between(16, 255, "Invalid value for x-stream-filter-size-bytes")
#: The first is what a full queue does by default.
RABBITMQ_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
_OVERFLOW: Final = read.one_of(
    *RABBITMQ_OVERFLOWS,
    "none",
    "discard",
    "flow-control",
    "flow-to-disk",
    otherwise="invalid_overflow",
)
_QPID_OVERFLOW_NAMES: Final = {
    "NONE": "none",
    "RING": "drop-head",
    "PRODUCER_FLOW_CONTROL": "flow-control",
    "FLOW_TO_DISK": "flow-to-disk",
    "REJECT": "reject-publish",
}
_QPID_OVERFLOW: Final = read.qpid_choice(_QPID_OVERFLOW_NAMES, "invalid_overflow")
_QPID_POLICY: Final = read.qpid_choice(_QPID_OVERFLOW_NAMES, "invalid_overflow", any_case=True)
_EXPIRY_POLICY: Final = read.qpid_choice(
    {"DELETE": "delete", "ROUTE_TO_ALTERNATE": "route-to-alternate"}, "invalid_expiry_policy"
)
_SORT_ORDER: Final = read.one_of("asc", "desc", otherwise="invalid_sort_order")
_SORT_TYPE: Final = read.one_of("string", "number", otherwise="invalid_sort_type")
_GROUP_TYPE: Final = read.one_of(
    "none", "standard", "shared", otherwise="invalid_message_group_type"
)
_QPID_GROUP_TYPE: Final = read.qpid_choice(
    {"NONE": "none", "STANDARD": "standard", "SHARED_GROUPS": "shared"},
    "invalid_message_group_type",
)
_DURABILITY: Final = read.one_of(
    "default", "always", "never", otherwise="invalid_message_durability"
)
_QPID_DURABILITY: Final = read.qpid_choice(
    {"DEFAULT": "default", "ALWAYS": "always", "NEVER": "never"}, "invalid_message_durability"
)
_LEVELS: Final = read.qpid_integer(1, read.PRIORITY_MAX)
_COUNT: Final = read.qpid_integer(0)
_TTL_BOUND: Final = read.qpid_integer(0, read.EXPIRY_MAX_MS)

# fmt: off
# RabbitMQ's own rows first, in the order in which rabbit_amqqueue validates them. Classic queues
# also take QUORUM_ONLY_IN_RABBITMQ, and x-queue-leader-locator, which it takes there since 3.13.
ARGUMENTS: Final[tuple[Argument, ...]] = (
    Argument("x-expires", "expires_ms", read.lease_ms, _QUEUES),
    Argument("x-message-ttl", "message_ttl_ms", read.expiry_ms, _QUEUES),
    Argument("x-dead-letter-exchange", "dead_letter_exchange", read.text, _QUEUES),
    Argument("x-dead-letter-routing-key", "dead_letter_routing_key", read.text, _QUEUES,
             needs=("dead_letter_exchange", "routing_key_but_no_dlx_defined")),
    _no_effect("x-dead-letter-strategy", _STRATEGY, _QUORUM),
    Argument("x-max-length", "max_length", read.natural, _QUEUES,
             _also(read.qpid_limit, "qpid.max_count", "maximumQueueDepthMessages")),
    Argument("x-max-length-bytes", "max_length_bytes", read.natural, _ANY,
             _also(read.qpid_limit, "qpid.max_size", "x-qpid-capacity", "maximumQueueDepthBytes")),
    _no_effect("x-max-in-memory-length", read.natural, _QUORUM),
    _no_effect("x-max-in-memory-bytes", read.natural, _QUORUM),
    Argument("x-max-priority", "max_priority", read.priority, _CLASSIC, is_ordering=True),
    Argument("x-overflow", "overflow", _OVERFLOW, _QUEUES,
             _also(_QPID_POLICY, "qpid.policy_type") + _also(_QPID_OVERFLOW, "overflowPolicy")),
    _no_effect("x-queue-mode", _QUEUE_MODE, _CLASSIC),
    _no_effect("x-queue-version", read.queue_version, _CLASSIC),
    Argument("x-single-active-consumer", "single_active_consumer", read.flag, _QUEUES),
    Argument("x-queue-type", "queue_type", _QUEUE_TYPE, _ANY, same_as_absent=DEFAULT_QUEUE_TYPE),
    _no_effect("x-quorum-initial-group-size", read.at_least_one, _QUORUM),
    Argument("x-max-age", "max_age_ms", read.max_age_ms, _STREAM),
    _no_effect("x-stream-max-segment-size-bytes", _SEGMENT_SIZE, _STREAM),
    _no_effect("x-stream-filter-size-bytes", _FILTER_SIZE, _STREAM),
    _no_effect("x-initial-cluster-size", read.at_least_one, _STREAM),
    _no_effect("x-queue-leader-locator", _LOCATOR, _ANY),
    _no_effect("x-queue-master-locator", read.text_or_ignored, _CLASSIC),
    Argument("x-delivery-limit", "delivery_limit", read.any_integer, _QUEUES),
    _no_effect("x-delayed-retry-type", _RETRY_TYPE, _QUEUES),
    _no_effect("x-delayed-retry-min", read.expiry_ms, _QUEUES),
    _no_effect("x-delayed-retry-max", read.expiry_ms, _QUEUES),
    _no_effect("x-consumer-timeout", read.expiry_ms, _QUEUES),
    _no_effect("x-consumer-disconnected-timeout", read.expiry_ms, _QUORUM),
    _no_effect("x-member-placement-tag", read.text, _QUORUM),

    # Orderings.
    Argument("x-qpid-priorities", "priorities", _LEVELS, _CLASSIC, _also(_LEVELS, "priorities"),
             is_ordering=True),
    Argument("x-default-priority", "default_priority", read.priority, _CLASSIC),
    Argument("x-sort-key", "sort_key", read.filled_text, _CLASSIC,
             _also(read.filled_text, "qpid.queue_sort_key", "sortKey"), is_ordering=True),
    Argument("x-sort-order", "sort_order", _SORT_ORDER, _CLASSIC,
             needs=("sort_key", "sort_order_but_no_sort_key_defined")),
    Argument("x-sort-type", "sort_type", _SORT_TYPE, _CLASSIC,
             needs=("sort_key", "sort_type_but_no_sort_key_defined")),
    Argument("x-last-value-key", "last_value_key", read.filled_text, _CLASSIC,
             _also(read.filled_text, "qpid.last_value_queue_key", "lvqKey")
             + _switch(read.qpid_last_value_switch, "qpid.last_value_queue"), is_ordering=True),

    # Who gets what.
    Argument("x-message-group-key", "message_group_key", read.filled_text, _QUEUES,
             _also(read.filled_text, "qpid.group_header_key", "messageGroupKeyOverride")),
    Argument("x-message-group-type", "message_group_type", _GROUP_TYPE, _QUEUES,
             _also(_QPID_GROUP_TYPE, "messageGroupType")
             + _switch(read.qpid_shared_groups_switch, "qpid.shared_msg_group")),
    Argument("x-message-group-default", "message_group_default", read.filled_text, _QUEUES,
             _also(read.filled_text, "qpid.default-message-group", "messageGroupDefaultGroup")),
    Argument("x-max-consumers", "max_consumers", read.at_least_one, _ANY),
    Argument("maximumLiveConsumers", "max_live_consumers", _COUNT, _QUEUES),
    Argument("x-non-destructive", "non_destructive", read.flag, _CLASSIC | _STREAM,
             _also(read.qpid_flag, "qpid.ensure_nondestructive_consumers",
                   "ensureNondestructiveConsumers")),
    Argument("x-default-filters", "default_filters", read.default_filters, _ANY,
             _also(read.default_filters, "qpid.default_filters", "defaultFilters")),
    Argument("no-local", "no_local", read.qpid_truth, _ANY, _also(read.qpid_flag, "noLocal")),

    # Time, room and refusal.
    Argument("x-min-message-ttl", "min_message_ttl_ms", read.expiry_ms, _QUEUES,
             _also(_TTL_BOUND, "minimumMessageTtl")),
    Argument("x-max-message-ttl", "max_message_ttl_ms", read.expiry_ms, _QUEUES,
             _also(_TTL_BOUND, "maximumMessageTtl")),
    Argument("expiryPolicy", "expiry_policy", _EXPIRY_POLICY, _QUEUES),
    Argument("x-expiry-check-period", "expiry_check_period_ms", read.expiry_ms, _QUEUES),
    Argument("x-expires-if-empty", "expires_if_empty", read.flag, _QUEUES),
    Argument("x-hold-on-publish", "hold_on_publish", read.flag, _QUEUES,
             _also(read.qpid_flag, "holdOnPublishEnabled")),
    Argument("x-flow-resume-limit", "flow_resume_percent", read.percent, _QUEUES),
    Argument("x-qpid-flow-resume-capacity", "flow_resume_capacity_bytes", _COUNT, _QUEUES),
    Argument("x-dead-letter-reasons", "dead_letter_reasons", read.death_reasons, _QUEUES),
    Argument("x-dead-letter-transient", "dead_letter_transient", read.flag, _QUEUES),
    Argument("x-dlq-auto", "dlq_auto", read.flag, _QUEUES,
             _also(read.qpid_flag, "x-qpid-dlq-enabled")),
    Argument("alternateBinding", "alternate_binding", read.alternate_binding, _QUEUES,
             _also(read.filled_text, "alternateExchange")),
    Argument("x-qpid-maximum-delivery-count", "max_delivery_attempts", _COUNT, _QUEUES,
             _also(_COUNT, "maximumDeliveryAttempts")),
    Argument("x-message-durability", "message_durability", _DURABILITY, _CLASSIC,
             _also(_QPID_DURABILITY, "qpid.message_durability", "messageDurability")),
    Argument("x-archive-to", "archive_to", read.filled_text, _ANY),
)
# fmt: on

#: What classic queues have here, and RabbitMQ refuses for them.
QUORUM_ONLY_IN_RABBITMQ: Final = frozenset(
    (
        *("x-delivery-limit", "x-consumer-timeout", "x-delayed-retry-type"),
        *("x-delayed-retry-min", "x-delayed-retry-max"),
    )
)

ORDERINGS: Final = tuple(
    argument.field for argument in ARGUMENTS if argument.is_ordering and argument.field is not None
)

BY_NAME: Final[Mapping[str, Argument]] = {
    name: argument
    for argument in ARGUMENTS
    for name in (argument.name, *(alias.name for alias in argument.aliases))
}
BY_FIELD: Final[Mapping[str, Argument]] = {
    argument.field: argument for argument in ARGUMENTS if argument.field is not None
}
