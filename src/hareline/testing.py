"""A broker inside any test suite: ``with running_broker() as url: ...``.

The broker runs in a separate thread, on a port that the system chooses, and is gone when the
block ends. ``EmbeddedBroker`` is the same as an object, which can be stopped and started again.
``hareline.pytest_plugin`` makes pytest fixtures of both. docs/testing.md has all arguments.

The broker is imported when one is started, so that importing this module is quick.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

if TYPE_CHECKING:
    from hareline.settings import Settings

__all__ = ["EmbeddedBroker", "running_broker"]

START_TIMEOUT_S: Final = 30.0
STOP_DEADLINE_S: Final = 2.0
# Each broker with a data directory allocates two of them, and test runners keep those.
SEGMENT_BYTES: Final = 4 << 20


@contextmanager
def running_broker(
    settings: Settings | None = None,
    *,
    users: Mapping[str, str] | None = None,
    vhosts: Iterable[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """Yields the URL of a broker that runs until the block ends.

    ``amqp://guest:guest@127.0.0.1:PORT/%2F``, unless the arguments name another user or virtual
    host. The arguments are those of ``EmbeddedBroker``.
    """
    with EmbeddedBroker(settings, users=users, vhosts=vhosts, data_dir=data_dir) as broker:
        yield broker.url


class EmbeddedBroker:
    """A broker in a thread of this process; as a context manager it runs until the block ends.

    ``users`` maps names to passwords; each may do everything. ``vhosts`` lists the virtual hosts.
    Without them there are the user guest, password guest, and the virtual host ``/``.
    With ``data_dir`` durable queues and persistent messages survive a stop, and the next broker
    with the same directory has them again. Without it nothing is written to disk or survives.

    ``settings`` may give everything else; the other arguments override them. Listeners and
    management settings are overridden: loopback, one free port without TLS, no HTTP. Raises
    pydantic's ValidationError, a ValueError, for names that cannot be used.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        users: Mapping[str, str] | None = None,
        vhosts: Iterable[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._settings = _settings_for_tests(settings, users, vhosts, data_dir)
        self._thread: _BrokerThread | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The URL of the first user with a password and the first virtual host.

        It stays the same when the broker is started again. Raises RuntimeError before the first
        start.
        """
        return self.url_for()

    def url_for(self, user: str | None = None, vhost: str | None = None) -> str:
        """The URL for another user or virtual host; raises ValueError for an unknown one."""
        if not self._port:
            raise RuntimeError("the broker has no URL before it is started")
        passwords = {
            each.name: each.password.get_secret_value()
            for each in self._settings.users
            if each.password is not None
        }
        names = [each.name for each in self._settings.vhosts]
        if user is not None and user not in passwords:
            raise ValueError(f"no user '{user}' with a password, only: {', '.join(passwords)}")
        if vhost is not None and vhost not in names:
            raise ValueError(f"no virtual host '{vhost}', only: {', '.join(names)}")
        user = next(iter(passwords), None) if user is None else user
        login = "" if user is None else f"{_quoted(user)}:{_quoted(passwords[user])}@"
        vhost = names[0] if vhost is None else vhost
        return f"amqp://{login}127.0.0.1:{self._port}/{_quoted(vhost)}"

    def start(self) -> None:
        """Start the broker; returns when clients can connect, after a restart on the same port.

        Raises RuntimeError if it already runs or cannot start.
        """
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        listener = self._settings.listener.model_copy(update={"port": self._port})
        thread = _BrokerThread(self._settings.model_copy(update={"listener": listener}))
        thread.start()
        try:
            self._port = thread.wait_until_ready()
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Close connections with 320 and return when the broker is gone; may be called twice.

        Raises RuntimeError if the broker failed while it ran.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def restart(self) -> None:
        """Stop and start the broker; with a ``data_dir`` it has its durable data again."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _BrokerThread(threading.Thread):
    def __init__(self, settings: Settings) -> None:
        super().__init__(name="hareline-broker", daemon=True)
        self._settings = settings
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def run(self) -> None:
        try:
            from hareline.server.broker import loop_factory

            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        from hareline.server.broker import Broker

        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        broker = Broker(self._settings)
        await broker.start()
        self._port = int(broker.url.rpartition(":")[2])
        self._is_ready.set()
        await self._stopping.wait()
        await broker.stop(STOP_DEADLINE_S)

    def wait_until_ready(self) -> int:
        """The port that the broker listens on; raises RuntimeError if there is none in time."""
        is_in_time = self._is_ready.wait(START_TIMEOUT_S)
        if not self._port:
            reason = self._failure if is_in_time else f"it took more than {START_TIMEOUT_S:g} s"
            raise RuntimeError(f"the broker did not start: {reason}") from self._failure
        return self._port

    def stop(self) -> None:
        if self._loop is not None and self._stopping is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()
        if self._failure is not None and self._port:
            raise RuntimeError("the broker failed while it ran") from self._failure


def _settings_for_tests(
    given: Settings | None,
    users: Mapping[str, str] | None,
    vhosts: Iterable[str] | None,
    data_dir: str | os.PathLike[str] | None,
) -> Settings:
    from hareline.settings import Settings

    base = given or Settings()
    mechanisms = tuple(each for each in base.auth.mechanisms if each != "EXTERNAL")
    options: dict[str, object] = {name: getattr(base, name) for name in base.model_fields_set}
    options |= {
        "listener": {"bind": "127.0.0.1"},
        "listeners": (),
        "tls": {},
        "tls_certificates": (),
        "metrics": base.metrics.model_copy(update={"tls": False}),
        "auth": base.auth.model_copy(update={"mechanisms": mechanisms or base.auth.mechanisms}),
        "management": {"enabled": False},
    }
    names = [vhost.name for vhost in base.vhosts] if vhosts is None else list(vhosts)
    if vhosts is not None:
        options["vhosts"] = [{"name": name} for name in names]
    if users is not None:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        permissions = [{"vhost": name, **everything} for name in names]
        options["users"] = [
            {"name": name, "password": password, "permissions": permissions}
            for name, password in users.items()
        ]
    if data_dir is not None:
        options |= {"data_dir": os.fspath(data_dir), "storage": {"kind": "journal"}}
        options.setdefault("journal", {"segment_bytes": SEGMENT_BYTES})
    options.setdefault("storage", {"kind": "memory"})
    return Settings.model_validate(options)


def _quoted(text: str) -> str:
    return quote(text, safe="")
