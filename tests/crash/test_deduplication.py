"""kill -9 between publish and confirm, and everything is sent again: each message is there once.

The publisher does not wait for confirms, so a kill hits it with hundreds of publishes on their way,
in any state. After each kill it begins again from a number that was confirmed, or from 0, and in
the end numbers are counted: all there, none twice, in order.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from functools import partial
from typing import Final

import pytest
from pamqp import body, commands, frame, header
from pamqp.common import FieldTable

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

QUEUE: Final = "orders"
#: Of one broker; `make crash` asks for more.
KILLS: Final = max(3, int(os.environ.get("CRASH_ROUNDS", "8")) // 20)
DEADLINE_S: Final = 60.0
#: Small ones, so that numbers must survive the segments in which they were written.
CONFIG: Final = '[journal]\nsegment_bytes = "1MiB"\n'
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().getrandbits(32)

pytestmark = [pytest.mark.acceptance, pytest.mark.crash]


@pytest.fixture
def broker(start_daemon: StartDaemon) -> BrokerProcess:
    """A daemon with the queue."""
    broker = start_daemon(CONFIG)
    with RawClient((broker.host, broker.port)).open() as client:
        client.declare(QUEUE, durable=True)
        client.close()
    return broker


def octets_of(number: int, size: int) -> bytes:
    headers: FieldTable = {"x-producer-id": "importer", "x-producer-seq": number}
    content = b"%d" % number + bytes(size)
    properties = commands.Basic.Properties(delivery_mode=2, headers=headers)
    return b"".join(
        (
            frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1),
            frame.marshal(header.ContentHeader(0, len(content), properties), 1),
            frame.marshal(body.ContentBody(content), 1),
        )
    )


class Publisher(threading.Thread):
    """Sends numbers from ``first`` on until the broker is gone; ``confirmed``: all below it are.

    ``commit_every``: 0 for confirms, or how many publishes a transaction has.
    """

    def __init__(
        self, broker: BrokerProcess, first: int, rng: random.Random, commit_every: int
    ) -> None:
        super().__init__()
        self.client = RawClient((broker.host, broker.port)).open()
        self.first = first
        self.confirmed = first
        self.size = rng.choice((0, 200, 5000))
        self.commit_every = commit_every

    def run(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self.commit_every:
                self._commit()
            else:
                self._confirm()
        self.client.socket.close()

    def has_confirmed(self, goal: int) -> bool:
        return self.confirmed >= goal

    def _confirm(self) -> None:
        self.client.select_confirms()
        number = self.first
        while True:
            share = b"".join([octets_of(number + index, self.size) for index in range(100)])
            self.client.send_octets(share)
            number += 100
            if number - self.confirmed > 500:
                ack = self.client.expect(commands.Basic.Ack)
                self.confirmed = self.first + (ack.delivery_tag or 0)

    def _commit(self) -> None:
        self.client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        while True:
            numbers = range(self.confirmed, self.confirmed + self.commit_every)
            self.client.send_octets(b"".join([octets_of(number, self.size) for number in numbers]))
            self.client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
            self.confirmed = numbers.stop


def take_all(broker: BrokerProcess) -> list[int]:
    with RawClient((broker.host, broker.port)).open() as client:
        count = client.ready_count(QUEUE)
        client.consume(QUEUE)
        numbers = [int(content.rstrip(b"\0")) for content in client.read_bodies(count)]
        client.close()
    return numbers


@pytest.mark.parametrize("commit_every", [0, 1500])
def test_each_message_is_there_once_after_kills_and_publishes_sent_again(
    broker: BrokerProcess, commit_every: int
) -> None:
    rng = random.Random(SEED)
    print(f"seed {SEED}, again with CRASH_SEED={SEED}; in {broker.data_dir}")
    confirmed = 0
    taken: list[int] = []
    for life in range(KILLS):
        first = rng.choice((0, confirmed, max(0, confirmed - rng.randrange(1000))))
        publisher = Publisher(broker, first, rng, commit_every)
        publisher.start()
        goal = confirmed + rng.randrange(1, 3000)
        wait_for(partial(publisher.has_confirmed, goal), DEADLINE_S, "some confirms")
        broker.kill()
        publisher.join()
        confirmed = max(confirmed, publisher.confirmed)
        broker.start()
        if life == 1:  # so that segments are freed; what is taken was settled before the next kill
            taken += take_all(broker)
            broker.stop()
            broker.start()
    taken += take_all(broker)
    assert len(taken) >= confirmed
    assert taken == list(range(len(taken)))
