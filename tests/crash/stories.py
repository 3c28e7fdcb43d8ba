"""A story: one data directory, and a broker on it that is killed again and again.

Everything that happens is drawn from the story's seed. Each life has its own settings, clients and
end; after each start all queues are read, by a browser or by a consumer that gives everything back,
and held against the book.
"""

from __future__ import annotations

import itertools
import selectors
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from pamqp import commands

from tests.crash.book import Book, Copy, QueueKind, Receiver, Sent
from tests.crash.clients import (
    Client,
    Committer,
    Consumer,
    Getter,
    Mover,
    Publications,
    Publisher,
    Target,
)
from tests.crash.peer import Peer
from tests.support.broker_process import BrokerFailed, BrokerProcess
from tests.support.waiting import wait_for

CHAIN: Final = ("chain-0", "chain-1", "chain-2")
FAN: Final = ("fan-0", "fan-1", "fan-2")
HOUR_MS: Final = 3_600_000
PRIORITIES: Final = 5
FAN_EXCHANGE: Final = "fan"
QUEUES: Final = (
    QueueKind("line-0"),
    QueueKind("line-1"),
    QueueKind("cold"),
    QueueKind("timed", {"x-message-ttl": HOUR_MS}),
    QueueKind("rank", {"x-max-priority": PRIORITIES}),
    QueueKind("sorted", {"x-sort-key": "key"}),
    QueueKind("last", {"x-last-value-key": "key"}, replaces=True),
    *(QueueKind(name) for name in FAN),
    *(
        QueueKind(
            name,
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following},
            chain=CHAIN,
            keeps_order=name == CHAIN[0],
        )
        for name, following in itertools.pairwise(CHAIN)
    ),
    QueueKind(CHAIN[-1], chain=CHAIN, keeps_order=False),
)
CONSUMED: Final = ("line-0", "line-1", "timed", "rank", "sorted", "last", *FAN, *CHAIN)

LIFE_MAX_S: Final = 1.2
DEPTH_MAX: Final = 4_000  # beyond it a life does not publish
LARGE_SIZE: Final = 1_300_000
SMALL_WINDOWS: Final = (sys.executable, str(Path(__file__).with_name("small_windows.py")))
_TICK_S: Final = 0.002
_AUDIT_DEADLINE_S: Final = 60.0

T = TypeVar("T")


