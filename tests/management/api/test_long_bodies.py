"""Long bodies over HTTP: they come in and go out as they are, and others go on meanwhile."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hareline.management import bodies
from hareline.settings import Limits, Storage
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings
from tests.support.slow_request import SlowRequest
from tests.support.waiting import wait_for

LINE = 'a "quoted" \\ line, \x01 and € and 😀\n'
BODIES = {
    "text": (LINE * 20_000).encode(),  # in memory
    "large text": (LINE * 60_000).encode(),  # in a file
    "octets": random.Random(5).randbytes(300_001),
    "large octets": random.Random(6).randbytes(1_500_002),
    "text with a bad end": (LINE * 20_000).encode() + b"\xe2\x82",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiBroker]:
    """A broker with files."""
    directory: Path = tmp_path_factory.mktemp("broker")
    with api_broker(api_settings(data_dir=directory, storage=Storage())) as made:
        yield made


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def queue(broker: ApiBroker, name: str) -> Any:
    channel = broker.connect().channel()
    channel.queue_declare(name, durable=True)
    channel.queue_purge(name)
    channel.confirm_delivery()
    return channel


def bodies_in(channel: Any, name: str) -> list[bytes]:
    found = []
    while (body := channel.basic_get(name, auto_ack=True)[2]) is not None:
        found.append(body)
    return found


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_publish_brings_the_body_as_it_is(broker: ApiBroker, kind: str, is_ascii: bool) -> None:
    body, channel = BODIES[kind], queue(broker, "in")
    text, encoding = body.decode("utf-8", "replace"), "string"
    if not is_text(body):
        text, encoding = base64.b64encode(body).decode(), "base64"
    asked = {"payload": text, "payload_encoding": encoding, "routing_key": "in", "properties": {}}
    octets = json.dumps(asked, ensure_ascii=is_ascii).encode()
    answer = broker.ask("POST", "/exchanges/%2F/amq.default/publish", content=octets)
    assert answer.json() == {"routed": True}
    assert bodies_in(channel, "in") == [body]


@pytest.mark.parametrize(
    ("payload", "encoding", "reason"),
    [
        ('"' + "A" * 300_001 + '"', "base64", "payload: not valid base64"),
        ('"' + "A" * 300_000 + '\\ud800"', "string", "payload: not valid Unicode; use base64"),
        ('"' + "A" * 300_000 + '\\x"', "string", "payload: not valid JSON"),
        ('"' + "A" * 300_000, "string", "body: not JSON"),
        ('"", "x": "' + "A" * 2_100_000 + '"', "string", "octets beside 'payload'"),
    ],
)
def test_a_long_payload_that_is_wrong(
    broker: ApiBroker, payload: str, encoding: str, reason: str
) -> None:
    octets = '{"routing_key": "in", "properties": {}, "payload_encoding": "%s", "payload": %s}'
    answer = broker.ask(
        "POST", "/exchanges/%2F/amq.default/publish", content=octets % (encoding, payload)
    )
    assert answer.status_code == 400
    assert reason in answer.json()["reason"]


def shown(message: dict[str, Any]) -> bytes:
    """The body that an answer shows."""
    payload = message["payload"]
    if message["payload_encoding"] == "base64":
        return base64.b64decode(payload)
    if message["payload_encoding"] == "hex":
        return bytes.fromhex(payload)
    return str(payload).encode()


@pytest.mark.acceptance
@pytest.mark.parametrize("encoding", ["auto", "base64", "hex", "json"])
def test_get_and_browse_show_all_of_them(broker: ApiBroker, encoding: str) -> None:
    channel = queue(broker, "out")
    for body in (b"first", *BODIES.values(), b"last"):
        channel.basic_publish("", "out", body)
    wanted = [b"first", *BODIES.values(), b"last"]
    asked: dict[str, Any] = {"encoding": encoding, "truncate": None}
    page = broker.ask("POST", "/queues/%2F/out/browse", json=asked).json()
    assert [shown(each) for each in page["messages"]] == wanted
    asked = {"count": 99, "encoding": encoding, "ackmode": "ack_requeue_false"}
    found = broker.ask("POST", "/queues/%2F/out/get", json=asked).json()
    assert [shown(each) for each in found] == wanted
    assert [each["message_count"] for each in found] == list(range(6, -1, -1))
    if encoding == "auto":
        kinds = ["string" if is_text(each) else "base64" for each in wanted]
        assert [each["payload_encoding"] for each in found] == kinds


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["large text", "large octets"])
def test_a_long_body_is_cut(broker: ApiBroker, kind: str) -> None:
    channel, body = queue(broker, "cut"), BODIES[kind]
    channel.basic_publish("", "cut", body)
    for size in (300_000, 300_001, 300_002, 300_003):  # one of them is within a character
        asked = {"truncate": size}
        (message,) = broker.ask("POST", "/queues/%2F/cut/browse", json=asked).json()["messages"]
        assert message["truncated"] is True
        assert body.startswith(shown(message))
        assert size - 3 <= len(shown(message)) <= size


@pytest.mark.acceptance
def test_an_export_is_imported_octet_for_octet(broker: ApiBroker) -> None:
    channel, copy = queue(broker, "exported"), queue(broker, "imported")
    wanted = [b"first", *BODIES.values(), b"last"]
    for body in wanted:
        channel.basic_publish("", "exported", body)
    exported = broker.ask("POST", "/queues/%2F/exported/export", json={})
    lines = [json.loads(line) for line in exported.content.splitlines()]
    assert lines[-1] == {"end": True, "messages": len(wanted), "unreadable": 0}
    answer = broker.ask("POST", "/queues/%2F/imported/import", content=exported.content)
    assert (answer.status_code, answer.json()["imported"]) == (200, len(wanted))
    assert bodies_in(copy, "imported") == wanted


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        ('"' + "A" * 300_001 + '"', "base64", "line 2: body: not valid base64"),
        ('"' + "A" * 300_000 + '\\ud800"', "utf-8", "line 2: body: not valid Unicode"),
        ('"' + "A" * 300_000 + '\\x"', "utf-8", "line 2: body: not valid JSON"),
        ('"' + "A" * 300_000 + '"', "none", "line 2: body_encoding: 'none' is neither"),
        ('"' + "A" * 300_000, "utf-8", "line 2: not JSON"),
        ('"", "x": "' + "A" * 2_100_000 + '"', "utf-8", "octets beside 'body'"),
    ],
)
def test_a_line_whose_long_body_is_wrong(
    broker: ApiBroker, body: str, encoding: str, reason: str
) -> None:
    queue(broker, "imported")
    head = '{"format": "hareline-messages", "version": 1}\n'
    octets = head + f'{{"body_encoding": "{encoding}", "body": {body}}}\n'
    answer = broker.ask("POST", "/queues/%2F/imported/import", content=octets)
    assert answer.status_code == 400
    assert reason in answer.json()["reason"]


@pytest.mark.acceptance
def test_bodies_of_all_requests_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SPARE_BYTES", 100_000)
    holders: list[bodies.BodiesInFlight] = []
    hold = bodies.BodiesInFlight.hold

    def holding(self: bodies.BodiesInFlight, max_bytes: int) -> bodies.HeldBody:
        holders.append(self)
        return hold(self, max_bytes)

    monkeypatch.setattr(bodies.BodiesInFlight, "hold", holding)
    settings = api_settings(limits=Limits(max_message_bytes=1_048_576))
    with api_broker(settings) as broker:
        path = "/exchanges/%2F/amq.default/publish"
        largest = 1_048_576 * 140 // 100 + 1_048_576
        port = int(broker.url.rpartition(":")[2])
        slow = SlowRequest(port, "POST", path, largest, "admin", PASSWORD)
        sent = largest - 50_000
        slow.send(b" " * sent)
        wait_for(lambda: any(each.held >= sent for each in holders), 60, "all that was sent")
        asked = {"properties": {}, "routing_key": "q", "payload_encoding": "string"}
        long = {**asked, "payload": "x" * 300_000}
        answer = broker.ask("POST", path, json=long)
        assert answer.status_code == 503
        assert (answer.json()["error"], answer.headers["Retry-After"]) == ("busy", "1")
        short = {**asked, "payload": "x"}
        assert broker.ask("POST", path, json=short).status_code == 200
        slow.leave()
        wait_for(
            lambda: broker.ask("POST", path, json=long).status_code == 200 or None, 60, "room again"
        )


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"CC": [f"key {number}" for number in range(50_000)]}, "of which a frame holds 131052"),
        ({"x": "x" * 131_072}, "of which a frame holds 131052"),
        ({"x": 2**70}, "properties: "),
        ({"x" * 256: 1}, "properties: "),
    ],
)
def test_properties_that_no_frame_can_hold(broker: ApiBroker, headers: Any, reason: str) -> None:
    """They could never be delivered."""
    asked = {
        "routing_key": "in",
        "payload": "",
        "payload_encoding": "string",
        "properties": {"headers": headers},
    }
    answer = broker.ask("POST", "/exchanges/%2F/amq.default/publish", json=asked)
    assert answer.status_code == 400
    assert reason in answer.json()["reason"]


@pytest.mark.acceptance
def test_the_largest_properties_are_delivered(broker: ApiBroker) -> None:
    channel = queue(broker, "in")
    text = "x" * (131_052 - 13)  # flags, the length of the table, and of its only field
    asked = {
        "routing_key": "in",
        "payload": "1",
        "payload_encoding": "string",
        "properties": {"headers": {"x": text}},
    }
    answer = broker.ask("POST", "/exchanges/%2F/amq.default/publish", json=asked)
    assert answer.json() == {"routed": True}
    _, properties, body = channel.basic_get("in", auto_ack=True)
    assert (properties.headers, body) == ({"x": text}, b"1")
