"""Errors between Spark and the broker: one class for each thing a user can do about it.

The text of an error names what was wrong and what to do. ``code`` is a word that stays the same,
and begins the text, because Spark shows the text of a Python error and not its class.
"""

from __future__ import annotations

from typing import ClassVar

from hareline.errors import HarelineError


class SparkSideError(HarelineError):
    """The root of these errors."""

    code: ClassVar[str] = "FAILED"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class InvalidOption(SparkSideError):
    """An option that is unknown, missing, contradictory, or has a wrong value."""

    code = "INVALID_OPTION"


class LoginRefused(SparkSideError):
    """The broker refused user and password, or the user lacks a right."""

    code = "LOGIN_REFUSED"


class BrokerUnreachable(SparkSideError):
    """The broker did not answer, for as long as the options allow."""

    code = "BROKER_UNREACHABLE"


class BrokerRefused(SparkSideError):
    """The broker answered with an error that no other class here stands for."""

    code = "BROKER_REFUSED"


class QueueGone(SparkSideError):
    """A stream does not exist, or does not any more."""

    code = "QUEUE_GONE"


class NotAStream(SparkSideError):
    """A queue that is not a stream and so cannot be read again."""

    code = "NOT_A_STREAM"


class IncarnationChanged(SparkSideError):
    """A stream was deleted and declared again, so that its offsets mean other messages."""

    code = "INCARNATION_CHANGED"


class OffsetGone(SparkSideError):
    """Messages that were to be read have been dropped by the stream's retention.

    ``first``: offset of the oldest message that is still there; None if it is not known.
    """

    code = "OFFSET_GONE"

    def __init__(self, text: str, first: int | None = None) -> None:
        super().__init__(text)
        self.first = first


class TailRegressed(SparkSideError):
    """The stream ends before what was to be read: the broker lost what it had promised."""

    code = "TAIL_REGRESSED"


class MessagesMissing(SparkSideError):
    """A range that the broker answered has gaps, or cannot be read from its disk.

    ``first``: offset of the next message that can be read; None if it is not known.
    """

    code = "MESSAGES_MISSING"

    def __init__(self, text: str, first: int | None = None) -> None:
        super().__init__(text)
        self.first = first


class MessageTooLarge(SparkSideError):
    """A message with more octets than one row may have."""

    code = "MESSAGE_TOO_LARGE"


class InvalidRows(SparkSideError):
    """Columns that the sink does not know or cannot do without, or a value no message can have."""

    code = "INVALID_ROWS"


class PublishRefused(SparkSideError):
    """The broker returned, or did not confirm, messages that were written."""

    code = "PUBLISH_REFUSED"


class EnvironmentMissing(SparkSideError):
    """Java, pyspark or pyarrow is missing, or of a version that does not do."""

    code = "ENVIRONMENT_MISSING"
