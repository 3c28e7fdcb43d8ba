"""Cost of a persistent message, from octets to the batch of its record and the reply.

    python -m benchmarks.micro.bench_durable [--json FILE] [--repetitions N]

Connections as in ``bench_path``, over a durable store. The disk is left out as far as it can be:
batches are written at once, in the same thread, and nothing is synced. The last case has the thread
and an event loop, but no disk: what it costs to hand over a piece of work and hear that it is done.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.micro.stand import NullTransport, Stand, publish_octets
from benchmarks.micro.timing import finish, measure
from hareline.amqp.connection import Connection
from hareline.storage.journal.files import Files
from hareline.storage.journal.syncer import InlineSyncer, Pause, ThreadSyncer
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.state import RecoveredState
from hareline.wire.encoder import ack_frame
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties, encode_properties

PIECE_BYTES = 65_536
MESSAGES = 20_000
TRANSACTIONS = 1_000
HAND_OVERS = 2_000
BODY = bytes(1024)
PERSISTENT = encode_properties(Properties(delivery_mode=2))
COMMIT = encode_method(1, commands.Tx.Commit)


class Subject:
    """One connection and a durable queue, in a journal that is made anew for each repetition."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._store: DurableStore | None = None

    def renew(self) -> None:
        """A queue without messages."""
        if self._store is not None:
            self._store.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        syncer = InlineSyncer(is_automatic=True)
        self._store = DurableStore(
            str(self._directory / "journal"),
            str(self._directory / "spool"),
            files=Files(),
            syncer=syncer,
            sync="never",
        )
        self._stand = Stand(store=self._store)
        self._store.start(RecoveredState())
        syncer.drain()
        self._client = self._stand.connect(1)
        self._stand.call(self._client, commands.Queue.Declare, queue="q", durable=True)

    def confirming(self) -> None:
        self.renew()
        self._stand.call(self._client, commands.Confirm.Select)

    def transacted(self) -> None:
        self.renew()
        self._stand.call(self._client, commands.Tx.Select)

    def delivered(self) -> None:
        """All messages are with a consumer on a channel in tx mode, in the journal."""
        self.renew()
        publisher = self._stand.connect(1)
        one = publish_octets(BODY, properties=PERSISTENT)
        for _ in range(TRANSACTIONS // 10):
            publisher.receive(one * 100)
            self._stand.run_turns()
        self._stand.call(self._client, commands.Tx.Select)
        self._stand.call(self._client, commands.Basic.Consume, queue="q", consumer_tag="bench")
        assert self._stand.vhost.queues["q"].unacked_count == TRANSACTIONS * 10

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    # ------------------------------------------------------------- what is measured

    def publish(self, pieces: list[bytes]) -> None:
        """Each piece is a read of the socket; its turns and its confirm follow."""
        client, stand = self._client, self._stand
        for piece in pieces:
            written = _written(client)
            client.receive(piece)
            stand.run_turns()
            assert _written(client) > written, "no answer"

    def acknowledge(self, count: int) -> None:
        """Transactions of so many single acks."""
        client, stand = self._client, self._stand
        tag = 0
        for _ in range(TRANSACTIONS):
            acks = [ack_frame(1, tag + number + 1, False) for number in range(count)]
            tag += count
            written = _written(client)
            client.receive(b"".join(acks) + COMMIT)
            stand.run_turns()
            assert _written(client) > written, "no answer"


def _written(connection: Connection) -> int:
    transport = connection.transport
    assert isinstance(transport, NullTransport)
    return transport.written_bytes


def pieces_of(octets: bytes) -> list[bytes]:
    """These octets as they come from a socket."""
    return [octets[start : start + PIECE_BYTES] for start in range(0, len(octets), PIECE_BYTES)]


def hand_over() -> None:
    """One piece of work after the other that does nothing, by the thread and back."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_hand_over())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _hand_over() -> None:
    loop = asyncio.get_running_loop()
    syncer = ThreadSyncer(loop.call_soon_threadsafe)
    is_over: asyncio.Future[None] = loop.create_future()
    left = HAND_OVERS

    def go_on() -> None:
        nonlocal left
        left -= 1
        if left:
            syncer.submit(Pause(go_on))
        else:
            is_over.set_result(None)

    syncer.submit(Pause(go_on))
    await is_over
    syncer.close()


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        subject = Subject(Path(directory) / "data")
        small = publish_octets(bytes(100), properties=PERSISTENT)
        one = publish_octets(BODY, properties=PERSISTENT)
        for name, octets, prepare, count, unit in (
            ("confirms, 100 B", pieces_of(small * MESSAGES), subject.confirming, MESSAGES, "msg"),
            ("confirms, 1 KiB", pieces_of(one * MESSAGES), subject.confirming, MESSAGES, "msg"),
            (
                "one confirm at a time, 1 KiB",
                [one] * TRANSACTIONS,
                subject.confirming,
                TRANSACTIONS,
                "msg",
            ),
            (
                "transactions of 1 publish, 1 KiB",
                [one + COMMIT] * TRANSACTIONS,
                subject.transacted,
                TRANSACTIONS,
                "commit",
            ),
            (
                "transactions of 10 publishes, 1 KiB",
                [one * 10 + COMMIT] * TRANSACTIONS,
                subject.transacted,
                TRANSACTIONS,
                "commit",
            ),
        ):
            pieces = octets
            measure(
                name,
                lambda pieces=pieces: subject.publish(pieces),  # type: ignore[misc]
                count,
                unit,
                prepare=prepare,
            )
        for count in (1, 10):
            measure(
                f"transactions of {count} ack{'s' if count > 1 else ''}",
                lambda count=count: subject.acknowledge(count),  # type: ignore[misc]
                TRANSACTIONS,
                "commit",
                prepare=subject.delivered,
            )
        subject.close()
    measure("hand over to the thread and back", hand_over, HAND_OVERS, "piece")
    finish()


if __name__ == "__main__":
    main()
