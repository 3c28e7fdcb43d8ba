"""An AMQP channel for the commands that move messages: pika's, with its errors as sentences.

pika is imported when such a command runs. Invariant: no error of pika leaves `opened_channel`.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.target import Target

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingConnection

_NOT_FOUND: Final = 404
_ACCESS_REFUSED: Final = 403


def parameters_of(target: Target, vhost: str, name: str, **further: Any) -> Any:
    """pika's parameters of a connection. ``name``: what operators see in the list.

    pika's log stays off standard error from then on; it says the same as its errors.
    """
    import pika

    logger = logging.getLogger("pika")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    address = target.amqp
    options = pika.SSLOptions(target.tls_context(), address.host) if address.is_secure else None
    return pika.ConnectionParameters(
        address.host,
        address.port,
        vhost,
        pika.PlainCredentials(target.user, target.password()),
        ssl_options=options,
        socket_timeout=target.timeout_s,
        stack_timeout=target.timeout_s,
        blocked_connection_timeout=None,
        client_properties={"connection_name": name},
        **further,
    )


def connected(target: Target, vhost: str, name: str, **further: Any) -> BlockingConnection:
    """A connection with these and ``further`` of pika's parameters. Raises CommandFailed."""
    import pika

    with errors_of_pika(target, vhost):
        return pika.BlockingConnection(parameters_of(target, vhost, name, **further))


class NotInTime(CommandFailed):
    """The broker did not answer within --timeout; it would not answer a farewell either."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; --timeout waits longer", ExitStatus.UNREACHABLE)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block if it takes longer; pika's calls wait without an end."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def opened_channel(target: Target, vhost: str, name: str) -> Iterator[Any]:
    """A channel of a connection of its own, closed at the end. Raises CommandFailed."""
    connection = connected(target, vhost, name)
    is_answering = True
    with errors_of_pika(target, vhost):
        try:
            yield connection.channel()
        except NotInTime:
            is_answering = False
            raise
        finally:
            if is_answering:
                with suppress(Exception):  # the error of the block counts, not that of the farewell
                    connection.close()


class Confirming:
    """Publishes messages one after the other, and waits until a queue has taken each.

    ``seconds``: how long to wait for a confirm.
    """

    def __init__(self, channel: Any, seconds: float) -> None:
        self._connection = channel.connection
        self._seconds = seconds
        self._blocked: list[str] = []
        # BlockingConnection tells of an alarm only when all is sent, which an alarm can prevent.
        inner = self._connection._impl
        inner.add_on_connection_blocked_callback(
            lambda _, frame: self._blocked.append(frame.method.reason)
        )
        inner.add_on_connection_unblocked_callback(lambda *_: self._blocked.clear())
        self._channel = channel
        channel.confirm_delivery()

    def publish(
        self, exchange: str | bytes, routing_key: str | bytes, body: bytes, properties: Any
    ) -> None:
        """Publish a message. Raises NotInTime, and pika's UnroutableError and NackError."""
        try:
            with within(self._seconds):
                self._channel.basic_publish(exchange, routing_key, body, properties, mandatory=True)
        except TimeoutError:
            problem = f"no confirm within {self._seconds:g} s"
            for reason in self._blocked[-1:]:
                problem += f": the broker is {reason}, and blocks publishers"
            raise NotInTime(problem) from None

    def reopen(self) -> None:
        """Go on with another channel, after the broker has closed one."""
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()


@contextmanager
def errors_of_pika(target: Target, vhost: str) -> Iterator[None]:
    """Turn pika's errors into CommandFailed."""
    from pika.exceptions import AMQPError

    try:
        yield
    except AMQPError as error:
        raise failure_of(error, target, vhost) from None


def failure_of(error: Exception, target: Target, vhost: str) -> CommandFailed:
    """The sentence and the status for an error of pika."""
    from pika import exceptions

    where = str(target.amqp)
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return CommandFailed(f"{where}: {target.user}: login refused", ExitStatus.DENIED)
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return CommandFailed(
            f"{where}: {target.user} may not use vhost '{vhost}', or there is none",
            ExitStatus.DENIED,
        )
    if isinstance(error, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker):
        return CommandFailed(error.reply_text, _status(error.reply_code))
    if isinstance(error, exceptions.AMQPConnectionError):
        return CommandFailed(f"{where}: {_said(error)}", ExitStatus.UNREACHABLE)
    return CommandFailed(f"{where}: {_said(error)}")


def _status(code: int) -> ExitStatus:
    if code == _NOT_FOUND:
        return ExitStatus.NOT_FOUND
    return ExitStatus.DENIED if code == _ACCESS_REFUSED else ExitStatus.FAILED


def _said(error: BaseException) -> str:
    """The innermost reason that an error of pika was made of."""
    inner: Any = error
    while True:
        causes: Any = getattr(inner, "exceptions", None) or getattr(inner, "args", ())
        exception = getattr(inner, "exception", None)
        deeper = exception or next((e for e in causes if isinstance(e, BaseException)), None)
        if deeper is None:
            break
        inner = deeper
    text = getattr(inner, "strerror", None) or str(inner)
    return text or "the connection was lost"
