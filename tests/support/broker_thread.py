"""A whole broker in the test process, whose inside a test may look at: in a thread, or in its loop.

For tests that need sockets and the event loop, but also counters, references and no second process.
``hareline.testing`` is the same for the broker's users, with nothing to look into.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from hareline.queues.queue import Queue
from hareline.server.broker import Broker, loop_factory
from hareline.settings import Listener, Settings, Storage

from .raw_client import RawClient
from .waiting import wait_for

T = TypeVar("T")

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 0.5


class BrokerThread:
    """``broker`` belongs to the thread's loop: look at it by ``ask`` alone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
        self._is_ready = threading.Event()
        self._stop_deadline_s = self._close_ok_s = STOP_DEADLINE_S
        self._clients: list[RawClient] = []
        self.failures: list[dict[str, object]] = []

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self._stopping = asyncio.Event()
        self.broker = Broker(self._settings)
        await self.broker.start()
        host, port = self.broker.url.removeprefix("amqp://").rsplit(":", 1)
        self.address = (host, int(port))
        self._is_ready.set()
        await self._stopping.wait()
        await self.broker.stop(self._stop_deadline_s, self._close_ok_s)

    def start(self) -> None:
        self._thread.start()
        assert self._is_ready.wait(START_DEADLINE_S), "the broker did not start"

    def begin_to_stop(self, deadline_s: float, close_ok_s: float | None = None) -> None:
        """As SIGTERM does; returns at once."""
        self._stop_deadline_s = deadline_s
        self._close_ok_s = deadline_s if close_ok_s is None else close_ok_s
        self.loop.call_soon_threadsafe(self._stopping.set)

    def wait_until_stopped(self) -> None:
        self._thread.join(START_DEADLINE_S)
        assert not self._thread.is_alive(), "the broker did not stop"

    def stop(self) -> None:
        for client in self._clients:
            client.drop()
        if self._thread.is_alive():
            self.begin_to_stop(self._stop_deadline_s)
        self.wait_until_stopped()

    def ask(self, question: Callable[[Broker], T]) -> T:
        """What ``question`` says about the broker, asked in the broker's own thread."""

        async def answer() -> T:
            return question(self.broker)

        return asyncio.run_coroutine_threadsafe(answer(), self.loop).result(START_DEADLINE_S)

    @property
    def management_url(self) -> str:
        """``http://host:port`` of the HTTP API."""
        return self.ask(lambda broker: broker.management_url)

    @property
    def http_address(self) -> tuple[str, int]:
        host, port = self.management_url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def ask_queue(self, name: str, question: Callable[[Queue], T]) -> T:
        return self.ask(lambda broker: question(broker.context.vhosts["/"].queues[name]))

    def wait_until(
        self, is_so: Callable[[Broker], bool], what: str, deadline_s: float = 60.0
    ) -> None:
        wait_for(lambda: self.ask(is_so) or None, deadline_s, what)

    def client(self, *, receive_buffer: int = 0) -> RawClient:
        """A client that has said nothing yet; dropped at the end of the test."""
        client = RawClient(self.address, receive_buffer=receive_buffer)
        self._clients.append(client)
        return client


#: Of the fixture ``start_broker``.
StartBroker = Callable[..., BrokerThread]


@contextmanager
def broker_in_thread(
    settings: Settings | None = None, *, has_http: bool = False
) -> Iterator[BrokerThread]:
    """Loopback, free ports, HTTP if asked for; everything else is as ``settings`` say.

    Without a word of storage in them, nothing is written to disk.
    """
    thread = BrokerThread(_on_free_ports(settings or Settings(), has_http=has_http))
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
    assert not thread.failures, thread.failures


@asynccontextmanager
async def broker_in_loop(settings: Settings) -> AsyncIterator[Broker]:
    """The same in the event loop of the test, with HTTP."""
    broker = Broker(_on_free_ports(settings, has_http=True))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop(0)


def _on_free_ports(settings: Settings, *, has_http: bool) -> Settings:
    management = settings.management.model_copy(update={"enabled": has_http, "port": 0})
    fixed: dict[str, object] = {
        "listener": Listener(bind="127.0.0.1", port=0),
        "management": management,
    }
    if "storage" not in settings.model_fields_set:
        fixed["storage"] = Storage(kind="memory")
    return settings.model_copy(update=fixed)
