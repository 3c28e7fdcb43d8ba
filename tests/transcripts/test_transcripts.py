"""Every story in ``stories/`` is told as it is written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .replay import Replay
from .transcript import parse

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.stem))
def test_the_broker_says_what_the_transcript_says(story: Path) -> None:
    Replay().run(parse(story.read_text(encoding="utf-8")))
