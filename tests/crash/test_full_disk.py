"""A disk that is full, or fails: what was promised stays, and everybody is told.

The disk is one in memory, so that it can be full to the octet and fail at any operation.
``test_tmpfs`` has the same with a real broker on a real file system.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hareline.storage.definitions.sqlite import SqliteDefinitions
from tests.crash.forgetful_files import ForgetfulFiles, Operation
from tests.crash.machine import SEGMENT_BYTES, Machine, Witness

SEGMENTS = 8
BODY_SIZE = 1000
#: More rounds than any disk here needs to be full, or to have room again.
ROUNDS_MAX = 400


@pytest.fixture
def definitions(tmp_path: Path) -> Iterator[SqliteDefinitions]:
    definitions = SqliteDefinitions(tmp_path / "definitions.sqlite")
    yield definitions
    definitions.close()


@pytest.fixture
def disk() -> ForgetfulFiles:
    return ForgetfulFiles(limit_bytes=SEGMENTS * SEGMENT_BYTES)


def publish_until(machine: Machine, *, is_refused: bool) -> int:
    """Publish until the alarm is raised (or beyond, until the store refuses); returns how many."""
    for count in range(ROUNDS_MAX):
        if machine.store.refusal if is_refused else machine.alarms:
            return count
        machine.publish("", "line", b"%d|" % count + bytes(BODY_SIZE))
        machine.settle_down()
    raise AssertionError("the disk was never full")


def bodies(machine: Machine) -> list[bytes]:
    return [entry.message.body for entry in machine.vhost.queues["line"].lane.ready_entries()]


def test_the_alarm_comes_before_anything_is_refused_or_lost(
    disk: ForgetfulFiles, definitions: SqliteDefinitions
) -> None:
    machine = Machine(disk, definitions)
    machine.declare("line")
    publish_until(machine, is_refused=False)
    assert machine.alarms == [True]
    assert machine.store.refusal == ""
    assert machine.store.durable_ticket == machine.store.ticket - 1
    before = machine.state()
    disk.crash()
    assert Machine(disk, definitions).state() == before


def test_acks_make_room_and_the_alarm_goes(
    disk: ForgetfulFiles, definitions: SqliteDefinitions
) -> None:
    machine = Machine(disk, definitions)
    machine.declare("line")
    publish_until(machine, is_refused=False)
    drain(machine)
    assert machine.alarms[-1] is False
    assert machine.store.refusal == ""
    assert machine.failures == []
    machine.publish("", "line", b"there is room again")
    machine.settle_down()
    assert machine.store.durable_ticket == machine.store.ticket - 1
    disk.crash()
    assert bodies(Machine(disk, definitions)) == [b"there is room again"]


def test_beyond_the_alarm_new_messages_are_refused_until_somebody_makes_room(
    disk: ForgetfulFiles, definitions: SqliteDefinitions
) -> None:
    """Publishers who do not mind the alarm fill the last segment too."""
    machine = Machine(disk, definitions)
    machine.declare("line")
    count = publish_until(machine, is_refused=True)
    assert "no room on disk" in machine.store.refusal
    assert machine.store.durable_ticket < machine.store.ticket - 1
    assert machine.failures == []
    assert drain(machine) == count, "consumers do not go on in memory"
    machine.publish("", "line", b"while there is no room")
    assert disk.limit_bytes is not None
    disk.limit_bytes += 2 * SEGMENT_BYTES
    machine.retry()
    machine.settle_down()
    assert machine.store.refusal == ""
    assert machine.alarms[0] is True
    assert machine.alarms[-1] is False
    assert machine.store.durable_ticket == machine.store.ticket - 1
    disk.crash()
    assert bodies(Machine(disk, definitions)) == [b"while there is no room"]


@pytest.mark.parametrize("seed", range(8))
def test_a_restart_with_a_full_disk_loses_nothing_and_comes_clear(
    disk: ForgetfulFiles, definitions: SqliteDefinitions, seed: int
) -> None:
    """What was cut off the last segment is room enough for what acknowledgements take."""
    machine = Machine(disk, definitions)
    witness = Witness(machine)
    machine.declare("line")
    publish_until(machine, is_refused=False)
    disk.crash(Random(seed))
    machine = Machine(disk, definitions)
    witness.check(machine)
    machine.settle_down()
    count = len(bodies(machine))
    assert count
    assert machine.failures == []
    assert drain(machine) == count
    assert machine.alarms == [] or machine.alarms[-1] is False
    disk.crash()
    assert bodies(Machine(disk, definitions)) == []


def drain(machine: Machine) -> int:
    """Take everything and acknowledge it; returns how many there were."""
    consumer = machine.consume("line", prefetch_count=5)
    count = 0
    for _ in range(ROUNDS_MAX):
        machine.settle_down()
        machine.retry()
        count += len(consumer.unacked)
        consumer.ack()
    machine.cancel(consumer)
    machine.settle_down()
    return count


@pytest.mark.parametrize("name", ["write", "sync", "allocate", "open", "sync_directory", "rename"])
@pytest.mark.parametrize("after", range(0, 60, 7))
def test_an_error_of_the_disk_is_final_and_loses_nothing_durable(
    definitions: SqliteDefinitions, name: str, after: int
) -> None:
    """Whatever fails, sooner or later: the store goes on, or it says why it does not."""
    disk = ForgetfulFiles()
    machine = Machine(disk, definitions)
    machine.declare("line")
    witness = Witness(machine)
    left = after

    def fail(operation: Operation) -> int | None:
        nonlocal left
        if operation.name != name:
            return None
        left -= 1
        return errno.EIO if left < 0 else None

    disk.fail_when(fail)
    consumer = machine.consume("line", prefetch_count=10)
    told: list[bool] = []
    for number in range(60):
        machine.publish("", "line", b"%d|" % number + bytes(BODY_SIZE))
        machine.store.when_durable(machine.store.ticket, lambda: told.append(True))
        machine.settle_down()
        consumer.ack(1 if number % 3 else 4)
        machine.settle_down()
    assert len(told) == 60, "somebody still waits for the disk"
    store = machine.store
    if name in ("write", "sync"):
        assert store.failure
    if store.failure:
        assert machine.failures == [store.failure]
        assert store.refusal
        assert "Input/output error" in store.failure
    before = len(consumer.bodies)
    machine.publish("", "line", b"delivered all the same")
    machine.settle_down()
    consumer.ack()
    machine.settle_down()
    consumer.ack()
    assert len(consumer.bodies) > before, "consumers do not go on in memory"
    disk.heal()
    disk.crash()
    witness.check(Machine(disk, definitions))


def test_a_failed_sync_is_never_tried_again(definitions: SqliteDefinitions) -> None:
    """Linux calls the pages clean after it has failed to write them: a second sync would lie."""
    disk = ForgetfulFiles()
    machine = Machine(disk, definitions)
    machine.declare("line")
    machine.publish("", "line", b"safe")
    machine.settle_down()
    disk.fail_next("sync", errno.EIO)
    machine.publish("", "line", b"not safe")
    machine.settle_down()
    assert machine.store.failure
    syncs = [each for each in disk.operations if each.name in ("sync", "write")]
    machine.publish("", "line", b"nor this")
    machine.settle_down()
    machine.stop()
    assert [each for each in disk.operations if each.name in ("sync", "write")] == syncs
    disk.crash()
    assert bodies(Machine(disk, definitions)) == [b"safe"]
