"""Queue arguments of a declaration: read and checked, and compared when it is declared again.

``queues.declare.table`` says which there are; an argument in no row of it is not validated, not
compared and no error, as in RabbitMQ; it stays in ``raw``. Texts, types and the order of checks are
those of RabbitMQ's ``rabbit_channel`` (queue.declare), ``rabbit_amqqueue``
(``check_declare_arguments``) and ``rabbit_misc`` (``assert_args_equivalence``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from hareline.errors import PreconditionFailed
from hareline.queues.declare.readers import InvalidValue, OutOfBounds, Reader, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    DEFAULT_QUEUE_TYPE,
    Argument,
    QueueArguments,
)

DEFAULT_NAME_PREFIX: Final = "amq.gen"
NAME_PREFIX_MAX_OCTETS: Final = 64
_AUTO_DELETE: Final = tuple(
    BY_FIELD[field].name for field in ("auto_delete_delay_ms", "auto_delete_message_count")
)
_ORDERINGS: Final = tuple(each.field for each in ARGUMENTS if each.field and each.is_ordering)


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
        for alias in argument.given_in(self.arguments):
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
        names = [self.names[field] for field in _ORDERINGS if field in self.names]
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
        if fields.get("slow_consumer_rule") == "rate" and "slow_consumer_threshold" not in fields:
            raise self._invalid(
                names["slow_consumer_rule"], "rate_but_no_slow_consumer_threshold_defined"
            )

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


def check_auto_delete(
    arguments: Mapping[str, object | None], *, queue: str, vhost: str, is_auto_delete: bool
) -> None:
    """Refuse rules of auto-delete for a queue that never deletes itself.

    Raises PreconditionFailed; a policy may set them for any queue, and they do nothing then.
    """
    for name in () if is_auto_delete else _AUTO_DELETE:
        if arguments.get(name) is not None:
            raise PreconditionFailed(
                f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': "
                "the queue is not auto-delete"
            )


def with_queue_type(arguments: Mapping[str, object], queue_type: str) -> Mapping[str, object]:
    """The arguments with this queue type, unless they name one."""
    if "x-queue-type" in arguments:
        return arguments
    return {**arguments, "x-queue-type": queue_type}


def overlaid(
    arguments: Mapping[str, object], changes: Mapping[str, object | None]
) -> dict[str, object]:
    """These arguments with others in place of theirs, whatever names they came under.

    None takes an argument away.
    """
    result = dict(arguments)
    for name in changes:
        argument = BY_NAME.get(name)
        for each in (name,) if argument is None else argument.names:
            result.pop(each, None)
    result.update({name: value for name, value in changes.items() if value is not None})
    return result


def server_named_prefix(arguments: Mapping[str, object]) -> str:
    """The begin of a server-named queue's name, without its dash: ``amq.gen`` or x-name-prefix.

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
    current: Mapping[str, object], received: Mapping[str, object], *, queue: str, vhost: str
) -> None:
    """Check that a redeclaration asks for the queue that is there.

    ``received`` need not be valid: what differs from a valid declaration is refused for that. Only
    arguments that the current queue's type knows count; integers and floats compare by value over
    their widths; ``x-queue-type: classic`` is the same as none; two names of one argument compare
    by what they mean.

    Raises PreconditionFailed, ``inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/':
    received ...``: ``none but current is the value '1000' of type 'signedint'`` | ``the value
    '2000' of type 'long' but current is none`` | ``'2000' but current is '1000'``.
    """
    queue_type = current.get("x-queue-type", DEFAULT_QUEUE_TYPE)
    # asked for once: a wire table works them out from all its values
    old_kinds, new_kinds = getattr(current, "kinds", {}), getattr(received, "kinds", {})
    for argument in ARGUMENTS:
        if queue_type not in argument.queue_types:
            continue
        old = _given(argument, current, old_kinds)
        new = _given(argument, received, new_kinds)
        given = new or old
        if given is not None and not _is_same(argument, old, new):
            raise PreconditionFailed(
                f"inequivalent arg '{given.name}' for queue '{queue}' in vhost '{vhost}': "
                f"{_difference(old, new)}"
            )


def _given(
    argument: Argument, arguments: Mapping[str, object], kinds: Mapping[str, str]
) -> _Given | None:
    names = argument.given_in(arguments)
    if not names:
        return None
    name, value = names[0].name, arguments[names[0].name]
    return _Given(name, value, type_name(value, kinds.get(name)), names[0].reader)


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
    """The term that Erlang compares: without widths and kinds of text; true, 1 and 1.0 differ."""
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
