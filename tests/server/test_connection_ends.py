"""The end of a connection is one line of the log, whatever the client does, on both event loops."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.raw_client import PROTOCOL_HEADER, RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
SETTINGS = """
[limits]
handshake_timeout_s = 3600
[log]
level = "debug"
"""
UNKNOWN_FRAME = b"\x09\0\0\0\0\0\0\xce"
GOODBYE = commands.Connection.Close(reply_code=200, reply_text="bye", class_id=0, method_id=0)

End = Callable[[RawClient], None]


def reset(client: RawClient) -> None:
    """As the system does it for a process that was killed with octets unread."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.drop()


def leave(client: RawClient) -> None:
    client.open()
    client.drop()


def leave_in_the_middle_of_a_frame(client: RawClient) -> None:
    client.open()
    client.send_octets(b"\x01\0\0\0\0")
    client.drop()


def die(client: RawClient) -> None:
    client.open()
    reset(client)


def die_with_deliveries_on_their_way(client: RawClient) -> None:
    client.open()
    queue = client.declare("", exclusive=True)
    client.publish(queue, *[bytes(100_000)] * 100)
    client.consume(queue)
    client.read_bodies(1)
    reset(client)


def close_and_wait_for_nothing(client: RawClient) -> None:
    client.open()
    client.send(GOODBYE, 0)
    reset(client)


def send_garbage_and_leave(client: RawClient) -> None:
    client.open()
    client.send_octets(UNKNOWN_FRAME)
    client.drop()


def send_garbage_and_stay(client: RawClient) -> None:
    client.open()
    client.send_octets(UNKNOWN_FRAME)
    client.expect(commands.Connection.Close)
    client.agree_to_close()


def miss_heartbeats(client: RawClient) -> None:
    client.open(heartbeat_s=1)
    client.read_until_closed()
    client.drop()


def log_in_wrongly(client: RawClient) -> None:
    with pytest.raises(AssertionError, match=r"Connection\.Close: 403"):
        client.log_in(password="wrong")
    client.agree_to_close()


def die_in_the_handshake(client: RawClient) -> None:
    client.log_in()
    reset(client)


def leave_in_the_handshake(client: RawClient) -> None:
    client.log_in()
    client.drop()


def leave_before_the_login(client: RawClient) -> None:
    client.send_octets(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    client.drop()


def wait_in_the_handshake(client: RawClient) -> None:
    client.send_octets(PROTOCOL_HEADER)
    client.read_until_closed()
    client.drop()


def speak_http(client: RawClient) -> None:
    client.send_octets(b"GET / HTTP/1.0\r\n\r\n")
    client.drop()


ENDS: dict[End, list[str]] = {
    RawClient.drop: ["CON-1014"],
    speak_http: ["CON-1008"],
    wait_in_the_handshake: ["CON-1006"],
    leave_before_the_login: ["CON-1014"],
    leave_in_the_handshake: ["CON-1004"],
    die_in_the_handshake: ["CON-1004"],
    log_in_wrongly: ["CON-1003"],
    leave: ["CON-1001", "CON-1004"],
    leave_in_the_middle_of_a_frame: ["CON-1001", "CON-1004"],
    die: ["CON-1001", "CON-1004"],
    die_with_deliveries_on_their_way: ["CON-1001", "CON-1004"],
    miss_heartbeats: ["CON-1001", "CON-1007"],
    send_garbage_and_leave: ["CON-1001", "CON-1005"],
    send_garbage_and_stay: ["CON-1001", "CON-1005"],
    close_and_wait_for_nothing: ["CON-1001", "CON-1002"],
}


def codes_by_peer(daemon: BrokerProcess) -> dict[str, list[str]]:
    """Codes of the lines of each peer, and under "" those of lines without one."""
    found: dict[str, list[str]] = {}
    assert daemon.log_path is not None
    for line in daemon.log_path.read_text().splitlines():
        fields = json.loads(line)
        found.setdefault(fields.get("peer", ""), []).append(fields.get("code", fields["event"]))
    return found


@pytest.mark.acceptance
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_each_end_of_a_connection_is_one_line(
    loop: str, start_daemon: StartDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if loop == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ImportError('hidden by a test')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    daemon = start_daemon(SETTINGS)

    def come_to(end: End) -> str:
        with RawClient((daemon.host, daemon.port)) as client:
            host, port = client.socket.getsockname()
            end(client)
        return f"{host}:{port}"

    ends = [end for end in ENDS if end is not wait_in_the_handshake]
    with ThreadPoolExecutor(max_workers=len(ends)) as pool:  # some wait for seconds
        expected = {
            peer: ENDS[end] for peer, end in zip(pool.map(come_to, ends), ends, strict=True)
        }
    daemon.reload(SETTINGS.replace("3600", "0.5"))
    wait_for(lambda: "CFG-1001" in codes_by_peer(daemon)[""], DEADLINE_S, "the reload")
    expected[come_to(wait_in_the_handshake)] = ENDS[wait_in_the_handshake]
    wait_for(
        lambda: expected.keys() <= codes_by_peer(daemon).keys() or None, DEADLINE_S, "all peers"
    )
    daemon.stop()
    found = codes_by_peer(daemon)
    assert "BRK-1007" not in found.pop("")
    assert found == expected


@pytest.mark.acceptance
def test_a_probe_that_is_reset_leaves_a_line_for_debugging_only(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("")
    for end in (reset, RawClient.drop):
        end(RawClient((daemon.host, daemon.port)))
    with RawClient((daemon.host, daemon.port)) as client:
        client.open()
        client.close()
    daemon.stop()
    codes = codes_by_peer(daemon)
    codes.pop("")
    assert list(codes.values()) == [["CON-1001", "CON-1002"]]
