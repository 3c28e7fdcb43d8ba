"""What ``hareline migrate`` makes of URLs and lists of queues, and what it says of errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hareline.commands.migrate import (
    Api,
    Login,
    MigrationError,
    SourceQueue,
    copy_definitions,
    login_of,
    migrate,
    queues_of,
)

QUEUES: list[dict[str, Any]] = [
    {"vhost": "/", "name": "b", "messages": 2, "type": "classic"},
    {"vhost": "/", "name": "a", "messages": 0},
    {"vhost": "v", "name": "s", "messages": 5, "arguments": {"x-queue-type": "stream"}},
    {"vhost": "v", "name": "mine", "messages": 1, "exclusive": True},
    {"vhost": "v", "name": "amq.gen-1", "messages": 1},
]


@contextmanager
def serving(answers: dict[str, tuple[int, Any]]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """An HTTP API with these answers by path; yields its address and what was asked."""
    asked: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            asked.append((f"{self.command} {self.path}", body))
            status, answer = answers.get(self.path, (404, {"reason": "nothing here"}))
            octets = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Not on the terminal."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def api(address: str) -> Api:
    return Api(login_of(f"http://{address}", ("http",), 15672))


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("http://rabbit", Login("rabbit", 15672, "guest", "guest")),
        ("rabbit", Login("rabbit", 15672, "guest", "guest")),
        ("http://a%40b:p%2Fw@rabbit:1", Login("rabbit", 1, "a@b", "p/w")),
    ],
)
def test_a_url_says_where_and_as_whom(url: str, login: Login) -> None:
    assert login_of(url, ("http",), 15672) == login


@pytest.mark.parametrize("url", ["amqp://rabbit", "http://", "http://rabbit:99999"])
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(MigrationError) as caught:
        login_of(url.replace("://", "://u:secret@"), ("http",), 15672)
    assert "secret" not in str(caught.value)


def test_queues_come_by_name_with_why_not() -> None:
    with serving({"/api/queues?disable_stats=false": (200, QUEUES)}) as (address, _):
        found = queues_of(api(address), ())
        some = queues_of(api(address), ("/",))
    assert [(queue.name, bool(queue.refusal)) for queue in found] == [
        ("a", False),
        ("b", False),
        ("amq.gen-1", True),
        ("mine", True),
        ("s", True),
    ]
    assert some == [SourceQueue("/", "a", 0), SourceQueue("/", "b", 2)]


def test_definitions_of_chosen_virtual_hosts_are_copied_one_by_one() -> None:
    left_out = [{"what": "queue", "name": "q", "vhost": "my/v", "reason": "no"}]
    answers = {
        "/api/definitions/my%2Fv": (200, {"queues": [1]}),
        "/api/definitions/my%2Fv?report=true": (200, {"left_out": left_out}),
        "/api/definitions": (204, None),
    }
    with serving(answers) as (address, asked):
        assert copy_definitions(api(address), api(address), ("my/v",)) == left_out
    assert asked == [
        ("GET /api/definitions/my%2Fv", None),
        ("POST /api/definitions", {"vhosts": [{"name": "my/v"}]}),
        ("POST /api/definitions/my%2Fv?report=true", {"queues": [1]}),
    ]


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(migrate)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_dry_run_says_what_would_be_done_and_does_nothing() -> None:
    with serving({"/api/queues?disable_stats=false": (200, QUEUES)}) as (address, asked):
        status, output = run(f"http://{address}", "--target", f"http://{address}", "--dry-run")
    assert status == 0
    assert "would move 2 messages of / b" in output
    assert "not moved: 5 messages of v s: a stream" in output
    assert [what for what, _ in asked] == ["GET /api/queues?disable_stats=false"]


def test_what_goes_wrong_is_a_sentence() -> None:
    with serving({}) as (address, _):
        status, output = run(f"http://{address}")
        assert status == 1
        assert "404" in output
    status, output = run(f"http://{address}")
    assert status == 1
    assert "refused" in output
