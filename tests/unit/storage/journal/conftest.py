"""A journal in memory whose files a test can damage."""

from __future__ import annotations

import pytest

from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import SegmentWriter


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


@pytest.fixture
def journal(files: ForgetfulFiles) -> SegmentWriter:
    return SegmentWriter(files)
