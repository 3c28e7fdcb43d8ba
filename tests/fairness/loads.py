"""The catalogue: what a client may do within its rights that could keep the others waiting.

Each load is a generator: it prepares what it needs, yields, and then does its worst; when it
returns, the broker has done all of it or goes on with the rest. ``CATALOGUE`` has them by name;
those over HTTP are in ``http_loads``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pamqp import commands, common, frame, header

from tests.fairness.stand import NUMBER, Stand, numbered, send
from tests.support.raw_client import RawClient

Act = Callable[[Stand], Iterator[None]]

N: Final = NUMBER.decode()


class Load(NamedTuple):
    """``store``: the broker's ``storage.kind``."""

    name: str
    store: str
    act: Act


CATALOGUE: Final[dict[str, Load]] = {}


def load(name: str, store: str = "memory") -> Callable[[Act], Act]:
    """Enter a load into the catalogue."""

    def enter(act: Act) -> Act:
        assert name not in CATALOGUE
        CATALOGUE[name] = Load(name, store, act)
        return act

    return enter


def sync(client: RawClient, channel: int = 1) -> None:
    """Return when the broker has handled all that this channel was sent."""
    client.call(commands.Basic.Qos(), commands.Basic.QosOk, channel)


def declares(count: int, start: int = 0, **options: object) -> bytes:
    """Declare so many queues, which are called q and a number."""
    declare = commands.Queue.Declare(queue="q" + N, nowait=True)
    for name, value in options.items():
        setattr(declare, name, value)
    return numbered(declare, count, start=start)


def binds(count: int, exchange: str, key: str = "", queue: str = "q" + N) -> bytes:
    """Bind so many queues, or one queue with so many keys."""
    bind = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key, nowait=True)
    return numbered(bind, count)


def publishes(
    client: RawClient,
    key: str,
    count: int,
    *,
    exchange: str = "",
    body: bytes = b"x" * 100,
    properties: commands.Basic.Properties | None = None,
) -> bytes:
    """So many messages; `NUMBER` in their keys and properties is counted up."""
    options = b"\0\0"
    if properties is not None:
        content = header.ContentHeader(body_size=len(body), properties=properties)
        options = frame.marshal(content, 1)[7 + 12 : -1]
    octets = client.publish_octets(key, body, options, exchange=exchange)
    if NUMBER not in octets:
        return octets * count
    return b"".join([octets.replace(NUMBER, b"%08d" % number) for number in range(count)])


def fill(
    stand: Stand,
    queue: str,
    count: int,
    arguments: common.FieldTable | None = None,
    properties: commands.Basic.Properties | None = None,
    **options: bool,
) -> RawClient:
    """A client that has declared a queue and published so many messages to it."""
    client = stand.client()
    client.declare(queue, arguments=arguments, **options)
    octets = publishes(client, queue, count, properties=properties)
    send(client, octets, lambda: sync(client))
    return client


def take_all(client: RawClient, queue: str, count: int) -> None:
    """Have these messages delivered, and acknowledge none."""
    client.consume(queue, no_ack=False)
    client.skip_bodies(count)


# ------------------------------------------------------------------------------ routing


