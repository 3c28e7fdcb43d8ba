"""Which stream a request is about, and whether its user may read it.

The routes below ``/api/stream`` begin here. Names in their paths are percent-encoded, ``/`` as
``%2F``, and matched by the path as it came (``management.paths``).

Invariant: a user finds no stream that AMQP would not let it read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hareline.auth.permissions import AccessChecker
from hareline.auth.users import UserRegistry
from hareline.broker.stream_queue import Stream, stream_of
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError
from hareline.management.authentication import Authenticator
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal
from hareline.wire.stream_chunks import BROKER_HEADER

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class StreamAccess:
    """Finds virtual hosts and streams for the user of a request."""

    def __init__(
        self,
        authenticator: Authenticator,
        users: UserRegistry,
        vhosts: Mapping[str, VirtualHost],
        broker_id: str,
    ) -> None:
        """``broker_id``: goes with each answer."""
        self._authenticator = authenticator
        self._users = users
        self._vhosts = vhosts
        self._broker_id = broker_id

    async def vhost(self, request: Request) -> tuple[VirtualHost, AccessChecker]:
        """The virtual host in the path, which the user may enter. Raises Refusal."""
        user = await self._authenticator.user(request)
        name = name_in_path(request.path_params["vhost"])
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise Refusal(404, "not_found", f"no vhost '{name}'")
        try:
            host = "" if request.client is None else request.client.host
            return vhost, self._users.checker(user, name, host)
        except AmqpError as error:
            raise Refusal(403, "access_refused", error.explanation) from None

    async def stream(self, request: Request) -> tuple[VirtualHost, Stream]:
        """The stream in the path, which the user may read. Raises Refusal."""
        vhost, access = await self.vhost(request)
        return vhost, find_stream(vhost, access, request)

    def answering(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, whose refusals become answers; each answer says which broker gives it."""

        async def answer(request: Request) -> Response:
            try:
                response = await endpoint(request)
            except Refusal as refusal:
                response = refusal.answer()
            response.headers[BROKER_HEADER] = self._broker_id
            return response

        return answer


def find_stream(vhost: VirtualHost, access: AccessChecker, request: Request) -> Stream:
    """The stream in the path, which the user may read. Raises Refusal."""
    name = name_in_path(request.path_params["queue"])
    try:
        access.require("read", "queue", name)
    except AmqpError as error:
        raise Refusal(403, "access_refused", error.explanation) from None
    queue = vhost.queues.get(name)
    if queue is None:
        raise Refusal(404, "not_found", f"no queue '{name}' in vhost '{vhost.name}'")
    stream = stream_of(queue)
    if stream is None:
        raise Refusal(
            409,
            "not_a_stream",
            f"queue '{name}' in vhost '{vhost.name}' is not a stream, so it cannot be read again: "
            "declare it with x-queue-type = stream, or archive it to one with x-archive-to",
        )
    return stream
