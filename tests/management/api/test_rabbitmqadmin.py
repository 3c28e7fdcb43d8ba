"""RabbitMQ's own command-line tool, the script that its server carries, against this broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.support.api_broker import PASSWORD, ApiBroker

SCRIPTS = [
    Path(found)
    for found in (
        shutil.which("rabbitmqadmin"),
        *Path("/usr/lib/rabbitmq").glob("lib/*/plugins/rabbitmq_management-*/priv/www/cli/*admin"),
    )
    if found
]
pytestmark = pytest.mark.skipif(not SCRIPTS, reason="rabbitmqadmin is not installed")

KINDS = ["bindings", "channels", "connections", "consumers", "exchanges", "nodes", "queues"]

#: Kind -> what declares it, what it is then listed by, and what deletes it.
DECLARED: dict[str, tuple[list[str], list[str], str, list[str]]] = {
    "exchange": (
        ["name=script.x", "type=topic", 'arguments={"alternate-exchange": "amq.fanout"}'],
        ["exchanges", "name"],
        "script.x",
        ["name=script.x"],
    ),
    "queue": (
        ["name=script.q", "durable=true", 'arguments={"x-max-length": 5}'],
        ["queues", "name"],
        "script.q",
        ["name=script.q"],
    ),
    "binding": (
        ["source=amq.topic", "destination=listed", "routing_key=script.#"],
        ["bindings", "routing_key"],
        "script.#",
        [
            *("source=amq.topic", "destination_type=queue", "destination=listed"),
            "properties_key=script.%23",
        ],
    ),
    "vhost": (["name=script"], ["vhosts", "name"], "script", ["name=script"]),
    "user": (
        ["name=script", "password=p", "tags=management"],
        ["users", "name"],
        "script",
        ["name=script"],
    ),
    "permission": (
        ["vhost=other", "user=manager", "configure=.*", "write=.*", "read=script"],
        ["permissions", "read"],
        "script",
        ["vhost=other", "user=manager"],
    ),
    "parameter": (
        ["component=shovel", "name=script", 'value={"src-uri": "amqp://", "dest-uri": "amqp://"}'],
        ["parameters", "name"],
        "script",
        ["component=shovel", "name=script"],
    ),
    "policy": (
        ["name=script", "pattern=^script", 'definition={"max-length": 5}', "apply-to=queues"],
        ["policies", "name"],
        "script",
        ["name=script"],
    ),
    "operator_policy": (
        ["name=script", "pattern=^script", 'definition={"max-length": 5}', "priority=3"],
        ["operator_policies", "name"],
        "script",
        ["name=script"],
    ),
    "vhost_limit": (
        ["vhost=other", "name=max-queues", "value=99"],
        ["vhost_limits", "value"],
        "99",
        ["vhost=other", "name=max-queues"],
    ),
}


def run(broker: ApiBroker, *arguments: str, stdin: str = "") -> str:
    """What the script prints; it has to end well."""
    ended = start(broker, *arguments, stdin=stdin)
    assert (ended.returncode, ended.stderr) == (0, ""), (arguments, ended)
    return ended.stdout


def start(broker: ApiBroker, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """How the script ends."""
    port = broker.url.rpartition(":")[2]
    login = ("-H", "127.0.0.1", "-P", port, "-u", "admin", "-p", PASSWORD)
    return subprocess.run(
        [sys.executable, str(SCRIPTS[0]), *login, *arguments],
        capture_output=True,
        input=stdin,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(autouse=True)
def objects(broker: ApiBroker) -> None:
    """A connection, a channel, a consumer, a queue with a message and bindings."""
    channel = broker.connect(name="for the script").channel()
    channel.queue_declare("listed", durable=True)
    channel.queue_bind("listed", "amq.topic", "a.*")
    channel.queue_declare("taken", auto_delete=True)
    channel.basic_publish("", "listed", b"1")
    channel.basic_consume("taken", lambda *_: None)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("kind", "form"),
    [(kind, form) for kind in KINDS for form in ("table", "raw_json")]
    + [("queues", form) for form in ("tsv", "long", "kvp", "bash", "pretty_json")],
)
def test_lists_are_printed_in_every_form(broker: ApiBroker, kind: str, form: str) -> None:
    printed = run(broker, "-f", form, "list", kind)
    assert "No items" not in printed
    if form.endswith("json"):
        assert json.loads(printed)


def test_lists_are_sorted_and_have_the_columns_asked_for(broker: ApiBroker) -> None:
    printed = run(
        *(broker, "-f", "tsv", "-S", "messages", "-R", "list", "queues", "name", "messages")
    )
    rows = [line.split("\t") for line in printed.splitlines()]
    assert rows[0] == ["name", "messages"]
    assert rows[1] == ["listed", rows[1][1]]
    assert int(rows[1][1]) >= 1


@pytest.mark.acceptance
def test_a_list_of_one_virtual_host(broker: ApiBroker) -> None:
    assert "amq.topic" in run(broker, "-V", "other", "list", "exchanges")


@pytest.mark.acceptance
def test_the_overview_is_shown(broker: ApiBroker) -> None:
    printed = run(broker, "show", "overview")
    for column in ("rabbitmq_version", "cluster_name", "queue_totals.messages"):
        assert column in printed


@pytest.mark.acceptance
def test_a_connection_is_closed(broker: ApiBroker) -> None:
    connection = broker.connect()
    name = broker.name_of(connection)
    assert "connection closed" in run(broker, "close", "connection", f"name={name}")
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(60)
    broker.thread.wait_until(
        lambda running: (
            name not in [each.transport.connection_name for each in running.context.connections]
        ),
        "its end",
    )


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", DECLARED)
def test_what_is_declared_is_listed_until_it_is_deleted(broker: ApiBroker, kind: str) -> None:
    declaring, listing, value, deleting = DECLARED[kind]
    for _ in range(2):
        assert f"{kind} declared" in run(broker, "declare", kind, *declaring)
    assert any(value in each for each in values(broker, *listing))
    assert f"{kind} deleted" in run(broker, "delete", kind, *deleting)
    assert not any(value in each for each in values(broker, *listing))


def values(broker: ApiBroker, kind: str, column: str) -> list[str]:
    """A column of a list."""
    printed = run(broker, "-f", "tsv", "list", kind, column)
    return [] if printed.startswith("No items") else printed.splitlines()[1:]


def test_a_message_is_published_shown_and_taken(broker: ApiBroker, tmp_path: Path) -> None:
    run(broker, "declare", "queue", "name=posted")
    publish = ("publish", "routing_key=posted")
    properties = 'properties={"delivery_mode": 2, "headers": {"n": 1}}'
    assert "Message published\n" in run(broker, *publish, "payload=first", properties)
    assert "Message published\n" in run(broker, *publish, stdin="second")
    printed = run(broker, "publish", "routing_key=nowhere", "payload=x")
    assert "Message published but NOT routed" in printed
    shown = json.loads(run(broker, "-f", "raw_json", "get", "queue=posted", "count=5"))
    assert [each["payload"] for each in shown] == ["first", "second"]
    assert shown[0]["properties"] == {"delivery_mode": 2, "headers": {"n": 1}}
    into = tmp_path / "payload"
    take = ("get", "queue=posted", "ackmode=ack_requeue_false", f"payload_file={into}")
    run(broker, *take)
    assert into.read_text() == "first"
    assert "second" in run(broker, "get", "queue=posted", "ackmode=ack_requeue_false")
    assert "No items" in run(broker, "get", "queue=posted")


@pytest.mark.acceptance
def test_a_queue_is_purged(broker: ApiBroker) -> None:
    run(broker, "declare", "queue", "name=purged")
    run(broker, "publish", "routing_key=purged", "payload=x")
    assert "queue purged" in run(broker, "purge", "queue", "name=purged")
    assert "No items" in run(broker, "get", "queue=purged")


@pytest.mark.acceptance
@pytest.mark.parametrize("scope", [(), ("-V", "other")])
def test_what_is_exported_is_imported(
    broker: ApiBroker, tmp_path: Path, scope: tuple[str, ...]
) -> None:
    vhost = scope[-1] if scope else "/"
    every = ("configure=.*", "write=.*", "read=.*")
    run(broker, "declare", "permission", "vhost=other", "user=admin", *every)
    run(broker, "-V", vhost, "declare", "queue", "name=kept", "durable=true")
    run(
        *(broker, "-V", vhost, "declare", "binding"),
        *("source=amq.topic", "destination=kept", "routing_key=a"),
    )
    file = str(tmp_path / "definitions.json")
    assert "Exported definitions" in run(broker, *scope, "export", file)
    run(broker, "-V", vhost, "delete", "queue", "name=kept")
    assert "Uploaded definitions" in run(broker, *scope, "import", file)
    printed = run(broker, "-f", "tsv", "-V", vhost, "list", "bindings", "source", "destination")
    assert "amq.topic\tkept" in printed


def test_what_is_refused_ends_with_the_reason(broker: ApiBroker) -> None:
    run(broker, "declare", "queue", "name=other-kind", "durable=true")
    refused = start(broker, "declare", "queue", "name=other-kind", "durable=false")
    assert refused.returncode == 1
    assert "PRECONDITION_FAILED - inequivalent arg 'durable' for queue" in refused.stderr
    missing = start(broker, "purge", "queue", "name=not-there")
    assert missing.returncode == 1
    assert "*** Not found: /api/queues/%2F/not-there/contents" in missing.stderr
