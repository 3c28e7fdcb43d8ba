"""Commands ask a broker in this process: names of lists, unroutable messages, alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hareline.cli import resources
from hareline.cli.listing import Resource
from hareline.settings import Settings
from tests.support.api_broker import ApiBroker, api_broker
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
_MORE_THAN_SOCKETS_HOLD = 20_000_000


def commands_of(broker: ApiBroker) -> CommandLine:
    host, port = broker.thread.address
    return CommandLine(HARELINE_URL=broker.url, HARELINE_AMQP_URL=f"amqp://{host}:{port}")


@pytest.mark.parametrize(
    "resource",
    [
        *(resources.QUEUES, resources.EXCHANGES, resources.BINDINGS),
        *(resources.CONNECTIONS, resources.CHANNELS, resources.CONSUMERS),
    ],
    ids=lambda resource: resource.name,
)
def test_every_field_that_the_broker_sends_can_be_a_column(
    http: HttpApi, channel: Any, resource: Resource
) -> None:
    channel.queue_declare("open.listed", exclusive=True)
    channel.queue_declare("open.stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_consume("open.listed", lambda *_: None)
    channel.basic_publish("", "open.listed", b"x")
    rows = http.get(f"/api/{resource.path}")
    assert rows
    for field in {key for row in rows for key in row}:
        assert resource.path_of(field, "--columns")


def test_the_name_that_a_client_gives_is_found_and_shown(broker: ApiBroker) -> None:
    channel = broker.connect("guest", password="guest", name="billing-7").channel()
    broker.connect("guest", password="guest", name="shipping")
    channel.queue_declare("open.named", exclusive=True)
    channel.basic_consume("open.named", lambda *_: None)
    for query in ("name=ILLING-7", "name=^billing-7$&use_regex=true"):
        (row,) = HttpApi(broker.url).get(f"/api/connections?page=1&{query}")["items"]
        assert row["user_provided_name"] == "billing-7"
    (row,) = HttpApi(broker.url).get("/api/consumers?page=1&name=billing")["items"]
    assert row["channel_details"]["user_provided_name"] == "billing-7"
    hareline = commands_of(broker)
    columns = ["--columns", "client"]
    assert hareline.ok("connections", "list", "--name", "^billing", *columns).rows == [
        ["billing-7"]
    ]
    assert ["billing-7"] in hareline.ok("consumers", "list", *columns).rows
    broker.disconnect()


def test_what_no_queue_takes_is_not_published(broker: ApiBroker) -> None:
    hareline = commands_of(broker)
    done = hareline("publish", "--queue", "nowhere", "x", "--count", "2")
    problem = "no queue takes 2 messages: there is no queue 'nowhere' in vhost '/'"
    assert (done.status, done.text, done.err) == (1, "", f"hareline: {problem}\n")
    done = hareline("publish", "--exchange", "amq.direct", "x", "--unroutable-ok", "--json")
    assert (done.status, done.json) == (0, {"published": 0, "unroutable": 1})
    assert "nothing is bound to exchange 'amq.direct'" in done.err


@pytest.fixture(params=["memory", "disk"])
def alarmed(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[tuple[ApiBroker, str]]:
    """A broker whose alarm is on, and the resource."""
    is_memory = request.param == "memory"
    tables: dict[str, Any] = {
        "data_dir": str(tmp_path),
        "storage": {"kind": "memory" if is_memory else "journal"},
        "memory": {"watermark": "1MiB" if is_memory else 1.0, "check_interval_s": 0.05},
        "disk": {"free_watermark": "auto" if is_memory else 1.0, "check_interval_s": 0.05},
    }
    with api_broker(Settings.model_validate(tables)) as broker:
        node = HttpApi(broker.url)
        key = "mem_alarm" if is_memory else "disk_free_alarm"
        wait_for(lambda: node.get("/api/nodes")[0][key], DEADLINE_S, "the alarm")
        yield broker, request.param


@pytest.mark.acceptance
def test_an_alarm_ends_publish_and_perf_and_is_named(alarmed: tuple[ApiBroker, str]) -> None:
    broker, resource = alarmed
    hareline = commands_of(broker)
    hareline.ok("queue", "declare", "q")
    blocked = f"the broker is low on {resource}, and blocks publishers"
    for body in ("x", "x" * _MORE_THAN_SOCKETS_HOLD):
        done = hareline("publish", "--queue", "q", "--timeout", "1", text=body)
        assert (done.status, done.text) == (3, "")
        assert done.err == f"hareline: no confirm within 1 s: {blocked}; --timeout waits longer\n"
    status = hareline.ok("status").text
    assert ("disk.free_watermark = 1.0" in status) == (resource == "disk")
    done = hareline("perf", "--duration", "0.5", "--warm-up", "0", "--processes", "1", "--json")
    assert (done.status, done.json["confirmed"]) == (1, 0)
    assert done.err == f"hareline: no message was moved: {blocked}\n"
