"""``queues list`` and its like: columns, flags, show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hareline.cli import resources
from tests.support.scripted_api import ScriptedApi

from .conftest import Run

QUEUE: dict[str, Any] = {
    "vhost": "/",
    "name": "orders",
    "type": "classic",
    "state": "running",
    "messages_ready": 5,
    "messages_unacknowledged": 0,
    "messages": 5,
    "consumers": 1,
    "arguments": {"x-max-length": 10},
    "message_stats": {"publish_details": {"rate": 1.5}},
}


def test_queues_are_listed_with_tabs(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/queues", {"items": [QUEUE], "page_count": 1})
    result = run("queues", "list")
    assert result.stdout == "/\torders\tclassic\trunning\t5\t0\t5\t1\t1.5\t\n"


def test_the_virtual_host_is_no_column_where_there_is_one(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/queues/%2F", {"items": [QUEUE], "page_count": 1})
    assert run("queues", "list", "--vhost", "/").stdout.startswith("orders\t")


def test_json_is_what_the_broker_said(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/queues", {"items": [QUEUE], "page_count": 1})
    assert json.loads(run("queues", "list", "--json").stdout) == [QUEUE]


def test_columns_where_sort_and_limit(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/queues", {"items": [QUEUE, {**QUEUE, "name": "b"}], "page_count": 1})
    flags = ["--columns", "name,arguments", "--where", "ready>1", "--sort", "-in", "--limit", "1"]
    assert run("queues", "list", *flags).stdout == 'orders\t{"x-max-length": 10}\n'
    assert api.last.query["sort"] == "message_stats.publish_details.rate"


def test_a_queue_is_shown(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/queues/%2F/orders", QUEUE)
    lines = run("queues", "show", "orders").stdout.splitlines()
    assert "message_stats.publish_details.rate\t1.5" in lines
    assert json.loads(run("queues", "show", "orders", "--json").stdout) == QUEUE
    result = run("queues", "show", "nope")
    assert (result.exit_code, result.stderr) == (4, "hareline: no queue 'nope' in vhost '/'\n")


def test_bindings_between_two_are_shown(run: Run, api: ScriptedApi) -> None:
    row = {
        "source": "e",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "k",
        "arguments": {},
        "properties_key": "k",
    }
    api.will("GET", "/bindings/%2F/e/e/q/q", [row])
    assert run("bindings", "show", "e", "q").stdout == "e\tq\tqueue\tk\t\tk\n"
    assert run("bindings", "show", "e", "x").exit_code == 4


def test_a_consumer_is_shown_by_its_tag(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/consumers", [{"consumer_tag": "a", "queue": {"name": "q"}}])
    assert run("consumers", "show", "a").stdout == "consumer_tag\ta\nqueue.name\tq\n"
    assert json.loads(run("consumers", "show", "a", "--json").stdout)[0]["consumer_tag"] == "a"
    assert run("consumers", "show", "b").exit_code == 4


@pytest.mark.parametrize("pattern", ["^ctag", "^orders$", "^worker"])
def test_consumers_are_found_by_tag_queue_and_client(
    run: Run, api: ScriptedApi, pattern: str
) -> None:
    details = {"user_provided_name": "worker-1"}
    found = {"consumer_tag": "ctag1", "queue": {"name": "orders"}, "channel_details": details}
    other = {"consumer_tag": "c2", "queue": {"name": "x"}, "channel_details": {}}
    api.will("GET", "/consumers", [other, found])
    listed = run("consumers", "list", "--name", pattern, "--columns", "tag")
    assert listed.stdout == "ctag1\n"


def test_a_stream_is_shown_with_its_readers(run: Run, api: ScriptedApi) -> None:
    readers = [{"name": "r", "offset": 3, "lag": 1, "age_s": 2.5, "pin": True}]
    api.will("GET", "/stream/%2F/s/tail", {"queue": "s", "first": 0, "next": 4})
    api.will("GET", "/stream/%2F/s/readers", readers)
    assert run("streams", "show", "s").stdout == (
        "queue\ts\nfirst\t0\nnext\t4\nr\t3\t1\t2.5\ttrue\n"
    )
    assert json.loads(run("streams", "show", "s", "--json").stdout)["readers"] == readers


@pytest.mark.parametrize(
    "name",
    ["queues", "streams", "exchanges", "bindings", "connections", "channels", "consumers"],
)
def test_help_of_a_list_names_its_columns(run: Run, name: str) -> None:
    text = run(name, "list", "--help", COLUMNS="100").stdout
    resource = getattr(resources, name.upper())
    for column in resource.columns:
        assert column.title in text
    assert run(name, "show", "--help").exit_code == 0
