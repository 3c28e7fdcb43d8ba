"""perf-test, the load tool of the RabbitMQ Java client, runs against the broker as it comes.

Maven copies it and its dependencies to ``.cache/interop-perf-test``. Only that it works is tested
here; how fast the broker is, is a matter for ``benchmarks/``.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from ..suite_runs import CACHE, need_programs, reason_line, run

need_programs("mvn", "java")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

MODULE = Path(__file__).parents[1] / "perf-test"
POM = MODULE / "pom.xml"
CLASSPATH = CACHE / "interop-perf-test"
MAIN_CLASS = "com.rabbitmq.perf.PerfTest"

COPY_TIMEOUT_S = 400
RUN_TIMEOUT_S = 180
AVERAGE = re.compile(r"(?P<direction>sending|receiving) rate avg: (?P<rate>\d+) msg/s")
FAILURE = re.compile(r"Exception|Main thread caught|ERROR", re.MULTILINE)


@pytest.fixture(scope="module")
def perf_test_jars() -> Path:
    """The directory with the tool and all it depends on; fetched when pom.xml changed."""
    stamp = CLASSPATH / "copied.xml"
    if not stamp.exists() or stamp.read_text("utf-8") != POM.read_text("utf-8"):
        shutil.rmtree(CLASSPATH, ignore_errors=True)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-Dstyle.color=never"]
        command += [f"-DoutputDirectory={CLASSPATH}"]
        copied = run(command, cwd=MODULE, timeout_s=COPY_TIMEOUT_S)
        if copied.status != 0:
            pytest.skip(f"Maven cannot fetch perf-test: {reason_line(copied.output)}")
        shutil.copy(POM, stamp)
    return CLASSPATH


@pytest.mark.parametrize(
    "options",
    [
        "-x 1 -y 1 -z 5 --confirm 100",
        "-x 1 -y 1 -z 3 --autoack",
        "-x 2 -y 2 -z 3 --qos 50 --multi-ack-every 10 --flag persistent --flag mandatory",
    ],
)
def test_perf_test_sends_and_receives(
    broker: BrokerUnderTest, perf_test_jars: Path, tmp_path: Path, name: str, options: str
) -> None:
    command = ["java", "-cp", f"{perf_test_jars}/*", MAIN_CLASS, "--uri", broker.url]
    command += ["--id", name, "--queue", name, "--auto-delete", "true", *options.split()]
    finished = run(command, cwd=tmp_path, timeout_s=RUN_TIMEOUT_S)
    assert finished.status == 0, finished.tail
    assert not FAILURE.search(finished.output), finished.tail
    rates = {match["direction"]: int(match["rate"]) for match in AVERAGE.finditer(finished.output)}
    assert rates.keys() == {"sending", "receiving"}, finished.tail
    assert min(rates.values()) > 0, finished.tail
