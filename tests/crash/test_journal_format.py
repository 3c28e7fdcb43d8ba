"""A journal kept as files, with each kind of record: another layout needs another version.

``fixtures/version-N`` holds segments of that version, each ``<number>.segment`` a file that a
broker would call ``<number>.log``. They are never made anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.header import VERSION, UnsupportedVersion
from hareline.storage.journal.format.message import (
    DEAD_LETTER,
    FROM_DEFAULT,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    LARGE,
    MOVED,
    Entry,
    MessageRecord,
    decode_message,
)
from hareline.storage.journal.format.positions import position_of, segment_name
from hareline.storage.journal.format.records import (
    DECODERS,
    Checkpoint,
    CheckpointQueue,
    Cover,
    KeptSequence,
    Part,
    Producers,
    Returned,
    Run,
)
from hareline.storage.journal.inspect import verify
from hareline.storage.journal.reader import JournalReader
from tests.support.broker_process import BrokerFailed, BrokerProcess
from tests.support.segments import Listener, read_all

FIXTURES: Final = Path(__file__).parent / "fixtures"
TIME_MS: Final = 1_700_000_000_000


def _journal(version: int, directory: Path) -> str:
    """The fixture under the names that a broker gives."""
    for path in (FIXTURES / f"version-{version}").glob("*.segment"):
        shutil.copyfile(path, directory / f"{path.stem}.log")
    return str(directory)


def _header_frame(size: int) -> bytes:
    return bytes.fromhex("020001 0000000e 003c0000") + size.to_bytes(8, "big") + b"\0\0\xce"


def _content(body: bytes) -> bytes:
    head = _header_frame(len(body))
    return head + b"\x03\0\x01" + len(body).to_bytes(4, "big") + body + b"\xce" if body else head


def _message(body: bytes, *entries: Entry, flags: int = 0, large_id: int = 0) -> MessageRecord:
    return MessageRecord(
        flags=flags,
        arrival_ms=TIME_MS,
        channel=1,
        header_size=22,
        size=len(body),
        entries=list(entries),
        expires_at_ms=0,
        history_size=0,
        blind_keys=(),
        large_id=large_id,
        address=b"\0\x05tasks",
        content=_header_frame(len(body)) if large_id else _content(body),
    )


_DECODERS: Final = {MESSAGE: decode_message, **DECODERS}

MESSAGES: Final = [
    [
        Checkpoint(0, [CheckpointQueue(7, 0, 0)]),
        _message(b"hi", Entry(7, 0, 0, 0), Entry(9, 41, 0, 0)),
        _message(b"", Entry(7, 1, 0, 0)),
    ],
    [
        _message(
            b"dead",
            Entry(7, 2, 0, 0),
            flags=HAS_EXPIRY | DEAD_LETTER | FROM_DEFAULT | HAS_BLIND_KEYS,
        )._replace(expires_at_ms=TIME_MS + 5000, history_size=5, blind_keys=(b"hidden", b"keys")),
        [Cover(7, 4099)],
        [Run(7, 0, 1)],
    ],
    [
        Checkpoint(position_of(1, 100), [CheckpointQueue(7, 3, 4099), CheckpointQueue(9, 42, 0)]),
        [Returned(7, 2, 3)],
    ],
    [_message(b"x" * 9, Entry(9, 42, 1, 1), flags=LARGE | MOVED, large_id=0xFEED)],
    [
        Checkpoint(position_of(3, 0), [CheckpointQueue(7, 3, 0), CheckpointQueue(9, 43, 0)]),
        [1 << 20],
        TIME_MS,
    ],
]


# Two transactions, of which the first came to its end.
TRANSACTIONS: Final = [
    [
        Checkpoint(0, [CheckpointQueue(7, 0, 0)]),
        _message(b"hi", Entry(7, 0, 0, 0), Entry(9, 41, 0, 0)),
        _message(b"part", Entry(7, 1, 0, 0)),
        Part(1, [Run(7, 1, 1)]),
    ],
    [
        Checkpoint(0, [CheckpointQueue(7, 2, 0), CheckpointQueue(9, 42, 0)], (1,)),
        _message(b"end", Entry(7, 2, 0, 0)),
        [1],
    ],
    [
        _message(b"undone", Entry(7, 3, 0, 0), Entry(9, 42, 0, 0)),
        Part(2, [Run(7, 3, 1), Run(9, 42, 1)]),
    ],
]


# Producers, of which one is forgotten by the second segment.
PRODUCER_LISTS: Final = [
    [
        Checkpoint(0, [CheckpointQueue(7, 0, 0)]),
        _message(b"hi", Entry(7, 0, 0, 0)),
        Producers(
            b"/",
            False,
            [
                KeptSequence(b"orders", 5, TIME_MS),
                KeptSequence("\u00e9tage".encode(), 0, TIME_MS + 1),
            ],
        ),
    ],
    [
        _message(b"ho", Entry(7, 1, 0, 0)),
        Producers(b"/", False, [KeptSequence(b"orders", 6, TIME_MS + 2)]),
        Producers(b"other", False, [KeptSequence(b"x" * 255, (1 << 63) - 1, TIME_MS + 3)]),
    ],
    [
        Checkpoint(0, [CheckpointQueue(7, 2, 0)]),
        Producers(b"/", True, [KeptSequence(b"orders", 6, TIME_MS + 2)]),
        Producers(b"other", True, [KeptSequence(b"x" * 255, (1 << 63) - 1, TIME_MS + 3)]),
    ],
]


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = _journal(VERSION, tmp_path)
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(Files(), listener, directory=directory)
    assert [
        [_DECODERS[kind](payload) for _, kind, payload in batch.records] for batch in batches
    ] == [*MESSAGES, *TRANSACTIONS, *PRODUCER_LISTS]
    assert (numbers, strays, listener.torn) == ([1, 2, 3, 4, 5, 6, 7], [], [])
    assert not verify(Files(), directory).is_damaged


def test_a_newer_version_is_refused_by_file_and_number(tmp_path: Path) -> None:
    directory = _journal(99, tmp_path)
    with pytest.raises(UnsupportedVersion) as raised:
        JournalReader(Files(), directory, Listener())
    path = f"{directory}/{segment_name(1)}"
    assert str(raised.value) == f"{path}: journal format version 99; this build reads version 3"


def test_a_newer_version_beside_its_own_is_refused_as_well(tmp_path: Path) -> None:
    directory = _journal(VERSION, tmp_path)
    newer = FIXTURES / "version-99" / f"{1:016x}.segment"
    shutil.copyfile(newer, tmp_path / segment_name(9))
    with pytest.raises(UnsupportedVersion, match=segment_name(9)):
        JournalReader(Files(), directory, Listener())


def test_a_broker_does_not_touch_a_journal_of_a_newer_build(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    directory = broker.data_dir / "journal"
    directory.mkdir(parents=True)
    SqliteDefinitions(broker.data_dir / FILE_NAME).close()
    (path,) = Path(_journal(99, directory)).iterdir()
    before = path.read_bytes()
    with pytest.raises(BrokerFailed, match="journal format version 99; this build reads version 3"):
        broker.start()
    assert broker.process is not None
    assert broker.process.returncode == 1
    assert path.read_bytes() == before
