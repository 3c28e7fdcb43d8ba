"""How dead messages are published: real queues that dead-letter into one another."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.message import Address, BlindAddress, Message, Table, dead_letter
from hareline.queues.queue import Queue
from tests.support.dead_letters import (
    SmallBroker,
    deaths,
    drop,
    publish,
    reject,
    summary,
    take,
)
from tests.support.messages import make_message


@pytest.fixture
def broker() -> SmallBroker:
    return SmallBroker()


@pytest.fixture
def dlq(broker: SmallBroker) -> Queue:
    """What the exchange ``dlx`` reaches with every key."""
    queue = broker.queue("dlq")
    broker.bind("dlx", "#", queue)
    return queue


# ------------------------------------------------------------------------- publishing


def test_what_is_rejected_goes_to_the_exchange_with_its_own_key(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    publish(queue, b"body", routing_key="k")
    broker.advance(5)
    reject(queue)
    letter = take(dlq)
    assert letter.history_size > 0
    assert (letter.address.exchange, letter.address.routing_key) == ("dlx", "k")
    assert letter.address.octets == b"\x03dlx\x01k"
    assert letter.body == b"body"
    assert summary(letter) == [("q", "rejected", 1)]
    assert letter.arrival_ms == broker.timers.clock.now_ms
    assert broker.routed[0][:2] == ("dlx", ["k"])
    assert (queue.ready_count, queue.unacked_count, queue.settled_count) == (0, 0, 1)


def test_a_dead_letter_routing_key_replaces_the_key_and_the_copies(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx", routing_key="dead")
    publish(queue, routing_key="k", headers=Table(CC=["copy"], n=1))
    reject(queue)
    letter = take(dlq)
    assert broker.routed[0][:2] == ("dlx", ["dead"])
    assert letter.address.routing_key == "dead"
    assert "CC" not in letter.headers
    assert letter.headers["n"] == 1
    assert deaths(letter)[0]["routing-keys"] == ["k", "copy"]


def test_without_one_the_copies_are_routed_again(broker: SmallBroker) -> None:
    one, two = broker.queue("one"), broker.queue("two")
    broker.bind("dlx", "k", one)
    broker.bind("dlx", "copy", two)
    queue = broker.queue("q", exchange="dlx")
    publish(queue, routing_key="k", headers=Table(CC=["copy"]))
    drop(queue, "expired")
    assert take(one) is take(two)
    assert broker.routed[0][:2] == ("dlx", ["k", "copy"])


def test_blind_copies_are_routed_again_and_never_shown(broker: SmallBroker) -> None:
    blind, again = broker.queue("blind", exchange="second"), broker.queue("again")
    broker.bind("dlx", "secret", blind)
    broker.bind("second", "secret", again)
    queue = broker.queue("q", exchange="dlx")
    message = make_message(b"x", routing_key="k")
    message.address = BlindAddress(message.address, ("secret",))
    queue.enqueue(message)
    drop(queue, "expired")
    assert blind.ready_count == 1
    drop(blind, "expired")
    letter = take(again)
    assert [death["routing-keys"] for death in deaths(letter)] == [["k"], ["k"]]
    assert b"secret" not in letter.content
    assert letter.address.octets == b"\x06second\x01k"


def test_a_replaced_key_ends_blind_copies(broker: SmallBroker, dlq: Queue) -> None:
    queue = broker.queue("q", exchange="dlx", routing_key="dead")
    message = make_message(routing_key="k")
    message.address = BlindAddress(message.address, ("secret",))
    queue.enqueue(message)
    reject(queue)
    assert take(dlq).address.blind_keys == ()
    assert broker.routed[0][1] == ["dead"]


def test_the_default_exchange_is_one_to_dead_letter_to(broker: SmallBroker) -> None:
    target = broker.queue("target")
    queue = broker.queue("q", exchange="", routing_key="target")
    publish(queue)
    reject(queue)
    assert take(target).address.octets == b"\x00\x06target"


def test_every_queue_of_a_route_shares_one_dead_letter(broker: SmallBroker) -> None:
    targets = [broker.queue(name) for name in "abc"]
    broker.bind("dlx", "#", *targets)
    queue = broker.queue("q", exchange="dlx")
    publish(queue)
    reject(queue)
    assert queue.dead_letters is not None
    assert queue.dead_letters.published_count == 1
    assert len({id(take(target)) for target in targets}) == 1


def test_what_reaches_no_queue_is_lost(broker: SmallBroker) -> None:
    queue = broker.queue("q", exchange="nowhere")
    publish(queue)
    reject(queue)
    assert queue.dead_letters is not None
    assert queue.dead_letters.unroutable_count == 1
    assert queue.dead_letters.published_count == 0


def test_a_queue_that_refuses_a_dead_letter_keeps_it_from_no_other(
    broker: SmallBroker, dlq: Queue
) -> None:
    full = broker.queue("full", max_length=0, policy="reject-publish")
    broker.bind("dlx", "#", full)
    queue = broker.queue("q", exchange="dlx")
    publish(queue)
    reject(queue)
    assert (full.ready_count, dlq.ready_count) == (0, 1)


def test_without_dead_letters_the_dead_are_just_gone(broker: SmallBroker) -> None:
    queue = broker.queue("q")
    publish(queue)
    reject(queue)
    assert broker.routed == []
    assert queue.settled_count == 1


def test_a_message_that_was_not_let_in_is_dead_lettered_too(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", max_length=0, policy="reject-publish-dlx", exchange="dlx")
    assert not queue.put(make_message(b"late", routing_key="q"))
    letter = take(dlq)
    assert letter.body == b"late"
    assert summary(letter) == [("q", "maxlen", 1)]


def test_messages_keep_their_order(broker: SmallBroker, dlq: Queue) -> None:
    queue = broker.queue("q", exchange="dlx")
    bodies = [b"%d" % number for number in range(50)]
    for number, body in enumerate(bodies):
        publish(queue, body, message_id=str(number % 7))
    drop(queue, "expired", 50)
    assert [take(dlq).body for _ in bodies] == bodies


def test_messages_alike_are_written_alike_and_the_second_they_died_in_is_told_apart(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    for body in (b"a", b"bb", b"c"):
        publish(queue, body, routing_key="k", headers=Table(n=1))
    drop(queue, "expired", 2)
    broker.advance(1000)
    drop(queue, "expired")
    first, second, third = (take(dlq) for _ in range(3))
    assert first.property_octets == second.property_octets
    assert first.address is second.address is third.address
    assert [letter.body for letter in (first, second, third)] == [b"a", b"bb", b"c"]
    times = [deaths(letter)[0]["time"] for letter in (first, third)]
    assert times == [1_700_000_000, 1_700_000_001]


def test_more_kinds_of_messages_than_are_remembered_are_all_right(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    for number in range(2000):
        publish(queue, routing_key=f"k{number}")
    reject(queue, 2000)
    for number in range(2000):
        letter = take(dlq)
        assert letter.address.routing_key == f"k{number}"
        assert deaths(letter)[0]["routing-keys"] == [f"k{number}"]


def test_so_many_headers_that_with_these_they_are_unreadable_cost_the_message_and_nothing_else(
    broker: SmallBroker, dlq: Queue
) -> None:
    """Tables have a greatest number of values; an exchange that looks at them finds too many."""
    queue = broker.queue("q", exchange="headers")
    broker.bind("headers", "#", dlq)
    publish(queue, headers=Table(all=[None] * 65_530))
    publish(queue, b"next")
    reject(queue, 2)
    assert queue.dead_letters is not None
    assert queue.dead_letters.unroutable_count == 1
    assert take(dlq).body == b"next"
    assert dlq.ready_count == 0


# ---------------------------------------------------------------------------- reasons


def test_the_delivery_limit_is_a_reason_and_its_header_goes(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    queue.delivery_limit = 2
    queue.shows_delivery_count = True
    publish(queue, headers=Table(n=1), expiration="60000")
    shown = []
    for _ in range(3):
        (entry,) = queue.acquire(1)
        shown.append(entry.message.headers.get("x-delivery-count"))
        queue.release([entry])
    assert shown == [None, 1, 2]
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
    letter = take(dlq)
    assert summary(letter) == [("q", "delivery_limit", 1)]
    assert deaths(letter)[0]["original-expiration"] == "60000"
    assert "x-delivery-count" not in letter.headers
    assert letter.headers["n"] == 1


def test_a_delivery_count_that_a_client_wrote_stays_where_the_queue_writes_none(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    queue.shows_delivery_count = True
    publish(queue, headers=Table({"x-delivery-count": 7}))
    reject(queue)
    assert take(dlq).headers["x-delivery-count"] == 7


def test_the_history_survives_a_delivery_count(broker: SmallBroker, dlq: Queue) -> None:
    middle = broker.queue("middle", exchange="dlx")
    middle.shows_delivery_count = True
    queue = broker.queue("q", exchange="", routing_key="middle")
    publish(queue)
    reject(queue)
    middle.release(middle.acquire(1))
    (entry,) = middle.acquire(1)
    assert entry.message.headers["x-delivery-count"] == 1
    middle.reject([entry])
    assert summary(take(dlq)) == [("middle", "rejected", 1), ("q", "rejected", 1)]


@pytest.mark.parametrize("reason", ["replaced", "maxlen"])
def test_what_has_no_target_is_gone(broker: SmallBroker, dlq: Queue, reason: str) -> None:
    queue = broker.queue("q", exchange="dlx", reasons=["expired"])
    publish(queue)
    drop(queue, reason)
    assert queue.dead_letters is not None
    queue.dead_letters.publish_message(make_message(), reason)  # type: ignore[arg-type]
    assert dlq.ready_count == 0
    assert broker.routed == []


def test_only_persistent_messages_if_transient_ones_are_not_taken(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx", takes_transient=False)
    for mode in (None, 1, 2, 3):
        publish(queue, str(mode).encode(), delivery_mode=mode)
    reject(queue, 4)
    assert take(dlq).body == b"2"
    assert dlq.ready_count == 0


# ------------------------------------------------------------------ alternate bindings


def test_an_alternate_binding_leads_to_an_exchange(broker: SmallBroker, dlq: Queue) -> None:
    queue = broker.queue("q", alternate="dlx")
    publish(queue, routing_key="k", headers=Table(CC=["copy"]))
    reject(queue)
    letter = take(dlq)
    assert broker.routed[0][:2] == ("dlx", ["k", "copy"])
    assert letter.address.octets == b"\x03dlx\x01k"
    assert summary(letter) == [("q", "rejected", 1)]


def test_or_to_a_queue(broker: SmallBroker) -> None:
    target = broker.queue("q_DLQ")
    queue = broker.queue("q", alternate="q_DLQ")
    publish(queue, routing_key="k")
    reject(queue)
    letter = take(target)
    assert letter.address.octets == b"\x00\x05q_DLQ"
    assert deaths(letter)[0]["routing-keys"] == ["k"]
    assert queue.dead_letters is not None
    assert queue.dead_letters.unroutable_count == 0


def test_or_to_nothing(broker: SmallBroker) -> None:
    queue = broker.queue("q", alternate="gone")
    publish(queue)
    reject(queue)
    assert queue.dead_letters is not None
    assert queue.dead_letters.unroutable_count == 1


def test_what_a_deleted_queue_held_goes_to_its_alternate(broker: SmallBroker) -> None:
    target = broker.queue("target")
    queue = broker.queue("q", alternate="target")
    for body in (b"a", b"b"):
        publish(queue, body)
    queue.delete()
    assert [take(target).body for _ in range(2)] == [b"a", b"b"]


def test_a_dead_letter_exchange_gets_nothing_of_a_deleted_queue(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    publish(queue)
    queue.delete()
    assert dlq.ready_count == 0


def test_a_deleted_queue_that_is_still_bound_gets_nothing_back(broker: SmallBroker) -> None:
    queue = broker.queue("q", alternate="fan")
    other = broker.queue("other")
    broker.bind("fan", "#", queue, other)
    publish(queue)
    queue.delete()
    assert (queue.ready_count, other.ready_count) == (0, 1)


def test_expired_messages_go_to_the_alternate_if_the_policy_says_so(
    broker: SmallBroker, dlq: Queue
) -> None:
    target = broker.queue("target")
    queue = broker.queue(
        "q", exchange="dlx", alternate="target", expiry_policy="route-to-alternate"
    )
    publish(queue, b"old")
    publish(queue, b"bad")
    drop(queue, "expired")
    reject(queue)
    assert take(target).body == b"old"
    assert take(dlq).body == b"bad"


# ----------------------------------------------------- the virtual host's default exchange


@pytest.fixture
def dead(broker: SmallBroker) -> Queue:
    """Everything that the default dead-letter exchange ``amq.dead`` gets."""
    queue = broker.queue("dead", default_exchange="amq.dead")
    broker.bind("amq.dead", "#", queue)
    return queue


def test_the_default_exchange_gets_queue_and_reason_as_the_key_and_more_headers(
    broker: SmallBroker, dead: Queue
) -> None:
    queue = broker.queue("q", default_exchange="amq.dead")
    publish(queue, exchange="orders", routing_key="new", headers=Table(CC=["copy"]))
    drop(queue, "maxlen")
    letter = take(dead)
    assert letter.address.octets == b"\x08amq.dead\x08q.maxlen"
    assert {name: value for name, value in letter.headers.items() if "x-dead-" in name} == {
        "x-dead-reason": "maxlen",
        "x-dead-text": "the queue was full",
        "x-dead-queue": "q",
        "x-dead-exchange": "orders",
        "x-dead-routing-key": "new",
        "x-dead-arrival": 1_700_000_000,
    }
    assert summary(letter) == [("q", "maxlen", 1)]
    assert "CC" not in letter.headers


def test_a_dead_letter_of_the_default_exchange_goes_there_no_second_time(
    broker: SmallBroker, dead: Queue
) -> None:
    """Not after a rejection either, which ends other cycles."""
    queue = broker.queue("q", default_exchange="amq.dead")
    publish(queue)
    reject(queue)
    reject(dead)
    assert dead.ready_count == 0
    assert dead.dead_letters is not None
    assert dead.dead_letters.cycle_count == 1


def test_nor_by_a_detour(broker: SmallBroker, dead: Queue) -> None:
    broker.queue("detour", default_exchange="amq.dead")
    queue = broker.queue("q", default_exchange="amq.dead")
    dead.dead_letters = broker.dead_letters("dead", exchange="", routing_key="detour")
    publish(queue)
    reject(queue)
    reject(dead)
    detour = broker.queues["detour"]
    assert detour.ready_count == 1
    reject(detour)
    assert (detour.ready_count, dead.ready_count) == (0, 0)


def test_a_queues_own_dead_letter_may_die_by_the_default_exchange(
    broker: SmallBroker, dead: Queue
) -> None:
    broker.queue("second", default_exchange="amq.dead")
    queue = broker.queue("q", exchange="", routing_key="second")
    publish(queue, headers=Table({"x-dead-reason": "forged"}))
    reject(queue)
    reject(broker.queues["second"])
    letter = take(dead)
    assert letter.headers["x-dead-reason"] == "rejected"
    assert summary(letter) == [("second", "rejected", 1), ("q", "rejected", 1)]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("q" * 255, "q" * 246 + ".rejected"),
        ("é" * 127, "é" * 123 + ".rejected"),
        ("q" * 246, "q" * 246 + ".rejected"),
        ("\udcff", "\udcff.rejected"),
    ],
)
def test_a_key_for_the_default_exchange_is_never_too_long(
    broker: SmallBroker, dead: Queue, name: str, key: str
) -> None:
    queue = broker.queue(name, default_exchange="amq.dead")
    publish(queue, routing_key="k")
    reject(queue)
    letter = take(dead)
    assert letter.address.routing_key == key
    assert letter.headers["x-dead-queue"] == name


def test_copies_go_to_the_default_exchange_beside_the_queues_own(
    broker: SmallBroker, dead: Queue, dlq: Queue
) -> None:
    queue = broker.queue(
        "q", exchange="dlx", routing_key="new", default_exchange="amq.dead", has_copies=True
    )
    publish(queue, routing_key="old")
    reject(queue)
    copy, letter = take(dead), take(dlq)
    assert (copy.address.routing_key, letter.address.routing_key) == ("q.rejected", "new")
    assert copy.headers["x-dead-routing-key"] == "old"
    assert "x-dead-reason" not in letter.headers
    assert summary(copy) == summary(letter) == [("q", "rejected", 1)]
    assert queue.dead_letters is not None
    assert (queue.dead_letters.published_count, queue.dead_letters.unroutable_count) == (1, 0)


@pytest.mark.row("E8")
def test_a_message_is_copied_once_however_often_it_dies(broker: SmallBroker, dead: Queue) -> None:
    copying: dict[str, Any] = {"default_exchange": "amq.dead", "has_copies": True}
    dead.dead_letters = broker.dead_letters("dead", exchange="", routing_key="q", **copying)
    queue = broker.queue("q", exchange="", routing_key="wait", **copying)
    wait = broker.queue("wait", exchange="", routing_key="q", **copying)
    publish(queue)
    for _ in range(3):
        reject(queue)
        drop(wait, "expired")
    assert [queue.ready_count, wait.ready_count, dead.ready_count] == [1, 0, 1]
    reject(dead)  # the copy itself dies, goes on as its queue says, and is not copied
    assert [queue.ready_count, dead.ready_count] == [2, 0]


def test_a_message_is_copied_at_the_first_death_that_a_queue_of_the_topic_wants(
    broker: SmallBroker,
) -> None:
    copying: dict[str, Any] = {"default_exchange": "amq.dead", "has_copies": True}
    late = broker.queue("late")
    broker.bind("amq.dead", "wait.expired", late)
    queue = broker.queue("q", exchange="", routing_key="wait", **copying)
    wait = broker.queue("wait", exchange="", routing_key="nowhere", **copying)
    publish(queue)
    reject(queue)
    assert late.ready_count == 0
    drop(wait, "expired")
    assert summary(take(late)) == [("wait", "expired", 1), ("q", "rejected", 1)]
    assert wait.dead_letters is not None
    assert (wait.dead_letters.published_count, wait.dead_letters.unroutable_count) == (1, 0)


def test_without_a_taker_neither_copy_nor_letter_counts_as_published(broker: SmallBroker) -> None:
    queue = broker.queue("q", exchange="dlx", default_exchange="amq.dead", has_copies=True)
    publish(queue)
    reject(queue)
    assert queue.dead_letters is not None
    assert (queue.dead_letters.published_count, queue.dead_letters.unroutable_count) == (0, 1)


# ----------------------------------------------------------------------------- cycles


def test_a_queue_that_dead_letters_to_itself_gets_nothing_back_but_rejections(
    broker: SmallBroker,
) -> None:
    queue = broker.queue("q", exchange="", routing_key="q")
    publish(queue)
    for count in (1, 2, 3):
        reject(queue)
        (entry,) = queue.acquire(1)
        assert summary(entry.message) == [("q", "rejected", count)]
        queue.restore([entry])
    drop(queue, "expired")
    assert queue.ready_count == 0
    assert queue.dead_letters is not None
    assert queue.dead_letters.cycle_count == 1


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("reason", ["expired", "maxlen", "delivery_limit"])
def test_an_automatic_cycle_ends_where_it_began(
    broker: SmallBroker, names: str, reason: str
) -> None:
    following = dict(zip(names, names[1:] + names[0], strict=True))
    queues = {name: broker.queue(name, exchange="", routing_key=following[name]) for name in names}
    publish(queues["a"], routing_key="a")
    for name in names:
        assert queues[name].ready_count == 1
        drop(queues[name], reason)
    assert [queue.ready_count for queue in queues.values()] == [0] * len(names)


def test_a_rejection_on_the_way_lets_a_cycle_go_on(broker: SmallBroker) -> None:
    """The usual retry: rejected in one queue, waiting in the other until it expires."""
    work = broker.queue("work", exchange="", routing_key="wait")
    wait = broker.queue("wait", exchange="", routing_key="work")
    publish(work)
    for round_number in (1, 2, 3):
        reject(work)
        drop(wait, "expired")
        (entry,) = work.acquire(1)
        assert summary(entry.message) == [
            ("wait", "expired", round_number),
            ("work", "rejected", round_number),
        ]
        work.restore([entry])


def test_only_what_died_since_the_rejection_is_barred(broker: SmallBroker) -> None:
    for name, following in ("ab", "bc", "cb"):
        broker.queue(name, exchange="", routing_key=following)
    queues = broker.queues
    publish(queues["a"])
    drop(queues["a"], "expired")
    reject(queues["b"])
    drop(queues["c"], "expired")
    assert queues["b"].ready_count == 1  # b: rejected since
    drop(queues["b"], "expired")
    assert queues["c"].ready_count == 0  # c expired, b expired, and back to c


def test_a_cycle_bars_one_queue_and_no_other(broker: SmallBroker) -> None:
    a = broker.queue("a", exchange="fan")
    b = broker.queue("b", exchange="fan")
    c = broker.queue("c")
    broker.bind("fan", "#", a, b, c)
    publish(a)
    drop(a, "expired")
    assert [queue.ready_count for queue in (a, b, c)] == [0, 1, 1]
    drop(b, "expired")
    assert [queue.ready_count for queue in (a, b, c)] == [0, 0, 2]


def test_death_headers_of_a_client_make_no_cycle(broker: SmallBroker) -> None:
    target = broker.queue("target")
    queue = broker.queue("q", exchange="", routing_key="target")
    forged = Table({"x-death": [Table(queue="target", reason="expired", count=1)]})
    publish(queue, headers=forged)
    drop(queue, "expired")
    assert summary(take(target)) == [("q", "expired", 1)]


def test_a_dead_letter_that_a_client_publishes_again_is_a_new_message(
    broker: SmallBroker, dlq: Queue
) -> None:
    queue = broker.queue("q", exchange="dlx")
    # differs: old-history
    publish(queue)
    reject(queue)
    publish(queue, headers=take(dlq).headers)
    reject(queue)
    assert summary(take(dlq)) == [("q", "rejected", 1)]


def test_a_repr_tells_the_queue_and_the_reasons(broker: SmallBroker) -> None:
    letters = broker.dead_letters("q", alternate="x")
    assert repr(letters) == "<DeadLetters of 'q': deleted, delivery_limit, rejected>"


def test_nothing_here_has_a_dict(broker: SmallBroker) -> None:
    letters = broker.dead_letters("q", alternate="x")
    message: Message = make_message(b"x")
    letter = dead_letter(message, message.property_octets, Address.of("", "q"), 0, 0)
    for thing in (letters, letter, letter.address, BlindAddress(letter.address, ("k",))):
        assert not hasattr(thing, "__dict__")
