"""When a queue here has room for a batch, by its limits and by what they do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Api
from hareline.cli.migrate.inventory import Room
from hareline.cli.target import Flags, read_target
from tests.support.scripted_api import ScriptedApi

PATH = "/queues/my%2Fv/q"


@pytest.fixture
def here(api: ScriptedApi) -> Iterator[Api]:
    api.will("GET", PATH, {"messages": 3, "message_bytes": 30})
    with closing(Api(read_target(Flags(url=api.url), {"XDG_CONFIG_HOME": "/none"}))) as made:
        yield made


def room_of(api: ScriptedApi, here: Api, **arguments: Any) -> Room:
    rows = [{"name": f"x-{name.replace('_', '-')}", "value": arguments[name]} for name in arguments]
    api.will("GET", f"/hareline{PATH}/effective-arguments", {"arguments": rows})
    return Room(here, "my/v", "q")


def test_a_queue_without_limits_is_asked_about_once(api: ScriptedApi, here: Api) -> None:
    room = room_of(api, here, max_length=None, message_ttl=5)
    asked = len(api.asked)
    assert room.problem_with(10_000, 1 << 30) == ""
    assert len(api.asked) == asked


@pytest.mark.parametrize("policy", ["none", "flow-to-disk", "NONE", "FLOW_TO_DISK"])
def test_limits_that_cost_no_message_do_not_count(api: ScriptedApi, here: Api, policy: str) -> None:
    assert room_of(api, here, max_length=1, overflow=policy).problem_with(5, 5) == ""


@pytest.mark.parametrize("policy", ["drop-head", "RING", "REJECT", "PRODUCER_FLOW_CONTROL"])
def test_limits_count_what_is_there_and_what_is_to_come(
    api: ScriptedApi, here: Api, policy: str
) -> None:
    room = room_of(api, here, max_length=5, max_length_bytes=100, overflow=policy)
    assert room.problem_with(2, 70) == ""
    assert f"3 messages and a limit of 5 (x-max-length, {policy})" in room.problem_with(3, 1)
    assert "30 octets and a limit of 100 (x-max-length-bytes" in room.problem_with(1, 71)


def test_a_limit_without_a_policy_drops_the_head(api: ScriptedApi, here: Api) -> None:
    assert "drop-head" in room_of(api, here, max_length=3).problem_with(1, 1)


def test_a_queue_that_is_not_there_is_named(here: Api) -> None:
    with pytest.raises(CommandFailed, match="queue 'q'"):
        Room(here, "my/v", "q")
