"""Metrics over real HTTP, and what config/ shows and alerts on: every metric there is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

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


def get(url: str, path: str, login: str = "") -> httpx.Response:
    user, _, password = login.partition(":")
    return HttpApi(url, user or None, password).ask("GET", path)


def scrape(broker: BrokerProcess, path: str = "/metrics") -> dict[str, Metric]:
    answer = get(broker.management_url, path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


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


@pytest.mark.acceptance
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
        60.0,
        "the dead letter",
    )
    wait_for(lambda: value("hareline_event_loop_lag_seconds_count") > 1, 60.0, "a look at the lag")


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


@pytest.mark.acceptance
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


@pytest.mark.acceptance
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


@pytest.mark.acceptance
def test_the_page_names_every_metric_of_our_own(busy: BrokerProcess) -> None:
    page = (CONFIG.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    suffixes = re.compile(r"_(bucket|sum|count|created)$")
    names = {suffixes.sub("", name) for name in exported(busy) if name.startswith("hareline_")}
    names -= {name for name in names if f"{name}_total" in names}
    assert names
    missing = [name for name in sorted(names) if name not in page]
    assert not missing


@pytest.mark.acceptance
def test_wrong_questions_are_refused_with_what_is_right(start_daemon: StartDaemon) -> None:
    url = start_daemon().management_url
    wrong = get(url, "/metrics/detailed?family=queue_coarse")
    assert wrong.status_code == 400
    assert "there is no 'queue_coarse'" in wrong.text
    assert "queue_coarse_metrics" in wrong.text
    wrong = get(url, "/metrics/detailed?queue=q")
    assert (wrong.status_code, "there is no argument 'queue'" in wrong.text) == (400, True)
    assert get(url, "/metrics/detailed?family=ra_metrics").status_code == 200


@pytest.mark.acceptance
def test_a_login_is_asked_for_where_it_is_wanted(start_daemon: StartDaemon) -> None:
    url = start_daemon(
        f"[metrics]\nauthentication = true\n[auth]\nfailure_delay_s = 0\n{USERS}"
    ).management_url
    assert get(url, "/metrics").status_code == 401
    assert get(url, "/metrics", "watcher:wrong").status_code == 401
    assert get(url, "/metrics", "nobody:secret").status_code == 401
    for login in ("watcher:secret", "guest:guest"):
        assert get(url, "/metrics", login).status_code == 200


@pytest.mark.acceptance
def test_a_port_of_its_own_has_metrics_alone(start_daemon: StartDaemon) -> None:
    broker = start_daemon("[metrics]\nlistener = true\nport = 0\n")
    text = broker.log_tail()
    found = re.search(r"listening on http://127\.0\.0\.1:(\d+)/metrics", text)
    assert found, text
    url = f"http://127.0.0.1:{found[1]}"
    assert url != broker.management_url
    assert get(url, "/metrics").status_code == 200
    assert get(url, "/api/whoami", "guest:guest").status_code == 404


@pytest.mark.acceptance
def test_metrics_can_be_switched_off(start_daemon: StartDaemon) -> None:
    url = start_daemon("[metrics]\nenabled = false\n").management_url
    assert get(url, "/metrics").status_code == 404
