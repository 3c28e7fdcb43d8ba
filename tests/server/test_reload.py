"""SIGHUP: what a running broker takes over from its file, what it refuses, what it cannot change.

One daemon for all tests here; each starts from the same file.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from pamqp import commands

from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0

ALL = '[{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]'
BASE = """
[limits]
channel_max = 100
max_message_bytes = "1MiB"
[log]
level = "info"
"""
VHOSTS = """
[[vhosts]]
name = "/"
"""
USERS = f"""
[[users]]
name = "guest"
password = "guest"
permissions = {ALL}
[[users]]
name = "anna"
password = "secret"
permissions = {ALL}
"""
FILE = BASE + VHOSTS + USERS

Reload = Callable[..., list[dict[str, object]]]


pytestmark = pytest.mark.daemon(FILE)


@pytest.fixture
def reload(daemon: BrokerProcess) -> Iterator[Reload]:
    """``reload(text)`` puts it into the file, sends SIGHUP, and returns what is logged of that."""

    def replace(text: str, answer: str = "CFG-1001") -> list[dict[str, object]]:
        start = daemon.log_path.stat().st_size
        daemon.reload(text)

        def new_lines() -> list[dict[str, object]] | None:
            with daemon.log_path.open("rb") as log:
                log.seek(start)
                written = log.read()
            if not written.endswith(b"\n") or answer.encode() not in written:
                return None
            lines = [json.loads(line) for line in written.splitlines()]
            return [line for line in lines if str(line.get("code", "CFG")).startswith("CFG")]

        return wait_for(new_lines, DEADLINE_S, f"{answer} in the log")

    yield replace
    replace(FILE)


@pytest.fixture
def client(daemon: BrokerProcess) -> Iterator[Callable[[], RawClient]]:
    clients: list[RawClient] = []

    def connect() -> RawClient:
        clients.append(RawClient((daemon.host, daemon.port)))
        return clients[-1]

    yield connect
    for one in clients:
        one.drop()


Connect = Callable[[], RawClient]


@pytest.mark.acceptance
def test_connections_of_a_removed_user_are_closed_and_no_others(
    reload: Reload, client: Connect
) -> None:
    anna, guest = client().open("anna", "secret"), client().open()
    reload(FILE.replace('name = "anna"', 'name = "berta"'))
    closed = anna.expect(commands.Connection.Close)
    assert closed.reply_code == 320
    assert closed.reply_text == "CONNECTION_FORCED - user 'anna' is deleted"
    anna.agree_to_close()
    guest.declare("still-here", exclusive=True)
    with pytest.raises(AssertionError, match=r"ACCESS_REFUSED"):
        client().open("anna", "secret")
    client().open("berta", "secret")


def test_a_removed_user_in_the_middle_of_a_handshake_does_not_get_in(
    reload: Reload, client: Connect
) -> None:
    anna = client()
    tune = anna.log_in("anna", "secret")
    reload(FILE.replace('name = "anna"', 'name = "berta"'))
    tune_ok = commands.Connection.TuneOk(
        channel_max=tune.channel_max, frame_max=tune.frame_max, heartbeat=0
    )
    with suppress(ConnectionError):
        anna.send(tune_ok, 0)
        anna.send(commands.Connection.Open(virtual_host="/"), 0)
    assert anna.read_until_closed() == b""


def test_a_new_password_counts_for_new_connections_alone(reload: Reload, client: Connect) -> None:
    before = client().open("anna", "secret")
    reload(FILE.replace("secret", "changed"))
    before.declare("", exclusive=True)
    client().open("anna", "changed")
    with pytest.raises(AssertionError, match=r"ACCESS_REFUSED"):
        client().open("anna", "secret")


def test_new_permissions_count_for_old_connections_and_new_ones(
    reload: Reload, client: Connect
) -> None:
    before = client().open("anna", "secret")
    before.declare("other", exclusive=True)
    narrowed = f"{USERS.rpartition('permissions')[0]}permissions = "
    narrowed += '[{ vhost = "/", configure = "^anna-" }]\n'
    reload(BASE + VHOSTS + narrowed)
    after = client().open("anna", "secret")
    for anna in (before, after):
        anna.declare("anna-queue", auto_delete=True)
        anna.send(commands.Queue.Declare(queue="another"))
        assert anna.expect(commands.Channel.Close).reply_code == 403


def test_a_new_default_prefetch_counts_for_new_consumers(reload: Reload, client: Connect) -> None:
    raw = client().open(channels=(1, 2))
    raw.declare("first", exclusive=True)
    raw.declare("second", exclusive=True)
    reload(FILE.replace('name = "/"', 'name = "/"\ndefault_prefetch = 2'))
    raw.publish("first", *[b"x"] * 10)
    raw.consume("first", tag="first", no_ack=False)
    raw.read_bodies(2)
    assert raw.ready_count("first") == 8
    reload(FILE.replace('name = "/"', 'name = "/"\nprefetch_profile = "activemq"'))
    raw.publish("second", *[b"x"] * 10)
    raw.consume("second", tag="second", no_ack=False)
    assert raw.read_bodies(10) == [b"x"] * 10
    reload(FILE.replace('name = "/"', 'name = "/"\nprefetch_max = 3'))
    raw.publish("second", *[b"y"] * 10)
    raw.read_bodies(10)  # the limit of a consumer that runs is what it was
    raw.call(commands.Basic.Cancel(consumer_tag="second"), commands.Basic.CancelOk)
    raw.publish("second", *[b"z"] * 10)
    raw.consume("second", tag="third", no_ack=False)
    raw.read_bodies(3)
    assert raw.ready_count("second") == 7


def test_a_new_virtual_host_can_be_entered(reload: Reload, client: Connect) -> None:
    before = client()
    before.open()
    reload(
        BASE
        + VHOSTS
        + '[[vhosts]]\nname = "later"\n'
        + USERS.replace("= [{", '= [{ vhost = "later", read = ".*" }, {')
    )
    client().open(vhost="later")
    before.declare("", exclusive=True)


def test_a_virtual_host_that_is_no_longer_listed_stays_and_is_named(
    reload: Reload, client: Connect
) -> None:
    reload(BASE + VHOSTS + '[[vhosts]]\nname = "kept"\n' + USERS)
    lines = reload(FILE, "CFG-1002")
    assert "vhosts: kept" in str(lines[-1]["options"])


def test_new_limits_count_for_new_connections(reload: Reload, client: Connect) -> None:
    reload(FILE.replace("channel_max = 100", "channel_max = 7"))
    assert client().log_in().channel_max == 7


@pytest.mark.row("E28")
def test_a_smaller_message_limit_counts_at_once(reload: Reload, client: Connect) -> None:
    reload(FILE.replace('"1MiB"', "1000"))
    raw = client().open()
    raw.publish("nowhere", bytes(1001))
    closed = raw.expect(commands.Channel.Close)
    assert closed.reply_text == (
        "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    )


def test_the_log_level_changes(reload: Reload, client: Connect, daemon: BrokerProcess) -> None:
    daemon.reload(FILE.replace('level = "info"', 'level = "warning"'))
    size = 0

    def is_quiet() -> bool:
        nonlocal size
        before = daemon.log_path.stat().st_size
        client().open().close()
        size = daemon.log_path.stat().st_size
        return size == before

    wait_for(is_quiet, DEADLINE_S, "a connection that is not logged")
    reload(FILE)
    client().open().close()
    wait_for(lambda: "CON-1001" in log_after(daemon, size), DEADLINE_S, "a connection in the log")


def log_after(daemon: BrokerProcess, position: int) -> str:
    return daemon.log_path.read_bytes()[position:].decode()


def test_what_needs_a_restart_is_named_and_not_changed(
    reload: Reload, client: Connect, daemon: BrokerProcess
) -> None:
    lines = reload(FILE + '[listener]\nbacklog = 7\n[identity]\nproduct = "X"\n', "CFG-1002")
    assert lines[-1]["options"] == "listener.backlog, identity.product"
    assert "listener.backlog" in str(lines[-2]["changed"])
    client().open()


def test_what_was_changed_is_named(reload: Reload) -> None:
    lines = reload(FILE.replace("channel_max = 100", "channel_max = 99"))
    assert lines[-1]["changed"] == ["limits.channel_max"]
    assert reload(FILE)[-1]["changed"] == ["limits.channel_max"]
    assert reload(FILE)[-1]["changed"] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[limits\n", "hareline.toml"),
        ("[limits]\nchannel_max = 0\n", "limits.channel_max"),
        ("[limits]\nno_such_option = 1\n", "no_such_option"),
        ("vhosts = []\n", "vhosts"),
    ],
)
def test_a_file_with_an_error_is_refused_and_changes_nothing(
    reload: Reload, client: Connect, text: str, problem: str
) -> None:
    before = client()
    before.open()
    lines = reload(text, "CFG-1003")
    assert problem in str(lines[-1]["problem"])
    before.declare("", exclusive=True)
    assert client().log_in().channel_max == 100


def test_every_error_of_a_file_is_named(reload: Reload) -> None:
    lines = reload("[limits]\nchannel_max = 0\nheartbeat_s = -1\n", "heartbeat_s")
    problems = [str(line["problem"]) for line in lines]
    assert len(problems) == 2
    assert "limits.channel_max" in problems[0]


def test_a_file_that_is_gone_is_refused(
    reload: Reload, client: Connect, daemon: BrokerProcess
) -> None:
    daemon.config_path.unlink()
    start = daemon.log_path.stat().st_size
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "CFG-1003" in log_after(daemon, start), DEADLINE_S, "the refusal")
    assert str(daemon.config_path) in log_after(daemon, start)
    client().open()


def test_what_a_flag_outweighs_is_said_at_each_reload(
    reload: Reload, daemon: BrokerProcess
) -> None:
    def overridden(lines: list[dict[str, object]]) -> list[tuple[object, ...]]:
        told = [line for line in lines if line["code"] == "CFG-1004"]
        return [(line["option"], line["origin"], line["file"]) for line in told]

    assert overridden(reload(FILE)) == []
    lines = reload(f"{FILE}[listener]\nport = 1\nbacklog = 7\n")
    assert overridden(lines) == [("listener.port", "--port", str(daemon.config_path))]
