"""A broker leaves a journal alone that another version has written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from tests.support.broker_process import BrokerFailed, BrokerProcess

SEGMENT: Final = Path(__file__).parent / "fixtures/version-99/0000000000000001.segment"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    yield broker
    broker.kill()


def test_a_journal_of_a_newer_build_is_not_touched(broker: BrokerProcess) -> None:
    path = broker.data_dir / "journal/0000000000000001.log"
    path.parent.mkdir(parents=True)
    SqliteDefinitions(broker.data_dir / FILE_NAME).close()
    shutil.copyfile(SEGMENT, path)
    with pytest.raises(BrokerFailed, match="journal format version 99; this build reads version 3"):
        broker.start()
    assert broker.process is not None
    assert broker.process.returncode == 1
    assert path.read_bytes() == SEGMENT.read_bytes()
