"""Every reason not to read a connection, and the shares of a turn that each one has.

What one client's publishes cost is shared out over turns, so that the others have theirs: a read is
bounded by the entries that it adds to queues, since one of a few octets may go to hundreds. Of the
reasons OUTPUT is tested in ``test_holding``, BACKLOG in ``test_backlog``, QUEUE in
``test_flow_control`` and ALARM in ``test_alarms``.
"""

from __future__ import annotations

import pytest

from hareline import events
from hareline.amqp.input_gate import ALARM, BACKLOG, OUTPUT, SHARE
from hareline.amqp.input_gate import QUEUE as QUEUE_FULL
from hareline.message import Message
from hareline.queues.queue import Queue
from hareline.turn import WORK_PER_ROUND, WORK_PER_S, WORK_PER_SHARE, WORK_PER_TURN
from hareline.wire.methods import commands, encode_method

from .peer import Peer, SteppedBroker, publish_octets, split_frames

EXCHANGE, QUEUE = commands.Exchange, commands.Queue
WIDTH = 64
PUBLISHES = 1000


def fan_out(peer: Peer, width: int = WIDTH) -> list[str]:
    """A fanout exchange "f" with so many queues."""
    peer.call(1, EXCHANGE.Declare, exchange="f", exchange_type="fanout")
    names = [f"q{number}" for number in range(width)]
    for name in names:
        peer.declare(name)
        peer.call(1, QUEUE.Bind, queue=name, exchange="f")
    return names


def flood(count: int, first: int = 0) -> bytes:
    return b"".join(
        publish_octets(1, "k", b"%04d" % number, exchange="f")
        for number in range(first, first + count)
    )


def one_turn(broker: SteppedBroker) -> None:
    broker.scheduled.pop(0)()


def depth(broker: SteppedBroker, name: str = "q0") -> int:
    return broker.queue(name).ready_count


@pytest.mark.parametrize("body_size", [0, 10])
def test_a_read_adds_no_more_than_its_share_of_entries(
    broker: SteppedBroker, peer: Peer, body_size: int
) -> None:
    names = fan_out(peer)
    peer.send_octets(publish_octets(1, "k", b"x" * body_size, exchange="f") * PUBLISHES)
    at_once = depth(broker)
    assert 0 < at_once * WIDTH <= WORK_PER_SHARE + 2 * WIDTH
    assert not peer.is_read_from()
    before = at_once
    while broker.scheduled:
        one_turn(broker)
        assert (depth(broker) - before) * WIDTH <= WORK_PER_SHARE + 2 * WIDTH
        before = depth(broker)
    assert {depth(broker, name) for name in names} == {PUBLISHES}
    assert peer.is_read_from()


def test_messages_that_came_in_one_read_keep_their_order(broker: SteppedBroker, peer: Peer) -> None:
    fan_out(peer)
    peer.send_octets(flood(PUBLISHES))
    peer.send_octets(flood(PUBLISHES, PUBLISHES))  # came before reading was paused
    broker.run_turns()
    assert peer.drain("q0") == [b"%04d" % number for number in range(2 * PUBLISHES)]


