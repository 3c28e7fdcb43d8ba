"""Octets of the journal, held against the page that promises them."""

from __future__ import annotations

import re
from pathlib import Path

from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    CHECKPOINT,
    KIND_NAMES,
    RECORD_HEAD,
    RECORD_PREFIX,
    Batch,
    encode_batch,
)
from hareline.storage.journal.format.header import header_size
from hareline.storage.journal.format.message import (
    ALL_MESSAGE_FLAGS,
    ENTRY,
    KIND_AND_MESSAGE_HEAD,
    MESSAGE_HEAD,
)
from hareline.storage.journal.format.records import Checkpoint
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.encoders import encode_checkpoint
from tests.support.segments import SegmentWriter, message, settle

PAGE = Path(__file__).resolve().parents[5] / "docs" / "journal-format.md"


def test_the_example_of_the_page_is_what_is_written() -> None:
    page = PAGE.read_text(encoding="utf-8")
    example = page.partition("## Example")[2].partition("```\n")[2].partition("```")[0]
    promised = b""
    for line in example.splitlines():
        offset, octets = line[:4], line[6:30]
        assert int(offset, 16) == len(promised), line
        promised += bytes.fromhex(octets)
    files = ForgetfulFiles()
    journal = SegmentWriter(files)
    journal.begin(1, salt=0x01020304, size_bytes=4096)
    journal.batch((CHECKPOINT, encode_checkpoint(Checkpoint(0, []))), message((7, 0), (9, 41)))
    journal.batch(settle((7, 0, 1)))
    assert files.content(journal.path(1)) == promised.ljust(4096, b"\0")
    assert f"`{journal.tail.seed:08x}`" in page


def test_the_page_names_every_kind_by_its_number() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kinds = dict(re.findall(r"^\| (\d+) \| ([A-Z]+) \|", page, re.MULTILINE))
    assert kinds == {str(number): name for number, name in KIND_NAMES.items()}


def test_the_page_names_every_flag_of_a_message() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("### MESSAGE")[2].partition("\n## ")[0]
    flags = [int(number) for number in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)]
    assert sum(flags) == ALL_MESSAGE_FLAGS
    assert len(flags) == len(set(flags))


def test_sizes_that_the_page_says() -> None:
    assert ENTRY.size == 15
    assert header_size(3) - header_size(0) == 36
    assert KIND_AND_MESSAGE_HEAD.size == MESSAGE_HEAD.size + 1
    assert RECORD_HEAD.size == RECORD_PREFIX.size + 1
    assert len(encode_batch(Batch(1, 2, 3, 4, 5, 6), 0)) == BATCH_SIZE
