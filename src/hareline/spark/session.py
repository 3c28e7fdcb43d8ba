"""A Spark session fit for reading and writing streams of the broker, or one sentence why not.

Whatever Spark would report late and at length (no Java, an old Java, no pyspark) is checked before
a Java process is started. Importing this module imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hareline.spark.errors import HIDE_TRACEBACK, EnvironmentMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java that Spark 4 runs on.
JAVA_MIN: Final = 17
PYSPARK_MIN: Final = (4, 2)
#: All cores, and four attempts for each task: ``local[*]`` would give up at the first failure.
LOCAL_MASTER: Final = "local[*,4]"
#: Set by spark-submit, which has started the Java side and chosen the master.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_LOOPBACK: Final = "127.0.0.1"
_JAVA_SECONDS_MAX: Final = 30
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL_EXTRA: Final = (
    "install it with: pip install '.[spark]' in a clone, "
    "or './hareline-VERSION.whl[spark]' of a wheel"
)
_SHORT_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


def session(
    name: str = "hareline",
    *,
    master: str | None = None,
    driver_memory: str = "1g",
    log_level: str = "ERROR",
    is_short: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine's cores, or on ``master`` (``spark://...``, ``k8s://...``).

    ``log_level`` DEBUG also shows tracebacks, of Java and of Python.
    ``is_short``: for a job of a minute or two on this machine, which then needs half the processor
    time; Java compiles it quickly and not well, so a long one would take longer.
    ``settings`` are Spark's own (``spark.executor.memory``) and override those made here. A
    session that this process has already is returned as it is, with the settings that can change.
    Under spark-submit the master is the one given there. Raises EnvironmentMissing.
    """
    is_submitted = _SUBMITTED in os.environ
    check_environment(needs_java=not is_submitted)
    if master is None and not is_submitted:
        master = LOCAL_MASTER
    is_local = master is not None and master.startswith("local")
    if is_local:
        # Spark reads these from the environment when its Java process starts.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    is_debug = log_level.upper() == "DEBUG"
    if is_debug:
        os.environ[HIDE_TRACEBACK] = ""

    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from hareline.spark.datasource import AmqpDataSource

    for logger in _QUERY_LOGGERS:
        # They log errors that are raised as well, as JSON with a traceback.
        PySparkLogger.getLogger(logger).setLevel("ERROR" if is_debug else "CRITICAL")
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    made = default_settings(
        driver_memory, is_local=is_local, is_short=is_short, is_debug=is_debug
    ) | dict(settings or {})
    for key, value in made.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    # Not by ``spark.log.level``, which is announced on standard error.
    spark.sparkContext.setLogLevel(log_level)
    # Spark finds none itself where the path of the interpreter has a space in it.
    spark.dataSource.register(AmqpDataSource)
    return spark


def default_settings(
    driver_memory: str, *, is_local: bool, is_short: bool = False, is_debug: bool = False
) -> dict[str, str]:
    """Spark's settings for a session: what the source and the pipelines rely on, and quiet.

    ``is_debug``: with the tracebacks in Spark's log.
    """
    made = {
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.python.filterPushdown.enabled": "true",
        # A second attempt that runs beside the first one would publish everything twice.
        "spark.speculation": "false",
    }
    if is_local:
        made["spark.driver.bindAddress"] = _LOOPBACK
        made["spark.driver.host"] = _LOOPBACK
        made["spark.python.daemon.module"] = "hareline.spark.worker_daemon"
        java_options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"]
        if is_debug:
            java_options.append("-Dhareline.spark.traceback=full")
        if is_short:
            java_options += _SHORT_JAVA_OPTIONS
        made["spark.driver.extraJavaOptions"] = " ".join(java_options)
    return made


def check_environment(*, needs_java: bool = True) -> None:
    """Raise EnvironmentMissing if pyspark, pyarrow or a Java that can run them is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentMissing(f"pyspark is missing; {_INSTALL_EXTRA}")
    version = importlib.metadata.version("pyspark")
    if tuple(int(each) for each in re.findall(r"\d+", version)[:2]) < PYSPARK_MIN:
        oldest = ".".join(map(str, PYSPARK_MIN))
        raise EnvironmentMissing(
            f"pyspark {version} is too old, {oldest} is needed; {_INSTALL_EXTRA}"
        )
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentMissing(f"pyarrow is missing; {_INSTALL_EXTRA}")
    if needs_java:
        _check_java()


def _check_java() -> None:
    """Raise EnvironmentMissing if the Java that Spark would start is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {JAVA_MIN} or newer, and set JAVA_HOME if it is not on PATH"
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise EnvironmentMissing(f"Spark needs Java, and there is none {where}; {advice}")
    try:
        run = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_JAVA_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentMissing(f"{java} does not run ({error}); {advice}") from None
    found = _JAVA_VERSION.search(run.stderr + run.stdout)
    if found is None:
        raise EnvironmentMissing(f"'{java} -version' names no version; {advice}")
    if int(found[1]) < JAVA_MIN:
        raise EnvironmentMissing(f"Spark needs Java {JAVA_MIN}, and {java} is {found[1]}; {advice}")
