"""Metrics over real HTTP, and what config/ shows and alerts on: every metric there is exported."""

from __future__ import annotations

import base64
import http.client
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_for

from .conftest import StartDaemon

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

CONFIG: Final = Path(__file__).resolve().parent.parent.parent / "config"
DASHBOARD: Final = CONFIG / "grafana" / "hareline-overview.json"
ALERTS: Final = CONFIG / "prometheus" / "alerts.yml"
_METRIC: Final = re.compile(r"\b(?:rabbitmq|hareline)_\w+")
_LABELS: Final = frozenset({"rabbitmq_cluster", "rabbitmq_node", "rabbitmq_endpoint"})
USERS: Final = """
[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]
permissions = [{vhost = "/", configure = ".*", write = ".*", read = ".*"}]
[[users]]
name = "watcher"
password = "secret"
tags = ["monitoring"]
[[users]]
name = "nobody"
password = "secret"
"""


def get(port: int, path: str, login: str = "") -> tuple[int, dict[str, str], str]:
    """Status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {}
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def port_of(broker: BrokerProcess) -> int:
    port = broker.management_port
    assert port is not None
    return port


def scrape(broker: BrokerProcess, path: str = "/metrics") -> dict[str, Metric]:
    status, headers, text = get(port_of(broker), path)
    assert status == 200, text
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture
def busy(start_daemon: StartDaemon) -> BrokerProcess:
    """A broker with all that can be switched on, some queues and a client."""
    broker = start_daemon('[events]\nvhost = "/"\n[[vhosts]]\nname = "/"\ntracing = true\n')
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("durable", durable=True)
        for _ in range(3):
            channel.basic_publish("", "durable", b"x", pika.BasicProperties(delivery_mode=2))
        channel.basic_get("durable", auto_ack=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "durable"}
        channel.queue_declare("dying", arguments={**arguments, "x-message-ttl": 0})
        channel.basic_publish("", "dying", b"x")
    return broker


ENDPOINTS: Final = (
    "/metrics",
    "/metrics/per-object",
    "/metrics/memory-breakdown",
    "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&vhost=/",
)


def exported(broker: BrokerProcess) -> set[str]:
    """The names of all samples that any endpoint shows."""
    names = set()
    for path in ENDPOINTS:
        for family in scrape(broker, path).values():
            names |= {each.name for each in family.samples} | {family.name}
    return names


def test_a_busy_broker_says_what_it_does(busy: BrokerProcess) -> None:
    def value(name: str, **labels: str) -> float:
        families = scrape(busy)
        (found,) = [
            each.value
            for family in families.values()
            for each in family.samples
            if each.name == name and each.labels.items() >= labels.items()
        ]
        return found

    assert value("rabbitmq_queues") == 2
    assert value("rabbitmq_global_messages_received_total", protocol="amqp091") == 4
    assert value("rabbitmq_connections_opened_total") == 1
    assert value("rabbitmq_resident_memory_limit_bytes") > 0
    assert value("rabbitmq_disk_space_available_bytes") > 0
    assert value("rabbitmq_process_open_fds") > 3
    assert value("hareline_journal_sync_seconds_count") >= 1
    assert value("hareline_turn_seconds_count") >= 1
    assert value("rabbitmq_identity_info", rabbitmq_endpoint="aggregated") == 1
    assert value("hareline_firehose_messages_total", vhost="/", outcome="lost") == 0
    wait_for(
        lambda: value("hareline_messages_dead_lettered_total", reason="expired") == 1,
        30.0,
        "the dead letter",
    )
    wait_for(lambda: value("hareline_event_loop_lag_seconds_count") > 1, 30.0, "a look at the lag")


def expressions(value: Any) -> list[str]:
    """All values of ``expr`` and of queries in a dashboard."""
    if isinstance(value, dict):
        found = [each for key, each in value.items() if key in ("expr", "definition")]
        return [*found, *(text for each in value.values() for text in expressions(each))]
    if isinstance(value, list):
        return [text for each in value for text in expressions(each)]
    return []


def metrics_in(texts: list[str]) -> set[str]:
    return {name for text in texts for name in _METRIC.findall(text)} - _LABELS


def test_the_dashboard_shows_what_is_exported(busy: BrokerProcess) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    names = metrics_in(expressions(dashboard))
    assert len(names) > 40
    assert names <= exported(busy)
    assert {each["name"] for each in dashboard["templating"]["list"]} == {
        "DS_PROMETHEUS",
        "namespace",
        "rabbitmq_cluster",
    }


def test_alerts_go_by_what_is_exported(busy: BrokerProcess) -> None:
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    names = metrics_in([rule["expr"] for rule in rules])
    assert len(names) > 15
    assert names <= exported(busy)
    page = (CONFIG.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    for rule in rules:
        assert f"`{rule['alert']}`" in page
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_the_page_names_every_metric_of_our_own(busy: BrokerProcess) -> None:
    page = (CONFIG.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    suffixes = re.compile(r"_(bucket|sum|count|created)$")
    names = {suffixes.sub("", name) for name in exported(busy) if name.startswith("hareline_")}
    names -= {name for name in names if f"{name}_total" in names}
    assert names
    missing = [name for name in sorted(names) if name not in page]
    assert not missing


def test_wrong_questions_are_refused_with_what_is_right(start_daemon: StartDaemon) -> None:
    port = port_of(start_daemon())
    status, _, text = get(port, "/metrics/detailed?family=queue_coarse")
    assert status == 400
    assert "there is no 'queue_coarse'" in text
    assert "queue_coarse_metrics" in text
    status, _, text = get(port, "/metrics/detailed?queue=q")
    assert (status, "there is no argument 'queue'" in text) == (400, True)
    assert get(port, "/metrics/detailed?family=ra_metrics")[0] == 200


def test_a_login_is_asked_for_where_it_is_wanted(start_daemon: StartDaemon) -> None:
    port = port_of(
        start_daemon(f"[metrics]\nauthentication = true\n[auth]\nfailure_delay_s = 0\n{USERS}")
    )
    assert get(port, "/metrics")[0] == 401
    assert get(port, "/metrics", "watcher:wrong")[0] == 401
    assert get(port, "/metrics", "nobody:secret")[0] == 401
    for login in ("watcher:secret", "guest:guest"):
        assert get(port, "/metrics", login)[0] == 200


def test_a_port_of_its_own_has_metrics_alone(start_daemon: StartDaemon) -> None:
    broker = start_daemon("[metrics]\nlistener = true\nport = 0\n")
    text = broker.log_tail()
    found = re.search(r"listening on http://127\.0\.0\.1:(\d+)/metrics", text)
    assert found, text
    port = int(found[1])
    assert port != broker.management_port
    assert get(port, "/metrics")[0] == 200
    assert get(port, "/api/whoami", "guest:guest")[0] == 404


def test_metrics_can_be_switched_off(start_daemon: StartDaemon) -> None:
    assert get(port_of(start_daemon("[metrics]\nenabled = false\n")), "/metrics")[0] == 404
