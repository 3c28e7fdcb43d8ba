"""The API's client: pages, refusals, servers that are gone or no brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, Refused, path_of
from hareline.cli.target import Flags, read_target
from tests.support.scripted_api import ScriptedApi
from tests.support.tls import make_certificates, tls_front


def client_of(url: str, **flags: object) -> Api:
    return Api(read_target(Flags(url=url, **flags), {"HOME": "/"}))  # type: ignore[arg-type]


@pytest.fixture
def client(api: ScriptedApi) -> Iterator[Api]:
    with closing(client_of(api.url)) as made:
        yield made


def test_a_path_is_percent_encoded() -> None:
    assert path_of("queues", "/", "a b/ü") == "/queues/%2F/a%20b%2F%C3%BC"


def test_it_logs_in_and_keeps_its_connection(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/overview", {"a": 1})
    assert client.get("/overview", {"columns": "a,b"}) == {"a": 1}
    assert client.get("/overview") == {"a": 1}
    assert [each.login for each in api.asked] == ["Basic guest:guest"] * 2
    assert api.asked[0].query == {"columns": "a,b"}
    client.close()


def test_pages_are_fetched_as_they_are_needed(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/queues", {"items": [{"name": "a"}], "page_count": 9})
    rows = client.rows("/queues", {"columns": "name"})
    assert next(rows) == {"name": "a"}
    assert len(api.asked) == 1
    assert next(rows) == {"name": "a"}
    assert [each.query["page"] for each in api.asked] == ["1", "2"]


def test_a_list_without_pages_is_taken_whole(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/bindings", [{"a": 1}, {"a": 2}])
    assert list(client.rows("/bindings", {})) == [{"a": 1}, {"a": 2}]


def test_put_says_whether_it_is_new(api: ScriptedApi, client: Api) -> None:
    api.will("PUT", "/vhosts/a", status=201)
    assert client.put("/vhosts/a", {"x": 1})
    api.will("PUT", "/vhosts/a", status=204)
    assert not client.put("/vhosts/a", {})
    assert api.asked[0].body == {"x": 1}


@pytest.mark.parametrize(
    ("status", "answer", "sentence", "ends_with"),
    [
        (404, {"error": "Object Not Found", "reason": "Not Found"}, "no queue 'q'", 4),
        (404, {"error": "not_found", "reason": "no such queue: q"}, "no such queue: q", 4),
        (401, {"error": "not_authorised", "reason": "Login failed"}, "guest: Login failed", 5),
        (403, b"", "guest: status 403", 5),
        (400, {"error": "bad_request", "reason": "406 PRECONDITION_FAILED - x"}, "406 PREC", 1),
        (500, b"<html>", "queue 'q': status 500", 1),
    ],
)
def test_a_refusal_is_a_sentence(
    api: ScriptedApi, client: Api, status: int, answer: object, sentence: str, ends_with: int
) -> None:
    api.will("GET", "/queues/q", answer, status)
    with pytest.raises(Refused) as caught:
        client.get("/queues/q", what="queue 'q'")
    assert sentence in str(caught.value)
    assert (caught.value.status, caught.value.code) == (ends_with, status)


def test_a_path_that_the_broker_does_not_have_is_named(client: Api, api: ScriptedApi) -> None:
    with pytest.raises(Refused, match="has no /api/nope"):
        client.get("/nope", {"a": 1})


@pytest.mark.parametrize("answer", [b"<html>", b"\xff", {"items": 3}, 7])
def test_what_is_no_broker_is_said(api: ScriptedApi, client: Api, answer: object) -> None:
    api.will("GET", "/queues", answer)
    with pytest.raises(CommandFailed, match="does not come from a broker") as caught:
        list(client.rows("/queues", {}))
    assert caught.value.status is ExitStatus.UNREACHABLE


def test_a_connection_that_has_gone_stale_is_opened_again(api: ScriptedApi, client: Api) -> None:
    api.will("GET", "/overview", {"a": 1})
    client.get("/overview")
    client._connection.sock.shutdown(socket.SHUT_RDWR)
    assert client.get("/overview") == {"a": 1}


def test_nobody_at_the_address_is_a_sentence_with_a_hint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connecting is refused
        client = client_of(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(
            CommandFailed, match="Connection refused; is the broker running"
        ) as caught:
            client.get("/overview")
    assert caught.value.status is ExitStatus.UNREACHABLE


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = client_of(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.05)
        with pytest.raises(CommandFailed, match=r"no answer within 0\.05 s") as caught:
            client.get("/overview")
    assert caught.value.status is ExitStatus.UNREACHABLE


def test_something_that_is_not_http_is_a_sentence(tmp_path: Path) -> None:
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"AMQP\x00\x00\x09\x01\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CommandFailed) as caught:
            client_of(f"http://127.0.0.1:{listener.getsockname()[1]}").get("/overview")
        thread.join()
    assert caught.value.status is ExitStatus.UNREACHABLE


def test_https_is_checked_against_the_authorities_that_are_named(
    api: ScriptedApi, tmp_path: Path
) -> None:
    api.will("GET", "/overview", {"a": 1})
    certificates = make_certificates(tmp_path)
    with tls_front(certificates, api.server_port) as port:
        url = f"https://127.0.0.1:{port}"
        with closing(client_of(url, ca_file=str(certificates.authority))) as client:
            assert client.get("/overview") == {"a": 1}
        with closing(client_of(url)) as client, pytest.raises(CommandFailed) as caught:
            client.get("/overview")
    assert caught.value.status is ExitStatus.UNREACHABLE
    assert "its certificate is not trusted: " in str(caught.value)
    assert "; --ca-file names the authorities" in str(caught.value)


def test_a_name_that_is_not_utf_8_has_a_path() -> None:
    assert path_of("queues", "/", "caf\udce9") == "/queues/%2F/caf%E9"
