"""Every error the broker raises on purpose, and the AMQP reply it becomes.

Raise anywhere, translate once: the model raises ``NotFound("no queue 'q' in vhost '/'")`` and only
``amqp.connection`` turns it into channel.close or connection.close; the CLI turns a
``ConfigurationError`` into a message and an exit code.

The tree::

    HarelineError
    +-- ConfigurationError            settings that do not validate (file, key, what was wrong)
    +-- ListenError                   addresses that cannot be listened on; an OSError too
    +-- AmqpError                     has reply_code, reply_name, scope
        +-- ChannelException          scope "channel": the channel closes, the connection goes on
        |   +-- ContentTooLarge       311
        |   +-- AccessRefused         403
        |   +-- NotFound              404
        |   +-- ResourceLocked        405
        |   +-- PreconditionFailed    406
        |   |   +-- InvalidSelector   406, or 409 in the qpid dialect
        |   +-- NotKept               506: a message that must survive cannot be kept
        |   +-- MemoryShort           506: nothing new may be declared until there is memory
        +-- ConnectionException       scope "connection": the connection closes
            +-- NoRoute               312: in a transaction of the qpid dialect
            +-- ConnectionForced      320
            +-- InvalidPath           402
            +-- FrameError            501
            +-- MalformedFrame        502 (SYNTAX_ERROR)
            +-- CommandInvalid        503
            +-- ChannelError          504
            +-- UnexpectedFrame       505
            +-- ResourceError         506
            |   +-- StoreError        506: what is on disk cannot be read or written
            +-- NotAllowed            530
            +-- NotImplementedMethod  540
            +-- InternalError         541

Codes and names: AMQP 0-9-1 section 1.2 ("Constants") with RabbitMQ's scopes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Scope = Literal["channel", "connection"]

REPLY_TEXT_MAX_OCTETS = 255


def within_short_string(text: str) -> str:
    """The text, cut to a short string with ``...`` at its end if it is longer, as in RabbitMQ.

    Octets of a client that are not UTF-8 become question marks: its library could not read them.
    """
    octets = text.encode("utf-8", "replace")
    if len(octets) <= REPLY_TEXT_MAX_OCTETS:
        return octets.decode()
    return octets[: REPLY_TEXT_MAX_OCTETS - 3].decode("utf-8", "ignore") + "..."


class HarelineError(Exception):
    """Root of every error raised on purpose."""


class ConfigurationError(HarelineError):
    """Settings that are invalid; ``problems`` has one line for each, naming file and key."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ListenError(HarelineError, OSError):
    """``problems``: the option to blame (``listener.port``) and a sentence, for each address."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{option}: {problem}" for option, problem in problems))
        self.problems = problems


class AmqpError(HarelineError):
    """An error that is reported to the peer.

    ``class_id`` and ``method_id`` are left None to mean "the method being handled"; an error that
    belongs to no method (authentication, forced close, frame errors) sets both to 0.
    """

    reply_code: ClassVar[int] = 541
    reply_name: ClassVar[str] = "INTERNAL_ERROR"
    scope: ClassVar[Scope] = "connection"

    def __init__(
        self, explanation: str, *, class_id: int | None = None, method_id: int | None = None
    ) -> None:
        super().__init__(explanation)
        self.explanation = explanation
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """``NAME - explanation``, cut by ``within_short_string``."""
        return within_short_string(f"{self.reply_name} - {self.explanation}")


class ChannelException(AmqpError):
    """Closes the channel it happened on (on channel 0: the connection)."""

    scope = "channel"


class ConnectionException(AmqpError):
    """Closes the connection it happened on."""

    scope = "connection"


class ContentTooLarge(ChannelException):
    reply_code = 311
    reply_name = "CONTENT_TOO_LARGE"


class AccessRefused(ChannelException):
    reply_code = 403
    reply_name = "ACCESS_REFUSED"


class NotFound(ChannelException):
    reply_code = 404
    reply_name = "NOT_FOUND"


class ResourceLocked(ChannelException):
    reply_code = 405
    reply_name = "RESOURCE_LOCKED"


class PreconditionFailed(ChannelException):
    reply_code = 406
    reply_name = "PRECONDITION_FAILED"


class InvalidSelector(PreconditionFailed):
    """A consumer's or binding's argument is not a valid message selector."""


class NotKept(ChannelException):
    """A message that must survive cannot be stored; names the reason.

    506 with the scope of a channel: consumers and transient messages of the connection go on.
    """

    reply_code = 506
    reply_name = "RESOURCE_ERROR"


class MemoryShort(ChannelException):
    """Something new would take memory that the broker is short of.

    506 with the scope of a channel: consumers of the connection go on, and free memory.
    """

    reply_code = 506
    reply_name = "RESOURCE_ERROR"


class ConnectionForced(ConnectionException):
    reply_code = 320
    reply_name = "CONNECTION_FORCED"


class InvalidPath(ConnectionException):
    reply_code = 402
    reply_name = "INVALID_PATH"


class NoRoute(ConnectionException):
    """A mandatory message that no queue takes; elsewhere it is returned, with the same code."""

    reply_code = 312
    reply_name = "NO_ROUTE"


class FrameError(ConnectionException):
    reply_code = 501
    reply_name = "FRAME_ERROR"


class UnknownFrameType(FrameError):
    """A frame of a type that AMQP 0-9-1 does not have: the peer may speak another protocol."""


class MalformedFrame(ConnectionException):
    """Arguments that cannot be decoded; the protocol's name for it is SYNTAX_ERROR."""

    reply_code = 502
    reply_name = "SYNTAX_ERROR"


class CommandInvalid(ConnectionException):
    reply_code = 503
    reply_name = "COMMAND_INVALID"


class ChannelError(ConnectionException):
    """A method on a channel that is not in the state for it; closes the connection."""

    reply_code = 504
    reply_name = "CHANNEL_ERROR"


class UnexpectedFrame(ConnectionException):
    reply_code = 505
    reply_name = "UNEXPECTED_FRAME"


class ResourceError(ConnectionException):
    reply_code = 506
    reply_name = "RESOURCE_ERROR"


class StoreError(ResourceError):
    """Data on disk cannot be read or written; names the file and the system's error."""


class NotAllowed(ConnectionException):
    reply_code = 530
    reply_name = "NOT_ALLOWED"


class NotImplementedMethod(ConnectionException):
    reply_code = 540
    reply_name = "NOT_IMPLEMENTED"


class InternalError(ConnectionException):
    reply_code = 541
    reply_name = "INTERNAL_ERROR"
