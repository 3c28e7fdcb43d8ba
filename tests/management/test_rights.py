"""The table of rights, tried: each operation without any one of its rights, and with just these.

``scripts.rights_table`` says what there is to try. A user who lacks one right is refused by a
text that names the object, and nothing in the virtual host has changed; with all of them, and no
right on anything else, the operation is done. Rights change while a connection of the user is open.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from hareline.administration import Administration
from hareline.amqp.method_dispatch import HANDLERS
from hareline.broker.vhost import VirtualHost
from hareline.management.api import TABLE
from hareline.server.broker import Broker
from hareline.settings.access import User
from hareline.wire.methods import Exchange as ExchangeMethods
from scripts import rights_table as rights
from scripts.rights_table import OPERATIONS, TAG_ONLY, Need, Operation
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings, segment
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_for

NOTHING: Final = "^$"
KEY: Final = "mine.a"
COPY: Final = "mine.b"
PROBES: Final = {"": "probe", "management": "probe-m", "policymaker": "probe-p"}
STRONGEST_WITHOUT: Final = {
    "administrator": "nearly-administrator",
    "monitoring": "probe-p",
    "policymaker": "only-monitoring",
    "management": "probe",
}
#: What the names in the table stand for here. What is declared has another name.
NAMES: Final = {
    rights.QUEUE: "q",
    rights.EXCHANGE: "x",
    rights.SOURCE: "s",
    rights.DESTINATION: "d",
    rights.TARGET: "to",
    rights.DEAD_LETTER_EXCHANGE: "dlx",
    rights.ALTERNATE: "alt",
    rights.ALTERNATE_QUEUE: "new_DLQ",
    rights.ARCHIVE: "st",
    rights.DEFAULT_EXCHANGE: "amq.default",
    rights.GIVEN_NAME: "amq.gen-",
}
TOPICS: Final = ("x", "s", "d", "to", "dlx", "alt")
_numbers = count()


# ------------------------------------------------------------------------------------- the scene


@pytest.fixture(scope="module")
def broker() -> Iterator[ApiBroker]:
    """Users of each tag, who have permissions only where a test gives them some."""
    settings = api_settings()
    tags = {
        "probe": (),
        "probe-m": ("management",),
        "probe-p": ("policymaker",),
        "nearly-administrator": ("policymaker", "monitoring", "impersonator"),
        "only-monitoring": ("monitoring",),
    }
    users = [
        User.model_validate({"name": name, "password": PASSWORD, "tags": each})
        for name, each in tags.items()
    ]
    with api_broker(settings.model_copy(update={"users": (*settings.users, *users)})) as made:
        yield made


@dataclass
class Scene:
    """A virtual host with something of each kind, where ``user`` tries an operation."""

    broker: ApiBroker
    operation: Operation
    vhost: str = field(default_factory=lambda: f"case-{next(_numbers)}")
    names: dict[str, str] = field(default_factory=lambda: dict(NAMES))
    replies: list[bytes] = field(default_factory=list)
    reply_to: str = ""
    _connection: pika.BlockingConnection | None = None

    @property
    def user(self) -> str:
        return PROBES[self.operation.tag]

    def name(self, what: str) -> str:
        return self.names[what]

    # ------------------------------------------------------------- what the user asks for

    def channel(self) -> BlockingChannel:
        """A new channel on the one connection of the user, which confirms."""
        if self._connection is None:
            self._connection = self.broker.connect(self.user, self.vhost)
        return self._connection.channel()

    def publish(self, exchange: str, key: str, **properties: Any) -> None:
        channel = self.channel()
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"m", pika.BasicProperties(**properties))

    def ask(self, body: object = None, **more: Any) -> Any:
        """Ask for the route of the operation; the JSON of the answer, or ``Refused``."""
        method, _, path = self.operation.name.partition(" ")
        names = {
            "vhost": self.vhost,
            "queue": self.names[rights.QUEUE],
            "exchange": self.names[rights.EXCHANGE],
            "source": self.names[rights.SOURCE],
            "destination": self.names[rights.DESTINATION],
            "name": "p",
            "reader": "r",
            "props": more.pop("props", KEY),
        }
        path = path.format(**{key: segment(name) for key, name in names.items()})
        answer = self.broker.ask(
            method, path.removeprefix("/api") + more.pop("query", ""), self.user, body=body, **more
        )
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.json()["reason"])
        return answer

    # --------------------------------------------------------------- what an operator does

    def make(self) -> None:
        """Fill the virtual host, as administrator."""
        broker = self.broker
        broker.ask("PUT", f"/vhosts/{self.vhost}")
        broker.thread.ask(
            lambda found: administration(found).users.put_permission(
                "admin", self.vhost, ".*", ".*", ".*"
            )
        )
        connection = broker.connect("admin", self.vhost)
        channel = connection.channel()
        for name in TOPICS:
            channel.exchange_declare(name, "topic", durable=True)
        channel.exchange_declare(
            "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
        )
        channel.queue_declare("q", durable=True)
        channel.queue_declare("other", durable=True)
        channel.queue_declare("dead", durable=True)
        channel.queue_declare("st", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("held", durable=True, arguments={"x-hold-on-publish": True})
        channel.queue_declare("grouped", durable=True, arguments={"x-group-key": "g"})
        for exchange in TOPICS:  # whatever gets to an exchange is seen
            channel.queue_declare(f"seen-{exchange}", durable=True)
            channel.queue_bind(f"seen-{exchange}", exchange, "#")
        for destination in ("q", "other"):
            channel.queue_bind(destination, "s", KEY)
        channel.exchange_bind("d", "s", KEY)
        channel.confirm_delivery()
        for name in ("q", "q", "q", "st"):
            channel.basic_publish("", name, b"body")
        self._let_die(channel)
        later = {"x-delay": 3_600_000}
        channel.basic_publish("later", "k", b"body", pika.BasicProperties(headers=later))
        channel.basic_publish("", "held", b"body", pika.BasicProperties(headers=later))
        channel.basic_publish("", "grouped", b"body", pika.BasicProperties(headers={"g": "a"}))
        broker.ask("PUT", f"/stream/{self.vhost}/st/readers/r", body={"offset": 0, "pin": False})
        self._await_replies(connection)

    def _let_die(self, channel: BlockingChannel) -> None:
        """A message in "dead" that died in "dying", for a retry."""
        channel.queue_declare(
            "dying",
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        )
        channel.basic_publish("", "dying", b"body")
        method, _, _ = channel.basic_get("dying")
        channel.basic_nack(method.delivery_tag, requeue=False)
        wait_for(lambda: channel.basic_get("dead", auto_ack=False)[0], 60, "a dead letter")
        channel.basic_recover(requeue=True)

    def _await_replies(self, connection: pika.BlockingConnection) -> None:
        """A requester whose address the user knows."""
        channel = connection.channel()
        self._requester = connection
        channel.basic_consume(
            "amq.rabbitmq.reply-to",
            lambda _channel, _method, _properties, body: self.replies.append(body),
            auto_ack=True,
        )
        request = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        channel.queue_declare("requests")
        channel.basic_publish("", "requests", b"request", request)
        _, properties, _ = channel.basic_get("requests", auto_ack=True)
        self.reply_to = str(properties.reply_to)

    def take_replies(self) -> list[bytes]:
        self._requester.process_data_events(0)
        return self.replies

    def allow(self, needs: Sequence[Need]) -> None:
        """Give the user these rights, and none beside."""
        patterns = {right: self._pattern(needs, right) for right in ("configure", "write", "read")}
        topics = self._topics(needs)

        def give(broker: Broker) -> None:
            users = administration(broker).users
            users.put_permission(self.user, self.vhost, **patterns)
            for exchange, (write, read) in topics.items():
                users.put_topic_permission(self.user, self.vhost, exchange, write, read)

        self.broker.thread.ask(give)

    def _pattern(self, needs: Sequence[Need], right: str) -> str:
        names = [
            re.escape(self.names[need.name]) + ("" if need.name == rights.GIVEN_NAME else "$")
            for need in needs
            if need.right == right and need.kind != "topic"
        ]
        return f"^(?:{'|'.join(names)})" if names else NOTHING

    def exchange_of(self, topic: Need) -> str:
        """The exchange that a need of a key is about."""
        needs = self.operation.needs
        before = [each for each in needs[: needs.index(topic)] if each.kind == "exchange"]
        return self.names[before[-1].name]

    def _topics(self, needs: Sequence[Need]) -> dict[str, tuple[str, str]]:
        """Patterns for keys, of each exchange of which the operation needs some."""
        patterns: dict[str, dict[str, str]] = {}
        for need in self.operation.needs:
            if need.kind != "topic":
                continue
            wide, only = f"^(?:{re.escape(KEY)}|{re.escape(COPY)})$", f"^{re.escape(KEY)}$"
            if need.name == rights.EVERY_KEY:
                pattern = ".*" if need in needs else wide
            elif need.name == rights.EACH_KEY:
                pattern = wide if need in needs else only
            else:
                pattern = only if need in needs else "^elsewhere$"
            found = patterns.setdefault(self.exchange_of(need), {})
            found[need.right] = pattern
        return {
            exchange: (found.get("write", NOTHING), found.get("read", NOTHING))
            for exchange, found in patterns.items()
        }

    def refusal_of(self, need: Need) -> str:
        """What the refusal for want of a right has to say."""
        if self.operation.name.endswith("/retry") and need.right == "write":
            return "the user may not write there"  # messages of many origins have one answer
        where = f"in vhost '{self.vhost}' refused for user '{self.user}'"
        if need.kind != "topic":
            name = self.names[need.name]
            ending = "" if need.name == rights.GIVEN_NAME else "'"
            return f"{need.right} access to {need.kind} '{name}{ending}"
        exchange = f"in exchange '{self.exchange_of(need)}' {where}"
        if need.name == rights.EVERY_KEY:
            return f"{need.right} access to all topics {exchange}"
        key = COPY if need.name == rights.EACH_KEY else KEY
        return f"{need.right} access to topic '{key}' {exchange}"

    def state(self) -> object:
        """All that an operation could change."""
        found = self.broker.thread.ask(lambda broker: state_of(broker, self.vhost))
        return found, list(self.take_replies())


class Refused(Exception):
    """A route has answered so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


