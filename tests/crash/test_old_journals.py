"""A broker that starts on the journal of a former build has its messages.

``test_old_formats`` says what the records of these fixtures are; here a whole broker, which knows
the queues that they name, puts them back, and the next journal is of the present format.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Final
from zlib import crc32

import pytest
from pamqp import commands

from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from tests.support.broker_process import BrokerFailed, BrokerProcess
from tests.support.raw_client import RawClient

FIXTURES: Final = Path(__file__).parent / "fixtures"
QUEUE_IDS: Final = {7: "tasks", 9: "copies"}
LARGE_ID: Final = 0xFEED
LARGE_BODY: Final = b"x" * 9


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    yield broker
    broker.kill()


def lay_out(data_dir: Path, version: int) -> None:
    """The data directory as that build left it."""
    (data_dir / "journal").mkdir(parents=True)
    for path in (FIXTURES / f"version-{version}").glob("*.segment"):
        shutil.copyfile(path, data_dir / "journal" / f"{path.stem}.log")
    definitions = SqliteDefinitions(data_dir / FILE_NAME)
    for number in range(1, max(QUEUE_IDS) + 1):
        name = QUEUE_IDS.get(number, f"gone-{number}")
        queue_id = definitions.add_queue("/", name, is_auto_delete=False, arguments={})
        assert queue_id == number
        if number not in QUEUE_IDS:
            definitions.delete_queue("/", name)
    definitions.close()
    (data_dir / "large").mkdir()
    octets = LARGE_BODY + pack("<8sQQ", b"HLBODY\x00\x01", LARGE_ID, len(LARGE_BODY))
    octets += pack("<I", crc32(octets))
    (data_dir / "large" / f"{LARGE_ID:016x}").write_bytes(octets)


def contents(broker: BrokerProcess, queue: str) -> list[tuple[bytes, bool]]:
    """Body and redelivered flag of each, which are all put back."""
    with RawClient((broker.host, broker.port)).open() as client:
        count = client.ready_count(queue)
        found = []
        for _ in range(count):
            client.send(commands.Basic.Get(queue=queue))
            method, body = client.read_content()
            assert isinstance(method, commands.Basic.GetOk)
            found.append((body, bool(method.redelivered)))
        client.close()
    return found


@pytest.mark.acceptance
def test_version_1_comes_back_to_its_queues(broker: BrokerProcess) -> None:
    lay_out(broker.data_dir, 1)
    broker.start()
    # One is settled, one came back three times; the cover was void at the end.
    assert contents(broker, "tasks") == [(b"", False), (b"dead", True)]
    assert contents(broker, "copies") == [(b"hi", False), (LARGE_BODY, True)]
    broker.stop()
    broker.start()
    assert contents(broker, "tasks") == [(b"", True), (b"dead", True)]
    assert contents(broker, "copies") == [(b"hi", True), (LARGE_BODY, True)]
    broker.stop()


@pytest.mark.acceptance
def test_version_2_comes_back_to_its_queues(broker: BrokerProcess) -> None:
    lay_out(broker.data_dir, 2)
    broker.start()
    assert contents(broker, "tasks") == [(b"hi", False), (b"part", False), (b"end", False)]
    assert contents(broker, "copies") == [(b"hi", False)]
    broker.stop()
    broker.start()
    assert contents(broker, "tasks") == [(b"hi", True), (b"part", True), (b"end", True)]
    assert contents(broker, "copies") == [(b"hi", True)]
    broker.stop()


def test_a_journal_of_a_newer_build_is_not_touched(broker: BrokerProcess) -> None:
    lay_out(broker.data_dir, 99)
    (path,) = (broker.data_dir / "journal").iterdir()
    before = path.read_bytes()
    with pytest.raises(
        BrokerFailed, match="journal format version 99; this build reads version 1, 2, 3"
    ):
        broker.start()
    assert broker.process is not None
    assert broker.process.returncode == 1
    assert path.read_bytes() == before
