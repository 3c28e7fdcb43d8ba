"""The session that `hareline.spark.session` makes does what the source and the sink rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.support.stream_server import stream_server


@pytest.mark.acceptance
def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


@pytest.mark.acceptance
def test_a_task_that_fails_is_tried_again(spark: SparkSession) -> None:
    def fail_twice(_: int) -> int:
        context = TaskContext.get()
        assert context is not None
        attempt: int = context.attemptNumber()
        if attempt < 2:
            raise RuntimeError("an attempt that fails on purpose")
        return attempt

    assert spark.sparkContext.parallelize([0], 1).map(fail_twice).collect() == [2]


@pytest.mark.acceptance
def test_the_source_is_found_where_the_path_of_python_has_a_space(tmp_path: Path) -> None:
    python = tmp_path / "a space" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    code = (
        "from hareline.spark.session import session\n"
        "session('test', is_short=True).read.format('amqp').load()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "[INVALID_OPTION]" in ended.stderr, ended.stderr  # the source's own words
    assert "DATA_SOURCE_NOT_FOUND" not in ended.stderr


@pytest.mark.acceptance
def test_errors_are_sentences_and_an_early_end_is_none() -> None:
    code = """
import sys
from hareline.spark.session import session
spark = session("test", master="local[2]", is_short=True)
source = dict(zip(sys.argv[1::2], sys.argv[2::2]))
def read(**more):
    return spark.read.format("amqp").options(**source, **more).load()
print(len(read(queue="q").limit(5).collect()))
for broken in (
    lambda: read(queue="none").count(),
    lambda: read(queue="q", maxOffsetsPerTrigger="1"),
    lambda: read(queue="q").where("offset > 'abc'").count(),
):
    try:
        broken()
    except Exception as error:
        print(error)
"""
    with stream_server() as server:
        server.fill("q", 60_000)
        given = [text for pair in server.options.items() for text in pair]
        ended = subprocess.run(
            [sys.executable, "-c", code, *given],
            capture_output=True,
            text=True,
            check=False,
        )
    lines = ended.stdout.splitlines()
    assert lines[0] == "5", ended.stderr
    assert "[QUEUE_GONE] there is no stream 'none' in virtual host '/' at http://" in lines[1]
    assert any("did you mean 'maxRecordsPerTrigger'" in line for line in lines)
    assert "CAST_INVALID_INPUT" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "stacktrace" not in ended.stderr


def test_times_are_utc_and_filters_reach_the_source(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.parquet.compression.codec") == "zstd"
    assert spark.sparkContext.uiWebUrl is None
