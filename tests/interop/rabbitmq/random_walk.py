"""A random walk over two queues: two connections, one operation at a time, on two brokers at once.

``Walk`` chooses the operations and holds what one ``Side`` says against what the other says. A step
is one operation and then questions that are answered only when everything it set off has been said,
so nothing sleeps and nothing is compared too early. Used by ``test_rabbitmq_parity``.

Left out is what RabbitMQ does by accident of its processes: a channel either consumes, from one
queue and under one tag, or gets; gets are settled one by one, and not requeued by a commit; a
channel that fails has nothing unacked; two consumers of one queue have no prefetch; and no limit is
shared by a channel.

differs: process-order
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Final

from pamqp import commands, frame, header
from pamqp.base import Frame
from pamqp.body import ContentBody

from tests.support.raw_client import Incoming, RawClient

AGREE_WITHIN_S: Final = 60.0
ARE_YOU_THERE: Final = commands.Channel.Flow(active=True)  # changes nothing, and is answered

Address = tuple[str, int]
Operation = Frame | bytes  # one method, or publishes


def describe(incoming: Incoming) -> str:
    """A frame with everything in it that a client can see."""
    if isinstance(incoming, Frame):
        return f"{incoming.name} {dict(incoming)}"
    if isinstance(incoming, header.ContentHeader):
        return f"header of {incoming.body_size} octets, {dict(incoming.properties)}"
    assert isinstance(incoming, ContentBody), incoming
    return f"body {incoming.value!r}"


def lane_name(client: int, channel: int) -> str:
    return f"{'ab'[client]}{channel}"


@dataclass
class Lane:
    """One channel of one of the two clients, as a walk knows it.

    ``queue`` is what it consumes from, if it is a consuming one; ``tag`` its consumer, while there
    is one. ``undecided``: tags settled in an open transaction.
    """

    client: int
    channel: int
    queue: str = ""
    tag: str = ""
    is_open: bool = True
    is_transactional: bool = False
    unacked: list[int] = field(default_factory=list)
    undecided: list[int] = field(default_factory=list)

    def reset(self) -> None:
        self.tag = ""
        self.is_transactional = False
        self.unacked.clear()
        self.undecided.clear()


class Side:
    """Two clients of one broker, channels 1 and 2 of each, and one that looks on."""

    def __init__(self, address: Address, queues: list[str]) -> None:
        self._queues = queues
        self._observer = RawClient(address).open()
        self._clients: list[RawClient] = []
        self._open = {(client, channel) for client in (0, 1) for channel in (1, 2)}
        self._heard: list[tuple[int, int, Incoming]] = []
        try:
            for queue in queues:
                self._observer.declare(queue, auto_delete=False)
            for _ in range(2):
                self._clients.append(RawClient(address).open(channels=(1, 2)))
        except BaseException:
            self.clean_up()
            raise

    def perform(self, lane: Lane, operation: Operation) -> None:
        """Carry it out on a channel; what that leads to is for ``told``."""
        self._heard.clear()
        if isinstance(operation, bytes):
            self._clients[lane.client].send_octets(operation)
        else:
            self._ask(lane.client, lane.channel, operation)

    def told(self) -> list[str]:
        """All that came of it so far, channel by channel, and how the queues are."""
        for client, channel in sorted(self._open):
            if (client, channel) in self._open:
                self._ask(client, channel, ARE_YOU_THERE)
        frames = [
            f"{lane_name(client, channel)} {describe(incoming)}"
            for client, channel, incoming in sorted(self._heard, key=lambda heard: heard[:2])
            if not isinstance(incoming, commands.Channel.FlowOk)
        ]
        return frames + [
            describe(
                self._observer.call(
                    commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk
                )
            )
            for queue in self._queues
        ]

    def heard(self) -> list[tuple[int, int, Incoming]]:
        return self._heard

    def _ask(self, client: int, channel: int, method: Frame) -> None:
        """Send it and read until its reply has come, or the channel was closed instead."""
        self._clients[client].send(method, channel)
        while method.synchronous:
            origin, incoming = self._clients[client].read()
            self._heard.append((client, origin, incoming))
            if isinstance(incoming, commands.Channel.Close):
                # Any channel may be told of its end while another one is asked something.
                self._open.discard((client, origin))
                self._clients[client].send(commands.Channel.CloseOk(), origin)
            if (client, channel) not in self._open:
                return
            if (
                origin == channel
                and isinstance(incoming, Frame)
                and incoming.name in method.valid_responses
            ):
                return

    def open(self, lane: Lane) -> None:
        client = self._clients[lane.client]
        client.call(commands.Channel.Open(), commands.Channel.OpenOk, lane.channel)
        self._open.add((lane.client, lane.channel))

    def clean_up(self) -> None:
        """Leave nothing behind, whatever state the clients are in."""
        for client in self._clients:
            client.drop()
        for queue in self._queues:
            self._observer.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
        self._observer.drop()


class Walk:
    """Chooses operations; what it knows of the brokers is what both have said alike."""

    def __init__(self, seed: int, queues: list[str], sides: tuple[Side, Side]) -> None:
        self._choice = random.Random(seed)
        self._queues = queues
        self._sides = sides
        self._bodies = 0
        other = self._choice.choice(queues)
        self._limits = [0] if other == queues[0] else [0, 1, 2, 4]
        self._lanes = [
            Lane(0, 1, queue=queues[0]),
            Lane(1, 1, queue=other),
            Lane(0, 2),
            Lane(1, 2),
        ]
        self.story: list[str] = []

    def step(self) -> None:
        lane = self._choice.choice(self._lanes)
        if not lane.is_open:
            for side in self._sides:
                side.open(lane)
            lane.is_open = True
            lane.reset()
            return
        operation = self._consuming(lane) if lane.queue else self._getting(lane)
        what = repr(operation) if isinstance(operation, bytes) else describe(operation)
        self.story.append(f"{lane_name(lane.client, lane.channel)}> {what}")
        for side in self._sides:
            side.perform(lane, operation)
        self.story += self._agreed()
        for client, channel, incoming in self._sides[0].heard():
            self._learn(client, channel, incoming)

    def _agreed(self) -> list[str]:
        """What both sides say; AssertionError with the story if they do not come to say the same.

        RabbitMQ's queues and channels are processes, and how a queue is may be told before all
        that it does is done; so it gets the time to finish.
        """
        end = time.monotonic() + AGREE_WITHIN_S
        while True:
            is_late = time.monotonic() >= end
            ours, theirs = (side.told() for side in self._sides)
            if ours == theirs:
                return ours
            assert not is_late, "\n".join([*self.story, "ours:", *ours, "theirs:", *theirs])

    def _learn(self, client: int, channel: int, incoming: Incoming) -> None:
        lane = next(one for one in self._lanes if (one.client, one.channel) == (client, channel))
        if isinstance(incoming, commands.Channel.Close):
            lane.is_open = False
        elif isinstance(incoming, commands.Basic.Deliver | commands.Basic.GetOk):
            lane.unacked.append(incoming.delivery_tag or 0)

    # ------------------------------------------------------------------ what to do next

    def _consuming(self, lane: Lane) -> Frame:
        choose = self._choice
        method: Frame
        if not lane.tag and not lane.unacked:
            lane.tag = f"of-{lane_name(lane.client, lane.channel)}"
            method = commands.Basic.Consume(queue=lane.queue, consumer_tag=lane.tag)
        elif lane.unacked and choose.random() < 0.75:
            tag = choose.choice([*lane.unacked, 0]) if choose.random() < 0.4 else -1
            if tag >= 0:
                gone = [one for one in lane.unacked if tag in (0, one) or one < tag]
            else:
                tag = choose.choice(lane.unacked)
                gone = [tag]
            is_multiple = len(gone) > 1 or tag == 0
            method = choose.choice(
                [
                    commands.Basic.Ack(delivery_tag=tag, multiple=is_multiple),
                    commands.Basic.Ack(delivery_tag=tag, multiple=is_multiple),
                    commands.Basic.Nack(delivery_tag=tag, multiple=is_multiple, requeue=True),
                    commands.Basic.Nack(delivery_tag=tag, multiple=is_multiple, requeue=False),
                ]
            )
            lane.unacked = [one for one in lane.unacked if one not in gone]
        else:
            method = choose.choice(
                [
                    commands.Basic.Qos(prefetch_count=choose.choice(self._limits)),
                    commands.Basic.Cancel(consumer_tag=lane.tag or "nobody"),
                    commands.Basic.Recover(requeue=True),
                    commands.Basic.Nack(delivery_tag=0, multiple=True, requeue=True),
                ]
            )
            if isinstance(method, commands.Basic.Cancel):
                lane.tag = ""
            elif isinstance(method, commands.Basic.Recover | commands.Basic.Nack):
                lane.unacked.clear()
        return method

    def _getting(self, lane: Lane) -> Operation:
        choose = self._choice
        what = choose.choices(
            ["publish", "get", "settle", "lose", "transaction", "purge", "bad tag"],
            [8, 5, 6, 1, 3, 0.5, 0.5],
        )[0]
        if what == "settle" and lane.unacked:
            tag = lane.unacked.pop(choose.randrange(len(lane.unacked)))
            if lane.is_transactional:
                lane.undecided.append(tag)
            return choose.choice(
                [
                    commands.Basic.Ack(delivery_tag=tag),
                    commands.Basic.Reject(delivery_tag=tag, requeue=not lane.is_transactional),
                    commands.Basic.Nack(delivery_tag=tag, requeue=False),
                ]
            )
        if what == "get":
            return commands.Basic.Get(queue=choose.choice(self._queues))
        if what == "transaction":
            return self._transaction(lane)
        if what == "purge":
            return commands.Queue.Purge(queue=choose.choice(self._queues))
        if what == "bad tag" and not (lane.unacked or lane.undecided):
            return commands.Basic.Nack(delivery_tag=999, requeue=True)
        routing_key = "nowhere" if what == "lose" else choose.choice(self._queues)
        return self._publish(lane, routing_key, choose.choice([1, 1, 1, 3, 6]))

    def _transaction(self, lane: Lane) -> Frame:
        if not lane.is_transactional:
            lane.is_transactional = True
            return commands.Tx.Select()
        if self._choice.random() < 0.6:
            lane.undecided.clear()
            return commands.Tx.Commit()
        lane.unacked = sorted([*lane.unacked, *lane.undecided])
        lane.undecided.clear()
        return commands.Tx.Rollback()

    def _publish(self, lane: Lane, routing_key: str, count: int) -> bytes:
        bodies = [b"m%d" % number for number in range(self._bodies, self._bodies + count)]
        self._bodies += count
        return b"".join([publish_octets(lane.channel, routing_key, body) for body in bodies])


def publish_octets(channel: int, routing_key: str, body: bytes) -> bytes:
    return b"".join(
        (
            frame.marshal(commands.Basic.Publish(routing_key=routing_key, mandatory=True), channel),
            frame.marshal(header.ContentHeader(body_size=len(body)), channel),
            frame.marshal(ContentBody(body), channel),
        )
    )
