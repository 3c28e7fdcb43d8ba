"""The walk through the management API that goes to RabbitMQ and to this broker alike.

``test_management_parity`` takes it. A step's path may have ``{node}``, ``{connection}``,
``{channel}`` and ``{port}``, which are those of the side that is asked; its label does not have
them filled in, and is the same for both. Traffic runs between the steps, so that no list is empty.

Invariant: what the walk makes, it deletes; nothing in it depends on an order of time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx
import pika

from tests.support.answer_shapes import Answered
from tests.support.waiting import wait_for

DEADLINE_S: Final = 60.0
VHOST: Final = "walk"
EVERYTHING: Final = {"configure": ".*", "write": ".*", "read": ".*"}
PASSWORD: Final = "secret"

_CONNECTION: Final = re.compile(r"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+")
_HEADERS: Final = ("content-type", "location", "allow", "www-authenticate")


@dataclass(frozen=True, slots=True)
class Step:
    """One request. ``body`` is sent as JSON, ``octets`` as they are; ``login`` None: without."""

    method: str
    path: str
    body: Any = None
    octets: bytes | None = None
    login: tuple[str, str] | None = ("guest", "guest")
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What tells the step from all others."""
        parts = [self.method, self.path]
        if self.octets is not None:
            parts.append(self.octets.decode())
        elif self.body is not None:
            parts.append(json.dumps(self.body))
        if self.login is None:
            parts.append("without login")
        elif self.login != ("guest", "guest"):
            parts.append(f"as {self.login[0]}")
        return " ".join(parts)


