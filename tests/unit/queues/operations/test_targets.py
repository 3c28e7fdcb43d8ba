"""Targets: which queues get a message, and why it is refused before anything is put anywhere."""

from __future__ import annotations

from hareline.broker.operations.targets import (
    FULL,
    GONE,
    NOT_STORED,
    REASONS,
    ExchangeTarget,
    QueueTarget,
    address_of,
    is_full_for,
)
from hareline.message import UNWRITTEN
from tests.support.messages import make_message
from tests.support.stores import FakeStore
from tests.support.turns import ManualTurn
from tests.support.vhosts import bind, declare, declare_exchange, make_vhost
from tests.unit.queues.operations.test_moving import Stand

MESSAGE = make_message(b"12345", routing_key="r")


def test_a_queue_that_is_deleted_takes_nothing() -> None:
    stand = Stand()
    target = QueueTarget(stand.vhost, declare(stand.vhost, "t"))
    stand.vhost.delete_queue("t", None)
    assert target.place_of(MESSAGE).refusal == GONE


def test_one_full_queue_refuses_for_all() -> None:
    stand = Stand()
    vhost = stand.vhost
    declare_exchange(vhost, "to", "fanout")
    free = declare(vhost, "free")
    full = declare(vhost, "full", arguments={"x-max-length-bytes": 4})
    for queue in (free, full):
        bind(vhost, "to", queue)
    target = ExchangeTarget(vhost, vhost.exchange("to"), None, None)
    assert target.place_of(MESSAGE).refusal == FULL
    place = target.place_of(make_message(b"1234", routing_key="r"))
    assert set(place.queues) == {free, full}
    assert free.ready_count == 0


def test_policies_that_take_whatever_comes_are_never_full() -> None:
    stand = Stand()
    for number, policy in enumerate(("none", "flow-to-disk", "flow-control", "discard")):
        queue = declare(
            stand.vhost, f"q{number}", arguments={"x-max-length": 0, "x-overflow": policy}
        )
        assert is_full_for(queue, MESSAGE) == (policy in ("flow-control", "discard"))


def test_what_could_not_be_stored_is_refused_where_it_is_kept() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    kept = declare(vhost, "kept", is_durable=True)
    loose = declare(vhost, "loose")
    store.refuse("no room on the disk")
    persistent = make_message(b"p")
    persistent.position = UNWRITTEN
    assert QueueTarget(vhost, kept).place_of(persistent).refusal == NOT_STORED
    assert QueueTarget(vhost, loose).place_of(persistent).refusal == ""
    assert QueueTarget(vhost, kept).place_of(MESSAGE).refusal == ""


def test_archives_get_what_is_put() -> None:
    stand = Stand()
    archive = declare(stand.vhost, "archive", is_durable=True, arguments={"x-queue-type": "stream"})
    queue = declare(stand.vhost, "q", arguments={"x-archive-to": "archive"})
    target = QueueTarget(stand.vhost, queue)
    assert target.put(target.place_of(MESSAGE), MESSAGE) == ""
    assert (queue.ready_count, archive.ready_count) == (1, 1)


def test_a_queue_that_is_full_by_now_refuses_and_archives_nothing() -> None:
    stand = Stand()
    archive = declare(stand.vhost, "archive", is_durable=True, arguments={"x-queue-type": "stream"})
    arguments = {"x-archive-to": "archive", "x-max-length": 1, "x-overflow": "reject-publish"}
    queue = declare(stand.vhost, "q", arguments=arguments)
    target = QueueTarget(stand.vhost, queue)
    place = target.place_of(MESSAGE)
    queue.put(make_message(b"first"))
    assert target.put(place, MESSAGE) == FULL
    assert (queue.ready_count, archive.ready_count) == (1, 0)


def test_another_exchange_of_the_name_gets_nothing() -> None:
    stand = Stand()
    vhost = stand.vhost
    declare_exchange(vhost, "to")
    target = ExchangeTarget(vhost, vhost.exchange("to"), None, None)
    vhost.delete_exchange("to", if_unused=False)
    assert target.place_of(MESSAGE).refusal == GONE
    declare_exchange(vhost, "to", "fanout", is_internal=True)
    bind(vhost, "to", declare(vhost, "t"))
    assert target.place_of(MESSAGE).refusal == GONE


def test_an_address_is_the_one_that_publishers_have() -> None:
    stand = Stand()
    first = address_of(stand.vhost, "x", "k\udcff")
    assert address_of(stand.vhost, "x", "k\udcff") is first
    assert first.octets == b"\x01x\x02k\xff"


def test_each_reason_has_a_sentence() -> None:
    assert all(len(sentence) > 10 for sentence in REASONS.values())
