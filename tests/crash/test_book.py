"""The book of the crash harness notices whatever a broker may do wrong."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from pamqp import commands

from tests.crash.book import Book, BrokenPromise, Copy, QueueKind, Receiver, Sent
from tests.crash.clients import Publications

CHAIN = ("first", "second")
QUEUES = [
    QueueKind("line"),
    QueueKind("other"),
    QueueKind("rank"),
    QueueKind("last", replaces=True),
    QueueKind("first", chain=CHAIN),
    QueueKind("second", chain=CHAIN, keeps_order=False),
]
CONSUMER, PUBLISHER = 1, 2


class Stand:
    """A book, one publisher and one consumer; nothing of a broker."""

    def __init__(self) -> None:
        self.book = Book(QUEUES)
        self.publications = Publications(1)
        self.receiver = Receiver(CONSUMER)

    def publish(self, *queues: str, is_confirmed: bool = True, value_key: str = "") -> Sent:
        sent = self.publications.message(Random(1), "", queues[0], size=10)
        sent.value_key = value_key
        self.book.publish(sent, list(queues), PUBLISHER)
        if is_confirmed:
            self.book.confirm(sent)
        return sent

    def receive(self, sent: Sent, queue: str = "line", **changes: Any) -> Copy:
        self.book.expose(queue)
        body = changes.pop("body", sent.body)
        headers = changes.pop("headers", None)
        properties = copy.copy(sent.properties)
        properties.headers = headers
        fields: dict[str, Any] = {
            "exchange": "",
            "routing_key": queue,
            "redelivered": False,
        } | changes
        method = commands.Basic.Deliver(consumer_tag="c", delivery_tag=1, **fields)
        return self.book.receive(queue, self.receiver, method, properties, body)

    def audit(self, **found: list[Copy]) -> None:
        """After a crash, with these in the queues and nothing in the others."""
        self.book.crash()
        self.book.audit({queue.name: found.get(queue.name, []) for queue in QUEUES})


@pytest.fixture
def stand() -> Stand:
    return Stand()


def copies(*messages: Sent, index: int = 0) -> list[Copy]:
    return [sent.copies[index] for sent in messages]


def test_all_is_well_when_everything_is_there(stand: Stand) -> None:
    sent = [stand.publish("line") for _ in range(3)]
    stand.audit(line=copies(*sent))
    stand.audit(line=copies(*sent))


def test_a_confirmed_message_that_is_gone_is_lost(stand: Stand) -> None:
    sent = [stand.publish("line") for _ in range(2)]
    with pytest.raises(BrokenPromise, match=r"lost: message 1\.1"):
        stand.audit(line=copies(sent[1]))


def test_what_was_not_confirmed_may_be_gone_or_there(stand: Stand) -> None:
    sent = [stand.publish("line", is_confirmed=False) for _ in range(2)]
    stand.audit(line=copies(sent[0]))
    with pytest.raises(BrokenPromise, match=r"1\.2"):  # but then it is gone for good
        stand.receive(sent[1])
    with pytest.raises(BrokenPromise, match="lost"):  # and the other is there for good
        stand.audit()


def test_a_part_of_the_queues_is_not_enough(stand: Stand) -> None:
    sent = stand.publish("line", "other", is_confirmed=False)
    with pytest.raises(BrokenPromise, match="a part of it"):
        stand.audit(line=copies(sent))


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_was_acknowledged_may_come_back_until_that_is_durable(
    stand: Stand, *, comes_back: bool
) -> None:
    sent = stand.publish("line")
    stand.book.accept(stand.receive(sent), CONSUMER)
    stand.audit(line=copies(sent) if comes_back else [])
    if comes_back:
        with pytest.raises(BrokenPromise, match="lost"):
            stand.audit()
    else:
        with pytest.raises(BrokenPromise, match="end was durable"):
            stand.receive(sent, redelivered=True)


def test_an_end_is_durable_once_something_later_is_confirmed(stand: Stand) -> None:
    book = stand.book
    sent = stand.publish("line")
    book.accept(stand.receive(sent), CONSUMER)
    asked_at = book.tick()
    before = stand.publish("line", is_confirmed=False)
    book.on_round_trip(CONSUMER, asked_at)
    book.confirm(before)  # it was sent before anybody knew that the ack was read
    assert book.ended_count == 0
    after = stand.publish("line")
    assert book.ended_count == 1
    book.crash()
    with pytest.raises(BrokenPromise, match="its end was durable"):
        stand.receive(sent, redelivered=True)
    book.audit({queue.name: [] for queue in QUEUES} | {"line": copies(before, after)})


def test_on_one_connection_the_order_is_enough(stand: Stand) -> None:
    sent = stand.publish("line")
    stand.book.accept(stand.receive(sent), PUBLISHER)
    stand.publish("line")
    assert stand.book.ended_count == 1


def test_a_duplicate_needs_the_flag(stand: Stand) -> None:
    sent = stand.publish("line")
    stand.receive(sent)
    stand.book.crash()
    with pytest.raises(BrokenPromise, match="without the redelivered flag"):
        stand.receive(sent)
    stand.receive(sent, redelivered=True)


def test_a_flag_without_a_reason_is_noticed(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = stand.publish("line")
    monkeypatch.setattr(stand.book, "expose", lambda queue: None)  # a browser reads it
    with pytest.raises(BrokenPromise, match="nobody ever consumed"):
        stand.receive(sent, redelivered=True)


def test_nobody_gets_what_another_has_or_has_acknowledged(stand: Stand) -> None:
    sent = stand.publish("line")
    held = stand.receive(sent)
    with pytest.raises(BrokenPromise, match="while another consumer had it"):
        stand.receive(sent, redelivered=True)
    stand.book.accept(held, CONSUMER)
    with pytest.raises(BrokenPromise, match="acknowledged in this life"):
        stand.receive(sent, redelivered=True)
    stand.book.disconnect(CONSUMER)  # then the ack may never have been read
    stand.receive(sent, redelivered=True)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"body": b"other"}, "body"),
        ({"headers": {"a": 1}}, "properties"),
        ({"routing_key": "elsewhere"}, "address"),
    ],
)
def test_a_message_that_has_changed_is_noticed(
    stand: Stand, changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(BrokenPromise, match=what):
        stand.receive(stand.publish("line"), **changes)


def test_what_was_never_published_there_is_noticed(stand: Stand) -> None:
    sent = stand.publish("line")
    with pytest.raises(BrokenPromise, match="never routed"):
        stand.receive(sent, "other")


def test_first_deliveries_come_in_order(stand: Stand) -> None:
    sent = [stand.publish("line") for _ in range(2)]
    stand.receive(sent[1])
    with pytest.raises(BrokenPromise, match="first delivered after number 2"):
        stand.receive(sent[0])


def test_the_order_in_a_queue_is_looked_at(stand: Stand) -> None:
    sent = [stand.publish("line") for _ in range(2)]
    with pytest.raises(BrokenPromise, match="out of order"):
        stand.audit(line=copies(*reversed(sent)))


def test_ranks_go_before_the_order_of_publishing(stand: Stand) -> None:
    sent = [stand.publish("rank") for _ in range(2)]
    sent[0].rank, sent[1].rank = 2, 1
    stand.audit(rank=copies(*reversed(sent)))
    with pytest.raises(BrokenPromise, match="not in its order"):
        stand.audit(rank=copies(*sent))


def test_an_order_that_was_seen_once_stays(stand: Stand) -> None:
    sent = [stand.publish("line") for _ in range(2)]
    sent[0].publisher = 7  # two publishers: any order will do, but only one
    stand.audit(line=copies(*reversed(sent)))
    with pytest.raises(BrokenPromise, match="the order has changed"):
        stand.audit(line=copies(*sent))


def test_newer_ones_stand_behind_older_ones(stand: Stand) -> None:
    old = stand.publish("line")
    stand.audit(line=copies(old))
    new = stand.publish("line")
    new.publisher = 7
    with pytest.raises(BrokenPromise, match="newer stands before older"):
        stand.audit(line=copies(new, old))


def test_a_transaction_is_all_or_nothing(stand: Stand) -> None:
    book = stand.book
    taken = stand.publish("line")
    undivided = book.begin()
    put = stand.publications.message(Random(1), "", "other", size=1)
    book.publish_within(undivided, put, ["other"], CONSUMER)
    book.accept_within(undivided, stand.receive(taken), CONSUMER)
    book.crash()
    empty: dict[str, list[Copy]] = {queue.name: [] for queue in QUEUES}
    with pytest.raises(BrokenPromise, match="a part of it"):
        book.audit(empty | {"line": copies(taken), "other": copies(put)})
    book.audit(empty | {"line": copies(taken)})


def test_a_committed_transaction_stays(stand: Stand) -> None:
    book = stand.book
    undivided = book.begin()
    put = stand.publications.message(Random(1), "", "other", size=1)
    book.publish_within(undivided, put, ["other"], PUBLISHER)
    book.confirm_commit(undivided, book.tick(), PUBLISHER)
    with pytest.raises(BrokenPromise, match="lost"):
        stand.audit()


def test_what_was_rolled_back_is_never_seen(stand: Stand) -> None:
    undivided = stand.book.begin()
    put = stand.publications.message(Random(1), "", "line", size=1)
    stand.book.publish_within(undivided, put, ["line"], PUBLISHER)
    stand.book.withdraw(undivided)
    with pytest.raises(BrokenPromise, match="came back"):
        stand.receive(put)


def test_a_rejected_message_is_in_one_queue_of_its_chain(stand: Stand) -> None:
    sent = stand.publish("first")
    with pytest.raises(BrokenPromise, match="two queues of a chain"):
        stand.audit(first=copies(sent), second=copies(sent, index=1))
    with pytest.raises(BrokenPromise, match="without having been rejected"):
        stand.audit(second=copies(sent, index=1))
    stand.book.reject(stand.receive(sent, "first"), CONSUMER)
    with pytest.raises(BrokenPromise, match="lost"):
        stand.audit()
    stand.audit(second=copies(sent, index=1))


def test_a_dead_letter_says_where_it_died(stand: Stand) -> None:
    sent = stand.publish("first")
    stand.book.reject(stand.receive(sent, "first"), CONSUMER)
    with pytest.raises(BrokenPromise, match="x-death"):
        stand.receive(sent, "second")
    death = {"queue": "first", "reason": "rejected", "count": 1}
    stand.receive(sent, "second", headers={"x-death": [death], "x-first-death-queue": "first"})


def test_of_the_values_of_a_key_the_last_is_there(stand: Stand) -> None:
    old, new = (stand.publish("last", value_key="k") for _ in range(2))
    with pytest.raises(BrokenPromise, match="lost"):
        stand.audit()
    with pytest.raises(BrokenPromise, match=r"lost: message 1\.2"):
        stand.audit(last=copies(old))
    with pytest.raises(BrokenPromise, match="two values of one key"):
        stand.audit(last=copies(old, new))
    stand.audit(last=copies(new))
