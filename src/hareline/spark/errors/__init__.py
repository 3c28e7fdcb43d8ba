"""Errors between Spark and the broker: one class for each thing a user can do about it.

The text names what was wrong and what to do. Source and sink run in processes of their own, whose
errors come back as text inside an error of Spark; so each begins with its class in capitals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from hareline.errors import HarelineError

#: Of a process that runs Python for Spark: leave out tracebacks of errors, unless empty.
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_RAISED: Final = re.compile(r"hareline\.spark\.errors\.\w+: \[([A-Z_]+)\] ([^\n]*)")
#: The last line of a traceback, of Python or of Java.
_CAUSE: Final = re.compile(
    r"^(?:Caused by: )?[\w.]+(?:Error|Exception)\w*: (\S[^\n]*)", re.MULTILINE
)
_QUERY: Final = re.compile(r"^Query \[id = [^]]*\] terminated with exception: ")
#: Spark's own class of an error, and its number in the SQL standard.
_SPARK_CLASS: Final = re.compile(r"^\[[A-Z_.0-9]+\] ")
#: Classes of errors that only wrap another one, which stands further down.
_WRAPPER: Final = re.compile(r"^\[(STREAM_FAILED|FOREACH_BATCH|PYTHON_|FAILED_|TASK_WRITE)")
_SQL_STATE: Final = re.compile(r"( SQLSTATE: \w{5})+$")
_TEXT_MAX: Final = 500


class SparkSideError(HarelineError):
    """The root of these errors. ``code``: QUEUE_GONE for the class QueueGone."""

    code: ClassVar[str] = "FAILED"

    def __init_subclass__(cls) -> None:
        cls.code = _WORDS.sub("_", cls.__name__).upper()

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class InvalidOption(SparkSideError):
    """An option that is unknown, missing, contradictory, or has a wrong value."""


class LoginRefused(SparkSideError):
    """The broker refused user and password, or the user lacks a right."""


class BrokerUnreachable(SparkSideError):
    """The broker did not answer, for as long as the options allow."""


class BrokerRefused(SparkSideError):
    """The broker answered with an error that no other class here stands for."""


class QueueGone(SparkSideError):
    """A stream does not exist, or does not any more."""


class NotAStream(SparkSideError):
    """A queue that is not a stream and so cannot be read again."""


class IncarnationChanged(SparkSideError):
    """A stream was deleted and declared again, so that its offsets mean other messages."""


class OffsetGone(SparkSideError):
    """Messages that were to be read have been dropped by the stream's retention.

    ``first``: offset of the oldest message that is still there; None if it is not known.
    """

    def __init__(self, text: str, first: int | None = None) -> None:
        super().__init__(text)
        self.first = first


class TailRegressed(SparkSideError):
    """The stream ends before what was to be read: the broker lost what it had promised."""


class MessagesMissing(SparkSideError):
    """A range that the broker answered has gaps, or cannot be read from its disk.

    ``first``: offset of the next message that can be read; None if it is not known.
    """

    def __init__(self, text: str, first: int | None = None) -> None:
        super().__init__(text)
        self.first = first


class MessageTooLarge(SparkSideError):
    """A message with more octets than one row may have."""


class InvalidRows(SparkSideError):
    """Columns that the sink does not know or cannot do without, or a value no message can have."""


class PublishRefused(SparkSideError):
    """The broker returned, or did not confirm, messages that were written."""


class EnvironmentMissing(SparkSideError):
    """Java, pyspark or pyarrow is missing, or of a version that does not do."""


@contextmanager
def sentence_only() -> Iterator[None]:
    """Have Spark show an error of ours without its traceback; also a decorator.

    For the calls of Spark, in the processes that it makes for them. Such a process ends with the
    error, so no error of the user's own code is cut short.
    """
    try:
        yield
    except SparkSideError:
        os.environ.setdefault(HIDE_TRACEBACK, "1")
        raise


def error_of(raised: BaseException) -> SparkSideError:
    """The error of ours inside one that Spark raised, or SparkSideError with its cause."""
    if isinstance(raised, SparkSideError):
        return raised
    text = str(raised)
    classes: list[type[SparkSideError]] = [SparkSideError, *SparkSideError.__subclasses__()]
    by_code = {each.code: each for each in classes}
    # The last one is the cause, if one error led to another.
    for code, sentence in reversed(_RAISED.findall(text)):
        if code in by_code:
            return by_code[code](_SQL_STATE.sub("", sentence))
    causes = _CAUSE.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = (lines or [type(raised).__name__])[0]
    is_cause = _SPARK_CLASS.match(first) and not _WRAPPER.match(first)
    sentence = first if is_cause or not causes else causes[-1]
    for superfluous in (_SPARK_CLASS, _QUERY, _SPARK_CLASS, _SQL_STATE):
        sentence = superfluous.sub("", sentence)
    return SparkSideError(sentence[:_TEXT_MAX])
