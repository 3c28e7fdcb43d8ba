"""Message groups as users of pika see them: who gets a group, for how long, and in what order."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pamqp import commands

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import ready_count, serve_until, worked_s
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.broker_process import BrokerUnderTest

    from .conftest import PikaConnect


STANDARD = {"x-message-group-type": "standard"}
SHARED = {"x-message-group-type": "shared"}
BOTH = pytest.mark.parametrize("arguments", [STANDARD, SHARED], ids=["standard", "shared"])

DEADLINE_S = 60.0
Declare = Callable[[dict[str, Any]], str]


@pytest.fixture(autouse=True)
def only_here(broker: BrokerUnderTest) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("arguments that RabbitMQ does not have")


@pytest.fixture
def declare(channel: BlockingChannel) -> Declare:
    """``declare(arguments)`` makes a queue, gone with its connection, for ``channel`` to use."""

    def declare_one(arguments: dict[str, Any]) -> str:
        return str(channel.queue_declare("", arguments=arguments, auto_delete=True).method.queue)

    return declare_one


def put(channel: BlockingChannel, queue: str, *names: str, **headers: Any) -> None:
    """A message for each name, of the group of its first letter; a dash is none."""
    for name in names:
        group = {} if name[0] == "-" else {"JMSXGroupID": name[0]}
        properties = pika.BasicProperties(headers={**group, **headers})
        channel.basic_publish("", queue, name.encode(), properties)


class Member:
    """One consumer on a channel of its own; ``connection`` is shared by all of a test."""

    def __init__(
        self,
        channel: BlockingChannel,
        queue: str,
        prefetch_count: int = 0,
        *,
        auto_ack: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        self.channel = channel
        self.names: list[str] = []
        self.redelivered: list[bool] = []
        self.unacked: list[int] = []
        channel.basic_qos(prefetch_count=prefetch_count)
        self.tag = channel.basic_consume(
            queue, self._on_message, auto_ack=auto_ack, arguments=arguments
        )

    def _on_message(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self.names.append(body.decode())
        self.redelivered.append(method.redelivered)
        self.unacked.append(method.delivery_tag)

    def ack(self, count: int | None = None) -> None:
        """The oldest ``count``, or all."""
        done = self.unacked[:count]
        del self.unacked[: len(done)]
        for tag in done:
            self.channel.basic_ack(tag)

    def nack(self, count: int | None = None) -> None:
        done = self.unacked[:count]
        del self.unacked[: len(done)]
        for tag in done:
            self.channel.basic_nack(tag, requeue=True)


class Crew:
    """Consumers of one queue, in the order in which they came."""

    def __init__(self, connection: pika.BlockingConnection, queue: str) -> None:
        self.connection = connection
        self.queue = queue
        self.members: list[Member] = []

    def join(self, prefetch_count: int = 0, **options: Any) -> Member:
        member = Member(self.connection.channel(), self.queue, prefetch_count, **options)
        self.members.append(member)
        return member

    def wait(self, count: int) -> None:
        """Until so many messages have been delivered to all of them, and no more are coming."""
        serve_until(self.connection, lambda: self._delivered() >= count, f"{count} deliveries")
        for member in self.members:
            if member.channel.is_open:  # its answer comes behind what is on the way
                member.channel.basic_qos(prefetch_count=0, global_qos=False)
        self.connection.process_data_events(0)
        assert self._delivered() == count

    def _delivered(self) -> int:
        return sum(len(member.names) for member in self.members)


@pytest.fixture
def crew_of(connect: PikaConnect) -> Callable[[str], Crew]:
    return lambda queue: Crew(connect(), queue)


CrewOf = Callable[[str], Crew]


# --------------------------------------------------------------------------- standard


@pytest.mark.row("A7", "A8")
def test_groups_stick_to_three_consumers(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf
) -> None:
    queue = declare(STANDARD)
    crew = crew_of(queue)
    for _ in range(3):
        crew.join()
    for number in range(10):
        put(channel, queue, *[f"{letter}{number}" for letter in "abcdefghi"])
        crew.wait(9 * (number + 1))
        for member in crew.members:
            member.ack()
    of_member = [{name[0] for name in member.names} for member in crew.members]
    assert sorted(letter for letters in of_member for letter in letters) == list("abcdefghi")
    assert [len(letters) for letters in of_member] == [3, 3, 3]
    for member in crew.members:
        for letter in {name[0] for name in member.names}:
            own = [name for name in member.names if name[0] == letter]
            assert own == [f"{letter}{number}" for number in range(10)]


@pytest.mark.row("A7")
def test_the_key_may_be_in_any_header(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf
) -> None:
    queue = declare({**STANDARD, "x-message-group-key": "cart"})
    crew = crew_of(queue)
    first, second = crew.join(), crew.join()
    for number in range(12):
        headers = {"cart": number % 2, "JMSXGroupID": str(number)}
        put(channel, queue, f"-{number}", **headers)
    crew.wait(12)
    assert {int(name[1:]) % 2 for name in first.names} == {0}
    assert {int(name[1:]) % 2 for name in second.names} == {1}


@pytest.mark.row("A10")
def test_messages_without_a_group_go_to_anybody(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf
) -> None:
    queue = declare(STANDARD)
    crew = crew_of(queue)
    first, second = crew.join(), crew.join()
    put(channel, queue, *[f"-{number}" for number in range(10)])
    crew.wait(10)
    assert (len(first.names), len(second.names)) == (5, 5)


@pytest.mark.row("A8")
def test_a_group_goes_on_elsewhere_when_its_consumer_is_cancelled(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf
) -> None:
    queue = declare(STANDARD)
    crew = crew_of(queue)
    first, second = crew.join(2), crew.join()
    put(channel, queue, "a1", "a2", "a3")
    crew.wait(2)
    first.channel.basic_cancel(first.tag)
    crew.wait(2)  # it still has two of them
    first.ack(1)
    crew.wait(2)
    first.ack(1)
    crew.wait(3)
    assert (first.names, second.names) == (["a1", "a2"], ["a3"])


# ----------------------------------------------------------------------------- shared


@pytest.mark.row("A9")
def test_shared_groups_move_when_all_is_acked(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf
) -> None:
    queue = declare(SHARED)
    crew = crew_of(queue)
    first, second = crew.join(), crew.join()
    put(channel, queue, "a1", "a2")
    crew.wait(2)
    put(channel, queue, "a3")
    crew.wait(3)
    assert (first.names, second.names) == (["a1", "a2", "a3"], [])
    first.ack()
    ready_count(first.channel, queue)  # the acks have arrived
    put(channel, queue, "a4")
    crew.wait(4)
    assert (first.names, second.names) == (["a1", "a2", "a3"], ["a4"])


@pytest.mark.row("A10")
@pytest.mark.parametrize(
    ("arguments", "default"),
    [
        (SHARED, "qpid.no-group"),
        ({**SHARED, "x-message-group-default": "mine"}, "mine"),
        (
            {
                "qpid.group_header_key": "JMSXGroupID",
                "qpid.shared_msg_group": 1,
                "qpid.default-message-group": "mine",
            },
            "mine",
        ),
    ],
    ids=["unnamed", "named", "qpid"],
)
def test_messages_without_a_group_share_the_default_one(
    channel: BlockingChannel,
    declare: Declare,
    crew_of: CrewOf,
    arguments: dict[str, Any],
    default: str,
) -> None:
    queue = declare(arguments)
    crew = crew_of(queue)
    first, second = crew.join(), crew.join()
    put(channel, queue, "-1", "-2")
    put(channel, queue, "-3", JMSXGroupID=default)
    put(channel, queue, "a1", "-4")
    crew.wait(5)
    assert (first.names, second.names) == (["-1", "-2", "-3", "-4"], ["a1"])


# ------------------------------------------------------------------------------- both


@pytest.mark.acceptance
@pytest.mark.row("A12")
@BOTH
def test_a_busy_group_of_100_000_does_not_block_another(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    declare: Declare,
    crew_of: CrewOf,
    arguments: dict[str, Any],
) -> None:
    queue = declare(arguments)
    crew = crew_of(queue)
    busy, other = crew.join(1), crew.join(1)
    put(channel, queue, "a0")
    crew.wait(1)
    put(channel, queue, *["a"] * 100_000, "b1", "b2")
    serve_until(crew.connection, lambda: other.names, "what is behind the busy group")
    assert (busy.names, other.names) == (["a0"], ["b1"])
    assert ready_count(channel, queue) == 100_001
    other.ack()
    serve_until(crew.connection, lambda: len(other.names) == 2, "the next behind it")
    assert other.names == ["b1", "b2"]
    before_s = worked_s(broker)
    for count in range(2, 52):
        busy.ack()
        crew.wait(count + 2)
    assert worked_s(broker) - before_s < 0.5  # no look at the others for each of them


@pytest.mark.row("A11")
@BOTH
def test_browsers_see_every_group(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf, arguments: dict[str, Any]
) -> None:
    queue = declare(arguments)
    crew = crew_of(queue)
    crew.join(1)
    put(channel, queue, "a1")
    crew.wait(1)
    browser = crew.join(arguments={"x-filter-no-consume": True}, auto_ack=True)
    put(channel, queue, "a2", "a3")
    crew.wait(3)
    assert browser.names == ["a2", "a3"]
    assert ready_count(channel, queue) == 2


@BOTH
def test_what_is_requeued_keeps_the_order_of_its_group(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf, arguments: dict[str, Any]
) -> None:
    queue = declare(arguments)
    crew = crew_of(queue)
    only = crew.join(3)
    put(channel, queue, *[f"a{number}" for number in range(5)])
    crew.wait(3)
    only.channel.basic_nack(only.unacked.pop(), multiple=True, requeue=True)
    only.unacked.clear()
    crew.wait(6)
    assert only.names == ["a0", "a1", "a2"] * 2
    assert only.redelivered == [False] * 3 + [True] * 3
    only.ack()
    crew.wait(8)
    assert only.names[6:] == ["a3", "a4"]


@BOTH
def test_a_lost_connection_gives_its_groups_to_the_others_in_order(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    declare: Declare,
    crew_of: CrewOf,
    arguments: dict[str, Any],
) -> None:
    queue = declare(arguments)
    with RawClient((broker.host, broker.port)) as lost:
        lost.open(broker.username, broker.password, vhost=broker.vhost)
        lost.call(commands.Basic.Qos(prefetch_count=5), commands.Basic.QosOk)
        lost.consume(queue, no_ack=False)
        put(channel, queue, *[f"{letter}{number}" for number in range(4) for letter in "ab"])
        assert lost.read_bodies(5) == [b"a0", b"b0", b"a1", b"b1", b"a2"]
        crew = crew_of(queue)
        first, second = crew.join(), crew.join()
        crew.wait(0)
        lost.drop()
        crew.wait(8)
    for letter in "ab":
        holder = first if f"{letter}0" in first.names else second
        own = [name for name in holder.names if name[0] == letter]
        assert own == [f"{letter}{number}" for number in range(4)]
    assert sum(first.redelivered + second.redelivered) == 5


@BOTH
def test_a_worker_with_much_prefetch_leaves_groups_to_the_others(
    channel: BlockingChannel, declare: Declare, crew_of: CrewOf, arguments: dict[str, Any]
) -> None:
    """Workers as Celery has them: four messages for each process, acked late."""
    queue = declare(arguments)
    crew = crew_of(queue)
    workers = [crew.join(4) for _ in range(3)]
    put(channel, queue, *["a"] * 30, *"bcdefgh")
    crew.wait(4 + 7)
    holders = [worker for worker in workers if "a" in worker.names]
    assert len(holders) == 1
    assert holders[0].names == ["a"] * 4
    assert ready_count(channel, queue) == 26
    done = 11
    while done < 37:
        for worker in workers:
            worker.ack()
        done += min(4, 37 - done)
        crew.wait(done)
        has_group = [worker for worker in workers if worker.unacked]
        assert len(has_group) == 1


def test_a_consumer_that_comes_later_gets_a_part_of_the_groups(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    crew = Crew(connection, declare({**STANDARD, "x-message-group-rebalance": "on"}))
    first = crew.join()
    put(channel, crew.queue, "a1", "b1", "c1")
    crew.wait(3)
    first.ack(2)
    connection.process_data_events(0)
    second = crew.join()
    put(channel, crew.queue, "a2", "b2", "c2")
    crew.wait(6)
    assert "c2" in first.names  # c1 is unacknowledged there
    assert sorted(first.names[3:] + second.names) == ["a2", "b2", "c2"]
    assert len(second.names) == 1


def test_the_first_message_of_a_group_for_a_consumer_has_a_header(
    channel: BlockingChannel, declare: Declare
) -> None:
    name = "JMSXGroupFirstForConsumer"
    queue = declare({**STANDARD, "x-message-group-first-key": name})
    put(channel, queue, "a1", "a2", "b1")
    deliveries = channel.consume(queue, inactivity_timeout=DEADLINE_S)
    found = [next(deliveries) for _ in range(3)]
    channel.cancel()
    assert [properties.headers.get(name) for _, properties, _ in found] == [True, None, True]


@dataclass
class Shop:
    """What the workers of a test have seen: who has a cart, and what was done with it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    holder: dict[str, str] = field(default_factory=dict)
    done: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)
    count: int = 0


