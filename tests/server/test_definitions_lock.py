"""Another process that locks the definitions holds whoever changes them, and nobody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager

import pytest
from pamqp import commands

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.raw_client import RawClient

Queue = commands.Queue


def connect(broker: BrokerProcess) -> RawClient:
    client = RawClient((broker.host, broker.port))
    client.open()
    client.select_confirms()
    return client


@contextmanager
def outside(broker: BrokerProcess, *statements: str) -> Iterator[None]:
    """These are executed by another process's connection: the first before, the second after."""
    path = broker.data_dir / "definitions.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statements[0])
        yield
        connection.execute(statements[1])


def persistent(client: RawClient, queue: str, body: bytes) -> None:
    client.send_octets(client.publish_octets(queue, body, b"\x10\x00\x02"))


@pytest.mark.acceptance("SQLite gives up a lock after 5 s")
def test_a_lock_holds_who_changes_definitions_and_nobody_else(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    with connect(broker) as declarer, connect(broker) as other, ThreadPoolExecutor(3) as pool:
        other.declare("there", durable=True)
        with outside(broker, "BEGIN IMMEDIATE", "ROLLBACK"):
            declarer.send(Queue.Declare(queue="new", durable=True))
            persistent(declarer, "new", b"behind the declare")
            puts = [
                pool.submit(api.call, "PUT", path, body)
                for path, body in (
                    ("/api/queues/%2F/by-http", {"durable": True}),
                    ("/api/users/ann", {"password": "p", "tags": ""}),
                    ("/api/vhosts/shop", {}),
                )
            ]
            persistent(other, "there", b"meanwhile")
            other.read_confirms(1)
            other.consume("there")
            assert other.read_bodies(1) == [b"meanwhile"]
            assert api.get("/api/overview")["object_totals"]["queues"] >= 1
            assert not any(put.done() for put in puts)
        declarer.expect(Queue.DeclareOk)
        declarer.read_confirms(1)
        assert [put.result()[0] for put in puts] == [201, 201, 201]
    broker.restart_by_kill()
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    assert api.get("/api/permissions/shop/guest")["configure"] == ".*"
    assert api.get("/api/users/ann")["tags"] == []
    with connect(broker) as client:
        assert client.ready_count("new") == 1
        assert client.ready_count("by-http") == 0


def test_a_kill_meanwhile_leaves_nothing_of_what_nobody_was_promised(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon()
    with connect(broker) as declarer, connect(broker) as other:
        other.declare("there", durable=True)
        with outside(broker, "BEGIN IMMEDIATE", "ROLLBACK"):
            declarer.send(Queue.Declare(queue="new", durable=True))
            persistent(declarer, "new", b"behind the declare")
            persistent(other, "there", b"confirmed")
            other.read_confirms(1)
            broker.kill()
    broker.start()
    with connect(broker) as client:
        assert client.ready_count("there") == 1
        client.send(Queue.Declare(queue="new", passive=True))
        assert client.expect(commands.Channel.Close).reply_code == 404


def refusing(broker: BrokerProcess, table: str) -> AbstractContextManager[None]:
    body = "BEGIN SELECT RAISE(ABORT, 'no room'); END"
    create = f"CREATE TRIGGER refuse BEFORE INSERT ON {table} {body}"
    return outside(broker, create, "DROP TRIGGER refuse")


def test_who_declared_what_cannot_be_stored_is_told_and_the_others_go_on(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon()
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    with connect(broker) as declarer, connect(broker) as other, refusing(broker, "queues"):
        declarer.send(Queue.Declare(queue="new", durable=True))
        closed = declarer.expect(commands.Connection.Close)
        assert (closed.reply_code, "no room" in closed.reply_text) == (506, True)
        status, answer = api.call("PUT", "/api/queues/%2F/by-http", {"durable": True})
        assert (status, "no room" in answer["reason"]) == (503, True)
        assert api.get("/api/queues") == []
        other.declare("transient")
        other.publish("transient", b"x")
        other.read_confirms(1)


def test_an_administrative_act_that_cannot_be_stored_is_not_done(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    ann = {"password": "p", "tags": "", "name": "ann"}
    with refusing(broker, "users"):
        for method, path, body in (
            ("PUT", "/api/users/ann", ann),
            ("POST", "/api/definitions", {"users": [ann]}),
        ):
            status, answer = api.call(method, path, body)
            assert (status, "no room" in answer["reason"]) == (503, True)
        broker.kill()
    broker.start()
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    assert [each["name"] for each in api.get("/api/users")] == ["guest"]
    assert api.call("PUT", "/api/users/ann", ann)[0] == 201
