"""Names in exchange.* and queue.*: what is stripped of them, and which are refused."""

from __future__ import annotations

import pytest

from hareline.wire.methods import Frame, commands

from ..peer import Peer, SteppedBroker

EXCHANGE, QUEUE, BASIC = commands.Exchange, commands.Queue, commands.Basic


DEFAULT_REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"


# ------------------------------------------------------------------------------ exchange.declare


def test_a_reserved_exchange_name_is_403(peer: Peer) -> None:
    assert peer.refused(1, EXCHANGE.Declare, exchange="amq.mine", exchange_type="direct") == (
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    )


@pytest.mark.parametrize("passive", [False, True])
def test_the_default_exchange_cannot_be_declared(peer: Peer, passive: bool) -> None:
    refusal = peer.refused(
        1, EXCHANGE.Declare, exchange="", exchange_type="direct", passive=passive
    )
    assert refusal == (403, DEFAULT_REFUSED)


@pytest.mark.parametrize("name", ["a\r\nb", "\nab", "ab\r"])
def test_line_ends_are_stripped_from_names(broker: SteppedBroker, peer: Peer, name: str) -> None:
    peer.declare_exchange(name)
    assert "ab" in broker.vhost.exchanges
    assert peer.declare(name) == "ab"
    peer.call(1, QUEUE.Bind, queue=name, exchange=name, routing_key="k")
    peer.publish(1, "k", b"x", exchange="ab")
    peer.call(1, QUEUE.Unbind, queue=name, exchange=name, routing_key="k")
    assert peer.call(1, QUEUE.Delete, queue=name).message_count == 1
    peer.call(1, EXCHANGE.Delete, exchange=name)
    assert "ab" not in broker.vhost.exchanges


def test_a_name_of_line_ends_alone_is_an_empty_name(peer: Peer) -> None:
    assert peer.declare("\r\n").startswith("amq.gen-")


# ------------------------------------------------------------------------------- exchange.delete


def test_the_default_exchange_cannot_be_deleted(peer: Peer) -> None:
    assert peer.refused(1, EXCHANGE.Delete, exchange="") == (403, DEFAULT_REFUSED)


# ------------------------------------------------------------------------- exchange.bind, unbind


@pytest.mark.parametrize("method_class", [EXCHANGE.Bind, EXCHANGE.Unbind])
@pytest.mark.parametrize(
    ("source", "destination"), [("", "amq.direct"), ("amq.direct", ""), ("", ""), ("", "nope")]
)
def test_the_default_exchange_cannot_be_bound_or_unbound(
    peer: Peer, method_class: type[Frame], source: str, destination: str
) -> None:
    refusal = peer.refused(1, method_class, source=source, destination=destination)
    assert refusal == (403, DEFAULT_REFUSED)


# ---------------------------------------------------------------------------------- queue.declare


def test_a_reserved_queue_name_is_403_unless_it_exists(peer: Peer) -> None:
    assert peer.refused(1, QUEUE.Declare, queue="amq.mine") == (
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    peer.open(1)
    name = peer.declare("")
    assert peer.declare(name) == name
