"""Arguments of basic.consume: values that each may have, and filters inherited from the queue.

An argument that is not named here is no error and does nothing; those of streams are refused on
other queues; both as in RabbitMQ. Tables in docs/consumers.md and docs/non-destructive-queues.md
are held against ``KNOWN`` and ``KNOWN_OF_READING`` by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from hareline.amqp.client import RABBITMQ, Dialect
from hareline.broker.filtered_exchange import NO_LOCAL
from hareline.broker.making import is_non_destructive
from hareline.errors import InvalidSelector, NotImplementedMethod, PreconditionFailed
from hareline.queues.core.start_position import (
    FIRST,
    NEXT,
    REPLAY_PERIOD,
    STREAM_OFFSET,
    StartPosition,
    read_start,
)
from hareline.queues.declare.readers import (
    SELECTOR,
    InvalidValue,
    any_integer,
    expiry_ms,
    flag,
    natural,
    qpid_integer,
    qpid_truth,
    quoted,
    type_name,
)
from hareline.queues.declare.readers import priority as message_priority
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE, QueueArguments
from hareline.selectors.error import SelectorError
from hareline.selectors.selector import Selector, compile_selector

PRIORITY: Final = "x-priority"
CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"  # means nothing where no queue has mirrors
PREFETCH_COUNT: Final = "x-prefetch-count"
PREFETCH_REFILL: Final = "x-prefetch-refill"
TIMEOUT: Final = "x-consumer-timeout"
MIN_PRIORITY: Final = "x-min-priority"
MAX_RATE: Final = "x-max-rate"
NO_CONSUME: Final = "x-filter-no-consume"  # Broker-J
BROWSE: Final = "x-browse"
AUTO_CLOSE: Final = "x-filter-auto-close"  # Broker-J
STREAM_FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
STREAM_ARGUMENTS: Final = (STREAM_OFFSET, STREAM_FILTER, MATCH_UNFILTERED)
KNOWN: Final = frozenset(
    (
        *(PRIORITY, CANCEL_ON_FAILOVER, PREFETCH_COUNT, PREFETCH_REFILL, TIMEOUT),
        *(MIN_PRIORITY, MAX_RATE, SELECTOR, NO_LOCAL),
        *STREAM_ARGUMENTS,
    )
)
KNOWN_OF_READING: Final = frozenset(
    (*STREAM_ARGUMENTS, REPLAY_PERIOD, NO_CONSUME, BROWSE, AUTO_CLOSE)
)
PERCENT_MAX: Final = 100
QPID_PRIORITY_MAX: Final = 2**31 - 1  # Broker-J: of consumers that ask for none

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerArguments:
    """Arguments of a consumer, with what its queue's default filters add.

    ``prefetch_count`` None: it did not say, 0: no limit. ``refill_percent``: 1 to 100.
    ``timeout_ms``: how long it may hold a delivery, 0 for ever, None: it did not say.
    ``max_rate``: deliveries a second, 0 for no limit.
    ``selector`` None: every message. ``priority``: 0 is that of consumers that ask for none,
    whichever dialect they speak.

    ``is_browser``: it takes nothing from a queue whose other consumers do. ``start``: where a
    browser or a reader of a non-destructive queue begins. ``since_ms``: what arrives before (epoch
    milliseconds) is not for it; 0 is no bound. Of readers only those have one whose replay period
    begins in the future. ``stream_filter``: see ``Consumer``.
    """

    priority: int = 0
    prefetch_count: int | None = None
    refill_percent: int = PERCENT_MAX
    timeout_ms: int | None = None
    max_rate: int = 0
    selector: Selector | None = None
    is_no_local: bool = False
    start: StartPosition = FIRST
    is_browser: bool = False
    closes_at_end: bool = False
    since_ms: int = 0
    stream_filter: frozenset[str] | None = None


def read_consumer_arguments(
    arguments: Mapping[str, object],
    queue_arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    now_ms: int,
    dialect: Dialect = RABBITMQ,
) -> ConsumerArguments:
    """Read and check the arguments of one basic.consume.

    A stream is read from its end unless the consumer says otherwise (RabbitMQ), any other
    non-destructive queue from its beginning (Broker-J).

    Raises PreconditionFailed: ``invalid arg 'x-priority' for queue 'q' in vhost '/': "expected
    integer, got longstr"`` (the words of rabbit_amqqueue:check_consume_arguments).
    """
    place = f"queue '{queue}' in vhost '{vhost}'"
    read = partial(_read, arguments, place)
    priority = read(PRIORITY, qpid_priority if dialect.ranks_below_default else any_integer)
    read(CANCEL_ON_FAILOVER, flag)
    prefetch_count = read(PREFETCH_COUNT, natural)
    refill_percent = read(PREFETCH_REFILL, percent) or PERCENT_MAX
    timeout_ms = read(TIMEOUT, expiry_ms)
    max_rate = read(MAX_RATE, natural) or 0
    _check_queue_type(arguments, queue_arguments, place)
    selector = consumer_selector(
        arguments, queue_arguments, place, min_priority=read(MIN_PRIORITY, message_priority) or 0
    )
    is_no_local = bool(read(NO_LOCAL, qpid_truth))
    wants_to_browse = bool(read(NO_CONSUME, flag)) | bool(read(BROWSE, flag))
    closes_at_end = bool(read(AUTO_CLOSE, flag))
    start = read_start(
        arguments,
        inherited_filters(arguments, queue_arguments, REPLAY_PERIOD),
        place=place,
        now_ms=now_ms,
        default=NEXT if queue_arguments.queue_type == "stream" else FIRST,
    )
    stream_filter = None
    since_ms = now_ms if start is NEXT else start.value
    is_reader = is_non_destructive(queue_arguments)
    if reads := is_reader or wants_to_browse:
        is_ahead = start.kind == "time" and start.value > now_ms and STREAM_OFFSET not in arguments
        since_ms = start.value if is_ahead else 0
        takes_unfiltered = read(MATCH_UNFILTERED, flag)  # alone it means nothing
        stream_filter = read(STREAM_FILTER, filter_values)
        if stream_filter is not None and takes_unfiltered:
            stream_filter |= {""}
    return ConsumerArguments(
        priority=priority or 0,
        prefetch_count=prefetch_count,
        refill_percent=refill_percent,
        timeout_ms=timeout_ms,
        max_rate=max_rate,
        selector=selector,
        is_no_local=is_no_local,
        start=start if reads else FIRST,
        is_browser=reads and not is_reader,
        closes_at_end=closes_at_end,
        since_ms=since_ms,
        stream_filter=stream_filter,
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
    arguments: Mapping[str, object], place: str, name: str, read: Callable[[object, str], T]
) -> T | None:
    """None when it was not given. ``read`` takes the value and RabbitMQ's name of its type.

    Raises PreconditionFailed for a value that ``read`` refuses.
    """
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
    """Refuse arguments of streams on other queues; any that is only read has offsets."""
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
    arguments: Mapping[str, object],
    queue_arguments: QueueArguments,
    place: str,
    *,
    min_priority: int = 0,
) -> Selector | None:
    """The conjunction of the consumer's own selector and its queue's default ones; None for none.

    ``place`` is how a refusal names the queue. With no ``arguments`` it is what basic.get is
    subject to. ``min_priority``: of messages; one without a priority has 0.
    """
    own = arguments.get(SELECTOR)
    if own is not None and not isinstance(own, str):
        raise InvalidSelector(_problem(SELECTOR, place, "expected a string"))
    texts = [own] if own is not None and own.strip() else []
    if texts:
        _compiled(texts[0], place)  # alone first, so that a refusal quotes what the client wrote
    if min_priority:
        texts.append(f"JMSPriority >= {min_priority}")
    texts = list(dict.fromkeys(texts + inherited_filters(arguments, queue_arguments, SELECTOR)))
    if len(texts) > 1:
        return _compiled(" AND ".join(f"({text})" for text in texts), place)
    return _compiled(texts[0], place) if texts else None


def inherited_filters(
    arguments: Mapping[str, object], queue_arguments: QueueArguments, filter_type: str
) -> list[str]:
    """Values of the queue's default filters of this type, but for those that the consumer replaces.

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


