"""The arguments of basic.consume: what each may hold, and what a consumer inherits of its queue.

Called by ``amqp.basic_methods`` once per consume, never per message. An argument that is not named
here is no error and does nothing; those of streams are refused on other queues; both as in
RabbitMQ. The table in docs/consumers.md is held against ``KNOWN`` by a test.

Invariant: a ``ConsumerArguments`` made here is valid as a whole, so its readers check nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from hareline.amqp.dialect import RABBITMQ, Dialect
from hareline.errors import InvalidSelector, PreconditionFailed
from hareline.queues.core.start_position import REPLAY_PERIOD, STREAM_OFFSET
from hareline.queues.declare.arguments import QueueArguments
from hareline.queues.declare.readers import (
    InvalidValue,
    any_integer,
    flag,
    natural,
    qpid_integer,
    qpid_truth,
    type_name,
)
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector

PRIORITY: Final = "x-priority"
CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"  # means nothing where no queue has mirrors
PREFETCH_COUNT: Final = "x-prefetch-count"
PREFETCH_REFILL: Final = "x-prefetch-refill"
SELECTOR: Final = "x-filter-jms-selector"
NO_LOCAL: Final = "x-qpid-no-local"
STREAM_ARGUMENTS: Final = (STREAM_OFFSET, "x-stream-filter", "x-stream-match-unfiltered")
KNOWN: Final = frozenset(
    (
        *(PRIORITY, CANCEL_ON_FAILOVER, PREFETCH_COUNT, PREFETCH_REFILL, SELECTOR, NO_LOCAL),
        *STREAM_ARGUMENTS,
    )
)
PERCENT_MAX: Final = 100
QPID_PRIORITY_MAX: Final = 2**31 - 1  # Broker-J: of consumers that ask for none

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerArguments:
    """What a consumer asked for, with what its queue's default filters add.

    ``prefetch_count`` None: it did not say, 0: no limit. ``refill_percent``: 1 to 100.
    ``selector`` None: every message. ``priority``: 0 is that of consumers that ask for none,
    whichever dialect they speak.
    """

    priority: int = 0
    prefetch_count: int | None = None
    refill_percent: int = PERCENT_MAX
    selector: Selector | None = None
    is_no_local: bool = False


def read_consumer_arguments(
    arguments: Mapping[str, object],
    queue_arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    dialect: Dialect = RABBITMQ,
) -> ConsumerArguments:
    """Read and check the arguments of one basic.consume.

    Raises PreconditionFailed: ``invalid arg 'x-priority' for queue 'q' in vhost '/': "expected
    integer, got longstr"`` (the words of rabbit_amqqueue:check_consume_arguments).
    """
    place = f"queue '{queue}' in vhost '{vhost}'"
    if dialect.ranks_below_default:
        priority = _read(arguments, PRIORITY, qpid_priority, place)
    else:
        priority = _read(arguments, PRIORITY, any_integer, place)
    _read(arguments, CANCEL_ON_FAILOVER, flag, place)
    prefetch_count = _read(arguments, PREFETCH_COUNT, natural, place)
    refill_percent = _read(arguments, PREFETCH_REFILL, percent, place)
    _check_queue_type(arguments, queue_arguments, place)
    return ConsumerArguments(
        priority=priority or 0,
        prefetch_count=prefetch_count,
        refill_percent=refill_percent or PERCENT_MAX,
        selector=consumer_selector(arguments, queue_arguments, place),
        is_no_local=bool(_read(arguments, NO_LOCAL, qpid_truth, place)),
    )


_qpid_int: Final = qpid_integer(-QPID_PRIORITY_MAX - 1, QPID_PRIORITY_MAX)


def qpid_priority(value: object, type_: str) -> int:
    """A number of 32 bits, or that as text, as the distance to the highest. Raises InvalidValue.

    So 0 is the default in both dialects, and consumers of either share a queue as equals.
    """
    number = _qpid_int(value, type_)
    assert isinstance(number, int)
    return number - QPID_PRIORITY_MAX


def percent(value: object, type_: str) -> int:
    """A whole part of a hundred, at least one. Raises InvalidValue."""
    number = natural(value, type_)
    if number == 0:
        raise InvalidValue("{value_zero,0}")
    if number > PERCENT_MAX:
        raise InvalidValue(f"{{max_value_exceeded,{number}}}")
    return number


def _read(
    arguments: Mapping[str, object], name: str, read: Callable[[object, str], T], place: str
) -> T | None:
    """None when it was not given. ``read`` takes the value and RabbitMQ's name of its type."""
    if name not in arguments:
        return None
    kinds: Mapping[str, str] = getattr(arguments, "kinds", {})
    value = arguments[name]
    try:
        return read(value, type_name(value, kinds.get(name)))
    except InvalidValue as problem:
        raise PreconditionFailed(_problem(name, place, problem.term)) from None


def _check_queue_type(
    arguments: Mapping[str, object], queue_arguments: QueueArguments, place: str
) -> None:
    """Whether arguments of streams are for this queue; any that is only read has offsets."""
    queue_type = queue_arguments.queue_type or DEFAULT_QUEUE_TYPE
    if queue_type == "stream":
        return
    for name in STREAM_ARGUMENTS:
        if name == STREAM_OFFSET and queue_arguments.non_destructive:
            continue
        if name in arguments:
            raise PreconditionFailed(
                f"invalid arg '{name}' for {place} of queue type rabbit_{queue_type}_queue"
            )


def consumer_selector(
    arguments: Mapping[str, object], queue_arguments: QueueArguments, place: str
) -> Selector | None:
    """The conjunction of the consumer's own selector and its queue's default ones; None for none.

    ``place`` is how a refusal names the queue. With no ``arguments`` it is what basic.get is
    subject to.
    """
    own = arguments.get(SELECTOR)
    if own is not None and not isinstance(own, str):
        raise InvalidSelector(_problem(SELECTOR, place, "expected a string"))
    texts = [own] if own is not None and own.strip() else []
    if texts:
        _compiled(texts[0], place)  # alone first, so that a refusal quotes what the client wrote
    texts = list(dict.fromkeys(texts + inherited_filters(arguments, queue_arguments, SELECTOR)))
    if len(texts) > 1:
        return _compiled(" AND ".join(f"({text})" for text in texts), place)
    return _compiled(texts[0], place) if texts else None


def inherited_filters(
    arguments: Mapping[str, object], queue_arguments: QueueArguments, filter_type: str
) -> list[str]:
    """What the queue's default filters of this type say, but for those that the consumer replaces.

    A filter that a consumer brings is registered under its type's name, so it takes the place of
    the default filter of that name, and of no other (Broker-J,
    ``AbstractQueue.addConsumerInternal``); all others hold too. A blank selector does not count.
    """
    return [
        default.argument
        for default in queue_arguments.default_filters or ()
        if default.filter_type == filter_type and not _brings(arguments, default.name)
    ]


def _brings(arguments: Mapping[str, object], filter_name: str) -> bool:
    if filter_name not in (SELECTOR, REPLAY_PERIOD):
        return False
    value = arguments.get(filter_name)
    return value is not None and (filter_name != SELECTOR or bool(str(value).strip()))


def _compiled(text: str, place: str) -> Selector:
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise InvalidSelector(_problem(SELECTOR, place, str(error))) from None


def _problem(name: str, place: str, problem: str) -> str:
    return f"invalid arg '{name}' for {place}: {problem}"
