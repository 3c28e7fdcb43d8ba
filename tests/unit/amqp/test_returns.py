"""What goes back to its publisher, and when nothing does."""

from __future__ import annotations

from hareline.amqp.returns import not_kept_text, return_message, return_refused
from hareline.wire.methods import commands
from tests.support.messages import make_message

from .peer import Peer, SteppedBroker

FULL = {"x-max-length": 0, "x-overflow": "reject-publish"}


def test_a_message_is_returned_with_its_address_and_content(peer: Peer) -> None:
    port = peer.connection.channels.by_number[1].port
    return_message(port, make_message(b"body", exchange="x", routing_key="k"), 312, "NO_ROUTE")
    (returned,) = peer.receive()
    method = returned.method
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, returned.body) == ("x", "k", b"body")


def test_a_closing_channel_returns_nothing(peer: Peer) -> None:
    port = peer.connection.channels.by_number[1].port
    port.is_closing = True
    return_message(port, make_message(b"body"), 312, "NO_ROUTE")
    return_refused(port, make_message(b"body"), None, "no room")
    assert peer.transport.written == b""


def test_a_refused_message_says_who_refused_it(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("full", arguments=FULL)
    overflow = broker.queue("full").overflow
    port = peer.connection.channels.by_number[1].port
    message = make_message(b"body", exchange="", routing_key="full")
    return_refused(port, message, overflow, "")
    return_refused(port, message, overflow, "no room")
    by_queue, by_store = peer.receive()
    assert by_queue.method.reply_text.startswith("No route for message with exchange ''")
    assert by_store.method.reply_text == not_kept_text("no room")
    assert by_queue.method.reply_code == by_store.method.reply_code


def test_a_long_reason_is_cut_to_a_short_string() -> None:
    assert len(not_kept_text("x" * 300).encode()) <= 255
