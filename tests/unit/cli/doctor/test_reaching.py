"""Checks from outside: the API, alarms, AMQP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hareline.cli.doctor import Verdict, check_amqp, check_api
from hareline.cli.http_client import Api
from hareline.cli.target import Flags, Target, read_target
from tests.support.scripted_api import ScriptedApi
from tests.support.tls import make_certificates, tls_front


def target_of(url: str, amqp_url: str | None = None) -> Target:
    return read_target(Flags(url=url, amqp_url=amqp_url), {"HOME": "/"})


def test_a_broker_that_answers_and_its_alarms(api: ScriptedApi) -> None:
    api.will("GET", "/whoami", {"name": "guest"})
    api.will("GET", "/overview", {"product_name": "Hareline", "product_version": "1"})
    node = {"mem_alarm": True, "mem_used": 2048, "mem_limit": 1024}
    api.will("GET", "/nodes", [{**node, "disk_free_alarm": False}])
    client = Api(target_of(api.url))
    seen, found = check_api(client)
    assert seen.node["mem_used"] == 2048
    assert [each.verdict for each in found] == [Verdict.ok, Verdict.error]
    assert "Hareline 1, as guest" in found[0].found
    assert "memory is short, publishers are blocked: 2.0 KiB are used" in found[1].found
    disk = {"disk_free_alarm": True, "disk_free": 10, "disk_free_limit": 20}
    api.will("GET", "/nodes", [disk])
    assert "10 B are free, 20 B are needed" in check_api(client)[1][1].found
    api.will("GET", "/nodes", [{**disk, "disk_free_alarm_reason": "no room for a file"}])
    assert check_api(client)[1][1].found.endswith("blocked: no room for a file")
    without_numbers = {"disk_free": "disk_free_monitoring_disabled", "mem_limit": "unlimited"}
    api.will("GET", "/nodes", [without_numbers])
    assert len(check_api(client)[1]) == 1
    api.will("GET", "/nodes", [{**disk, **without_numbers}])
    assert "an unknown number of octets are free, 20 B are needed" in check_api(client)[1][1].found
    api.will("GET", "/nodes", {"reason": "no"}, 401)
    assert check_api(client)[1][1].verdict is Verdict.note
    client.close()


def test_a_login_that_is_refused_is_an_error(api: ScriptedApi) -> None:
    api.will("GET", "/whoami", {"reason": "Login failed"}, 401)
    with closing(Api(target_of(api.url))) as client:
        _, (found,) = check_api(client)
    assert found.verdict is Verdict.error


@pytest.mark.parametrize(("is_named", "verdict"), [(True, Verdict.error), (False, Verdict.warning)])
def test_no_broker_is_an_error_where_one_is_named(is_named: bool, verdict: Verdict) -> None:
    target = target_of("http://127.0.0.1:1", "amqp://127.0.0.1:1")
    if not is_named:
        target = replace(target, given=frozenset())
    _, (found,) = check_api(Api(target), is_named=is_named)
    assert found.verdict is verdict
    (found,) = check_amqp(target)
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("is_kept_here", "others", "verdict"),
    [
        (True, [], Verdict.note),
        (True, [{"name": "ops", "tags": ["administrator"]}], Verdict.warning),
        (False, [], Verdict.error),
    ],
)
def test_a_default_user_is_named_while_it_is_there(
    api: ScriptedApi, is_kept_here: bool, others: list[dict[str, Any]], verdict: Verdict
) -> None:
    guest = {"name": "guest", "has_default_password": True, "loopback_only": is_kept_here}
    api.will("GET", "/whoami", {"name": "guest"})
    api.will("GET", "/overview", {})
    api.will("GET", "/nodes", [])
    api.will("GET", "/users", [{**guest, "tags": []}, *others])
    with closing(Api(target_of(api.url))) as client:
        (found,) = check_api(client)[1][1:]
    assert (found.verdict, "hareline user delete guest" in found.remedy) == (verdict, True)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port where one client that has said something is answered so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(8)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(b"\x01\x00\x00\x00\x00", Verdict.ok), (b"HTTP/1.1 400", Verdict.error), (b"", Verdict.error)],
)
def test_amqp_is_known_by_its_first_octet(answer: bytes, verdict: Verdict) -> None:
    with answering(answer) as port:
        (found,) = check_amqp(target_of(f"amqp://127.0.0.1:{port}"))
    assert found.verdict is verdict


def test_amqps_is_checked_against_the_authorities_that_are_named(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with answering(b"\x01\x00") as plain, tls_front(certificates, plain) as port:
        url = f"amqps://127.0.0.1:{port}"
        (found,) = check_amqp(target_of(url))
        assert found.verdict is Verdict.error
        assert "is not trusted" in found.found
        flags = Flags(url=url, ca_file=str(certificates.authority))
        (found,) = check_amqp(read_target(flags, {"HOME": "/"}))
        assert found.verdict is Verdict.ok
