"""Queue arguments: what a declare asked for, read and checked, and when two declares agree.

Called by ``broker.declarations`` once a declare, never per message. Which arguments there are, what
each may hold and which names mean the same is ``queues.declare.table``; how one value is read is
``queues.declare.readers``. This module applies the table. An argument in no row of it is not
validated, not compared and no error, as in RabbitMQ; it stays in ``raw``.

Invariant: a ``QueueArguments`` made here is valid as a whole, so its readers check nothing.

Texts, types and the order of checks are those of RabbitMQ's ``rabbit_channel`` (queue.declare),
``rabbit_amqqueue`` (``check_declare_arguments``) and ``rabbit_misc`` (``assert_args_equivalence``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from hareline.errors import PreconditionFailed
from hareline.queues.declare.readers import (
    DefaultFilter,
    InvalidValue,
    OutOfBounds,
    Reader,
    type_name,
)
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    DEFAULT_QUEUE_TYPE,
    ORDERINGS,
    Argument,
)

QueueType = Literal["classic", "quorum", "stream"]
Overflow = Literal[
    "none",
    "drop-head",
    "reject-publish",
    "reject-publish-dlx",
    "discard",
    "flow-control",
    "flow-to-disk",
]

DEFAULT_NAME_PREFIX: Final = "amq.gen"
NAME_PREFIX_MAX_OCTETS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueArguments:
    """What a queue was declared with, read and checked; None: not given.

    ``raw`` is what came, untouched, with the arguments that have no effect and unknown ones. Two
    values are equal when they mean the same, whatever names they came under. A limit that Qpid's
    names set to a negative number is off, which is None.
    """

    raw: Mapping[str, object] = field(compare=False)

    queue_type: QueueType | None = None

    # how long
    expires_ms: int | None = None
    expires_if_empty: bool | None = None
    message_ttl_ms: int | None = None
    min_message_ttl_ms: int | None = None
    max_message_ttl_ms: int | None = None
    expiry_policy: Literal["delete", "route-to-alternate"] | None = None
    expiry_check_period_ms: int | None = None
    hold_on_publish: bool | None = None

    # how much
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow | None = None
    """If only Qpid's names set limits, these bound nothing until a policy is named: "none"."""
    flow_resume_percent: float | None = None
    flow_resume_capacity_bytes: int | None = None

    # where refused and spent messages go
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_reasons: tuple[str, ...] | None = None
    """Why messages are dead-lettered; None is the usual reasons."""
    dead_letter_transient: bool | None = None
    dlq_auto: bool | None = None
    alternate_binding: str | None = None
    """The destination, an exchange or a queue. It wins over ``dlq_auto``."""
    delivery_limit: int | None = None
    """Redeliveries; negative is no limit."""
    max_delivery_attempts: int | None = None
    """Qpid's count: deliveries, the first one included; 0 is no limit."""

    # in which order: at most one of max_priority, priorities, sort_key, last_value_key
    max_priority: int | None = None
    """RabbitMQ's priorities: 0 to this one, absent is 0."""
    priorities: int | None = None
    """Qpid's: this many levels centred on 4, absent is 4."""
    default_priority: int | None = None
    sort_key: str | None = None
    sort_order: Literal["asc", "desc"] | None = None
    sort_type: Literal["string", "number"] | None = None
    last_value_key: str | None = None

    # to whom
    single_active_consumer: bool | None = None
    max_consumers: int | None = None
    """More are refused."""
    max_live_consumers: int | None = None
    """More wait for their turn; 0 is no limit."""
    message_group_key: str | None = None
    """A header. None with a type: JMSXGroupID, in that spelling or as JMSXGroupId."""
    message_group_type: Literal["none", "standard", "shared"] | None = None
    """"standard" where a key was given and no type."""
    message_group_default: str | None = None
    non_destructive: bool | None = None
    default_filters: tuple[DefaultFilter, ...] | None = None
    no_local: bool | None = None

    # how it is kept
    message_durability: Literal["default", "always", "never"] | None = None
    max_age_ms: int | None = None
    archive_to: str | None = None
    """The stream that gets what the queue gets."""


