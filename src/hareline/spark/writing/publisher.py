"""A connection that publishes from straight-line code, with many messages in flight.

pika's event loop runs inside the calls of this class only, and no heartbeats are agreed on
(docs/decisions/0012-spark-sink.md). Invariant: when `drain` returns, the broker has confirmed each
message, or an error is raised for it, unless returned ones are to be dropped; at most
``max_in_flight`` messages separate the oldest unconfirmed one from the newest.
"""

from __future__ import annotations

import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Self

import pika
from pika import exceptions as pika_errors
from pika.adapters.select_connection import IOLoop

from hareline.spark.errors import (
    BrokerRefused,
    BrokerUnreachable,
    LoginRefused,
    PublishRefused,
    SparkSideError,
)
from hareline.spark.shared.options import KEEPALIVE, Connection
from hareline.wire.constants import CLASS_BASIC

#: Octets of bodies that may be in flight; a single body may be larger.
OCTETS_IN_FLIGHT_MAX: Final = 32 * 1024 * 1024

_KEYS_NAMED: Final = 5
_CLOSE_S: Final = 5.0
_HEAR_OUT_S: Final = 1.0
_CHANNEL: Final = 1
#: What the broker said, in the text of pika's errors.
_BROKER_SAID: Final = re.compile(r"\((\d{3})\) ['\"](.*)['\"]")
_LOGIN_ERRORS: Final = (pika_errors.AuthenticationError, pika_errors.ProbableAuthenticationError)
_CONNECTION_FORCED: Final = 320


class _PropertyOctets(pika.BasicProperties):
    """Properties that are encoded already, so that each type in a table stays what it was."""

    INDEX = CLASS_BASIC

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def encode(self) -> list[bytes]:
        return [self._octets]


