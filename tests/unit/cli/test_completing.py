"""Completion asks the broker, and is silent when anything is wrong."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hareline.cli import completing
from tests.support.scripted_api import ScriptedApi


class Context:
    """As much of click's as completion reads."""

    def __init__(self, **params: Any) -> None:
        self.params = params


def ask(name: str, context: Context, begin: str) -> Any:
    return getattr(completing, name)(context, None, begin)


def test_queues_are_asked_for_by_their_beginning(api: ScriptedApi) -> None:
    items = [{"name": "orders.new"}, {"name": "orders"}]
    api.will("GET", "/queues/shop", {"items": items, "page_count": 1})
    context = Context(url=api.url, vhost="shop")
    assert ask("complete_queue", context, "orders.") == ["orders.new"]
    assert api.last.query["name"] == "^orders\\."
    assert api.last.query["page_size"] == "200"


@pytest.mark.parametrize(
    ("function", "path"),
    [
        ("complete_exchange", "/exchanges/%2F"),
        ("complete_connection", "/connections"),
        ("complete_policy", "/policies/%2F"),
        ("complete_user", "/users"),
        ("complete_vhost", "/vhosts"),
    ],
)
def test_other_names(api: ScriptedApi, function: str, path: str) -> None:
    api.will("GET", path, [{"name": "abc"}, {"name": "xyz"}])
    assert ask(function, Context(url=api.url), "a") == ["abc"]


@pytest.mark.parametrize(
    "answer", [b"<html>", [1], {"items": 1}, [{"nome": "x"}], {"reason": "no"}]
)
def test_a_wrong_answer_completes_nothing(api: ScriptedApi, answer: Any) -> None:
    api.will("GET", "/users", answer)
    assert ask("complete_user", Context(url=api.url), "") == []


@pytest.mark.parametrize(
    "params", [{"url": "http://127.0.0.1:1"}, {"url": "nonsense"}, {"user": "ann"}]
)
def test_no_broker_and_no_password_complete_nothing(params: dict[str, str]) -> None:
    assert ask("complete_queue", Context(**params), "") == []


def test_targets_come_from_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert ask("complete_target", Context(), "") == []
    file = tmp_path / "client.toml"
    monkeypatch.setitem(os.environ, "HARELINE_CLIENT_CONFIG", str(file))
    file.write_text("[targets.abc]\n[targets.xyz]\n")
    assert ask("complete_target", Context(), "a") == ["abc"]
    file.write_text("x")
    assert ask("complete_target", Context(), "") == []