# --------------------------------------------------------------------------------------- declaring


def parse_queue_arguments(
    arguments: Mapping[str, object], *, queue: str, vhost: str
) -> QueueArguments:
    """Read the arguments of a queue that is to be made.

    Raises PreconditionFailed for a wrong type or value (``invalid arg 'x-message-ttl' for queue 'q'
    in vhost '/': {value_negative,-1}``), an argument that this queue type has not (``invalid arg
    'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue``), and for two
    that contradict each other, naming both.

    Not for a declaration of a queue that exists: RabbitMQ only compares that
    (``check_equivalent``), whatever its values.
    """
    reading = _Reading(arguments, f"queue '{queue}' in vhost '{vhost}'")
    reading.check_dead_letter_exchange()
    reading.read(BY_FIELD["queue_type"])
    queue_type = reading.fields.get("queue_type") or DEFAULT_QUEUE_TYPE
    for argument in ARGUMENTS:
        if queue_type in argument.queue_types:
            reading.read(argument)
    reading.check_known_to(queue_type)
    reading.check_one_ordering()
    reading.conclude()
    return QueueArguments(raw=arguments, **reading.fields)


class _Reading:
    """One pass over the arguments of one declare."""

    def __init__(self, arguments: Mapping[str, object], place: str) -> None:
        self.arguments = arguments
        self.place = place
        self.kinds: Mapping[str, str] = getattr(arguments, "kinds", {})
        self.fields: dict[str, Any] = {}
        self.names: dict[str, str] = {}  # field -> the name that set it

    def check_dead_letter_exchange(self) -> None:
        """Check the type of this one before all others (rabbit_channel, queue.declare)."""
        name = "x-dead-letter-exchange"
        if name in self.arguments and not isinstance(self.arguments[name], str):
            raise PreconditionFailed(
                f"invalid type '{self._type(name)}' for arg '{name}' in {self.place}"
            )

    def read(self, argument: Argument) -> None:
        """Set the field of this argument, if it has one and any of its names was given."""
        if argument.field in self.fields:
            return
        for alias in argument.names_in(self.arguments):
            value = self._value(alias.name, alias.reader)
            if argument.field is None:
                continue
            if argument.field not in self.fields:
                if value is not None or not alias.is_fallback:
                    self.fields[argument.field] = value
                    self.names[argument.field] = alias.name
            elif value != self.fields[argument.field] and not alias.is_fallback:
                raise self._contradiction(
                    self.names[argument.field], alias.name, "they mean the same and differ"
                )
        if argument.needs is not None and argument.field in self.fields:
            needed, term = argument.needs
            if needed not in self.fields:
                raise self._invalid(self.names[argument.field], term)

    def check_known_to(self, queue_type: str) -> None:
        """Refuse arguments of other queue types, in the order received (check_arguments_key)."""
        for name in self.arguments:
            argument = BY_NAME.get(name)
            if argument is not None and queue_type not in argument.queue_types:
                raise PreconditionFailed(
                    f"invalid arg '{name}' for {self.place} of queue type "
                    f"{_erlang_queue_type(queue_type)}"
                )

    def check_one_ordering(self) -> None:
        names = [self.names[ordering] for ordering in ORDERINGS if ordering in self.fields]
        if len(names) > 1:
            raise self._contradiction(names[0], names[1], "a queue has one ordering")

    def conclude(self) -> None:
        """Set what follows from several arguments (Broker-J: QueueArgumentsConverter, step C)."""
        fields, names = self.fields, self.names
        if fields.get("message_group_key") is not None:
            fields.setdefault("message_group_type", "standard")
            if fields["message_group_key"] in ("JMSXGroupID", "JMSXGroupId"):
                fields["message_group_key"] = None
        capacity = fields.get("max_length_bytes")
        resume = fields.get("flow_resume_capacity_bytes")
        if capacity is not None and resume is not None:
            if resume > capacity:
                raise self._invalid(
                    names["flow_resume_capacity_bytes"], f"{{max_value_exceeded,{resume}}}"
                )
            fields.setdefault("flow_resume_percent", 100.0 * resume / capacity if capacity else 0.0)
            if names.get("overflow") != "x-overflow":  # it beats qpid.policy_type
                fields["overflow"] = "flow-control"
        limits = {names[limit] for limit in ("max_length", "max_length_bytes") if limit in fields}
        if limits and limits.isdisjoint(("x-max-length", "x-max-length-bytes")):
            fields.setdefault("overflow", "none")

    def _value(self, name: str, reader: Reader) -> object:
        try:
            return reader(self.arguments[name], self._type(name))
        except OutOfBounds as problem:
            raise PreconditionFailed(problem.term) from None
        except InvalidValue as problem:
            raise self._invalid(name, problem.term) from None

    def _type(self, name: str) -> str:
        return type_name(self.arguments[name], self.kinds.get(name))

    def _invalid(self, name: str, term: str) -> PreconditionFailed:
        return PreconditionFailed(f"invalid arg '{name}' for {self.place}: {term}")

    def _contradiction(self, first: str, second: str, reason: str) -> PreconditionFailed:
        return PreconditionFailed(
            f"contradictory args '{first}' and '{second}' for {self.place}: {reason}"
        )