class Story:
    """``told`` says what has happened so far, for whoever reads of a failure."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.book = Book(list(QUEUES))
        self.broker = BrokerProcess(directory)
        self.told: list[str] = []
        self.depth = 0
        self._publishers = 0
        self._startup_s = 1.0
        self._clients: list[Client] = []

    # --------------------------------------------------------------------- lives

    def live(self, *, is_first: bool) -> None:
        """Start, look, work, and be killed (or now and then stopped in good order)."""
        rng = self.rng
        if not is_first:
            self._kill_starts()
        self._start()
        if is_first:
            self._declare()
        else:
            self.audit()
        duration_s = rng.uniform(0.05, LIFE_MAX_S)
        self._work(duration_s)
        is_orderly = rng.random() < 0.15
        self._tell(f"{'stopped' if is_orderly else 'killed'} after {duration_s:.2f} s")
        if is_orderly:
            self._stop()
        else:
            self.broker.kill()
            self._read_the_rest()
        self.book.crash()

    def finish(self) -> None:
        """One more start and look, and an orderly end."""
        self._start()
        self.audit()
        self.broker.stop()

    def _start(self) -> None:
        self.broker.config_path.write_text(self._draw_settings(), encoding="utf-8")
        started = time.monotonic()
        self.broker.start()
        self._startup_s = time.monotonic() - started
        self._tell(f"started in {self._startup_s:.2f} s")

    def _draw_settings(self) -> str:
        rng = self.rng
        lines = ["[journal]", 'sync = "always"', 'segment_bytes = "1MiB"']
        if rng.random() < 0.3:
            lines.append('retention_bytes = "4MiB"')
        lines += ["[limits]", f"large_message_bytes = {rng.choice((65_536, 1_048_576))}"]
        lines += ["[disk]", 'free_watermark = "1MiB"']
        self.broker.launcher = SMALL_WINDOWS if rng.random() < 0.5 else ()
        self._tell(" ".join((*lines, *self.broker.launcher[1:])))
        return "\n".join(lines) + "\n"

    def _kill_starts(self) -> None:
        """Kill it while it starts, most likely while it recovers; more than once, or never."""
        while self.rng.random() < 0.4:
            delay_s = self.rng.uniform(0.3, 1.05) * self._startup_s
            with ThreadPoolExecutor(max_workers=1) as pool:
                start = pool.submit(self.broker.start)
                process = wait_for(lambda: self.broker.process, 60.0, "the process to be there")
                try:
                    process.wait(delay_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                _await_killed(start, process)
            self.broker.kill()
            self._tell(f"killed {delay_s:.2f} s after its start")

    def _stop(self) -> None:
        """In good order: SIGTERM, and the clients say goodbye."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            stop = pool.submit(self.broker.stop)
            while not stop.done():
                self._pump(is_working=False)
            stop.result()
        self._read_the_rest()

    # -------------------------------------------------------------------- clients

    def _work(self, duration_s: float) -> None:
        self._clients = self._draw_clients()
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            self._pump(is_working=True)
            if self.rng.random() < 0.003:
                self._replace_consumer()

    def _pump(self, *, is_working: bool) -> None:
        with selectors.DefaultSelector() as selector:
            for client in self._clients:
                if not client.peer.is_over:
                    selector.register(client.peer.socket, selectors.EVENT_READ)
            selector.select(_TICK_S)
        for client in self._clients:
            for event in client.peer.poll():
                client.take(event)
            if is_working:
                assert not client.peer.is_over, f"the broker hung up\n{self.broker.log_tail()}"
                client.step()
            if client.peer.is_over:
                client.peer.drop()
            else:
                client.peer.flush()

    def _read_the_rest(self) -> None:
        """What the broker has said before its end counts."""
        for client in self._clients:
            while not client.peer.is_over:
                for event in client.peer.poll():
                    client.take(event)
            client.peer.drop()
        self._clients = []

    def _draw_clients(self) -> list[Client]:
        rng = self.rng
        clients: list[Client] = []
        if self.depth < DEPTH_MAX:
            targets = list(TARGETS)
            rng.shuffle(targets)
            for _ in range(rng.randint(1, 3)):
                chosen = targets[: rng.randint(1, len(targets))]
                clients.append(
                    Publisher(self.book, self._connect(), self._rng(), chosen, self._publisher())
                )
            clients += [
                Committer(self.book, self._connect(), self._rng(), targets, self._publisher())
                for _ in range(rng.randint(0, 2))
            ]
        if rng.random() < 0.5:
            clients.append(
                Mover(
                    self.book,
                    self._connect(),
                    self._rng(),
                    "line-0",
                    to_line_1,
                    self._publisher(),
                )
            )
        clients += [self._consumer(name) for name in CONSUMED if rng.random() < 0.6]
        if rng.random() < 0.3:
            clients.append(Getter(self.book, self._connect(), self._rng(), rng.choice(CONSUMED)))
        for client in clients:
            client.peer.start()
        self._tell(f"{self.depth} deep, {len(clients)} clients")
        return clients

    def _consumer(self, queue: str) -> Consumer:
        is_in_chain = queue in CHAIN[:-1]
        return Consumer(
            self.book,
            self._connect(),
            self._rng(),
            queue,
            appetite=self.rng.choice((0.1, 0.6, 0.95)),
            rejects=0.9 if is_in_chain else 0.0,
        )

    def _replace_consumer(self) -> None:
        """One consumer's connection is cut, and another comes."""
        consumers = [client for client in self._clients if isinstance(client, Consumer)]
        if not consumers:
            return
        client = self.rng.choice(consumers)
        self._clients.remove(client)
        client.hang_up()
        replacement = self._consumer(self.rng.choice(CONSUMED))
        replacement.peer.start()
        self._clients.append(replacement)

    def _connect(self) -> Peer:
        peer = Peer((self.broker.host, self.broker.port))
        peer.open(capabilities={})
        return peer

    def _rng(self) -> Random:
        return Random(self.rng.getrandbits(64))

    def _publisher(self) -> int:
        self._publishers += 1
        return self._publishers

    def _declare(self) -> None:
        peer = self._connect()
        exchange = commands.Exchange.Declare(
            exchange=FAN_EXCHANGE, exchange_type="fanout", durable=True
        )
        peer.call(exchange, commands.Exchange.DeclareOk)
        for queue in QUEUES:
            peer.declare(queue.name, durable=True, arguments=queue.arguments)
        for name in FAN:
            peer.call(commands.Queue.Bind(queue=name, exchange=FAN_EXCHANGE), commands.Queue.BindOk)
        peer.close()

    # --------------------------------------------------------------------- audits

    def audit(self) -> None:
        """Read all queues to their end, and hold them against the book."""
        is_browsing = self.rng.random() < 0.5
        peer = self._connect()
        found: dict[str, list[Copy]] = {}
        counts = {queue.name: peer.ready_count(queue.name) for queue in QUEUES}
        for queue in QUEUES:
            browses = is_browsing or queue.name == "cold"
            found[queue.name] = self._read_queue(queue, counts[queue.name], browses=browses)
        peer.close()
        self.book.audit(found)
        self.depth = sum(map(len, found.values()))
        way = "browsed" if is_browsing else "consumed"
        self._tell(f"life {self.book.life}: {way} {self.depth} messages")

    def _read_queue(self, queue: QueueKind, count: int, *, browses: bool) -> list[Copy]:
        peer = self._connect()
        receiver = Receiver(peer.number, is_browser=browses)
        if not browses:
            self.book.expose(queue.name)
        peer.call(
            commands.Basic.Consume(
                queue=queue.name, no_ack=browses, arguments={"x-browse": True} if browses else {}
            ),
            commands.Basic.ConsumeOk,
        )
        peer.start()
        copies: list[Copy] = []
        deadline = time.monotonic() + _AUDIT_DEADLINE_S
        while len(copies) < count:
            assert time.monotonic() < deadline, f"{len(copies)} of {count} in {queue.name}"
            for event in peer.poll():
                method = event.method
                assert isinstance(method, commands.Basic.Deliver), method
                copies.append(
                    self.book.receive(queue.name, receiver, method, event.properties, event.body)
                )
            if len(copies) < count:
                _wait_readable(peer)
        peer.drop()
        self.book.disconnect(peer.number)
        return copies

    def _tell(self, text: str) -> None:
        self.told.append(text)


