"""Queue arguments: one row for each, which says all that the broker knows of it.

The fields of ``QueueArguments`` are the rows of arguments that do something; those that RabbitMQ
has and that mean nothing here follow them. Declarations, policies, changes at run time, forms, the
HTTP API and exports all read the rows, so another argument is another row, and its line in
docs/queue-arguments.md. A reader that no row has yet needs its input in ``_INPUTS``.

Names of Qpid are those of Broker-J (``QueueArgumentsConverter``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from hareline.queues.declare import readers as read
from hareline.queues.declare.readers import (
    DefaultFilter,
    InvalidValue,
    OutOfBounds,
    Reader,
    type_name,
)

QueueType = Literal["classic", "quorum", "stream"]
OverflowPolicy = Literal[
    "drop-head",
    "reject-publish",
    "reject-publish-dlx",
    "none",
    "discard",
    "flow-control",
    "flow-to-disk",
]
Input = Literal[
    "integer", "duration_ms", "bytes", "text", "choice", "flag", "number", "list", "json"
]
#: The part of a living queue that follows a change. "consumers": nothing has to, since it is looked
#: at when a consumer comes. "kind": it can follow only while nothing is in it and no one consumes.
Live = Literal[
    "limits",
    "times",
    "dead-letters",
    "returns",
    "lease",
    "unused",
    "active-consumers",
    "dispatch",
    "consumers",
    "consumer-rules",
    "hold",
    "retry",
    "order",
    "kind",
    "deduplication",
]

DEFAULT_QUEUE_TYPE: Final = "classic"
_NUMBER_MAX: Final = 1 << 63


class Group(NamedTuple):
    """A group of a form. ``page``: of docs/, for arguments that name no other."""

    name: str
    title: str
    page: str


_TYPE: Final = Group("type", "Type and name", "non-destructive-queues")
_LIMITS: Final = Group("limits", "Limits and overflow", "overflow")
_TIME: Final = Group("time", "Time", "time")
_RETRY: Final = Group("retry", "Retries", "consumers#delayed-retry")
_DEAD_LETTERS: Final = Group("dead-letters", "Dead letters", "dead-letters")
_ORDER: Final = Group("order", "Order", "queue-types")
_CONSUMERS: Final = Group("consumers", "Consumers", "consumers")
_GROUPS: Final = Group("groups", "Message groups", "message-groups")
_DUPLICATES: Final = Group("duplicates", "Duplicates", "deduplication#by-message-id")
_KEEPING: Final = Group("keeping", "Keeping and archives", "durability#what-is-kept")
_ACCEPTED: Final = Group("compatibility", "Accepted, without effect", "queue-arguments")
#: In the order in which a form shows them.
GROUPS: Final = (
    *(
        _TYPE,
        _LIMITS,
        _TIME,
        _RETRY,
        _DEAD_LETTERS,
        _ORDER,
        _CONSUMERS,
        _GROUPS,
        _DUPLICATES,
        _KEEPING,
    ),
    _ACCEPTED,
)


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
class PolicyKey:
    """A key of policies. ``what``: its value in errors. ``argument``: None if it sets none.

    ``rule``: what a queue says itself beats a policy ("own"); or of two values the smaller one
    counts, and operator policies may have it ("smaller"); or it is as "own", but operator policies
    may have it, and beat policies ("operator"). ``is_ours``: RabbitMQ has no such key.
    """

    what: str
    reader: Reader
    rule: Literal["own", "smaller", "operator"] = "own"
    argument: Argument | None = None
    is_ours: bool = False

    @property
    def is_limit(self) -> bool:
        """True if of two values the smaller one counts."""
        return self.rule == "smaller"

    @property
    def is_operator(self) -> bool:
        """True if operator policies may have it."""
        return self.rule != "own"

    def is_valid(self, value: object) -> bool:
        """True if a policy may give it this value."""
        try:
            result = self.reader(value, type_name(value))
        except InvalidValue:
            return False
        return not isinstance(result, int) or -_NUMBER_MAX <= result < _NUMBER_MAX


class Limit(NamedTuple):
    """A limit of a queue. ``at_limit``: empty where its overflow policy says what happens then."""

    title: str
    at_limit: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """One row. ``field`` None: accepted, without effect.

    Its name, reader and queue types are followed by what a form says; ``page`` is of docs/, with an
    anchor. ``needs`` is a field that must be set as well, with the error term if it is not.
    ``same_as_absent`` is the text that a redeclaration may leave out, or add. ``is_ordering``: it
    makes the queue one of an ordering, so no two of these go together. ``live``: it can be changed
    while the queue works. ``policy``: its key; without one, what is live has a key of ours by the
    rule "own". ``bounded_by``: keys of operator policies that it must not get around. ``limit``:
    for lists of limits in use. ``is_for_quorum_in_rabbitmq``: not for classic queues there.
    """

    name: str
    reader: Reader
    queue_types: frozenset[str]
    group: Group
    title: str
    example: object
    summary: str
    _: KW_ONLY
    page: str = ""
    is_bytes: bool = False
    aliases: tuple[Alias, ...] = ()
    needs: tuple[str, str] | None = None
    same_as_absent: str | None = None
    is_ordering: bool = False
    live: Live | None = None
    policy: PolicyKey | None = None
    bounded_by: tuple[str, ...] = ()
    limit: Limit | None = None
    is_for_quorum_in_rabbitmq: bool = False
    field: str | None = None

    @property
    def input(self) -> Input:
        """The input of a form."""
        if self.is_bytes:
            return "bytes"
        if self.choices:
            return "list" if isinstance(self.reader, read.SomeOf) else "choice"
        return _INPUTS.get(self.reader, "integer")

    @property
    def choices(self) -> Mapping[str, str]:
        """The words that it may be, each with its meaning."""
        return self.reader.words if isinstance(self.reader, read.Choice | read.SomeOf) else {}

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The least and the greatest number that it may be."""
        if isinstance(self.reader, read.Whole | read.Within | read.Percent):
            return self.reader.minimum, self.reader.maximum
        return None, None

    @property
    def key(self) -> str:
        """Its key in policies, if it has one."""
        return self.name.removeprefix("x-")

    @property
    def names(self) -> tuple[str, ...]:
        """All its names, the canonical one first."""
        return (self.name, *(alias.name for alias in self.aliases))

    def given_in(self, arguments: Mapping[str, object]) -> list[Alias]:
        """The names under which it was given, the canonical one first.

        A void under one of Qpid's names counts as absent, as it does there.
        """
        canonical = [Alias(self.name, self.reader)] if self.name in arguments else []
        return canonical + [each for each in self.aliases if arguments.get(each.name) is not None]


