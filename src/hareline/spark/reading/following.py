"""Micro-batches of a streaming query: each reads from the end of the last one on.

A stream that is new to the query, or was declared again, comes into an offset at its first message
without a row; the next batch reads from there. So the ranges of a batch follow from its two
offsets alone, and a repeated batch reads the same. Invariant: an offset never goes back, and keeps
each stream that was in the one before, so that it continues there if it returns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from hareline.spark.errors import (
    IncarnationChanged,
    InvalidOption,
    OffsetGone,
    QueueGone,
    SparkSideError,
    TailRegressed,
)
from hareline.spark.reading.access import StreamState, gone_text
from hareline.spark.reading.client import StreamClient
from hareline.spark.reading.options import ReadOptions, default_partitions
from hareline.spark.reading.planning import (
    Backlog,
    Range,
    Streams,
    client_of,
    share_out,
    split,
    starts,
    streams_of,
)

_VERSION: Final = 1


class Position(NamedTuple):
    """The next message to read of a stream, and which life of the stream its offset is of."""

    incarnation: str
    offset: int


def to_json(
    vhost: str,
    positions: Mapping[str, Position],
    amounts: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, object]:
    """The offset as Spark is handed it; ``positions`` by the names of queues.

    ``amounts``: what is shown beside the position of a stream, where no query goes on from it.
    """
    return {
        "v": _VERSION,
        "q": {
            f"{vhost}/{queue}": {
                "i": positions[queue].incarnation,
                "o": positions[queue].offset,
                **((amounts or {}).get(queue, {})),
            }
            for queue in sorted(positions)
        },
    }


def from_json(vhost: str, offset: Mapping[str, object]) -> dict[str, Position]:
    """The positions in an offset that `to_json` made, by queue. Raises InvalidOption."""
    if offset.get("v") != _VERSION:
        raise InvalidOption(
            f"the checkpoint has offsets of version {offset.get('v')!r}; this source reads "
            f"version {_VERSION}: use another checkpointLocation"
        )
    positions = {}
    prefix = f"{vhost}/"
    try:
        for key, position in offset["q"].items():  # type: ignore[attr-defined]
            if not key.startswith(prefix):
                raise InvalidOption(
                    f"the checkpoint has {key!r} and the url has virtual host {vhost!r}: "
                    "use another checkpointLocation"
                )
            positions[key[len(prefix) :]] = Position(str(position["i"]), int(position["o"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidOption(
            "the checkpoint has offsets that this source did not write: "
            "use another checkpointLocation"
        ) from None
    return positions


_log: Final = logging.getLogger(__name__)

Positions = dict[str, Position]


class StreamFollower:
    """Position of a query in its streams, and its next batch."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client = client_of(options)
        self._initial: Positions | None = None
        #: What there was when a query began that reads what is there and ends.
        self._target: Streams | None = None
        self._seen: Streams = {}
        self._amounts: dict[str, dict[str, int]] = {}
        self._last_moved = ""
        self._reported: Positions = {}

    def initial(self) -> Positions:
        """Positions of a new query; Spark asks twice and gets one answer. Raises InvalidOption."""
        if self._initial is None:
            streams = self._target
            if streams is None:
                streams = streams_of(self._options, self._client)
            begin = starts(self._options, self._client, streams)
            self._initial = {
                queue: Position(state.incarnation, begin[queue]) for queue, state in streams.items()
            }
        return self._initial

    def end_here(self) -> None:
        """Take what there is now for all that there will be (Trigger.AvailableNow)."""
        self._target = streams_of(self._options, self._client)

    def latest(self, start: Positions, max_rows: int | None, max_octets: int | None) -> Positions:
        """End of the batch that begins at ``start``; ``start`` itself without anything new.

        None: no such limit. Waits a moment for news, if there are none. Raises what is wrong with
        the streams.
        """
        streams = self._awaited(start) if self._target is None else self._target
        self._seen = streams
        end = dict(start)
        begins: dict[str, int] = {}
        backlogs: dict[str, Backlog] = {}
        for queue, state in streams.items():
            at = start.get(queue)
            if not state.is_end_known:
                end.setdefault(queue, Position(state.incarnation, state.first))
            elif at is None:
                end[queue] = Position(state.incarnation, state.first)
            elif at.incarnation != state.incarnation:
                end[queue] = self._declared_again(queue, at, state.incarnation, state.first)
            else:
                begin = self._checked(queue, at.offset, state.first, state.next)
                rows = state.next - begin
                begins[queue] = begin
                backlogs[queue] = Backlog(rows, state.octets_of(rows))
        planned = share_out(backlogs, max_rows, max_octets)
        for queue, rows in planned.items():
            end[queue] = Position(start[queue].incarnation, begins[queue] + rows)
            self._last_moved = queue
        self._amounts = {
            queue: _amounts(state, planned.get(queue, 0), end[queue].offset)
            for queue, state in streams.items()
        }
        return end

    def seen(self) -> Positions:
        """Ends of the streams when `latest` last looked."""
        return {
            queue: Position(state.incarnation, state.next) for queue, state in self._seen.items()
        }

    def amounts(self) -> dict[str, dict[str, int]]:
        """Rows and octets of each stream in the batch that `latest` planned, and the lag behind it.

        Octets are those of bodies, by the mean of what the stream keeps.
        """
        return self._amounts

    def ranges(self, start: Mapping[str, Position], end: Mapping[str, Position]) -> list[Range]:
        """Ranges of the tasks of a batch; asks the broker nothing."""
        whole = [
            Range(queue, position.incarnation, start[queue].offset, position.offset)
            for queue, position in sorted(end.items())
            if queue in start and start[queue].incarnation == position.incarnation
        ]
        return split(
            whole,
            self._options.max_partition_rows,
            self._options.min_partitions,
            default_partitions(),
        )

    def report(self, end: Positions) -> None:
        """Tell the broker where the query is, if it has a name there; a failure is only logged."""
        name = self._options.reader_name
        if name is None:
            return
        # Once: this is news for operators, and the query waits for it.
        client = StreamClient(self._options.connection, self._options.request_timeout_s, retries=0)
        for queue, at in end.items():
            if self._reported.get(queue) == at:
                continue
            try:
                client.report(
                    queue, name, at.offset, at.incarnation, pins=self._options.pins_retention
                )
            except SparkSideError as problem:
                _log.warning("the position of reader %r was not reported: %s", name, problem)
                return
            self._reported[queue] = at

    def close(self) -> None:
        """Let go of the broker; the next call asks it again."""
        self._client.close()

    def _awaited(self, start: Positions) -> Streams:
        """Look at the streams; wait a while for one that was read and is gone."""
        patience = self._client.patience()
        is_waiting = False
        while True:
            try:
                return self._look(start)
            except QueueGone as problem:
                was_read = start.keys() >= set(self._options.queues)
                if not (self._options.waits_for_streams and was_read and patience.pause()):
                    raise
                if not is_waiting:
                    _log.warning("%s; waiting for it to be declared again", problem)
                is_waiting = True

    def _look(self, start: Positions) -> Streams:
        """The streams as soon as one has news, at the latest after the time of the long poll."""
        options, client = self._options, self._client
        wait_ms = options.long_poll_ms
        if options.pattern is None and len(options.queues) == 1:
            queue = options.queues[0]
            after = start[queue].offset if queue in start else None
            return {queue: client.tail(queue, after, wait_ms)}
        streams = streams_of(options, client)
        if wait_ms == 0 or any(
            queue not in start or _has_moved(state, start[queue])
            for queue, state in streams.items()
        ):
            return streams
        # Only one can be waited for: the one that had news last, most likely has them next.
        queue = self._last_moved if self._last_moved in streams else min(streams, default="")
        if not queue:
            time.sleep(wait_ms / 1000)
            return streams
        try:
            state = client.tail(queue, streams[queue].next, wait_ms)
        except QueueGone:
            del streams[queue]  # the next look says whether that matters
            return streams
        return {**streams, queue: state}

    def _checked(self, queue: str, at: int, first: int, next_: int) -> int:
        """The first message to read from ``at`` on. Raises OffsetGone, TailRegressed."""
        if at > next_:
            raise TailRegressed(
                f"stream {queue!r}: messages up to {at - 1} were read, and now it ends before "
                f"{next_}: the broker lost them, and gives their offsets to others; begin again "
                "with a new checkpointLocation"
            )
        if at >= first:
            return at
        if self._options.fails_on_data_loss:
            raise OffsetGone(gone_text(queue, at, first), first=first)
        return first

    def _declared_again(self, queue: str, at: Position, incarnation: str, first: int) -> Position:
        text = (
            f"stream {queue!r} was deleted and declared again after message {at.offset - 1}; what "
            "it had from there on is gone"
        )
        if not self._options.restarts_on_new_incarnation:
            raise IncarnationChanged(
                f"{text}; begin again with a new checkpointLocation, or set "
                "onIncarnationChange=restart to read the new one from its first message"
            )
        _log.warning("%s; reading the new one from its first message", text)
        return Position(incarnation, first)


def _amounts(state: StreamState, rows: int, end: int) -> dict[str, int]:
    lag = max(0, state.next - max(end, state.first))
    return {
        "rows": rows,
        "octets": state.octets_of(rows),
        "lag_rows": lag,
        "lag_octets": state.octets_of(lag),
    }


def _has_moved(state: StreamState, at: Position) -> bool:
    """True if a stream does not end at this position."""
    return state.is_end_known and (state.incarnation, state.next) != at
