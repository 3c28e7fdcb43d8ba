"""The fixtures of the pytest plugin, used by a suite of somebody else's."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

# Nothing else in this environment should warn.
STRICT = ("-p", "no:asyncio", "-W", "error")
SEND = """
import pika

def send(url):
    # returns how many messages were in the queue before this one
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    count = channel.queue_declare("orders").method.message_count
    channel.basic_publish("", "orders", b"hello")
    connection.close()
    return count
"""


@pytest.mark.acceptance
def test_a_session_shares_one_broker_and_a_test_can_have_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SEND
        + """
def test_first(amqp_broker, fresh_amqp_broker):
    assert amqp_broker.startswith("amqp://guest:guest@127.0.0.1:")
    assert send(amqp_broker) == 0
    assert send(fresh_amqp_broker) == 0

def test_second(amqp_broker, fresh_amqp_broker):
    assert send(amqp_broker) == 1
    assert send(fresh_amqp_broker) == 0
"""
    )
    pytester.runpytest_subprocess(*STRICT).assert_outcomes(passed=2)


@pytest.mark.acceptance
def test_the_factory_takes_options_and_ends_its_brokers_with_the_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        SEND
        + """
import threading

def broker_threads():
    return [each for each in threading.enumerate() if each.name == "hareline-broker"]

def test_options(amqp_broker_factory, tmp_path):
    broker = amqp_broker_factory(users={"ann": "secret"}, vhosts=["a", "b"], data_dir=tmp_path)
    other = amqp_broker_factory()
    assert broker.url.startswith("amqp://ann:secret@") and broker.url.endswith("/a")
    assert send(broker.url) == send(broker.url_for(vhost="b")) == send(other.url) == 0
    broker.restart()
    assert (tmp_path / "journal").is_dir()
    assert len(broker_threads()) == 2

def test_they_are_gone():
    assert not broker_threads()
"""
    )
    pytester.runpytest_subprocess(*STRICT).assert_outcomes(passed=2)


@pytest.mark.acceptance
def test_a_suite_may_give_the_session_s_broker_options_of_its_own(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
import pytest
from hareline.testing import running_broker

@pytest.fixture(scope="session")
def amqp_broker():
    with running_broker(users={"ann": "secret"}, vhosts=["shop"]) as url:
        yield url
"""
    )
    pytester.makepyfile(
        SEND
        + """
def test_url(amqp_broker):
    assert amqp_broker.startswith("amqp://ann:secret@") and amqp_broker.endswith("/shop")
    assert send(amqp_broker) == 0
"""
    )
    pytester.runpytest_subprocess(*STRICT).assert_outcomes(passed=1)


@pytest.mark.acceptance
def test_a_suite_that_asks_for_no_broker_imports_none(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys

def test_modules():
    modules = {name for name in sys.modules if name.partition(".")[0] == "hareline"}
    assert modules == {"hareline", "hareline.pytest_plugin"}
    assert not {"pydantic", "uvloop", "structlog"} & set(sys.modules)
"""
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