class Side:
    """One of the brokers, with the traffic on it."""

    def __init__(self, http_url: str, amqp_url: str) -> None:
        # RabbitMQ ends a connection that it has answered on as it likes, also under a request
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(base_url=http_url, timeout=DEADLINE_S, limits=limits)
        self._amqp_url = amqp_url
        self._connection: Any = None
        self._channels: list[Any] = []
        self._places: dict[str, str] = {}
        node = self.get("/api/overview")["node"]
        port = str(pika.URLParameters(amqp_url).port)
        self._node = node
        self._places = {"node": quote(node, safe=""), "port": port}

    def ask(self, step: Step) -> Answered:
        """The answer, without what is of this side alone."""
        content = step.octets
        if content is None and step.body is not None:
            content = json.dumps(step.body).encode()
        answer = self._http.request(
            step.method,
            self._filled_in(step.path),
            content=content,
            auth=step.login,
            headers={"Content-Type": "application/json", **step.headers},
        )
        text = _CONNECTION.sub("CONNECTION", answer.text).replace(self._node, "NODE")
        text = re.sub(rf"\b{self._places['port']}\b", "5672", text)
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text
        headers = {}
        for name in _HEADERS:
            if name in answer.headers:
                headers[name] = answer.headers[name].partition(";")[0]
        return Answered(answer.status_code, body, headers)

    def get(self, path: str) -> Any:
        """The JSON of an answer that has to be 200."""
        answer = self._http.get(self._filled_in(path), auth=("guest", "guest"))
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def page_of_routes(self) -> str:
        """RabbitMQ's description of its own routes."""
        return self._http.get("/api/index.html").text

    def _filled_in(self, path: str) -> str:
        for name, value in self._places.items():
            path = path.replace(f"{{{name}}}", value)
        return path

    # ----------------------------------------------------------------------- the traffic

    def start_traffic(self) -> None:
        """A connection with two channels; messages published, taken, left; and counted."""
        parameters = pika.URLParameters(f"{self._amqp_url.rpartition('/')[0]}/{VHOST}")
        parameters.heartbeat = 0
        parameters.client_properties = {"connection_name": "walker"}
        self._connection = pika.BlockingConnection(parameters)
        taking, getting = self._connection.channel(), self._connection.channel()
        self._channels = [taking, getting]
        taking.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2, timestamp=1_700_000_000)
        for number in range(10):
            taking.basic_publish("t", "a.b", b"%d" % number, persistent)
        taking.basic_publish("t", "nowhere", b"lost")
        tags: list[int] = []
        taking.basic_qos(prefetch_count=5)
        taking.basic_consume(
            "work", lambda _c, method, _p, _b: tags.append(method.delivery_tag), consumer_tag="c"
        )
        self._until(lambda: len(tags) == 5)
        for tag in tags[:3]:
            taking.basic_ack(tag)
        self._until(lambda: len(tags) == 8)
        for number in range(4):
            getting.basic_publish("", "kept", b"%d" % number)
        getting.basic_get("kept", auto_ack=True)
        getting.basic_ack(getting.basic_get("kept")[0].delivery_tag)
        getting.basic_nack(getting.basic_get("kept")[0].delivery_tag)
        getting.basic_get("empty")
        getting.queue_declare("mine", exclusive=True)
        wait_for(self._is_counted, DEADLINE_S, "the numbers of the traffic")
        [connection] = self.get(f"/api/vhosts/{VHOST}/connections")
        self._places["connection"] = quote(connection["name"], safe="")
        self._places["channel"] = quote(f"{connection['name']} (1)", safe="")

    def _until(self, is_done: Callable[[], bool]) -> None:
        def look() -> bool:
            self._connection.process_data_events(0.01)
            return is_done()

        wait_for(look, DEADLINE_S, "the messages")

    def _is_counted(self) -> bool:
        """True when the samples and the counters have all of the traffic, with its rates."""
        self._connection.process_data_events(0.01)
        work = self.get(f"/api/queues/{VHOST}/work")
        kept = self.get(f"/api/queues/{VHOST}/kept")
        stats = kept.get("message_stats", {})
        connections = self.get(f"/api/vhosts/{VHOST}/connections")
        channels = self.get(f"/api/vhosts/{VHOST}/channels")
        totals = self.get("/api/overview")
        exchange = self.get(f"/api/exchanges/{VHOST}/t")
        quorum = self.get(f"/api/queues/{VHOST}/quorum")  # RabbitMQ samples it by itself, later
        return (
            work.get("messages") == 7
            and work.get("message_stats", {}).get("ack") == 3
            and kept.get("messages") == 2
            and stats.get("get", 0) + stats.get("get_no_ack", 0) == 3
            and len(connections) == 1
            and connections[0].get("channels") == 2
            and connections[0].get("recv_oct", 0) > 0
            and len(channels) == 2
            and all("message_stats" in each for each in channels)
            and exchange.get("message_stats", {}).get("publish_in") == 11
            and totals["message_stats"].get("ack", 0) >= 4
            and totals["object_totals"]["consumers"] == 1
            and totals["queue_totals"].get("messages") == 9
            and bool(self.get(f"/api/consumers/{VHOST}"))
            and "messages" in quorum
        )

    def stop_traffic(self) -> None:
        """The connection ends, unless the walk has closed it already."""
        if self._connection is not None and self._connection.is_open:
            try:
                self._connection.close()
            except pika.exceptions.AMQPError:
                return

    def close(self) -> None:
        self.stop_traffic()
        self._http.close()


# --------------------------------------------------------------------------------- the steps


def get(*paths: str) -> list[Step]:
    return [Step("GET", f"/api{path}") for path in paths]


def put(path: str, *bodies: Any) -> list[Step]:
    return [Step("PUT", f"/api{path}", body) for body in bodies]


def post(path: str, *bodies: Any) -> list[Step]:
    return [Step("POST", f"/api{path}", body) for body in bodies]


def delete(*paths: str) -> list[Step]:
    return [Step("DELETE", f"/api{path}") for path in paths]


def bad(method: str, path: str) -> list[Step]:
    """Bodies that are not what any route takes."""
    return [Step(method, f"/api{path}", octets=octets) for octets in (b"{", b"[1]", b'"text"', b"")]


def as_user(login: tuple[str, str] | None, *paths: str) -> list[Step]:
    return [Step("GET", f"/api{path}", login=login) for path in paths]


