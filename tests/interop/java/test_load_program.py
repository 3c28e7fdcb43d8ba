"""The Java program of `make bench-jms`, without a broker: it understands each scenario's job."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator

import pytest

from benchmarks.jms.program import LoadProgram, build
from benchmarks.jms.scenarios import JmsScenario, Load
from benchmarks.macro.client import BrokerUrl
from benchmarks.macro.errors import BenchmarkError

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


@pytest.fixture(scope="module")
def java() -> Iterator[LoadProgram]:
    if any(shutil.which(tool) is None for tool in ("java", "javac", "mvn")):
        pytest.skip("a JDK and Maven are not installed")
    try:
        build()
    except BenchmarkError as error:
        text = str(error)
        if "resolve" in text or "transfer" in text:
            pytest.skip("Maven cannot fetch the JMS clients")
        raise
    with LoadProgram() as load:
        yield load


class TestJavaProgram:
    """The program itself, without a broker: it understands each scenario's job."""

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize(
        "load", [Load(), Load(batch=10, is_persistent=True), Load(is_listening=False, is_text=True)]
    )
    def test_a_job_is_understood_and_fails_for_want_of_a_broker(
        self, java: LoadProgram, load: Load
    ) -> None:
        with socket.socket() as bound:  # bound and not listening: refused, and nobody else's
            bound.bind(("127.0.0.1", 0))
            url = BrokerUrl("127.0.0.1", bound.getsockname()[1], "guest", "guest", "/")
            job = JmsScenario(load, java).job(url, "no queue", 0.1, 0.1)
            with pytest.raises(BenchmarkError, match="connection was refused") as raised:
                java.run(job, None, 1.0)
        assert "java.net.ConnectException" in str(raised.value)  # the reason beneath is told, too

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize(
        ("changed", "text"),
        [
            ({"client": "other"}, "client is rabbitmq or qpid, not other"),
            ({"port": "0"}, "port is from 1 to 65535, not 0"),
            ({"size": "many"}, "size is no number: many"),
            ({"host": ""}, "host is missing"),
            ({"surplus": "1"}, "nothing is called [surplus]"),
            ({"batch": "2"}, "batch=2 without transactions"),
        ],
    )
    def test_a_wrong_word_of_a_job_is_named(
        self, java: LoadProgram, changed: dict[str, object], text: str
    ) -> None:
        url = BrokerUrl("127.0.0.1", 1, "guest", "guest", "/")
        job = {**JmsScenario(Load(), java).job(url, "q", 0.1, 0.1), **changed}
        with pytest.raises(BenchmarkError) as raised:
            java.run(job, None, 1.0)
        assert text in str(raised.value)
