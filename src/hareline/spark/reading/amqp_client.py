"""Streams over AMQP: consumers tell where a stream begins and ends, and read its ranges.

AMQP tells neither incarnations nor arrivals; docs/decisions/0013-spark-over-amqp.md says how far
its answers can be trusted. Invariant: `AmqpStreamClient.chunks` gives all messages of its range or
raises; offsets of RabbitMQ's own records are skipped after a check that retention took none.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from hareline.spark.errors import (
    BrokerRefused,
    InvalidOption,
    LoginRefused,
    MessagesMissing,
    NotAStream,
    OffsetGone,
    QueueGone,
    SparkSideError,
    TailRegressed,
)
from hareline.spark.reading.access import (
    OCTETS_MAX,
    ROWS_MAX,
    Chunk,
    StreamAccess,
    StreamState,
    gone_text,
    lost_text,
    no_right_text,
    not_a_stream_text,
)
from hareline.spark.reading.amqp_session import (
    AmqpSession,
    ConsumerCancelled,
    Delivery,
    Refusal,
    Start,
)
from hareline.spark.shared.options import Connection
from hareline.wire.stream_chunks import ChunkHeader
from hareline.wire.table import Timestamp

#: Deliveries on their way at most.
PREFETCH: Final = 2_000
#: How long a broker that does not say so may take before a stream counts as empty.
EMPTY_S: Final = 3.0
#: How long a range may send nothing before the stream is looked at.
SILENCE_S: Final = 2.0
#: How long an idle stream is only waited for, before it is looked at again.
LOOK_AGAIN_S: Final = 5.0
#: A consumer at the last chunk of a stream has read it after so many messages.
_LAST_CHUNK_MAX: Final = 65_536

_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 406

Answer = TypeVar("Answer")


class AmqpStreamClient(StreamAccess):
    """Consumes from the streams of one virtual host. Is sent to tasks without its connection."""

    def __init__(self, connection: Connection, timeout_s: float, retries: int) -> None:
        where = f"amqp://{connection.host}:{connection.port}"
        super().__init__(connection, timeout_s, retries, where, "url")
        self._kept: AmqpSession | None = None
        #: What was seen of each stream, and when.
        self._seen: dict[str, tuple[StreamState, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None, "_seen": {}}

    def described(self, queues: Sequence[str]) -> dict[str, StreamState]:
        return {queue: self.tail(queue) for queue in queues}

    def tail(self, queue: str, after: int | None = None, wait_ms: int = 0) -> StreamState:
        # While a stream is idle, only the next message is waited for, and the stream looked at now
        # and then, as it may have been declared again.
        wait_s = wait_ms / 1000
        has_waited = False
        if wait_s and after is not None and queue in self._seen:
            state, seen_at = self._seen[queue]
            is_fresh = time.monotonic() - seen_at < LOOK_AGAIN_S
            if is_fresh and state.is_end_known and state.next == after:
                if not self._arrives(queue, after, wait_s):
                    return state
                has_waited = True
        state = self._look(queue)
        if wait_s and after is not None and not has_waited:
            start: Start = after if state.is_end_known else "first"
            is_idle = not state.is_end_known or state.next == after
            if is_idle and self._arrives(queue, start, wait_s):
                state = self._look(queue)
        self._seen[queue] = state, time.monotonic()
        return state

    def offset_at(self, queue: str, timestamp_ms: int) -> int:
        # Whole seconds only. RabbitMQ gives the first message of a chunk, which may be earlier.
        second = Timestamp(timestamp_ms // 1000)
        found = self._ask(queue, lambda session: self._first_from(session, queue, second))
        return self._look(queue).next if found is None else found

    def chunks(self, queue: str, start: int, end: int, incarnation: str) -> Iterator[Chunk]:
        if incarnation:
            raise InvalidOption(
                f"stream {queue!r} was planned to be read with transport=http: AMQP cannot tell "
                f"whether it is still incarnation {incarnation}"
            )
        at = start
        patience = self.patience()
        while at < end:
            try:
                with AmqpSession(self._connection, self._timeout_s) as session:
                    for chunk in self._consumed(session, queue, at, end):
                        at = chunk.header.first_offset + chunk.header.count
                        patience.reset()
                        yield chunk
                    return
            except OSError as problem:
                patience.interrupted(problem)
            except Refusal as refusal:
                raise self._refusal(refusal, queue) from None
            except ConsumerCancelled:
                raise self._gone(queue) from None

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    # -------------------------------------------------------------------------------- ranges

    def _consumed(self, session: AmqpSession, queue: str, at: int, end: int) -> Iterator[Chunk]:
        """The messages from ``at`` on, read by one consumer."""
        prefetch = min(PREFETCH, end - at)
        session.consume(queue, at, prefetch)
        rows = ChunkRows(at)
        unacknowledged = 0
        silent_since = time.monotonic()
        while at < end:
            delivery = session.next_delivery(min(SILENCE_S, self._timeout_s))
            if delivery is None:
                if rows:
                    yield rows.take(at)
                self._check_silence(queue, at, end)
                if time.monotonic() - silent_since >= self._timeout_s:
                    raise TimeoutError(f"stream {queue!r} sends nothing from offset {at} on")
                continue
            silent_since = time.monotonic()
            unacknowledged += 1
            if 2 * unacknowledged >= prefetch:
                session.acknowledge(delivery.tag)
                unacknowledged = 0
            offset = _offset_of(queue, delivery)
            if offset < at:
                continue  # the chunk of a broker that delivers whole chunks began before
            if offset > at:
                if rows:
                    yield rows.take(at)  # what comes before a gap is read, also if it is an error
                self._check_gap(queue, at, min(offset, end), may_be=session.has_gaps)
                at = offset
                rows = ChunkRows(at)
                if at >= end:
                    break
            rows.add(delivery)
            at += 1
            if rows.is_full:
                yield rows.take(at)
        if rows:
            yield rows.take(at)

    def _check_silence(self, queue: str, at: int, end: int) -> None:
        """Raises if the stream does not have what is to be read of it."""
        state = self._look(queue)
        if not state.is_end_known:
            raise OffsetGone(gone_text(queue, at, end), first=end)
        if state.next < end:
            raise TailRegressed(lost_text(queue, end, state.next))
        if state.first > at:
            raise OffsetGone(gone_text(queue, at, state.first), first=state.first)

    def _check_gap(self, queue: str, at: int, until: int, *, may_be: bool) -> None:
        """Raises unless the broker uses the offsets ``at`` to ``until`` - 1 for something else."""
        first = self._ask(queue, lambda session: self._first_from(session, queue, "first"))
        if first is None or first > at:
            first = until if first is None else first
            raise OffsetGone(gone_text(queue, at, first), first=first)
        if not may_be:
            raise MessagesMissing(
                f"stream {queue!r}: messages {at} to {until - 1} are missing in what the broker "
                "delivered",
                first=until,
            )

    # ----------------------------------------------------------------------------- questions

    def _look(self, queue: str) -> StreamState:
        """The stream as its consumers see it."""
        return self._ask(queue, lambda session: self._state(session, queue))

    def _state(self, session: AmqpSession, queue: str) -> StreamState:
        first = self._first_from(session, queue, "first")
        newest = [] if first is None else self._last_chunk(session, queue)
        if first is None or not newest:
            return StreamState(queue, "", 0, 0, 0, is_end_known=False)
        next_ = max(_offset_of(queue, each) for each in newest) + 1
        mean = sum(each.size for each in newest) // len(newest)
        return StreamState(queue, "", first, next_, mean * (next_ - first))

    def _first_from(self, session: AmqpSession, queue: str, start: Start) -> int | None:
        """The offset of the first message from there on; None if there is none."""
        session.consume(queue, start, 1, keeps_bodies=False, until_end=True)
        delivery = self._first_delivery(session, may_be_beyond=start != "first")
        session.end_channel()
        return None if delivery is None else _offset_of(queue, delivery)

    def _last_chunk(self, session: AmqpSession, queue: str) -> list[Delivery]:
        """Messages up to the newest one; none if there is none any more.

        RabbitMQ begins with the last chunk, and sends all there is, as far as there is credit,
        before it replies to the next method. So there is nothing more once credit is left.
        """
        session.consume(queue, "last", PREFETCH, keeps_bodies=False, until_end=True)
        delivery = self._first_delivery(session, may_be_beyond=False)
        found = [] if delivery is None else [delivery]
        acknowledged = 0
        while found and not session.is_hareline and len(found) < _LAST_CHUNK_MAX:
            found += session.deliveries_before_reply()
            if len(found) - acknowledged < PREFETCH:
                break
            session.acknowledge(found[-1].tag)
            acknowledged = len(found)
        session.end_channel()
        return found

    def _first_delivery(self, session: AmqpSession, *, may_be_beyond: bool) -> Delivery | None:
        """The first delivery of a consumer; None if it has none. Raises TimeoutError.

        ``may_be_beyond``: there may be none although the stream has messages.
        """
        try:
            if not session.is_hareline:
                delivery = session.next_delivery(min(EMPTY_S, self._timeout_s))
                if delivery is not None or may_be_beyond or session.count() == 0:
                    return delivery
            delivery = session.next_delivery(self._timeout_s)
        except ConsumerCancelled:
            if session.is_hareline:
                return None
            raise
        if delivery is None:
            raise TimeoutError(f"the broker delivered nothing for {self._timeout_s:g} s")
        return delivery

    def _arrives(self, queue: str, start: Start, wait_s: float) -> bool:
        """True as soon as there is a message from there on; False if none comes for so long."""

        def wait(session: AmqpSession) -> bool:
            session.consume(queue, start, 1, keeps_bodies=False)
            has_come = session.next_delivery(wait_s) is not None
            session.end_channel()
            return has_come

        return self._ask(queue, wait)

    def _ask(self, queue: str, question: Callable[[AmqpSession], Answer]) -> Answer:
        """The answer to a question on the kept connection, asked again if that breaks."""
        patience = self.patience()
        while True:
            try:
                if self._kept is None:
                    self._kept = AmqpSession(self._connection, self._timeout_s)
                return question(self._kept)
            except OSError as problem:
                self.close()
                patience.interrupted(problem)
            except Refusal as refusal:
                self.close()
                raise self._refusal(refusal, queue) from None
            except ConsumerCancelled:
                self.close()
                raise self._gone(queue) from None
            except BaseException:
                self.close()
                raise

    # -------------------------------------------------------------------------------- errors

    def _refusal(self, refusal: Refusal, queue: str) -> SparkSideError:
        """Error for a refusal of the broker, with what to do about it."""
        user, vhost = self._connection.user, self._connection.vhost
        if refusal.is_at_login and refusal.code == _FORBIDDEN:
            return LoginRefused(
                f"{self._where} refuses user {user!r}: {refusal}; check the options user and "
                "password (guest may log in only from the broker's machine)"
            )
        if refusal.is_at_login:
            return BrokerRefused(
                f"{self._where} refuses the connection: {refusal}; check the virtual host in the "
                "option url, and the user's rights in it"
            )
        if refusal.code == _NOT_FOUND:
            return QueueGone(
                f"there is no stream {queue!r} in virtual host {vhost!r} at {self._where}: "
                f"{refusal.text}"
            )
        if refusal.code == _FORBIDDEN:
            return LoginRefused(no_right_text(user, queue, vhost, refusal.text))
        if refusal.code == _PRECONDITION_FAILED and "x-stream-offset" in refusal.text:
            return NotAStream(not_a_stream_text(queue, refusal.text))
        return BrokerRefused(f"{self._where} answers about stream {queue!r}: {refusal}")

    def _gone(self, queue: str) -> QueueGone:
        return QueueGone(
            f"stream {queue!r} in virtual host {self._connection.vhost!r} at {self._where} was "
            "deleted while it was read"
        )


def _offset_of(queue: str, delivery: Delivery) -> int:
    """The offset of a delivery. Raises NotAStream if it has none."""
    if delivery.offset is None:
        raise NotAStream(not_a_stream_text(queue, "its deliveries have no x-stream-offset"))
    return delivery.offset


class ChunkRows:
    """Gathers the messages of the next chunk; offsets go up by one from where it begins."""

    def __init__(self, first_offset: int) -> None:
        self._first_offset = first_offset
        self._metas: list[bytes] = []
        self._bodies: list[bytes] = []
        self._octets = 0

    def __len__(self) -> int:
        return len(self._metas)

    @property
    def is_full(self) -> bool:
        """True once it is to be given out."""
        return len(self._metas) >= ROWS_MAX or self._octets >= OCTETS_MAX

    def add(self, delivery: Delivery) -> None:
        """Append the message of the next offset."""
        self._metas.append(delivery.meta)
        self._bodies.append(delivery.body)
        self._octets += delivery.size + len(delivery.meta)

    def take(self, next_offset: int) -> Chunk:
        """Return what was gathered; the next chunk begins at ``next_offset``."""
        metas, bodies = self._metas, self._bodies
        count = len(metas)
        columns = bytearray(8 * count)  # no arrivals
        columns += array("I", map(len, metas)).tobytes()
        columns += array("I", map(len, bodies)).tobytes()
        metas_size = sum(map(len, metas))
        columns += b"".join(metas)
        columns += b"".join(bodies)
        header = ChunkHeader(
            self._first_offset, count, metas_size, len(columns) - 16 * count - metas_size, 0
        )
        self._first_offset = next_offset
        self._metas, self._bodies, self._octets = [], [], 0
        return Chunk(header, columns)
