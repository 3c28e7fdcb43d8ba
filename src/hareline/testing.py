"""An in-memory broker inside any test suite: ``with running_broker() as url: ...``.

The broker runs in a thread of its own, on a port that the system chooses, and is gone when the
block ends. ``hareline.pytest_plugin`` makes a pytest fixture of it, ``amqp_broker``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from hareline.server import Broker, loop_factory
from hareline.settings import Listener, Management, Settings, Storage, User

__all__ = ["running_broker"]

START_TIMEOUT_S: Final = 30.0
STOP_DEADLINE_S: Final = 2.0


@contextmanager
def running_broker(settings: Settings | None = None) -> Iterator[str]:
    """A broker for the time of the block; yields its URL, ``amqp://guest:guest@127.0.0.1:PORT/%2F``.

    ``settings`` may give users, virtual hosts or limits; by default there is the user guest, who
    may do everything. The URL names the first user whose password is in the settings and the first
    virtual host. Listener and management settings are overridden: loopback, one free port, no HTTP.
    Everything is in memory alone, unless ``settings`` say something of storage. Connections that
    are still open when the block ends are closed with 320.
    """
    settings = settings or Settings()
    update: dict[str, object] = {
        "listener": Listener(bind="127.0.0.1", port=0),
        "listeners": (),
        "management": Management(enabled=False),
    }
    if "storage" not in settings.model_fields_set:
        update["storage"] = Storage(kind="memory")
    settings = settings.model_copy(update=update)
    thread = _BrokerThread(settings)
    thread.start()
    try:
        yield thread.wait_until_ready()
    finally:
        thread.stop()


class _BrokerThread(threading.Thread):
    def __init__(self, settings: Settings) -> None:
        super().__init__(name="hareline-broker", daemon=True)
        self._settings = settings
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._address = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        broker = Broker(self._settings)
        await broker.start()
        self._address = broker.url.removeprefix("amqp://")
        self._is_ready.set()
        await self._stopping.wait()
        await broker.stop(STOP_DEADLINE_S)

    def wait_until_ready(self) -> str:
        if not self._is_ready.wait(START_TIMEOUT_S) or not self._address:
            raise RuntimeError("the broker did not start") from self._failure
        login = next((_login(user) for user in self._settings.users if user.password), "")
        vhost = self._settings.vhosts[0].name
        return f"amqp://{login}{self._address}/{quote(vhost, safe='')}"

    def stop(self) -> None:
        if self._loop is not None and self._stopping is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()
        if self._failure is not None and self._address:
            raise RuntimeError("the broker failed while it ran") from self._failure


def _login(user: User) -> str:
    """``name:password@``, as it stands in a URL."""
    password = user.password.get_secret_value() if user.password else ""
    return f"{quote(user.name, safe='')}:{quote(password, safe='')}@"