ADMINISTRATION: Final[Sequence[Step]] = (
    *put("/vhosts/walk", {}, {}, {"description": "d", "tags": "a,b"}),
    *put("/vhosts/walk2", {"tracing": False}),
    *get("/vhosts", "/vhosts/walk", "/vhosts/none"),
    *bad("PUT", "/vhosts/walk"),
    *put("/users/manager", {"password": PASSWORD, "tags": "management"}),
    *put("/users/manager", {"password": PASSWORD, "tags": ["management"]}),
    *put("/users/monitor", {"password": PASSWORD, "tags": "monitoring"}),
    *put("/users/policymaker", {"password": PASSWORD, "tags": "policymaker"}),
    *put("/users/plain", {"password": PASSWORD, "tags": ""}),
    *put("/users/locked", {"password_hash": "", "tags": ""}),
    *put(
        "/users/bad", {}, {"password": PASSWORD}, {"tags": ""}, {"password_hash": "!", "tags": ""}
    ),
    *put("/users/bad", {"password": "x", "password_hash": "y", "tags": ""}),
    *bad("PUT", "/users/bad"),
    *put("/users/bad", {"password_hash": "", "hashing_algorithm": "rot13", "tags": ""}),
    *delete("/users/bad"),
    *get("/users", "/users/", "/users/manager", "/users/none", "/users/without-permissions"),
    *put("/permissions/walk/manager", EVERYTHING, EVERYTHING),
    *put("/permissions/walk/policymaker", EVERYTHING),
    *put("/permissions/walk/guest", EVERYTHING),
    *put("/permissions/walk/none", EVERYTHING),
    *put("/permissions/none/manager", EVERYTHING),
    *put(
        "/permissions/walk/plain", {"configure": ".*"}, {"configure": "(", "write": "", "read": ""}
    ),
    *bad("PUT", "/permissions/walk/plain"),
    *get("/permissions", "/permissions/walk/manager", "/permissions/walk/none"),
    *get("/permissions/none/manager", "/users/manager/permissions", "/users/none/permissions"),
    *get("/vhosts/walk/permissions", "/vhosts/none/permissions"),
    *put("/topic-permissions/walk/manager", {"exchange": "amq.topic", "write": "^a", "read": ""}),
    *put("/topic-permissions/walk/manager", {"exchange": "amq.topic", "write": "("}, {}),
    *put("/topic-permissions/walk/none", {"exchange": "amq.topic", "write": "", "read": ""}),
    *get("/topic-permissions", "/topic-permissions/walk/manager", "/topic-permissions/walk/plain"),
    *get("/users/manager/topic-permissions", "/vhosts/walk/topic-permissions"),
    *put("/vhost-limits/walk/max-queues", {"value": 300}, {"value": "x"}, {"value": None}, {}),
    *put("/vhost-limits/walk/what", {"value": 3}),
    *put("/vhost-limits/none/max-queues", {"value": 3}),
    *get("/vhost-limits", "/vhost-limits/walk", "/vhost-limits/walk2", "/vhost-limits/none"),
    *put("/user-limits/manager/max-channels", {"value": 30}, {"value": "x"}, {}),
    *put("/user-limits/manager/what", {"value": 3}),
    *put("/user-limits/none/max-channels", {"value": 3}),
    *get("/user-limits", "/user-limits/manager", "/user-limits/plain", "/user-limits/none"),
    *put("/parameters/what/walk/n", {"value": 1}),
    *put("/parameters/vhost-limits/walk/limits", {"value": {"max-queues": 300}}),
    *get("/parameters", "/parameters/vhost-limits", "/parameters/vhost-limits/walk"),
    *get("/parameters/vhost-limits/walk/limits", "/parameters/none", "/parameters/none/walk/n"),
    *get("/parameters/vhost-limits/none"),
    *put("/global-parameters/mine", {"value": {"a": [1]}}, {"value": 2}, {}),
    *bad("PUT", "/global-parameters/mine"),
    *get("/global-parameters", "/global-parameters/mine", "/global-parameters/none"),
    *put("/policies/walk/p", {"pattern": "^limited$", "definition": {"max-length": 50}}),
    *put(
        "/policies/walk/p",
        {
            "pattern": "^limited$",
            "definition": {"max-length": 60},
            "priority": 2,
            "apply-to": "queues",
        },
        {"pattern": "(", "definition": {"max-length": 60}},
        {"pattern": "", "definition": {}},
        {"pattern": "", "definition": {"what": 1}},
        {"pattern": "", "definition": {"max-length": -1}},
        {"pattern": "", "definition": {"max-length": 1}, "apply-to": "nothing"},
        {"pattern": "", "definition": {"max-length": 1}, "priority": "high"},
        {"definition": {"max-length": 1}},
        {"pattern": ""},
    ),
    *bad("PUT", "/policies/walk/p"),
    *put("/policies/none/p", {"pattern": "", "definition": {"max-length": 3}}),
    *get(
        "/policies", "/policies/walk", "/policies/walk/p", "/policies/walk/none", "/policies/none"
    ),
    *put(
        "/operator-policies/walk/o",
        {"pattern": "^limited$", "definition": {"max-length": 40}, "apply-to": "queues"},
        {"pattern": "", "definition": {"max-age": "1h"}},
    ),
    *put(
        "/operator-policies/walk/e",
        {"pattern": "", "definition": {"max-length": 40}, "apply-to": "exchanges"},
    ),
    *delete("/operator-policies/walk/e"),
    *get("/operator-policies", "/operator-policies/walk", "/operator-policies/walk/o"),
    *get("/operator-policies/walk/none"),
)

