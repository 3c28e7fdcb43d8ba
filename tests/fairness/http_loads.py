"""The part of the catalogue that comes over HTTP: lists, definitions, policies, messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pamqp import commands, common

from tests.fairness.loads import CATALOGUE, Load, N, binds, declares, fill, load, publishes, sync
from tests.fairness.stand import Stand, send
from tests.support.http_api import HttpApi


def _topology(stand: Stand, queues: int, bindings: int) -> None:
    """So many queues, and bindings of the first of them."""
    client = stand.client()
    client.declare("hub", durable=True)
    octets = declares(queues, durable=True) + binds(bindings, "amq.topic", "k." + N, "hub")
    send(client, octets, lambda: sync(client))


def _ask(api: HttpApi, *paths: str) -> None:
    """Get all of these at once."""
    threads = [threading.Thread(target=api.ask, args=("GET", path)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _asked(name: str, *paths: str) -> None:
    @load(f"HTTP: {name}")
    def ask(stand: Stand) -> Iterator[None]:
        _topology(stand, stand.count(20_000), stand.count(100_000))
        api = stand.api
        yield
        _ask(api, *paths)


_asked("20,000 queues listed by 5 clients", *["/api/queues?sort=messages"] * 5)
_asked("100,000 bindings listed by 3 clients", *["/api/bindings"] * 3)
_asked("names by a regular expression", "/api/queues?page=1&use_regex=true&name=(q|0)*x$")
_asked("definitions exported by 3 clients", *["/api/definitions"] * 3)
_asked("metrics scraped by 3 clients", *["/metrics/per-object"] * 3)
_asked("a queue with 100,000 bindings", "/api/queues/%2F/hub/bindings", "/api/exchanges")


@load("HTTP: definitions of 20,000 queues and 50,000 bindings imported", "journal")
def _import(stand: Stand) -> Iterator[None]:
    queues: list[dict[str, Any]] = [
        {
            "name": f"i{number:08}",
            "vhost": "/",
            "durable": True,
            "auto_delete": False,
            "arguments": {},
        }
        for number in range(stand.count(20_000))
    ]
    bindings = [
        {
            "source": "amq.topic",
            "vhost": "/",
            "destination": "i00000000",
            "destination_type": "queue",
            "routing_key": f"k.{number:08}",
            "arguments": {},
        }
        for number in range(stand.count(50_000))
    ]
    api = stand.api
    yield
    api.done("POST", "/api/definitions", {"queues": queues, "bindings": bindings})


@load("HTTP: 20,000 items left out of an import")
def _bad_import(stand: Stand) -> Iterator[None]:
    queues = [{"name": f"amq.{number:08}", "vhost": "/"} for number in range(stand.count(20_000))]
    api = stand.api
    yield
    api.done("POST", "/api/definitions", {"queues": queues})


@load("HTTP: policies for 20,000 queues set and deleted")
def _policies(stand: Stand) -> Iterator[None]:
    _topology(stand, stand.count(20_000), 20)
    api = stand.api
    yield
    for number in range(5):
        body = {"pattern": "^q", "definition": {"max-length": 100 + number}, "priority": number}
        api.done("PUT", f"/api/policies/%2F/p{number}", body)
    for number in range(5):
        api.done("DELETE", f"/api/policies/%2F/p{number}")


def _queue_operation(name: str, act: Callable[[HttpApi], object], **arguments: Any) -> None:
    @load(f"HTTP: {name}")
    def operate(stand: Stand) -> Iterator[None]:
        client = fill(stand, "q", stand.count(300_000), arguments)
        client.declare("other")
        api = stand.api
        yield
        act(api)


def _browse(api: HttpApi) -> None:
    body = {"count": 1_000, "start": "end"}
    threads = [
        threading.Thread(target=api.done, args=("POST", "/api/queues/%2F/q/browse", body))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_queue_operation(
    "DELETE contents of 300,000 messages",
    lambda api: api.done("DELETE", "/api/queues/%2F/q/contents"),
)
_queue_operation(
    "300,000 messages deleted by selector",
    lambda api: api.done("POST", "/api/queues/%2F/q/delete", {"all": True}),
)
_queue_operation(
    "300,000 messages moved",
    lambda api: api.done("POST", "/api/queues/%2F/q/move", {"to_queue": "other", "all": True}),
)
_queue_operation("1,000 messages browsed from the end by 5 clients", _browse)
_queue_operation(
    "a queue of 300,000 messages deleted", lambda api: api.done("DELETE", "/api/queues/%2F/q")
)


@load("HTTP: a virtual host of 20,000 queues deleted", "journal")
def _delete_vhost(stand: Stand) -> Iterator[None]:
    api, count = stand.api, stand.count(20_000)
    api.done("PUT", "/api/vhosts/v")
    queues = [{"name": f"i{number:08}", "durable": True} for number in range(count)]
    bindings = [
        {
            "source": "amq.topic",
            "destination": "i00000000",
            "destination_type": "queue",
            "routing_key": f"k.{number:08}",
        }
        for number in range(count)
    ]
    api.done("POST", "/api/definitions/v", {"queues": queues, "bindings": bindings})
    yield
    api.done("DELETE", "/api/vhosts/v")


@load("HTTP: a user with 1,000 connections deleted")
def _delete_user(stand: Stand) -> Iterator[None]:
    api = stand.api
    api.done("PUT", "/api/users/u", {"password": "u", "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.done("PUT", "/api/permissions/%2F/u", everything)
    clients = [stand.client(user="u") for _ in range(stand.count(1_000))]
    for client in clients:
        client.declare(exclusive=True)
    yield
    api.done("DELETE", "/api/users/u")


@load("HTTP: 1,000 connections and 10,000 channels listed and searched")
def _connections_listed(stand: Stand) -> Iterator[None]:
    for _ in range(stand.count(1_000)):
        stand.client(*range(1, 11))
    api = stand.api
    yield
    _ask(api, *["/api/connections"] * 3, *["/api/channels"] * 3)


@load("HTTP: the firehose, while 100,000 messages move")
def _firehose(stand: Stand) -> Iterator[None]:
    client = stand.client()
    client.declare("q")
    client.declare("traced", arguments={"x-max-length": 1_000})
    bind = commands.Queue.Bind(queue="traced", exchange="amq.rabbitmq.trace", routing_key="#")
    client.call(bind, commands.Queue.BindOk)
    api = stand.api
    api.done("PUT", "/api/vhosts/%2F", {"tracing": True})
    octets = publishes(client, "q", stand.count(100_000))
    yield
    send(client, octets, lambda: sync(client))
    api.done("PUT", "/api/vhosts/%2F", {"tracing": False})


@load("HTTP: a limit of 10 for 300,000 messages, by a policy")
def _limit(stand: Stand) -> Iterator[None]:
    arguments: common.FieldTable = {"x-dead-letter-exchange": "amq.fanout"}
    client = fill(stand, "q", stand.count(300_000), arguments)
    body = {"pattern": "^q$", "definition": {"max-length": 10}}
    api = stand.api
    yield
    api.done("PUT", "/api/policies/%2F/short", body)
    while client.ready_count("q") > 10:
        time.sleep(0.05)


def catalogue() -> dict[str, Load]:
    """All loads by name, these and those over AMQP."""
    return CATALOGUE
