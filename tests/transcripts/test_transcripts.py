"""Every story in ``stories/`` is told as it is written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.write_features import story_rows

from .replay import Replay
from .transcript import parse

STORIES = [
    pytest.param(
        story,
        id=story.stem,
        marks=pytest.mark.row(*story_rows(story.read_text(encoding="utf-8"))),
    )
    for story in sorted((Path(__file__).parent / "stories").glob("*.txt"))
]


@pytest.mark.parametrize("story", STORIES)
def test_the_broker_says_what_the_transcript_says(story: Path) -> None:
    Replay().run(parse(story.read_text(encoding="utf-8")))
