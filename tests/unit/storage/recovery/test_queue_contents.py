"""The live entries of a queue as columns."""

from __future__ import annotations

from array import array

import pytest

from hareline.storage.recovery.queue_contents import EXPIRES, LEVEL_SHIFT, QueueContents


@pytest.fixture
def contents() -> QueueContents:
    sizes = array("I", [10, 20 | EXPIRES, 30])
    return QueueContents(array("Q", [2, 5, 9]), array("Q", [102, 105, 109]), sizes)


def test_an_entry_is_taken_out_by_its_offset(contents: QueueContents) -> None:
    assert contents.remove(5) == 105
    assert list(contents.offsets) == [2, 9]
    assert list(contents.positions) == [102, 109]
    assert list(contents.sizes) == [10, 30]
    assert len(contents) == 2


def test_of_any_offsets_those_in_the_queue_are_found(contents: QueueContents) -> None:
    assert list(contents.live([9, 0, 2, 3, 10])) == [9, 2]
    assert list(QueueContents().live([0])) == []


def test_a_size_says_whether_the_entry_expires_beside_its_level(contents: QueueContents) -> None:
    assert contents.expiring_count == 1
    assert not contents.has_levels
    contents.sizes = array("Q", [10, 20 | EXPIRES | 3 << LEVEL_SHIFT, 30 | 9 << LEVEL_SHIFT])
    assert contents.expiring_count == 1
    assert contents.has_levels
