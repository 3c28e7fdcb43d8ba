"""Publishers that are faster than the disk wait at their sockets; everybody else goes on."""

from __future__ import annotations

import threading

import pytest

from hareline.storage.store.durable import BEHIND_BYTES
from tests.support.broker_thread import BrokerThread

BODY = bytes(60_000)


@pytest.mark.acceptance
def test_a_flood_waits_for_the_disk_and_goes_on_when_it_is_back(
    gated_broker: BrokerThread, gate: threading.Event
) -> None:
    broker = gated_broker
    publisher, other = broker.client().open(), broker.client().open()
    publisher.declare("d", durable=True, arguments={"x-message-durability": "always"})
    other.declare("t")
    gate.clear()
    octets = publisher.publish_octets("d", BODY)
    count = publisher.send_until_nobody_reads(octets, patience_s=4.0)
    assert count * len(octets) > BEHIND_BYTES
    assert broker.ask(lambda inside: inside.context.turn.is_store_behind)
    taken = broker.ask_queue("d", lambda queue: queue.ready_bytes)
    assert taken < 3 * BEHIND_BYTES
    for _ in range(3):  # turns go by, and nobody reads the flood
        other.declare("t")
    assert broker.ask_queue("d", lambda queue: queue.ready_bytes) == taken
    gate.set()
    broker.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["d"].ready_count >= count, "all of it"
    )
    assert not broker.ask(lambda inside: inside.context.turn.is_store_behind)