def administration(broker: Broker) -> Administration:
    assert broker.administration is not None
    return broker.administration


def state_of(broker: Broker, vhost_name: str) -> object:
    vhost: VirtualHost = broker.context.vhosts[vhost_name]
    live = vhost.live_arguments
    queues = {
        name: (
            dict(queue.arguments),
            queue.ready_count,
            queue.unacked_count,
            queue.held_count,
            queue.next_offset,
            queue.consumer_count,
            queue.is_paused,
            live.changes_of(queue),
            dict(live.in_force(queue).raw),
            sorted(vhost.readers.positions(queue).items()),
        )
        for name, queue in vhost.queues.items()
    }
    exchanges = {
        name: (exchange.type_name, dict(exchange.arguments), exchange.alternate_exchange)
        for name, exchange in vhost.exchanges.items()
    }
    bindings = sorted(
        (each.source, each.kind, each.destination, each.routing_key)
        for source in vhost.exchanges
        for each in vhost.bindings.from_source(source)
    )
    policies = administration(broker).policies
    set_there = [each for each in policies.all(is_operator=False) if each.vhost == vhost_name]
    return queues, exchanges, bindings, set_there


# ------------------------------------------------------------------------------------ the attempts

Attempt = Callable[[Scene], object]
ATTEMPTS: Final[dict[str, Attempt]] = {}
#: Attempts that change nothing that ``state_of`` sees.
LOOKS: Final[set[str]] = set()
#: Methods that name no object, and that a client library sends by itself or with deliveries only.
BY_THEMSELVES: Final = frozenset(
    {
        "basic.ack",
        "basic.nack",
        "basic.reject",
        "basic.recover-async",
        "channel.open",
        "channel.close",
        "channel.flow-ok",
        "access.request",
    }
)


