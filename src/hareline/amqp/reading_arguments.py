"""The arguments of basic.consume about reading: who takes nothing away, and where it begins.

Called by ``amqp.basic_methods`` once per consume, never per message. The table in
docs/non-destructive-queues.md is held against ``KNOWN`` by a test.

Invariant: a ``ReadingArguments`` made here is valid as a whole, so its readers check nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from hareline.amqp.consumer_arguments import inherited_filters
from hareline.broker.making import is_non_destructive
from hareline.errors import NotImplementedMethod, PreconditionFailed
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.start_position import (
    FIRST,
    NEXT,
    REPLAY_PERIOD,
    STREAM_OFFSET,
    StartPosition,
    read_start,
)
from hareline.queues.declare.arguments import QueueArguments
from hareline.queues.declare.readers import InvalidValue, flag, quoted, type_name

NO_CONSUME: Final = "x-filter-no-consume"  # Broker-J
BROWSE: Final = "x-browse"
AUTO_CLOSE: Final = "x-filter-auto-close"  # Broker-J
STREAM_FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
KNOWN: Final = frozenset(
    (
        STREAM_OFFSET,
        REPLAY_PERIOD,
        NO_CONSUME,
        BROWSE,
        AUTO_CLOSE,
        STREAM_FILTER,
        MATCH_UNFILTERED,
    )
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingArguments:
    """What a consumer is to its queue.

    ``is_browser``: it takes nothing from a queue whose other consumers do. ``start``: where a
    browser or a reader of a non-destructive queue begins. ``since_ms``: what arrives before (epoch
    milliseconds) is not for it; 0 is no bound. Of readers only those have one whose replay period
    begins in the future. ``stream_filter``: see ``Consumer``.
    """

    start: StartPosition = FIRST
    is_browser: bool = False
    closes_at_end: bool = False
    since_ms: int = 0
    stream_filter: frozenset[str] | None = None

    def apply(self, consumer: Consumer) -> None:
        """To be called before the consumer is added to its queue."""
        consumer.start_position = self.start
        consumer.is_browser = self.is_browser
        consumer.closes_at_end = self.closes_at_end
        consumer.since_ms = self.since_ms
        consumer.stream_filter = self.stream_filter


def read_reading_arguments(
    arguments: Mapping[str, object],
    queue_arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    now_ms: int,
) -> ReadingArguments:
    """Read and check these arguments of one basic.consume. Raises PreconditionFailed.

    A stream is read from its end unless the consumer says otherwise (RabbitMQ), any other
    non-destructive queue from its beginning (Broker-J).
    """
    place = f"queue '{queue}' in vhost '{vhost}'"
    is_reader = is_non_destructive(queue_arguments)
    wants_to_browse = _flag(arguments, NO_CONSUME, place) | _flag(arguments, BROWSE, place)
    closes_at_end = _flag(arguments, AUTO_CLOSE, place)
    start = read_start(
        arguments,
        inherited_filters(arguments, queue_arguments, REPLAY_PERIOD),
        place=place,
        now_ms=now_ms,
        default=NEXT if queue_arguments.queue_type == "stream" else FIRST,
    )
    if is_reader or wants_to_browse:
        is_ahead = start.kind == "time" and start.value > now_ms and STREAM_OFFSET not in arguments
        return ReadingArguments(
            start=start,
            is_browser=not is_reader,
            closes_at_end=closes_at_end,
            since_ms=start.value if is_ahead else 0,
            stream_filter=_stream_filter(arguments, place),
        )
    return ReadingArguments(
        since_ms=now_ms if start is NEXT else start.value, closes_at_end=closes_at_end
    )


def check_stream_consumer(
    queue_arguments: QueueArguments,
    *,
    queue: str,
    vhost: str,
    acknowledges: bool,
    is_limited: bool,
) -> None:
    """What RabbitMQ asks of consumers of its streams (rabbit_stream_queue, ``consume``).

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


def _stream_filter(arguments: Mapping[str, object], place: str) -> frozenset[str] | None:
    """The filter values of messages for this consumer, with "" if those without one are as well.

    ``consumer_arguments`` has refused both arguments on other queues. RabbitMQ passes over a value
    of a wrong type, and a consumer that asked for a filter gets all; here it is refused.
    """
    takes_unfiltered = _flag(arguments, MATCH_UNFILTERED, place)  # alone it means nothing
    values = _read(arguments, STREAM_FILTER, filter_values, place)
    if values is None:
        return None
    return values | {""} if takes_unfiltered else values


def filter_values(value: object, type_: str) -> frozenset[str]:
    """``x-stream-filter``: a text, or an array of at least one. Raises InvalidValue."""
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise InvalidValue(quoted("expected at least one filter value"))
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) < len(values):
        wrong = next(one for one in values if not isinstance(one, str))
        raise InvalidValue(f"{{unacceptable_type,{type_ if wrong is value else type_name(wrong)}}}")
    return frozenset(texts)


def _flag(arguments: Mapping[str, object], name: str, place: str) -> bool:
    return bool(_read(arguments, name, flag, place))


def _read(
    arguments: Mapping[str, object], name: str, read: Callable[[object, str], T], place: str
) -> T | None:
    """None when it was not given. Raises PreconditionFailed."""
    if name not in arguments:
        return None
    value = arguments[name]
    kinds: Mapping[str, str] = getattr(arguments, "kinds", {})
    try:
        return read(value, type_name(value, kinds.get(name)))
    except InvalidValue as problem:
        raise PreconditionFailed(f"invalid arg '{name}' for {place}: {problem.term}") from None