def test_publishers_have_their_shares_in_turn_and_others_are_not_kept_waiting(
    broker: SteppedBroker, peer: Peer
) -> None:
    fan_out(peer)
    publishers = [broker.connect() for _ in range(WORK_PER_TURN // WORK_PER_SHARE * 3)]
    bystander = broker.connect()
    for publisher in publishers:
        publisher.send_octets(flood(1))  # from now on it is one that publishes
    broker.run_turns()
    for publisher in publishers:
        publisher.send_octets(flood(PUBLISHES))
    before = depth(broker)
    assert before * WIDTH <= 2 * WORK_PER_TURN
    bystander.send(1, QUEUE.Declare, queue="q0", passive=True)
    one_turn(broker)
    assert b"q0" in bystander.transport.written, "answered in this very turn"
    while depth(broker) < len(publishers) * PUBLISHES:
        one_turn(broker)
        assert (depth(broker) - before) * WIDTH <= WORK_PER_TURN + 2 * WORK_PER_SHARE
        before = depth(broker)
    waiting = [publisher for publisher in publishers if not publisher.is_read_from()]
    broker.run_turns()
    assert len(waiting) <= 1, "all of them have come to their ends together"


def test_confirms_follow_what_was_routed(broker: SteppedBroker, peer: Peer) -> None:
    fan_out(peer)
    peer.call(1, commands.Confirm.Select)
    peer.send_octets(flood(PUBLISHES))
    confirmed = 0
    while broker.scheduled:
        one_turn(broker)
        octets, peer.transport.written = peer.transport.written, b""
        for tag in acked_tags(octets):
            confirmed = max(confirmed, tag)
        assert confirmed <= depth(broker)
    assert confirmed == PUBLISHES


def acked_tags(octets: bytes) -> list[int]:
    return [
        int.from_bytes(one.payload[4:12], "big")
        for one in split_frames(octets)
        if one.payload[:4] == commands.Basic.Ack.index.to_bytes(4, "big")
    ]


def test_what_waits_ends_with_its_connection(broker: SteppedBroker, peer: Peer) -> None:
    fan_out(peer)
    publisher = broker.connect()
    publisher.send_octets(flood(PUBLISHES))
    before = depth(broker)
    publisher.lose()
    broker.run_turns()
    assert depth(broker) == before < PUBLISHES


def test_a_close_behind_a_flood_comes_after_it(broker: SteppedBroker, peer: Peer) -> None:
    fan_out(peer)
    publisher = broker.connect()
    publisher.send_octets(flood(PUBLISHES))
    publisher.send(0, commands.Connection.Close, reply_code=200, reply_text="")
    assert [one.name for one in publisher.receive()] == ["connection.close-ok"]
    assert depth(broker) == PUBLISHES


def test_a_connection_that_is_closed_meanwhile_reads_close_ok(
    broker: SteppedBroker, peer: Peer
) -> None:
    fan_out(peer)
    publisher = broker.connect()
    publisher.send_octets(flood(PUBLISHES))
    before = depth(broker)
    publisher.connection.force_close("shutdown")
    assert [one.name for one in publisher.receive()] == ["connection.close"]
    publisher.send(0, commands.Connection.CloseOk)
    assert publisher.transport.state == "closed"
    assert depth(broker) == before


def test_an_error_behind_a_flood_is_the_channels(broker: SteppedBroker, peer: Peer) -> None:
    fan_out(peer)
    publisher = broker.connect()
    publisher.send_octets(flood(PUBLISHES) + publish_octets(1, "k", b"", exchange="nowhere"))
    publisher.send_octets(flood(1))
    assert [one.name for one in publisher.receive()] == ["channel.close"]
    assert depth(broker) == PUBLISHES


@pytest.mark.pure("replaces a method, which compiled code calls directly")
def test_a_bug_that_a_later_share_comes_to_closes_that_connection_alone(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fan_out(peer)
    publisher = broker.connect()
    publisher.send_octets(flood(PUBLISHES))

    def broken(queue: Queue, message: Message) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "enqueue", broken)
        (closed,) = publisher.receive()
    assert closed.method.reply_code == 541
    assert [fields["where"] for fields in broker.reported(events.BROKER_FAILED)] == [
        publisher.transport.peer
    ]
    assert peer.call(1, QUEUE.Declare, queue="q0", passive=True).queue == "q0"


def test_time_counts_as_work_where_entries_are_few(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matching thousands of bindings, a purge, a reject of many."""
    now = [0.0]
    broker.turn.now = lambda: now[0]
    peer.declare("q")
    broker.run_turns()
    purge = Queue.purge

    def slow_purge(queue: Queue) -> int:
        now[0] += 0.01
        return purge(queue)

    monkeypatch.setattr(Queue, "purge", slow_purge)
    peer.send_octets(encode_method(1, QUEUE.Purge, queue="q") * 10)
    turns = 0
    while broker.scheduled:
        one_turn(broker)
        turns += 1
    assert turns >= 9, "each took more than a share"
    assert [one.name for one in peer.receive()] == ["queue.purge-ok"] * 10


ASKING_S = 0.0001  # what a question takes in the tests below
ASKING_WORK = int(ASKING_S * WORK_PER_S)


@pytest.fixture
def asked_s(broker: SteppedBroker, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The turn's clock, which goes on with each passive declare alone."""
    now = [0.0]
    broker.turn.now = lambda: now[0]
    deliver_due = Queue.deliver_due

    def slowly(queue: Queue) -> None:
        now[0] += ASKING_S
        deliver_due(queue)

    monkeypatch.setattr(Queue, "deliver_due", slowly)
    return now


def asking(broker: SteppedBroker, clients: int, questions: int) -> list[Peer]:
    """So many clients that all ask this at once, for which each needs more than a share."""
    broker.connect().declare("q")
    broker.run_turns()
    peers = [broker.connect() for _ in range(clients)]
    assert questions * ASKING_WORK > WORK_PER_SHARE
    for peer in peers:
        peer.send_octets(encode_method(1, QUEUE.Declare, queue="q", passive=True) * questions)
    return peers


def test_hundreds_that_ask_much_at_once_do_not_make_a_turn_long(
    broker: SteppedBroker, asked_s: list[float]
) -> None:
    asked_s[0] = 0.0
    peers = asking(broker, clients=400, questions=30)
    one_each = len(peers) * 2 * ASKING_WORK
    assert asked_s[0] * WORK_PER_S <= WORK_PER_TURN + WORK_PER_SHARE + one_each
    bystander = broker.connect()
    bystander.send(1, QUEUE.Declare, queue="q", passive=True)
    one_turn(broker)
    assert b"q" in bystander.transport.written, "answered in this very turn"
    while broker.scheduled:
        before_s = asked_s[0]
        one_turn(broker)
        assert (asked_s[0] - before_s) * WORK_PER_S <= WORK_PER_TURN + WORK_PER_SHARE
    assert {len(peer.receive()) for peer in peers} == {30}


def test_a_round_of_hundreds_in_line_is_short(broker: SteppedBroker, asked_s: list[float]) -> None:
    peers = asking(broker, clients=400, questions=30)
    one_turn(broker)
    last = peers[-1]
    last.transport.written = b""
    before_s = asked_s[0]
    while not last.transport.written:
        one_turn(broker)
    round_work = (asked_s[0] - before_s) * WORK_PER_S
    assert round_work <= WORK_PER_ROUND + len(peers) * 2 * ASKING_WORK
    broker.run_turns()


# ------------------------------------------------------------------------------------- reasons


class Gate:
    """A gate whose decoder, socket and turn can be looked at."""

    def __init__(self) -> None:
        self.broker = SteppedBroker()
        self.peer = self.broker.connect()
        self.connection = self.peer.connection
        self.gate = self.connection.channels.by_number[1].parts.gate

    def handles(self) -> bool:
        """Whether a heartbeat that is wrong, which closes the connection, is handled now."""
        self.peer.send_octets(b"\x08\x00\x01\x00\x00\x00\x00\xce")
        return self.connection.state == "closing"


REASONS = [OUTPUT, SHARE, ALARM, BACKLOG]


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_stops_the_socket_and_the_decoder(reason: int) -> None:
    one = Gate()
    one.gate.hold(reason)
    assert not one.peer.is_read_from()
    assert not one.handles()


def test_a_full_queue_stops_the_socket_alone() -> None:
    one = Gate()
    one.gate.hold(QUEUE_FULL)
    assert not one.peer.is_read_from()
    assert one.handles()


@pytest.mark.parametrize("last", [*REASONS, QUEUE_FULL])
def test_the_socket_is_read_again_when_the_last_reason_has_ended(last: int) -> None:
    gate = Gate()
    for reason in (*REASONS, QUEUE_FULL):
        gate.gate.hold(reason)
    for reason in {*REASONS, QUEUE_FULL} - {last}:
        gate.gate.end(reason)
        assert not gate.peer.is_read_from()
    gate.gate.end(last)
    assert gate.peer.is_read_from()


def test_a_full_queue_does_not_keep_back_what_was_read() -> None:
    gate = Gate().gate
    gate.hold(QUEUE_FULL)
    gate.hold(OUTPUT)
    assert gate.end(OUTPUT)
    gate.hold(OUTPUT)
    gate.hold(SHARE)
    assert not gate.end(OUTPUT)


def test_only_the_share_is_left_when_close_ok_is_waited_for() -> None:
    gate = Gate().gate
    gate.wait_for_close_ok()
    assert gate.reasons == 0
    gate.hold(OUTPUT)
    gate.hold(ALARM)
    gate.wait_for_close_ok()
    assert gate.reasons == SHARE


def test_nothing_waits_in_line_when_the_socket_is_gone() -> None:
    one = Gate()
    one.peer.lose()
    one.gate.wait_for_turn()
    assert one.gate.reasons == 0
    assert not one.broker.scheduled