def attempt(title: str, *, looks: bool = False) -> Callable[[Attempt], Attempt]:
    """Register how an operation of the table is tried."""

    def register(function: Attempt) -> Attempt:
        assert title not in ATTEMPTS
        ATTEMPTS[title] = function
        if looks:
            LOOKS.add(title)
        return function

    return register


def _called(
    title: str, *calls: Callable[[BlockingChannel], object], looks: bool = False, **names: str
) -> None:
    """Register calls of a channel. ``names``: what stands for the queue, the exchange and so on."""

    def run(scene: Scene) -> None:
        scene.names |= {f"the {what}": name for what, name in names.items()}
        channel = scene.channel()
        for call in calls:
            call(channel)

    attempt(title, looks=looks)(run)


def _declared(what: str, **arguments: object) -> None:
    """Register a declaration with arguments, whose names are its variant."""
    given: dict[str, Any] = {name.replace("_", "-"): value for name, value in arguments.items()}
    variant = " and ".join(f"`{name}`" for name in given)
    title = f"{what}.declare with {variant}" if given else f"{what}.declare"
    if what == "queue":
        _called(title, lambda channel: channel.queue_declare("new", durable=True, arguments=given))
    else:
        _called(
            title,
            lambda channel: channel.exchange_declare(
                "newx", "direct", durable=True, arguments=given
            ),
        )


