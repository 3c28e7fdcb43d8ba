"""A message that an operator publishes: taken, refused, or not stored."""

from __future__ import annotations

import pytest

from hareline.broker.operations.publishing import put_published
from hareline.errors import NotKept
from hareline.message import UNWRITTEN
from tests.support.messages import make_message
from tests.support.stores import FakeStore
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost


def test_a_message_is_taken_by_all_queues_or_said_not_to_be() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    free = declare(vhost, "free")
    full = declare(vhost, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    message = make_message(b"m")
    assert not put_published(store, message, (), ())
    assert put_published(store, message, (free, full), ())
    assert not put_published(store, message, (free, full), ())
    assert (free.ready_count, full.ready_count) == (2, 1)


def test_a_store_without_room_keeps_a_persistent_message_out_everywhere() -> None:
    store = FakeStore()
    vhost = make_vhost(ManualTurn(), store=store)
    kept, loose = declare(vhost, "kept", is_durable=True), declare(vhost, "loose")
    store.refuse("no room on the disk")
    message = make_message(b"m")
    message.position = UNWRITTEN
    with pytest.raises(NotKept, match="no room on the disk"):
        put_published(store, message, (loose, kept), ())
    assert (loose.ready_count, kept.ready_count) == (0, 0)
    assert put_published(store, message, (loose,), ())
