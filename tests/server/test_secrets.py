"""No secret in a log, an answer, the list of processes, a file or a crash: all are searched.

A daemon that logs as much as it can gets every kind of secret in every way that there is, right and
wrong. Then all that it said and wrote is searched for them.
"""

from __future__ import annotations

import base64
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pamqp import commands, frame

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi
from tests.support.raw_client import PROTOCOL_HEADER, RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
RIGHT, WRONG, NEW, BROKEN = "of-ann-7Qw", "guessed-8Xz", "changed-9Kp", "unusable-3Vb"
SECRETS = (RIGHT, WRONG, NEW, BROKEN)
USER = """
[[users]]
name = "ann"
password = "of-ann-7Qw"
tags = ["administrator"]
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
"""
CONFIG = f"""
[log]
level = "debug"
format = "json"
[auth]
failure_delay_s = 0
login_failures_max = 0
{USER}"""


def spellings(secret: str) -> Iterator[bytes]:
    """A secret as it may stand somewhere: plain, and in what HTTP and SASL make of it."""
    plain = secret.encode()
    yield plain
    yield plain.hex().encode()
    yield plain[::-1]
    yield base64.b64encode(plain).rstrip(b"=")
    yield base64.b64encode(b"ann:" + plain).rstrip(b"=")
    yield base64.b64encode(b"\0ann\0" + plain).rstrip(b"=")