class OverflowRule(NamedTuple):
    """An overflow policy: its meaning in forms, and what happens to a queue at its limit.

    ``qpid``: Broker-J's word. ``is_bound``: the queue never holds much more than its limits.
    """

    meaning: str
    at_limit: str
    qpid: str | None = None
    is_bound: bool = True
    is_rabbitmqs: bool = False


# fmt: off
OVERFLOWS: Final[Mapping[OverflowPolicy, OverflowRule]] = {
    "drop-head": OverflowRule(
        "the oldest message is dropped or dead-lettered (the default)",
        "the oldest message is dropped or dead-lettered", "RING", is_rabbitmqs=True),
    "reject-publish": OverflowRule(
        "the new message is refused; confirming publishers get a nack",
        "new messages are refused", "REJECT", is_rabbitmqs=True),
    "reject-publish-dlx": OverflowRule(
        "as reject-publish, and the new message is dead-lettered",
        "new messages are refused and dead-lettered", is_rabbitmqs=True),
    "none": OverflowRule(
        "no limit is enforced", "nothing: the limit is not enforced", "NONE", is_bound=False),
    "discard": OverflowRule(
        "the new message is dropped without a word", "new messages are dropped"),
    "flow-control": OverflowRule(
        "its publishers wait until there is room", "its publishers wait", "PRODUCER_FLOW_CONTROL"),
    "flow-to-disk": OverflowRule(
        "what is above the limit leaves memory and stays in the queue",
        "what is above the limit leaves memory", "FLOW_TO_DISK", is_bound=False),
}
# fmt: on
DEFAULT_OVERFLOW: Final = "drop-head"
RABBITMQ_OVERFLOWS: Final = tuple(word for word, rule in OVERFLOWS.items() if rule.is_rabbitmqs)

_INPUTS: Final[Mapping[Reader, Input]] = {
    read.flag: "flag",
    read.qpid_truth: "flag",
    read.text: "text",
    read.filled_text: "text",
    read.text_or_ignored: "text",
    read.max_age_ms: "text",
    read.expiry_ms: "duration_ms",
    read.lease_ms: "duration_ms",
    read.percent: "number",
    read.alternate_binding: "json",
    read.default_filters: "json",
}
_CLASSIC: Final = frozenset(("classic",))
_QUORUM: Final = frozenset(("quorum",))
_STREAM: Final = frozenset(("stream",))
_QUEUES: Final = _CLASSIC | _QUORUM
_ANY: Final = _QUEUES | _STREAM

_LEVELS: Final = read.qpid_integer(1, read.PRIORITY_MAX)
_COUNT: Final = read.qpid_integer(0)
_CACHE_SIZE: Final = read.Whole(1, 1_000_000)  # some 150 MB
_RETRY_TYPE: Final = read.Choice(
    {
        "all": "all that come back",
        "returned": "what a client gives back, as by basic.nack",
        "failed": "what a client rejects, or had when its channel or connection ended",
        "disabled": "none",
    },
    "invalid_delayed_retry_type",
)
_TTL_BOUND: Final = read.qpid_integer(0, read.EXPIRY_MAX_MS)
_QPID_OVERFLOWS: Final = {rule.qpid: word for word, rule in OVERFLOWS.items() if rule.qpid}


def _also(reader: Reader, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(name, reader) for name in names)


def _switch(reader: Reader, name: str) -> tuple[Alias, ...]:
    return (Alias(name, reader, is_fallback=True),)


