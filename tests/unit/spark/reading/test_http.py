"""One connection serves many requests, is replaced when it is gone, and patience has an end."""

from __future__ import annotations

import os
import time

import pytest

from hareline.spark.errors import BrokerUnreachable
from hareline.spark.options import Connection
from hareline.spark.reading import http
from hareline.spark.reading.http import Http, Patience
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


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def fail_often(patience: Patience) -> None:
    while True:
        patience.interrupted(ConnectionRefusedError("refused"))


def exhaust(patience: Patience) -> str:
    with pytest.raises(BrokerUnreachable) as given_up:
        fail_often(patience)
    return str(given_up.value)


def test_patience_lasts_for_the_retries_with_growing_pauses(clock: Clock) -> None:
    text = exhaust(Patience("http://h", 10, 3))
    assert clock.now == pytest.approx(130)
    assert clock.pauses[0] <= 0.1
    assert max(clock.pauses) <= 2
    assert "http://h did not answer" in text
    assert "refused" in text


def test_without_retries_the_first_failure_is_the_last(clock: Clock) -> None:
    exhaust(Patience("http://h", 10, 0))
    assert clock.pauses == []


def test_an_answer_renews_patience(clock: Clock) -> None:
    patience = Patience("http://h", 10, 1)
    for _ in range(3):
        clock.now += 9
        patience.interrupted(TimeoutError())
        patience.reset()
    patience.interrupted(TimeoutError())
    clock.now += 20
    with pytest.raises(BrokerUnreachable, match="in 2 attempts: TimeoutError"):
        patience.interrupted(TimeoutError())


def test_useless_answers_are_counted(clock: Clock) -> None:
    patience = Patience("http://h", 10, 2)
    assert [patience.may_repeat() for _ in range(3)] == [True, True, False]