TO_ALTERNATE: Final = {"destination": "alt"}
NEW: Final = frozenset(
    each.title
    for each in OPERATIONS
    if each.name in ("exchange.declare", "queue.declare")
    or (each.name.startswith("PUT /api/") and each.name.endswith(("{queue}", "{exchange}")))
)

REPLIES: Final = "amq.rabbitmq.reply-to"

_declared("exchange")
_declared("exchange", alternate_exchange="alt")
_declared("exchange", alternateExchange="alt")
_declared("exchange", alternateBinding=TO_ALTERNATE)
_declared("exchange", x_archive_to="st")
_declared("queue")
_declared("queue", x_dead_letter_exchange="dlx")
_declared("queue", x_dead_letter_exchange="dlx", x_dead_letter_routing_key=KEY)
_declared("queue", alternateExchange="alt")
_declared("queue", alternateBinding=TO_ALTERNATE)
_declared("queue", x_dlq_auto=True)
_declared("queue", x_archive_to="st")
_called("exchange.declare passive", lambda ch: ch.exchange_declare("x", passive=True), looks=True)
_called("queue.declare passive", lambda ch: ch.queue_declare("q", passive=True), looks=True)
_called("queue.declare without a name", lambda ch: ch.queue_declare(""))
_called("exchange.delete", lambda ch: ch.exchange_delete("x"))
_called("exchange.bind", lambda ch: ch.exchange_bind("d", "to", KEY), source="to")
_called("exchange.unbind", lambda ch: ch.exchange_unbind("d", "s", KEY))
_called("queue.delete", lambda ch: ch.queue_delete("q"))
_called("queue.bind", lambda ch: ch.queue_bind("q", "x", KEY))
_called("queue.unbind", lambda ch: ch.queue_unbind("q", "s", KEY), exchange="s")
_called("queue.purge", lambda ch: ch.queue_purge("q"))
_called(
    "basic.publish in a transaction",
    lambda ch: ch.tx_select(),
    lambda ch: ch.basic_publish("x", KEY, b"m"),
    lambda ch: ch.tx_commit(),
)
_called("basic.consume", lambda ch: ch.basic_consume("q", print))
_called(
    "basic.consume of direct replies",
    lambda ch: ch.basic_consume(REPLIES, print, auto_ack=True),
    looks=True,
)
_called("basic.get", lambda ch: ch.basic_get("q", auto_ack=True))
_called("basic.recover", lambda ch: ch.basic_recover(requeue=True), looks=True)
_called(
    "basic.cancel",
    lambda ch: ch.basic_cancel(ch.basic_consume(REPLIES, print, auto_ack=True)),
    looks=True,
)
_called("basic.qos", lambda ch: ch.basic_qos(prefetch_count=1), looks=True)
_called("channel.flow", lambda ch: ch.flow(True), looks=True)
_called("confirm.select", lambda ch: ch.confirm_delivery(), looks=True)
_called("tx.select", lambda ch: ch.tx_select(), looks=True)
_called("tx.commit", lambda ch: ch.tx_select(), lambda ch: ch.tx_commit(), looks=True)
_called("tx.rollback", lambda ch: ch.tx_select(), lambda ch: ch.tx_rollback(), looks=True)
attempt("basic.publish")(lambda scene: scene.publish("x", KEY))
attempt("basic.publish to a queue by its name")(lambda scene: scene.publish("", "q"))
attempt("basic.publish of a direct reply")(lambda scene: scene.publish("", scene.reply_to))


