"""Transactions of 200,000 messages: nobody else waits, and a kill keeps all or nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import ge
from typing import Final

import pytest
from pamqp import commands, frame
from pamqp.base import Frame

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.pika_calls import publish_octets
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

COUNT: Final = 200_000
PER_SEND: Final = 10_000
#: How often another client is answered meanwhile, at least: declares, and confirms, which wait for
#: the disk. A commit takes a hundred shares or more, and took one; a rollback is soon over.
ANSWERS_MIN: Final = {commands.Tx.Commit: (5, 1), commands.Tx.Rollback: (1, 0)}
DEADLINE_S: Final = 120.0
COMMIT, COMMIT_OK = commands.Tx.Commit, commands.Tx.CommitOk
ROLLBACK, ROLLBACK_OK = commands.Tx.Rollback, commands.Tx.RollbackOk


def connect(broker: BrokerProcess) -> RawClient:
    client = RawClient((broker.host, broker.port))
    client.socket.settimeout(DEADLINE_S)
    return client.open()


def publish(client: RawClient, queue: str, count: int = COUNT) -> None:
    for _ in range(0, count, PER_SEND):
        client.send_octets(
            publish_octets("", queue, b"body", delivery_mode=2) * min(PER_SEND, count)
        )


def begin(client: RawClient) -> None:
    client.declare("big", durable=True)
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)


def be_read(client: RawClient) -> None:
    """Return when the broker has handled everything that was sent."""
    client.call(commands.Basic.Qos(prefetch_count=0), commands.Basic.QosOk)


class Watch:
    """Asks the broker again and again; ``answers`` is how often it was answered."""

    def __init__(self, broker: BrokerProcess, *, is_publishing: bool) -> None:
        self._client = connect(broker)
        self._client.declare("watched", durable=True)
        if is_publishing:
            self._client.select_confirms()
        self._is_publishing = is_publishing
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            if self._is_publishing:
                self._client.send_octets(publish_octets("", "watched", b"body", delivery_mode=2))
                self._client.read_confirms(self.answers + 1)
            else:
                self._client.ready_count("watched")
            self.answers += 1
            self._is_over.wait(0.001)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)
        self._client.drop()


@contextmanager
def others_at_work(broker: BrokerProcess, method: Frame) -> Iterator[None]:
    """Who asks for a passive declare, or the confirm of a persistent message: none of them
    waits for the method."""
    watches = [Watch(broker, is_publishing=is_publishing) for is_publishing in (False, True)]
    wait_for(lambda: all(watch.answers for watch in watches), DEADLINE_S, "first answers")
    before = [watch.answers for watch in watches]
    try:
        yield
        after = [watch.answers for watch in watches]
    finally:
        for watch in watches:
            watch.stop()
    answers = [later - earlier for earlier, later in zip(before, after, strict=True)]
    expected = ANSWERS_MIN[type(method)]
    assert all(map(ge, answers, expected)), (answers, expected)


def take_all(client: RawClient, count: int = COUNT) -> None:
    """Consume, and read past so many deliveries, which have the tags from 1 on."""
    client.consume("big", no_ack=False)
    client.skip_bodies(count)


def ack_octets(tags: range) -> bytes:
    return b"".join(frame.marshal(commands.Basic.Ack(delivery_tag=tag), 1) for tag in tags)


@pytest.mark.acceptance
def test_many_publishes_are_rolled_back_and_committed(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    with connect(daemon) as client:
        begin(client)
        for method, reply in ((ROLLBACK(), ROLLBACK_OK), (COMMIT(), COMMIT_OK)):
            publish(client, "big")
            be_read(client)
            with others_at_work(daemon, method):
                client.call(method, reply)
        assert client.ready_count("big") == COUNT
    daemon.kill()
    daemon.start()
    with connect(daemon) as client:
        assert client.ready_count("big") == COUNT


@pytest.mark.acceptance
@pytest.mark.parametrize("step", [1, -1, 2], ids=["in order", "the last first", "every other"])
def test_acknowledgements_of_many_are_rolled_back_and_committed(
    start_daemon: StartDaemon, step: int
) -> None:
    daemon = start_daemon()
    tags = range(1, COUNT + 1)[::step]
    with connect(daemon) as client:
        begin(client)
        publish(client, "big")
        client.call(COMMIT(), COMMIT_OK)
        take_all(client)
        for method, reply in ((ROLLBACK(), ROLLBACK_OK), (COMMIT(), COMMIT_OK)):
            for start in range(0, len(tags), PER_SEND):
                client.send_octets(ack_octets(tags[start : start + PER_SEND]))
            be_read(client)
            with others_at_work(daemon, method):
                client.call(method, reply)
    daemon.kill()
    daemon.start()
    with connect(daemon) as client:
        assert client.ready_count("big") == COUNT - len(tags)


@pytest.mark.acceptance
def test_a_client_that_leaves_many_publishes_behind_leaves_nothing_else(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    with connect(daemon) as client:
        begin(client)
        publish(client, "big")
        be_read(client)
        client.drop()
    with connect(daemon) as client:
        assert client.ready_count("big") == 0
        publish(client, "big", PER_SEND)
        wait_for(
            lambda: client.ready_count("big") == PER_SEND, DEADLINE_S, "what another one publishes"
        )


@pytest.mark.acceptance
@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_kill_keeps_a_commit_as_a_whole_or_nothing_of_it(
    start_daemon: StartDaemon, after: int
) -> None:
    """It acknowledges what was there and publishes as many; then the broker is killed."""
    count = COUNT // 4
    daemon = start_daemon()
    with connect(daemon) as client, connect(daemon) as other:
        begin(client)
        other.declare("new", durable=True)
        publish(client, "big", count)
        client.call(COMMIT(), COMMIT_OK)
        take_all(client, count)
        publish(client, "new", count)
        client.send_octets(ack_octets(range(1, count + 1)))
        be_read(client)
        client.send(COMMIT())
        seen = after * count // 8  # the kill comes when so much can be seen
        wait_for(lambda: other.ready_count("new") >= seen, DEADLINE_S, "a part of the commit")
        daemon.kill()
        answered = b""
        client.socket.settimeout(DEADLINE_S)
        answered = client.read_until_closed()
    daemon.start()
    with connect(daemon) as client:
        counts = client.ready_count("big"), client.ready_count("new")
    assert counts in ((count, 0), (0, count))
    if answered:
        assert isinstance(frame.unmarshal(answered)[2], Frame)
        assert counts == (0, count), "the answer had come"
