"""``hareline replay``: what it asks, what it says of the answer, and with which exit status."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hareline.cli.root import root

OUTCOME = {
    "replayed": 2,
    "first": "2026-01-05T10:00:00.001Z",
    "last": "2026-01-05T10:00:00.002Z",
    "unreadable": 0,
    "kept_since": "2026-01-01T00:00:00.000Z",
    "problems": [],
}
LINE = (
    "replayed 2 messages of '[red]q' into 't', which arrived from 2026-01-05T10:00:00.001Z "
    "to 2026-01-05T10:00:00.002Z\n"
)


class OneAnswer(HTTPServer):
    """Answers every POST alike, and keeps the last one."""

    status = 200
    answer: bytes = json.dumps(OUTCOME).encode()
    path = ""
    login = ""
    asked: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def will_answer(self, status: int, **fields: object) -> None:
        self.status = status
        self.answer = json.dumps(fields).encode()


class _Answerer(BaseHTTPRequestHandler):
    server: OneAnswer

    def do_POST(self) -> None:
        server = self.server
        server.path = self.path
        scheme, _, encoded = self.headers["Authorization"].partition(" ")
        server.login = f"{scheme} {base64.b64decode(encoded).decode()}"
        server.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(server.status)
        self.end_headers()
        self.wfile.write(server.answer)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def server() -> Iterator[OneAnswer]:
    made = OneAnswer(("127.0.0.1", 0), _Answerer)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def run(url: str, *flags: str, password: str | None = "secret") -> Result:
    arguments = ["replay", "--queue", "[red]q", "--to-queue", "t", "--from", "1", "--to", "2"]
    environ = {"HARELINE_PASSWORD": password, "http_proxy": "http://127.0.0.1:1"}
    return CliRunner().invoke(root, [*arguments, "--url", url, *flags], env=environ)


def test_it_asks_for_what_was_given_and_nothing_else(server: OneAnswer) -> None:
    result = run(server.url + "/")
    assert (result.exit_code, result.stdout, result.stderr) == (0, LINE, "")
    assert (server.path, server.login) == ("/api/replay", "Basic guest:secret")
    assert server.asked == {
        "vhost": "/",
        "queue": "[red]q",
        "to_queue": "t",
        "from": "1",
        "to": "2",
    }


def test_every_flag_is_a_field(server: OneAnswer) -> None:
    flags = ["--vhost", "v", "--exchange", "", "--routing-key", "k", "--limit", "3"]
    result = run(server.url, *flags, "--selector", "a = 'ü'", "--user", "ann")
    assert result.exit_code == 0
    assert server.login == "Basic ann:secret"
    narrowed = {"vhost": "v", "exchange": "", "routing_key": "k", "limit": 3, "selector": "a = 'ü'"}
    assert {name: server.asked[name] for name in narrowed} == narrowed


def test_one_message_and_none_are_said_as_people_say_it(server: OneAnswer) -> None:
    server.will_answer(200, **{**OUTCOME, "replayed": 1})
    assert run(server.url).stdout.startswith("replayed 1 message of ")
    server.will_answer(200, **{**OUTCOME, "replayed": 0, "first": None, "last": None})
    result = run(server.url)
    assert (result.exit_code, result.stdout) == (0, "replayed 0 messages of '[red]q' into 't'\n")


def test_problems_are_shown_and_fail_only_where_messages_are_missing(server: OneAnswer) -> None:
    server.will_answer(200, **{**OUTCOME, "problems": ["old things are gone"]})
    result = run(server.url)
    assert (result.exit_code, result.stderr) == (0, "hareline: old things are gone\n")
    server.will_answer(200, **{**OUTCOME, "unreadable": 7})
    result = run(server.url)
    assert (result.exit_code, result.stdout) == (1, LINE)
    assert result.stderr == "hareline: messages that could not be read: 7\n"


def test_a_replay_that_was_cut_short_says_how_far_it_came_and_why(server: OneAnswer) -> None:
    server.will_answer(409, error="refused", reason="queue 't' is at its limit", **OUTCOME)
    result = run(server.url)
    assert (result.exit_code, result.stdout) == (1, LINE)
    assert result.stderr == "hareline: queue 't' is at its limit\n"


def test_an_answer_of_something_else_is_told_as_such(server: OneAnswer) -> None:
    server.will_answer(404, detail="Not Found")
    result = run(server.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"hareline: {server.url}/api/replay: 404 Not Found\n"
    for answer in (b"<html>", b"[]", b"{}", b"\xff"):
        server.status, server.answer = 200, answer
        result = run(server.url)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.endswith("/api/replay: the answer does not come from a broker\n")


def test_nobody_who_listens_is_a_sentence(server: OneAnswer) -> None:
    result = run("http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr == "hareline: http://127.0.0.1:1/api/replay: Connection refused\n"


def test_the_password_is_asked_for_on_a_terminal_alone(
    server: OneAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(server.url, password=None)
    assert result.exit_code == 1
    assert "set HARELINE_PASSWORD" in result.stderr
    prompts: list[str] = []

    def asked(prompt: str) -> str:
        prompts.append(prompt)
        return "typed"

    monkeypatch.setattr("getpass.getpass", asked)
    monkeypatch.setattr("hareline.cli.target.is_terminal", lambda: True)
    assert run(server.url, "--user", "ann", password=None).exit_code == 0
    assert (prompts, server.login) == (["Password of ann: "], "Basic ann:typed")
