"""Messages of queues over real HTTP, while clients of AMQP are at work, over restarts and kills."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import pika
import pytest

from tests.support.api_broker import ApiBroker
from tests.support.broker_process import StartDaemon
from tests.support.http_api import HttpApi
from tests.support.pika_calls import channel_to, get_all
from tests.support.waiting import wait_for

DEADLINE_S = 60.0


def new_name(prefix: str = "q") -> str:
    return f"{prefix}-{uuid4().hex[:8]}"


def declare(channel: Any, name: str = "", **arguments: Any) -> str:
    name = name or new_name()
    channel.queue_declare(
        name, durable=True, arguments={key.replace("_", "-"): arguments[key] for key in arguments}
    )
    return name


def publish(channel: Any, queue: str, *bodies: bytes, **properties: Any) -> None:
    properties.setdefault("delivery_mode", 2)
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def numbers(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def path(queue: str, operation: str) -> str:
    return f"/api/queues/%2F/{queue}/{operation}"


# --------------------------------------------------------------------------------------- browse


@pytest.mark.acceptance
def test_browse_shows_messages_and_takes_none(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    headers = {"text": "t", "number": 5, "table": {"a": [1, 2]}}
    publish(channel, queue, b'{"a": 1}', headers=headers, content_type="application/json")
    publish(channel, queue, b"\x00\xff", priority=3)
    page = http.done("POST", path(queue, "browse"), {"encoding": "json"})
    assert (page["position"], page["ready"]) == (None, 2)
    first, second = page["messages"]
    assert (first["payload"], first["payload_encoding"]) == ({"a": 1}, "json")
    assert first["properties"]["headers"] == headers
    assert (first["offset"], first["redelivered"], first["state"]) == (0, False, "ready")
    assert (second["payload"], second["payload_encoding"]) == ("AP8=", "base64")
    assert second["properties"] == {"delivery_mode": 2, "priority": 3}
    hexed = http.done("POST", path(queue, "browse"), {"encoding": "hex", "truncate": 1})
    assert [each["payload"] for each in hexed["messages"]] == ["7b", "00"]
    assert all(each["truncated"] for each in hexed["messages"])
    assert get_all(channel, queue) == [b'{"a": 1}', b"\x00\xff"]


@pytest.mark.acceptance
def test_pages_from_both_ends_and_a_selector(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    for number in range(30):
        publish(channel, queue, b"%d" % number, headers={"n": number})
    seen: list[str] = []
    position = None
    while True:
        body = {"count": 7, "start": "end", "position": position}
        page = http.done("POST", path(queue, "browse"), body)
        seen += [each["payload"] for each in page["messages"]]
        position = page["position"]
        if position is None:
            break
    assert seen == [str(number) for number in range(29, -1, -1)]
    page = http.done("POST", path(queue, "browse"), {"selector": "n BETWEEN 3 AND 4"})
    assert [each["payload"] for each in page["messages"]] == ["3", "4"]


@pytest.mark.parametrize(
    ("operation", "body", "status", "text"),
    [
        ("browse", {"selector": "n ="}, 400, "selector: "),
        ("browse", {"selector": " OR ".join(["n = 1"] * 5_000)}, 400, "selector: longer than"),
        ("delete", {"selector": "(" * 9_000}, 400, "selector: "),
        ("browse", {"position": "x"}, 400, "position: 'x' is not a position"),
        ("browse", {"count": 0}, 400, "count: "),
        ("browse", {"nonsense": 1}, 400, "nonsense: "),
        ("delete", {}, 400, "say which messages"),
        ("move", {"all": True}, 400, "give either to_queue or to_exchange"),
        ("move", {"all": True, "to_queue": "no such"}, 404, "to_queue: no queue 'no such'"),
        ("move", {"all": True, "to_exchange": "no such"}, 404, "to_exchange: no exchange"),
        ("move", {"all": True, "to_exchange": "amq.rabbitmq.trace"}, 401, "internal exchange"),
        ("purge", {}, 400, "limit: "),
        ("get", {"count": 1, "ackmode": "nonsense"}, 400, "ackmode: "),
        ("import", b"", 400, "it is empty"),
        ("import", b"{}\n", 400, "line 1: not the head"),
        ("import", b"nonsense", 400, "line 1: not JSON"),
    ],
)
def test_what_is_wrong_is_named(
    http: HttpApi, channel: Any, operation: str, body: Any, status: int, text: str
) -> None:
    queue = declare(channel)
    answer = http.ask("POST", path(queue, operation), body)
    assert answer.status_code == status
    assert text in answer.json()["reason"]


def test_a_queue_that_is_not_there(http: HttpApi) -> None:
    for operation in ("browse", "get", "move", "export", "import"):
        assert http.ask("POST", path("no-such", operation), {"count": 1}).status_code == 404


def test_a_queue_of_a_connection_is_its_own(http: HttpApi, channel: Any) -> None:
    name = new_name()
    channel.queue_declare(name, exclusive=True)
    answer = http.ask("POST", path(name, "browse"), {})
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("405 RESOURCE_LOCKED")


# ------------------------------------------------------------------------------ move and the like


@pytest.mark.acceptance
def test_move_while_a_consumer_is_at_work(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel)
    publish(channel, source, *numbers(200))
    channel.basic_qos(prefetch_count=5)
    taken: list[bytes] = []
    last = 0
    for _ in range(5):
        method, _, body = channel.basic_get(source)
        taken.append(body)
        last = method.delivery_tag
    moved = http.done("POST", path(source, "move"), {"all": True, "to_queue": target})
    assert (moved["moved"], moved["refused"], moved["left"]) == (195, {}, 0)
    assert get_all(channel, target) == numbers(200)[5:]
    channel.basic_nack(last, multiple=True, requeue=True)
    assert get_all(channel, source) == taken


@pytest.mark.acceptance
def test_copy_delete_purge_by_offset_selector_and_number(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel)
    for number in range(20):
        publish(channel, source, b"%d" % number, headers={"n": number})
    copied = http.done("POST", path(source, "copy"), {"selector": "n > 17", "to_queue": target})
    assert (copied["copied"], copied["offsets"]) == (2, [18, 19])
    deleted = http.done("POST", path(source, "delete"), {"offsets": [3, 5, 99]})
    assert (deleted["deleted"], deleted["offsets"]) == (2, [3, 5])
    assert http.done("POST", path(source, "purge"), {"limit": 3})["deleted"] == 3
    assert get_all(channel, target) == [b"18", b"19"]
    left = [b"%d" % number for number in range(20) if number not in (0, 1, 2, 3, 5)]
    assert get_all(channel, source) == left
    publish(channel, source, b"more")
    assert http.ask("DELETE", path(source, "contents")).status_code == 204
    assert get_all(channel, source) == []


@pytest.mark.acceptance
def test_a_full_target_is_reported(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel, x_max_length=3)
    publish(channel, source, *numbers(10))
    moved = http.done("POST", path(source, "move"), {"all": True, "to_queue": target})
    assert moved["moved"] == 3
    assert moved["refused"]["target_full"]["count"] == 7
    assert "limits" in moved["refused"]["target_full"]["reason"]
    assert get_all(channel, source) == numbers(10)[3:]


@pytest.mark.acceptance
def test_dead_letters_go_back(http: HttpApi, channel: Any) -> None:
    dead = declare(channel)
    work = declare(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    publish(channel, work, *numbers(4))
    for _ in range(4):
        method, _, _ = channel.basic_get(work)
        channel.basic_reject(method.delivery_tag, requeue=False)
    wait_for(
        lambda: channel.queue_declare(dead, passive=True).method.message_count == 4,
        DEADLINE_S,
        "the dead letters",
    )
    retried = http.done("POST", path(dead, "retry"), {"all": True})
    assert retried["retried"] == 4
    assert get_all(channel, dead) == []
    method, properties, body = channel.basic_get(work, auto_ack=True)
    assert (body, method.routing_key) == (b"0000", work)
    assert properties.headers["x-death"][0]["queue"] == work


@pytest.mark.acceptance
@pytest.mark.parametrize("is_work_gone", [False, True])
def test_a_dead_letter_of_a_retry_loop_goes_back_by_its_first_key(
    http: HttpApi, channel: Any, is_work_gone: bool
) -> None:
    """Two rounds: the table of the first death stands in front, that of the loop behind it."""
    dead, wait, work = declare(channel), new_name("wait"), new_name("work")
    declare(
        channel, wait, x_message_ttl=0, x_dead_letter_exchange="", x_dead_letter_routing_key=work
    )
    failed, orders = new_name("failed"), new_name("orders")
    declare(channel, work, x_dead_letter_exchange=failed, x_dead_letter_routing_key="again")
    channel.exchange_declare(failed, "fanout", durable=True)
    channel.exchange_declare(orders, "direct", durable=True)
    channel.queue_bind(wait, failed)
    channel.queue_bind(work, orders, "new")
    channel.basic_publish(orders, "new", b"x", pika.BasicProperties(delivery_mode=2))

    def reject() -> None:
        method = wait_for(lambda: channel.basic_get(work)[0], DEADLINE_S, "the message in work")
        channel.basic_reject(method.delivery_tag, requeue=False)

    reject()
    wait_for(
        lambda: http.get(f"/api/queues/%2F/{work}")["messages_ready"],
        DEADLINE_S,
        "the second round",
    )
    channel.queue_unbind(wait, failed)
    channel.queue_bind(dead, failed)
    reject()
    wait_for(
        lambda: http.get(f"/api/queues/%2F/{dead}")["messages_ready"], DEADLINE_S, "the dead letter"
    )
    shown = http.done("POST", path(dead, "browse"), {})["messages"][0]
    deaths = shown["properties"]["headers"]["x-death"]
    assert [(each["queue"], each["routing-keys"]) for each in deaths] == [
        (work, ["new"]),
        (wait, ["again"]),
    ]

    back, trap = work, declare(channel)
    channel.queue_bind(trap, orders, "again")
    if is_work_gone:
        channel.queue_delete(work)
        back = declare(channel)
        channel.queue_bind(back, orders, "new")
    assert http.done("POST", path(dead, "retry"), {"all": True})["retried"] == 1
    method, _, body = channel.basic_get(back, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (orders, "new", b"x")
    assert get_all(channel, trap) == []


@pytest.mark.acceptance
def test_retry_goes_only_where_the_user_may_publish(
    broker: ApiBroker, http: HttpApi, channel: Any
) -> None:
    """Headers say where a message died, and any publisher may write them."""
    target, topics, hidden = declare(channel), new_name("t"), new_name("i")
    channel.exchange_declare(topics, "topic", durable=True)
    channel.exchange_declare(hidden, "fanout", durable=True, internal=True)
    channel.queue_bind(target, topics, "#")
    channel.queue_bind(target, hidden)
    user = new_name("user")
    http.done("PUT", f"/api/users/{user}", {"password": user, "tags": "management"})
    rights = {"configure": "", "write": f"^({topics}|{hidden})$", "read": ".*"}
    http.done("PUT", f"/api/permissions/%2F/{user}", rights)
    topic_rights = {"exchange": topics, "write": "^open", "read": ".*"}
    http.done("PUT", f"/api/topic-permissions/%2F/{user}", topic_rights)
    limited = HttpApi(broker.url, user, user)

    def retried(by: HttpApi, exchange: str, *keys: str, queue: str = "gone") -> Any:
        dead = declare(channel)
        deaths = [{"queue": "gone", "reason": "rejected", "routing-keys": list(keys)}]
        headers = {
            "x-death": deaths,
            "x-first-death-queue": queue,
            "x-first-death-exchange": exchange,
        }
        publish(channel, dead, b"x", headers=headers)
        answer = by.done("POST", path(dead, "retry"), {"all": True})
        left = http.done("POST", path(dead, "browse"), {})["messages"]
        assert len(left) == 1 - answer["retried"]
        return answer["retried"], list(answer["refused"])

    assert retried(limited, topics, "open.a") == (1, [])
    assert retried(limited, topics, "open.a", "closed.b") == (0, ["not_allowed"])
    assert retried(http, topics, "open.a", "closed.b") == (1, [])
    assert retried(limited, hidden, "k") == (0, ["not_allowed"])
    assert retried(http, hidden, "k") == (0, ["not_allowed"])
    assert retried(limited, "", "k", queue=target) == (0, ["not_allowed"])  # default exchange
    assert retried(limited, topics, "open." + "k" * 251) == (0, ["no_origin"])
    assert get_all(channel, target) == [b"x", b"x"]


def test_a_get_of_what_json_cannot_nest_loses_nothing(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    deep = b"[" * 900 + b"]" * 900
    publish(channel, queue, deep, b"[1]")
    got = http.done(
        "POST",
        path(queue, "get"),
        {"count": 2, "ackmode": "ack_requeue_false", "encoding": "json"},
    )
    assert [each["payload"] for each in got] == [deep.decode(), [1]]
    assert get_all(channel, queue) == []


@pytest.mark.acceptance
def test_progress_comes_in_lines(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel)
    publish(channel, source, *numbers(50))
    answer = http.ask(
        "POST", path(source, "move") + "?progress=true", {"all": True, "to_queue": target}
    )
    last = json.loads(answer.content.splitlines()[-1])
    assert (last["complete"], last["moved"]) == (True, 50)


@pytest.mark.acceptance
def test_a_long_move_leaves_consumers_and_publishers_at_work(
    broker: ApiBroker, http: HttpApi, channel: Any
) -> None:
    """What is moved, what is consumed and what is published meanwhile: each once, none lost."""
    source, target = declare(channel), declare(channel)
    count = 3_000
    publish(channel, source, *numbers(count))
    consumed: list[bytes] = []
    new = {b"new %d" % number for number in range(20)}
    stopping = threading.Event()

    def consume() -> None:
        connection = broker.connect("guest", password="guest")
        mine = connection.channel()
        mine.basic_qos(prefetch_count=20)
        for method, _, body in mine.consume(source, inactivity_timeout=0.05):
            if method is not None:
                consumed.append(body)
                mine.basic_ack(method.delivery_tag)
            if stopping.is_set() and method is None:
                break
        connection.close()

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        moved = http.done("POST", path(source, "move"), {"all": True, "to_queue": target})
        publish(channel, source, *[b"new %d" % number for number in range(20)])
        wait_for(lambda: len(set(consumed) & new) == len(new), DEADLINE_S, "the new ones")
    finally:
        stopping.set()
        thread.join(DEADLINE_S)
    assert not thread.is_alive()
    arrived = get_all(channel, target)
    assert len(arrived) == moved["moved"]
    old = [body for body in consumed if not body.startswith(b"new")]
    assert sorted(old + arrived) == numbers(count)
    assert len(consumed) - len(old) == 20


@pytest.mark.acceptance
def test_a_client_that_leaves_ends_its_operation(
    broker: ApiBroker, http: HttpApi, channel: Any
) -> None:
    import socket
    from base64 import b64encode

    source, target = declare(channel), declare(channel)
    publish(channel, source, *numbers(2_000))
    body = json.dumps({"all": True, "to_queue": target}).encode()
    login = b64encode(b"guest:guest").decode()
    with socket.create_connection(("127.0.0.1", httpx.URL(broker.url).port or 0)) as client:
        head = f"POST {path(source, 'move')}?progress=true HTTP/1.1\r\nHost: x\r\n"
        head += f"Authorization: Basic {login}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)

    # closed: whatever was moved until then is in the target, the rest in the source
    def settled() -> bool:
        counts = [
            channel.queue_declare(name, passive=True).method.message_count
            for name in (source, target)
        ]
        time.sleep(0.05)
        again = [
            channel.queue_declare(name, passive=True).method.message_count
            for name in (source, target)
        ]
        return counts == again and sum(again) == 2_000

    wait_for(lambda: settled() or None, DEADLINE_S, "the move to end")
    both = sorted(get_all(channel, source) + get_all(channel, target))
    assert both == numbers(2_000)


# --------------------------------------------------------------------------- publish and get


def test_publish_as_rabbitmq_does(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    body = {
        "properties": {"delivery_mode": 2, "headers": {"a": 1}, "content_type": "text/plain"},
        "routing_key": queue,
        "payload": "aGFyZQ==",
        "payload_encoding": "base64",
    }
    for name in ("amq.default", ""):  # RabbitMQ's clients write either
        path = f"/api/exchanges/%2F/{name}/publish"
        assert http.done("POST", path, body) == {"routed": True}
    method, properties, octets = channel.basic_get(queue, auto_ack=True)
    assert (octets, properties.headers, properties.delivery_mode) == (b"hare", {"a": 1}, 2)
    assert method.exchange == ""
    body |= {"routing_key": "nowhere", "payload_encoding": "string", "properties": {}}
    assert http.done("POST", "/api/exchanges/%2F/amq.default/publish", body) == {"routed": False}
    answer = http.ask("POST", "/api/exchanges/%2F/no-such/publish", body)
    assert answer.status_code == 400
    assert answer.json()["reason"] == "404 NOT_FOUND - no exchange 'no-such' in vhost '/'"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"payload": "!", "payload_encoding": "base64"}, "payload: not valid base64"),
        ({"payload_encoding": "hex"}, "payload_encoding: "),
        ({"properties": {"nonsense": 1}}, "there is no 'nonsense'"),
        ({"properties": {"priority": 300}}, "priority: not from 0 to 255"),
        ({"properties": {"user_id": "other"}}, "406 PRECONDITION_FAILED - user_id property set"),
        ({"properties": {"expiration": "x"}}, "406 PRECONDITION_FAILED - invalid expiration"),
        ({"properties": {"headers": {"CC": "x"}}}, "unacceptable_type_in_header"),
        ({"properties": {"reply_to": "amq.rabbitmq.reply-to"}}, "fast reply consumer"),
        ({"routing_key": "x" * 256}, "routing_key: the name is longer than 255 octets"),
        ({"properties": {"headers": {"n": 2**70}}}, "headers"),
    ],
)
def test_a_publish_that_is_wrong(http: HttpApi, changes: dict[str, Any], text: str) -> None:
    body = {"properties": {}, "routing_key": "k", "payload": "p", "payload_encoding": "string"}
    answer = http.ask("POST", "/api/exchanges/%2F/amq.direct/publish", {**body, **changes})
    assert answer.status_code == 400
    assert text in answer.json()["reason"]


def test_get_with_each_ackmode(http: HttpApi, channel: Any) -> None:
    dead = declare(channel)
    queue = declare(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    publish(channel, queue, b"one", b"two", b"three")
    get = path(queue, "get")
    first = http.done(
        "POST", get, {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 2}
    )
    assert [each["payload"] for each in first] == ["on", "tw"]
    assert [each["message_count"] for each in first] == [2, 1]
    assert [each["redelivered"] for each in first] == [False, False]
    assert first[0]["payload_bytes"] == 3
    again = http.done("POST", get, {"count": 1, "ackmode": "reject_requeue_false"})
    assert (again[0]["payload"], again[0]["redelivered"]) == ("one", True)
    assert get_all(channel, dead) == [b"one"]
    last = http.done(
        "POST", get, {"count": 5, "ackmode": "ack_requeue_false", "encoding": "base64"}
    )
    assert [each["payload"] for each in last] == ["dHdv", "dGhyZWU="]
    assert http.done("POST", get, {"count": 5, "ackmode": "ack_requeue_false"}) == []


@pytest.mark.row("B7")
def test_get_waits_for_a_message(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    body = {"count": 1, "ackmode": "ack_requeue_false", "wait_ms": 30_000}
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(http.done("POST", path(queue, "get"), body))
    )
    thread.start()
    publish(channel, queue, b"late")
    thread.join(DEADLINE_S)
    assert [each["payload"] for each in found] == ["late"]


@pytest.mark.acceptance
def test_get_is_nothing_for_a_stream(http: HttpApi, channel: Any) -> None:
    queue = declare(channel, x_queue_type="stream")
    answer = http.ask("POST", path(queue, "get"), {"count": 1})
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("540 NOT_IMPLEMENTED")
    publish(channel, queue, b"1", b"2")
    wait_for(
        lambda: len(http.done("POST", path(queue, "browse"), {})["messages"]) == 2 or None,
        DEADLINE_S,
        "the stream to have both",
    )
    assert http.ask("DELETE", path(queue, "contents")).status_code == 400
    refused = http.ask("POST", path(queue, "delete"), {"all": True})
    assert refused.status_code == 400
    assert "is a stream" in refused.json()["reason"]


# ---------------------------------------------------------------------------- export and import


@pytest.mark.acceptance
def test_an_export_is_imported_octet_for_octet(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel)
    headers = {"int": 5, "text": "Grüße", "flag": True, "list": [1, "a", None], "t": {"x": b"\x00"}}
    publish(channel, source, b"text", headers=headers, correlation_id="c", timestamp=5)
    publish(channel, source, bytes(range(256)), delivery_mode=1, expiration="900000")
    publish(channel, source, b"")
    exported = http.ask("POST", path(source, "export"), {}).content
    lines = exported.splitlines()
    assert json.loads(lines[0])["format"] == "hareline-messages"
    assert json.loads(lines[-1]) == {"end": True, "messages": 3, "unreadable": 0}
    assert http.done("POST", path(target, "import"), exported)["imported"] == 3
    for _ in range(3):
        before = channel.basic_get(source, auto_ack=True)
        after = channel.basic_get(target, auto_ack=True)
        assert after[2] == before[2]
        assert after[1] == before[1]
        assert after[0].routing_key == before[0].routing_key
    again = http.ask("POST", path(source, "export"), {}).content
    assert json.loads(again.splitlines()[-1])["messages"] == 0


def test_a_file_that_is_cut_off_or_wrong_says_at_which_line(http: HttpApi, channel: Any) -> None:
    source, target = declare(channel), declare(channel)
    publish(channel, source, b"1", b"2", b"3")
    lines = http.ask("POST", path(source, "export"), {}).content.splitlines(keepends=True)
    cut = http.ask("POST", path(target, "import"), b"".join(lines[:3]))
    assert cut.status_code == 400
    assert "no end line" in cut.json()["reason"]
    assert cut.json()["imported"] == 2
    wrong = http.ask("POST", path(target, "import"), lines[0] + b'{"body": 5}\n')
    assert "line 2: body: not a text" in wrong.json()["reason"]
    assert get_all(channel, target) == [b"1", b"2"]


# -------------------------------------------------------------------- deep, restart, and crash


@pytest.mark.acceptance
def test_messages_that_were_on_disk_at_a_restart_move_and_stay_moved(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon()
    with channel_to(broker.url) as channel:
        source, target = declare(channel), declare(channel)
        publish(channel, source, *numbers(300))
    broker.restart_by_kill()
    http = HttpApi(broker.management_url)
    body = {"limit": 120, "to_queue": target}
    assert http.done("POST", path(source, "move"), body)["moved"] == 120
    http.done("POST", path(source, "pause"))
    broker.restart_by_kill()
    with channel_to(broker.url, confirms=False) as channel:
        assert get_all(channel, source) == []  # it is paused
        http.done("POST", path(source, "resume"))
        assert get_all(channel, source) == numbers(300)[120:]
        assert get_all(channel, target) == numbers(300)[:120]


@pytest.mark.acceptance
def test_a_kill_in_the_middle_of_a_move_loses_nothing(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    with channel_to(broker.url) as channel:
        source, target = declare(channel), declare(channel)
        publish(channel, source, *numbers(3_000))
    http = HttpApi(broker.management_url)
    body = {"all": True, "to_queue": target}

    def move() -> None:
        with suppress(httpx.TransportError):  # the broker is killed
            http.ask("POST", path(source, "move"), body)

    thread = threading.Thread(target=move)
    thread.start()
    watcher = pika.BlockingConnection(pika.URLParameters(broker.url))
    passive = watcher.channel()
    wait_for(
        lambda: passive.queue_declare(target, passive=True).method.message_count or None,
        DEADLINE_S,
        "the first message to be moved",
    )
    broker.restart_by_kill()
    thread.join(DEADLINE_S)
    with suppress(pika.exceptions.AMQPError):
        watcher.close()
    with channel_to(broker.url, confirms=False) as channel:
        both = get_all(channel, source) + get_all(channel, target)
        assert set(both) == set(numbers(3_000))
