"""A broker in a thread with its management API, users of every tag, and an HTTP client.

For tests of ``hareline.management.api``: they ask over real HTTP as one user or another, connect
with pika, and may look into the broker by ``thread.ask``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pika
import pika.exceptions

from hareline.settings import Auth, Management, Settings
from hareline.settings.access import Permission, User
from hareline.settings.vhosts import VirtualHost

from .broker_thread import BrokerThread, broker_in_thread
from .http_api import DEADLINE_S, HttpApi, segment
from .waiting import wait_for

__all__ = ["OTHER", "PASSWORD", "USERS", "ApiBroker", "api_broker", "api_settings", "segment"]

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
PASSWORD = "secret"
OTHER = "other"

#: Name -> tags, and the virtual hosts that the user may enter.
USERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "admin": (("administrator",), ("/",)),
    "monitor": (("monitoring",), ("/",)),
    "policymaker": (("policymaker",), ("/",)),
    "manager": (("management",), ("/",)),
    "elsewhere": (("management",), (OTHER,)),
    "plain": ((), ("/", OTHER)),
}


def api_settings(**changes: object) -> Settings:
    """Two virtual hosts and the users above; failed logins are answered at once."""
    users = [
        User.model_validate(
            {
                "name": name,
                "password": PASSWORD,
                "tags": tags,
                "permissions": [Permission(vhost=vhost, **ALL) for vhost in vhosts],
            }
        )
        for name, (tags, vhosts) in USERS.items()
    ]
    return Settings(
        users=tuple(users),
        vhosts=(VirtualHost(name="/"), VirtualHost(name=OTHER)),
        auth=Auth(failure_delay_s=0),
        management=Management(sample_interval_s=0.2),
    ).model_copy(update=changes)


class ApiBroker:
    """``thread``: the broker. ``http`` asks without a login; paths of ``ask`` are below /api."""

    def __init__(self, thread: BrokerThread) -> None:
        self.thread = thread
        self.url = thread.management_url
        self.http = HttpApi(self.url, None)
        self._connections: list[pika.BlockingConnection] = []

    def ask(self, method: str, path: str, user: str = "admin", **options: Any) -> httpx.Response:
        """The answer to a request of a user."""
        return self.http.ask(method, f"/api{path}", auth=(user, PASSWORD), **options)

    def get(self, path: str, user: str = "admin", **options: Any) -> Any:
        """The JSON of an answer, which has to be 200."""
        return self.http.get(f"/api{path}", auth=(user, PASSWORD), **options)

    def refused(self, path: str, user: str = "admin", method: str = "GET") -> tuple[int, Any]:
        """Status and JSON of an answer, which is no success."""
        answer = self.ask(method, path, user)
        assert answer.status_code >= 400, (path, answer.status_code, answer.text)
        return answer.status_code, answer.json()

    def connect(
        self, user: str = "admin", vhost: str = "/", name: str = "", password: str = PASSWORD
    ) -> pika.BlockingConnection:
        """An AMQP connection, closed at the end of the test."""
        host, port = self.thread.address
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                host,
                port,
                vhost,
                pika.PlainCredentials(user, password),
                client_properties={"connection_name": name} if name else None,
            )
        )
        self._connections.append(connection)
        return connection

    def name_of(self, connection: pika.BlockingConnection) -> str:
        """What the API calls this connection."""
        socket = connection._impl._transport._sock
        near, far = socket.getsockname(), socket.getpeername()
        return f"{near[0]}:{near[1]} -> {far[0]}:{far[1]}"

    def disconnect(self) -> None:
        """Close all AMQP connections."""
        for connection in self._connections:
            with contextlib.suppress(pika.exceptions.AMQPError):  # the broker may have closed it
                connection.close()
        self._connections.clear()

    def wait_for(self, path: str, wanted: Any, what: str) -> Any:
        """Ask until ``wanted`` is true of the JSON, and return that."""
        return wait_for(lambda: _if(wanted, self.get(path)), DEADLINE_S, what)


def _if(wanted: Any, data: Any) -> Any:
    return data if wanted(data) else None


@contextmanager
def api_broker(settings: Settings | None = None) -> Iterator[ApiBroker]:
    """A broker with its API, as ``api_settings`` has it unless told otherwise."""
    with broker_in_thread(settings or api_settings(), has_http=True) as thread:
        broker = ApiBroker(thread)
        try:
            yield broker
        finally:
            broker.disconnect()
