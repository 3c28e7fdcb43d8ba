"""Handshake from the protocol header to an open connection, as a transition table.

==============  =========  ==================================================================
state           expects    then
==============  =========  ==================================================================
WAIT_HEADER     header     the right 8 octets: send start -> WAIT_START_OK
WAIT_START_OK   start-ok   credentials are given to the backends -> WAIT_LOGIN. With a mechanism of
                           several steps: send secure -> WAIT_SECURE_OK
WAIT_LOGIN      nothing    what the client sends is held until the backends have decided: send tune
                           -> WAIT_TUNE_OK, or refuse -> REFUSED
WAIT_SECURE_OK  secure-ok  the next step: send secure, or after the last one tune -> WAIT_TUNE_OK
WAIT_TUNE_OK    tune-ok    limits negotiated -> WAIT_OPEN
WAIT_OPEN       open       virtual host entered; send open-ok -> the handshake is over
REFUSED         nothing    the socket is dropped after a delay, or after close-ok
==============  =========  ==================================================================

Anything not in the table is a 504 and ends the connection; before tune-ok a frame of an unknown
type ends it without a close frame. Texts are RabbitMQ's. Backends (``auth.backends``) may decide at
once, or when the connection is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from sys import intern
from typing import Any, Final, Literal

from hareline import events
from hareline.amqp.client import QPID, Client
from hareline.amqp.context import ConnectionParts, Context
from hareline.amqp.ending import Ending
from hareline.amqp.input_gate import LOGIN
from hareline.amqp.internal_events import on_connection_open, on_login
from hareline.amqp.ports import ConnectionPort, Transport
from hareline.amqp.product import QPID_PROPERTIES, is_qpid
from hareline.auth.backends import Answer, Credentials, Refusal
from hareline.auth.certificates import EXTERNAL
from hareline.auth.mechanisms import ANONYMOUS
from hareline.auth.permissions import RightsPending
from hareline.auth.scram import ScramExchange, ScramRefused
from hareline.auth.users import INTERNAL, User
from hareline.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    CommandInvalid,
    NotAllowed,
    UnknownFrameType,
)
from hareline.wire.constants import (
    FRAME_METHOD,
    FRAME_MIN_SIZE,
    PROTOCOL_HEADER,
    PROTOCOL_HEADER_0_9,
)
from hareline.wire.methods import Frame, commands, decode_method
from hareline.wire.table import Table, text_octets

#: What the connection has to do after a method: nothing, take over the limits, or begin to run.
Outcome = Literal["", "tuned", "open"]

WAIT_HEADER: Final = "header"
WAIT_START_OK: Final = "starting"  # the names are RabbitMQ's; they appear in reply texts
WAIT_SECURE_OK: Final = "securing"
WAIT_LOGIN: Final = "authenticating"
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


class WrongHeader(Exception):
    """The peer does not speak AMQP 0-9-1."""


class Handshake:
    """Runs once per connection: ``on_header``, then ``on_method`` until it returns "open".

    ``stop`` must be called when it is over. ``frame_max``, ``channel_max`` and ``heartbeat_s`` are
    those of tune-ok, once it has come.
    """

    def __init__(self, parts: ConnectionParts, ending: Ending, connection: ConnectionPort) -> None:
        self._context = context = parts.context
        self._transport = transport = parts.transport
        self._client = parts.client
        self._output = parts.output
        self._gate = parts.gate
        self._ending = ending
        self._connection: ConnectionPort | None = connection  # until ``stop``
        self._header = b""
        self._mechanism = ""
        self._name = ""
        self._answer: Answer | None = None
        self._exchange: ScramExchange | None = None
        self.state = WAIT_HEADER
        self.frame_max = 0
        self.channel_max = 0
        self.heartbeat_s = 0
        limits = context.limits
        self._after_login_s = limits.handshake_timeout_s - limits.authentication_timeout_s
        timeout_s = min(limits.handshake_timeout_s, limits.authentication_timeout_s)
        self._deadline = transport.call_later(timeout_s, self._on_timeout)

    def on_header(self, data: bytes) -> bytes | None:
        """Octets of the protocol header, in pieces; returns what follows it, None before its end.

        Raises WrongHeader for one that is not of AMQP 0-9-1.
        """
        header = self._header + data
        length = len(PROTOCOL_HEADER)
        if header[:length] in (PROTOCOL_HEADER, PROTOCOL_HEADER_0_9):
            self._header = b""
            self._start()
            return header[length:]
        if len(header) >= length or not PROTOCOL_HEADER.startswith(header[:4]):
            self._ending.report_header(header, self._context.products)
            raise WrongHeader
        self._header = header
        return None

    def _on_timeout(self) -> None:
        is_logged_in = self._client.user is not None
        if self._after_login_s <= 0:
            self._ending.report(events.HANDSHAKE_TIMED_OUT)
        elif not is_logged_in:
            self._ending.report(events.AUTHENTICATION_TIMED_OUT)
        else:  # it had time until here to log in, and has the rest to open a virtual host
            self._deadline = self._transport.call_later(self._after_login_s, self._on_timeout)
            self._after_login_s = 0
            return
        self._transport.abort()

    def stop(self) -> None:
        self._deadline.cancel()
        self._connection = None

    def _start(self) -> None:
        context = self._context
        identity = context.identity
        product = context.products.for_connection(self._transport.host, self._transport.product)
        properties: dict[str, object] = {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": identity.cluster_name,
            "broker_id": identity.broker_id,
            "product": product,
            "version": identity.version,
            "platform": identity.platform,
            "brand": identity.brand,
            "copyright": "Hareline contributors, Apache License 2.0",
            "information": "Licensed under the Apache License 2.0",
        }
        if is_qpid(product):
            properties |= QPID_PROPERTIES
        self._output.send(
            0,
            commands.Connection.Start,
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=self._offered(),
            locales="en_US",
        )
        self.state = WAIT_START_OK

    def _offered(self) -> str:
        """The mechanisms that work for this client."""
        context, peer = self._context, self._transport.auth_peer
        mechanisms, users = context.mechanisms, context.users
        # other backends have users whose keys for SCRAM nobody knows
        is_scram_for_all = users.is_scram_for_all and context.logins.is_internal
        anonymous = users.admit(mechanisms.anonymous_user, peer.is_loopback)
        return mechanisms.offered(
            peer,
            is_scram_for_all=is_scram_for_all,
            is_scram_possible=context.logins.has_internal,
            is_anonymous_welcome=anonymous is not None,
        )

    def takes_close(self, error: AmqpError) -> bool:
        """True if the peer is sent connection.close for ``error``: not if it may not speak AMQP.

        That it does is proved by tune-ok (as RabbitMQ has it).
        """
        if self.state == WAIT_HEADER:
            return False
        return self.state == WAIT_OPEN or not isinstance(error, UnknownFrameType)

    def on_method(self, payload: bytes) -> Outcome:
        """Take the next step; returns what the connection has to do then."""
        if self.state == REFUSED:
            return ""
        method = decode_method(payload)
        step = _STEPS.get((self.state, type(method)))
        if step is None:
            raise ChannelError(f"unexpected method in connection state {self.state}")
        try:
            return step(self, method)
        except RightsPending as pending:
            self._gate.hold(LOGIN)
            pending.when_decided(partial(self._on_decided, payload))
            return ""

    def _on_decided(self, payload: bytes) -> None:
        """A right that a method needs is decided: handle it again."""
        connection = self._go_on()
        if connection is not None:
            try:
                connection.on_frame(FRAME_METHOD, 0, payload)
            except AmqpError as error:
                connection.on_error(0, error)

    def _go_on(self) -> ConnectionPort | None:
        """Read on after a decision; returns the connection, None if it is gone or holds nothing."""
        gate, connection = self._gate, self._connection
        if connection is None or not gate.reasons & LOGIN:
            return None
        self._context.clock.refresh()
        gate.wait_for_turn()
        gate.end(LOGIN)
        return connection

    def _start_ok(self, method: commands.Connection.StartOk) -> Outcome:
        context = self._context
        self._client.set_properties(Table(method.client_properties or {}))
        self._mechanism = method.mechanism
        response, peer = text_octets(method.response), self._transport.auth_peer
        if context.mechanisms.has_steps(method.mechanism):
            if not context.logins.has_internal:  # whose users alone have keys
                raise CommandInvalid(f"invalid authentication mechanism '{method.mechanism}'")
            self._exchange = ScramExchange(context.users)
            return self._take_step(self._exchange, response)
        credentials = context.mechanisms.decode(method.mechanism, response, peer)
        if method.mechanism == EXTERNAL and not credentials.name:
            return self._refuse("", "the client has shown no certificate that stands for a user")
        if method.mechanism == ANONYMOUS:  # the settings name the user, so no backend is asked
            name = self._name = credentials.name
            welcome = context.users.admit(name, peer.is_loopback)
            refusal = Refusal("auth.anonymous_user may not log in", is_guess=False)
            return self._conclude(context.logins.settle(name, welcome or refusal, peer))
        return self._ask(credentials)

    def _ask(self, credentials: Credentials) -> Outcome:
        """Have the backends decide; until they have, the connection's input is held."""
        self._name = credentials.name
        self.state = WAIT_LOGIN
        self._context.logins.begin(credentials, self._transport.auth_peer, self._on_answer)
        if self._answer is not None:
            return self._conclude(self._answer)
        self._gate.hold(LOGIN)
        return ""

    def _on_answer(self, answer: Answer) -> None:
        """The backends have decided, at once or later; maybe the connection is gone."""
        self._answer = answer
        connection = self._go_on()
        if connection is not None:
            try:
                self._conclude(answer)
            except AmqpError as error:
                connection.on_error(0, error)

    def _conclude(self, answer: Answer) -> Outcome:
        if isinstance(answer, Refusal):
            return self._refuse(self._name, answer.reason)
        return self._log_in(answer)

    def _secure_ok(self, method: commands.Connection.SecureOk) -> Outcome:
        assert self._exchange is not None
        return self._take_step(self._exchange, text_octets(method.response or ""))

    def _take_step(self, exchange: ScramExchange, response: bytes) -> Outcome:
        """One response of a login in several steps.

        A user that may not log in from there is refused before the last challenge, which would say
        that the password was right.
        """
        users, logins, peer = self._context.users, self._context.logins, self._transport.auth_peer
        try:
            challenge = exchange.step(response)
        except ScramRefused as refused:
            self._name = name = exchange.name
            is_keyless = name and not users.has_keys(name)
            why = Refusal("no SCRAM keys" if is_keyless else refused.value)
            return self._conclude(logins.settle(name, why, peer))
        if exchange.has_proof:
            self._name = name = exchange.name
            answer: Answer = users.admit(name, peer.is_loopback) or Refusal()
            if challenge is not None:
                answer = logins.settle(name, answer, peer)
            if challenge is None or isinstance(answer, Refusal):
                return self._conclude(answer)
        self._output.send(0, commands.Connection.Secure, challenge=challenge)
        self.state = WAIT_SECURE_OK
        return ""

    def _log_in(self, user: User) -> Outcome:
        self._client.user = user
        self._client.mechanism = intern(self._mechanism)
        self._context.counts.auth_attempts += 1
        self._exchange = None
        on_login(self._context, self._transport, user.name, self._mechanism)
        limits = self._context.limits
        self._output.send(
            0,
            commands.Connection.Tune,
            channel_max=limits.channel_max,
            frame_max=limits.frame_max_bytes,
            heartbeat=limits.heartbeat_s,
        )
        self.state = WAIT_TUNE_OK
        return ""

    def _refuse(self, name: str, why: str = "") -> Outcome:
        """Bad credentials. Clients that cannot take a close frame see the socket drop, later.

        ``why`` is for the log alone.
        """
        client, users = self._client, self._context.users
        self._context.counts.auth_attempts += 1
        self._context.counts.auth_attempts_failed += 1
        reason = f"authentication of user '{name}' by {self._mechanism} failed"
        if why:
            reason = f"{reason}: {why}"
        if users.is_loopback_only(name) and not self._transport.is_loopback:
            reason = f"user '{name}' may only connect from this machine"
        self._ending.report(events.CONNECTION_REFUSED, reason=reason)
        on_login(self._context, self._transport, name, self._mechanism, reason)
        self.state = REFUSED
        if (
            client.has_capability("authentication_failure_close")
            or client.dialect.is_refused_by_close
        ):
            raise AccessRefused(
                f"Login was refused using authentication mechanism {self._mechanism}. "
                "For details see the broker logfile.",
                class_id=0,
                method_id=0,
            )
        # RabbitMQ's clients tell a refused login from a network fault by the delay
        delay_s = self._context.limits.authentication_failure_delay_s
        self._deadline.cancel()
        self._deadline = self._transport.call_later(delay_s, self._transport.abort)
        return ""

    def _tune_ok(self, method: commands.Connection.TuneOk) -> Outcome:
        limits = self._context.limits
        self.frame_max = _negotiated(
            "frame_max", method.frame_max, limits.frame_max_bytes, FRAME_MIN_SIZE
        )
        self.channel_max = _negotiated("channel_max", method.channel_max, limits.channel_max, 1)
        self.heartbeat_s = method.heartbeat
        self.state = WAIT_OPEN
        return "tuned"

    def _open(self, method: commands.Connection.Open) -> Outcome:
        vhosts, user = self._context.vhosts, self._current_user()
        name = method.virtual_host
        vhost = vhosts.get(name)
        if vhost is None and name.startswith("/"):  # Qpid's clients put one in front of any name
            vhost = vhosts.get(name[1:])
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        access = self._context.users.checker(user, vhost.name, self._transport.auth_peer.host)
        self._context.check_connection(vhost.name, user, self._transport.host)
        self._client.vhost = vhost
        self._client.access = access
        self._client.is_open = True
        self._context.counts.churn.connection_created += 1
        self._output.send(0, commands.Connection.OpenOk)
        self._report_open(vhost.name, user.name)
        note_product(self._context, self._client, self._transport)
        host = self._transport.host
        self._context.open_counts.count_connection(1, vhost.name, user.identity, host)
        return "open"

    def _current_user(self) -> User:
        """The user as it is now, since rights may have changed after the login."""
        user = self._client.user
        assert user is not None
        if user.backend == INTERNAL:
            found = self._context.users.lookup(user.name)
            if found is None:
                raise NotAllowed(f"user '{user.name}' is deleted")
            user = self._client.user = found
        return user

    def _report_open(self, vhost_name: str, user_name: str) -> None:
        properties = self._client.properties
        self._context.report(
            events.CONNECTION_OPENED,
            peer=self._transport.peer,
            user=user_name,
            vhost=vhost_name,
            client=properties.get("product"),
            name=properties.get("connection_name"),
        )
        on_connection_open(
            self._context,
            self._transport,
            self._client,
            mechanism=self._mechanism,
            frame_max=self.frame_max,
            channel_max=self.channel_max,
            heartbeat_s=self.heartbeat_s,
        )


def on_end(context: Context, client: Client, transport: Transport) -> None:
    """A connection that was open is going."""
    user = client.user
    assert user is not None
    context.open_counts.count_connection(-1, client.vhost.name, user.identity, transport.host)
    note_product(context, client, transport)


def note_product(context: Context, client: Client, transport: Transport) -> None:
    """Remember where Qpid clients come from; called when one is let in, and when it ends."""
    if client.dialect is QPID:
        context.products.on_client(transport.host)


def _negotiated(name: str, chosen: int, maximum: int, minimum: int) -> int:
    """The client's choice, if it is within our limits; RabbitMQ's rules and texts."""
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


_STEPS: Final[Mapping[tuple[str, type[Frame]], Callable[[Handshake, Any], Outcome]]] = {
    (WAIT_START_OK, commands.Connection.StartOk): Handshake._start_ok,
    (WAIT_SECURE_OK, commands.Connection.SecureOk): Handshake._secure_ok,
    (WAIT_TUNE_OK, commands.Connection.TuneOk): Handshake._tune_ok,
    (WAIT_OPEN, commands.Connection.Open): Handshake._open,
}
