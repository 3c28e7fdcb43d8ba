"""Dead letters go one after the other, so many at a time, and never out of one another."""

from __future__ import annotations

import sys

import pytest

from hareline.message import Message
from hareline.queues.core import dead_letter_scheduler as scheduler
from hareline.queues.core.dead_letter_scheduler import SHARE_S, SHARES_MAX
from hareline.queues.core.kinds import DeathReason
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dead_letters.history import DEATHS_MAX
from hareline.queues.queue import Queue
from hareline.turn import WORK_PER_S
from tests.support.dead_letters import SmallBroker, drop, publish, reject, summary, take

SHARE = 10


@pytest.fixture
def broker() -> SmallBroker:
    return SmallBroker()


@pytest.fixture
def slow_broker(broker: SmallBroker) -> SmallBroker:
    """A share of its time is enough for ``SHARE`` dead letters."""
    broker.timers.clock.work_s = SHARE_S / (SHARE - 0.5)
    return broker


def chain(broker: SmallBroker, length: int) -> Queue:
    """The end of a chain of queues, each of which drops at once what it gets; "q0" is the first."""
    for number in range(length):
        broker.queue(f"q{number}", max_length=0, exchange="", routing_key=f"q{number + 1}")
    return broker.queue(f"q{length}")


def test_a_chain_of_full_queues_is_no_recursion(broker: SmallBroker) -> None:
    """One publish goes through all of them, and its history becomes long."""
    length = sys.getrecursionlimit() // 4
    last = chain(broker, length)
    publish(broker.queues["q0"])
    history = summary(take(last))
    assert len(history) == length
    assert history[-1] == ("q0", "maxlen", 1)


def test_a_chain_of_full_queues_lets_others_go_on(slow_broker: SmallBroker) -> None:
    last = chain(slow_broker, 2 * SHARE)
    publish(slow_broker.queues["q0"])
    assert (last.ready_count, len(slow_broker.routed)) == (0, SHARE)
    slow_broker.advance(0)
    assert len(summary(take(last))) == 2 * SHARE


def test_a_message_goes_through_more_queues_than_its_history_has(broker: SmallBroker) -> None:
    last = chain(broker, DEATHS_MAX + 20)
    publish(broker.queues["q0"])
    headers = take(last).headers
    assert headers["x-first-death-queue"] == "q0"
    assert headers["x-last-death-queue"] == f"q{DEATHS_MAX + 19}"


def test_a_circle_of_more_queues_than_a_history_has_ends(broker: SmallBroker) -> None:
    length = DEATHS_MAX + 20
    for number in range(length):
        following = f"q{(number + 1) % length}"
        broker.queue(f"q{number}", max_length=0, exchange="", routing_key=following)
    publish(broker.queues["q0"])
    letters = broker.queues[f"q{length - 1}"].dead_letters
    assert letters is not None
    assert (letters.cycle_count, letters.published_count) == (1, 0)
    assert len(broker.environment.dead_letter_scheduler) == 0


@pytest.mark.parametrize(
    ("waiting", "shares"), [(15, 1), (30, 2), (70, 4), (400, SHARES_MAX)], ids=str
)
def test_the_share_grows_with_what_waits_and_counts_as_work_of_the_turn(
    slow_broker: SmallBroker, monkeypatch: pytest.MonkeyPatch, waiting: int, shares: int
) -> None:
    """Else publishers that push messages out of full queues could be faster, for ever."""
    monkeypatch.setattr(scheduler, "BATCHES_PER_SHARE", 20)
    waiting_letters = slow_broker.environment.dead_letter_scheduler
    waiting_letters.turn = slow_broker.turn
    slow_broker.queue("dead")
    queue = slow_broker.queue("q", exchange="", routing_key="dead")
    waiting_letters.hold()
    for _ in range(waiting):
        publish(queue)
    for entry in queue.acquire(waiting):
        queue.reject([entry])
    assert len(waiting_letters) == waiting
    waiting_letters.release()
    published = len(slow_broker.routed)
    assert shares * (SHARE - 1) < published <= shares * SHARE
    assert slow_broker.turn.work >= published * SHARE_S / SHARE * WORK_PER_S