@attempt("basic.publish with `CC` or `BCC`")
def _(scene: Scene) -> None:
    header = "CC" if len(scene.vhost) % 2 else "BCC"
    scene.publish("x", KEY, headers={header: [COPY]})


@attempt("exchange.bound", looks=True)
def _(scene: Scene) -> None:
    client = scene.broker.thread.client()  # pika has no such method
    client.open(scene.user, PASSWORD, vhost=scene.vhost)
    client.send(ExchangeMethods.Bound(exchange="s", routing_key=KEY, queue="q"))
    answer = client.socket.recv(65_536)
    assert ExchangeMethods.BoundOk.index.to_bytes(4, "big") in answer


# --------------------------------------------------------------------------- the attempts over HTTP


def _asked(
    route: str,
    body: object = None,
    *,
    variant: str = "",
    looks: bool = False,
    query: str = "",
    props: str = KEY,
    **names: str,
) -> None:
    """Register a route. ``names``: as for calls."""

    def run(scene: Scene) -> None:
        scene.names |= {f"the {what}": name for what, name in names.items()}
        scene.ask(body, query=query, props=props)

    attempt(f"{route} {variant}".strip(), looks=looks)(run)


_QUEUE: Final = "/api/queues/{vhost}/{queue}"
_EXCHANGE: Final = "/api/exchanges/{vhost}/{exchange}"
_STREAM: Final = "/api/stream/{vhost}/{queue}"
_BIND_QUEUE: Final = "/api/bindings/{vhost}/e/{source}/q/{destination}"
_BIND_EXCHANGE: Final = "/api/bindings/{vhost}/e/{source}/e/{destination}"
_POLICY: Final = "/api/policies/{vhost}/{name}"
_PUBLISHED: Final = {"routing_key": KEY, "payload": "m", "payload_encoding": "string"}
_DEAD: Final = {"x-dead-letter-exchange": "dlx"}
_ALL: Final = {"all": True}
_EXPORTED: Final = b"\n".join(
    json.dumps(line).encode()
    for line in (
        {"format": "hareline-messages", "version": 1},
        {
            "exchange": "",
            "routing_key": "q",
            "properties": {},
            "body": "m",
            "body_encoding": "utf-8",
        },
        {"end": True, "messages": 1, "unreadable": 0},
    )
)