def _await_killed(start: Future[None], process: subprocess.Popen[bytes]) -> None:
    try:
        start.result()
    except BrokerFailed:
        # SIGKILL is ours. It may also have been ready before its end.
        assert process.poll() == -9, "the broker ended by itself"


def _wait_readable(peer: Peer) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(peer.socket, selectors.EVENT_READ)
        selector.select(1.0)


# ------------------------------------------------------------------------- targets


def _size(rng: Random) -> int:
    chance = rng.random()
    if chance < 0.001:
        return LARGE_SIZE
    if chance < 0.01:
        return rng.randint(20_000, 200_000)
    return rng.randint(0, 1_500)


def _plain(queue: str) -> Target:
    def publish(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
        return publications.message(rng, "", queue, size=_size(rng)), [queue]

    return publish


def to_timed(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
    expiration = str(rng.randint(HOUR_MS, 2 * HOUR_MS))
    sent = publications.message(rng, "", "timed", size=_size(rng), expiration=expiration)
    return sent, ["timed"]


def to_rank(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
    priority = rng.randint(0, PRIORITIES)
    sent = publications.message(rng, "", "rank", size=_size(rng), priority=priority)
    sent.rank = -priority
    return sent, ["rank"]


def to_sorted(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
    key = rng.choice("abcdefgh") * rng.randint(1, 2)
    sent = publications.message(rng, "", "sorted", size=_size(rng), headers={"key": key})
    sent.rank = key
    return sent, ["sorted"]


def to_last(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
    """Keys of its own for each publisher: only then is it known which value is the last."""
    key = f"{publications.publisher}/{rng.randint(0, 9)}"
    sent = publications.message(rng, "", "last", size=_size(rng), headers={"key": key})
    sent.value_key = key
    return sent, ["last"]


def to_fan(publications: Publications, rng: Random) -> tuple[Sent, list[str]]:
    return publications.message(rng, FAN_EXCHANGE, "", size=_size(rng)), list(FAN)


to_line_0: Final[Target] = _plain("line-0")
to_line_1: Final[Target] = _plain("line-1")
to_cold: Final[Target] = _plain("cold")
to_chain: Final[Target] = _plain(CHAIN[0])

TARGETS: Final[tuple[Target, ...]] = (
    to_line_0,
    to_line_1,
    to_cold,
    to_timed,
    to_rank,
    to_sorted,
    to_last,
    to_fan,
    to_chain,
)
