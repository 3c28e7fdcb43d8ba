"""One number for all that a recovery does, which only grows and ends at everything."""

from __future__ import annotations

import pytest

from hareline.storage.recovery.reports import DEFINITION_WORK, ENTRY_WORK, RecoveryProgress

MIB = 1 << 20


class Shown:
    """What a bar would draw, as shares."""

    def __init__(self) -> None:
        self.points: list[tuple[int, int]] = []

    def __call__(self, done: int, all_work: int) -> None:
        self.points.append((done, all_work))

    @property
    def share(self) -> float:
        done, all_work = self.points[-1]
        return done / all_work


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_a_journal_whose_entries_become_numbers_is_nearly_all_of_it(shown: Shown) -> None:
    progress = RecoveryProgress(shown, definitions=1)
    for part in range(5):
        progress.on_read(part * 25 * MIB, 100 * MIB, 0)
        assert shown.share == pytest.approx(part / 4, abs=0.01)
    progress.on_all_read(100 * MIB, 0)
    progress.finish()
    assert shown.share == 1


def test_what_is_to_be_loaded_has_its_share_from_the_beginning(shown: Shown) -> None:
    """As much work as the journal, so the bar is half way when that has been read."""
    count = 100 * MIB // ENTRY_WORK
    progress = RecoveryProgress(shown)
    for part in range(1, 5):
        progress.on_read(part * 25 * MIB, 100 * MIB, count * part // 4)
        assert shown.share == pytest.approx(part / 8, abs=0.01)
    progress.on_all_read(100 * MIB, count)
    progress.on_loaded(count // 2)
    assert shown.share == pytest.approx(0.75, abs=0.01)
    progress.on_loaded(count // 2)
    assert shown.share == pytest.approx(1, abs=0.01)


def test_it_never_goes_back_when_more_is_found_than_was_expected(shown: Shown) -> None:
    progress = RecoveryProgress(shown)
    progress.on_read(50 * MIB, 100 * MIB, 0)
    before = shown.share
    progress.on_read(51 * MIB, 100 * MIB, 1_000_000)
    assert shown.share == pytest.approx(before, abs=0.001)
    progress.on_all_read(100 * MIB, 2_000_000)
    progress.on_loaded(1)
    assert shown.share == pytest.approx(before, abs=0.001)
    progress.on_loaded(1_999_999)
    assert shown.share == pytest.approx(1, abs=0.001)


def test_definitions_count_too(shown: Shown) -> None:
    progress = RecoveryProgress(shown, definitions=1000)
    progress.on_all_read(0, 0)
    progress.on_restored(500)
    assert shown.points[-1] == (500 * DEFINITION_WORK, 1000 * DEFINITION_WORK)


def test_nothing_is_complete_before_it_is_finished(shown: Shown) -> None:
    progress = RecoveryProgress(shown)
    progress.on_read(MIB, MIB, 0)
    assert shown.share < 1
    progress.on_all_read(MIB, 0)
    progress.on_loaded(10)  # more than was known of
    assert shown.share < 1
    progress.finish()
    assert shown.share == 1


def test_an_empty_directory_is_finished_at_once(shown: Shown) -> None:
    progress = RecoveryProgress(shown)
    progress.on_read(0, 0, 0)
    progress.on_all_read(0, 0)
    progress.finish()
    assert shown.points == [(0, 0)]
