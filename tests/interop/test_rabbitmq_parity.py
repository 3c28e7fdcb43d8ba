"""The same frames to this broker and to RabbitMQ: what comes back must be the same.

Needs Debian's rabbitmq-server (3.10), which is started here as a node of its own. Two kinds of
comparison: refusals, word by word, and random walks of two connections over two queues. A step of a
walk is one operation and then questions that are answered only when everything it set off has been
said, so nothing sleeps and nothing is compared too early.

The walks leave out what RabbitMQ does by accident of its processes: a channel either consumes, from
one queue and under one tag, or gets; gets are settled one by one, and not requeued by a commit; a
channel that fails has nothing unacked; two consumers of one queue have no prefetch; and no limit is
shared by a channel. The refusals leave out what RabbitMQ 4, which is followed here, says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from pamqp import commands, common, frame, header
from pamqp.base import Frame
from pamqp.body import ContentBody

from benchmarks.macro.brokers import RabbitMQ, find_rabbitmq
from benchmarks.macro.client import BrokerUrl
from tests.support.broker_process import BrokerUnderTest
from tests.support.raw_client import Incoming, RawClient

pytestmark = pytest.mark.timeout(120)

WALKS: Final = 300
STEPS: Final = 40

ARE_YOU_THERE: Final = commands.Channel.Flow(active=True)  # changes nothing, and is answered

Address = tuple[str, int]
Operation = Frame | bytes  # one method, or publishes


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Address]:
    """Where RabbitMQ listens."""
    program = find_rabbitmq(may_install=False)
    if program is None:
        pytest.skip("rabbitmq-server (Debian) is not installed")
    with RabbitMQ(program) as server:
        target = BrokerUrl.parse(server.url)
        yield target.host, target.port


@pytest.fixture
def addresses(broker: BrokerUnderTest, rabbitmq: Address) -> tuple[Address, Address]:
    return (broker.host, broker.port), rabbitmq


def describe(incoming: Incoming) -> str:
    """A frame with everything in it that a client can see."""
    if isinstance(incoming, Frame):
        return f"{incoming.name} {dict(incoming)}"
    if isinstance(incoming, header.ContentHeader):
        return f"header of {incoming.body_size} octets, {dict(incoming.properties)}"
    assert isinstance(incoming, ContentBody), incoming
    return f"body {incoming.value!r}"


# ----------------------------------------------------------------------------------- refusals

Methods = Callable[[str], list[Frame]]  # a name that nobody else uses -> what is sent, in order


def declare(name: str, **options: object) -> Frame:
    method = commands.Queue.Declare(queue=name, exclusive=True)
    for option, value in options.items():
        setattr(method, option, value)
    return method


def with_argument(argument: str, value: common.FieldValue) -> Methods:
    return lambda name: [declare(name, arguments={argument: value})]


def exchange(name: str, exchange_type: str = "direct", **options: object) -> Frame:
    method = commands.Exchange.Declare(exchange=name, exchange_type=exchange_type)
    method.auto_delete = True
    for option, value in options.items():
        setattr(method, option, value)
    return method


REFUSALS: Final[dict[str, Methods]] = {
    "declare: reserved name": lambda name: [declare("amq.mine")],
    "declare: durable or not": lambda name: [
        declare(name, exclusive=False, auto_delete=True),
        declare(name, exclusive=False, auto_delete=True, durable=True),
    ],
    "declare: exclusive or not, before all else": lambda name: [
        declare(name),
        declare(name, exclusive=False, durable=True, auto_delete=True),
    ],
    "declare: an argument more": lambda name: [
        declare(name),
        declare(name, arguments={"x-max-length": 5}),
    ],
    "declare: another value": lambda name: [
        declare(name, arguments={"x-max-length": 5}),
        declare(name, arguments={"x-max-length": 6}),
    ],
    "declare: a long name": lambda name: [
        commands.Queue.Declare(queue=name.ljust(255, "n"), passive=True)
    ],
    "declare: ttl below 0": with_argument("x-message-ttl", -1),
    "declare: ttl as text": with_argument("x-message-ttl", "soon"),
    "declare: expires of 0": with_argument("x-expires", 0),
    "declare: priorities above 255": with_argument("x-max-priority", 256),
    "declare: unknown overflow": with_argument("x-overflow", "spill"),
    "declare: dead letter exchange of a wrong type": with_argument("x-dead-letter-exchange", 5),
    "declare: dead letter key alone": with_argument("x-dead-letter-routing-key", "k"),
    "declare: unknown queue type": with_argument("x-queue-type", "tree"),
    "declare: single active consumer as text": with_argument("x-single-active-consumer", "yes"),
    "exchange: reserved name": lambda name: [exchange("amq.mine")],
    "exchange: the default one": lambda name: [exchange("")],
    "exchange: another type": lambda name: [exchange(name), exchange(name, "topic")],
    "exchange: alternate where there was none": lambda name: [
        exchange(name),
        exchange(name, arguments={"alternate-exchange": "amq.fanout"}),
    ],
    "exchange: alternate of a wrong type": lambda name: [
        exchange(name, arguments={"alternate-exchange": 5})
    ],
    "exchange: missing": lambda name: [commands.Exchange.Declare(exchange=name, passive=True)],
    "exchange: delete a system one": lambda name: [commands.Exchange.Delete(exchange="amq.topic")],
    "exchange: delete a system one that is not there": lambda name: [
        commands.Exchange.Delete(exchange="amq.nothing")
    ],
    "exchange: delete one in use": lambda name: [
        exchange(name),
        commands.Exchange.Bind(source=name, destination="amq.fanout"),
        commands.Exchange.Delete(exchange=name, if_unused=True),
    ],
    "bind: missing queue": lambda name: [commands.Queue.Bind(queue=name, exchange="amq.direct")],
    "bind: missing exchange": lambda name: [
        declare(name),
        commands.Queue.Bind(queue=name, exchange=name),
    ],
    "bind: default exchange": lambda name: [
        declare(name),
        commands.Queue.Bind(queue=name, exchange=""),
    ],
    "bind: bad x-match": lambda name: [
        declare(name),
        commands.Queue.Bind(queue=name, exchange="amq.match", arguments={"x-match": "most"}),
    ],
    "purge: missing": lambda name: [commands.Queue.Purge(queue=name)],
    "delete: in use": lambda name: [
        declare(name),
        commands.Basic.Consume(queue=name, consumer_tag="t"),
        commands.Queue.Delete(queue=name, if_unused=True),
    ],
    "get: missing": lambda name: [commands.Basic.Get(queue=name)],
    "get: no queue declared": lambda name: [commands.Basic.Get(queue="")],
    "consume: exclusive beside another": lambda name: [
        declare(name),
        commands.Basic.Consume(queue=name, consumer_tag="t"),
        commands.Basic.Consume(queue=name, consumer_tag="u", exclusive=True),
    ],
    "consume: tag in use": lambda name: [
        declare(name),
        commands.Basic.Consume(queue=name, consumer_tag="t"),
        commands.Basic.Consume(queue=name, consumer_tag="t"),
    ],
    "consume: priority as text": lambda name: [
        declare(name),
        commands.Basic.Consume(queue=name, consumer_tag="t", arguments={"x-priority": "high"}),
    ],
    "consume: an argument of streams": lambda name: [
        declare(name),
        commands.Basic.Consume(queue=name, consumer_tag="t", arguments={"x-stream-offset": 1}),
    ],
    "ack: unknown tag": lambda name: [commands.Basic.Ack(delivery_tag=7)],
    "nack: unknown tag, multiple": lambda name: [
        commands.Basic.Nack(delivery_tag=7, multiple=True)
    ],
    "reject: tag 0": lambda name: [commands.Basic.Reject(delivery_tag=0)],
    "recover: without requeue": lambda name: [commands.Basic.Recover(requeue=False)],
    "tx: commit outside": lambda name: [commands.Tx.Commit()],
    "tx: rollback outside": lambda name: [commands.Tx.Rollback()],
    "tx: in confirm mode": lambda name: [commands.Confirm.Select(), commands.Tx.Select()],
    "confirm: in a transaction": lambda name: [commands.Tx.Select(), commands.Confirm.Select()],
    "channel: opened twice": lambda name: [commands.Channel.Open()],
    "channel: method of a server": lambda name: [commands.Queue.DeclareOk("q", 0, 0)],
    "channel: method of the connection": lambda name: [commands.Connection.Open()],
    "reply-to: acknowledged": lambda name: [
        commands.Basic.Consume(queue="amq.rabbitmq.reply-to", consumer_tag="t")
    ],
    "reply-to: twice": lambda name: [
        commands.Basic.Consume(queue="amq.rabbitmq.reply-to", consumer_tag="t", no_ack=True),
        commands.Basic.Consume(queue="amq.rabbitmq.reply-to", consumer_tag="u", no_ack=True),
    ],
}


@pytest.mark.parametrize("story", REFUSALS)
def test_a_refusal_has_the_same_words(
    story: str, name: str, addresses: tuple[Address, Address]
) -> None:
    methods = REFUSALS[story](name)
    ours, theirs = (answers_to(methods, address) for address in addresses)
    assert ours == theirs
    assert "Close" in ours[-1]


def answers_to(methods: list[Frame], address: Address) -> list[str]:
    """What comes back, method by method; the last one is refused."""
    answers = []
    with RawClient(address) as client:
        client.open()
        for method in methods:
            client.send(method)
            _, incoming = client.read()
            answers.append(describe(incoming))
        return answers


# ----------------------------------------------------------------------------------- walks


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

    @property
    def name(self) -> str:
        return f"{'ab'[self.client]}{self.channel}"

    def reset(self) -> None:
        self.tag = ""
        self.is_transactional = False
        self.unacked.clear()
        self.undecided.clear()


class Side:
    """Two clients of one broker, channels 1 and 2 of each."""

    def __init__(self, address: Address, queues: list[str]) -> None:
        self._address = address
        self._queues = queues
        self._clients: list[RawClient] = []
        self._heard: list[tuple[int, int, Incoming]] = []
        try:
            for _ in range(2):
                self._clients.append(RawClient(address).open(channels=(1, 2)))
            for queue in queues:
                self._clients[0].declare(queue, auto_delete=False)
        except BaseException:
            self.drop()
            raise

    def perform(
        self, lane: Lane, operation: Operation, lanes: list[Lane]
    ) -> list[tuple[Lane, Incoming]]:
        """Carry it out on a channel, and return all that it led to, channel by channel."""
        self._heard.clear()
        is_open = True
        if isinstance(operation, Frame):
            is_open = self._ask(lane, operation)
        else:
            self._clients[lane.client].send_octets(operation)
        if is_open and self._ask(lane, ARE_YOU_THERE):
            for queue in self._queues:  # a queue answers after it has dealt with what came before
                self._ask(lane, commands.Queue.Declare(queue=queue, passive=True))
        else:
            is_open = False
        for other in lanes:
            if other.is_open and (is_open or other is not lane):
                self._ask(other, ARE_YOU_THERE)
        return [
            (other, incoming)
            for other in lanes
            for client, channel, incoming in self._heard
            if (client, channel) == (other.client, other.channel)
        ]

    def _ask(self, lane: Lane, method: Frame) -> bool:
        """Send it and read until its reply has come; False when the channel closes instead."""
        client = self._clients[lane.client]
        client.send(method, lane.channel)
        while method.synchronous:
            channel, incoming = client.read()
            if channel == lane.channel and isinstance(incoming, commands.Channel.FlowOk):
                return True
            self._heard.append((lane.client, channel, incoming))
            if channel != lane.channel:
                continue
            if isinstance(incoming, commands.Channel.Close):
                client.send(commands.Channel.CloseOk(), channel)
                return False
            if isinstance(incoming, Frame) and incoming.name in method.valid_responses:
                return True
        return True

    def open(self, lane: Lane) -> None:
        client = self._clients[lane.client]
        client.call(commands.Channel.Open(), commands.Channel.OpenOk, lane.channel)

    def drop(self) -> None:
        for client in self._clients:
            client.drop()

    def clean_up(self) -> None:
        """Leave nothing behind, whatever state the clients are in."""
        self.drop()
        with RawClient(self._address).open() as client:
            for queue in self._queues:
                client.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)


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
        self.story.append(
            f"{lane.name}> {describe(operation) if isinstance(operation, Frame) else 'publish'}"
        )
        ours, theirs = (side.perform(lane, operation, self._lanes) for side in self._sides)
        told = [f"    {other.name} {describe(incoming)}" for other, incoming in theirs]
        assert [f"    {other.name} {describe(incoming)}" for other, incoming in ours] == told, (
            "\n".join(self.story)
        )
        self.story += told
        for other, incoming in theirs:
            self._learn(other, incoming)

    def _learn(self, lane: Lane, incoming: Incoming) -> None:
        if isinstance(incoming, commands.Channel.Close):
            lane.is_open = False
        elif isinstance(incoming, commands.Basic.Deliver | commands.Basic.GetOk):
            lane.unacked.append(incoming.delivery_tag or 0)

    # ------------------------------------------------------------------ what to do next

    def _consuming(self, lane: Lane) -> Frame:
        choose = self._choice
        method: Frame
        if not lane.tag and choose.random() < 0.6:
            lane.tag = f"of-{lane.name}"
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


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_random_walk_gets_the_same_answers(
    seed: int, name: str, addresses: tuple[Address, Address]
) -> None:
    queues = [f"{name}-0", f"{name}-1"]
    ours = Side(addresses[0], queues)
    try:
        theirs = Side(addresses[1], queues)
        try:
            walk = Walk(seed, queues, (ours, theirs))
            for _ in range(STEPS):
                walk.step()
        finally:
            theirs.clean_up()
    finally:
        ours.clean_up()
