"""From the protocol header to an open connection, as a transition table.

==============  =========  ==================================================================
state           expects    then
==============  =========  ==================================================================
WAIT_START_OK   start-ok   credentials checked; send tune -> WAIT_TUNE_OK. With a mechanism of
                           several steps: send secure -> WAIT_SECURE_OK
WAIT_SECURE_OK  secure-ok  the next step: send secure, or after the last one tune -> WAIT_TUNE_OK
WAIT_TUNE_OK    tune-ok    limits negotiated -> WAIT_OPEN
WAIT_OPEN       open       virtual host entered; send open-ok -> the handshake is over
REFUSED         nothing    the socket is dropped after a delay, or after close-ok
==============  =========  ==================================================================

Anything not in the table is a 504 and ends the connection; before tune-ok a frame of an unknown
type ends it without a word. Texts are RabbitMQ's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hareline import events
from hareline.amqp.product import QPID_PROPERTIES, is_qpid
from hareline.auth.permissions import AccessChecker
from hareline.auth.scram import ScramExchange, ScramRefused
from hareline.auth.users import User
from hareline.errors import AccessRefused, ChannelError, NotAllowed
from hareline.wire.constants import FRAME_MIN_SIZE
from hareline.wire.methods import Frame, commands, decode_method
from hareline.wire.table import Table, text_octets

if TYPE_CHECKING:
    from hareline.amqp.connection import Connection

WAIT_START_OK: Final = "starting"  # the names are RabbitMQ's; they appear in reply texts
WAIT_SECURE_OK: Final = "securing"
WAIT_TUNE_OK: Final = "tuning"
WAIT_OPEN: Final = "opening"
REFUSED: Final = "refused"

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class Handshake:
    """Runs once per connection; ``connection.on_open`` ends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mechanism = ""
        self._exchange: ScramExchange | None = None
        self.state = WAIT_START_OK

    def start(self) -> None:
        """The protocol header was ours: send connection.start."""
        context = self._connection.context
        identity = context.identity
        link = self._connection.link
        product = context.products.for_connection(link.host, link.product)
        properties: dict[str, object] = {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": identity.cluster_name,
            "product": product,
            "version": identity.version,
            "platform": identity.platform,
            "brand": identity.brand,
            "copyright": "Hareline contributors, Apache License 2.0",
            "information": "Licensed under the Apache License 2.0",
        }
        if is_qpid(product):
            properties |= QPID_PROPERTIES
        self._connection.send(
            0,
            commands.Connection.Start,
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=context.mechanisms.offered(is_scram_for_all=context.users.is_scram_for_all),
            locales="en_US",
        )

    @property
    def is_tuned(self) -> bool:
        """Whether the peer has proved to speak AMQP: everything up to tune-ok was in order."""
        return self.state == WAIT_OPEN

    def on_method(self, payload: bytes) -> None:
        if self.state == REFUSED:
            return
        method = decode_method(payload)
        step = _STEPS.get((self.state, type(method)))
        if step is None:
            raise ChannelError(f"unexpected method in connection state {self.state}")
        step(self, method)

    def _start_ok(self, method: commands.Connection.StartOk) -> None:
        connection = self._connection
        context = connection.context
        connection.set_client_properties(Table(method.client_properties or {}))
        self._mechanism = method.mechanism
        response = text_octets(method.response)
        if context.mechanisms.has_steps(method.mechanism):
            self._exchange = ScramExchange(context.users)
            self._take_step(self._exchange, response)
            return
        name, password = context.mechanisms.decode(method.mechanism, response)
        user = context.users.authenticate(name, password, connection.link.is_loopback)
        if user is None:
            self._refuse(name)
        else:
            self._log_in(user)

    def _secure_ok(self, method: commands.Connection.SecureOk) -> None:
        assert self._exchange is not None
        self._take_step(self._exchange, text_octets(method.response or ""))

    def _take_step(self, exchange: ScramExchange, response: bytes) -> None:
        """One response of a login in several steps.

        Whoever may not come in from there is refused before the last challenge, which would say
        that the password was right.
        """
        connection = self._connection
        users = connection.context.users
        try:
            challenge = exchange.step(response)
        except ScramRefused as refused:
            is_keyless = exchange.name and not users.has_keys(exchange.name)
            self._refuse(exchange.name, "no SCRAM keys" if is_keyless else refused.value)
            return
        if exchange.has_proof:
            user = users.admit(exchange.name, connection.link.is_loopback)
            if user is None:
                self._refuse(exchange.name)
                return
            if challenge is None:
                self._log_in(user)
                return
        connection.send(0, commands.Connection.Secure, challenge=challenge)
        self.state = WAIT_SECURE_OK

    def _log_in(self, user: User) -> None:
        connection = self._connection
        connection.user = user
        self._exchange = None
        limits = connection.context.limits
        connection.send(
            0,
            commands.Connection.Tune,
            channel_max=limits.channel_max,
            frame_max=limits.frame_max_bytes,
            heartbeat=limits.heartbeat_s,
        )
        self.state = WAIT_TUNE_OK

    def _refuse(self, name: str, why: str = "") -> None:
        """Bad credentials. Clients that cannot take a close frame see the socket drop, later.

        ``why`` is for the log alone.
        """
        connection = self._connection
        context = connection.context
        reason = f"authentication of user '{name}' by {self._mechanism} failed"
        if why:
            reason = f"{reason}: {why}"
        if context.users.is_loopback_only(name) and not connection.link.is_loopback:
            reason = f"user '{name}' may only connect from this machine"
        connection.tell_end(events.CONNECTION_REFUSED, peer=connection.link.peer, reason=reason)
        self.state = REFUSED
        if (
            connection.has_capability("authentication_failure_close")
            or connection.dialect.is_refused_by_close
        ):
            raise AccessRefused(
                f"Login was refused using authentication mechanism {self._mechanism}. "
                "For details see the broker logfile.",
                class_id=0,
                method_id=0,
            )
        connection.drop_after_delay()

    def _tune_ok(self, method: commands.Connection.TuneOk) -> None:
        connection = self._connection
        limits = connection.context.limits
        frame_max = _negotiated(
            "frame_max", method.frame_max, limits.frame_max_bytes, FRAME_MIN_SIZE
        )
        channel_max = _negotiated("channel_max", method.channel_max, limits.channel_max, 1)
        connection.on_tuned(frame_max, channel_max, method.heartbeat)
        self.state = WAIT_OPEN

    def _open(self, method: commands.Connection.Open) -> None:
        connection = self._connection
        context = connection.context
        name = method.virtual_host
        vhost = context.vhosts.get(name)
        if vhost is None and name.startswith("/"):  # Qpid's clients put one in front of any name
            vhost = context.vhosts.get(name[1:])
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        access = AccessChecker(connection.user, vhost.name)
        self._check_limits(vhost.name)
        connection.vhost = vhost
        connection.access = access
        connection.send(0, commands.Connection.OpenOk)
        connection.on_open()

    def _check_limits(self, vhost_name: str) -> None:
        connection = self._connection
        context = connection.context
        refused = f"access to vhost '{vhost_name}' refused for user '{connection.user.name}'"
        limit = context.vhost_connection_limits.get(vhost_name, 0)
        if limit:
            count = sum(
                other.is_running and other.vhost.name == vhost_name for other in context.connections
            )
            if count >= limit:
                raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
        limit = context.limits.max_connections
        if limit and sum(other.is_running for other in context.connections) >= limit:
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")


def _negotiated(name: str, chosen: int, maximum: int, minimum: int) -> int:
    """What the client chose, if it is within our limits; RabbitMQ's rules and texts."""
    if chosen == 0:
        raise NotAllowed(
            f"negotiated {name} = 0 (no limit) is higher than the maximum allowed value ({maximum})"
        )
    if chosen > maximum:
        raise NotAllowed(
            f"negotiated {name} = {chosen} is higher than the maximum allowed value ({maximum})"
        )
    if chosen < minimum:
        raise NotAllowed(
            f"negotiated {name} = {chosen} is lower than the minimum allowed value ({minimum})"
        )
    return chosen


_STEPS: Final[Mapping[tuple[str, type[Frame]], Callable[[Handshake, Any], None]]] = {
    (WAIT_START_OK, commands.Connection.StartOk): Handshake._start_ok,
    (WAIT_SECURE_OK, commands.Connection.SecureOk): Handshake._secure_ok,
    (WAIT_TUNE_OK, commands.Connection.TuneOk): Handshake._tune_ok,
    (WAIT_OPEN, commands.Connection.Open): Handshake._open,
}