@load("fan-outs: 100 messages to 20,000 queues each")
def _fan_out(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(20_000)
    send(client, declares(count) + binds(count, "amq.fanout"), lambda: sync(client))
    yield
    send(client, publishes(client, "", 100, exchange="amq.fanout"), lambda: sync(client))


@load("headers: 100 messages past 100,000 bindings")
def _headers(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(100_000)
    client.declare("q")
    arguments: common.FieldTable = {"x-match": "all", "a": "1", "b": N}
    bind = commands.Queue.Bind(queue="q", exchange="amq.headers", nowait=True, arguments=arguments)
    send(client, numbered(bind, count), lambda: sync(client))
    yield
    like = commands.Basic.Properties(headers={"a": "1", "b": N})
    octets = publishes(client, "", 100, exchange="amq.headers", properties=like)
    send(client, octets, lambda: sync(client))


@load("topics: 1,000 keys of 100 words past 20,000 patterns")
def _topics(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(20_000)
    client.declare("q")
    key = "#.a.#.a.#.a.#.a.#.a.#.a.#." + N
    send(client, binds(count, "amq.topic", key, "q"), lambda: sync(client))
    yield
    words = ".".join(["a"] * 100) + "." + N
    send(client, publishes(client, words, 1_000, exchange="amq.topic"), lambda: sync(client))


@load("exchanges: 100 messages along 20,000 exchanges bound in a row")
def _chain(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(20_000)
    declare = commands.Exchange.Declare(exchange="e" + N, exchange_type="fanout", nowait=True)
    octets = [numbered(declare, count)]
    for number in range(1, count):
        bind = commands.Exchange.Bind(
            source=f"e{number - 1:08}", destination=f"e{number:08}", nowait=True
        )
        octets.append(frame.marshal(bind, 1))
    bind = commands.Exchange.Bind(source="amq.topic", destination="e" + N, routing_key="#")
    bind.nowait = True
    octets.append(frame.marshal(bind, 1))
    send(client, b"".join(octets), lambda: sync(client))
    yield
    octets = [client.publish_octets(f"{n}", b"x", exchange="amq.topic") for n in range(100)]
    send(client, b"".join(octets), lambda: sync(client))


@load("dead letters: 1,000 rejected at once, to 5,000 queues each")
def _dead_fan_out(stand: Stand) -> Iterator[None]:
    queues, count = stand.count(5_000), stand.count(1_000)
    client = fill(stand, "source", count, {"x-dead-letter-exchange": "amq.fanout"})
    limited: common.FieldTable = {"x-max-length": 10}
    send(
        client,
        declares(queues, arguments=limited) + binds(queues, "amq.fanout"),
        lambda: sync(client),
    )
    take_all(client, "source", count)
    yield
    client.send(commands.Basic.Nack(delivery_tag=0, multiple=True, requeue=False))
    sync(client)


@load("dead letters: 1,000 messages into a row of 2,000 full queues")
def _dead_chain(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(2_000)
    for number in range(count):
        arguments: common.FieldTable = {
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"q{number + 1:08}",
        }
        queue = f"q{number:08}"
        client.send(commands.Queue.Declare(queue=queue, nowait=True, arguments=arguments))
        client.publish(queue, b"full")
    sync(client)
    yield
    send(client, client.publish_octets(f"q{0:08}", b"x") * 1_000, lambda: sync(client))


# ------------------------------------------------------------------------------ deep queues


def _purge(name: str, arguments: common.FieldTable, store: str = "memory", **more: bool) -> None:
    @load(f"purge of 300,000 messages: {name}", store)
    def purge(stand: Stand) -> Iterator[None]:
        client = fill(stand, "q", stand.count(300_000), arguments, _like(store), **more)
        yield
        client.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk)

    @load(f"delete with 300,000 messages: {name}", store)
    def delete(stand: Stand) -> Iterator[None]:
        client = fill(stand, "q", stand.count(300_000), arguments, _like(store), **more)
        yield
        client.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)


def _like(store: str) -> commands.Basic.Properties:
    return commands.Basic.Properties(
        delivery_mode=2 if store == "journal" else 1,
        priority=5,
        headers={"k": N, "x-delay": 3_600_000},
    )


_purge("plain", {})
_purge("priorities", {"x-max-priority": 10})
_purge("sorted", {"x-sort-key": "k"})
_purge("last values", {"x-last-value-key": "k"})
_purge("held", {"x-hold-on-publish": True})
_purge("limited", {"x-max-length": 1_000_000})
_purge("times to live", {"x-message-ttl": 3_600_000})
_purge("durable", {}, "journal", durable=True)


@load("dead letters: 300,000 rejected at once")
def _reject_all(stand: Stand) -> Iterator[None]:
    arguments: common.FieldTable = {"x-dead-letter-exchange": "amq.fanout"}
    client = fill(stand, "q", stand.count(300_000), arguments)
    client.declare("dead")
    bind = commands.Queue.Bind(queue="dead", exchange="amq.fanout")
    client.call(bind, commands.Queue.BindOk)
    take_all(client, "q", stand.count(300_000))
    yield
    client.send(commands.Basic.Nack(delivery_tag=0, multiple=True, requeue=False))
    sync(client)


@load("expiry: 300,000 messages at once")
def _expiry(stand: Stand) -> Iterator[None]:
    fill(
        stand, "q", stand.count(300_000), {"x-message-ttl": 20_000 if stand.scale > 0.2 else 3_000}
    )
    yield
    _wait_until_empty(stand, "q")


@load("expiry: basic.get when 300,000 messages expire at once")
def _get_expired(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    # the whole lot becomes due at one instant, which a client meets with a get
    instant = int(time.time() * 1000) + (20_000 if stand.scale > 0.2 else 4_000)
    like = commands.Basic.Properties(expiration=str(instant))
    client = fill(stand, "q", count, None, like)
    time.sleep(max(0.0, instant / 1000 - time.time() - 0.05))
    yield
    while time.time() < instant / 1000 + 0.5:
        client.send(commands.Basic.Get(queue="q", no_ack=True))
        _, answer = client.read()
        if isinstance(answer, commands.Basic.GetOk):
            client.read()
            client.read()
    _wait_until_empty(stand, "q")


@load("delays: 50,000 messages due at once, to 10 queues each")
def _delays(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(50_000)
    client.call(
        commands.Exchange.Declare(
            exchange="late",
            exchange_type="x-delayed-message",
            arguments={"x-delayed-type": "fanout"},
        ),
        commands.Exchange.DeclareOk,
    )
    send(client, declares(10) + binds(10, "late"), lambda: sync(client))
    like = commands.Basic.Properties(headers={"x-delay": 8_000 if stand.scale > 0.2 else 2_000})
    octets = publishes(client, "", count, exchange="late", properties=like)
    send(client, octets, lambda: sync(client))
    yield
    while client.ready_count("q00000009") < count:
        time.sleep(0.05)


@load("delays: 500 messages due at once, to 5,000 queues each")
def _wide_delays(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(5_000)
    client.call(
        commands.Exchange.Declare(
            exchange="late",
            exchange_type="x-delayed-message",
            arguments={"x-delayed-type": "fanout"},
        ),
        commands.Exchange.DeclareOk,
    )
    send(client, declares(count) + binds(count, "late"), lambda: sync(client))
    like = commands.Basic.Properties(headers={"x-delay": 2_000})
    octets = publishes(client, "", 500, exchange="late", properties=like)
    send(client, octets, lambda: sync(client))
    yield
    while client.ready_count("q00000009") < 500:
        time.sleep(0.05)


def _wait_until_empty(stand: Stand, queue: str) -> None:
    client = stand.client()
    while client.ready_count(queue):
        time.sleep(0.05)


# ------------------------------------------------------------------------------ settlements


def _settles(
    name: str,
    method: commands.Basic.Ack | commands.Basic.Nack | commands.Basic.Recover,
    store: str = "memory",
    arguments: common.FieldTable | None = None,
) -> None:
    @load(f"{name} of 300,000 deliveries", store)
    def settle(stand: Stand) -> Iterator[None]:
        count = stand.count(300_000)
        client = fill(stand, "q", count, arguments, _like(store), durable=store == "journal")
        taker = stand.client()
        take_all(taker, "q", count)
        taker.call(commands.Basic.Cancel("raw"), commands.Basic.CancelOk)
        yield
        taker.send(method)
        if isinstance(method, commands.Basic.Recover):
            taker.expect(commands.Basic.RecoverOk)
        sync(taker)
        sync(client)


_settles("ack", commands.Basic.Ack(0, multiple=True))
_settles("ack (durable)", commands.Basic.Ack(0, multiple=True), "journal")
_settles("nack with requeue", commands.Basic.Nack(0, multiple=True, requeue=True))
_settles(
    "nack with requeue (priorities)",
    commands.Basic.Nack(0, multiple=True, requeue=True),
    "memory",
    {"x-max-priority": 10},
)
_settles("nack without requeue", commands.Basic.Nack(0, multiple=True, requeue=False))
_settles("recover", commands.Basic.Recover(requeue=True))


@load("a channel closed with 300,000 deliveries unacknowledged")
def _close_channel(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    fill(stand, "q", count)
    taker = stand.client(1, 2)
    take_all(taker, "q", count)
    yield
    close = commands.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
    taker.call(close, commands.Channel.CloseOk)
    sync(taker, 2)


@load("a connection lost with 300,000 deliveries unacknowledged")
def _lose_connection(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    client = fill(stand, "q", count)
    taker = stand.client()
    take_all(taker, "q", count)
    yield
    taker.drop()
    while client.ready_count("q") < count:
        time.sleep(0.01)


@load("a connection lost with 300,000 deliveries of a durable queue", "journal")
def _lose_durable(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    like = commands.Basic.Properties(delivery_mode=2)
    client = fill(stand, "q", count, None, like, durable=True)
    taker = stand.client()
    take_all(taker, "q", count)
    yield
    taker.drop()
    while client.ready_count("q") < count:
        time.sleep(0.01)


@load("tx: a commit of 200,000 publishes")
def _commit(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(200_000)
    client.declare("q")
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    send(client, publishes(client, "q", count), lambda: sync(client))
    yield
    client.call(commands.Tx.Commit(), commands.Tx.CommitOk)


def _in_transaction(name: str, method: commands.Tx.Commit | commands.Tx.Rollback | None) -> None:
    @load(f"tx: {name} of 200,000 acknowledgements")
    def end(stand: Stand) -> Iterator[None]:
        count = stand.count(200_000)
        client = fill(stand, "q", count)
        taker = stand.client()
        taker.call(commands.Tx.Select(), commands.Tx.SelectOk)
        take_all(taker, "q", count)
        taker.send(commands.Basic.Ack(0, multiple=True))
        sync(taker)
        yield
        if method is None:
            taker.drop()
            while client.ready_count("q") < count:
                time.sleep(0.01)
        else:
            taker.send(method)
            _, answer = taker.read()
            assert isinstance(answer, commands.Tx.CommitOk | commands.Tx.RollbackOk)


_in_transaction("a commit", commands.Tx.Commit())
_in_transaction("a rollback", commands.Tx.Rollback())
_in_transaction("a lost connection", None)


@load("tx: 500 clients that commit 2,000 publishes each at once")
def _commits(stand: Stand) -> Iterator[None]:
    clients = stand.clients(stand.count(500))
    clients[0].declare("q")
    octets = publishes(clients[0], "q", 2_000)
    for client in clients:
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        client.send_octets(octets)
        sync(client)
    yield
    for client in clients:
        client.send(commands.Tx.Commit())
    for client in clients:
        client.expect(commands.Tx.CommitOk)


# ------------------------------------------------------------------------------ connections


def _connections(stand: Stand, count: int) -> list[RawClient]:
    """So many, each with a queue that is its own, two bindings and a consumer."""
    clients = stand.clients(count)
    for number, client in enumerate(clients):
        queue = f"own{number}"
        client.send(commands.Queue.Declare(queue=queue, exclusive=True, nowait=True))
        for key in ("a", f"b{number}"):
            client.send(
                commands.Queue.Bind(queue=queue, exchange="amq.topic", routing_key=key, nowait=True)
            )
        client.send(commands.Basic.Consume(queue=queue, nowait=True))
        sync(client)
    return clients


@load("2,000 connections lost at once")
def _mass_loss(stand: Stand) -> Iterator[None]:
    clients = _connections(stand, stand.count(2_000))
    yield
    for client in clients:
        client.drop()


@load("2,000 connections closed at once")
def _mass_close(stand: Stand) -> Iterator[None]:
    clients = _connections(stand, stand.count(2_000))
    goodbye = frame.marshal(
        commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0), 0
    )
    yield
    for client in clients:
        client.send_octets(goodbye)
    for client in clients:
        client.expect(commands.Connection.CloseOk)


@load("1,000 connections opened at once")
def _mass_open(stand: Stand) -> Iterator[None]:
    yield
    stand.clients(stand.count(1_000))


def _lost_with(name: str, octets: Callable[[int], bytes]) -> None:
    @load(f"a connection lost with {name}")
    def lose(stand: Stand) -> Iterator[None]:
        client, count = stand.client(), stand.count(20_000)
        send(client, octets(count), lambda: sync(client))
        yield
        client.drop()

    @load(f"a connection closed with {name}")
    def close(stand: Stand) -> Iterator[None]:
        client, count = stand.client(), stand.count(20_000)
        send(client, octets(count), lambda: sync(client))
        yield
        goodbye = commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
        client.call(goodbye, commands.Connection.CloseOk, 0)


_lost_with(
    "20,000 exclusive queues",
    lambda count: declares(count, exclusive=True) + binds(count, "amq.topic", "a"),
)
_lost_with(
    "20,000 consumers of auto-delete queues",
    lambda count: (
        declares(count, auto_delete=True)
        + numbered(commands.Basic.Consume(queue="q" + N, consumer_tag="c" + N, nowait=True), count)
    ),
)
_lost_with(
    "20,000 consumers of one queue",
    lambda count: (
        declares(1)
        + numbered(commands.Basic.Consume(queue="", consumer_tag="c" + N, nowait=True), count)
    ),
)


@load("a connection lost with 2,000 channels of 10 consumers")
def _many_channels(stand: Stand) -> Iterator[None]:
    channels = range(1, stand.count(2_000) + 1)
    client = stand.client(*channels)
    client.declare("q")
    for channel in channels:
        consume = commands.Basic.Consume(queue="q", consumer_tag="c" + N, nowait=True)
        client.send_octets(numbered(consume, 10, channel))
    sync(client, channels[-1])
    yield
    client.drop()


@load("300 connections that each declare 1,000 queues at once")
def _declares_side_by_side(stand: Stand) -> Iterator[None]:
    clients = stand.clients(stand.count(300))
    octets = [declares(1_000, 1_000 * number) for number in range(len(clients))]
    yield
    for client, each in zip(clients, octets, strict=True):
        threading.Thread(target=client.send_octets, args=(each,)).start()
    for client in clients:
        sync(client)


@load("300 connections that each send 20 messages to 200 queues at once")
def _publishes_side_by_side(stand: Stand) -> Iterator[None]:
    clients = stand.clients(stand.count(300))
    limited: common.FieldTable = {"x-max-length": 10}
    octets = declares(200, arguments=limited) + binds(200, "amq.fanout")
    send(clients[0], octets, lambda: sync(clients[0]))
    octets = publishes(clients[0], "", 20, exchange="amq.fanout")
    yield
    for client in clients:
        threading.Thread(target=client.send_octets, args=(octets,)).start()
    for client in clients:
        sync(client)


@load("a pipeline behind the commits of 300 connections", "journal")
def _backlogs(stand: Stand) -> Iterator[None]:
    clients = stand.clients(stand.count(300))
    clients[0].declare("q", durable=True)
    like = commands.Basic.Properties(delivery_mode=2)
    octets = publishes(clients[0], "q", 10, properties=like)
    octets += frame.marshal(commands.Tx.Commit(), 1)
    octets += numbered(commands.Queue.Declare(queue="t" + N, passive=False, nowait=True), 200)
    for client in clients:
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    yield
    for client in clients:
        client.send_octets(octets)
    for client in clients:
        client.expect(commands.Tx.CommitOk)
        sync(client)


# ------------------------------------------------------------------------------ topology


@load("50,000 queues declared and deleted", "journal")
def _declare_and_delete(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(50_000)
    octets = declares(count, durable=True)
    octets += numbered(commands.Queue.Delete(queue="q" + N, nowait=True), count)
    yield
    send(client, octets, lambda: sync(client))


@load("200,000 bindings made", "journal")
def _bind(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(200_000)
    client.declare("q", durable=True)
    octets = binds(count, "amq.topic", "a." + N, "q")
    yield
    send(client, octets, lambda: sync(client))


def _bound(name: str, kind: str, end: Callable[[RawClient], None], store: str) -> None:
    @load(f"{name} with 200,000 bindings ({store})", store)
    def drop(stand: Stand) -> Iterator[None]:
        client, count = stand.client(), stand.count(200_000)
        declare = commands.Exchange.Declare(exchange="e", exchange_type=kind, durable=True)
        client.call(declare, commands.Exchange.DeclareOk)
        client.declare("q", durable=True)
        key = "1" if kind == "x-consistent-hash" else "a." + N + ".*"
        send(client, binds(count, "e", key, "q"), lambda: sync(client))
        yield
        end(client)


def _delete_queue(client: RawClient) -> None:
    client.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)


def _delete_exchange(client: RawClient) -> None:
    client.call(commands.Exchange.Delete(exchange="e"), commands.Exchange.DeleteOk)


for _store in ("memory", "journal"):
    _bound("a queue deleted", "topic", _delete_queue, _store)
    _bound("an exchange deleted", "topic", _delete_exchange, _store)


@load("one of 20,000 queues of a fanout exchange after the other deleted")
def _shrink_fan_out(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(20_000)
    send(client, declares(count) + binds(count, "amq.fanout"), lambda: sync(client))
    yield
    octets = numbered(commands.Queue.Delete(queue="q" + N, nowait=True), count)
    send(client, octets, lambda: sync(client))


@load("200 queues join and leave a consistent hash of 200")
def _hash(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(200)
    declare = commands.Exchange.Declare(exchange="h", exchange_type="x-consistent-hash")
    client.call(declare, commands.Exchange.DeclareOk)
    send(client, declares(count), lambda: sync(client))
    yield
    for _ in range(2):
        octets = binds(count, "h", "1")
        unbind = commands.Queue.Unbind(queue="q" + N, exchange="h", routing_key="1")
        leave = numbered(unbind, count - 1)
        one = publishes(client, "k", 1, exchange="h")
        size = len(leave) // (count - 1)
        octets += b"".join([leave[at : at + size] + one for at in range(0, len(leave), size)])
        client.send_octets(octets)
        for _ in range(count - 1):
            client.expect(commands.Queue.UnbindOk)


# ------------------------------------------------------------------------------ consumers


@load("20,000 consumers of one queue come and go")
def _consumers(stand: Stand) -> Iterator[None]:
    client, count = fill(stand, "q", stand.count(100_000)), stand.count(20_000)
    client.call(commands.Basic.Qos(prefetch_count=1), commands.Basic.QosOk)
    consume = commands.Basic.Consume(queue="q", consumer_tag="c" + N, nowait=True)
    come = numbered(consume, count)
    go = numbered(commands.Basic.Cancel(consumer_tag="c" + N, nowait=True), count)
    yield
    send(client, come)
    client.skip_bodies(count)
    send(client, go)
    sync(client)


@load("a queue with 20,000 consumers deleted")
def _delete_consumed(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(20_000)
    client.declare("q")
    consume = commands.Basic.Consume(queue="q", consumer_tag="c" + N, nowait=True)
    send(client, numbered(consume, count), lambda: sync(client))
    other = stand.client()
    yield
    other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    client.drop()


@load("selectors: 20 consumers come and go past 300,000 messages")
def _selectors(stand: Stand) -> Iterator[None]:
    like = commands.Basic.Properties(headers={"a": N})
    client = fill(stand, "q", stand.count(300_000), None, like)
    yield
    for number in range(20):
        consume = commands.Basic.Consume(
            queue="q",
            consumer_tag="c",
            arguments={"x-filter-jms-selector": f"a LIKE '%x{number}%' OR a = 'y'"},
        )
        client.call(consume, commands.Basic.ConsumeOk)
        client.call(commands.Basic.Cancel("c"), commands.Basic.CancelOk)


@load("selectors: 200 of them on one queue, 10,000 messages")
def _many_selectors(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(200)
    client.declare("q")
    for number in range(count):
        consume = commands.Basic.Consume(
            queue="q",
            consumer_tag=f"c{number}",
            nowait=True,
            arguments={"x-filter-jms-selector": f"a LIKE '%1%2%{number}' AND b < {number}"},
        )
        client.send(consume)
    sync(client)
    like = commands.Basic.Properties(headers={"a": N, "b": 1_000})
    octets = publishes(client, "q", stand.count(10_000), properties=like)
    other = stand.client()
    yield
    send(other, octets, lambda: sync(other))


@load("message groups: 100,000 of them, whose consumer goes")
def _groups(stand: Stand) -> Iterator[None]:
    count = stand.count(100_000)
    like = commands.Basic.Properties(headers={"JMSXGroupID": N})
    arguments: common.FieldTable = {"x-message-group-key": "JMSXGroupID"}
    client = fill(stand, "q", count, arguments, like)
    taker = stand.client()
    take_all(taker, "q", count)
    other = stand.client()
    send(other, publishes(other, "q", count, properties=like), lambda: sync(other))
    yield
    taker.drop()
    while client.ready_count("q") < 2 * count:
        time.sleep(0.01)


# ------------------------------------------------------------------------------ contents, streams


@load("10 messages of 100 MiB, to 4 consumers each", "journal")
def _large(stand: Stand) -> Iterator[None]:
    size = stand.count(100 << 20)
    client = stand.client()
    takers = stand.clients(4)
    for number, taker in enumerate(takers):
        taker.declare(f"l{number}", durable=True)
        bind = commands.Queue.Bind(queue=f"l{number}", exchange="amq.fanout")
        taker.call(bind, commands.Queue.BindOk)
        taker.consume(f"l{number}")
    octets = client.publish_octets("", bytes(size), exchange="amq.fanout")
    yield
    readers = [threading.Thread(target=_read_octets, args=(taker, 10 * size)) for taker in takers]
    for reader in readers:
        reader.start()
    for _ in range(10):
        send(client, octets)
    sync(client)
    for reader in readers:
        reader.join()


def _read_octets(client: RawClient, count: int) -> None:
    while count > 0:
        count -= len(client.socket.recv(1 << 20))


@load("100,000 messages in a sorted queue, each below all others")
def _sorted(stand: Stand) -> Iterator[None]:
    client, count = stand.client(), stand.count(100_000)
    client.declare("q", arguments={"x-sort-key": "k"})
    like = commands.Basic.Properties(headers={"k": N})
    octets = client.publish_octets("q", b"x", _property_octets(like))
    parts = [octets.replace(NUMBER, b"%08d" % (count - number)) for number in range(count)]
    yield
    send(client, b"".join(parts), lambda: sync(client))
    client.consume("q")
    client.skip_bodies(count)


def _property_octets(properties: commands.Basic.Properties) -> bytes:
    return frame.marshal(header.ContentHeader(body_size=1, properties=properties), 1)[19:-1]


@load("100 readers of a stream of 300,000 messages", "journal")
def _streams(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    fill(stand, "s", count, {"x-queue-type": "stream"}, durable=True)
    takers = stand.clients(100)
    for taker in takers:
        taker.call(commands.Basic.Qos(prefetch_count=1_000), commands.Basic.QosOk)
    yield
    for number, taker in enumerate(takers):
        taker.send(
            commands.Basic.Consume(
                queue="s",
                nowait=True,
                arguments={
                    "x-stream-offset": number * count // 100,
                    "x-filter-jms-selector": f"a = '{number}'",
                },
            )
        )
    for taker in takers:
        sync(taker)


@load("300,000 messages taken and acknowledged one by one, durable", "journal")
def _acks(stand: Stand) -> Iterator[None]:
    count = stand.count(300_000)
    like = commands.Basic.Properties(delivery_mode=2)
    fill(stand, "q", count, None, like, durable=True)
    taker = stand.client()
    acks = b"".join([frame.marshal(commands.Basic.Ack(tag), 1) for tag in range(1, count + 1)])
    take_all(taker, "q", count)
    yield
    send(taker, acks, lambda: sync(taker))
