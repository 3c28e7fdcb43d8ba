"""The whole way of messages that are not alike, in process: what ``bench_differing`` and
``bench_any_shape`` measure.

The messages are those of ``benchmarks.macro.shapes``, a tape of 24,000; each repetition sends the
whole tape, with ids that were not there before. One connection publishes, another consumes, pieces
are 64 KiB, as in ``bench_path``. Persistent messages go to a real journal in a temporary directory,
whose disk is the kernel's cache: batches are written between the turns, by hand, and never synced.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from pamqp import commands as pamqp_commands

from benchmarks.macro.frames import Address
from benchmarks.macro.shapes import MESSAGES, Shape, make_tape
from benchmarks.micro.bench_path import PIECE_BYTES
from benchmarks.micro.stand import FRAME_MAX, NullTransport, Stand
from benchmarks.micro.timing import finish, is_wanted, measure, messages
from hareline.amqp.connection import Connection
from hareline.storage.journal.files import Files
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.state import RecoveredState
from hareline.wire.encoder import ack_frame
from hareline.wire.methods import commands

QUEUE = "q"
BODY_SIZE = 100
PERSISTENT = pamqp_commands.Basic.Properties(delivery_mode=2)


class ShapedPath:
    """A publisher, a queue and, unless messages are persistent, a consumer that takes all."""

    def __init__(
        self,
        shape: Shape,
        *,
        ack_every: int = 0,
        has_confirms: bool = False,
        persistent_in: Path | None = None,
    ) -> None:
        self._syncer = InlineSyncer()
        self._store = None if persistent_in is None else _open_store(persistent_in, self._syncer)
        self._stand = Stand(store=self._store)
        self._publisher = self._stand.connect(1)
        self._consumer = self._stand.connect(1)
        is_durable = self._store is not None
        self._stand.call(self._consumer, commands.Queue.Declare, queue=QUEUE, durable=is_durable)
        self._ack_every = ack_every
        self._acked = 0
        if not is_durable:
            if ack_every:
                self._stand.call(self._consumer, commands.Basic.Qos, prefetch_count=1000)
            self._stand.call(
                self._consumer, commands.Basic.Consume, queue=QUEUE, no_ack=not ack_every
            )
        if has_confirms:
            self._stand.call(self._publisher, commands.Confirm.Select)
        address = Address(QUEUE, properties=PERSISTENT if is_durable else None)
        count = messages(MESSAGES)
        self._tape = make_tape(shape, [address], BODY_SIZE, FRAME_MAX, count=count)
        self.count = self._tape.count
        self._lap = 0
        self._pieces: list[bytes] = []

    def prepare(self) -> None:
        """The octets of the next lap; an empty queue, and a journal with nothing left to do."""
        self._stand.vhost.queues[QUEUE].purge()
        self._run_turns()
        octets = self._tape.piece(self._lap * self.count, self.count)
        self._lap += 1
        self._pieces = [
            octets[start : start + PIECE_BYTES] for start in range(0, len(octets), PIECE_BYTES)
        ]

    def run(self) -> None:
        queue = self._stand.vhost.queues[QUEUE]
        offset, confirms = queue.next_offset, _written(self._publisher)
        delivered = _written(self._consumer)
        for piece in self._pieces:
            self._publisher.receive(piece)
            self._run_turns()
            if self._ack_every:
                self._ack()
        assert queue.next_offset - offset == self.count
        if self._store is None:
            assert queue.ready_count == 0
            assert _written(self._consumer) - delivered > self.count * BODY_SIZE // 2
        else:
            assert queue.ready_count == self.count
            assert _written(self._publisher) > confirms

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _run_turns(self) -> None:
        self._stand.run_turns()
        if self._store is not None:
            self._syncer.drain()
            self._stand.run_turns()

    def _ack(self) -> None:
        every = self._ack_every
        delivered = self._consumer.channels.by_number[1].port.next_tag - 1
        while self._acked + every <= delivered:
            tags = range(self._acked + every, delivered + 1, every)
            self._acked += every * len(tags)
            self._consumer.receive(b"".join([ack_frame(1, tag, True) for tag in tags]))
            self._stand.run_turns()
            delivered = self._consumer.channels.by_number[1].port.next_tag - 1


def main(shape: Shape) -> None:
    """Measure the four ways of messages of that shape, or those that ``--only`` names."""
    for name, options in (
        ("auto-ack", {}),
        ("ack every 100", {"ack_every": 100}),
        ("confirms, auto-ack", {"has_confirms": True}),
    ):
        path(f"{shape.value}, 100 B, {name}", shape, **options)
    with tempfile.TemporaryDirectory() as directory:
        persistent_in = Path(directory)
        name = f"{shape.value}, 100 B, persistent with confirms"
        path(name, shape, has_confirms=True, persistent_in=persistent_in)
    finish()


def path(
    name: str,
    shape: Shape,
    *,
    ack_every: int = 0,
    has_confirms: bool = False,
    persistent_in: Path | None = None,
) -> None:
    if not is_wanted(name):
        return  # what it needs takes a second
    subject = ShapedPath(
        shape, ack_every=ack_every, has_confirms=has_confirms, persistent_in=persistent_in
    )
    with contextlib.closing(subject):
        measure(name, subject.run, subject.count, "message", prepare=subject.prepare)


def _open_store(directory: Path, syncer: InlineSyncer) -> DurableStore:
    store = DurableStore(
        str(directory / "journal"),
        str(directory / "spool"),
        files=Files(),
        syncer=syncer,
        sync="never",
    )
    store.start(RecoveredState())
    syncer.drain()
    return store


def _written(connection: Connection) -> int:
    transport = connection.transport
    assert isinstance(transport, NullTransport)
    return transport.written_bytes
