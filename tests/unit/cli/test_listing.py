"""Lists: the broker filters, sorts and pages what it can, the rest is done here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Api
from hareline.cli.listing import Query, Resource, chosen_columns, parse_condition
from hareline.cli.output import Column
from hareline.cli.resources import BINDINGS, CONNECTIONS, QUEUES, STREAMS
from hareline.cli.target import Flags, read_target
from tests.support.scripted_api import ScriptedApi

ROWS: list[dict[str, Any]] = [
    {"name": "b", "type": "classic", "messages": 5, "on": True},
    {"name": "a", "type": "stream", "messages": 70, "on": False},
    {"name": "c", "type": "stream"},
]


THINGS = Resource("things", "things", (Column("name", "name"),), fields="type messages on")


@pytest.fixture
def client(api: ScriptedApi) -> Iterator[Api]:
    made = Api(read_target(Flags(url=api.url), {"HOME": "/"}))
    yield made
    made.close()


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("type=stream", "ac"),
        ("type!=stream", "b"),
        ("messages>5", "a"),
        ("messages>=5", "ba"),
        ("messages<70", "b"),
        ("messages <= 70", "ba"),
        ("name~^[ab]$", "ba"),
        ("on=true", "b"),
        ("on=", "c"),
    ],
)
def test_conditions(text: str, found: str) -> None:
    condition = parse_condition(text, THINGS)
    assert "".join(names([row for row in ROWS if condition.holds(row)])) == found


def test_a_condition_knows_the_titles_of_columns() -> None:
    assert parse_condition("ready>1", QUEUES).path == "messages_ready"


@pytest.mark.parametrize("text", ["name", "=", "messages>many", "name~("])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="--where: "):
        parse_condition(text, QUEUES)


def test_an_unknown_name_is_refused_with_the_known_ones(client: Api) -> None:
    refused = (
        "queues have no column 'nmae'; columns: vhost, name, .*; fields of the JSON: .*durable"
    )
    with pytest.raises(CommandFailed, match=f"--where: {refused}"):
        parse_condition("nmae=x", QUEUES)
    with pytest.raises(CommandFailed, match=f"--columns: {refused}"):
        chosen_columns("name,nmae", QUEUES)
    with pytest.raises(CommandFailed, match=f"--sort: {refused}"):
        Query(QUEUES, sort="-nmae").rows(client)


def test_columns_are_named_by_title_or_path() -> None:
    chosen = chosen_columns("name, ready,message_stats.ack", QUEUES)
    assert [each.path for each in chosen] == ["name", "messages_ready", "message_stats.ack"]
    assert chosen_columns(None, QUEUES) == list(QUEUES.columns)
    with pytest.raises(CommandFailed):
        chosen_columns(" ,", QUEUES)


def test_a_paged_list_is_sorted_and_filtered_by_the_broker(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/queues/%2F", {"items": ROWS, "page_count": 1})
    columns = (Column("name", "name"),)
    query = Query(
        QUEUES, vhost="/", name="^o", sort="-ready", limit=2, columns=columns, is_narrow=True
    )
    assert names(query.rows(client)) == ["b", "a"]
    assert api.last.query == {
        "columns": "name,messages_ready",
        "name": "^o",
        "use_regex": "true",
        "sort": "messages_ready",
        "sort_reverse": "true",
        "page": "1",
        "page_size": "2",
    }


def test_with_conditions_pages_are_read_until_there_is_enough(
    api: ScriptedApi, client: Api
) -> None:
    api.will("GET", "/queues", {"items": ROWS, "page_count": 5})
    query = Query(QUEUES, where=(parse_condition("messages>50", QUEUES),), limit=2)
    assert names(query.rows(client)) == ["a", "a"]
    assert [each.query["page"] for each in api.asked] == ["1", "2"]
    assert api.last.query["page_size"] == "500"
    assert "messages" in api.last.query["columns"]


def test_streams_are_queues_of_one_type(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/queues", {"items": ROWS, "page_count": 1})
    assert names(Query(STREAMS, columns=STREAMS.columns).rows(client)) == ["a", "c"]
    assert "type" in api.last.query["columns"].split(",")


def test_a_list_without_pages_is_sorted_and_filtered_here(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/things", ROWS)
    assert names(Query(THINGS, sort="name").rows(client)) == ["a", "b", "c"]
    assert names(Query(THINGS, sort="-messages").rows(client)) == ["a", "b", "c"]
    assert names(Query(THINGS, sort="messages", limit=1).rows(client)) == ["c"]
    assert names(Query(THINGS, name="[bc]").rows(client)) == ["b", "c"]


def test_connections_have_no_virtual_host_in_the_path(api: ScriptedApi, client: Api) -> None:
    rows = [{"name": "1", "vhost": "/"}, {"name": "2", "vhost": "v"}]
    api.will("GET", "/connections", {"items": rows, "page_count": 1})
    assert names(Query(CONNECTIONS, vhost="v").rows(client)) == ["2"]


def test_json_asks_for_everything(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/bindings", ROWS)
    assert Query(BINDINGS, is_narrow=False).rows(client) == ROWS
    assert api.last.query == {}


def test_a_bad_regular_expression_is_not_sent(api: ScriptedApi, client: Api) -> None:
    with pytest.raises(CommandFailed, match="--name: '\\(' is not a regular expression"):
        Query(QUEUES, name="(").rows(client)
    assert not api.asked
