"""The same frames to this broker and to RabbitMQ: what comes back must be the same.

Needs Debian's rabbitmq-server (3.10), which is started here as a node of its own. Two kinds of
comparison: refusals, word by word, and random walks (``random_walk`` says what is left out of them
and why). The refusals leave out what RabbitMQ 4, which is followed here, says otherwise;
docs/decisions/0007-differences-from-rabbitmq.md lists all differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from pamqp import commands, common
from pamqp.base import Frame

from benchmarks.macro.brokers import RabbitMQ
from benchmarks.macro.client import BrokerUrl
from tests.support.broker_process import BrokerUnderTest
from tests.support.rabbitmq_management import installed_rabbitmq
from tests.support.raw_client import RawClient

from .random_walk import Address, Side, Walk, describe

WALKS: Final = 60
STEPS: Final = 40


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Address]:
    """Where RabbitMQ listens."""
    with RabbitMQ(installed_rabbitmq()) as server:
        target = BrokerUrl.parse(server.url)
        yield target.host, target.port


@pytest.fixture
def addresses(broker: BrokerUnderTest, rabbitmq: Address) -> tuple[Address, Address]:
    return (broker.host, broker.port), rabbitmq


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


@pytest.mark.acceptance
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
