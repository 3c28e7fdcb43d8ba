"""Get and browse: messages are gone only when an answer shows them, whatever is in them."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hareline.management import bodies
from hareline.management.api import message_json
from hareline.settings import Storage
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings
from tests.support.http_api import DEADLINE_S
from tests.support.waiting import wait_for

DEEP = b"[" * 300 + b"]" * 300
DEEPER = b"[" * 100_000


def publish(broker: ApiBroker, name: str, *bodies: bytes) -> None:
    channel = broker.connect().channel()
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", name, body)


def get(broker: ApiBroker, name: str, **body: Any) -> Any:
    answer = broker.ask("POST", f"/queues/%2F/{name}/get", json={"count": 9, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def counts(broker: ApiBroker, name: str) -> tuple[int, int]:
    """Ready and unacknowledged messages."""
    return broker.thread.ask_queue(name, lambda queue: (queue.ready_count, queue.unacked_count))


@pytest.mark.acceptance
@pytest.mark.parametrize("body", [DEEP, DEEPER, b"[" * 150 + b"]" * 150], ids=len)
def test_json_that_is_too_deep_is_shown_as_text(broker: ApiBroker, body: bytes) -> None:
    publish(broker, "deep", b"1", body)
    page = broker.ask("POST", "/queues/%2F/deep/browse", json={"encoding": "json"}).json()
    assert [each["payload_encoding"] for each in page["messages"]] == ["json", "string"]
    first, second = get(broker, "deep", encoding="json", ackmode="ack_requeue_false")
    assert (first["payload"], second["payload"]) == (1, body.decode())
    assert counts(broker, "deep") == (0, 0)


@pytest.mark.acceptance
@pytest.mark.parametrize("ackmode", ["ack_requeue_false", "reject_requeue_false"])
def test_messages_that_could_not_be_shown_are_back_in_their_places(
    broker: ApiBroker, ackmode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(broker, "failing", b"1", b"2", b"3")
    shown: list[Any] = []

    def failing(data: Any) -> bytes:
        if shown:
            raise MemoryError
        shown.append(data)
        return json.dumps(data).encode()

    with monkeypatch.context() as patched:
        patched.setattr(message_json, "encoded", failing)
        body = {"count": 9, "ackmode": ackmode}
        assert broker.ask("POST", "/queues/%2F/failing/get", json=body).status_code == 500
    assert counts(broker, "failing") == (3, 0)
    found = get(broker, "failing", ackmode="ack_requeue_false")
    assert [each["payload"] for each in found] == ["1", "2", "3"]
    assert not any(each["redelivered"] for each in found)


@pytest.mark.acceptance
def test_many_messages_come_in_their_order_and_are_counted(broker: ApiBroker) -> None:
    publish(broker, "many", *(b"%d" % number for number in range(1_000)))
    found = get(broker, "many", count=700, ackmode="ack_requeue_false")
    assert [each["payload"] for each in found] == [str(number) for number in range(700)]
    assert [each["message_count"] for each in found] == list(range(999, 299, -1))
    assert counts(broker, "many") == (300, 0)
    assert [each["payload"] for each in get(broker, "many", count=1)] == ["700"]


@pytest.mark.acceptance
@pytest.mark.parametrize("ackmode", ["ack_requeue_false", "reject_requeue_false"])
def test_a_message_that_cannot_be_read_stays(tmp_path: Path, ackmode: str) -> None:
    settings = api_settings(data_dir=tmp_path, storage=Storage())
    with api_broker(settings) as broker:
        large = b"large" * 300_000
        channel = broker.connect().channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", large)
        channel.basic_publish("", "q", b"small")
        (file,) = [each for each in tmp_path.rglob("*") if holds(each, large)]
        file.write_bytes(b"LARGE" + file.read_bytes()[5:])
        first, second = get(broker, "q", ackmode=ackmode)
        assert "cannot be read" in first["problem"]
        assert "payload" not in first
        assert second["payload"] == "small"
        assert counts(broker, "q") == (1, 0)
        page = broker.ask("POST", "/queues/%2F/q/browse", json={"truncate": None}).json()
        assert [each["offset"] for each in page["messages"]] == [0]
        assert "cannot be read" in page["messages"][0]["problem"]
        deleted = broker.ask("POST", "/queues/%2F/q/delete", json={"offsets": [0]}).json()
        assert deleted["deleted"] == 1


def holds(path: Path, body: bytes) -> bool:
    """Whether this is the file of a large body."""
    return path.is_file() and path.stat().st_size >= len(body) and body in path.read_bytes()


@pytest.mark.acceptance
def test_answers_that_are_not_read_leave_room_for_small_ones_only(
    broker: ApiBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without room are refused, and what they had taken is back in its place."""
    monkeypatch.setattr(
        bodies.BodiesInFlight, "hold", lambda self, _: bodies.HeldBody(self, 2_000_000)
    )
    megabyte = b"x" * 1_000_000
    publish(broker, "unread", *[megabyte] * 16)
    publish(broker, "unread-small", b"small")
    publish(broker, "unread-held", megabyte)
    broker.connect().channel().basic_consume("unread-held", lambda *_: None)
    held = "/queues/%2F/unread-held/unacknowledged"
    broker.wait_for(held, lambda page: page["messages"], "the delivery")

    def browse(queue: str) -> tuple[int, Any]:
        answer = broker.ask("POST", f"/queues/%2F/{queue}/browse", json={"truncate": None})
        return answer.status_code, answer.json()

    assert len(browse("unread")[1]["messages"]) == 16  # one alone has room
    login = b64encode(f"admin:{PASSWORD}".encode()).decode()
    body = b'{"truncate": null}'
    head = "POST /api/queues/%2F/unread/browse HTTP/1.1\r\nHost: x\r\n"
    head += f"Authorization: Basic {login}\r\nContent-Length: {len(body)}\r\n\r\n"
    address = urlsplit(broker.url)
    with socket.create_connection((address.hostname, address.port or 0)) as client:
        client.sendall(head.encode() + body)
        status, refusal = wait_for(
            lambda: found if (found := browse("unread"))[0] != 200 else None,
            DEADLINE_S,
            "a refusal",
        )
        assert (status, refusal["error"]) == (503, "busy")
        assert "not sent yet" in refusal["reason"]
        asked = {"count": 9, "ackmode": "ack_requeue_false"}
        answer = broker.ask("POST", "/queues/%2F/unread/get", json=asked)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert broker.refused(f"{held}?truncate=1000000")[0] == 503
        assert len(broker.get(f"{held}?truncate=9")["messages"]) == 1
        assert counts(broker, "unread") == (16, 0)
        assert browse("unread-small")[1]["messages"][0]["payload"] == "small"
        assert get(broker, "unread-small")[0]["payload"] == "small"
    wait_for(lambda: browse("unread")[0] == 200 or None, DEADLINE_S, "room")
    assert len(get(broker, "unread", ackmode="ack_requeue_false")) == 9
    assert counts(broker, "unread") == (7, 0)
