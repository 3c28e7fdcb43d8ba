"""Which queues of the old broker are moved, and what is left there when the samples are of now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from hareline.cli.http_client import Api
from hareline.cli.migrate import inventory
from hareline.cli.migrate.inventory import SourceQueue, left_in, queues_of
from hareline.cli.target import Flags, read_target
from tests.support.scripted_api import ScriptedApi

QUEUES: list[dict[str, Any]] = [
    {"vhost": "/", "name": "b", "messages": 2, "type": "classic"},
    {"vhost": "/", "name": "a", "arguments": {}},
    {"vhost": "v", "name": "s", "messages": 5, "arguments": {"x-queue-type": "stream"}},
    {"vhost": "v", "name": "mine", "messages": 1, "exclusive": True},
    {"vhost": "v", "name": "amq.gen-1", "messages": 1},
]


@pytest.fixture
def old(api: ScriptedApi) -> Iterator[Api]:
    with closing(Api(read_target(Flags(url=api.url), {"XDG_CONFIG_HOME": "/none"}))) as made:
        yield made


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(rows), "page_count": 1}


def test_queues_come_by_name_with_why_not(api: ScriptedApi, old: Api) -> None:
    api.will("GET", "/queues", page(*QUEUES))
    found = queues_of(old, ())
    assert [(each.name, bool(each.refusal), each.is_stream) for each in found] == [
        ("a", False, False),
        ("b", False, False),
        ("amq.gen-1", True, False),
        ("mine", True, False),
        ("s", False, True),
    ]
    assert found[1] == SourceQueue("/", "b", 2)
    assert found[4].label == "stream 's' in vhost 'v'"


@pytest.mark.parametrize(
    ("row", "size_bytes"),
    [
        ({"message_bytes": 70}, 70),
        ({"ready_bytes": 40, "unacked_bytes": 2}, 42),  # LavinMQ
        ({"message_bytes": None}, 0),
        ({}, 0),
    ],
)
def test_how_large_a_queue_is(
    api: ScriptedApi, old: Api, row: dict[str, Any], size_bytes: int
) -> None:
    api.will("GET", "/queues", page({**QUEUES[0], **row}))
    assert [each.size_bytes for each in queues_of(old, ())] == [size_bytes]


def test_only_chosen_virtual_hosts_are_asked_for(api: ScriptedApi, old: Api) -> None:
    api.will("GET", "/queues/my%2Fv", page(*QUEUES[:1]))
    assert [each.name for each in queues_of(old, ("my/v",))] == ["b"]


def test_a_list_without_pages_will_do(api: ScriptedApi, old: Api) -> None:
    api.will("GET", "/queues", QUEUES)
    assert len(queues_of(old, ())) == len(QUEUES)


def test_what_is_left_is_asked_until_the_samples_are_of_now(
    api: ScriptedApi, old: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = [SourceQueue("/", "a", 0), SourceQueue("/", "b", 2), SourceQueue("v", "s", 5, True)]
    now = [0.0]
    answers = [{"a": 3, "b": 2}, {"a": 3, "b": 0}]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        depths = answers.pop(0) if len(answers) > 1 else answers[0]
        rows = ({"vhost": "/", "name": name, "messages": n} for name, n in depths.items())
        api.will("GET", "/queues/%2F", page(*rows))

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(inventory, "time", clock)
    sleep(0)
    assert left_in(old, moved, is_changed=True) == {moved[0]: 3}
    assert now[0] >= inventory.SETTLE_S
    asked = len(api.asked)
    now[0] = 0.0
    answers[:] = [{"a": 0, "b": 0}]
    sleep(0)
    assert left_in(old, moved, is_changed=False) == {}
    assert (now[0], len(api.asked)) == (0.0, asked + 1)
    assert left_in(old, moved[2:], is_changed=True) == {}
