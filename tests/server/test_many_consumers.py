"""Thousands of consumers of one queue: that they cost what they should, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from pamqp import commands, common, frame

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.neighbour import busy_s, neighbour_of
from tests.support.pika_calls import publish_octets
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's /proc"),
]

COUNT: Final = 10_000
SELECTOR: Final = "x-filter-jms-selector"
#: What nobody may have to wait for another client, of the broker's time: four times what is meant,
#: for slow machines; what it is to find took seconds.
LONGEST_WAIT_S: Final = 0.4
DEADLINE_S: Final = 60.0

Kind = Callable[[int], common.FieldTable]

KINDS: Final[dict[str, Kind]] = {
    "all alike": lambda number: {},
    "of many priorities": lambda number: {"x-priority": number},
    "one selector": lambda number: {SELECTOR: "a = 1"},
    "different selectors": lambda number: {SELECTOR: f"a = {number}"},
}


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon('[storage]\nkind = "memory"')


@pytest.fixture
def client(daemon: BrokerProcess) -> Iterator[RawClient]:
    with RawClient((daemon.host, daemon.port)) as client:
        yield client.open()


def consume_octets(kind: Kind, count: int) -> bytes:
    consumers = [
        commands.Basic.Consume(
            queue="q", consumer_tag=f"c{number}", nowait=True, arguments=kind(number)
        )
        for number in range(count)
    ]
    return b"".join([frame.marshal(each, 1) for each in consumers])


def consume_all(client: RawClient, kind: Kind, count: int = COUNT) -> None:
    """Send it in one breath, and return when the broker has handled it."""
    client.send_octets(consume_octets(kind, count))
    client.declare("q")


def cancel_all(client: RawClient, numbers: list[int]) -> None:
    cancels = [commands.Basic.Cancel(f"c{number}", nowait=True) for number in numbers]
    client.send_octets(b"".join([frame.marshal(each, 1) for each in cancels]))
    client.declare("q")


def consumer_count(client: RawClient) -> int:
    declare = commands.Queue.Declare(queue="q", passive=True)
    return client.call(declare, commands.Queue.DeclareOk).consumer_count or 0


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.row("E25")
def test_ten_thousand_come_and_go_and_nobody_else_waits(
    daemon: BrokerProcess, client: RawClient, kind: Kind
) -> None:
    client.declare("q")
    shuffled = list(range(COUNT))
    Random(7).shuffle(shuffled)
    with neighbour_of(daemon) as neighbour:
        for leaving in (shuffled, range(COUNT - 1, -1, -1)):
            before = busy_s(daemon)
            consume_all(client, kind)
            assert busy_s(daemon) - before < 6
            assert consumer_count(client) == COUNT
            before = busy_s(daemon)
            cancel_all(client, list(leaving))
            assert busy_s(daemon) - before < 4
            assert consumer_count(client) == 0
    assert neighbour.longest_wait_s < LONGEST_WAIT_S


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_ten_thousand_are_let_go_with_their_connection_or_queue(
    daemon: BrokerProcess, client: RawClient, kind: Kind
) -> None:
    with RawClient((daemon.host, daemon.port)) as other:
        other.open().declare("q")
        consume_all(other, kind)
        before = busy_s(daemon)
        other.drop()
        wait_for(lambda: consumer_count(client) == 0, DEADLINE_S, "the consumers to leave")
        assert busy_s(daemon) - before < 2
    consume_all(client, kind)
    with RawClient((daemon.host, daemon.port)) as other:
        other.open()
        before = busy_s(daemon)
        other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
        assert busy_s(daemon) - before < 2
    told = {client.expect(commands.Basic.Cancel).consumer_tag for _ in range(COUNT)}
    assert told == {f"c{number}" for number in range(COUNT)}


@pytest.mark.acceptance
def test_each_of_a_thousand_selectors_gets_its_message_and_nobody_else_waits(
    daemon: BrokerProcess, client: RawClient
) -> None:
    client.declare("q")
    consume_all(client, KINDS["different selectors"], 1_000)
    with neighbour_of(daemon) as neighbour:
        numbers = list(range(1_000))
        Random(7).shuffle(numbers)
        client.send_octets(
            b"".join([publish_octets("", "q", b"x", headers={"a": number}) for number in numbers])
        )
        tags = []
        for _ in numbers:
            deliver, _ = client.read_content()
            assert isinstance(deliver, commands.Basic.Deliver)
            tags.append(deliver.consumer_tag)
    assert tags == [f"c{number}" for number in numbers]
    assert neighbour.longest_wait_s < LONGEST_WAIT_S


@pytest.mark.acceptance
def test_selectors_that_are_new_to_a_queue_where_messages_wait(
    daemon: BrokerProcess, client: RawClient
) -> None:
    """All that waits is looked at again; the consumers that come together share that."""
    client.declare("q")
    client.send_octets(
        b"".join([publish_octets("", "q", b"x", headers={"b": number}) for number in range(2_500)])
    )

    def cost_s(count: int) -> float:
        """Processor time until the last of so many consumers has its message."""
        client.send_octets(publish_octets("", "q", b"x", headers={"a": count - 1}))
        assert client.ready_count("q") == 2_501
        before = busy_s(daemon)
        client.send_octets(consume_octets(KINDS["different selectors"], count))
        deliver, _ = client.read_content()
        assert isinstance(deliver, commands.Basic.Deliver)
        assert deliver.consumer_tag == f"c{count - 1}"
        return busy_s(daemon) - before

    few = cost_s(100)
    cancel_all(client, list(range(100)))
    with neighbour_of(daemon) as neighbour:
        assert cost_s(1_000) < 3 * 10 * few
    assert neighbour.longest_wait_s < LONGEST_WAIT_S
