"""What happens while a body is on its way: a virtual host, a user or its rights may go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from hareline.message.exported import FORMAT, FORMAT_VERSION, exported
from tests.support.api_broker import PASSWORD, ApiBroker
from tests.support.messages import make_message
from tests.support.slow_request import SlowRequest

RIGHTS = ("configure", "write", "read")
QUEUE = {"durable": True, "arguments": {}}
PUBLISH = {"properties": {}, "routing_key": "q", "payload": "1", "payload_encoding": "string"}

#: Of the virtual host ``{vhost}``, which has a queue ``q``; and what their body is.
CHANGES: list[tuple[str, str, Any]] = [
    ("PUT", "/queues/{vhost}/new", QUEUE),
    ("PUT", "/exchanges/{vhost}/new", {"type": "direct", "durable": True}),
    ("POST", "/bindings/{vhost}/e/amq.direct/q/q", {"routing_key": "k"}),
    ("POST", "/exchanges/{vhost}/amq.default/publish", PUBLISH),
    ("POST", "/queues/{vhost}/q/get", {"count": 1, "ackmode": "ack_requeue_false"}),
    ("POST", "/queues/{vhost}/q/browse", {}),
    ("POST", "/queues/{vhost}/q/delete", {"all": True}),
    ("PATCH", "/queues/{vhost}/q", {"arguments": {"x-max-length": 1}}),
    ("POST", "/queues/{vhost}/q/groups/reset", {}),
    ("POST", "/queues/{vhost}/q/held/cancel", {"all": True}),
    ("POST", "/exchanges/{vhost}/amq.direct/route-test", {"routing_key": "k"}),
]


@pytest.fixture
def vhost(broker: ApiBroker) -> Iterator[str]:
    """A virtual host with a queue that has a message; the user "slow" may do everything there."""
    name = f"slow-{uuid4().hex[:8]}"
    assert broker.ask("PUT", f"/vhosts/{name}").status_code == 201
    broker.ask("PUT", "/users/slow", json={"password": PASSWORD, "tags": "management"})
    permit(broker, name)
    broker.ask("PUT", f"/queues/{name}/q", "slow", json=QUEUE)
    broker.ask("POST", f"/exchanges/{name}/amq.default/publish", "slow", json=PUBLISH)
    yield name
    broker.ask("DELETE", f"/vhosts/{name}")
    broker.ask("DELETE", "/users/slow")


def permit(broker: ApiBroker, vhost: str, write: str = ".*") -> None:
    body = {"configure": ".*", "write": write, "read": ".*"}
    assert broker.ask("PUT", f"/permissions/{vhost}/slow", json=body).status_code < 300


def begin(broker: ApiBroker, method: str, path: str, octets: bytes, user: str) -> SlowRequest:
    port = int(broker.url.rpartition(":")[2])
    return SlowRequest(port, method, path, len(octets), user, PASSWORD)


def during(broker: ApiBroker, change: tuple[str, str, Any], meanwhile: Any, vhost: str) -> Any:
    """The answer to a change whose body comes when ``meanwhile`` has been done."""
    method, path, body = change
    octets = json.dumps(body).encode()
    slow = begin(broker, method, path.format(vhost=vhost), octets, "slow")
    assert meanwhile().status_code == 204
    slow.send(octets)
    return slow.answer()


@pytest.mark.acceptance
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0] + change[1])
def test_a_virtual_host_that_goes_meanwhile_is_not_there(
    broker: ApiBroker, vhost: str, change: tuple[str, str, Any]
) -> None:
    status, body = during(broker, change, lambda: broker.ask("DELETE", f"/vhosts/{vhost}"), vhost)
    assert (status, body["error"]) == (404, "Object Not Found")
    assert broker.ask("PUT", f"/vhosts/{vhost}").status_code == 201
    assert broker.get(f"/queues/{vhost}") == []
    assert not [each for each in broker.get(f"/exchanges/{vhost}") if each["name"] == "new"]


@pytest.mark.acceptance
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0] + change[1])
def test_rights_that_go_meanwhile_are_gone(
    broker: ApiBroker, vhost: str, change: tuple[str, str, Any]
) -> None:
    def revoke() -> Any:
        return broker.ask("DELETE", f"/permissions/{vhost}/slow")

    assert during(broker, change, revoke, vhost)[0] == 401
    permit(broker, vhost)
    found = broker.get(f"/queues/{vhost}")
    assert [(each["name"], each["arguments"]) for each in found] == [("q", {})]
    assert broker.ask("POST", f"/queues/{vhost}/q/get", "slow", json={"count": 9}).json() != []


@pytest.mark.acceptance
def test_an_administrator_who_is_none_any_more_administers_nothing(broker: ApiBroker) -> None:
    broker.ask("PUT", "/users/slow", json={"password": PASSWORD, "tags": "administrator"})
    octets = json.dumps({"password": "x", "tags": "administrator"}).encode()
    slow = begin(broker, "PUT", "/users/friend", octets, "slow")
    assert broker.ask("DELETE", "/users/slow").status_code == 204
    slow.send(octets)
    assert slow.answer()[0] == 401
    assert broker.refused("/users/friend")[0] == 404


def test_a_stranger_sends_no_body(broker: ApiBroker) -> None:
    """The answer comes while the body is outstanding, so none of it is kept in memory."""
    with pytest.raises(AssertionError, match="401"):
        begin(broker, "PUT", "/queues/%2F/q", b"{}", "nobody")


@pytest.mark.acceptance
def test_a_client_that_leaves_is_no_bug(broker: ApiBroker, vhost: str) -> None:
    slow = begin(broker, "PUT", f"/queues/{vhost}/new", b"x" * 100, "slow")
    slow.send(b"{")
    slow.leave()
    assert broker.ask("GET", f"/queues/{vhost}/new").status_code == 404
    assert broker.thread.failures == []


def lines_of(count: int) -> list[bytes]:
    head = {"format": FORMAT, "version": FORMAT_VERSION}
    messages = [exported(make_message(b"%d" % number)) for number in range(count)]
    return [json.dumps(each).encode() + b"\n" for each in (head, *messages, {"end": True})]


def ready(broker: ApiBroker, vhost: str) -> int:
    return broker.thread.ask(lambda each: each.context.vhosts[vhost].queues["q"].ready_count)


@pytest.mark.acceptance
@pytest.mark.parametrize("lost", ["right", "user", "vhost"])
def test_an_import_ends_when_it_may_not_go_on(broker: ApiBroker, vhost: str, lost: str) -> None:
    lines = lines_of(2)
    path = f"/queues/{vhost}/q/import"
    slow = begin(broker, "POST", path, b"".join(lines), "slow")
    slow.send(lines[0] + lines[1])
    broker.thread.wait_until(
        lambda each: each.context.vhosts[vhost].queues["q"].ready_count == 2, "the first message"
    )
    if lost == "right":
        permit(broker, vhost, write="^$")
    elif lost == "user":
        broker.ask("DELETE", "/users/slow")
    else:
        broker.ask("DELETE", f"/vhosts/{vhost}")
    slow.send(b"".join(lines[2:]))
    status, body = slow.answer()
    assert status == (404 if lost == "vhost" else 401), body
    if lost != "vhost":
        assert ready(broker, vhost) == 2


@pytest.mark.acceptance
def test_a_get_that_waits_looks_at_rights_again(broker: ApiBroker, vhost: str) -> None:
    assert broker.ask("DELETE", f"/queues/{vhost}/q/contents").status_code == 204
    octets = json.dumps({"count": 1, "ackmode": "ack_requeue_false", "wait_ms": 30_000}).encode()
    slow = begin(broker, "POST", f"/queues/{vhost}/q/get", octets, "slow")
    slow.send(octets)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(slow.answer()))
    thread.start()
    broker.ask("PUT", f"/permissions/{vhost}/slow", json=dict.fromkeys(RIGHTS, "^$"))
    broker.thread.ask(lambda each: publish_into(each, vhost))
    thread.join(60)
    assert found[0][0] == 401
    assert ready(broker, vhost) == 1


def publish_into(broker: Any, vhost: str) -> None:
    queue = broker.context.vhosts[vhost].queues["q"]
    queue.put(make_message(b"1"))
