"""Selectors that cost much, and many of them: what it takes, and that nobody else waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pamqp import commands, common, frame

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.neighbour import busy_s, neighbour_of
from tests.support.pika_calls import publish_octets
from tests.support.raw_client import RawClient

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's /proc"),
]

SELECTOR: Final = "x-filter-jms-selector"
SELECTOR_CHARS: Final = 8_192
#: What nobody may have to wait for another client, of the broker's time.
LONGEST_WAIT_S: Final = 0.4


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon('[storage]\nkind = "memory"')


@pytest.fixture
def client(daemon: BrokerProcess) -> Iterator[RawClient]:
    with RawClient((daemon.host, daemon.port)) as client:
        yield client.open()


def many(test: str, *, spared: int = 0) -> str:
    """The same test again and again; as long as a selector may be but for some characters."""
    return " OR ".join([test] * ((SELECTOR_CHARS + 4 - spared) // (len(test) + 4)))


def consume_octets(
    tag: str, selector: str, *, channel: int = 1, no_ack: bool = True, offset: str = ""
) -> bytes:
    """``offset``: where a reader of a stream begins."""
    arguments: common.FieldTable = {SELECTOR: selector}
    if offset:
        arguments["x-stream-offset"] = offset
    consume = commands.Basic.Consume(
        queue="q", consumer_tag=tag, no_ack=no_ack, nowait=True, arguments=arguments
    )
    return frame.marshal(consume, channel)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "selector",
    [
        many("x LIKE '%aab%'"),
        many("x LIKE '%" + "a" * 49 + "b" + "a" * 49 + "%'"),
        many("x LIKE '%" + "a_" * 25 + "b%'"),
        "x LIKE '%" + "a_" * 4_000 + "b%'",
        "x LIKE '" + "%a" * 4_000 + "%b'",
    ],
    ids=["many", "self-similar", "any characters", "one long", "one of many parts"],
)
def test_messages_with_long_texts_cost_little_whatever_is_searched(
    daemon: BrokerProcess, client: RawClient, selector: str
) -> None:
    client.declare("q", exclusive=True)
    client.send_octets(consume_octets("searching", selector) + consume_octets("last", "y = 9"))
    client.declare("q", exclusive=True)
    before = busy_s(daemon)
    with neighbour_of(daemon) as neighbour:
        for length in (1_000, 8_192, 100_000):
            texts = [
                publish_octets("", "q", b"body", headers={"x": "a" * length, "y": number})
                for number in range(10)
            ]
            client.send_octets(b"".join(texts))
            client.read_content()
    assert client.ready_count("q") == 27
    assert neighbour.longest_wait_s < LONGEST_WAIT_S
    assert busy_s(daemon) - before < 2


@pytest.mark.acceptance
@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "stream"}], ids=["queue", "stream"])
def test_messages_with_thousands_of_headers_are_looked_at_and_nobody_else_waits(
    daemon: BrokerProcess, client: RawClient, arguments: common.FieldTable
) -> None:
    client.declare("q", durable=True, arguments=arguments)
    client.select_confirms()
    headers: common.FieldTable = {f"h{number}": number for number in range(7_000)}
    client.send_octets(
        publish_octets("", "q", b"body", headers=headers) * 200
        + publish_octets("", "q", b"body", headers={**headers, "y": 9})
    )
    client.read_confirms(201)
    with neighbour_of(daemon) as neighbour:
        offset = "first" if arguments else ""
        consume = consume_octets("c", many("y = 9"), no_ack=False, offset=offset)
        client.send_octets(frame.marshal(commands.Basic.Qos(prefetch_count=10), 1) + consume)
        client.expect(commands.Basic.QosOk)
        client.read_content()
    assert neighbour.longest_wait_s < LONGEST_WAIT_S


def taken_before_406(client: RawClient, selectors: list[str]) -> int:
    """How many consumers channel 2 may have before one is refused, which ends them all."""
    for taken, selector in enumerate(selectors):
        client.send_octets(consume_octets(f"c{taken}", selector, channel=2))
        client.send(commands.Channel.Flow(active=True), 2)
        _, answer = client.read()
        if isinstance(answer, commands.Channel.Close):
            assert answer.reply_code == 406
            return taken
        assert isinstance(answer, commands.Channel.FlowOk)
    raise AssertionError("all were taken")


@pytest.mark.acceptance
def test_a_queue_takes_no_more_costly_selectors_than_its_messages_can_bear(
    daemon: BrokerProcess, client: RawClient
) -> None:
    client.call(commands.Channel.Open(), commands.Channel.OpenOk, 2)
    client.declare("q")
    searches = many("x LIKE '%aab%'", spared=20)
    costly = [f"{searches} OR z = {number}" for number in range(20)]
    taken = taken_before_406(client, costly)
    assert taken == 15
    client.send_octets(b"".join([consume_octets(f"c{n}", costly[n]) for n in range(taken)]))
    client.declare("q")
    with neighbour_of(daemon) as neighbour:
        texts = [
            publish_octets("", "q", b"body", headers={"x": "a" * 1_700, "y": number})
            for number in range(10)
        ]
        client.send_octets(b"".join([*texts, publish_octets("", "q", b"body", headers={"z": 7})]))
        client.read_content()
    assert neighbour.longest_wait_s < LONGEST_WAIT_S