def _by(row: Argument) -> Any:
    """The field of ``QueueArguments`` that a row fills."""
    return field(default=None, metadata={"row": row})


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueArguments:
    """The arguments a queue was declared with, read and checked; None: not given.

    ``raw`` is what came, untouched, with the arguments that have no effect and unknown ones. Two
    values are equal when they mean the same, whatever names they came under. A limit that Qpid's
    names set to a negative number is off, which is None. The rows are in the order of forms.
    """

    raw: Mapping[str, object] = field(compare=False)

    queue_type: QueueType | None = _by(  # noqa: RUF009 - makes a field
        Argument("x-queue-type", read.Choice({
            "classic": "first in, first out, and all orders and groups",
            "quorum": "as classic, always durable, with a delivery limit of 20",
            "stream": "consumers read from any position and take nothing away",
        }, otherwise="\"unsupported queue type '{}'\""), _ANY, _TYPE, "Queue type", "classic",
        "A stream keeps what is read; a quorum queue must be durable and is a classic one here.",
        same_as_absent=DEFAULT_QUEUE_TYPE))

    # ---------------------------------------------------------------------------------- how much
    max_length: int | None = _by(Argument("x-max-length", read.natural, _QUEUES, _LIMITS,
        "Maximum messages", 10_000,
        "How many ready messages the queue holds before the overflow rule applies.",
        aliases=_also(read.qpid_limit, "qpid.max_count", "maximumQueueDepthMessages"),
        live="limits", limit=Limit("Messages"),
        policy=PolicyKey("maximum length", read.natural, "smaller")))
    max_length_bytes: int | None = _by(Argument("x-max-length-bytes", read.natural, _ANY, _LIMITS,
        "Maximum bytes", 104_857_600,
        "How many bytes of ready messages the queue holds before the overflow rule applies.",
        aliases=_also(
            read.qpid_limit, "qpid.max_size", "x-qpid-capacity", "maximumQueueDepthBytes"),
        is_bytes=True, live="limits", limit=Limit("Bytes of messages"),
        policy=PolicyKey("maximum length in bytes", read.natural, "smaller")))
    #: If only Qpid's names set limits, these bound nothing until a policy is named: "none".
    overflow: OverflowPolicy | None = _by(  # noqa: RUF009 - makes a field
        Argument("x-overflow", read.Choice(
            {word: rule.meaning for word, rule in OVERFLOWS.items()}, "invalid_overflow"),
        _QUEUES, _LIMITS, "On overflow", "reject-publish",
        "What happens to a message when the queue is full.",
        aliases=_also(read.qpid_choice(_QPID_OVERFLOWS, "invalid_overflow", any_case=True),
                      "qpid.policy_type")
        + _also(read.qpid_choice(_QPID_OVERFLOWS, "invalid_overflow"), "overflowPolicy"),
        live="limits", bounded_by=("max-length", "max-length-bytes"),
        policy=PolicyKey("overflow value", read.one_of(*RABBITMQ_OVERFLOWS), "operator")))
    flow_resume_percent: float | None = _by(Argument("x-flow-resume-limit", read.percent, _QUEUES,
        _LIMITS, "Resume publishers below", 80,
        "With flow-control: publishers go on when the queue is down to this percentage.",
        live="limits"))
    flow_resume_capacity_bytes: int | None = _by(Argument("x-qpid-flow-resume-capacity", _COUNT,
        _QUEUES, _LIMITS, "Resume publishers below bytes", 50_000_000,
        "With flow-control: publishers go on when the queue is down to this many bytes.",
        is_bytes=True, live="limits"))

    # ---------------------------------------------------------------------------------- how long
    message_ttl_ms: int | None = _by(Argument("x-message-ttl", read.expiry_ms, _QUEUES, _TIME,
        "Message TTL", 60_000,
        "How long a message stays ready before it expires, and is dead-lettered or dropped.",
        live="times", policy=PolicyKey("message TTL", read.natural, "smaller")))
    min_message_ttl_ms: int | None = _by(Argument("x-min-message-ttl", read.expiry_ms, _QUEUES,
        _TIME, "Least message TTL", 1_000, "Expirations that publishers give are raised to this.",
        aliases=_also(_TTL_BOUND, "minimumMessageTtl"), live="times", bounded_by=("message-ttl",)))
    max_message_ttl_ms: int | None = _by(Argument("x-max-message-ttl", read.expiry_ms, _QUEUES,
        _TIME, "Greatest message TTL", 86_400_000,
        "Expirations that publishers give are lowered to this; messages without one get it.",
        aliases=_also(_TTL_BOUND, "maximumMessageTtl"), live="times"))
    expires_ms: int | None = _by(Argument("x-expires", read.lease_ms, _QUEUES, _TIME,
        "Queue expires after", 1_800_000,
        "The queue is deleted when it has not been used for so long.",
        live="lease", policy=PolicyKey("queue expiry", read.at_least_one, "smaller")))
    expires_if_empty: bool | None = _by(Argument("x-expires-if-empty", read.flag, _QUEUES, _TIME,
        "Expire only if empty", True, "A queue that has messages is not deleted by its lease.",
        live="lease", bounded_by=("expires",)))
    auto_delete_delay_ms: int | None = _by(Argument("x-auto-delete-delay", read.expiry_ms, _CLASSIC,
        _TIME, "Auto-delete after", 60_000,
        "An auto-delete queue stays for so long after its last consumer has left.",
        page="time#auto-delete", live="unused"))
    auto_delete_message_count: int | None = _by(Argument("x-auto-delete-message-count",
        read.natural, _CLASSIC, _TIME, "Auto-delete with at most", 0,
        "An auto-delete queue that has more messages stays until it has no more than these.",
        page="time#auto-delete", live="unused"))
    expiry_check_period_ms: int | None = _by(Argument("x-expiry-check-period", read.expiry_ms,
        _QUEUES, _TIME, "Check for expired every", 1_000,
        "How often messages behind the head are looked at for their time.", live="times"))
    hold_on_publish: bool | None = _by(Argument("x-hold-on-publish", read.flag, _QUEUES, _TIME,
        "Hold until valid", True,
        "Messages with a not-valid-before time are held back until then.",
        aliases=_also(read.qpid_flag, "holdOnPublishEnabled"), live="hold"))
    hold_until_header: str | None = _by(Argument("x-hold-until-header", read.filled_text, _QUEUES,
        _TIME, "Hold until the time in header", "eta",
        "Messages with a time ahead in this header, such as Celery's eta, are held back until "
        "then.", live="hold"))
    expiry_policy: Literal["delete", "route-to-alternate"] | None = _by(Argument("expiryPolicy",
        read.Choice({"DELETE": "it is dropped",
                     "ROUTE_TO_ALTERNATE": "it is dead-lettered to the alternate"},
                    "invalid_expiry_policy",
                    {"DELETE": "delete", "ROUTE_TO_ALTERNATE": "route-to-alternate"}),
        _QUEUES, _TIME, "Expired messages", "ROUTE_TO_ALTERNATE",
        "What becomes of a message whose time is over.", page="dead-letters", live="dead-letters"))

    # ----------------------------------------------------- how long what comes back is kept back
    #: None with a shortest wait: as in LavinMQ, what clients reject or return.
    delayed_retry_type: Literal["all", "returned", "failed", "disabled"] | None = _by(Argument(
        "x-delayed-retry-type", _RETRY_TYPE, _QUEUES, _RETRY, "Wait before a retry", "all",
        "Which messages that come back wait before they are delivered again.",
        live="retry", is_for_quorum_in_rabbitmq=True))
    #: None with a type: a second.
    delayed_retry_min_ms: int | None = _by(Argument("x-delayed-retry-min", read.expiry_ms, _QUEUES,
        _RETRY, "First wait", 1_000,
        "How long a message waits after its first return; later ones wait longer.",
        live="retry", is_for_quorum_in_rabbitmq=True))
    delayed_retry_max_ms: int | None = _by(Argument("x-delayed-retry-max", read.expiry_ms, _QUEUES,
        _RETRY, "Longest wait", 60_000, "How long a message waits at most.",
        live="retry", is_for_quorum_in_rabbitmq=True,
        needs=("delayed_retry_min_ms", "delayed_retry_max_but_no_min_defined")))
    #: None is linear.
    delayed_retry_multiplier: int | None = _by(Argument("x-delayed-retry-multiplier",
        read.at_least_one, _QUEUES, _RETRY, "Each wait times", 2,
        "Each wait is so many times the one before; without it the first wait is added each time.",
        live="retry",
        needs=("delayed_retry_min_ms", "delayed_retry_multiplier_but_no_min_defined")))
    delayed_retry_jitter: float | None = _by(Argument("x-delayed-retry-jitter", read.percent,
        _QUEUES, _RETRY, "Vary waits by percent", 15,
        "Each wait is up to so much shorter or longer, so that not all come at once.",
        live="retry",
        needs=("delayed_retry_min_ms", "delayed_retry_jitter_but_no_min_defined")))

    # --------------------------------------------------- where refused and spent messages go
    dead_letter_exchange: str | None = _by(Argument("x-dead-letter-exchange", read.text, _QUEUES,
        _DEAD_LETTERS, "Dead-letter exchange", "dlx",
        "Where rejected, expired and surplus messages are published; empty: the default exchange.",
        live="dead-letters", policy=PolicyKey("dead letter exchange name", read.text)))
    dead_letter_routing_key: str | None = _by(Argument("x-dead-letter-routing-key", read.text,
        _QUEUES, _DEAD_LETTERS, "Dead-letter routing key", "dead",
        "The key they are published with, in place of their own.",
        needs=("dead_letter_exchange", "routing_key_but_no_dlx_defined"),
        live="dead-letters", policy=PolicyKey("dead letter routing key", read.text)))
    #: None is the usual reasons.
    dead_letter_reasons: tuple[str, ...] | None = _by(Argument("x-dead-letter-reasons",
        read.SomeOf({
            "rejected": "a consumer refused it",
            "expired": "its time was over",
            "maxlen": "the queue was full",
            "delivery_limit": "it came back too often",
            "replaced": "a newer value took its place",
        }, "reason"),
        _QUEUES, _DEAD_LETTERS, "Dead-letter only for", ["rejected", "delivery_limit"],
        "Messages that leave for another reason are dropped.", live="dead-letters"))
    dead_letter_transient: bool | None = _by(Argument("x-dead-letter-transient", read.flag,
        _QUEUES, _DEAD_LETTERS, "Dead-letter transient ones", True,
        "Whether transient messages are dead-lettered too.", live="dead-letters"))
    #: Redeliveries; negative is no limit.
    delivery_limit: int | None = _by(Argument("x-delivery-limit", read.any_integer, _QUEUES,
        _DEAD_LETTERS, "Delivery limit", 5,
        "How often a message may come back before it is dead-lettered; below 0 is no limit.",
        live="returns", policy=PolicyKey("delivery limit", read.any_integer, "smaller"),
        is_for_quorum_in_rabbitmq=True))
    #: Qpid's count: deliveries, the first one included; 0 is no limit.
    max_delivery_attempts: int | None = _by(Argument("x-qpid-maximum-delivery-count", _COUNT,
        _QUEUES, _DEAD_LETTERS, "Maximum deliveries", 5,
        "How often a message is delivered at most; 0 is no limit.",
        aliases=_also(_COUNT, "maximumDeliveryAttempts"), live="returns"))
    dlq_auto: bool | None = _by(Argument("x-dlq-auto", read.flag, _QUEUES, _DEAD_LETTERS,
        "Make a dead-letter queue", True,
        "Declares an exchange and a queue for the dead letters of this queue.",
        aliases=_also(read.qpid_flag, "x-qpid-dlq-enabled")))
    #: The destination, an exchange or a queue. It wins over ``dlq_auto``.
    alternate_binding: str | None = _by(Argument("alternateBinding", read.alternate_binding,
        _QUEUES, _DEAD_LETTERS, "Alternate", {"destination": "dead"},
        "The queue or exchange for dead letters, as a table with a destination.",
        aliases=_also(read.filled_text, "alternateExchange"), live="dead-letters"))

    # ---------------------------------------- in which order: at most one of those `is_ordering`
    #: RabbitMQ's priorities: 0 to this one, absent is 0.
    max_priority: int | None = _by(Argument("x-max-priority", read.priority, _CLASSIC, _ORDER,
        "Priorities (RabbitMQ)", 10,
        "The highest priority; messages of a higher one are delivered first.",
        page="queue-types#priority", is_ordering=True, live="order",
        policy=PolicyKey("maximum priority", read.priority, "smaller", is_ours=True)))
    #: Qpid's: this many levels centred on 4, absent is 4.
    priorities: int | None = _by(Argument("x-qpid-priorities", _LEVELS, _CLASSIC, _ORDER,
        "Priorities (Qpid)", 10, "The number of levels, centred on priority 4.",
        page="queue-types#priority", aliases=_also(_LEVELS, "priorities"), is_ordering=True,
        live="order"))
    default_priority: int | None = _by(Argument("x-default-priority", read.priority, _CLASSIC,
        _ORDER, "Default priority", 4, "The priority of messages that have none.",
        page="queue-types#priority", live="order"))
    sort_key: str | None = _by(Argument("x-sort-key", read.filled_text, _CLASSIC, _ORDER,
        "Sort by header", "sequence", "Messages are delivered in the order of this header.",
        page="queue-types#sorted", is_ordering=True, live="order",
        aliases=_also(read.filled_text, "qpid.queue_sort_key", "sortKey")))
    sort_order: Literal["asc", "desc"] | None = _by(Argument("x-sort-order",
        read.Choice({"asc": "the smallest first", "desc": "the greatest first"},
                    "invalid_sort_order"),
        _CLASSIC, _ORDER, "Sort order", "desc", "Smallest or greatest first.",
        page="queue-types#sorted", live="order",
        needs=("sort_key", "sort_order_but_no_sort_key_defined")))
    sort_type: Literal["string", "number"] | None = _by(Argument("x-sort-type",
        read.Choice({"string": "as text", "number": "as numbers"}, "invalid_sort_type"),
        _CLASSIC, _ORDER, "Compare as", "number", "How two values of the sort header are compared.",
        page="queue-types#sorted", live="order",
        needs=("sort_key", "sort_type_but_no_sort_key_defined")))
    last_value_key: str | None = _by(Argument("x-last-value-key", read.filled_text, _CLASSIC,
        _ORDER, "Last value by header", "symbol",
        "Of the messages with the same value of this header the queue keeps only the last.",
        page="queue-types#last-value",
        aliases=_also(read.filled_text, "qpid.last_value_queue_key", "lvqKey")
        + _switch(read.qpid_last_value_switch, "qpid.last_value_queue"), is_ordering=True,
        live="kind"))

    # ------------------------------------------------------------------------------------ to whom
    single_active_consumer: bool | None = _by(Argument("x-single-active-consumer", read.flag,
        _QUEUES, _CONSUMERS, "Single active consumer", True,
        "One consumer receives, the others wait until it leaves.", live="active-consumers"))
    #: More are refused.
    max_consumers: int | None = _by(Argument("x-max-consumers", read.at_least_one, _ANY,
        _CONSUMERS, "Maximum consumers", 10, "A consumer too many is refused.",
        page="consumers#who-may-consume", live="consumers",
        limit=Limit("Consumers", "further consumers are refused")))
    #: More wait for their turn; 0 is no limit.
    max_live_consumers: int | None = _by(Argument("maximumLiveConsumers", _COUNT, _QUEUES,
        _CONSUMERS, "Maximum live consumers", 2,
        "So many consumers receive and further ones wait; 0 is no limit.",
        live="active-consumers"))
    dispatch: Literal["round-robin", "strict", "least-loaded"] | None = _by(Argument("x-dispatch",
        read.Choice({
            "round-robin": "in turn, a message each (the default)",
            "strict": "the one that came first, until its prefetch is used up, then the next",
            "least-loaded": "the one that holds the smallest part of its prefetch",
        }, "invalid_dispatch"),
        _QUEUES, _CONSUMERS, "Dispatch", "least-loaded",
        "Which of the consumers of one priority gets the next message.",
        page="consumers#dispatch", live="dispatch"))
    consumers_before_dispatch: int | None = _by(Argument("x-consumers-before-dispatch",
        read.at_least_one, _QUEUES, _CONSUMERS, "Consumers before deliveries", 4,
        "Deliveries start when so many consumers are there.",
        page="consumers#start", live="dispatch"))
    delay_before_dispatch_ms: int | None = _by(Argument("x-delay-before-dispatch",
        read.lease_ms, _QUEUES, _CONSUMERS, "Delay before deliveries", 5_000,
        "Deliveries start so long after the first consumer came, also with too few of them.",
        page="consumers#start", live="dispatch"))
    max_rate: int | None = _by(Argument("x-max-rate", read.at_least_one, _ANY,
        _CONSUMERS, "Maximum rate", 50,
        "How many messages a second its consumers get, all together.",
        page="consumers#rate", live="dispatch"))
    #: Of consumers whose client says nothing; 0 is no limit.
    default_prefetch: int | None = _by(Argument("x-default-prefetch", read.natural, _ANY,
        _CONSUMERS, "Default prefetch", 100,
        "How much a consumer may hold unacknowledged if its client does not say; 0 is no limit.",
        page="consumers#prefetch", live="consumers",
        policy=PolicyKey("default prefetch", read.natural, "operator", is_ours=True)))
    prefetch_profile: Literal["none", "activemq"] | None = _by(Argument("x-prefetch-profile",
        read.Choice({
            "none": "the default prefetch counts, for every kind of queue",
            "activemq": "as in ActiveMQ: 1000, and 100, 32766 or 500 for some kinds of queues",
        }, "invalid_prefetch_profile"),
        _ANY, _CONSUMERS, "Prefetch by kind of queue", "activemq",
        "Where the prefetch of consumers comes from whose client does not say.",
        page="consumers#prefetch", live="consumers"))
    prefetch_max: int | None = _by(Argument("x-prefetch-max", read.at_least_one, _ANY,
        _CONSUMERS, "Highest prefetch", 1,
        "The prefetch of a consumer is never above it; 1 makes priorities exact.",
        page="consumers#prefetch", live="consumers",
        policy=PolicyKey("highest prefetch", read.at_least_one, "smaller", is_ours=True)))
    #: 0 is no limit, whatever the setting of the virtual host says.
    consumer_timeout_ms: int | None = _by(Argument("x-consumer-timeout", read.expiry_ms, _QUEUES,
        _CONSUMERS, "Consumer timeout", 1_800_000,
        "A consumer that holds a message unacknowledged for longer loses it and is cancelled.",
        page="consumers#consumer-timeout", live="consumer-rules",
        policy=PolicyKey("consumer timeout", read.natural), is_for_quorum_in_rabbitmq=True))
    slow_consumer_rule: Literal["full", "rate", "ack-age"] | None = _by(Argument(
        "x-slow-consumer-rule", read.Choice({
            "full": "its prefetch stays used up while messages wait",
            "rate": "it acknowledges fewer messages a second than the threshold",
            "ack-age": "a message stays unacknowledged for longer than the duration",
        }, "invalid_slow_consumer_rule"),
        _ANY, _CONSUMERS, "Slow consumers", "full", "When a consumer counts as slow.",
        page="consumers#slow-consumers", live="consumer-rules"))
    slow_consumer_duration_ms: int | None = _by(Argument("x-slow-consumer-duration",
        read.lease_ms, _ANY, _CONSUMERS, "Slow for", 30_000,
        "How long a consumer must be slow before something is done; 30 seconds unless given.",
        page="consumers#slow-consumers", live="consumer-rules",
        needs=("slow_consumer_rule", "slow_consumer_duration_but_no_rule_defined")))
    slow_consumer_threshold: int | None = _by(Argument("x-slow-consumer-threshold",
        read.at_least_one, _ANY, _CONSUMERS, "Slow below", 10,
        "With the rule rate: how many messages a second a consumer must acknowledge.",
        page="consumers#slow-consumers", live="consumer-rules",
        needs=("slow_consumer_rule", "slow_consumer_threshold_but_no_rule_defined")))
    slow_consumer_action: (
        Literal["notify", "cancel", "close-channel", "close-connection"] | None
    ) = _by(Argument("x-slow-consumer-action", read.Choice({
            "notify": "it is reported (the default)",
            "cancel": "it is cancelled",
            "close-channel": "its channel is closed",
            "close-connection": "its connection is closed",
        }, "invalid_slow_consumer_action"),
        _ANY, _CONSUMERS, "Slow consumers are", "cancel", "What is done with a slow consumer.",
        page="consumers#slow-consumers", live="consumer-rules",
        needs=("slow_consumer_rule", "slow_consumer_action_but_no_rule_defined")))
    purge_on_no_consumers: bool | None = _by(Argument("x-purge-on-no-consumers", read.flag, _QUEUES,
        _CONSUMERS, "Empty without consumers", True,
        "When the last consumer leaves, messages are dropped, and new ones until one comes.",
        page="consumers#no-consumers", live="unused"))
    non_destructive: bool | None = _by(Argument("x-non-destructive", read.flag,
        _CLASSIC | _STREAM, _CONSUMERS, "Read without taking", True,
        "Each consumer gets every message, and none is removed by it.",
        page="non-destructive-queues", live="kind",
        aliases=_also(read.qpid_flag, "qpid.ensure_nondestructive_consumers",
                   "ensureNondestructiveConsumers")))
    default_filters: tuple[DefaultFilter, ...] | None = _by(Argument("x-default-filters",
        read.default_filters, _ANY, _CONSUMERS, "Default filters",
        {"big": {"x-filter-jms-selector": ["size > 100"]}},
        "Filters for consumers that bring none.", page="consumers#default-filters", live="kind",
        aliases=_also(read.default_filters, "qpid.default_filters", "defaultFilters")))
    no_local: bool | None = _by(Argument("no-local", read.qpid_truth, _ANY, _CONSUMERS,
        "No local", True, "Consumers do not get what their own connection publishes.",
        page="consumers#arguments-of-basicconsume", live="consumers",
        aliases=_also(read.qpid_flag, "noLocal")))
    #: A header. None with a type: JMSXGroupID, in that spelling or as JMSXGroupId.
    message_group_key: str | None = _by(Argument("x-message-group-key", read.filled_text, _QUEUES,
        _GROUPS, "Group by header", "JMSXGroupID",
        "Messages with the same value of this header go to one consumer, in order.", live="kind",
        aliases=_also(read.filled_text, "qpid.group_header_key", "messageGroupKeyOverride")))
    #: "standard" where a key was given and no type.
    message_group_type: Literal["none", "standard", "shared"] | None = _by(Argument(
        "x-message-group-type", read.Choice({
            "none": "no groups",
            "standard": "until the consumer leaves",
            "shared": "until none of its messages is unacknowledged",
        }, "invalid_message_group_type"),
        _QUEUES, _GROUPS, "Group type", "shared", "How long a group stays with its consumer.",
        live="kind",
        aliases=_also(read.qpid_choice(
            {"NONE": "none", "STANDARD": "standard", "SHARED_GROUPS": "shared"},
            "invalid_message_group_type"), "messageGroupType")
        + _switch(read.qpid_shared_groups_switch, "qpid.shared_msg_group")))
    message_group_default: str | None = _by(Argument("x-message-group-default", read.filled_text,
        _QUEUES, _GROUPS, "Default group", "rest",
        "The group of messages that have no value for the header.", live="kind",
        aliases=_also(read.filled_text, "qpid.default-message-group", "messageGroupDefaultGroup")))
    message_group_buckets: int | None = _by(Argument("x-message-group-buckets", read.at_least_one,
        _QUEUES, _GROUPS, "Buckets", 256,
        "Groups are put together into so many; without it each is by itself.", live="kind",
        needs=("message_group_type", "buckets_but_no_message_groups_defined")))
    message_group_rebalance: Literal["off", "on", "pause"] | None = _by(Argument(
        "x-message-group-rebalance", read.Choice({
            "off": "groups stay with their consumers (the default)",
            "on": "groups of which nothing is unacknowledged go to the next consumer",
            "pause": "the other groups too, once all of it is settled",
        }, "invalid_message_group_rebalance"),
        _QUEUES, _GROUPS, "When a consumer comes", "on",
        "Whether a consumer that comes gets a part of the groups that have consumers.", live="kind",
        needs=("message_group_type", "rebalance_but_no_message_groups_defined")))
    message_group_first_key: str | None = _by(Argument("x-message-group-first-key",
        read.filled_text, _QUEUES, _GROUPS, "Header of the first", "JMSXGroupFirstForConsumer",
        "A header, true at the first message of a group that a consumer gets.", live="kind",
        needs=("message_group_type", "first_key_but_no_message_groups_defined")))

    # ------------------------------------------------------------------------ what it knows already
    message_deduplication: bool | None = _by(Argument("x-message-deduplication", read.flag, _QUEUES,
        _DUPLICATES, "Drop duplicates", True,
        "A message whose id is known is confirmed and not taken again.", live="deduplication"))
    #: None: the default one, and for messages without it their message-id.
    deduplication_header: str | None = _by(Argument("x-deduplication-header", read.filled_text,
        _QUEUES, _DUPLICATES, "Id in header", "order-id",
        "The header that has the id; x-deduplication-header or the message-id unless given.",
        live="deduplication",
        needs=("message_deduplication", "header_but_no_message_deduplication_defined")))
    #: None without a time too: an id is known as long as its message is in the queue.
    cache_size: int | None = _by(Argument("x-cache-size", _CACHE_SIZE, _QUEUES, _DUPLICATES,
        "Remembered ids", 20_000,
        "How many ids are known; without it, those of the messages in the queue.",
        live="deduplication",
        needs=("message_deduplication", "cache_size_but_no_message_deduplication_defined")))
    cache_ttl_ms: int | None = _by(Argument("x-cache-ttl", read.lease_ms, _QUEUES, _DUPLICATES,
        "Ids known for", 600_000, "How long an id is remembered at most.", live="deduplication",
        needs=("message_deduplication", "cache_ttl_but_no_message_deduplication_defined")))

    # ------------------------------------------------------------------------------ how it is kept
    message_durability: Literal["default", "always", "never"] | None = _by(Argument(
        "x-message-durability",
        read.Choice({"default": "the persistent ones", "always": "all", "never": "none"},
                    "invalid_message_durability"),
        _CLASSIC, _KEEPING, "Message durability", "always",
        "Which messages a durable queue keeps over a restart.",
        aliases=_also(read.qpid_choice(
            {"DEFAULT": "default", "ALWAYS": "always", "NEVER": "never"},
            "invalid_message_durability"), "qpid.message_durability", "messageDurability")))
    max_age_ms: int | None = _by(Argument("x-max-age", read.max_age_ms, _STREAM, _KEEPING,
        "Maximum age", "7D",
        "A stream drops messages that are older: a number and Y, M, D, h, m or s.",
        page="non-destructive-queues", live="limits", policy=PolicyKey("max age", read.max_age_ms)))
    #: The stream that gets what the queue gets.
    archive_to: str | None = _by(Argument("x-archive-to", read.filled_text, _ANY, _KEEPING,
        "Archive to stream", "archive", "What the queue gets is also put into this stream.",
        page="archiving"))


