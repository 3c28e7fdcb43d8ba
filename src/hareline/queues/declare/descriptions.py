"""What each queue argument is for, in the words of a form: a sentence, an input, an example.

Read by ``management.api.queue_arguments``, from which the web UI and other tools make their forms.
There is one row for each row of ``queues.declare.table``, in the order in which a form shows them;
what a value may be is decided by the table's readers alone.

Invariant: each argument of the table is described once, and its example and all its choices are
values that its reader takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hareline.queues.declare import readers as read
from hareline.queues.declare.table import BY_NAME, SEGMENT_MAX_BYTES

Input = Literal[
    "integer", "duration_ms", "bytes", "text", "choice", "flag", "number", "list", "json"
]

GROUPS: Final = (
    ("type", "Type and name"),
    ("limits", "Limits and overflow"),
    ("time", "Time"),
    ("dead-letters", "Dead letters"),
    ("order", "Order"),
    ("consumers", "Consumers"),
    ("groups", "Message groups"),
    ("keeping", "Keeping and archives"),
    ("compatibility", "Accepted, without effect"),
)


@dataclass(frozen=True, slots=True)
class Description:
    """``page``: of docs/, with an anchor. ``choices``: word and meaning, for the input "choice"
    and "list". ``minimum`` and ``maximum`` are of numbers."""

    name: str
    group: str
    title: str
    input: Input
    summary: str
    example: object
    page: str
    choices: tuple[tuple[str, str], ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    @property
    def queue_types(self) -> list[str]:
        return sorted(BY_NAME[self.name].queue_types)

    @property
    def aliases(self) -> list[str]:
        return [alias.name for alias in BY_NAME[self.name].aliases]

    @property
    def has_effect(self) -> bool:
        return BY_NAME[self.name].field is not None

    @property
    def needs(self) -> str | None:
        """The field of ``QueueArguments`` that must be set as well."""
        needs = BY_NAME[self.name].needs
        return None if needs is None else needs[0]


_TTL_MAX: Final = read.EXPIRY_MAX_MS
_ONE_NODE: Final = "Clients send it for clusters; this broker is one node, so it changes nothing."


def _accepted(
    name: str,
    title: str,
    input: Input,  # noqa: A002 - the name of the field
    example: object,
    summary: str = _ONE_NODE,
    **more: object,
) -> Description:
    return Description(
        name,
        "compatibility",
        title,
        input,
        summary,
        example,
        "queue-arguments",
        **more,  # type: ignore[arg-type] # choices, minimum, maximum
    )


# fmt: off
DESCRIPTIONS: Final[tuple[Description, ...]] = (
    Description("x-queue-type", "type", "Queue type", "choice",
        "A stream keeps what is read; a quorum queue must be durable and is a classic one here.",
        "classic", "non-destructive-queues",
        (("classic", "first in, first out, and all orders and groups"),
         ("quorum", "as classic, always durable, with a delivery limit of 20"),
         ("stream", "consumers read from any position and take nothing away"))),

    Description("x-max-length", "limits", "Maximum messages", "integer",
        "How many ready messages the queue holds before the overflow rule applies.",
        10_000, "overflow", minimum=0),
    Description("x-max-length-bytes", "limits", "Maximum bytes", "bytes",
        "How many bytes of ready messages the queue holds before the overflow rule applies.",
        104_857_600, "overflow", minimum=0),
    Description("x-overflow", "limits", "On overflow", "choice",
        "What happens to a message when the queue is full.",
        "reject-publish", "overflow",
        (("drop-head", "the oldest message is dropped or dead-lettered (the default)"),
         ("reject-publish", "the new message is refused; confirming publishers get a nack"),
         ("reject-publish-dlx", "as reject-publish, and the new message is dead-lettered"),
         ("none", "no limit is enforced"),
         ("discard", "the new message is dropped without a word"),
         ("flow-control", "its publishers wait until there is room"),
         ("flow-to-disk", "what is above the limit leaves memory and stays in the queue"))),
    Description("x-flow-resume-limit", "limits", "Resume publishers below", "number",
        "With flow-control: publishers go on when the queue is down to this percentage.",
        80, "overflow", minimum=0, maximum=100),
    Description("x-qpid-flow-resume-capacity", "limits", "Resume publishers below bytes", "bytes",
        "With flow-control: publishers go on when the queue is down to this many bytes.",
        50_000_000, "overflow", minimum=0),

    Description("x-message-ttl", "time", "Message TTL", "duration_ms",
        "How long a message stays ready before it expires, and is dead-lettered or dropped.",
        60_000, "time", minimum=0, maximum=_TTL_MAX),
    Description("x-min-message-ttl", "time", "Least message TTL", "duration_ms",
        "Expirations that publishers give are raised to this.",
        1_000, "time", minimum=0, maximum=_TTL_MAX),
    Description("x-max-message-ttl", "time", "Greatest message TTL", "duration_ms",
        "Expirations that publishers give are lowered to this; messages without one get it.",
        86_400_000, "time", minimum=0, maximum=_TTL_MAX),
    Description("x-expires", "time", "Queue expires after", "duration_ms",
        "The queue is deleted when it has not been used for so long.",
        1_800_000, "time", minimum=1, maximum=_TTL_MAX),
    Description("x-expires-if-empty", "time", "Expire only if empty", "flag",
        "A queue that has messages is not deleted by its lease.",
        True, "time"),
    Description("x-expiry-check-period", "time", "Check for expired every", "duration_ms",
        "How often messages behind the head are looked at for their time.",
        1_000, "time", minimum=0, maximum=_TTL_MAX),
    Description("x-hold-on-publish", "time", "Hold until valid", "flag",
        "Messages with a not-valid-before time are held back until then.",
        True, "time"),
    Description("expiryPolicy", "time", "Expired messages", "choice",
        "What becomes of a message whose time is over.",
        "ROUTE_TO_ALTERNATE", "dead-letters",
        (("DELETE", "it is dropped"),
         ("ROUTE_TO_ALTERNATE", "it is dead-lettered to the alternate"))),

    Description("x-dead-letter-exchange", "dead-letters", "Dead-letter exchange", "text",
        "Where rejected, expired and surplus messages are published; empty: the default exchange.",
        "dlx", "dead-letters"),
    Description("x-dead-letter-routing-key", "dead-letters", "Dead-letter routing key", "text",
        "The key they are published with, in place of their own.",
        "dead", "dead-letters"),
    Description("x-dead-letter-reasons", "dead-letters", "Dead-letter only for", "list",
        "Messages that leave for another reason are dropped.",
        ["rejected", "delivery_limit"], "dead-letters",
        (("rejected", "a consumer refused it"), ("expired", "its time was over"),
         ("maxlen", "the queue was full"), ("delivery_limit", "it came back too often"),
         ("replaced", "a newer value took its place"))),
    Description("x-dead-letter-transient", "dead-letters", "Dead-letter transient ones", "flag",
        "Whether transient messages are dead-lettered too.",
        True, "dead-letters"),
    Description("x-delivery-limit", "dead-letters", "Delivery limit", "integer",
        "How often a message may come back before it is dead-lettered; below 0 is no limit.",
        5, "dead-letters"),
    Description("x-qpid-maximum-delivery-count", "dead-letters", "Maximum deliveries", "integer",
        "How often a message is delivered at most; 0 is no limit.",
        5, "dead-letters", minimum=0),
    Description("x-dlq-auto", "dead-letters", "Make a dead-letter queue", "flag",
        "Declares an exchange and a queue for the dead letters of this queue.",
        True, "dead-letters"),
    Description("alternateBinding", "dead-letters", "Alternate", "json",
        "The queue or exchange for dead letters, as a table with a destination.",
        {"destination": "dead"}, "dead-letters"),

    Description("x-max-priority", "order", "Priorities (RabbitMQ)", "integer",
        "The highest priority; messages of a higher one are delivered first.",
        10, "queue-types#priority", minimum=0, maximum=255),
    Description("x-qpid-priorities", "order", "Priorities (Qpid)", "integer",
        "The number of levels, centred on priority 4.",
        10, "queue-types#priority", minimum=1, maximum=255),
    Description("x-default-priority", "order", "Default priority", "integer",
        "The priority of messages that have none.",
        4, "queue-types#priority", minimum=0, maximum=255),
    Description("x-sort-key", "order", "Sort by header", "text",
        "Messages are delivered in the order of this header.",
        "sequence", "queue-types#sorted"),
    Description("x-sort-order", "order", "Sort order", "choice",
        "Smallest or greatest first.", "desc", "queue-types#sorted",
        (("asc", "the smallest first"), ("desc", "the greatest first"))),
    Description("x-sort-type", "order", "Compare as", "choice",
        "How two values of the sort header are compared.", "number", "queue-types#sorted",
        (("string", "as text"), ("number", "as numbers"))),
    Description("x-last-value-key", "order", "Last value by header", "text",
        "Of the messages with the same value of this header the queue keeps only the last.",
        "symbol", "queue-types#last-value"),

    Description("x-single-active-consumer", "consumers", "Single active consumer", "flag",
        "One consumer receives, the others wait until it leaves.",
        True, "consumers"),
    Description("x-max-consumers", "consumers", "Maximum consumers", "integer",
        "A consumer too many is refused.", 10, "consumers#who-may-consume", minimum=1),
    Description("maximumLiveConsumers", "consumers", "Maximum live consumers", "integer",
        "So many consumers receive and further ones wait; 0 is no limit.",
        2, "consumers", minimum=0),
    Description("x-non-destructive", "consumers", "Read without taking", "flag",
        "Each consumer gets every message, and none is removed by it.",
        True, "non-destructive-queues"),
    Description("x-default-filters", "consumers", "Default filters", "json",
        "Filters for consumers that bring none.",
        {"big": {"x-filter-jms-selector": ["size > 100"]}}, "consumers#default-filters"),
    Description("no-local", "consumers", "No local", "flag",
        "Consumers do not get what their own connection publishes.",
        True, "consumers#arguments-of-basicconsume"),

    Description("x-message-group-key", "groups", "Group by header", "text",
        "Messages with the same value of this header go to one consumer, in order.",
        "JMSXGroupID", "message-groups"),
    Description("x-message-group-type", "groups", "Group type", "choice",
        "How long a group stays with its consumer.", "shared", "message-groups",
        (("none", "no groups"), ("standard", "until the consumer leaves"),
         ("shared", "until none of its messages is unacknowledged"))),
    Description("x-message-group-default", "groups", "Default group", "text",
        "The group of messages that have no value for the header.",
        "rest", "message-groups"),

    Description("x-message-durability", "keeping", "Message durability", "choice",
        "Which messages a durable queue keeps over a restart.",
        "always", "durability#what-is-kept",
        (("default", "the persistent ones"), ("always", "all"), ("never", "none"))),
    Description("x-max-age", "keeping", "Maximum age", "text",
        "A stream drops messages that are older: a number and Y, M, D, h, m or s.",
        "7D", "non-destructive-queues"),
    Description("x-archive-to", "keeping", "Archive to stream", "text",
        "What the queue gets is also put into this stream.",
        "archive", "archiving"),

    _accepted("x-dead-letter-strategy", "Dead-letter strategy", "choice", "at-least-once",
        "Persistent dead letters are never lost here, so both mean the same.",
        choices=(("at-most-once", ""), ("at-least-once", ""))),
    _accepted("x-queue-mode", "Queue mode", "choice", "lazy",
        "Every deep queue leaves memory by itself.",
        choices=(("default", ""), ("lazy", ""))),
    _accepted("x-queue-version", "Queue version", "integer", 2,
        "There is one way to keep a queue here.", minimum=1, maximum=2),
    _accepted("x-max-in-memory-length", "Messages in memory", "integer", 1_000,
        "Use the maximum of messages with the overflow rule flow-to-disk.", minimum=0),
    _accepted("x-max-in-memory-bytes", "Bytes in memory", "bytes", 1_000_000,
        "Use the maximum of bytes with the overflow rule flow-to-disk.", minimum=0),
    _accepted("x-consumer-timeout", "Consumer timeout", "duration_ms", 1_800_000,
        "What a consumer holds is limited by its prefetch.", minimum=0, maximum=_TTL_MAX),
    _accepted("x-delayed-retry-type", "Delayed retry", "choice", "disabled",
        "Retry by a queue with a TTL that dead-letters back.",
        choices=(("disabled", ""), ("all", ""), ("returned", ""), ("failed", ""))),
    _accepted("x-delayed-retry-min", "Delayed retry from", "duration_ms", 1_000,
        "Retry by a queue with a TTL that dead-letters back.", minimum=0, maximum=_TTL_MAX),
    _accepted("x-delayed-retry-max", "Delayed retry to", "duration_ms", 60_000,
        "Retry by a queue with a TTL that dead-letters back.", minimum=0, maximum=_TTL_MAX),
    _accepted("x-stream-max-segment-size-bytes", "Segment size", "bytes", 500_000_000,
        "A stream drops by message; the journal's files have the size of a setting.",
        minimum=0, maximum=SEGMENT_MAX_BYTES),
    _accepted("x-stream-filter-size-bytes", "Filter size", "bytes", 16,
        "Stream filters work without it.", minimum=16, maximum=255),
    _accepted("x-queue-leader-locator", "Leader locator", "choice", "balanced",
        choices=(("client-local", ""), ("balanced", ""), ("random", ""), ("least-leaders", ""),
                 ("min-masters", ""))),
    _accepted("x-queue-master-locator", "Master locator", "text", "min-masters"),
    _accepted("x-initial-cluster-size", "Cluster size", "integer", 1, minimum=1),
    _accepted("x-quorum-initial-group-size", "Group size", "integer", 1, minimum=1),
    _accepted("x-member-placement-tag", "Placement tag", "text", "rack-1"),
    _accepted("x-consumer-disconnected-timeout", "Disconnected timeout", "duration_ms", 60_000,
        minimum=0, maximum=_TTL_MAX),
)
# fmt: on
