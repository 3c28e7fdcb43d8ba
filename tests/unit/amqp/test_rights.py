"""What passes messages on by itself asks for the rights that its owner would need for each of them.

tests/management/test_rights.py tries the whole table of rights; here is what topic permissions
bound: no queue, exchange or binding of one's own leads around them.
"""

from __future__ import annotations

from typing import Any

import pytest

from hareline.auth.permissions import TopicPermissions
from hareline.message import Table
from hareline.wire.methods import commands
from hareline.wire.properties import Properties

from .peer import Peer, SteppedBroker

EXCHANGE, QUEUE = commands.Exchange, commands.Queue
REFUSED = (
    403,
    "ACCESS_REFUSED - write access to all topics in exchange 'shared' in vhost '/' "
    "refused for user 'alice'",
)


@pytest.fixture
def alice(broker: SteppedBroker, peer: Peer) -> Peer:
    """A user who may do everything, but publish to "shared" with keys of its own only."""
    topics = {"shared": TopicPermissions("^mine", ".*"), "open": TopicPermissions(".*", "^x$")}
    broker.add_user("alice", "alice", topics=topics)
    for name in ("shared", "open"):
        peer.declare_exchange(name, "topic")
        peer.declare(f"of-{name}")
        peer.bind(f"of-{name}", name, "#")
    return broker.connect("alice")


@pytest.mark.parametrize(
    ("method_class", "fields"),
    [
        (QUEUE.Declare, {"queue": "q", "arguments": {"x-dead-letter-exchange": "shared"}}),
        (QUEUE.Declare, {"queue": "q", "arguments": {"alternateExchange": "shared"}}),
        (
            QUEUE.Declare,
            {"queue": "q", "arguments": {"alternateBinding": '{"destination": "shared"}'}},
        ),
        (
            EXCHANGE.Declare,
            {
                "exchange": "x",
                "exchange_type": "direct",
                "arguments": {"alternate-exchange": "shared"},
            },
        ),
        (EXCHANGE.Bind, {"source": "amq.direct", "destination": "shared", "routing_key": "mine"}),
    ],
)
def test_nothing_passes_on_to_an_exchange_of_which_only_some_keys_are_allowed(
    broker: SteppedBroker, alice: Peer, method_class: Any, fields: dict[str, Any]
) -> None:
    assert alice.refused(1, method_class, **fields) == REFUSED
    assert "q" not in broker.vhost.queues
    assert "x" not in broker.vhost.exchanges
    assert broker.vhost.bindings.to_destination("exchange", "shared") == []


@pytest.mark.parametrize(
    ("method_class", "fields"),
    [
        (QUEUE.Declare, {"queue": "q", "arguments": {"x-dead-letter-exchange": "open"}}),
        (QUEUE.Declare, {"queue": "q", "arguments": {"alternateExchange": "open"}}),
        (
            EXCHANGE.Declare,
            {
                "exchange": "x",
                "exchange_type": "direct",
                "arguments": {"alternate-exchange": "open"},
            },
        ),
        (EXCHANGE.Bind, {"source": "amq.direct", "destination": "open", "routing_key": "k"}),
        (EXCHANGE.Unbind, {"source": "amq.direct", "destination": "shared", "routing_key": "k"}),
    ],
)
def test_a_pattern_for_all_keys_bounds_nothing(
    alice: Peer, method_class: Any, fields: dict[str, Any]
) -> None:
    assert alice.call(1, method_class, **fields).name.endswith("Ok")


def test_a_dead_letter_exchange_that_is_still_to_be_made_is_bounded_too(
    broker: SteppedBroker, peer: Peer, alice: Peer
) -> None:
    peer.call(1, EXCHANGE.Delete, exchange="shared")
    arguments = {"x-dead-letter-exchange": "shared"}
    assert alice.refused(1, QUEUE.Declare, queue="q", arguments=arguments) == REFUSED


def test_a_dead_letter_routing_key_that_is_allowed_is_the_only_key_that_comes(
    peer: Peer, alice: Peer
) -> None:
    arguments = {"x-dead-letter-exchange": "shared", "x-dead-letter-routing-key": "mine.dead"}
    alice.declare("q", arguments=arguments)
    peer.declare("theirs")
    peer.bind("theirs", "shared", "their.key")
    copies = Properties(headers=Table(CC=["their.key"]))
    alice.publish(1, "q", b"1", properties=copies)
    assert alice.get("q") is not None
    alice.nack(1, requeue=False)
    assert peer.drain("of-shared") == [b"1"]
    assert peer.drain("theirs") == []
    alice.open(2)
    stolen = {**arguments, "x-dead-letter-routing-key": "their.key"}
    assert alice.refused(2, QUEUE.Declare, queue="other", arguments=stolen) == (
        403,
        "ACCESS_REFUSED - write access to topic 'their.key' in exchange 'shared' in vhost '/' "
        "refused for user 'alice'",
    )


@pytest.mark.parametrize("argument", ["alternate-exchange", "alternateExchange", "x-archive-to"])
def test_an_exchange_of_which_only_some_keys_may_be_read_gives_none_of_its_messages_away(
    broker: SteppedBroker, peer: Peer, alice: Peer, argument: str
) -> None:
    peer.call(1, EXCHANGE.Delete, exchange="open")
    peer.declare("archive", durable=True, arguments={"x-queue-type": "stream"})
    target = "archive" if argument == "x-archive-to" else "amq.fanout"
    asked = {"exchange": "open", "exchange_type": "topic", "arguments": {argument: target}}
    assert alice.refused(1, EXCHANGE.Declare, **asked) == (
        403,
        "ACCESS_REFUSED - read access to all topics in exchange 'open' in vhost '/' "
        "refused for user 'alice'",
    )
    assert "open" not in broker.vhost.exchanges