_STRATEGY: Final = read.one_of("at-most-once", "at-least-once", otherwise="invalid_dlx_strategy")
_QUEUE_MODE: Final = read.one_of("default", "lazy", otherwise="\"unsupported queue mode '{}'\"")
_SEGMENT_SIZE: Final = read.Within(  # rabbit_stream_queue: ?MAX_STREAM_MAX_SEGMENT_SIZE
    0, 3_000_000_000,
    lambda _: OutOfBounds("Exceeded max value for x-stream-max-segment-size-bytes"))
_FILTER_SIZE: Final = read.Within(
    16, 255, lambda _: OutOfBounds("Invalid value for x-stream-filter-size-bytes"))
_ONE_NODE: Final = "Clients send it for clusters; this broker is one node, so it changes nothing."

#: RabbitMQ's arguments that mean nothing here, since there is one node and one way to keep a queue.
#: The value is checked and compared, because clients go by that.
#: One of ours has a field, also if nothing reads it.
_WITHOUT_EFFECT: Final = (
    Argument("x-dead-letter-strategy", _STRATEGY, _QUORUM, _ACCEPTED, "Dead-letter strategy",
        "at-least-once",
        "Persistent dead letters are never lost here, so both mean the same.",
        policy=PolicyKey("strategy", _STRATEGY)),
    Argument("x-queue-mode", _QUEUE_MODE, _CLASSIC, _ACCEPTED, "Queue mode", "lazy",
        "Every deep queue leaves memory by itself.",
        policy=PolicyKey("queue-mode value", _QUEUE_MODE)),
    Argument("x-queue-version", read.queue_version, _CLASSIC, _ACCEPTED, "Queue version", 2,
        "There is one way to keep a queue here.",
        policy=PolicyKey("queue-version value", read.queue_version, "operator")),
    Argument("x-max-in-memory-length", read.natural, _QUORUM, _ACCEPTED, "Messages in memory",
        1_000, "Use the maximum of messages with the overflow rule flow-to-disk.",
        policy=PolicyKey("maximum memory in bytes", read.natural, "smaller")),
    Argument("x-max-in-memory-bytes", read.natural, _QUORUM, _ACCEPTED, "Bytes in memory",
        1_000_000, "Use the maximum of bytes with the overflow rule flow-to-disk.",
        is_bytes=True, policy=PolicyKey("maximum memory in bytes", read.natural, "smaller")),
    Argument("x-stream-max-segment-size-bytes", _SEGMENT_SIZE, _STREAM, _ACCEPTED, "Segment size",
        500_000_000,
        "A stream drops by message; the journal's files have the size of a setting.",
        is_bytes=True, policy=PolicyKey("segment size", read.natural)),
    Argument("x-stream-filter-size-bytes", _FILTER_SIZE, _STREAM, _ACCEPTED, "Filter size", 16,
        "Stream filters work without it.",
        is_bytes=True, policy=PolicyKey("filter size", _FILTER_SIZE)),
    Argument("x-queue-leader-locator",
        read.one_of("client-local", "balanced", "random", "least-leaders", "min-masters",
                    otherwise="invalid_queue_locator_arg"),
        _ANY, _ACCEPTED, "Leader locator", "balanced", _ONE_NODE,
        policy=PolicyKey("queue leader locator value", read.one_of(
            "client-local", "random", "least-leaders", "balanced"))),
    Argument("x-queue-master-locator", read.text_or_ignored, _CLASSIC, _ACCEPTED, "Master locator",
        "min-masters", _ONE_NODE, policy=PolicyKey("queue master locator", read.text, "operator")),
    Argument("x-initial-cluster-size", read.at_least_one, _STREAM, _ACCEPTED, "Cluster size", 1,
        _ONE_NODE, policy=PolicyKey("cluster size", read.natural)),
    Argument("x-quorum-initial-group-size", read.at_least_one, _QUORUM, _ACCEPTED, "Group size", 1,
        _ONE_NODE),
    Argument("x-member-placement-tag", read.text, _QUORUM, _ACCEPTED, "Placement tag", "rack-1",
        _ONE_NODE),
    Argument("x-consumer-disconnected-timeout", read.expiry_ms, _QUORUM, _ACCEPTED,
        "Disconnected timeout", 60_000, _ONE_NODE),
)