_asked(f"PUT {_EXCHANGE}", {"type": "direct"})
_asked(
    f"PUT {_EXCHANGE}",
    {"type": "direct", "arguments": {"alternate-exchange": "alt"}},
    variant="with `alternate-exchange`",
)
_asked(f"DELETE {_EXCHANGE}")
_asked(f"PUT {_QUEUE}", {"durable": True})
_asked(
    f"PUT {_QUEUE}",
    {"durable": True, "arguments": _DEAD},
    variant="with `x-dead-letter-exchange`",
)
_asked(f"PATCH {_QUEUE}", {"arguments": {"x-max-length": 100}})
_asked(f"PATCH {_QUEUE}", {"arguments": _DEAD}, variant="with `x-dead-letter-exchange`")
_asked(f"DELETE {_QUEUE}")
_asked(f"POST {_BIND_QUEUE}", {"routing_key": KEY}, source="to", destination="q")
_asked(f"POST {_BIND_EXCHANGE}", {"routing_key": KEY}, source="to")
_asked(f"DELETE {_BIND_QUEUE}/{{props}}", destination="q")
_asked(f"DELETE {_BIND_EXCHANGE}/{{props}}")
_asked(f"POST {_EXCHANGE}/publish", {"properties": {}, **_PUBLISHED})
_asked(
    f"POST {_EXCHANGE}/publish",
    {"properties": {"headers": {"CC": [COPY]}}, **_PUBLISHED},
    variant="with `CC` or `BCC`",
)
_asked(f"POST {_QUEUE}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
_asked(f"POST {_QUEUE}/browse", {}, looks=True)
_asked(f"POST {_QUEUE}/export", {}, looks=True)
_asked(f"POST {_QUEUE}/import", _EXPORTED)
for _verb in ("move", "copy"):
    _asked(
        f"POST {_QUEUE}/{_verb}",
        {"to_queue": "other", **_ALL},
        variant="to a queue",
    )
    _asked(
        f"POST {_QUEUE}/{_verb}",
        {"to_exchange": "to", "routing_key": KEY, **_ALL},
        variant="to an exchange",
    )
_asked(f"POST {_QUEUE}/delete", _ALL)
_asked(f"POST {_QUEUE}/purge", {"limit": 1})
_asked(f"DELETE {_QUEUE}/contents")
_asked(f"GET {_QUEUE}/unacknowledged", looks=True)
_asked(f"GET {_QUEUE}/arguments", looks=True)
_asked(f"POST {_QUEUE}/pause")
_asked(f"POST {_QUEUE}/resume", looks=True)
_asked(f"GET {_QUEUE}/groups", looks=True, queue="grouped")
_asked(f"POST {_QUEUE}/groups/reset", {}, looks=True, queue="grouped")
_asked(f"GET {_QUEUE}/held", looks=True, queue="held")
_asked(f"POST {_QUEUE}/held/cancel", _ALL, queue="held")
_asked(f"POST {_QUEUE}/held/fire", _ALL, queue="held")
_asked(f"GET {_QUEUE}/readers", looks=True, queue="st")
_asked(f"GET {_EXCHANGE}/delayed", looks=True, exchange="later")
_asked(f"POST {_EXCHANGE}/delayed/cancel", _ALL, exchange="later")
_asked(f"POST {_EXCHANGE}/delayed/fire", _ALL, exchange="later")
_asked(
    f"PUT {_POLICY}",
    {"pattern": "^q$", "definition": {"dead-letter-exchange": "dlx"}, "apply-to": "queues"},
    variant="with `dead-letter-exchange`",
)
_asked(
    f"PUT {_POLICY}",
    {"pattern": "^x$", "definition": {"alternate-exchange": "alt"}, "apply-to": "exchanges"},
    variant="with `alternate-exchange`",
)
_asked(f"GET {_STREAM}/tail", looks=True, queue="st")
_asked(f"GET {_STREAM}/offset-for-timestamp", looks=True, queue="st", query="?timestamp_ms=0")
_asked(f"GET {_STREAM}/range", looks=True, queue="st", query="?start=0&end=1")
_asked(f"GET {_STREAM}/readers", looks=True, queue="st")
_asked(f"GET {_STREAM}/readers/{{reader}}", looks=True, queue="st")
_asked(f"PUT {_STREAM}/readers/{{reader}}", {"offset": 1}, queue="st")
_asked(f"DELETE {_STREAM}/readers/{{reader}}", queue="st")


@attempt(f"POST {_QUEUE}/retry")
def _(scene: Scene) -> None:
    scene.names[rights.QUEUE] = "dead"
    answer = scene.ask(_ALL).json()
    refused = answer["refused"].get("not_allowed")
    if refused is not None:
        raise Refused(403, refused["reason"])


# --------------------------------------------------------------------------------------- the tests


def refused(scene: Scene) -> tuple[int, str] | None:
    """Status and reason if the operation is refused for want of a right; None: it is done."""
    try:
        ATTEMPTS[scene.operation.title](scene)
    except ChannelClosedByBroker as error:
        return error.reply_code, str(error.reply_text)
    except Refused as error:
        return error.status, error.reason
    return None


def statuses_of_refusals(operation: Operation) -> set[int]:
    """401 over HTTP, but for a publish, as in RabbitMQ."""
    if operation.name.endswith("/publish"):
        return {400}
    if operation.name.endswith("/retry"):  # looks, and then publishes
        return {401, 403}
    return {403} if operation.way == "AMQP" or "/api/stream/" in operation.name else {401}


@pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS if each.name not in BY_THEMSELVES],
    ids=lambda operation: operation.title,
)
def test_an_operation_needs_each_of_its_rights_and_no_other(
    broker: ApiBroker, operation: Operation
) -> None:
    scene = Scene(broker, operation)
    if operation.title in NEW:  # what is declared is not there yet
        scene.names |= {rights.QUEUE: "new", rights.EXCHANGE: "newx"}
    scene.make()
    for need in operation.needs:
        scene.allow([each for each in operation.needs if each is not need])
        before = scene.state()
        refusal = refused(scene)
        assert refusal is not None, f"done without {need}"
        assert refusal[0] in statuses_of_refusals(operation), refusal
        assert scene.refusal_of(need) in refusal[1], (need, refusal)
        assert scene.state() == before, f"refused, and yet something has changed: {need}"
    scene.allow(operation.needs)
    before = scene.state()
    assert refused(scene) is None
    if operation.title not in LOOKS:
        wait_for(lambda: scene.state() != before or None, 60, "what the operation changes")
    broker.disconnect()


