"""Definitions to and from a real RabbitMQ 3.10, and what both answer to the same requests.

``definitions/rabbitmq-3.10.json`` is a file that RabbitMQ 3.10.8 has exported; it is kept, so that
the import is tested where no RabbitMQ is installed.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pika
import pika.exceptions
import pytest

from hareline.auth.passwords import hash_password
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi
from tests.support.rabbitmq_management import ManagedRabbitMQ, managed_rabbitmq

pytestmark = pytest.mark.acceptance

FIXTURE: Final = Path(__file__).parents[1] / "definitions" / "rabbitmq-3.10.json"

EVERYTHING: Final = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[ManagedRabbitMQ]:
    with managed_rabbitmq() as node:
        yield node


@pytest.fixture
def broker(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon("[auth]\nfailure_delay_s = 0\n")


@pytest.fixture
def api(broker: BrokerProcess) -> HttpApi:
    return HttpApi(broker.management_url)


def fill(api: HttpApi) -> None:
    """Declare something of every kind that RabbitMQ 3.10 and this broker have."""
    for method, path, body in (
        ("PUT", "/api/vhosts/shop", {"description": "Sales", "tags": "a,b"}),
        ("PUT", "/api/users/ann", {"password": "old password", "tags": "management"}),
        ("PUT", "/api/permissions/shop/ann", EVERYTHING),
        ("PUT", "/api/topic-permissions/shop/ann", {"exchange": "t", "write": "^a", "read": ".*"}),
        ("PUT", "/api/vhost-limits/shop/max-queues", {"value": 50}),
        ("PUT", "/api/user-limits/ann/max-channels", {"value": 30}),
        ("PUT", "/api/exchanges/shop/t", {"type": "topic", "durable": True}),
        (
            "PUT",
            "/api/exchanges/shop/lost",
            {"type": "fanout", "durable": True, "internal": True, "arguments": {}},
        ),
        (
            "PUT",
            "/api/exchanges/shop/h",
            {"type": "headers", "arguments": {"alternate-exchange": "lost"}},
        ),
        ("PUT", "/api/queues/shop/orders", {"durable": True, "arguments": {"x-max-length": 100}}),
        (
            "PUT",
            "/api/queues/shop/quorum",
            {"durable": True, "arguments": {"x-queue-type": "quorum"}},
        ),
        (
            "PUT",
            "/api/queues/shop/stream",
            {"durable": True, "arguments": {"x-queue-type": "stream"}},
        ),
        ("PUT", "/api/queues/shop/prio", {"durable": True, "arguments": {"x-max-priority": 5}}),
        ("POST", "/api/bindings/shop/e/t/q/orders", {"routing_key": "a.#"}),
        ("POST", "/api/bindings/shop/e/t/q/quorum", {"routing_key": "a.*"}),
        ("POST", "/api/bindings/shop/e/t/e/h", {"routing_key": "h"}),
        (
            "POST",
            "/api/bindings/shop/e/h/q/prio",
            {"routing_key": "", "arguments": {"x-match": "all", "kind": "x", "n": 1}},
        ),
        ("POST", "/api/bindings/shop/e/lost/q/orders", {"routing_key": ""}),
        (
            "PUT",
            "/api/policies/shop/ttl",
            {"pattern": "^orders$", "definition": {"message-ttl": 600_000}, "apply-to": "queues"},
        ),
        (
            "PUT",
            "/api/operator-policies/shop/cap",
            {"pattern": "^prio$", "definition": {"max-length": 7}, "apply-to": "queues"},
        ),
        ("PUT", "/api/global-parameters/mine", {"value": {"a": [1, 2]}}),
    ):
        status, answer = api.call(method, path, body)
        assert status in (201, 204), (path, status, answer)


def works(broker: BrokerProcess) -> None:
    """The topology of ``fill`` routes, and ann logs in with her old password."""
    url = broker.url_for(username="ann", password="old password", vhost="shop")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("t", "a.b", b"topic")
    headers = pika.BasicProperties(headers={"kind": "x", "n": 1})
    channel.basic_publish("h", "", b"headers", headers)
    channel.basic_publish("h", "", b"lost")
    for queue, bodies in (
        ("orders", [b"topic", b"lost"]),
        ("quorum", [b"topic"]),
        ("prio", [b"headers"]),
    ):
        assert [channel.basic_get(queue, auto_ack=True)[2] for _ in bodies] == bodies
        assert channel.basic_get(queue)[0] is None
    connection.close()


def test_a_kept_file_of_rabbitmq_works(broker: BrokerProcess, api: HttpApi) -> None:
    status, report = api.call(
        "POST", "/api/definitions?report=true", json.loads(FIXTURE.read_text(encoding="utf-8"))
    )
    assert (status, report["left_out"]) == (200, [])
    works(broker)


def test_what_rabbitmq_exports_works_here(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, api: HttpApi
) -> None:
    fill(rabbitmq.api)
    definitions = rabbitmq.api.get("/api/definitions")
    assert api.call("POST", "/api/definitions", definitions) == (204, None)
    assert api.call("POST", "/api/definitions", definitions) == (204, None)
    works(broker)
    again = api.get("/api/definitions")
    for name in ("queues", "exchanges", "bindings", "policies", "permissions"):
        theirs = {json.dumps(item, sort_keys=True) for item in definitions[name]}
        ours = {json.dumps(item, sort_keys=True) for item in again[name]}
        assert theirs <= ours, name


def test_what_is_exported_here_works_in_rabbitmq(rabbitmq: ManagedRabbitMQ, api: HttpApi) -> None:
    definitions = json.loads(FIXTURE.read_text(encoding="utf-8"))
    api.call("POST", "/api/definitions", definitions)
    vhost = {"description": "from here", "protected_from_deletion": True}
    api.call("PUT", "/api/vhosts/shop", vhost)
    path = "/api/queues/shop/orders"
    api.call("PATCH", path, {"arguments": {"x-max-length": 50}})
    api.call("POST", f"{path}/pause")
    exported = api.get("/api/definitions")
    api.call("POST", f"{path}/resume")
    rabbitmq.api.call("DELETE", "/api/vhosts/shop")
    status, answer = rabbitmq.api.call("POST", "/api/definitions", exported)
    assert status in (200, 204), answer
    settings = [each.pop("x-hareline", {}) for each in exported["queues"]]  # which only we have
    assert {"changes": {"x-max-length": 50}, "paused": True} in settings
    theirs = rabbitmq.api.get("/api/definitions")
    for name in ("queues", "exchanges", "bindings", "policies", "permissions"):
        ours = {json.dumps(item, sort_keys=True) for item in exported[name]}
        assert ours <= {json.dumps(item, sort_keys=True) for item in theirs[name]}, name
    assert rabbitmq.api.get("/api/vhosts/shop")["description"] == "from here"
    ann = HttpApi(f"http://127.0.0.1:{rabbitmq.http_port}", "ann", "old password")
    assert ann.get("/api/whoami")["name"] == "ann"


def fill_with_what_is_ours(broker: BrokerProcess, api: HttpApi) -> None:
    """Definitions of which each stops an import by RabbitMQ."""
    slow = hash_password("slow password", "argon2id")
    for method, path, body in (
        ("PUT", "/api/vhosts/ours", {}),
        ("PUT", "/api/users/bob", {"password": "kept password", "tags": "management"}),
        ("PUT", "/api/users/eve", {"password_hash": slow, "tags": ["policymaker", "management"]}),
        ("PUT", "/api/permissions/ours/bob", EVERYTHING),
        ("PUT", "/api/permissions/ours/eve", EVERYTHING),
        ("PUT", "/api/user-limits/bob/max-publish-rate", {"value": 1000}),
        ("PUT", "/api/vhost-limits/ours/max-exchanges", {"value": 50}),
        ("PUT", "/api/queues/ours/full", {"arguments": {"x-overflow": "flow-to-disk"}}),
        ("PUT", "/api/queues/ours/limit", {"arguments": {"x-delivery-limit": 3, "x-own": None}}),
        ("PUT", "/api/queues/ours/sorted", {"arguments": {"x-sort-key": "k"}}),
        ("PUT", "/api/policies/ours/p", {"pattern": "", "definition": {"max-message-ttl": 5}}),
        (
            "PUT",
            "/api/policies/ours/both",
            {"pattern": "", "definition": {"max-message-ttl": 5, "max-length": 9}},
        ),
    ):
        status, answer = api.call(method, path, body)
        assert status in (201, 204), (path, status, answer)
    with pika.BlockingConnection(pika.URLParameters(broker.url_for(vhost="ours"))) as connection:
        octets = {"x-octets": b"\xff\xfe", "x-void": None}
        connection.channel().queue_bind("limit", "amq.headers", "", octets)


def test_an_export_for_rabbitmq_is_taken_there_with_passwords(
    rabbitmq: ManagedRabbitMQ, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    settings = '[auth]\nfailure_delay_s = 0\npassword_hashing = "sha256"\n'
    broker = start_daemon(settings)
    api = HttpApi(broker.management_url)
    fill_with_what_is_ours(broker, api)
    status, _ = rabbitmq.api.call("POST", "/api/definitions", api.get("/api/definitions"))
    assert status >= 400
    file = tmp_path / "definitions.json"
    command = CommandLine(HARELINE_URL=broker.management_url)
    done = command("definitions", "export", str(file), "--format", "rabbitmq")
    answer = api.ask("GET", "/api/definitions?format=rabbitmq")
    assert api.call("GET", "/api/definitions?format=other")[0] == 400
    bindings = api.get("/api/bindings/ours/e/amq.headers/q/limit")
    assert done.status == 0
    assert done.err.splitlines() == [
        "left out the limit max-publish-rate of: 'bob'",
        "left out the password hash, which RabbitMQ cannot check, of: 'eve'",
        "left out the limit max-exchanges of: 'ours'",
        "left out the key max-message-ttl of policies: 'p', 'both'",
        "left out the argument x-overflow of queues: 'full'",
        "left out the argument x-delivery-limit of queues: 'limit'",
    ]
    assert answer.headers["Warning"].count("299 Hareline") == 6
    definitions = json.loads(file.read_text(encoding="utf-8"))
    assert answer.json() == definitions
    assert rabbitmq.api.call("POST", "/api/definitions", definitions) == (204, None)
    bob = HttpApi(rabbitmq.http_url, "bob", "kept password")
    assert bob.get("/api/whoami")["name"] == "bob"
    assert rabbitmq.api.get("/api/users/eve")["tags"] == ["policymaker", "management"]
    theirs = rabbitmq.api.get("/api/queues/ours")
    assert {each["name"]: each["arguments"] for each in theirs} == {
        "full": {},
        "limit": {"x-own": "undefined"},
        "sorted": {"x-sort-key": "k"},
    }
    found = rabbitmq.api.get("/api/bindings/ours/e/amq.headers/q/limit")
    assert [each["arguments"] for each in found] == [each["arguments"] for each in bindings]
    (policy,) = rabbitmq.api.get("/api/policies/ours")
    assert (policy["name"], policy["definition"]) == ("both", {"max-length": 9})


SAME_ANSWERS: Final[list[tuple[str, str, Any]]] = [
    ("PUT", "/api/users/u", {"password": "p"}),
    ("PUT", "/api/users/u", {"password": "p", "tags": "management"}),
    ("PUT", "/api/users/u", {"password": "q", "tags": "management"}),
    ("GET", "/api/users/none", None),
    ("DELETE", "/api/users/none", None),
    ("PUT", "/api/vhosts/v", {}),
    ("PUT", "/api/vhosts/v", {"description": "d"}),
    ("GET", "/api/vhosts/none", None),
    ("DELETE", "/api/vhosts/none", None),
    ("GET", "/api/permissions/v/u", None),
    ("PUT", "/api/permissions/v/u", EVERYTHING),
    ("PUT", "/api/permissions/v/u", EVERYTHING),
    ("PUT", "/api/permissions/none/u", EVERYTHING),
    ("PUT", "/api/permissions/v/none", EVERYTHING),
    ("GET", "/api/users/u/permissions", None),
    ("GET", "/api/vhosts/v/permissions", None),
    ("GET", "/api/topic-permissions/v/u", None),
    ("PUT", "/api/topic-permissions/v/u", {"exchange": "amq.topic", "write": "", "read": ""}),
    ("GET", "/api/topic-permissions/v/u", None),
    ("DELETE", "/api/topic-permissions/v/u", None),
    ("PUT", "/api/vhost-limits/v/max-queues", {"value": 3}),
    ("PUT", "/api/vhost-limits/v/what", {"value": 3}),
    ("PUT", "/api/vhost-limits/v/max-queues", {"value": "x"}),
    ("GET", "/api/vhost-limits/v", None),
    ("GET", "/api/parameters/vhost-limits/v/limits", None),
    ("DELETE", "/api/vhost-limits/v/max-queues", None),
    ("PUT", "/api/user-limits/u/max-channels", {"value": 3}),
    ("GET", "/api/user-limits/u", None),
    ("DELETE", "/api/user-limits/u/max-channels", None),
    ("PUT", "/api/parameters/what/v/n", {"value": 1}),
    ("DELETE", "/api/parameters/what/v/n", None),
    ("PUT", "/api/global-parameters/g", {"value": {"a": 1}}),
    ("PUT", "/api/global-parameters/g", {"value": {"a": 2}}),
    ("GET", "/api/global-parameters/g", None),
    ("DELETE", "/api/global-parameters/g", None),
    ("PUT", "/api/policies/v/p", {"pattern": "", "definition": {"max-length": 3}}),
    ("PUT", "/api/policies/v/p", {"pattern": "", "definition": {"max-length": 4}}),
    ("GET", "/api/policies/v/p", None),
    ("GET", "/api/policies/v", None),
    ("PUT", "/api/policies/v/p", {"pattern": "", "definition": {"what": 3}}),
    ("PUT", "/api/policies/v/p", {"pattern": "", "definition": {"max-length": "x"}}),
    ("PUT", "/api/policies/none/p", {"pattern": "", "definition": {"max-length": 3}}),
    ("DELETE", "/api/policies/v/p", None),
    ("DELETE", "/api/policies/v/p", None),
    ("PUT", "/api/operator-policies/v/p", {"pattern": "", "definition": {"max-length": 3}}),
    ("PUT", "/api/operator-policies/v/p", {"pattern": "", "definition": {"max-age": "1h"}}),
    ("GET", "/api/operator-policies/v/p", None),
    ("DELETE", "/api/operator-policies/v/p", None),
    ("DELETE", "/api/permissions/v/u", None),
    ("DELETE", "/api/permissions/v/u", None),
    ("DELETE", "/api/vhosts/v", None),
    ("DELETE", "/api/users/u", None),
]


def refusals(url: Callable[[str, str], str], api: HttpApi) -> list[str]:
    """What clients are told over AMQP when something was administered."""
    for name in ("v1", "v2"):
        api.call("PUT", f"/api/vhosts/{name}", {})
    for user in ("u1", "u2"):
        api.call("PUT", f"/api/users/{user}", {"password": "p", "tags": ""})
        for name in ("v1", "v2"):
            api.call("PUT", f"/api/permissions/{name}/{user}", EVERYTHING)
    topics = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    api.call("PUT", "/api/topic-permissions/v1/u1", topics)
    told = []

    def connect(user: str, vhost: str) -> Any:
        return pika.BlockingConnection(pika.URLParameters(url(user, vhost)))

    def note(call: Callable[[], object]) -> None:
        with pytest.raises(pika.exceptions.AMQPError) as caught:
            call()
        error = caught.value
        told.append(f"{getattr(error, 'reply_code', '')} {getattr(error, 'reply_text', error)}")

    first = connect("u1", "v1")
    channel = first.channel()
    channel.confirm_delivery()
    note(lambda: channel.basic_publish("amq.topic", "x", b""))
    other = first.channel()
    other.queue_declare("q", exclusive=True)
    note(lambda: other.queue_bind("q", "amq.topic", "x"))
    api.call("PUT", "/api/vhost-limits/v1/max-connections", {"value": 1})
    note(lambda: connect("u1", "v1"))
    api.call("DELETE", "/api/vhost-limits/v1/max-connections")
    api.call("PUT", "/api/user-limits/u1/max-connections", {"value": 1})
    note(lambda: connect("u1", "v2"))
    api.call("PUT", "/api/user-limits/u1/max-channels", {"value": 1})
    first.channel()
    note(first.channel)
    second, third = connect("u2", "v1"), connect("u2", "v2")
    api.call("DELETE", "/api/vhosts/v1")
    note(lambda: second.process_data_events(30))
    api.call("DELETE", "/api/users/u2")
    note(lambda: third.process_data_events(30))
    api.call("DELETE", "/api/vhosts/v2")
    return told


def test_clients_are_told_the_same(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, api: HttpApi
) -> None:
    parts = urlsplit(rabbitmq.url)

    def theirs(user: str, vhost: str) -> str:
        return f"amqp://{user}:p@{parts.hostname}:{parts.port}/{vhost}"

    def ours(user: str, vhost: str) -> str:
        return broker.url_for(username=user, password="p", vhost=vhost)

    # later versions of RabbitMQ name the right, as for queues and exchanges
    told = [text.replace("write access", "access") for text in refusals(ours, api)]
    told = [text.replace("read access", "access") for text in told]
    # which of its processes tells the client of a deleted virtual host is a race in RabbitMQ
    assert told == [
        text.replace("is down", "is deleted") for text in refusals(theirs, rabbitmq.api)
    ]


def test_the_same_requests_have_the_same_answers(rabbitmq: ManagedRabbitMQ, api: HttpApi) -> None:
    differing = []
    for method, path, body in SAME_ANSWERS:
        theirs, ours = (_call(each, method, path, body) for each in (rabbitmq.api, api))
        if (
            theirs[0] != ours[0]
            or _keys(theirs[1]) - _keys(ours[1])
            or (theirs[0] >= 400 and theirs[1] != ours[1])
        ):
            differing.append((method, path, body, theirs, ours))
    assert not differing, "\n".join(map(str, differing))


def _call(api: HttpApi, method: str, path: str, body: Any) -> tuple[int, Any]:
    """RabbitMQ's refusals are escaped for HTML in places."""
    status, answer = api.call(method, path, body)
    if isinstance(answer, dict) and isinstance(answer.get("reason"), str):
        answer["reason"] = html.unescape(answer["reason"])
    return status, answer


def _keys(body: Any) -> set[str]:
    if isinstance(body, list):
        return set().union(*map(_keys, body))
    return set(body) if isinstance(body, dict) else set()
