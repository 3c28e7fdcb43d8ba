"""Plan of a read: its streams, where it begins and ends in each, and the ranges of its tasks.

Invariant: a place that the options name and that is not in a stream is an error or, with
failOnDataLoss=false, a warning. Ranges are split without gap or overlap; a share of a backlog is
never more than the limit and never nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hareline.spark.errors import InvalidOption, OffsetGone, QueueGone
from hareline.spark.reading.access import StreamAccess, StreamState, gone_text
from hareline.spark.reading.amqp_client import AmqpStreamClient
from hareline.spark.reading.client import StreamClient
from hareline.spark.reading.options import EARLIEST, LATEST, Place, ReadOptions

_log: Final = logging.getLogger(__name__)

Streams = dict[str, StreamState]


def client_of(options: ReadOptions) -> StreamAccess:
    """Client for the transport, the time and the retries of the options."""
    kind = AmqpStreamClient if options.is_over_amqp else StreamClient
    return kind(options.connection, options.request_timeout_s, options.retries)


def streams_of(options: ReadOptions, client: StreamAccess) -> Streams:
    """The streams to read, as they are now, by name. Raises the refusal of one that is not there.

    For a pattern these may be none.
    """
    if options.pattern is not None:
        matches = re.compile(options.pattern).fullmatch
        assert isinstance(client, StreamClient)  # with AMQP the options refuse a pattern
        return {each.queue: each for each in client.streams() if matches(each.queue)}
    return client.described(options.queues)


def needs_one(options: ReadOptions, streams: Streams) -> None:
    """Raises QueueGone if a pattern found nothing."""
    if not streams:
        raise QueueGone(
            f"no stream in virtual host {options.connection.vhost!r} matches queuePattern "
            f"{options.pattern!r} that user {options.connection.user!r} may read"
        )


def starts(options: ReadOptions, client: StreamAccess, streams: Streams) -> dict[str, int]:
    """The offset of the first message to read of each stream. Raises InvalidOption, OffsetGone."""
    if options.start_timestamp_ms is not None:
        return {queue: _start_by_time(options, client, state) for queue, state in streams.items()}
    found = {}
    for queue, wanted in _placed("startingOffsets", options.start, streams, EARLIEST, "it has no"):
        first = streams[queue].first
        found[queue] = max(wanted, first)
        if wanted < first:
            text = gone_text(queue, wanted, first)
            if options.fails_on_data_loss:
                raise OffsetGone(text, first=first)
            _log.warning("%s", text)
    return found


def ends(options: ReadOptions, client: StreamAccess, streams: Streams) -> dict[str, int]:
    """One past the last message to read of each stream. Raises InvalidOption."""
    if options.end_timestamp_ms is not None:
        # What arrives meanwhile is later than all there was, so never beyond the known end.
        return {
            queue: min(state.next, client.offset_at(queue, options.end_timestamp_ms))
            for queue, state in streams.items()
        }
    return dict(_placed("endingOffsets", options.end, streams, LATEST, "not"))


def _start_by_time(options: ReadOptions, client: StreamAccess, state: StreamState) -> int:
    assert options.start_timestamp_ms is not None
    offset = client.offset_at(state.queue, options.start_timestamp_ms)
    if offset >= state.next and not options.starts_at_end_without_match:
        raise InvalidOption(
            f"startingTimestamp: no message of stream {state.queue!r} arrived at "
            f"{options.start_timestamp_ms} or later; set startingTimestampStrategy=latest to "
            "begin at its end"
        )
    return min(offset, state.next)


def _placed(
    name: str, place: Place, streams: Streams, default: int, beyond: str
) -> Iterator[tuple[str, int]]:
    """Each stream with the option's offset in it; those that it does not name get the default.

    ``beyond``: words for an offset that the stream does not have yet. Raises InvalidOption.
    """
    wanted = dict.fromkeys(streams, place) if isinstance(place, int) else place
    for queue in wanted:
        if queue not in streams:
            raise InvalidOption(
                f"{name} names {queue!r}, which is not among the streams to read: "
                f"{', '.join(sorted(streams)) or 'there are none'}"
            )
    for queue, state in streams.items():
        at = wanted.get(queue, default)
        if at < 0:
            at = state.first if at == EARLIEST else state.next
        if at > state.next:
            raise InvalidOption(f"{name}: stream {queue!r} ends before {state.next}, {beyond} {at}")
        yield queue, at


#: Unless minPartitions is given, a range is not split into pieces of fewer rows than this.
SMALL_RANGE_ROWS: Final = 10_000


class Range(NamedTuple):
    """The messages ``start`` to ``end`` - 1 of a stream in one of its lives."""

    queue: str
    incarnation: str
    start: int
    end: int

    @property
    def rows(self) -> int:
        """Number of messages."""
        return self.end - self.start


class Backlog(NamedTuple):
    """Unread messages of a stream; ``octets``: an estimate for their bodies."""

    rows: int
    octets: int


def share_out(
    backlogs: Mapping[str, Backlog], max_rows: int | None, max_octets: int | None
) -> dict[str, int]:
    """Rows to read of each stream with a backlog, in proportion to the backlogs.

    Each gets one row at least; if there are more streams than rows, the longest backlogs do. None:
    no such limit. Octets are estimates, so the limit of octets is kept only about.
    """
    waiting = {queue: each for queue, each in backlogs.items() if each.rows > 0}
    total = sum(each.rows for each in waiting.values())
    budget = total if max_rows is None else min(total, max_rows)
    octets = sum(each.octets for each in waiting.values())
    if max_octets is not None and octets > max_octets:
        budget = min(budget, max(1, total * max_octets // octets))
    if budget >= total:
        return {queue: each.rows for queue, each in waiting.items()}
    by_rows = sorted(waiting, key=lambda queue: (-waiting[queue].rows, queue))
    if budget <= len(by_rows):
        return dict.fromkeys(by_rows[:budget], 1)
    # One row for each, and of the rest its part; what rounding leaves goes to the longest.
    spare = budget - len(by_rows)
    more = total - len(by_rows)
    shares = {queue: 1 + (waiting[queue].rows - 1) * spare // more for queue in by_rows}
    left = budget - sum(shares.values())
    for queue in by_rows:
        if left > 0 and shares[queue] < waiting[queue].rows:
            shares[queue] += 1
            left -= 1
    return shares


def split(
    ranges: Sequence[Range], max_rows: int, min_parts: int | None, default_parts: int
) -> list[Range]:
    """The same messages in ranges of at most ``max_rows``, and in ``min_parts`` ranges or more.

    A range that ends before it begins has none. Where there are fewer messages than that, each is
    a range. If ``min_parts`` is None, ``default_parts`` is aimed at, but not with pieces of fewer
    than `SMALL_RANGE_ROWS`.
    """
    whole = [each for each in ranges if each.rows > 0]
    total = sum(each.rows for each in whole)
    if min_parts is None:
        min_parts = max(1, min(default_parts, total // SMALL_RANGE_ROWS))
    pieces = []
    for each in whole:
        count = max(-(-each.rows // max_rows), -(-each.rows * min_parts // total))
        count = min(count, each.rows)
        bounds = [each.start + each.rows * number // count for number in range(count + 1)]
        pieces += [each._replace(start=start, end=end) for start, end in pairwise(bounds)]
    return pieces
