"""Start positions of readers: ``x-stream-offset`` and ``x-qpid-replay-period`` of basic.consume.

Read by ``amqp.consumer_arguments`` once per consume; ``queues.dispatch.reading`` turns a
``StartPosition`` into a place in its queue. docs/non-destructive-queues.md has the table.

Invariant: a ``StartPosition`` of kind "time" holds an instant and not a duration, so it means the
same at any later time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hareline.errors import PreconditionFailed
from hareline.queues.declare.readers import (
    INTEGER_TYPES,
    InvalidValue,
    escaped,
    max_age_ms,
    quoted,
    type_name,
)

STREAM_OFFSET: Final = "x-stream-offset"
REPLAY_PERIOD: Final = "x-qpid-replay-period"

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,9})?")
_SECONDS_MAX: Final = 10**15


@dataclass(frozen=True, slots=True)
class StartPosition:
    """``first``: the oldest entry there is. ``last``: the newest. ``next``: the next to come.

    ``offset``: the entry of this offset or the first behind it. ``time``: the first that arrived
    at ``value`` or later, in epoch milliseconds. An offset or an instant beyond the end is the end;
    a replay period that begins later than the next message is for ``Consumer.since_ms``.
    """

    kind: Literal["first", "last", "next", "offset", "time"]
    value: int = 0

    def __repr__(self) -> str:
        return f"StartPosition({self.kind}{f' {self.value}' if self.value else ''})"


FIRST: Final = StartPosition("first")
LAST: Final = StartPosition("last")
NEXT: Final = StartPosition("next")

_WORDS: Final[Mapping[str, StartPosition]] = {"first": FIRST, "last": LAST, "next": NEXT}


def read_start(
    arguments: Mapping[str, object],
    inherited_periods: list[str],
    *,
    place: str,
    now_ms: int,
    default: StartPosition,
) -> StartPosition:
    """The start that a consumer asked for, or that its queue's default filters give it.

    ``inherited_periods``: the replay periods among those filters, which count only for a consumer
    that names no start itself; the shortest one decides, as all must hold. ``place`` is how a
    refusal names the queue: ``queue 'q' in vhost '/'``.

    Raises PreconditionFailed: ``invalid arg 'x-stream-offset' for queue 'q' in vhost '/':
    {invalid_offset_arg,"soon"}``, or both arguments by name where both were given.
    """
    has_offset, has_period = STREAM_OFFSET in arguments, REPLAY_PERIOD in arguments
    if has_offset and has_period:
        raise PreconditionFailed(
            f"contradictory args '{STREAM_OFFSET}' and '{REPLAY_PERIOD}' for {place}: "
            "one start at most"
        )
    if has_offset:
        return _read(STREAM_OFFSET, arguments, place, now_ms)
    if has_period:
        return _read(REPLAY_PERIOD, arguments, place, now_ms)
    starts = [
        _read(REPLAY_PERIOD, {REPLAY_PERIOD: period}, place, now_ms) for period in inherited_periods
    ]
    return max(
        starts,
        key=lambda start: (now_ms, True) if start is NEXT else (start.value, False),
        default=default,
    )


def _read(name: str, arguments: Mapping[str, object], place: str, now_ms: int) -> StartPosition:
    value = arguments[name]
    kinds: Mapping[str, str] = getattr(arguments, "kinds", {})
    type_ = type_name(value, kinds.get(name))
    try:
        if name == REPLAY_PERIOD:
            return replay_start(value, type_, now_ms)
        return stream_start(value, type_, now_ms)
    except InvalidValue as problem:
        raise PreconditionFailed(f"invalid arg '{name}' for {place}: {problem.term}") from None


def stream_start(value: object, type_: str, now_ms: int) -> StartPosition:
    """``x-stream-offset`` (rabbit_stream_queue, ``parse_offset_arg``). Raises InvalidValue.

    ``first``, ``last``, ``next``, an offset, a timestamp (seconds), or how long ago: ``7D``, with
    the units Y M D h m s of x-max-age.
    """
    if isinstance(value, str):
        word = _WORDS.get(value)
        if word is not None:
            return word
        try:
            return StartPosition("time", now_ms - max_age_ms(value, type_))
        except InvalidValue:
            raise InvalidValue(f'{{invalid_offset_arg,"{escaped(value)}"}}') from None
    if type_ == "timestamp" and isinstance(value, int):
        return StartPosition("time", value * 1000)
    if type_ not in INTEGER_TYPES or not isinstance(value, int):
        raise InvalidValue(f"{{invalid_offset_arg,{type_}}}")
    if value < 0:
        raise InvalidValue(f"{{value_negative,{value}}}")
    return StartPosition("offset", value)


def replay_start(value: object, type_: str, now_ms: int) -> StartPosition:
    """``x-qpid-replay-period``: seconds before now, as a number or its text; 0 is NEXT.

    The start of a negative period lies ahead (Broker-J, ``ArrivalTimeFilterFactory``). Raises
    InvalidValue.
    """
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value) is None:
            raise InvalidValue(quoted(f"expected seconds, got '{value}'"))
        seconds = float(value)
    elif isinstance(value, bool) or not isinstance(value, int | float) or type_ == "timestamp":
        raise InvalidValue(quoted(f"expected seconds, got {type_}"))
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue(quoted(f"expected seconds, got {value}"))
    else:
        seconds = value
    if seconds == 0:
        return NEXT
    if seconds > _SECONDS_MAX:
        return FIRST
    return StartPosition("time", now_ms - int(max(seconds, -_SECONDS_MAX) * 1000))
