"""Several faults at once, in an order that a seed chooses: what was confirmed is kept in order.

A publisher that numbers its messages and waits for confirms reaches the broker through a network
that goes silent or resets; a consumer acknowledges some; meanwhile syncs hang, the wall clock is
set, and the memory alarm comes and goes. At the end all is healed, the broker is stopped and
started, and its queue is held against what the clients know.
"""

from __future__ import annotations

import os
import threading
from random import Random

import pytest
from pamqp import commands
from pamqp.base import Frame

from hareline.settings import Settings
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.raw_client import RawClient

from .conftest import ShiftedTime

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "6"))
STEPS = 40
QUEUE = "q"
PERSISTENT = b"\x10\x00\x02"
DAY_S = 86_400


class Round:
    """``sent``: how many numbers went out; ``confirmed``, ``acknowledged``: those of them."""

    def __init__(
        self, seed: int, broker: BrokerThread, proxy: FaultyProxy, disk: threading.Event
    ) -> None:
        self._random = Random(seed)
        self._broker = broker
        self._proxy = proxy
        self._disk = disk
        self._has_stalled = self._is_alarmed = False
        self._consumer = broker.client().open()
        self._consumer.declare(QUEUE, durable=True)
        self._publisher = self._connect()
        self.sent = 0
        self.confirmed: set[int] = set()
        self.acknowledged: set[int] = set()
        self._awaited: dict[int, int] = {}  # by delivery tag
        self._tag = 0

    def run(self, wall: ShiftedTime) -> None:
        random = self._random
        for _ in range(STEPS):
            step = random.choice(
                (self._publish, self._publish, self._take, self._disk_hangs, self._network, None)
            )
            if step is not None:
                step()
            elif random.random() < 0.5:
                wall.shift_s += random.choice((-DAY_S, DAY_S, -3, 3))
            else:
                self._alarm(is_on=not self._is_alarmed)
        self._await_confirms()

    def drop(self) -> None:
        """Leave the broker without a word, and let the disk go on."""
        self._disk.set()
        self._publisher.drop()

    def _connect(self) -> RawClient:
        client = RawClient(self._proxy.address).open()
        client.select_confirms()
        return client

    def _publish(self) -> None:
        for _ in range(self._random.randint(1, 20)):
            body = b"%d" % self.sent
            self._publisher.send_octets(self._publisher.publish_octets(QUEUE, body, PERSISTENT))
            self._tag += 1
            self._awaited[self._tag] = self.sent
            self.sent += 1
        if self._random.random() < 0.5:
            self._await_confirms()

    def _await_confirms(self) -> None:
        """Those of all that was published; everything has to work for that."""
        self._disk.set()
        self._proxy.go_on()
        self._alarm(is_on=False)
        while self._awaited:
            method = self._publisher.expect(Frame)
            if isinstance(method, commands.Basic.Ack):
                assert method.delivery_tag is not None
                first = method.delivery_tag if not method.multiple else min(self._awaited)
                for tag in range(first, method.delivery_tag + 1):
                    number = self._awaited.pop(tag, None)
                    if number is not None:
                        self.confirmed.add(number)
            else:
                assert isinstance(
                    method, commands.Connection.Blocked | commands.Connection.Unblocked
                ), method

    def _take(self) -> None:
        """Acknowledge some; that has reached the broker when this returns.

        What is delivered of a durable queue may have to wait for the disk.
        """
        self._disk.set()
        for _ in range(self._random.randint(1, 10)):
            self._consumer.send(commands.Basic.Get(queue=QUEUE))
            _, method = self._consumer.read()
            if isinstance(method, commands.Basic.GetEmpty):
                break
            assert isinstance(method, commands.Basic.GetOk), method
            self._consumer.read()
            _, body = self._consumer.read()
            self._consumer.send(commands.Basic.Ack(delivery_tag=method.delivery_tag or 0))
            self.acknowledged.add(int(getattr(body, "value", b"")))
        self._consumer.ready_count(QUEUE)

    def _disk_hangs(self) -> None:
        if self._disk.is_set():
            self._disk.clear()
        else:
            self._disk.set()

    def _network(self) -> None:
        """It is silent, comes back, or ends the connection; then nobody knows what arrived."""
        if not self._has_stalled and self._random.random() < 0.5:
            self._proxy.stall()
            self._has_stalled = True
            return
        self._proxy.go_on()
        self._has_stalled = False
        if self._random.random() < 0.5:
            self._proxy.reset()
            self._publisher.drop()
            self._awaited.clear()
            self._tag = 0
            self._publisher = self._connect()

    def _alarm(self, *, is_on: bool) -> None:
        self._is_alarmed = is_on
        if is_on:
            self._broker.ask(lambda inside: inside.context.alarms.set("memory"))
        else:
            self._broker.ask(lambda inside: inside.context.alarms.clear("memory"))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_was_confirmed_is_kept_and_what_was_acknowledged_is_gone(
    durable: Settings, disk_answers: threading.Event, wall: ShiftedTime, seed: int
) -> None:
    with broker_in_thread(durable) as broker, faulty_proxy(broker.address) as proxy:
        played = Round(seed, broker, proxy, disk_answers)
        try:
            played.run(wall)
        finally:
            played.drop()
    with broker_in_thread(durable) as broker:
        client = broker.client().open()
        count = client.ready_count(QUEUE)
        client.consume(QUEUE)
        found = [int(body) for body in client.read_bodies(count)]
    assert found == sorted(set(found)), "twice, or in another order"
    assert played.confirmed - played.acknowledged <= set(found), "confirmed, and lost"
    assert not played.acknowledged & set(found), "acknowledged, and back"
