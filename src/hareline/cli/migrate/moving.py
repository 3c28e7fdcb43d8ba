"""Moves the messages of queues and copies those of streams, over AMQP, one queue after the other.

A batch is published in a transaction here, and acknowledged to the old broker once the commit was
answered, which is after the sync. A run that is broken off is continued by the next one: what was
moved from a queue is no longer there, and how far a stream was copied is in a queue of its own,
written in the transactions that copy it. A queue whose messages do not come, or which has no room
for them here, ends with a sentence, and the next one is begun.

Invariant: a message leaves the old broker after it is durable here, with its properties, headers,
body and routing key octet by octet, in its order. Only the batch of a queue that was under way may
come twice; no message of a stream does.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from hareline.cli.amqp_client import connected, failure_of
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api
from hareline.cli.migrate.exact_properties import exact_properties, taken_offset
from hareline.cli.migrate.inventory import Room, SourceQueue, shortage
from hareline.cli.output import complain
from hareline.cli.target import Target
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 4 << 20
IDLE_S: Final = 1.0  # without a message, after which the queue is asked whether it is empty
PATIENCE_S: Final = 30  # without a message of a queue or stream that has not come to its end
#: Unacknowledged messages that the old broker may have in memory for this client.
PREFETCH_MESSAGES: Final = 2 * BATCH_MESSAGES
PREFETCH_BYTES: Final = 16 << 20
#: A fan-out exchange while a queue is moved, so that the routing keys are kept; and the queues
#: that say how far streams were copied.
PREFIX: Final = "hareline.migrate"


@dataclass(slots=True)
class Batch:
    """Messages that were published and not committed. ``last_tag``: to acknowledge them by.

    ``most``: messages of a full one.
    """

    most: int = BATCH_MESSAGES
    count: int = 0
    size_bytes: int = 0
    last_tag: int = 0
    returned: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.count >= self.most or self.size_bytes >= BATCH_BYTES

    def add(self, tag: int, size_bytes: int) -> None:
        """Count a message that was published."""
        self.count += 1
        self.size_bytes += size_bytes
        self.last_tag = tag

    def clear(self) -> None:
        """Begin again."""
        self.count = self.size_bytes = 0


class Mover:
    """Moves queues of one virtual host, over a connection to each of the two brokers.

    ``api``: that of the broker here.
    """

    def __init__(self, source: Target, target: Target, api: Api, vhost: str) -> None:
        """Raises CommandFailed if one of them cannot be connected to."""
        self._api = api
        self._ends = {"source": source, "target": target}
        self._vhost = vhost
        self._source = self._connected(source)
        try:
            self._target = self._connected(target)
        except CommandFailed:
            self._source.close()
            raise

    def _connected(self, end: Target) -> BlockingConnection:
        # No heartbeat: while one side is waited for, the other is not read.
        return connected(end, self._vhost, "hareline migrate", heartbeat=0)

    def close(self) -> None:
        """Close both connections; what was not acknowledged stays in the old broker."""
        for connection in (self._source, self._target):
            with suppress(Exception):
                connection.close()

    def move(self, queue: SourceQueue, on_moved: Callable[[int], None]) -> int:
        """Move or copy what is in a queue; returns how many. ``on_moved`` hears of each batch.

        Raises CommandFailed. What was not committed is still in the old broker.
        """
        import pika.exceptions

        try:
            reading, writing = self._source.channel(), self._target.channel()
            try:
                work = _Work(queue, reading, writing, on_moved, self._wait_for_resources)
                if queue.is_stream:
                    return work.copy_stream()
                return work.move_queue(lambda: Room(self._api, self._vhost, queue.name))
            finally:
                for channel in (reading, writing):
                    with suppress(Exception):
                        channel.close()
        except pika.exceptions.AMQPError as error:
            end = self._ends["target" if self._target.is_closed else "source"]
            raise failure_of(error, end, self._vhost) from None

    def _wait_for_resources(self) -> None:
        """Wait while the broker here is short of memory or disk, and say so once.

        A connection that is closed meanwhile would not take back what it has published.
        """
        problem = shortage(self._api)
        if not problem:
            return
        complain(f"waiting: {self._ends['target'].http}: {problem}", style="yellow")
        while shortage(self._api):
            self._source.sleep(IDLE_S)


class _Work:
    """One queue, a channel to read it there, and one to write it here."""

    def __init__(
        self,
        queue: SourceQueue,
        reading: BlockingChannel,
        writing: BlockingChannel,
        on_moved: Callable[[int], None],
        wait_for_resources: Callable[[], None],
    ) -> None:
        self._wait_for_resources = wait_for_resources
        self._queue = queue.name
        self._prefetch = prefetch_of(queue)
        self._reading = reading
        self._writing = writing
        self._on_moved = on_moved
        self._exchange = f"{PREFIX}.{uuid.uuid4().hex}"  # one that a killed run left is bound
        self._batch = Batch(most=min(BATCH_MESSAGES, max(1, self._prefetch // 2)))
        self._moved = 0
        self._note_tag = 0  # of the note that counts, which this channel holds unacknowledged

    def move_queue(self, room_here: Callable[[], Room]) -> int:
        """Move until the queue is empty there."""
        if not self._depth():
            return 0
        self._bind()
        idle = 0
        try:
            room = room_here()
            for method, properties, body in self._reading.consume(
                self._queue, inactivity_timeout=IDLE_S
            ):
                if method is not None:
                    idle = 0
                    self._publish(method, properties, body)
                if self._batch.is_full or (method is None and self._batch.count):
                    self._check_room(room)
                    self._commit()
                elif method is None:
                    self._writing.connection.process_data_events(0)
                    depth = self._depth()
                    if not depth:
                        return self._moved
                    idle += 1
                    if idle * IDLE_S >= PATIENCE_S:
                        raise CommandFailed(_not_delivered(depth))
            raise CommandFailed("the old broker has ended the consumer: was the queue deleted?")
        finally:
            self._unbind()

    def copy_stream(self) -> int:
        """Copy from where the last run came to, up to what is the end now."""
        end = self._end_of_stream()
        notes = self._declared_notes()
        next_offset = self._take_note(notes)
        if next_offset is None:
            self._refuse_mixture(notes)
            next_offset = 0
        if next_offset >= end:
            return 0
        self._bind()
        arguments = {"x-stream-offset": next_offset}
        try:
            for method, properties, body in self._reading.consume(
                self._queue, inactivity_timeout=PATIENCE_S, arguments=arguments
            ):
                if method is None:
                    raise CommandFailed(
                        f"no message for {PATIENCE_S} s, though offsets {next_offset} to "
                        f"{end - 1} are to come; run the command again"
                    )
                offset, properties.octets = _offset_of(properties)
                if offset < next_offset:  # a broker may begin with the chunk that has it
                    self._reading.basic_ack(method.delivery_tag)
                    continue
                self._publish(method, properties, body)
                next_offset = offset + 1
                if self._batch.is_full or next_offset >= end:
                    self._note(notes, next_offset)
                    self._commit()
                    self._take_note(notes)
                if next_offset >= end:
                    return self._moved
            raise CommandFailed("the old broker has ended the consumer: was the stream deleted?")
        finally:
            self._unbind()

    # ------------------------------------------------------------------ one batch

    def _bind(self) -> None:
        """Make a way into the queue by which messages keep their routing keys."""
        writing = self._writing
        writing.queue_declare(self._queue, passive=True)
        writing.exchange_declare(self._exchange, "fanout", auto_delete=True)
        writing.queue_bind(self._queue, self._exchange)
        writing.tx_select()
        writing.add_on_return_callback(
            lambda _channel, method, _properties, _body: self._batch.returned.append(
                method.reply_text
            )
        )
        self._reading.basic_qos(prefetch_count=self._prefetch)

    def _unbind(self) -> None:
        with suppress(Exception):
            self._writing.queue_unbind(self._queue, self._exchange)  # deletes the exchange too

    def _publish(self, method: Any, properties: Any, body: bytes) -> None:
        self._writing.basic_publish(
            self._exchange, method.routing_key, body, properties, mandatory=True
        )
        self._batch.add(method.delivery_tag, len(body))

    def _check_room(self, room: Room) -> None:
        """Raise CommandFailed if the batch would run into a limit here; none of it is kept then."""
        problem = room.problem_with(self._batch.count, self._batch.size_bytes)
        if problem:
            self._writing.tx_rollback()
            raise CommandFailed(problem)

    def _commit(self) -> None:
        self._wait_for_resources()
        self._writing.tx_commit()
        batch = self._batch
        if batch.returned:
            raise CommandFailed(
                f"{len(batch.returned)} messages of a batch were not taken by the queue here: "
                f"{batch.returned[0]}; the whole batch is still in the old broker"
            )
        self._reading.basic_ack(batch.last_tag, multiple=True)
        self._moved += batch.count
        batch.clear()
        self._on_moved(self._moved)

    def _depth(self) -> int:
        """Messages that are ready there."""
        return int(self._reading.queue_declare(self._queue, passive=True).method.message_count)

    # ------------------------------------------------------------------- of streams

    def _end_of_stream(self) -> int:
        """The offset behind the last message that is there now; 0 if there is none."""
        if not self._depth():
            return 0
        channel = self._reading.connection.channel()
        channel.basic_qos(prefetch_count=BATCH_MESSAGES)
        end = idle = 0
        try:
            for method, properties, _ in channel.consume(
                self._queue, inactivity_timeout=IDLE_S, arguments={"x-stream-offset": "last"}
            ):
                if method is not None:
                    end = max(end, _offset_of(properties)[0] + 1)
                    channel.basic_ack(method.delivery_tag)
                    continue
                idle += 1
                if end or idle * IDLE_S >= PATIENCE_S:
                    break
        finally:
            with suppress(Exception):
                channel.close()
        if not end:
            raise CommandFailed(f"the stream has messages, but none came for {PATIENCE_S} s")
        return end

    def _declared_notes(self) -> str:
        """The queue that says how far this stream was copied, which is there now."""
        name = notes_queue(self._queue)
        self._writing.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
        return name

    def _refuse_mixture(self, notes: str) -> None:
        """Raise CommandFailed if the stream here has messages, which the copies would follow."""
        if self._writing.queue_declare(self._queue, passive=True).method.message_count:
            raise CommandFailed(
                "the stream here has messages of its own, and no note in queue "
                f"'{notes}' says how far it was copied; delete it here, and run the command again"
            )

    def _take_note(self, notes: str) -> int | None:
        """The offset to go on with; None if no run has noted one. The note is not acknowledged."""
        method, _, body = self._writing.basic_get(notes)
        if method is None:
            return None
        self._note_tag = method.delivery_tag
        try:
            return int(json.loads(body)["next_offset"])
        except (ValueError, LookupError, TypeError):
            raise CommandFailed(
                f"queue '{notes}' does not say how far the stream was copied; delete it and the "
                "stream here, and run the command again"
            ) from None

    def _note(self, notes: str, next_offset: int) -> None:
        """Replace the note of how far the stream is copied, in the transaction that copies it."""
        import pika

        body = json.dumps({"stream": self._queue, "next_offset": next_offset})
        properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
        self._writing.basic_publish("", notes, body.encode(), properties)
        if self._note_tag:
            self._writing.basic_ack(self._note_tag)


def prefetch_of(queue: SourceQueue) -> int:
    """Messages that may be under way, which have ``PREFETCH_BYTES`` if they are of average size."""
    if not (queue.messages and queue.size_bytes):
        return PREFETCH_MESSAGES
    return max(1, min(PREFETCH_MESSAGES, PREFETCH_BYTES * queue.messages // queue.size_bytes))


def _not_delivered(depth: int) -> str:
    return (
        f"no message for {PATIENCE_S} s, though {depth:,} are ready there: another consumer gets "
        "them (a single active one, or one of higher priority), or the queue is paused; stop it "
        "or resume the queue, and run the command again"
    )


def _offset_of(properties: Any) -> tuple[int, bytes]:
    try:
        return taken_offset(properties.octets)
    except ValueError as error:
        raise CommandFailed(f"{error}; is it a stream?") from None


def notes_queue(stream: str) -> str:
    """The name of the queue that says how far a stream was copied."""
    name = f"{PREFIX}.{stream}"
    if len(name.encode("utf-8", "surrogateescape")) <= SHORTSTR_MAX_OCTETS:
        return name
    digest = hashlib.sha256(stream.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{PREFIX}.{digest}"


@dataclass(slots=True)
class Result:
    """Outcome for one queue. ``problem``: empty if all of it was moved."""

    queue: SourceQueue
    moved: int
    problem: str = ""


def move_all(
    queues: list[SourceQueue],
    source: Target,
    target: Target,
    target_api: Api,
    on_moved: Callable[[int], None],
) -> list[Result]:
    """Move the messages of these queues. ``on_moved`` hears how many were moved in all."""
    results: list[Result] = []
    with exact_properties(), _Movers(source, target, target_api) as movers:
        for queue in queues:
            result = Result(queue, 0)
            results.append(result)
            before = sum(each.moved for each in results)

            def count(now: int, result: Result = result, before: int = before) -> None:
                result.moved = now
                on_moved(before + now)

            try:
                movers.of(queue.vhost).move(queue, count)
            except CommandFailed as error:
                result.problem = str(error)
                movers.close()  # a channel or the connection may be gone
                if error.status is ExitStatus.UNREACHABLE:
                    results += [Result(each, 0, "not begun") for each in queues[len(results) :]]
                    break
    return results


class _Movers:
    """The connections to one virtual host at a time."""

    def __init__(self, source: Target, target: Target, target_api: Api) -> None:
        self._ends = source, target, target_api
        self._vhost = ""
        self._mover: Mover | None = None

    def of(self, vhost: str) -> Mover:
        """Mover of the queues of a virtual host. Raises CommandFailed."""
        if self._mover is None or vhost != self._vhost:
            self.close()
            self._mover, self._vhost = Mover(*self._ends, vhost), vhost
        return self._mover

    def close(self) -> None:
        if self._mover is not None:
            self._mover.close()
            self._mover = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