def test_every_method_of_a_channel_is_in_the_table() -> None:
    methods = {_name_of(each.__name__, each.__qualname__) for each in HANDLERS} | {"basic.publish"}
    assert methods == {each.name for each in OPERATIONS if each.way == "AMQP"}


def _name_of(name: str, qualified: str) -> str:
    """``Basic.RecoverAsync`` as the specification writes it."""
    group = qualified.split(".")[-2]
    words = re.findall(r"[A-Z][a-z]*", name)
    return f"{group.lower()}.{'-'.join(words).lower()}"


def routes(broker: ApiBroker) -> set[str]:
    paths = broker.http.get("/openapi.json")["paths"]
    return {f"{method.upper()} {path}" for path, found in paths.items() for method in found}


@pytest.mark.acceptance
def test_every_route_that_changes_something_is_in_the_table(broker: ApiBroker) -> None:
    changing = {each for each in routes(broker) if not each.startswith(("GET ", "HEAD "))}
    known = {each.name for each in OPERATIONS if each.way == "HTTP"} | TAG_ONLY.keys()
    # as LavinMQ has pause and resume, by PUT
    known |= {f"PUT {_QUEUE}/{verb}" for verb in ("pause", "resume")}
    of_pair = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
    known = {re.sub(r"/[qe]/\{destination", "/{kind}/{destination", each) for each in known}
    assert f"POST {of_pair}" in known
    assert changing - known == set()
    assert known - routes(broker) == set()


