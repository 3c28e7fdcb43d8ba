"""Publishers that are faster than the disk wait at their sockets; everybody else goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.settings import Settings, Storage
from hareline.storage.durable import BEHIND_BYTES
from hareline.storage.journal.files import Files
from tests.support.broker_thread import BrokerThread, broker_in_thread

pytestmark = pytest.mark.timeout(60)

BODY = bytes(60_000)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is not set, the disk takes its time."""
    gate = threading.Event()
    gate.set()
    sync = Files.sync

    def do_sync(files: Files, fd: int) -> None:
        assert gate.wait(30), "the disk never came back"
        sync(files, fd)

    monkeypatch.setattr(Files, "sync", do_sync)
    yield gate
    gate.set()


@pytest.fixture
def broker(gate: threading.Event, tmp_path: Path) -> Iterator[BrokerThread]:
    settings = Settings(data_dir=tmp_path / "data", storage=Storage(kind="journal"))
    with broker_in_thread(settings) as thread:
        yield thread
        gate.set()


def test_a_flood_waits_for_the_disk_and_goes_on_when_it_is_back(
    broker: BrokerThread, gate: threading.Event
) -> None:
    publisher, other = broker.client().open(), broker.client().open()
    publisher.declare("d", durable=True, arguments={"x-message-durability": "always"})
    other.declare("t")
    gate.clear()
    octets = publisher.publish_octets("d", BODY)
    count = publisher.send_until_nobody_reads(octets)
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
