"""Errors show their code; an error of ours is found in what Spark raises, else the cause."""

from __future__ import annotations

import os

import pytest

from hareline.spark import errors
from hareline.spark.errors import HIDE_TRACEBACK, error_of, sentence_only

IN_A_TASK = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure:
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] \
Failed when running Python streaming data source amqp: Traceback (most recent call last):
  File "range.py", line 12, in read
    raise OffsetGone(...)
hareline.spark.errors.OffsetGone: [OFFSET_GONE] queue 'a [b]' begins at 7, and 5 was wanted
 SQLSTATE: 38000

Driver stacktrace:
"""
IN_A_BATCH = """\
[STREAM_FAILED] Query [id = 4adaefe3, runId = b4e9a8d9] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: Traceback (most recent call last):
  File "layout.py", line 5, in write_batch
pyspark.errors.SparkRuntimeException: [USER_RAISED] no such thing SQLSTATE: P0001
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 4adaefe3]
"""


def test_the_text_begins_with_the_code() -> None:
    error = errors.OffsetGone("queue 'q' begins at 7", first=7)
    assert str(error) == "[OFFSET_GONE] queue 'q' begins at 7"


def test_the_code_is_the_name_of_the_class() -> None:
    assert errors.SparkSideError.code == "FAILED"
    assert errors.NotAStream.code == "NOT_A_STREAM"
    assert errors.InvalidOption.code == "INVALID_OPTION"


def test_an_error_of_ours_keeps_its_class_and_sentence() -> None:
    error = error_of(RuntimeError(IN_A_TASK))
    assert type(error) is errors.OffsetGone
    assert str(error) == "[OFFSET_GONE] queue 'a [b]' begins at 7, and 5 was wanted"


def test_the_last_of_several_errors_counts() -> None:
    first = "hareline.spark.errors.QueueGone: [QUEUE_GONE] queue 'q' is gone\n"
    assert type(error_of(RuntimeError(first + IN_A_TASK))) is errors.OffsetGone


def test_spark_is_asked_to_show_no_traceback_of_ours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE_TRACEBACK, "1")
    monkeypatch.delenv(HIDE_TRACEBACK)

    @sentence_only()
    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())
    assert HIDE_TRACEBACK not in os.environ
    with pytest.raises(errors.QueueGone):
        fail(errors.QueueGone("q"))
    assert os.environ[HIDE_TRACEBACK]
    monkeypatch.setenv(HIDE_TRACEBACK, "")  # as with log level DEBUG
    with pytest.raises(errors.QueueGone):
        fail(errors.QueueGone("q"))
    assert not os.environ[HIDE_TRACEBACK]


def test_an_error_of_ours_is_returned_as_it_is() -> None:
    error = errors.LoginRefused("user 'a'")
    assert error_of(error) is error


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (IN_A_BATCH, "no such thing"),
        (
            "[PATH_NOT_FOUND] No such path: /x. SQLSTATE: 42K03\n;",
            "No such path: /x.",
        ),
        (
            "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: no space left",
            "no space left",
        ),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: amqp. SQLSTATE: 42K02\n\n"
            "JVM stacktrace:\norg.apache.X\nCaused by: java.lang.ClassNotFoundException: amqp.D\n",
            "Failed to find the data source: amqp.",
        ),
        ("Caused by: java.io.IOException: No space left on device", "No space left on device"),
        ("", "RuntimeError"),
        ("hareline.spark.errors.New: [OF_ANOTHER_VERSION] why", "[OF_ANOTHER_VERSION] why"),
    ],
)
def test_another_error_is_its_cause_in_one_line(text: str, sentence: str) -> None:
    error = error_of(RuntimeError(text))
    assert type(error) is errors.SparkSideError
    assert str(error).removeprefix("[FAILED] ").endswith(sentence)
    assert "\n" not in str(error)
    assert "STREAM_FAILED" not in str(error)
    assert "SQLSTATE" not in str(error)
