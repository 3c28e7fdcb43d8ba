"""Keys change the view; a snapshot is one screen of rows that the broker has sorted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Api
from hareline.cli.target import Flags, read_target
from hareline.cli.top import View, columns_of, read
from tests.support.scripted_api import ScriptedApi


@pytest.fixture
def client(api: ScriptedApi) -> Iterator[Api]:
    with closing(Api(read_target(Flags(url=api.url), {"HOME": "/"}))) as made:
        yield made


def test_keys_sort_switch_pause_and_end() -> None:
    view = View()
    assert view.press("r")
    assert (view.table, view.orders[view.order]) == ("queues", "ready")
    assert view.press("\t")
    assert (view.table, view.orders[view.order]) == ("connections", "received")
    assert view.press("o")
    assert view.press("r")  # no order of connections
    assert view.orders[view.order] == "sent"
    assert view.press("\t")
    assert view.orders[view.order] == "ready"
    assert not any(View().press(key) for key in "qQ\x03\x04")


@pytest.mark.parametrize("key", ["p", " "])
def test_a_key_pauses_and_goes_on(key: str) -> None:
    paused = View()
    assert paused.press(key)
    assert paused.is_paused
    going = View(is_paused=True)
    assert going.press(key)
    assert not going.is_paused


def test_a_narrow_screen_has_fewer_columns() -> None:
    view = View()
    narrow, wide = ([each.title for each in columns_of(view, width)] for width in (80, 200))
    assert narrow == ["name", "ready", "unacked", "consumers", "in", "out"]
    assert set(wide) == {*narrow, "vhost", "type", "state", "messages"}
    view.press("m")
    assert "messages" in [each.title for each in columns_of(view, 80)]


def test_one_screen_is_asked_for(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/overview", {"a": 1})
    api.will("GET", "/nodes", [{"mem_used": 5}])
    api.will("GET", "/queues", {"items": [{"name": "q"}], "page_count": 1000})
    snapshot = read(client, View(queue_order="r"), 15, 80)
    assert (snapshot.overview, snapshot.node) == ({"a": 1}, {"mem_used": 5})
    assert snapshot.problem == ""
    asked = next(each for each in api.asked if each.path == "/api/queues")
    assert (asked.query["page_size"], asked.query["sort"]) == ("15", "messages_ready")
    assert asked.query["sort_reverse"] == "true"


def test_a_broker_that_is_gone_is_a_problem_and_no_end(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/overview", {"reason": "busy"}, 503)
    assert "busy" in read(client, View(), 5, 80).problem
    api.will("GET", "/overview", {"reason": "no"}, 401)
    with pytest.raises(CommandFailed):
        read(client, View(), 5, 80)


def test_a_user_who_may_not_see_the_node_sees_queues(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/overview", {})
    api.will("GET", "/nodes", {"reason": "no"}, 403)
    api.will("GET", "/queues", {"items": [{"name": "q"}], "page_count": 1})
    snapshot = read(client, View(), 1, 80)
    assert (snapshot.node, [row["name"] for row in snapshot.rows]) == ({}, ["q"])