@pytest.mark.parametrize(("route", "tag"), TAG_ONLY.items())
def test_a_route_is_refused_without_its_tag(broker: ApiBroker, route: str, tag: str) -> None:
    method, _, path = route.partition(" ")
    broker.thread.ask(allow_everything)
    known = {"vhost": "%2F", "user": "plain", "exchange": "amq.topic", "queue": "q"}
    path = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "none"), path)
    before = broker.get("/definitions")
    answer = broker.ask(method, path.removeprefix("/api"), STRONGEST_WITHOUT[tag], body={})
    assert answer.status_code in (401, 403), (answer.status_code, answer.text)
    assert tag in answer.text.lower()
    assert broker.get("/definitions") == before


HAS_TAG: Final = {"administrator": "admin", "monitoring": "monitor", "policymaker": "policymaker"}
TAGGED_LOOKS: Final = [
    (row.request.removeprefix("GET /api"), row.needs)
    for table in TABLE
    for row in table.rows
    if row.request.startswith("GET ") and row.needs in HAS_TAG
]


@pytest.mark.acceptance
def test_a_look_is_refused_without_its_tag(broker: ApiBroker) -> None:
    for route, tag in TAGGED_LOOKS:
        path = re.sub(r"\{\w+\}", "none", route)
        assert broker.ask("GET", path, STRONGEST_WITHOUT[tag]).status_code == 401, path
        assert broker.ask("GET", path, HAS_TAG[tag]).status_code in (200, 400, 404), path
    asked = Counter(tag for _, tag in TAGGED_LOOKS)
    assert asked["administrator"] > 10
    assert asked["monitoring"] > 5


def allow_everything(broker: Broker) -> None:
    for user in STRONGEST_WITHOUT.values():
        administration(broker).users.put_permission(user, "/", ".*", ".*", ".*")


#: What a load balancer, a scraper, a browser and a client of any user may ask for.
OPEN_TO_ALL: Final = ("/api/health", "/metrics", "/api/metrics", "/api/stream/", "/api/auth")


@pytest.mark.acceptance
def test_no_route_answers_a_user_without_a_tag(broker: ApiBroker) -> None:
    asked = 0
    for route in sorted(routes(broker)):
        method, _, path = route.partition(" ")
        if method != "GET" or not path.startswith("/api/") or path.startswith(OPEN_TO_ALL):
            continue
        path = re.sub(r"\{(\w+)\}", lambda found: {"vhost": "%2F"}.get(found[1], "none"), path)
        answer = broker.ask("GET", path.removeprefix("/api"), "plain")
        assert answer.status_code == 401, (path, answer.status_code, answer.text)
        asked += 1
    assert asked > 80


COMMANDS: Final = {
    ("queue", "purge", "q"): "read access to queue 'q'",
    ("queue", "browse", "q"): "read access to queue 'q'",
    ("queue", "delete", "q"): "configure access to queue 'q'",
    ("queue", "move", "q", "--to-queue", "other", "--all"): "read access to queue 'q'",
    ("queue", "declare", "new"): "configure access to queue 'new'",
    ("exchange", "delete", "x"): "configure access to exchange 'x'",
    ("get", "q"): "read access to queue 'q'",
    ("publish", "--exchange", "x", "--routing-key", KEY, "body"): "write access to exchange 'x'",
}


@pytest.mark.acceptance
def test_commands_do_no_more_than_their_user_may(broker: ApiBroker) -> None:
    scene = Scene(broker, Operation("HTTP", "commands", tag="management"))
    scene.make()
    scene.allow([])
    host, port = broker.thread.address
    run = CommandLine(
        HARELINE_URL=broker.url,
        HARELINE_AMQP_URL=f"amqp://{host}:{port}",
        HARELINE_USER=scene.user,
        HARELINE_PASSWORD=PASSWORD,
        HARELINE_VHOST=scene.vhost,
    )
    before = scene.state()
    for command, wanted in COMMANDS.items():
        done = run(*command)
        assert done.status != 0, command
        assert wanted in " ".join(done.err.split()), (command, done.err)
        assert f"refused for user '{scene.user}'" in " ".join(done.err.split())
    assert scene.state() == before
    broker.disconnect()
