"""kill -9 at any moment: nothing confirmed is lost, nothing whose end was durable comes back.

CRASH_ROUNDS says how often a broker is killed (8 if nothing is said, 200 by `make crash`);
CRASH_SEED tells one story again, which a failure prints with the directory it has left behind.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crash.stories import Story

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
LIVES_A_STORY = 4
SEED = os.environ.get("CRASH_SEED")
STORIES = 1 if SEED else -(-ROUNDS // LIVES_A_STORY)

pytestmark = [pytest.mark.acceptance, pytest.mark.crash]


@pytest.mark.row("D8")
@pytest.mark.parametrize("number", range(STORIES))
def test_what_was_confirmed_survives_kill_9(number: int, tmp_path: Path) -> None:
    seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32)
    story = Story(tmp_path, seed)
    print(f"story of seed {seed}, again with CRASH_SEED={seed}; in {tmp_path}")
    try:
        for life in range(LIVES_A_STORY):
            story.live(is_first=life == 0)
        story.finish()
    except BaseException:
        print("\n".join(story.told))
        raise
    finally:
        story.broker.kill()
    book = story.book
    print(
        f"{book.confirmed_count} confirmed, {book.received_count} received, "
        f"{book.ended_count} ended for sure"
    )
    assert book.confirmed_count