def check_stream_consumer(
    queue_arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    acknowledges: bool,
    is_limited: bool,
) -> None:
    """Refuse what RabbitMQ refuses to consumers of its streams (rabbit_stream_queue, ``consume``).

    Raises NotImplementedMethod for a consumer that does not acknowledge, PreconditionFailed for one
    without a limit: both would be given the whole stream at once.
    """
    if queue_arguments.queue_type != "stream":
        return
    place = f"queue '{queue}' in vhost '{vhost}'"
    if not acknowledges:
        raise NotImplementedMethod(
            f"automatic acknowledgement not supported by stream queues {place}"
        )
    if not is_limited:
        raise PreconditionFailed(f"consumer prefetch count is not set for stream {place}")


def check_not_stream(
    queue_arguments: QueueArguments, operation: str, *, queue: str, vhost: str
) -> None:
    """Raises NotImplementedMethod: ``operation`` (``basic.get``) is nothing for a stream."""
    if queue_arguments.queue_type == "stream":
        raise NotImplementedMethod(
            f"{operation} not supported by stream queues queue '{queue}' in vhost '{vhost}'"
        )


def filter_values(value: object, type_: str) -> frozenset[str]:
    """``x-stream-filter``: a text, or an array of at least one. Raises InvalidValue.

    RabbitMQ passes over a value of a wrong type, and the consumer gets all; here it is refused.
    """
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise InvalidValue(quoted("expected at least one filter value"))
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) < len(values):
        wrong = next(one for one in values if not isinstance(one, str))
        raise InvalidValue(f"{{unacceptable_type,{type_ if wrong is value else type_name(wrong)}}}")
    return frozenset(texts)