def check_queue_type_properties(
    arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    is_durable: bool,
    is_exclusive: bool,
    is_auto_delete: bool,
    is_server_named: bool,
) -> None:
    """Quorum queues and streams are durable, shared, permanent, and named by their client.

    Raises PreconditionFailed: ``invalid property 'non-durable' for queue 'q' in vhost '/'``, with
    ``exclusive-owner`` and ``auto-delete`` likewise, or ``Cannot declare a server-named queue for
    type rabbit_quorum_queue``. Order as in rabbit_channel and rabbit_quorum_queue:declare.
    """
    queue_type = arguments.queue_type or DEFAULT_QUEUE_TYPE
    if queue_type == DEFAULT_QUEUE_TYPE:
        return
    if is_server_named:
        raise PreconditionFailed(
            f"Cannot declare a server-named queue for type {_erlang_queue_type(queue_type)}"
        )
    for is_wrong, name in (
        (is_auto_delete, "auto-delete"),
        (is_exclusive, "exclusive-owner"),
        (not is_durable, "non-durable"),
    ):
        if is_wrong:
            raise PreconditionFailed(
                f"invalid property '{name}' for queue '{queue}' in vhost '{vhost}'"
            )


def with_queue_type(arguments: Mapping[str, object], queue_type: str) -> Mapping[str, object]:
    """The arguments with this queue type, unless they name one."""
    if "x-queue-type" in arguments:
        return arguments
    return {**arguments, "x-queue-type": queue_type}


def server_named_prefix(arguments: Mapping[str, object]) -> str:
    """How a server-named queue's name begins, without the dash: ``amq.gen`` or x-name-prefix.

    A prefix that is empty or no text is ignored, and it is not compared on redeclare (RabbitMQ 4.3,
    ``server_named_queue_prefix``). Raises PreconditionFailed above 64 octets.
    """
    prefix = arguments.get("x-name-prefix")
    if not isinstance(prefix, str) or not prefix:
        return DEFAULT_NAME_PREFIX
    if len(prefix.encode("utf-8", "surrogateescape")) > NAME_PREFIX_MAX_OCTETS:
        raise PreconditionFailed(
            f"Queue name prefix '{prefix}' exceeds the {NAME_PREFIX_MAX_OCTETS}-byte limit"
        )
    return prefix


