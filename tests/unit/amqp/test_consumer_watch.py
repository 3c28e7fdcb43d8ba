"""Consumers that hold what they got for too long, or are slow, and what becomes of them."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.amqp.consumer_watch import TagMarks
from hareline.amqp.context import Limits
from hareline.amqp.unacked_watch import UnackedWatch
from hareline.server.vhost_factory import set_up
from hareline.settings.vhosts import VirtualHost
from hareline.wire.methods import commands

from .peer import Peer, SteppedBroker

BASIC, CHANNEL, CONNECTION = commands.Basic, commands.Channel, commands.Connection
CANCELS: dict[str, object] = {"consumer_cancel_notify": True}
TIMEOUT = "x-consumer-timeout"


@pytest.fixture
def broker() -> SteppedBroker:
    broker = SteppedBroker(Limits())
    UnackedWatch(broker.context, broker).start()
    return broker


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect()


@pytest.fixture
def worker(broker: SteppedBroker) -> Peer:
    return broker.connect(capabilities=CANCELS, channels=[1, 2])


def names(peer: Peer) -> list[str]:
    return [each.name for each in peer.receive()]


def counted(broker: SteppedBroker) -> dict[tuple[str, str], int]:
    return broker.context.counts.slow_consumers


# --------------------------------------------------------------------------- consumer timeout


@pytest.mark.row("B11")
def test_only_what_is_held_too_long_goes_to_another_consumer(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q", arguments={TIMEOUT: 10_000})
    worker.subscribe("q", "holder")
    worker.call(2, BASIC.Qos, prefetch_count=1)
    worker.subscribe("q", "keeper", number=2, arguments={TIMEOUT: 0})
    peer.fill("q", b"1", b"2")
    assert len(worker.receive()) == 2
    broker.advance(8)
    peer.fill("q", b"3")
    assert len(worker.receive()) == 1
    broker.advance(2.5)
    worker.expect_nothing()
    other = broker.connect()
    other.subscribe("q", "other")
    broker.advance(1)
    [cancel] = worker.receive()
    assert (cancel.name, cancel.channel) == ("basic.cancel", 1)
    assert cancel.method.consumer_tag == "holder"
    [again] = other.receive()
    assert (again.body, again.method.redelivered) == (b"1", True)
    assert broker.queue("q").unacked_count == 3
    assert counted(broker) == {("timeout", "cancel"): 1}
    assert [each["tag"] for each in broker.reported(events.CONSUMER_SLOW)] == ["holder"]
    broker.advance(9)  # what the cancelled consumer got later is held too long as well
    assert [each.body for each in other.receive() if each.body] == [b"3"]
    assert counted(broker) == {("timeout", "cancel"): 1}


@pytest.mark.row("B11")
def test_late_acks_of_what_was_taken_back_are_no_error(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q", arguments={TIMEOUT: 10_000})
    peer.declare("r")
    worker.subscribe("q", "holder")
    worker.subscribe("r", "other")
    peer.fill("q", b"1", b"2", b"3")
    peer.fill("r", b"4", b"5")
    assert len(worker.bodies()) == 5
    broker.advance(12)
    assert names(worker) == ["basic.cancel"]
    assert broker.queue("q").ready_count == 3
    worker.ack(1)
    worker.nack(2)
    worker.send(1, BASIC.Reject, delivery_tag=3, requeue=False)
    worker.ack(4, multiple=True)
    worker.expect_nothing()
    assert broker.queue("q").ready_count == 3  # a late reject concerns no message
    assert broker.queue("r").unacked_count == 1
    worker.ack(5)
    assert worker.refused(1, BASIC.Ack, delivery_tag=6) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 6",
    )


def test_a_client_without_cancel_has_the_channel_closed(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    plain = broker.connect(capabilities={}, channels=[1, 2])
    plain.subscribe("q", "t", arguments={TIMEOUT: 5_000})
    peer.fill("q", b"1")
    assert plain.bodies() == [b"1"]
    broker.advance(7)
    close = plain.expect(CHANNEL.Close)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
        "Timeout value used: 5000 ms",
    )
    assert broker.queue("q").ready_count == 1
    assert counted(broker) == {("timeout", "close-channel"): 1}
    plain.call(2, BASIC.Qos, prefetch_count=1)


# differs: consumer-timeout
@pytest.mark.row("B11")
def test_a_consumer_cancelled_by_its_client_hoards_nothing(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    broker.vhost.consumer_timeout_ms = 10_000
    peer.declare("q")
    worker.subscribe("q", "t")
    peer.fill("q", b"1")
    worker.bodies()
    worker.call(1, BASIC.Cancel, consumer_tag="t")
    broker.advance(12)
    worker.expect_nothing()
    assert peer.drain("q") == [b"1"]
    worker.ack(1)
    worker.expect_nothing()


def test_what_times_out_counts_for_the_delivery_limit(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("dead")
    dead_to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer.declare("q", arguments={TIMEOUT: 5_000, "x-delivery-limit": 1, **dead_to})
    peer.fill("q", b"1")
    for tag in ("a", "b"):
        worker.consume("q", tag)
        assert worker.receive()[-1].body == b"1"
        broker.advance(7)
        assert names(worker) == ["basic.cancel"]
    assert peer.drain("dead") == [b"1"]


def test_a_timeout_changes_while_the_queue_works(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q")
    worker.subscribe("q", "t")
    peer.fill("q", b"1")
    worker.bodies()
    broker.advance(60)
    worker.expect_nothing()
    queue, live = broker.queue("q"), broker.vhost.live_arguments
    live.change(queue, {TIMEOUT: 10_000})
    broker.advance(9)
    live.change(queue, {TIMEOUT: None})
    broker.advance(60)
    worker.expect_nothing()
    live.change(queue, {TIMEOUT: 10_000})
    broker.advance(12)
    assert names(worker) == ["basic.cancel"]
    assert queue.ready_count == 1


def test_the_setting_of_a_virtual_host_reaches_consumers_that_are_there(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q")
    peer.declare("free", arguments={TIMEOUT: 0})
    worker.subscribe("q", "t")
    worker.subscribe("free", "f")
    peer.fill("q", b"1")
    peer.fill("free", b"2")
    assert len(worker.bodies()) == 2
    broker.advance(60)
    worker.expect_nothing()
    set_up(broker.vhost, VirtualHost(name="/", consumer_timeout_s=5))
    broker.advance(7)
    [cancel] = worker.receive()
    assert cancel.method.consumer_tag == "t"


def test_many_deliveries_are_taken_back(broker: SteppedBroker, peer: Peer, worker: Peer) -> None:
    peer.declare("q", arguments={TIMEOUT: 5_000})
    worker.subscribe("q", "t")
    bodies = [b"%d" % number for number in range(1_500)]
    peer.fill("q", *bodies)
    assert worker.bodies() == bodies
    broker.advance(7)
    assert names(worker) == ["basic.cancel"]
    assert peer.drain("q") == bodies


def test_marks_never_make_a_delivery_older_than_it_is() -> None:
    marks = TagMarks(100)
    for second in range(1_000):
        marks.note(second, second + 1)  # the delivery with tag n was seen in second n
        assert marks.tag <= max(0, second - 100 + 1)
        assert marks.tag >= second - 100 - 5
    assert len(marks._marks) <= 21


# ----------------------------------------------------------------------------- slow consumers


def slow(rule: str, action: str = "cancel", **more: object) -> dict[str, object]:
    return {
        "x-slow-consumer-rule": rule,
        "x-slow-consumer-action": action,
        "x-slow-consumer-duration": 10_000,
        **more,
    }


@pytest.mark.row("B8")
def test_a_consumer_is_slow_whose_prefetch_stays_used_up(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q", arguments=slow("full"))
    worker.call(1, BASIC.Qos, prefetch_count=2)
    worker.subscribe("q", "t")
    peer.fill("q", b"1", b"2")
    assert len(worker.bodies()) == 2
    broker.advance(30)  # full, but nothing waits
    peer.fill("q", *[b"x"] * 40)
    for tag in range(1, 16):  # full at each look, but it works
        broker.advance(5)
        worker.ack(tag)
        assert worker.bodies() == [b"x"]
    broker.advance(10)
    worker.expect_nothing()
    broker.advance(2)
    assert names(worker) == ["basic.cancel"]
    assert broker.queue("q").unacked_count == 2  # it may still be acknowledged
    worker.ack(17, multiple=True)
    assert broker.queue("q").unacked_count == 0
    assert counted(broker) == {("full", "cancel"): 1}


@pytest.mark.row("B8")
def test_a_consumer_is_slow_that_acknowledges_too_few_a_second(
    broker: SteppedBroker, peer: Peer, worker: Peer
) -> None:
    peer.declare("q", arguments=slow("rate", "notify", **{"x-slow-consumer-threshold": 2}))
    worker.subscribe("q", "t")
    tag = 0
    for per_second, backlog, found in [(3, 0, 0), (1, 0, 0), (1, 100, 1), (1, 0, 1), (3, 0, 1)]:
        peer.fill("q", *[b"x"] * backlog)
        for _ in range(11):
            peer.fill("q", *[b"x"] * per_second)
            broker.run_turns()
            for _ in range(per_second):
                tag += 1
                worker.ack(tag)
            broker.advance(1)
        assert len(broker.reported(events.CONSUMER_SLOW)) == found
    assert {each.name for each in worker.receive()} == {"basic.deliver"}


@pytest.mark.row("B8")
@pytest.mark.parametrize("action", ["close-channel", "close-connection"])
def test_a_consumer_is_slow_with_an_old_delivery(
    broker: SteppedBroker, peer: Peer, worker: Peer, action: str
) -> None:
    peer.declare("q", arguments=slow("ack-age", action))
    worker.subscribe("q", "t")
    worker.subscribe("q", "u", number=2)
    for number in range(1, 11):
        peer.fill("q", b"x", b"y")
        broker.run_turns()
        worker.ack(number, number=1)
        if number > 1:
            worker.ack(number, number=2)  # not its first one
        broker.advance(1)
    worker.receive()
    broker.advance(1)
    if action == "close-channel":
        [close] = [each for each in worker.receive() if each.name != "basic.deliver"]
        assert (close.name, close.channel) == ("channel.close", 2)
        assert close.method.reply_code == 406
    else:
        assert worker.expect(CONNECTION.Close).reply_code == 320
    assert counted(broker) == {("ack-age", action): 1}
    [told] = broker.reported(events.CONSUMER_SLOW)
    assert (told["tag"], told["queue"], told["rule"]) == ("u", "q", "ack-age")


@pytest.mark.row("B8")
def test_a_rate_needs_a_threshold_and_the_rest_a_rule(peer: Peer) -> None:
    for arguments, term in [
        ({"x-slow-consumer-rule": "rate"}, "rate_but_no_slow_consumer_threshold_defined"),
        ({"x-slow-consumer-action": "cancel"}, "slow_consumer_action_but_no_rule_defined"),
        ({"x-slow-consumer-rule": "lazy"}, "invalid_slow_consumer_rule"),
    ]:
        code, text = peer.refused(1, commands.Queue.Declare, queue="q", arguments=arguments)
        assert code == 406
        assert term in text
        peer.open(1)
