"""Error of ours inside one that Spark raises.

Source and sink run in processes of their own, so their errors arrive as text inside an error of
Spark: class and code, where Spark would put a traceback in front. pyspark is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hareline.spark import errors
from hareline.spark.errors import SparkSideError

_CLASSES: Final[dict[str, type[SparkSideError]]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, SparkSideError)
}
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
#: Of a process that runs Python for Spark: leave out tracebacks of errors, unless empty.
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


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
    # The last one is the cause, if one error led to another.
    for code, sentence in reversed(_RAISED.findall(text)):
        if code in _CLASSES:
            return _CLASSES[code](_SQL_STATE.sub("", sentence))
    causes = _CAUSE.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = (lines or [type(raised).__name__])[0]
    is_cause = _SPARK_CLASS.match(first) and not _WRAPPER.match(first)
    sentence = first if is_cause or not causes else causes[-1]
    for superfluous in (_SPARK_CLASS, _QUERY, _SPARK_CLASS, _SQL_STATE):
        sentence = superfluous.sub("", sentence)
    return SparkSideError(sentence[:_TEXT_MAX])
