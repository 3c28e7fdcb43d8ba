"""Plan of a load test: its pattern, sizes, rates and limits, and the part of each process.

Invariant: a plan is
plain data that can be pickled, and the same plan makes the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: What each body begins with: when it was sent, in nanoseconds of the machine's clock.
STAMP_OCTETS: Final = 8
_WORDS: Final = ("red", "green", "blue", "north", "south", "east", "west")


class Pattern(StrEnum):
    """Distribution of messages.

    work: one queue, each message once; fanout: all consumers get all messages; request: each
    message is answered, and the round trip is measured.
    """

    work = "work"
    fanout = "fanout"
    request = "request"


class Role(StrEnum):
    producer = "producer"
    consumer = "consumer"


@dataclass(frozen=True)
class Plan:
    """``sizes``: of bodies, in turn. ``rate``: messages a second of one producer, 0 for no limit.

    ``in_flight``: unconfirmed messages of a producer, or requests without an answer; 0 is no
    confirms. ``count``: messages of one producer, 0 for no limit. ``variety``: how many different
    sets of headers and properties the messages have, 0 for none. ``queues``: of which consumers
    take, in turn. ``exchange``, ``key``: where producers send.
    """

    pattern: Pattern
    exchange: str
    key: str
    queues: tuple[str, ...]
    sizes: tuple[int, ...] = (100,)
    rate: float = 0.0
    in_flight: int = 1000
    count: int = 0
    variety: int = 0
    is_persistent: bool = False
    prefetch: int = 500
    is_auto_ack: bool = False
    ack_every: int = 50
    duration_s: float = 10.0
    warm_up_s: float = 1.0


@dataclass(frozen=True)
class Part:
    """Part of one process in a run: ``roles`` with the number of each producer or consumer."""

    roles: tuple[tuple[Role, int], ...]
    plan: Plan


def shared_out(
    producers: int, consumers: int, processes: int
) -> list[tuple[tuple[Role, int], ...]]:
    """The roles of each process: producers and consumers apart as far as there are processes."""
    roles = [(Role.producer, n) for n in range(producers)]
    others = [(Role.consumer, n) for n in range(consumers)]
    if processes == 1 or not roles or not others:
        parts = _dealt(roles + others, processes)
    else:
        mine = max(1, min(processes - 1, round(processes * producers / (producers + consumers))))
        parts = _dealt(roles, mine) + _dealt(others, processes - mine)
    return [part for part in parts if part]


def _dealt(roles: Sequence[tuple[Role, int]], hands: int) -> list[tuple[tuple[Role, int], ...]]:
    return [tuple(roles[start::hands]) for start in range(hands)]


def headers_of(number: int, variety: int) -> dict[str, Any]:
    """Headers of a message, one of so many sets."""
    kind = number % variety
    return {
        "kind": kind,
        "region": _WORDS[kind % len(_WORDS)],
        "is_large": kind % 3 == 0,
        "price": kind * 17 % 1009,
    }


def ids_of(producer: int, number: int) -> dict[str, str]:
    """Properties that are different for each message."""
    return {"message_id": f"{producer}-{number}", "correlation_id": f"c{number}"}
