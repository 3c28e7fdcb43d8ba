"""RabbitMQ's health checks: 200 while all is well, and 503 with what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hareline.amqp.alarms import Resource
from hareline.settings import Limits
from tests.support.api_broker import ApiBroker, api_broker, api_settings

OK = {"status": "ok"}
CHECKS = [
    "alarms",
    "local-alarms",
    "virtual-hosts",
    "is-in-service",
    "ready-to-serve-clients",
    "below-node-connection-limit",
    "node-is-quorum-critical",
    "node-is-mirror-sync-critical",
    "reached-target-cluster-size",
    "certificate-expiration/4/weeks",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "quorum-queues-without-elected-leaders/vhost/%2F",
    "quorum-queues-without-elected-leaders/all-vhosts/pattern/%5Eq",
    "quorum-queues-without-elected-leaders/vhost/%2F/pattern/%5Eq",
    "metadata-store/initialized",
    "metadata-store/initialized/with-data",
    "protocol-listener/amqp",
    "protocol-listener/amqp091",
    "protocol-listener/http",
]


@contextmanager
def alarm(broker: ApiBroker, resource: Resource) -> Iterator[None]:
    broker.thread.ask(lambda running: running.context.alarms.set(resource))
    try:
        yield
    finally:
        broker.thread.ask(lambda running: running.context.alarms.clear(resource))


@pytest.mark.acceptance
@pytest.mark.parametrize("check", CHECKS)
def test_a_broker_that_works_passes(broker: ApiBroker, check: str) -> None:
    found = broker.get(f"/health/checks/{check}", "manager")
    assert found["status"] == "ok"
    assert "reason" not in found


@pytest.mark.acceptance
def test_an_alarm_is_named_with_its_node(broker: ApiBroker) -> None:
    node = broker.get("/overview")["node"]
    for check in ("alarms", "local-alarms"):
        with alarm(broker, "memory"):
            status, failure = broker.refused(f"/health/checks/{check}")
        assert (status, failure["status"]) == (503, "failed")
        assert failure["alarms"] == [{"node": node, "resource": "memory"}]
        assert "alarms in effect" in failure["reason"]
    with alarm(broker, "disk"):
        assert broker.get("/healthchecks/node")["status"] == "failed"
    assert broker.get("/healthchecks/node") == OK


def test_a_port_that_nothing_listens_on_is_named_with_those_that_are(broker: ApiBroker) -> None:
    port = broker.thread.address[1]
    assert broker.get(f"/health/checks/port-listener/{port}") == {"status": "ok", "port": port}
    status, failure = broker.refused("/health/checks/port-listener/1")
    assert (status, failure["missing"], failure["reason"]) == (503, 1, "No active listener")
    assert port in failure["ports"]
    assert broker.refused("/health/checks/port-listener/x")[0] == 400


def test_a_protocol_that_is_not_spoken_is_named(broker: ApiBroker) -> None:
    status, failure = broker.refused("/health/checks/protocol-listener/mqtt")
    assert (status, failure["missing"]) == (503, "mqtt")
    assert sorted(failure["protocols"]) == ["amqp", "http"]


@pytest.mark.parametrize("path", ["x/weeks", "4/fortnights"])
def test_a_time_span_that_is_not_one_is_refused(broker: ApiBroker, path: str) -> None:
    assert broker.refused(f"/health/checks/certificate-expiration/{path}")[0] == 400


@pytest.mark.acceptance
def test_a_broker_that_stops_or_whose_store_has_failed_is_not_in_service(
    broker: ApiBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = broker.thread.broker
    monkeypatch.setattr(running, "is_stopping", True)
    for check in ("is-in-service", "ready-to-serve-clients"):
        status, failure = broker.refused(f"/health/checks/{check}")
        assert status == 503
        assert "stopping" in failure["reason"]
    monkeypatch.undo()
    monkeypatch.setattr(running._store, "failure", "the disk is gone")
    for check in ("is-in-service", "virtual-hosts"):
        assert broker.refused(f"/health/checks/{check}")[0] == 503
    failure = broker.refused("/health/checks/is-in-service")[1]
    assert failure["status"] == "failed"


@pytest.mark.acceptance
def test_the_connection_limit_counts_all_connections() -> None:
    with api_broker(api_settings(limits=Limits(max_connections=2))) as broker:
        broker.connect()
        assert broker.get("/health/checks/below-node-connection-limit") == OK
        broker.connect()
        status, failure = broker.refused("/health/checks/below-node-connection-limit")
        assert (status, failure["limit"], failure["connections"]) == (503, 2, 2)


def test_a_message_goes_through_the_aliveness_test(broker: ApiBroker) -> None:
    for _ in range(2):
        assert broker.get("/aliveness-test/%2F") == OK
    [queue] = [row for row in broker.get("/queues/%2F") if row["name"] == "aliveness-test"]
    assert (queue["messages"], queue["durable"]) == (0, False)
    assert broker.refused("/aliveness-test/other")[0] == 401


@pytest.mark.acceptance
def test_checks_need_a_login(broker: ApiBroker) -> None:
    assert broker.http.ask("GET", "/api/health/checks/alarms").status_code == 401
    assert broker.http.ask("GET", "/api/health").status_code == 200