class Publisher:
    """Opens its connection at once, as a context manager closes it at the end."""

    def __init__(
        self,
        connection: Connection,
        *,
        confirms: bool = True,
        max_in_flight: int = 2000,
        timeout_s: float = 30.0,
        drops_unroutable: bool = False,
        name: str = "hareline spark sink",
    ) -> None:
        """``timeout_s``: how long to wait without any progress.

        Raises LoginRefused, BrokerRefused or BrokerUnreachable.
        """
        self._where = f"{connection.host}:{connection.port}"
        self._user = connection.user
        self._confirms = confirms
        self._max_in_flight = max_in_flight
        self._timeout_s = timeout_s
        self._drops_unroutable = drops_unroutable
        #: How many messages the broker returned, because no queue takes them.
        self.returned = 0
        self._last = 0
        self._oldest = 1
        self._octets = 0
        self._unconfirmed: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._refused: list[str] = []
        self._refusal = ""
        self._blocked_reason: str | None = None
        self._closed: BaseException | None = None
        self._is_closing = False
        self._is_ready = False
        self._heard = 0
        self._channel: Any = None
        self._loop = IOLoop()
        self._loop.activate_poller()
        try:
            self._connection = pika.SelectConnection(
                _parameters(connection, name, timeout_s),
                on_open_callback=self._on_open,
                on_open_error_callback=self._on_closed,
                on_close_callback=self._on_closed,
                custom_ioloop=self._loop,
            )
            self._connection.add_on_connection_blocked_callback(self._on_blocked)
            self._connection.add_on_connection_unblocked_callback(self._on_unblocked)
            # pika gives up first, and closes the socket.
            self._serve(lambda: self._is_ready, timeout_s + _CLOSE_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def published(self) -> int:
        """Number of messages handed over, returned ones included."""
        return self._last

    def publish(
        self, exchange: str, routing_key: str, property_octets: bytes, body: bytes, mandatory: bool
    ) -> None:
        """Send a message once there is room in flight; ``property_octets`` begin with the flags.

        Raises PublishRefused or BrokerUnreachable, also for messages before this one.
        """
        if (
            self._last - self._oldest + 1 >= self._max_in_flight
            or self._octets >= OCTETS_IN_FLIGHT_MAX
        ):
            self._make_room()
        elif self._refused or self._closed is not None:
            self._raise_trouble()
        self._last += 1
        self._octets += len(body)
        self._unconfirmed[self._last] = (routing_key, len(body))
        self._channel.basic_publish(
            exchange, routing_key, body, _PropertyOctets(property_octets), mandatory
        )

    def drain(self) -> None:
        """Wait until the broker has answered for all messages. Raises as `publish` does."""
        if self._unconfirmed and not self._confirms:
            self._wait_for_barrier()
        self._serve(lambda: not self._unconfirmed)

    def wait(self, seconds: float) -> None:
        """Send and receive for so long. Raises as `publish` does."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._raise_trouble()
            self._poll(left)
        self._raise_trouble()

    def close(self) -> None:
        """Close the connection; what the broker has not confirmed may be lost."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._channel is not None and self._blocked_reason is None:
            self._close_in_order()
        self._loop.process_timeouts()  # pika closes the socket in a callback
        self._loop.close()

    def _close_in_order(self) -> None:
        """Tell the broker, unless the connection has ended, and wait a little for its answer."""
        end = time.monotonic() + _CLOSE_S
        if self._connection.is_open:
            self._connection.close()
        while not self._connection.is_closed and (left := end - time.monotonic()) > 0:
            self._poll(left)

    # ------------------------------------------------------------------------------- in flight

    def _make_room(self) -> None:
        """Wait until half of what may be in flight is confirmed, so that few waits are needed."""
        if not self._confirms:
            self._wait_for_barrier()
            return
        messages = self._max_in_flight // 2
        octets = OCTETS_IN_FLIGHT_MAX // 2
        self._serve(lambda: self._last - self._oldest + 1 <= messages and self._octets <= octets)

    def _wait_for_barrier(self) -> None:
        """Without confirms: a reply to anything says that what came before was read."""
        done = False

        def on_reply(_: Any) -> None:
            nonlocal done
            done = True

        self._raise_trouble()
        self._channel.basic_qos(callback=on_reply)
        self._serve(lambda: done)
        self._settle(self._last, is_multiple=True)

    def _settle(self, tag: int, *, is_multiple: bool) -> list[str]:
        """Forget messages that were answered for; returns their routing keys."""
        unconfirmed = self._unconfirmed
        keys = []
        if is_multiple:
            while unconfirmed and next(iter(unconfirmed)) <= tag:
                _, (key, size) = unconfirmed.popitem(last=False)
                self._octets -= size
                keys.append(key)
        elif tag in unconfirmed:
            key, size = unconfirmed.pop(tag)
            self._octets -= size
            keys.append(key)
        self._oldest = next(iter(unconfirmed)) if unconfirmed else self._last + 1
        return keys

    # ------------------------------------------------------------------- the loop, while one waits

    def _serve(self, is_done: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Send and receive until it is done. Raises when nothing was heard for too long."""
        if timeout_s is None:
            timeout_s = self._timeout_s
        heard = self._heard
        deadline = time.monotonic() + timeout_s
        self._raise_trouble()
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timed_out()
            self._poll(left)
            if heard != self._heard:
                heard = self._heard
                deadline = time.monotonic() + timeout_s
            self._raise_trouble()

    def _poll(self, seconds: float) -> None:
        """One round of the loop, which waits at most so long."""
        timer = self._loop.call_later(seconds, _do_nothing)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(timer)

    # ------------------------------------------------------------------------ pika's callbacks

    def _on_open(self, connection: Any) -> None:
        self._heard += 1
        self._channel = connection.channel(_CHANNEL, on_open_callback=self._on_channel_open)

    def _on_channel_open(self, channel: Any) -> None:
        self._heard += 1
        channel.add_on_close_callback(self._on_closed)
        channel.add_on_return_callback(self._on_return)
        if self._confirms:
            channel.confirm_delivery(self._on_confirm, callback=self._on_selected)
        else:
            self._is_ready = True

    def _on_selected(self, _: Any) -> None:
        self._is_ready = True

    def _on_confirm(self, frame: Any) -> None:
        self._heard += 1
        method = frame.method
        keys = self._settle(method.delivery_tag, is_multiple=method.multiple)
        if isinstance(method, pika.spec.Basic.Nack):
            self._refusal = (
                "the broker did not take {count} (basic.nack): a queue is full and rejects "
                "publishes, or the broker cannot store them"
            )
            self._refused += keys

    def _on_return(self, _: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._heard += 1
        self.returned += 1
        if not self._drops_unroutable:
            self._refusal = (
                f"the broker returned {{count}}: {method.reply_code} {method.reply_text}; "
                f"bind a queue to exchange {method.exchange!r} for them, or set onUnroutable=drop"
            )
            self._refused.append(method.routing_key)

    def _on_blocked(self, _: Any, frame: Any) -> None:
        self._blocked_reason = frame.method.reason

    def _on_unblocked(self, _: Any, _frame: Any) -> None:
        self._heard += 1
        self._blocked_reason = None

    def _on_closed(self, _: Any, reason: BaseException) -> None:
        if self._closed is None:
            self._closed = reason

    # ---------------------------------------------------------------------------------- errors

    def _raise_trouble(self) -> None:
        if self._refused:
            self._hear_out()
            count = len(self._refused)
            text = self._refusal.format(count=f"{count} message{'s' * (count > 1)}")
            raise PublishRefused(f"{text}; {_keys_text(self._refused)}")
        if self._closed is not None:
            raise self._closed_error(self._closed)

    def _hear_out(self) -> None:
        """Wait a little for the other answers in flight, so that the error names them all."""
        end = time.monotonic() + _HEAR_OUT_S
        while self._confirms and self._unconfirmed and self._closed is None:
            left = end - time.monotonic()
            if left <= 0:
                return
            self._poll(left)

    def _closed_error(self, reason: BaseException) -> SparkSideError:
        if not self._is_ready:
            return self._refused_to_open(_root(reason))
        code = getattr(reason, "reply_code", None)
        said = f"{code} {getattr(reason, 'reply_text', '')}"
        keys = _keys_text([key for key, _ in self._unconfirmed.values()])
        if isinstance(reason, pika_errors.ChannelClosed):
            return PublishRefused(f"the broker closed the channel: {said}; {keys}")
        if isinstance(reason, pika_errors.ConnectionClosed) and code != _CONNECTION_FORCED:
            return PublishRefused(f"the broker closed the connection: {said}; {keys}")
        count = len(self._unconfirmed)
        why = said if code is not None else _root(reason)
        return BrokerUnreachable(
            f"the connection to {self._where} ended while {count} messages waited for their "
            f"confirm: {why}"
        )

    def _refused_to_open(self, reason: BaseException) -> SparkSideError:
        said = _BROKER_SAID.search(str(reason))
        text = f"{said[1]} {said[2]}" if said else str(reason) or repr(reason)
        if isinstance(reason, _LOGIN_ERRORS):
            return LoginRefused(
                f"the broker at {self._where} refused user {self._user!r}: {text}; "
                "check the options user and password"
            )
        if said:
            return BrokerRefused(
                f"the broker at {self._where} refused the connection: {text}; "
                "check the virtual host in the option url, and the user's rights in it"
            )
        return BrokerUnreachable(
            f"no AMQP broker answers at {self._where}: {text}; "
            "check the option url, and that the broker runs"
        )

    def _timed_out(self) -> SparkSideError:
        waited = f"{self._timeout_s:g} s"
        if not self._is_ready:
            return BrokerUnreachable(
                f"the broker at {self._where} did not open a connection in {waited}"
            )
        keys = _keys_text([key for key, _ in self._unconfirmed.values()])
        if self._blocked_reason is not None:
            return PublishRefused(
                f"the broker has blocked publishers for {waited} ({self._blocked_reason}): give it "
                f"memory or disk, have the queues read, or set confirmTimeoutMs higher; {keys}"
            )
        return PublishRefused(
            f"no confirm came for {waited}, and {len(self._unconfirmed)} messages wait for theirs: "
            f"look at the broker's log, or set confirmTimeoutMs higher; {keys}"
        )


def _parameters(connection: Connection, name: str, timeout_s: float) -> pika.ConnectionParameters:
    tls = None
    if connection.is_tls:
        tls = pika.SSLOptions(ssl.create_default_context(), connection.host)
    return pika.ConnectionParameters(
        host=connection.host,
        port=connection.port,
        virtual_host=connection.vhost,
        credentials=pika.PlainCredentials(connection.user, connection.password),
        heartbeat=0,
        ssl_options=tls,
        socket_timeout=timeout_s,
        stack_timeout=timeout_s,
        tcp_options=KEEPALIVE,
        client_properties={"connection_name": name},
    )


def _do_nothing() -> None:
    """Wakes the loop."""


def _keys_text(keys: list[str]) -> str:
    """The first routing keys of many; one that comes again is named once."""
    distinct = list(dict.fromkeys(keys))
    if not distinct:
        return "no message waits"
    named = ", ".join(map(repr, distinct[:_KEYS_NAMED]))
    more = f" and {len(distinct) - _KEYS_NAMED} more" if len(distinct) > _KEYS_NAMED else ""
    return f"routing keys: {named}{more}"


def _root(reason: BaseException) -> BaseException:
    """The first of the errors that pika has put into one another."""
    while True:
        inner = getattr(reason, "exception", None) or getattr(reason, "exceptions", None)
        if isinstance(inner, list | tuple):
            inner = inner[-1]
        if not isinstance(inner, BaseException):
            inner = next((each for each in reason.args if isinstance(each, BaseException)), None)
        if inner is None:
            return reason
        reason = inner
