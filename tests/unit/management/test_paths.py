"""Paths are matched as they came, and the default exchange may have its empty name in them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from hareline.management.middleware import RawPaths
from hareline.management.routes import name_in_path, path_of_name
from hareline.octets import NOT_UTF8, readable


@pytest.mark.parametrize(
    ("given", "matched"),
    [
        ("/api/exchanges/%2F//publish", "/api/exchanges/%2F/amq.default/publish"),
        ("/api/exchanges/%2F//bindings/source", "/api/exchanges/%2F/amq.default/bindings/source"),
        ("/api/exchanges/%2F/e%2F/publish", "/api/exchanges/%2F/e%2F/publish"),
        ("/api/exchanges/%2F/", "/api/exchanges/%2F"),
        ("/api/exchanges//e", "/api/exchanges//e"),
        ("/api/bindings/%2F/e//q/q", "/api/bindings/%2F/e/amq.default/q/q"),
        ("/api/bindings/%2F/e/e//e//key", "/api/bindings/%2F/e/e//e//key"),
        ("/api/bindings/%2F/e/e/e//key", "/api/bindings/%2F/e/e/e/amq.default/key"),
        ("/api/queues/%2F//get", "/api/queues/%2F//get"),
        ("//api", "//api"),
    ],
)
async def test_a_path_is_matched_as_it_came(given: str, matched: str) -> None:
    found = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        found.append(scope["path"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("the app asks for nothing")

    scope = {"type": "http", "method": "GET", "path": given, "raw_path": given.encode()}
    await RawPaths(app)(scope, nothing, nothing)
    assert found == [matched]


@pytest.mark.parametrize("name", ["a/b", "Grüße", "\udcff", NOT_UTF8 + "!", NOT_UTF8 + "YQ=="])
def test_a_name_is_found_as_it_is_and_as_it_is_shown(name: str) -> None:
    assert name_in_path(path_of_name(name)) == name
    assert name_in_path(path_of_name(readable(name))) == name