def _erlang_queue_type(queue_type: str) -> str:
    return f"rabbit_{queue_type}_queue"


# --------------------------------------------------------------------------------------- comparing


def check_equivalent(
    current: QueueArguments,
    received: QueueArguments | Mapping[str, object],
    *,
    queue: str,
    vhost: str,
) -> None:
    """Check that a redeclaration asks for the queue that is there.

    ``received`` need not have been parsed, and in RabbitMQ is not: what differs from a valid
    declaration is refused for that. Only arguments that the current queue's type knows count;
    integers and floats compare by value over their widths; ``x-queue-type: classic`` is the same as
    none; two names of one argument compare by what they mean.

    Raises PreconditionFailed, ``inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/':
    received ...``: ``none but current is the value '1000' of type 'signedint'`` | ``the value
    '2000' of type 'long' but current is none`` | ``'2000' but current is '1000'``.
    """
    before = _Declared.of(current.raw)
    now = _Declared.of(received.raw if isinstance(received, QueueArguments) else received)
    queue_type = current.queue_type or DEFAULT_QUEUE_TYPE
    for argument in ARGUMENTS:
        if queue_type not in argument.queue_types:
            continue
        old, new = before.given(argument), now.given(argument)
        given = new or old
        if given is not None and not _is_same(argument, old, new):
            raise PreconditionFailed(
                f"inequivalent arg '{given.name}' for queue '{queue}' in vhost '{vhost}': "
                f"{_difference(old, new)}"
            )


@dataclass(frozen=True, slots=True)
class _Declared:
    """One side of a comparison: all the arguments."""

    arguments: Mapping[str, object]
    kinds: Mapping[str, str]  # asked for once: a wire table works it out from all its values

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> _Declared:
        return cls(arguments, getattr(arguments, "kinds", {}))

    def given(self, argument: Argument) -> _Given | None:
        names = argument.names_in(self.arguments)
        if not names:
            return None
        first = names[0]
        value = self.arguments[first.name]
        return _Given(first.name, value, type_name(value, self.kinds.get(first.name)), first.reader)


@dataclass(frozen=True, slots=True)
class _Given:
    """One side of a comparison: one argument, under the first of its names that was given."""

    name: str
    value: object
    type_name: str
    reader: Reader

    def meaning(self) -> object:
        try:
            return self.reader(self.value, self.type_name)
        except InvalidValue:
            return self  # means nothing, so it is the same as nothing else


def _is_same(argument: Argument, old: _Given | None, new: _Given | None) -> bool:
    if old is None or new is None:
        one = old or new
        return one is None or (
            argument.same_as_absent is not None
            and one.type_name == "longstr"
            and one.value == argument.same_as_absent
        )
    if old.name == new.name:
        return _term(old.value) == _term(new.value)
    return old.meaning() == new.meaning()


def _difference(old: _Given | None, new: _Given | None) -> str:
    """rabbit_misc:val/1: bare values where both sides have one, with their type where one has."""
    if old is not None and new is not None:
        return f"received {_bare(new.value)} but current is {_bare(old.value)}"
    return f"received {_described(new)} but current is {_described(old)}"


def _bare(value: object) -> str:
    return "none" if value is None else f"'{_shown(value)}'"


def _described(given: _Given | None) -> str:
    if given is None:
        return "none"
    return f"the value '{_shown(given.value)}' of type '{given.type_name}'"


def _term(value: object) -> object:
    """What Erlang compares: widths and kinds of text fall away, true and 1 and 1.0 stay apart."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, float):
        return (float, "nan" if math.isnan(value) else value)
    if isinstance(value, Decimal):
        return (Decimal, value)
    if isinstance(value, Mapping):
        return {key: _term(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_term(item) for item in value]
    return value


def _shown(value: object) -> str:
    """A value as it stands between the quotes: ``~ts`` for text, ``~tp`` for the rest."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "undefined"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_shown, value)) + "]"
    return str(value)
