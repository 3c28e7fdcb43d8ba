"""x-local-random as a client sees it: one classic queue for each message, and no other bindings."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.wire.methods import Frame, commands
from tests.unit.amqp.peer import Peer, SteppedBroker


@pytest.fixture
def peer() -> Peer:
    peer = SteppedBroker().connect()
    peer.declare_exchange("dice", "x-local-random")
    return peer


def test_each_message_goes_to_one_of_the_queues(peer: Peer) -> None:
    for name in "abc":
        peer.declare(name, exclusive=True)
        peer.bind(name, "dice")
    for number in range(60):
        peer.publish(1, "any", b"%d" % number, exchange="dice")
    shares = [peer.drain(name) for name in "abc"]
    assert sorted(int(body) for share in shares for body in share) == list(range(60))
    assert all(shares)  # one of them empty: once in 10**10 runs


@pytest.mark.parametrize(
    ("method_class", "fields", "text"),
    [
        (commands.Queue.Bind, {"queue": "c"}, "Non empty binding 'k' key not permitted"),
        (
            commands.Queue.Bind,
            {"queue": "q", "routing_key": ""},
            "Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
        (
            commands.Queue.Bind,
            {"queue": "s", "routing_key": "", "arguments": {"x-filter-jms-selector": "a = 1"}},
            "Queue type rabbit_stream_queue not valid for this exchange type",
        ),
        (
            commands.Exchange.Bind,
            {"destination": "amq.direct", "routing_key": ""},
            "Destination not found",
        ),
    ],
)
def test_it_binds_classic_queues_without_a_key_only(
    peer: Peer, method_class: type[Frame], fields: dict[str, Any], text: str
) -> None:
    peer.declare("c")
    for name, queue_type in (("q", "quorum"), ("s", "stream")):
        peer.declare(name, durable=True, arguments={"x-queue-type": queue_type})
    end = "exchange" if method_class is commands.Queue.Bind else "source"
    refusal = peer.refused(1, method_class, **{"routing_key": "k", end: "dice", **fields})
    assert refusal == (406, f"PRECONDITION_FAILED - {text}")