def test_two_full_queues_that_push_into_one_another_come_to_rest(broker: SmallBroker) -> None:
    size = 300
    for name, other in ("ab", "ba"):
        queue = broker.queue(name, max_length=size, exchange="", routing_key=other)
        for number in range(size):
            publish(queue, f"{name}{number}".encode())
    publish(broker.queues["a"], b"one more")
    assert [broker.queues[name].ready_count for name in "ab"] == [size, size]
    assert len(broker.environment.dead_letter_scheduler) == 0


def test_what_dies_in_the_meantime_waits_for_its_turn(broker: SmallBroker) -> None:
    """Every letter of a batch comes before what the first of them pushes out."""
    last = broker.queue("last")
    broker.queue("middle", max_length=1, exchange="", routing_key="last")
    queue = broker.queue("q", exchange="fan")
    broker.bind("fan", "#", broker.queues["middle"], last)
    for body in (b"1", b"2", b"3"):
        publish(queue, body)
    reject(queue, 3)
    assert [take(last).body for _ in range(5)] == [b"1", b"2", b"3", b"1", b"2"]


def test_more_than_a_share_goes_on_by_the_timer_and_in_order(slow_broker: SmallBroker) -> None:
    broker = slow_broker
    dlq = broker.queue("dlq")
    queue = broker.queue("q", exchange="", routing_key="dlq")
    count = 2 * SHARE + 1
    for number in range(count):
        publish(queue, b"%d" % number)
    drop(queue, "expired", count)
    assert dlq.ready_count == SHARE
    publish(queue, b"late")
    reject(queue)  # behind the others, though it dies while they wait
    assert dlq.ready_count == SHARE
    assert len(broker.timers.pending) == 1
    broker.advance(0)
    assert dlq.ready_count == count + 1
    assert len(broker.timers.pending) == 0
    assert [take(dlq).body for _ in range(count)] == [b"%d" % number for number in range(count)]
    assert take(dlq).body == b"late"


def test_after_exactly_a_share_it_goes_on_as_before(slow_broker: SmallBroker) -> None:
    dlq = slow_broker.queue("dlq")
    queue = slow_broker.queue("q", exchange="", routing_key="dlq")
    for _ in range(SHARE):
        publish(queue)
    drop(queue, "expired", SHARE)
    assert dlq.ready_count == SHARE
    slow_broker.advance(0)
    publish(queue)
    reject(queue)
    assert dlq.ready_count == SHARE + 1


def test_an_error_costs_one_message_and_the_rest_is_published_later(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    dlq = broker.queue("dlq")
    queue = broker.queue("q", exchange="", routing_key="dlq")
    for body in (b"a", b"b", b"c"):
        publish(queue, body)
    assert queue.dead_letters is not None
    original = type(queue.dead_letters).send

    def send(self: DeadLetters, message: Message, reason: DeathReason) -> None:
        if message.body == b"a":
            raise RuntimeError("a bug")
        original(self, message, reason)

    monkeypatch.setattr(type(queue.dead_letters), "send", send)
    with pytest.raises(RuntimeError):
        reject(queue, 3)
    broker.advance(0)
    assert [take(dlq).body for _ in range(2)] == [b"b", b"c"]


def test_letters_are_counted_by_their_reasons(broker: SmallBroker) -> None:
    broker.queue("full", max_length=0, exchange="", routing_key="dead")
    dead = broker.queue("dead")
    for _ in range(3):
        publish(broker.queues["full"])
    assert dead.ready_count == 3
    assert broker.environment.dead_letter_scheduler.sent_counts == {"maxlen": 3}
