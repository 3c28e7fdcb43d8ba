"""Login of an open connection: it ends when its token expires, unless the client renews it.

Made only for a login that expires, a client that sends connection.update-secret, and when rights
have changed. Rights of a new secret count once it was found good, for the same user only.
"""

from __future__ import annotations

from typing import Final

from hareline import events
from hareline.amqp.channels import Channels
from hareline.amqp.context import ConnectionParts
from hareline.amqp.ports import ConnectionPort
from hareline.auth.backends import Answer, Refusal
from hareline.auth.permissions import RightsPending
from hareline.auth.users import INTERNAL, User
from hareline.clock import Timer
from hareline.errors import AmqpError, ConnectionForced, NotAllowed
from hareline.wire.methods import commands

#: The wall clock is looked at this often, since it may be set.
LOOK_S: Final = 60.0
EXPIRED: Final = "credential expired"
_UPDATE_SECRET: Final = commands.Connection.UpdateSecret.index


class KeptLogin:
    """``stop`` must be called when the connection ends."""

    __slots__ = ("_channels", "_connection", "_parts", "_timer")

    def __init__(
        self, parts: ConnectionParts, channels: Channels, connection: ConnectionPort
    ) -> None:
        self._parts = parts
        self._channels = channels
        self._connection: ConnectionPort | None = connection  # until ``stop``
        self._timer: Timer | None = None
        self._watch()

    def stop(self) -> None:
        """The connection ends: an answer that is still to come changes nothing."""
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------------- its end

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        user = self._parts.client.user
        if user is None or user.expires_ms is None:
            return
        left_s = (user.expires_ms - self._parts.context.clock.now_ms) / 1000
        delay_s = min(max(left_s, 0.0), LOOK_S)
        self._timer = self._parts.transport.call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        connection, user = self._connection, self._parts.client.user
        clock = self._parts.context.clock
        clock.refresh()
        if connection is None or user is None or user.expires_ms is None:
            return
        if user.expires_ms > clock.now_ms:
            self._timer = None
            self._watch()
        else:
            connection.on_error(0, ConnectionForced(EXPIRED, class_id=0, method_id=0))

    # --------------------------------------------------------- rights that changed

    def look_up_rights(self) -> None:
        """Take over what the user may do now, or close (530) if that is nothing here."""
        parts, connection = self._parts, self._connection
        if connection is None:
            return
        try:
            parts.client.renew(parts.context.users)
        except RightsPending as pending:
            pending.when_decided(self.look_up_rights)
        except NotAllowed as error:
            error.class_id = error.method_id = 0
            connection.on_error(0, error)
        else:
            self._channels.renew_rights()

    # ---------------------------------------------------------------- its renewal

    def update_secret(self, secret: str) -> None:
        """connection.update-secret. Raises NotAllowed where the answer is known at once."""
        parts = self._parts
        client, context = parts.client, parts.context
        assert client.user is not None
        if client.user.backend == INTERNAL:
            # such users have no secret that expires; rights are looked up again, as in RabbitMQ
            if not client.renew(context.users):
                raise _refused()
            self._on_renewed()
            return
        context.logins.renew(client.user, secret, parts.transport.auth_peer, self._on_answer)

    def _on_answer(self, answer: Answer) -> None:
        """A backend has decided about the new secret, at once or later."""
        parts, connection = self._parts, self._connection
        if connection is None:
            return
        parts.context.clock.refresh()
        try:
            if isinstance(answer, Refusal):
                reason = f"new secret refused: {answer.reason}"
                parts.context.report(
                    events.CONNECTION_REFUSED, peer=parts.transport.peer, reason=reason
                )
                raise _refused()
            self._take_over(answer)
        except AmqpError as error:
            error.class_id, error.method_id = _UPDATE_SECRET >> 16, _UPDATE_SECRET & 0xFFFF
            connection.on_error(0, error)

    def _take_over(self, user: User) -> None:
        client = self._parts.client
        try:
            users = self._parts.context.users
            access = users.checker(user, client.vhost.name, self._parts.transport.auth_peer.host)
        except RightsPending as pending:
            pending.when_decided(lambda: self._on_answer(user))
            return
        client.user, client.access = user, access
        self._on_renewed()

    def _on_renewed(self) -> None:
        self._channels.renew_rights()
        self._parts.output.send(0, commands.Connection.UpdateSecretOk)
        self._watch()


def _refused() -> NotAllowed:
    return NotAllowed("New secret was refused by one of the backends")