#: The order of checks, by which the first of several errors is told: that in which
#: rabbit_amqqueue validates RabbitMQ's names. Ours come after them, in the order of forms.
_CHECKED: Final = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
    "x-dead-letter-strategy", "x-max-length", "x-max-length-bytes", "x-max-in-memory-length",
    "x-max-in-memory-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
    "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-max-age",
    "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size",
    "x-queue-leader-locator", "x-queue-master-locator", "x-delivery-limit",
    "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max", "x-consumer-timeout",
    "x-consumer-disconnected-timeout", "x-member-placement-tag",
)
# fmt: on

#: All rows in the order of forms.
ROWS: Final[tuple[Argument, ...]] = tuple(
    replace(row, field=name, page=row.page or row.group.page)
    for name, row in (
        *((each.name, each.metadata["row"]) for each in fields(QueueArguments) if each.metadata),
        *((None, row) for row in _WITHOUT_EFFECT),
    )
)
BY_NAME: Final[Mapping[str, Argument]] = {name: row for row in ROWS for name in row.names}
BY_FIELD: Final[Mapping[str, Argument]] = {row.field: row for row in ROWS if row.field is not None}
#: All rows in the order of checks.
ARGUMENTS: Final[tuple[Argument, ...]] = tuple(
    dict.fromkeys(BY_NAME[name] for name in chain(_CHECKED, BY_NAME))
)
