"""The spare segment, and the alarm while there is none."""

from __future__ import annotations

import errno

from hareline.storage.store.durable import SPARE_RETRY_S
from tests.crash.forgetful_files import Operation
from tests.support.store_stand import StoreStand


def test_no_room_for_a_spare_is_an_alarm_and_goes_with_the_room() -> None:
    stand = StoreStand(segment_bytes=4096)
    files = stand.forgetful

    def no_allocation(operation: Operation) -> int | None:
        return errno.ENOSPC if operation.name == "allocate" else None

    entries = stand.entries(1, 20, bytes(100))
    stand.turn()
    files.fail_when(no_allocation)
    entries += stand.entries(1, 20, bytes(100))
    stand.turn()
    assert stand.alarms == [True]
    assert stand.store.durable_ticket == stand.store.ticket - 1  # it still fits
    assert not stand.store.refusal
    stand.settle(1, entries)
    stand.turn()
    assert stand.store.freed_segments  # what was freed is the spare now
    assert stand.alarms == [True, False]
    assert stand.reports  # once, in words
    files.heal()
    stand.crash()
    assert stand.reopen().bodies(1) == []


def test_a_spare_is_asked_for_again_by_one_work_however_long_the_disk_is_full() -> None:
    stand = StoreStand(segment_bytes=4096)
    files = stand.forgetful
    files.fail_when(lambda each: errno.ENOSPC if each.name == "allocate" else None)
    for _ in range(30):
        stand.entries(1, 1, bytes(300))
        stand.turn()
        assert len([each for each in stand.syncer.submitted if each[0]]) <= 2
    assert stand.alarms == [True]


def test_a_store_that_ends_tries_no_more_spares() -> None:
    stand = StoreStand(segment_bytes=4096)
    stand.entries(1, 20, bytes(100))
    stand.turn()
    stand.forgetful.fail_when(lambda each: errno.ENOSPC if each.name == "allocate" else None)
    stand.entries(1, 20, bytes(100))
    stand.turn()
    assert [delay_s for delay_s, _ in stand.syncer.submitted] == [SPARE_RETRY_S]
    stand.store.close()
    assert not stand.syncer.submitted
    assert stand.alarms == [True]