def expect_none_in(octets: bytes, where: str) -> None:
    for secret in SECRETS:
        for spelling in spellings(secret):
            assert spelling not in octets, f"{spelling!r} in {where}"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that has seen every secret."""
    with BrokerProcess(tmp_path_factory.mktemp("daemon"), CONFIG) as daemon:
        _log_in_over_amqp(daemon)
        _log_in_over_http(daemon)
        _use_the_command_line(daemon)
        _reload_what_is_wrong(daemon)
        yield daemon


def _log_in_over_amqp(daemon: BrokerProcess) -> None:
    for password in (RIGHT, WRONG):
        parameters = pika.URLParameters(daemon.url_for(username="ann", password=password))
        try:
            pika.BlockingConnection(parameters).close()
        except pika.exceptions.AMQPError:
            assert password == WRONG
    malformed = f"\0ann{WRONG}", f"ann {WRONG}", f"\0ann\0{WRONG}\0more", WRONG
    for mechanism in ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "NONE"):
        for response in malformed:
            with RawClient((daemon.host, daemon.port)) as raw:
                raw.send_octets(PROTOCOL_HEADER)
                raw.expect(commands.Connection.Start)
                start_ok = commands.Connection.StartOk({}, mechanism, response, "en_US")
                raw.send_octets(frame.marshal(start_ok, 0))
                raw.socket.shutdown(socket.SHUT_WR)
                while raw.socket.recv(4096):
                    pass


def _log_in_over_http(daemon: BrokerProcess) -> None:
    for password in (RIGHT, WRONG):
        api = HttpApi(daemon.management_url, "ann", password)
        assert api.ask("GET", "/api/whoami").status_code == (200 if password == RIGHT else 401)
    nobody = HttpApi(daemon.management_url, None)
    for header in (f"Bearer {WRONG}", f"Basic {WRONG}", f"Digest {WRONG}", WRONG):
        nobody.ask("GET", "/api/whoami", headers={"Authorization": header})
    api = HttpApi(daemon.management_url, "ann", RIGHT)
    api.done("PUT", "/api/users/bob", {"password": NEW, "tags": ""})
    api.done("PUT", "/api/users/carol", {"password": NEW, "tags": "monitoring"})
    api.ask("PUT", "/api/users/bob", {"password": BROKEN, "tags": 7})
    api.ask("PUT", "/api/users/bob", {"password": [BROKEN], "tags": ""})
    api.ask("PUT", "/api/users/bob", b'{"password": "' + BROKEN.encode() + b'"')
    api.ask("POST", "/api/definitions", {"users": [{"name": "dan", "password": BROKEN}]})
    api.ask("POST", "/api/definitions", {"users": [{"name": 7, "password": BROKEN}]})


def _use_the_command_line(daemon: BrokerProcess) -> None:
    for password in (RIGHT, WRONG):
        hareline = CommandLine(
            HARELINE_URL=daemon.management_url, HARELINE_USER="ann", HARELINE_PASSWORD=password
        )
        done = hareline("user", "passwd", "bob", text=f"{NEW}\n")
        expect_none_in(done.out + done.err.encode(), "the command's output")


def _reload_what_is_wrong(daemon: BrokerProcess) -> None:
    daemon.reload(CONFIG + f'[[users]]\nname = "eve"\npassword_hash = "{BROKEN}"\n')
    wait_for(lambda: "CFG-1003" in daemon.log_tail(), DEADLINE_S, "the settings to be refused")
    daemon.reload(CONFIG + f'[[users]]\nname = "eve"\npasword = "{BROKEN}"\n')
    daemon.reload(CONFIG + f'[[users]]\nname = "eve"\npassword = "{BROKEN}\n')
    daemon.reload(CONFIG)


@pytest.mark.acceptance
def test_the_log_has_none(daemon: BrokerProcess) -> None:
    text = daemon.log_path.read_bytes()
    assert text.count(b"CON-1003") >= 2  # it did log what happened
    expect_none_in(text, "the log")


def test_the_list_of_processes_has_none(daemon: BrokerProcess) -> None:
    assert daemon.process is not None
    process = Path(f"/proc/{daemon.process.pid}")
    if not process.exists():
        pytest.skip("needs Linux's /proc")
    lists = (process / "task").glob("*/children")
    children = [number for each in lists for number in each.read_text().split()]
    for number in (str(daemon.process.pid), *children):
        expect_none_in(Path(f"/proc/{number}/cmdline").read_bytes(), "a command line")
        expect_none_in(Path(f"/proc/{number}/comm").read_bytes(), "a process's name")


@pytest.mark.acceptance
def test_no_answer_has_one(daemon: BrokerProcess) -> None:
    """Every route of the API without arguments, and some with, as everybody."""
    ann = HttpApi(daemon.management_url, "ann", RIGHT)
    carol = HttpApi(daemon.management_url, "carol", NEW)
    nobody = HttpApi(daemon.management_url, None)
    described = nobody.get("/openapi.json")["paths"]
    paths = [path for path, methods in described.items() if "get" in methods and "{" not in path]
    paths += ["/api/users/ann", "/api/users/bob", "/api/definitions/%2F", "/", "/openapi.json"]
    assert len(paths) > 20
    for path in paths:
        for api in (ann, carol, nobody):
            answer = api.ask("GET", path)
            assert answer.status_code < 500, path
            expect_none_in(answer.content, path)
            if api is not ann:
                assert b"password_hash" not in answer.content or path == "/openapi.json", path


@pytest.mark.acceptance
def test_no_file_of_the_broker_has_one(daemon: BrokerProcess) -> None:
    files = [path for path in daemon.data_dir.rglob("*") if path.is_file()]
    assert files
    for path in files:
        expect_none_in(path.read_bytes(), str(path))
        assert not path.stat().st_mode & 0o007, f"{path} can be read by everybody"


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_crash_says_none(start_daemon: StartDaemon, number: signal.Signals) -> None:
    daemon = start_daemon(CONFIG)
    assert daemon.process is not None
    connection = pika.BlockingConnection(
        pika.URLParameters(daemon.url_for(username="ann", password=RIGHT))
    )
    daemon.process.send_signal(number)
    daemon.process.wait(DEADLINE_S)
    with pytest.raises(pika.exceptions.AMQPError):
        connection.channel()
    expect_none_in(daemon.log_path.read_bytes(), "the log of a crash")
    daemon.kill()


@pytest.mark.acceptance
def test_a_broker_that_does_not_start_says_none(tmp_path: Path) -> None:
    path = tmp_path / "hareline.toml"
    path.write_text(CONFIG.replace("[auth]", "[auth]\nmechanisms = 7") + "[[users]]\nname = 7\n")
    done = CommandLine().serve("--config", str(path))
    assert done.status == 1
    expect_none_in(done.out + done.err.encode(), "what it said")
