"""The metrics of RabbitMQ 3.10 and of this broker after the same story: names, types and labels.

What RabbitMQ has and this broker has not is in a table here with its reason, and so is what has
other labels; docs/metrics.md tells users the same. An entry that is no longer needed fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.macro.brokers import RabbitMQ
from tests.support.broker_process import StartDaemon
from tests.support.http_api import HttpApi
from tests.support.rabbitmq_management import installed_rabbitmq
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

pytestmark = pytest.mark.acceptance

PATHS: Final = (
    "/metrics",
    "/metrics/per-object",
    "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&family=queue_consumer_count"
    "&family=channel_metrics&family=channel_queue_metrics&family=channel_exchange_metrics"
    "&family=connection_metrics&family=connection_coarse_metrics"
    "&family=channel_queue_exchange_metrics&family=vhost_status&family=exchange_names"
    "&family=exchange_bindings",
)

#: Patterns of names that RabbitMQ has and this broker has not.
MISSING_HERE: Final = {
    r"erlang_.*": "there is no Erlang",
    r"rabbitmq_erlang_(?!uptime_seconds).*": "there is no Erlang",
    r"rabbitmq_(detailed_)?\w+_process_reductions": "there are no processes",
    r"telemetry_.*|prometheus_.*|process_start_time_seconds": "the exporter measures itself",
    r"rabbitmq_auth_attempts_detailed.*": "not counted by source",
    r"rabbitmq_global_messages_dead_lettered_confirmed": "RabbitMQ's strategy at-least-once",
    r"rabbitmq_raft_.*": "there is no Raft",
    r"rabbitmq_schema_db_.*|rabbitmq_msg_store_.*|rabbitmq_queue_index_.*": "another store",
    r"rabbitmq_io_(read|seek|open_attempt|reopen)_.*": "not counted by this store",
    r"rabbitmq_(detailed_)?queue_messages_(ready|unacked)_ram": "not counted apart",
}
#: Name -> labels that RabbitMQ gives it and this broker does not, and the other way round.
LABELS_DIFFER: Final = {
    "rabbitmq_build_info": (
        "prometheus_plugin_version prometheus_client_version erlang_version",
        "product_name product_version python_version",
    ),
    "rabbitmq_identity_info": ("rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"),
}


#: Pattern of names -> the same for many; docs/metrics.md says why.
LABEL_GROUPS: Final = {
    r"rabbitmq_(detailed_)?channel_(get|messages_(delivered|redelivered|acked))\w*": (
        "vhost queue",
        "",
    ),
    r"rabbitmq_(detailed_)?channel_messages_(published|confirmed|unroutable)\w*": (
        "vhost exchange",
        "",
    ),
    r"rabbitmq_(detailed_)?connection_(incoming|outgoing|pending|channels)\w*": (
        "channel",
        "connection",
    ),
    r"rabbitmq_(detailed_)?queue_messages_published": (
        "channel queue_vhost exchange_vhost exchange",
        "vhost",
    ),
}


@pytest.fixture
def here(start_daemon: StartDaemon) -> tuple[str, str]:
    """The URLs for AMQP and HTTP of a broker of ours."""
    broker = start_daemon()
    return broker.url, broker.management_url


@pytest.fixture
def there() -> Iterator[tuple[str, str]]:
    """The URLs for AMQP and HTTP of a RabbitMQ with its plugin."""
    configuration = (
        "prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {http_port}\n"
        "collect_statistics_interval = 1000\n"
    )
    server = RabbitMQ(installed_rabbitmq(), ("rabbitmq_prometheus",), configuration)
    with server:
        yield server.url, f"http://127.0.0.1:{server.http_port}"


Found = dict[str, tuple[str, frozenset[str], str]]  # name -> type, names of labels, help


def found_at(url: str) -> Found:
    """The families of all endpoints by name; labels are those of any sample."""
    found: Found = {}
    for path in PATHS:
        text = HttpApi(url, None).ask("GET", path).text
        for family in text_string_to_metric_families(text):
            labels = frozenset(name for each in family.samples for name in each.labels)
            before = found.get(family.name, ("", frozenset(), ""))[1]
            found[family.name] = (family.type, labels | before, family.documentation)
    return found


def after_a_story(amqp_url: str, http_url: str) -> Found:
    """What is found while a client is there that has done a bit of everything."""
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.queue_declare("waiting")
        channel.basic_publish("", "waiting", b"x", pika.BasicProperties(timestamp=1_700_000_000))
        for _ in range(3):
            channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "nowhere", b"x")
        channel.basic_get("q", auto_ack=True)
        method, _, _ = channel.basic_get("q")
        channel.basic_ack(method.delivery_tag)
        channel.basic_consume("q", lambda *_: None)

        def has_counted() -> bool:
            connection.process_data_events(0)
            found = found_at(http_url)
            return "channel" in found["rabbitmq_channel_messages_published"][1]

        wait_for(has_counted, 60.0, "counters of the channel")
        return found_at(http_url)


def is_listed(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in MISSING_HERE)


def test_names_types_and_labels_are_rabbitmq_s(
    here: tuple[str, str], there: tuple[str, str]
) -> None:
    ours, theirs = after_a_story(*here), after_a_story(*there)
    problems = []
    for name, (kind, labels, text) in sorted(theirs.items()):
        if is_listed(name):
            if name in ours:
                problems.append(f"{name} is here, and listed as missing")
            continue
        if name not in ours:
            problems.append(f"{name} is missing: {kind}, {sorted(labels)}, {text}")
            continue
        our_kind, our_labels, our_text = ours[name]
        if our_kind != kind:
            problems.append(f"{name} is a {our_kind}, RabbitMQ has a {kind}")
        if our_text != text:
            problems.append(f"{name} says '{our_text}', RabbitMQ '{text}'")
        less, more = LABELS_DIFFER.get(name, ("", ""))
        if name not in LABELS_DIFFER:
            for pattern, differ in LABEL_GROUPS.items():
                if re.fullmatch(pattern, name):
                    less, more = differ
        if our_labels != (labels - set(less.split())) | set(more.split()):
            problems.append(f"{name} has {sorted(our_labels)}, RabbitMQ {sorted(labels)}")
    assert not problems, "\n".join(problems)


def test_every_listed_difference_is_one(there: tuple[str, str]) -> None:
    theirs = after_a_story(*there)
    for pattern in (*MISSING_HERE, *LABEL_GROUPS, *LABELS_DIFFER):
        assert any(re.fullmatch(pattern, name) for name in theirs), pattern
