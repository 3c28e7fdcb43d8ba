"""A whole broker whose disk begins to fail while clients are at work."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import ClassVar

import pytest
from pamqp import commands, frame, header
from pamqp.body import ContentBody

from hareline.settings import Settings
from hareline.storage.disk import opening
from hareline.storage.journal.files import Files
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.raw_client import RawClient

BODIES = [b"first", b"second", b"third"]
PERSISTENT = commands.Basic.Properties(delivery_mode=2)


class FailingFiles(Files):
    """``failing``: names of the methods that raise EIO, shared by all instances."""

    __slots__ = ()
    failing: ClassVar[set[str]] = set()

    def sync(self, fd: int) -> None:
        self._check("sync")
        super().sync(fd)

    def write(self, fd: int, parts: list[bytes], offset: int) -> None:  # type: ignore[override]
        self._check("write")
        super().write(fd, parts, offset)

    def _check(self, name: str) -> None:
        if name in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    monkeypatch.setattr(opening, "Files", FailingFiles)
    yield FailingFiles.failing
    FailingFiles.failing.clear()


def opened(broker: BrokerThread) -> RawClient:
    return broker.client().open()


def publish(client: RawClient, *bodies: bytes) -> None:
    """Persistent messages."""
    for body in bodies:
        client.send(commands.Basic.Publish(routing_key="line"))
        head = header.ContentHeader(body_size=len(body), properties=PERSISTENT)
        client.send_octets(frame.marshal(head, 1) + frame.marshal(ContentBody(body), 1))


@pytest.mark.row("D8")
@pytest.mark.parametrize("name", ["sync", "write"])
def test_publishes_are_nacked_and_all_else_goes_on(
    failing: set[str], durable: Settings, name: str
) -> None:
    with broker_in_thread(durable) as broker:
        client = opened(broker)
        client.declare("line", durable=True)
        client.select_confirms()
        publish(client, *BODIES)
        client.read_confirms(len(BODIES))
        failing.add(name)
        publish(client, b"never safe")
        nack = client.expect(commands.Basic.Nack)
        assert nack.delivery_tag == len(BODIES) + 1
        publish(client, b"refused at once")
        assert client.expect(commands.Basic.Nack).delivery_tag == len(BODIES) + 2

        consumer = opened(broker)
        consumer.consume("line", no_ack=False)
        assert consumer.read_bodies(len(BODIES)) == BODIES
        consumer.send(commands.Basic.Ack(delivery_tag=len(BODIES), multiple=True))
        publish(client, b"refused still")
        client.expect(commands.Basic.Nack)
        broker.wait_until(
            lambda it: it.context.vhosts["/"].queues["line"].unacked_count <= 1, "the acks"
        )
    failing.clear()
    with broker_in_thread(durable) as broker:  # what was acknowledged last may come again
        client = opened(broker)
        count = client.ready_count("line")
        client.consume("line")
        bodies = client.read_bodies(count)
        assert [body for body in bodies if body in BODIES] == BODIES


@pytest.mark.row("D8")
def test_a_publisher_without_confirms_is_told_why(failing: set[str], durable: Settings) -> None:
    with broker_in_thread(durable) as broker:
        client = opened(broker)
        client.declare("line", durable=True)
        failing.add("sync")
        publish(client, b"the one that finds out")
        broker.wait_until(lambda it: bool(it.context.vhosts["/"].environment.store.failure), "it")
        publish(client, b"refused")
        close = client.expect(commands.Channel.Close)
        assert close.reply_code == 506  # resource error
        assert "Input/output error" in close.reply_text
        fine = opened(broker)
        fine.send_octets(fine.publish_octets("line", b"not to be kept"))
        fine.consume("line")
        assert b"not to be kept" in fine.read_bodies(2)


@pytest.mark.row("D6")
def test_a_commit_that_cannot_be_kept_is_refused(failing: set[str], durable: Settings) -> None:
    with broker_in_thread(durable) as broker:
        client = opened(broker)
        client.declare("line", durable=True)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        publish(client, b"kept")
        client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
        failing.add("write")
        publish(client, b"lost")
        client.send(commands.Tx.Commit())
        close = client.expect(commands.Channel.Close)
        assert "Input/output error" in close.reply_text
    failing.clear()
    with broker_in_thread(durable) as broker:
        client = opened(broker)
        assert client.ready_count("line") == 1
        client.consume("line")
        assert client.read_bodies(1) == [b"kept"]