QUEUE: Final = {"durable": True, "auto_delete": False, "arguments": {}}

TOPOLOGY: Final[Sequence[Step]] = (
    *put("/queues/walk/work", QUEUE, QUEUE, {**QUEUE, "durable": False}),
    *put("/queues/walk/work", {**QUEUE, "arguments": {"x-max-length": 3}}),
    *put("/queues/walk/kept", {}, {"durable": False}),
    *put("/queues/walk/empty", QUEUE),
    *put("/queues/walk/limited", {**QUEUE, "arguments": {"x-max-length": 100}}),
    *put("/queues/walk/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    *put("/queues/walk/stream", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
    *put("/queues/walk/prio", {**QUEUE, "arguments": {"x-max-priority": 5}}),
    *put("/queues/walk/a%2Fb", QUEUE),
    *put("/queues/walk/amq.mine", QUEUE),
    *put(
        "/queues/walk/bad",
        {"arguments": {"x-max-length": -1}},
        {"arguments": {"x-max-length": "x"}},
    ),
    *put("/queues/walk/bad", {"arguments": {"x-queue-type": "tree"}}, {"arguments": [1]}),
    *put("/queues/walk/bad", {"durable": "maybe"}),
    *bad("PUT", "/queues/walk/bad"),
    *put("/queues/none/work", QUEUE),
    *put("/exchanges/walk/t", {"type": "topic", "durable": True}),
    *put("/exchanges/walk/t", {"type": "topic", "durable": True}, {"type": "direct"}),
    *put("/exchanges/walk/h", {"type": "headers", "auto_delete": True, "internal": False}),
    *put("/exchanges/walk/i", {"type": "fanout", "internal": True}),
    *put("/exchanges/walk/alt", {"type": "fanout", "arguments": {"alternate-exchange": "t"}}),
    *put(
        "/exchanges/walk/bad", {"type": "nothing"}, {}, {"type": 5}, {"type": "topic", "durable": 7}
    ),
    *put("/exchanges/walk/amq.mine", {"type": "direct"}),
    *put("/exchanges/walk/amq.default", {"type": "direct"}),
    *bad("PUT", "/exchanges/walk/bad"),
    *put("/exchanges/none/t", {"type": "topic"}),
    *post("/bindings/walk/e/t/q/work", {"routing_key": "a.#"}, {"routing_key": "a.#"}),
    *post("/bindings/walk/e/t/q/work", {}, {"routing_key": "a b/~c", "arguments": {}}),
    *post("/bindings/walk/e/h/q/kept", {"arguments": {"x-match": "all", "n": 1}}),
    *post("/bindings/walk/e/h/q/kept", {"arguments": {"x-match": "most"}}),
    *post("/bindings/walk/e/t/e/i", {"routing_key": "i"}),
    *post("/bindings/walk/e/amq.default/q/work", {"routing_key": "x"}),
    *post("/bindings/walk/e/none/q/work", {}),
    *post("/bindings/walk/e/t/q/none", {}),
    *post("/bindings/walk/e/t/e/none", {}),
    *post("/bindings/none/e/t/q/work", {}),
    *bad("POST", "/bindings/walk/e/t/q/work"),
)

LISTS: Final = (
    *("/connections", "/channels", "/consumers", "/exchanges", "/queues", "/bindings", "/nodes"),
    *("/vhosts", "/users"),
)

READS: Final[Sequence[Step]] = (
    *get("/overview", "/overview?columns=object_totals,queue_totals.messages"),
    *get("/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"),
    *get("/overview?disable_stats=true", "/overview?lengths_age=x&lengths_incr=5"),
    *get("/nodes", "/nodes/{node}", "/nodes/none", "/nodes/{node}?memory=true"),
    *get(
        "/nodes/{node}?binary=true",
        "/nodes/{node}/memory",
        "/nodes/none/memory",
        "/nodes/{node}/memory/relative",
    ),
    *get("/nodes?node_stats_age=60&node_stats_incr=5&columns=name,mem_used_details"),
    *get("/cluster-name", "/extensions", "/whoami", "/auth", "/feature-flags"),
    *put("/feature-flags/stream_queue/enable", {}),
    *put("/feature-flags/none/enable", {}),
    *get("/auth/attempts/{node}", "/auth/attempts/{node}/source"),
    *get("/connections", "/connections/{connection}", "/connections/none"),
    *get("/connections/username/guest", "/connections/username/none"),
    *get("/vhosts/walk/connections", "/vhosts/none/connections"),
    *get("/connections?data_rates_age=60&data_rates_incr=5&columns=name,recv_oct_details"),
    *get("/connections/{connection}/channels", "/connections/none/channels"),
    *get("/channels", "/channels/{channel}", "/channels/none", "/vhosts/walk/channels"),
    *get("/channels?msg_rates_age=60&msg_rates_incr=5&columns=name,message_stats"),
    *get("/vhosts/none/channels", "/consumers", "/consumers/walk", "/consumers/none"),
    *get("/exchanges", "/exchanges/walk", "/exchanges/none", "/exchanges/walk/t"),
    *get("/exchanges/walk/amq.default", "/exchanges/walk/none", "/exchanges/walk/alt"),
    *get("/exchanges/walk/t?msg_rates_age=60&msg_rates_incr=5"),
    *get("/exchanges/walk/t/bindings/source", "/exchanges/walk/none/bindings/source"),
    *get("/exchanges/walk/i/bindings/destination", "/exchanges/walk/amq.default/bindings/source"),
    *get("/queues", "/queues/walk", "/queues/none", "/queues/walk/work", "/queues/walk/kept"),
    *get("/queues/walk/empty", "/queues/walk/limited", "/queues/walk/quorum", "/queues/walk/mine"),
    *get("/queues/walk/stream", "/queues/walk/prio", "/queues/walk/a%2Fb", "/queues/walk/none"),
    *get("/queues/walk/work?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"),
    *get("/queues/walk/work?lengths_age=x&lengths_incr=5", "/queues?disable_stats=true"),
    *get("/queues?disable_stats=true&enable_queue_totals=true", "/queues/walk/work/bindings"),
    *get("/queues/walk/none/bindings", "/bindings", "/bindings/walk", "/bindings/none"),
    *get("/bindings/walk/e/t/q/work", "/bindings/walk/e/t/q/none", "/bindings/walk/e/none/q/work"),
    *get("/bindings/walk/e/t/q/work/a.%23", "/bindings/walk/e/t/q/work/none"),
    *get("/bindings/walk/e/t/q/work/a%2Bb%252F%257Ec", "/bindings/walk/e/t/q/work/~"),
    *get("/bindings/walk/e/amq.default/q/work", "/bindings/walk/e/t/e/i"),
    *get("/bindings/walk/e/t/e/i/i", "/bindings/walk/e/h/q/kept"),
    *(
        step
        for name in LISTS
        for step in get(
            f"{name}?page=1&page_size=2",
            f"{name}?page=1&columns=name",
            f"{name}?sort=name&sort_reverse=true&columns=name,vhost",
        )
    ),
    *get("/queues?page=1&name=k&use_regex=false", "/queues?page=1&name=%5Ek&use_regex=true"),
    *get("/queues?page=1&name=(&use_regex=true", "/queues?page=1&pagination=true&name="),
    *get("/queues?page=0", "/queues?page=x", "/queues?page=-1", "/queues?page=99", "/queues?page="),
    *get(
        "/queues?page=1&page_size=0", "/queues?page=1&page_size=501", "/queues?page=1&page_size=x"
    ),
    *get("/queues?page_size=2", "/queues?sort=nothing", "/queues?columns=nothing", "/queues?sort="),
    *get(
        "/queues?columns=name,message_stats.publish&sort=messages", "/queues/walk/work?columns=name"
    ),
    *get("/queues/?page=1", "/none", "/shovels", "/federation-links", "/federation-links/walk"),
    *get("/traces/walk", "/stream/connections", "/definitions/none", "/aliveness-test/%2F"),
    *get("/aliveness-test/none", "/health/checks/alarms", "/health/checks/local-alarms"),
    *get("/health/checks/certificate-expiration/1/days", "/health/checks/port-listener/{port}"),
    *get("/health/checks/certificate-expiration/x/days", "/health/checks/port-listener/1"),
    *get("/health/checks/certificate-expiration/1/eons", "/health/checks/port-listener/x"),
    *get("/health/checks/protocol-listener/amqp091", "/health/checks/protocol-listener/http"),
    *get("/health/checks/protocol-listener/mqtt", "/health/checks/protocol-listener/none"),
    *get("/health/checks/protocol-listener/amqp", "/health/checks/virtual-hosts"),
    *get("/health/checks/node-is-quorum-critical", "/health/checks/node-is-mirror-sync-critical"),
    *get("/healthchecks/node", "/healthchecks/node/{node}", "/healthchecks/node/none"),
    *get("/definitions", "/all-configuration", "/definitions/walk"),
    *(Step(method, "/api/overview") for method in ("HEAD", "OPTIONS", "PUT", "PATCH")),
    Step("OPTIONS", "/api/queues/walk/work"),
)

MANAGER: Final = ("manager", PASSWORD)
ACCESS: Final[Sequence[Step]] = (
    *as_user(None, "/overview", "/queues"),
    *as_user(("guest", "wrong"), "/overview"),
    *as_user(("nobody", "x"), "/overview"),
    *as_user(("plain", PASSWORD), "/overview", "/whoami", "/vhosts"),
    *as_user(MANAGER, "/overview", "/whoami", "/nodes", "/connections", "/queues", "/vhosts"),
    *as_user(MANAGER, "/connections/{connection}", "/channels/{channel}", "/consumers", "/users"),
    *as_user(MANAGER, "/policies", "/parameters", "/queues/%2F", "/vhosts/walk2", "/bindings"),
    *as_user(MANAGER, "/definitions", "/definitions/walk", "/permissions", "/vhost-limits"),
    *as_user(MANAGER, "/user-limits", "/global-parameters", "/exchanges/walk/t", "/channels"),
    *as_user(("policymaker", PASSWORD), "/policies", "/parameters", "/operator-policies", "/users"),
    *as_user(("policymaker", PASSWORD), "/policies/%2F", "/global-parameters", "/nodes"),
    *as_user(("monitor", PASSWORD), "/overview", "/nodes", "/connections", "/queues", "/users"),
    *as_user(("monitor", PASSWORD), "/queues/walk/work", "/vhosts", "/policies", "/consumers"),
    Step("PUT", "/api/queues/walk/of-manager", QUEUE, login=MANAGER),
    Step("DELETE", "/api/queues/walk/of-manager", login=MANAGER),
    Step("PUT", "/api/queues/%2F/of-manager", QUEUE, login=MANAGER),
    Step("PUT", "/api/users/of-manager", {"password": "p", "tags": ""}, login=MANAGER),
    Step("DELETE", "/api/connections/{connection}", login=MANAGER),
    Step("PUT", "/api/queues/walk/of-monitor", QUEUE, login=("monitor", PASSWORD)),
    Step(
        "PUT",
        "/api/operator-policies/walk/of-policymaker",
        {"pattern": "", "definition": {"max-length": 3}},
        login=("policymaker", PASSWORD),
    ),
)

MESSAGE: Final = {
    "properties": {},
    "routing_key": "kept",
    "payload": "x",
    "payload_encoding": "string",
}
PUBLISH: Final = "/exchanges/walk/amq.default/publish"
GET_ONE: Final = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
FIND: Final = "/queues/walk/kept/get"

MESSAGES: Final[Sequence[Step]] = (
    *post(PUBLISH, MESSAGE, {**MESSAGE, "routing_key": "none"}),
    *post(PUBLISH, {**MESSAGE, "payload": "AP8=", "payload_encoding": "base64"}),
    *post(PUBLISH, {**MESSAGE, "payload": "!", "payload_encoding": "base64"}),
    *post(PUBLISH, {**MESSAGE, "payload_encoding": "rot13"}, {**MESSAGE, "properties": []}),
    *post(PUBLISH, {**MESSAGE, "properties": {"what": 1}}, {**MESSAGE, "properties": "x"}),
    *post(PUBLISH, {**MESSAGE, "properties": {"delivery_mode": "x"}}, {**MESSAGE, "payload": 5}),
    *post(PUBLISH, {**MESSAGE, "properties": {"user_id": "nobody"}}),
    *post(PUBLISH, {**MESSAGE, "properties": {"expiration": "soon"}}),
    *post(
        PUBLISH,
        {
            **MESSAGE,
            "properties": {
                "delivery_mode": 2,
                "content_type": "text/plain",
                "headers": {"a": 1, "b": ["x", {"c": True}], "d": 1.5},
                "priority": 3,
                "timestamp": 1_700_000_000,
                "message_id": "m",
                "correlation_id": "c",
                "type": "t",
                "app_id": "a",
                "reply_to": "r",
                "expiration": "600000",
            },
        },
    ),
    *post(PUBLISH, {}, {"routing_key": "kept"}),
    *bad("POST", PUBLISH),
    *post("/exchanges/walk/none/publish", MESSAGE),
    *post("/exchanges/none/t/publish", MESSAGE),
    *post("/exchanges/walk/i/publish", MESSAGE),
    *post(FIND, {**GET_ONE, "count": 10}),
    *post(FIND, {**GET_ONE, "count": 10, "encoding": "base64"}, {**GET_ONE, "truncate": 1}),
    *post(FIND, {**GET_ONE, "ackmode": "reject_requeue_true"}, {"count": 1, "requeue": True}),
    *post(FIND, {**GET_ONE, "count": 2, "ackmode": "ack_requeue_false"}),
    *post(FIND, {**GET_ONE, "ackmode": "reject_requeue_false"}),
    *post(FIND, {**GET_ONE, "count": -1}, {**GET_ONE, "count": 0}, {**GET_ONE, "count": "x"}),
    *post(FIND, {**GET_ONE, "ackmode": "what"}, {**GET_ONE, "encoding": "what"}, {"count": 1}, {}),
    *bad("POST", FIND),
    *post("/queues/walk/none/get", GET_ONE),
    *post("/queues/walk/empty/get", GET_ONE),
    *post("/queues/walk/stream/get", GET_ONE),
    *post("/queues/none/kept/get", GET_ONE),
    *post("/queues/walk/kept/actions", {"action": "sync"}, {"action": "cancel_sync"}),
    *post("/queues/walk/kept/actions", {"action": "what"}, {}),
    *post("/queues/walk/none/actions", {"action": "sync"}),
    *post("/rebalance/queues", {}),
    *delete("/queues/walk/kept/contents", "/queues/walk/none/contents", "/queues/none/q/contents"),
    *delete("/queues/walk/stream/contents", "/queues/walk/mine/contents"),
)

DELETES: Final[Sequence[Step]] = (
    *delete("/queues/walk/work?if-unused=true", "/queues/walk/work?if-empty=true"),
    *delete("/queues/walk/mine", "/queues/walk/none", "/queues/none/work"),
    *delete(
        "/exchanges/walk/t?if-unused=true", "/exchanges/walk/amq.topic", "/exchanges/walk/none"
    ),
    *delete("/exchanges/walk/amq.default", "/exchanges/none/t"),
    *delete("/bindings/walk/e/t/q/work/none", "/bindings/walk/e/none/q/work/x"),
    *delete("/bindings/walk/e/t/q/work/a.%23", "/bindings/walk/e/t/q/work/a.%23"),
    *delete("/bindings/walk/e/amq.default/q/work/work", "/bindings/walk/e/t/e/i/i"),
    Step("DELETE", "/api/connections/{connection}", headers={"X-Reason": "the walk is over"}),
    *delete("/connections/none", "/connections/username/none"),
    *delete("/queues/walk/empty?if-unused=true&if-empty=true", "/queues/walk/work"),
    *delete("/exchanges/walk/t", "/exchanges/walk/i", "/exchanges/walk/alt"),
    *delete("/policies/walk/p", "/policies/walk/p", "/policies/none/p"),
    *delete("/operator-policies/walk/o", "/operator-policies/walk/o"),
    *delete("/parameters/vhost-limits/walk/none", "/parameters/none/walk/n"),
    *delete("/parameters/vhost-limits/walk/limits", "/global-parameters/none"),
    *delete("/global-parameters/mine", "/vhost-limits/walk/max-queues", "/vhost-limits/walk/what"),
    *delete("/user-limits/manager/max-channels", "/user-limits/none/max-channels"),
    *delete("/topic-permissions/walk/manager", "/topic-permissions/walk/manager"),
    *delete("/permissions/walk/manager", "/permissions/walk/manager", "/permissions/walk/none"),
    *put("/cluster-name", {"name": "harbour"}, {}),
    *get("/cluster-name"),
    *post("/vhosts/walk2/start/{node}", None),
    *post("/vhosts/none/start/{node}", None),
    *post("/definitions", {"vhosts": [{"name": "walk3"}]}, {"vhosts": "x"}),
    *post(
        "/definitions/walk3",
        {"queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    *post("/definitions/none", {"queues": []}),
    *post("/all-configuration", {"vhosts": [{"name": "walk3"}]}),
    *bad("POST", "/definitions"),
    *delete("/auth/attempts/{node}", "/auth/attempts/{node}/source", "/reset", "/reset/{node}"),
    *post("/login", None),
    *post("/users/bulk-delete", {"users": ["manager", "none"]}, {}),
    *delete("/users/plain", "/users/none", "/vhosts/walk2", "/vhosts/walk3", "/vhosts/walk"),
    *delete("/vhosts/none"),
)

#: In the order in which they are taken; traffic begins before ``READS``.
BEFORE_TRAFFIC: Final = (*ADMINISTRATION, *TOPOLOGY)
UNDER_TRAFFIC: Final = (*READS, *ACCESS, *MESSAGES, *DELETES)


def take(ours: Side, theirs: Side) -> dict[str, list[tuple[Answered, Answered]]]:
    """The answers of both sides to each step, by its label."""
    found: dict[str, list[tuple[Answered, Answered]]] = {}

    def ask(steps: Sequence[Step]) -> None:
        for step in steps:
            found.setdefault(step.label, []).append((ours.ask(step), theirs.ask(step)))

    ask(BEFORE_TRAFFIC)
    for side in (theirs, ours):
        side.start_traffic()
    ask(UNDER_TRAFFIC)
    return found
