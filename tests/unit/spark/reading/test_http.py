"""One connection serves many requests, and is replaced when it is gone."""

from __future__ import annotations

import os

import pytest

from hareline.spark.reading import http
from hareline.spark.reading.http import Http
from hareline.spark.shared.options import Connection
from tests.support.stream_server import StreamServer


def client(server: StreamServer, *, token: str | None = None, path: str = "") -> Http:
    return Http(Connection("h", 1, False, "/", server.url + path, "guest", "guest", token=token))


def ask(asking: Http, path: str = "") -> tuple[int, bytes]:
    with asking.request("GET", path, None, 5) as response:
        return response.status, response.read()


def test_a_connection_is_used_again(server: StreamServer) -> None:
    assert ask(client(server)) == (200, b"[]")
    assert ask(client(server)) == (200, b"[]")
    assert ask(client(server), "/none/tail")[0] == 404
    assert ask(client(server)) == (200, b"[]")
    assert server.seen.connections == 1
    assert server.seen.paths[0] == "GET /api/stream/%2F"


def test_a_connection_that_the_broker_closed_is_replaced(server: StreamServer) -> None:
    ask(client(server))
    server.faults.hang_ups = 1
    assert ask(client(server)) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_new_connection_that_is_closed_is_an_error(server: StreamServer) -> None:
    server.faults.hang_ups = 1
    with pytest.raises(ConnectionError):
        ask(client(server))


def test_an_answer_that_is_not_read_closes_its_connection(server: StreamServer) -> None:
    server.fill("q", 5)
    with client(server).request("GET", "/q/tail", None, 5) as response:
        assert response.status == 200
    assert http._kept == {}
    assert ask(client(server), "/q/tail")[0] == 200


def test_of_two_connections_at_a_time_one_is_kept_and_the_other_closed(
    server: StreamServer,
) -> None:
    asking = client(server)
    with asking.request("GET", "", None, 5) as response:
        assert ask(asking) == (200, b"[]")
        [kept] = http._kept.values()
        assert response.read() == b"[]"
    assert [*http._kept.values()] == [kept]
    assert server.seen.connections == 2
    assert ask(asking) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_forked_process_does_not_use_its_parent_s_connection(
    server: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(client(server))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    ask(client(server))
    assert server.seen.connections == 2


def test_another_user_has_another_connection(server: StreamServer) -> None:
    server.authorization = "Bearer t"
    assert ask(client(server))[0] == 401
    assert ask(client(server, token="t")) == (200, b"[]")
    assert server.seen.connections == 2


def test_a_slow_answer_is_a_timeout(server: StreamServer) -> None:
    server.faults.slow, server.faults.slow_s = 1, 0.5
    with (
        pytest.raises(TimeoutError),
        client(server).request("GET", "", None, 0.05) as response,
    ):
        response.read()
    assert http._kept == {}


def test_a_proxy_may_have_a_path_of_its_own(server: StreamServer) -> None:
    ask(client(server, path="/broker/"))
    assert server.seen.paths == ["GET /broker/api/stream/%2F"]
