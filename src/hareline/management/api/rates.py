"""Counters as one request asks for them: rates, samples of a span, or nothing (``disable_stats``).

Made by the routes that show objects. Numbers and their ``*_details`` come from ``statistics``; here
it is decided which window goes with which numbers, as in RabbitMQ's API: ``lengths_age`` with
depths, ``msg_rates_age`` with counters of messages, ``data_rates_age`` with octets of connections,
``node_stats_age`` with the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from hareline.counts import ChannelCounts
from hareline.management.answers import Refusal
from hareline.management.api.call import Call
from hareline.statistics.sampler import Sampler, message_stats, with_details
from hareline.statistics.windows import WindowError, read_windows

COUNTERS: Final = (*ChannelCounts().as_dict(), "disk_reads", "disk_writes")

#: Counters of messages by whose rates queues and channels are sorted, and their columns.
RATED: Final = (
    (
        *("publish", "confirm", "deliver", "deliver_no_ack", "deliver_get"),
        *("get", "get_no_ack", "ack", "redeliver"),
    ),
    "message_stats.{}_details.rate",
)

T = TypeVar("T")
#: What lists are sorted by without describing their items. A key has the value that the row shows,
#: or sorts as that does; all columns by which the web UI sorts are there.
Keys = Mapping[str, Callable[[T], Any]]
Group = Literal["lengths", "msg_rates", "data_rates", "node_stats"]


class Rates:
    """``is_wanted`` False: the request has asked for objects without statistics.

    ``has_totals``: depths of queues are shown all the same.
    """

    __slots__ = ("_sampler", "_windows", "has_totals", "is_wanted")

    def __init__(self, call: Call) -> None:
        """Raises Refusal for a window that cannot be had."""
        self._sampler: Sampler | None = call.site.sampler
        self.is_wanted = not call.flag("disable_stats")
        self.has_totals = self.is_wanted or call.flag("enable_queue_totals")
        try:
            self._windows = read_windows(call.query)
        except WindowError as error:
            raise Refusal(400, "bad_request", str(error)) from None

    def rate(self, kind: str, key: tuple[str, ...], name: str) -> float:
        """Changes of a number per second; 0.0 where nothing is known."""
        return 0.0 if self._sampler is None else self._sampler.rate(kind, key, name)

    def keys(
        self, kind: str, key_of: Callable[[T], tuple[str, ...]], names: tuple[str, ...], column: str
    ) -> Keys[T]:
        """Keys by the rates of these numbers. ``column``: with a place for the name."""

        def rate_of(name: str) -> Callable[[T], float]:
            return lambda each: self.rate(kind, key_of(each), name)

        return {column.format(name): rate_of(name) for name in names}

    def changed_ms(self, kind: str, key: tuple[str, ...], since_ms: int) -> int | None:
        """Return the time of the last sample that saw a change of this; ``since_ms`` if none has.

        None where nothing is sampled.
        """
        return None if self._sampler is None else self._sampler.changed_ms(kind, key) or since_ms

    def message_counts(self, kind: str, key: tuple[str, ...]) -> dict[str, int]:
        """The counters of messages at the last sample; {} before the first."""
        latest = self.latest(kind, key)
        return {name: latest[name] for name in COUNTERS if name in latest}

    def latest(self, kind: str, key: tuple[str, ...]) -> dict[str, int]:
        """All numbers of an object at the last sample; {} before the first."""
        return {} if self._sampler is None else self._sampler.latest(kind, key)

    def message_stats(
        self, kind: str, key: tuple[str, ...], counts: Mapping[str, int]
    ) -> dict[str, object]:
        """Counters of messages with their details; {} where nothing was counted."""
        return message_stats(self._sampler, kind, key, counts, self._windows.get("msg_rates"))

    def object_stats(
        self, kind: str, key: tuple[str, ...], counts: Mapping[str, int]
    ) -> dict[str, object]:
        """``message_stats`` of an object, as a part of its row; {} where nothing was counted."""
        stats = self.message_stats(kind, key, counts)
        return {"message_stats": stats} if stats else {}

    def with_details(
        self, kind: str, key: tuple[str, ...], numbers: Mapping[str, int], group: Group
    ) -> dict[str, object]:
        """Numbers with their details."""
        return with_details(self._sampler, kind, key, numbers, self._windows.get(group))