class Worker(threading.Thread):
    """Takes one operation on a cart after the other, each for some time."""

    def __init__(self, connection: Any, queue: str, shop: Shop, pause_s: float) -> None:
        super().__init__(name=f"worker-{pause_s}", daemon=True)
        self.connection, self.shop, self.pause_s = connection, shop, pause_s
        self.is_stopped = False
        self.handled = 0
        self.chance = random.Random(pause_s)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume(queue, self.on_message)

    def run(self) -> None:
        while not self.is_stopped:
            self.connection.process_data_events(0.02)

    def on_message(self, channel: Any, method: Any, _: Any, body: bytes) -> None:
        cart, operation = body.decode().split()
        with self.shop.lock:
            holder = self.shop.holder.setdefault(cart, self.name)
            if holder != self.name:
                self.shop.faults.append(f"{cart} is with {holder} and {self.name}")
        self.connection.sleep(self.pause_s * self.chance.random())
        with self.shop.lock:
            self.shop.holder.pop(cart, None)
            self.shop.done[cart].append(operation)
            self.shop.count += 1
        self.handled += 1
        channel.basic_ack(method.delivery_tag)


@pytest.mark.acceptance
@pytest.mark.row("A13")
@BOTH
def test_a_cart_is_never_with_two_consumers(
    connect: PikaConnect, channel: BlockingChannel, declare: Declare, arguments: dict[str, Any]
) -> None:
    """Many carts, four workers of different speeds: add comes before remove, and never beside."""
    queue = declare({**arguments, "x-message-group-key": "cart"})
    shop = Shop()
    workers = [Worker(connect(), queue, shop, pause) for pause in (0.001, 0.003, 0.006, 0.01)]
    for worker in workers:
        worker.start()
    carts = [f"cart-{number}" for number in range(150)]
    operations = ("add", "remove", "add", "pay")
    waves = [(cart, operation) for operation in operations for cart in carts]
    for cart, operation in waves:
        properties = pika.BasicProperties(headers={"cart": cart})
        channel.basic_publish("", queue, f"{cart} {operation}".encode(), properties)
    try:
        wait_for(lambda: shop.count >= len(waves) or shop.faults, DEADLINE_S, "all operations")
    finally:
        for worker in workers:
            worker.is_stopped = True
        for worker in workers:
            worker.join(DEADLINE_S)
    assert shop.faults == []
    assert all(shop.done[cart] == list(operations) for cart in carts)
    assert all(worker.handled for worker in workers)
