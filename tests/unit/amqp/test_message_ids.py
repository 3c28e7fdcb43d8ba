"""Duplicates by message id over the protocol: answers, transactions, dead letters, archives."""

from __future__ import annotations

import pytest

from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker
from .test_deduplication import answers

CONFIRM, TX, BASIC = commands.Confirm, commands.Tx, commands.Basic
HEADER = "x-deduplication-header"


def publish(peer: Peer, *ids: str, key: str = "q", exchange: str = "", **more: bool) -> None:
    """One message for each, whose body is its id."""
    for each in ids:
        properties = Properties(delivery_mode=2, headers=Table({HEADER: each}))
        peer.publish(1, key, each.encode(), exchange=exchange, properties=properties, **more)


def bodies(peer: Peer, queue: str = "q") -> list[str]:
    found = []
    while (received := peer.get(queue, no_ack=True)) is not None:
        found.append(received.body.decode())
    return found


def declare(peer: Peer, name: str = "q", **arguments: object) -> None:
    given = {"x-message-deduplication": True, **arguments}
    table = Table({key.replace("_", "-"): value for key, value in given.items()})
    peer.declare(name, arguments=table)


@pytest.mark.row("S13")
def test_a_duplicate_is_confirmed_and_neither_enqueued_nor_returned(peer: Peer) -> None:
    declare(peer)
    peer.call(1, CONFIRM.Select)
    publish(peer, "a", "b", "a", mandatory=True)
    assert answers(peer.receive()) == ["ack 3*"]
    assert bodies(peer) == ["a", "b"]


def test_other_queues_of_the_message_get_it(peer: Peer) -> None:
    declare(peer)
    peer.declare("plain")
    for queue in ("q", "plain"):
        peer.bind(queue, "amq.fanout")
    publish(peer, "a", "a", exchange="amq.fanout")
    assert (bodies(peer), bodies(peer, "plain")) == (["a"], ["a", "a"])


@pytest.mark.row("S13")
def test_the_first_of_a_transaction_counts_and_a_rollback_leaves_no_id(peer: Peer) -> None:
    declare(peer, x_cache_size=10)
    peer.call(1, TX.Select)
    publish(peer, "a", "b", "a")
    peer.call(1, TX.Rollback)
    publish(peer, "b", "a", "b")
    peer.call(1, TX.Commit)
    publish(peer, "a")
    peer.call(1, TX.Commit)
    assert bodies(peer) == ["b", "a"]


def test_a_dead_letter_comes_back_to_a_queue_of_ids_and_not_to_one_with_a_cache(
    peer: Peer,
) -> None:
    letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "back"}
    peer.declare("back")
    for name, arguments, expected in (("q", {}, ["a"]), ("c", {"x_cache_size": 10}, [])):
        declare(peer, name, **letters, **arguments)
        publish(peer, "a", key=name)
        received = peer.get(name)
        assert received is not None
        peer.send(1, BASIC.Reject, delivery_tag=received.method.delivery_tag, requeue=False)
        (letter,) = bodies(peer, "back")
        publish(peer, letter, key=name)
        assert bodies(peer, name) == expected


def test_an_archive_has_what_the_queue_took(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("history", durable=True, arguments=Table({"x-queue-type": "stream"}))
    declare(peer, x_archive_to="history")
    publish(peer, "a", "a", "b")
    stream = broker.context.vhosts["/"].queues["history"]
    assert [entry.message.body for entry in stream.order] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-cache-size": 5}, "cache_size_but_no_message_deduplication_defined"),
        ({"x-message-deduplication": True, "x-cache-size": 0}, "'x-cache-size' for queue 'q'"),
        ({"x-message-deduplication": "yes"}, "'x-message-deduplication' for queue 'q'"),
        (
            {"x-message-deduplication": True, "x-queue-type": "stream"},
            "invalid arg 'x-message-deduplication' for queue 'q' in vhost '/' of queue type "
            "rabbit_stream_queue",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else "+".join(value),
)
def test_arguments_that_cannot_be(peer: Peer, arguments: dict[str, object], text: str) -> None:
    code, said = peer.refused(
        1, commands.Queue.Declare, queue="q", durable=True, arguments=Table(arguments)
    )
    assert code == 406
    assert text in said
