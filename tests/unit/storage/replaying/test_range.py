"""A replay reads what a running broker's journal still has of a queue, in the queue's order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.errors import StoreError
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.message import MOVED
from hareline.storage.journal.format.positions import position_of, segment_name
from hareline.storage.replaying import range as replay_range
from hareline.storage.replaying.range import CHUNK_MESSAGES, ReplayRange, TooManyMatches
from hareline.storage.store.message_records import MessageReader
from tests.support.journals import (
    NOW_MS,
    JournalBuilder,
    Payload,
    clean_payload,
    message_payload,
    settle_payload,
)
from tests.support.messages import make_message

QUEUE, OTHER = 7, 9
HOUR_MS = 3_600_000


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalBuilder]:
    builder = JournalBuilder(tmp_path / "journal")
    yield builder
    builder.close()


def message(
    body: bytes, *entries: tuple[int, int], arrival_ms: int = NOW_MS, moved: bool = False
) -> Payload:
    made = make_message(body)
    made.arrival_ms = arrival_ms
    return message_payload(made, *entries, flags=MOVED if moved else 0)


def end_of(journal: JournalBuilder) -> int:
    return position_of(journal.segment.number, journal.segment.end)


def range_of(
    journal: JournalBuilder,
    *queue_ids: int,
    from_ms: int = 0,
    to_ms: int = 2 * NOW_MS,
    end: int | None = None,
) -> ReplayRange:
    end = end_of(journal) if end is None else end
    queues = queue_ids or (QUEUE,)
    return ReplayRange(Files(), journal.directory, queues, from_ms, to_ms, end)


def look(history: ReplayRange) -> ReplayRange:
    while history.look():
        continue
    return history


def bodies(history: ReplayRange) -> list[bytes]:
    reader = MessageReader()
    found = []
    while (records := history.read()) is not None:
        found += [reader.message_of(each.payload, each.position).body for each in records]
    history.close()
    return found


def retain(journal: JournalBuilder, number: int) -> Path:
    """What the broker does to a freed segment; the builder's file is open still, as a replay's."""
    source = Path(journal.directory) / segment_name(number)
    target = source.parent / "retained" / source.name
    target.parent.mkdir(exist_ok=True)
    end = dict(journal.segment.header.manifest)[number]
    with source.open("r+b") as file:
        file.truncate(end)
    return source.rename(target)


# --------------------------------------------------------------------------- what is found


def test_messages_of_the_queue_and_the_span_are_found_settled_or_not(
    journal: JournalBuilder,
) -> None:
    journal.begin(1)
    journal.batch(
        message(b"before", (QUEUE, 0), arrival_ms=99),
        message(b"first", (QUEUE, 1), arrival_ms=100),
        message(b"of another", (OTHER, 0), arrival_ms=100),
        message(b"last", (QUEUE, 2), arrival_ms=199),
        message(b"behind", (QUEUE, 3), arrival_ms=200),
    )
    journal.batch(settle_payload((QUEUE, 0, 2)), clean_payload())
    history = look(range_of(journal, from_ms=100, to_ms=200))
    assert history.matches == 2
    assert bodies(history) == [b"first", b"last"]
    assert (history.problems, history.unreadable) == ([], 0)


def test_a_queue_s_messages_come_in_its_order_however_they_stand_in_a_batch(
    journal: JournalBuilder,
) -> None:
    """A message of several queues stands where the first of them has it."""
    journal.begin(1)
    journal.batch(
        message(b"both 1", (OTHER, 0), (QUEUE, 1)),
        message(b"both 3", (OTHER, 1), (QUEUE, 3)),
        message(b"own 0", (QUEUE, 0)),
        message(b"own 2", (QUEUE, 2)),
    )
    journal.batch(message(b"own 4", (QUEUE, 4)))
    found = bodies(look(range_of(journal)))
    assert found == [b"own 0", b"both 1", b"own 2", b"both 3", b"own 4"]


def test_queues_of_one_name_come_one_after_the_other(journal: JournalBuilder) -> None:
    journal.begin(1)
    journal.batch(message(b"old 0", (3, 0)), message(b"old 1", (3, 1)))
    journal.batch(message(b"new 0", (QUEUE, 0)))
    assert bodies(look(range_of(journal, QUEUE, 3))) == [b"old 0", b"old 1", b"new 0"]


def test_what_compaction_has_moved_comes_once_and_in_its_place(journal: JournalBuilder) -> None:
    journal.begin(1)
    journal.batch(message(b"0", (QUEUE, 0)), message(b"1", (QUEUE, 1)))
    journal.begin(2)
    journal.batch(message(b"2", (QUEUE, 2)))
    journal.batch(message(b"0", (QUEUE, 0), moved=True))
    assert bodies(look(range_of(journal))) == [b"0", b"1", b"2"]


def test_what_was_moved_is_read_where_it_is_now_if_the_first_record_is_gone(
    journal: JournalBuilder,
) -> None:
    journal.begin(1)
    journal.batch(message(b"0", (QUEUE, 0)), message(b"1", (QUEUE, 1)))
    journal.begin(2)
    journal.batch(message(b"2", (QUEUE, 2)))
    journal.batch(message(b"0", (QUEUE, 0), moved=True))
    journal.begin(3, without=[1])
    journal.batch(message(b"3", (QUEUE, 3)), message(b"0", (QUEUE, 0), moved=True))
    (Path(journal.directory) / segment_name(1)).unlink()
    assert bodies(look(range_of(journal))) == [b"0", b"2", b"3"]


def test_nothing_is_read_behind_the_end_that_was_durable(journal: JournalBuilder) -> None:
    journal.begin(1)
    journal.batch(message(b"durable", (QUEUE, 0)))
    end = end_of(journal)
    journal.batch(message(b"on its way", (QUEUE, 1)))
    journal.begin(2)
    journal.batch(message(b"later", (QUEUE, 2)))
    assert bodies(look(range_of(journal, end=end))) == [b"durable"]


def test_the_segment_in_front_of_one_that_is_just_being_begun_is_read_to_its_end(
    journal: JournalBuilder,
) -> None:
    """No manifest has its end yet, and what is preallocated behind it is no damage."""
    journal.begin(1)
    journal.batch(message(b"x", (QUEUE, 0)))
    history = look(range_of(journal, end=position_of(2, 60)))
    assert bodies(history) == [b"x"]
    assert history.problems == []


def test_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    history = look(ReplayRange(Files(), str(tmp_path / "journal"), [QUEUE], 0, 1, 0))
    assert (history.read(), history.kept_since_ms) == (None, 0)


def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")
    history = ReplayRange(Files(), str(tmp_path / "journal"), [QUEUE], 0, 1, 0)
    with pytest.raises(StoreError, match=r"journal: Not a directory"):
        history.look()


def test_more_than_a_replay_takes_is_refused_with_advice(
    journal: JournalBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_range, "MATCHES_MAX", 3)
    journal.begin(1)
    journal.batch(*(message(b"x", (QUEUE, offset)) for offset in range(3)))
    assert len(bodies(look(range_of(journal)))) == 3
    journal.batch(message(b"x", (QUEUE, 3)))
    with pytest.raises(TooManyMatches, match="more than 3 messages"):
        look(range_of(journal))


# --------------------------------------------------------------------- while the broker runs


def test_freed_segments_are_read_from_the_folder_of_what_is_retained(
    journal: JournalBuilder,
) -> None:
    for number in (1, 2, 3):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number)))
    retain(journal, 1)
    retain(journal, 2)
    assert bodies(look(range_of(journal))) == [b"1", b"2", b"3"]


def test_what_was_found_is_read_although_retention_takes_it_away_meanwhile(
    journal: JournalBuilder,
) -> None:
    for number in (1, 2, 3):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number)))
    retain(journal, 1)
    history = look(range_of(journal))
    retain(journal, 2)
    for path in (Path(journal.directory) / "retained").iterdir():
        path.unlink()
    assert bodies(history) == [b"1", b"2", b"3"]


def test_of_many_segments_as_many_are_held_as_may_be_and_others_said_to_be_gone(
    journal: JournalBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_range, "HELD_MAX", 2)
    for number in range(1, 6):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number)))
    history = look(range_of(journal))
    for number in (1, 4):
        (Path(journal.directory) / segment_name(number)).unlink()
    assert bodies(history) == [b"1", b"2", b"3", b"5"]
    assert history.unreadable == 1
    assert history.problems == ["segment 0x4 is gone meanwhile, 1 messages in it"]


def test_files_are_closed_at_the_end(journal: JournalBuilder) -> None:
    opened: list[int] = []

    class Counting(Files):
        __slots__ = ()

        def open_to_read(self, path: str) -> int:
            fd = super().open_to_read(path)
            opened.append(fd)
            return fd

        def close(self, fd: int) -> None:
            super().close(fd)
            opened.remove(fd)

    for number in (1, 2, 3):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number)))
    end = end_of(journal)
    history = look(ReplayRange(Counting(), journal.directory, [QUEUE], 0, 2 * NOW_MS, end))
    assert len(opened) == 3
    assert history.read() is not None
    history.close()
    assert opened == []


# ------------------------------------------------------------------------------- damage


def test_a_damaged_batch_is_left_out_and_said_and_reading_goes_on(
    journal: JournalBuilder,
) -> None:
    journal.begin(1)
    journal.batch(message(b"0", (QUEUE, 0)))
    (damaged,) = journal.batch(message(b"1", (QUEUE, 1)))
    start = journal.segment.end
    journal.batch(message(b"2", (QUEUE, 2)))
    journal.batch(message(b"3", (QUEUE, 3)))
    path = Path(journal.segment.path)
    with path.open("r+b") as file:
        file.seek((damaged & 0xFFFF_FFFF) + 20)
        file.write(b"\xff")  # in the record
        file.seek(start + 4)
        file.write(b"\xff\xff\xff\xff")  # the checksum of the head
    history = look(range_of(journal))
    assert bodies(history) == [b"0", b"3"]
    assert [problem.startswith(f"{path}, offset ") for problem in history.problems] == [True] * 2
    assert history.problems[0].endswith("a damaged batch")
    assert history.problems[1].endswith("octets damaged")


def test_a_segment_with_a_damaged_header_is_read_all_the_same(journal: JournalBuilder) -> None:
    journal.begin(1)
    journal.batch(message(b"1", (QUEUE, 1)))
    path = Path(journal.segment.path)
    journal.begin(2)
    journal.batch(message(b"2", (QUEUE, 2)))
    with path.open("r+b") as file:
        file.write(b"LEPORIDA")
    assert bodies(look(range_of(journal))) == [b"1", b"2"]


def test_a_file_that_is_no_segment_is_named(journal: JournalBuilder) -> None:
    journal.begin(1)
    journal.batch(message(b"1", (QUEUE, 1)))
    path = Path(journal.segment.path)
    journal.begin(2)
    journal.batch(message(b"2", (QUEUE, 2)))
    path.write_bytes(bytes(1000))
    history = look(range_of(journal))
    assert bodies(history) == [b"2"]
    assert history.problems
    assert all(str(path) in problem for problem in history.problems)


def test_what_is_damaged_between_finding_and_reading_is_counted(journal: JournalBuilder) -> None:
    journal.begin(1)
    positions = journal.batch(*(message(b"%d" % n, (QUEUE, n)) for n in range(3)))
    history = look(range_of(journal))
    with Path(journal.segment.path).open("r+b") as file:
        file.seek((positions[1] & 0xFFFF_FFFF) + 30)
        file.write(b"\xff\xff")
    assert bodies(history) == [b"0", b"2"]
    assert history.unreadable == 1
    assert "checksum does not match" in history.problems[0]


def test_problems_are_not_kept_without_end(
    journal: JournalBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_range, "PROBLEMS_MAX", 2)
    journal.begin(1)
    journal.batch(*(message(b"x", (QUEUE, n)) for n in range(5)))
    history = look(range_of(journal))
    Path(journal.segment.path).write_bytes(b"")
    assert bodies(history) == []
    assert (history.unreadable, len(history.problems)) == (5, 2)


# -------------------------------------------------------------------------- which segments


def test_segments_that_were_full_long_before_the_span_are_not_read(
    journal: JournalBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number), arrival_ms=NOW_MS + 5 * HOUR_MS))
    opened: list[str] = []
    real = Files.open_to_read

    def watched(self: Files, path: str) -> int:
        opened.append(Path(path).name)
        return real(self, path)

    monkeypatch.setattr(Files, "open_to_read", watched)
    names = [segment_name(number) for number in (1, 2, 3)]
    look(range_of(journal, from_ms=NOW_MS + HOUR_MS + 3)).close()
    assert opened == [*names, *names[1:]]  # all headers first; 2 was full at NOW_MS + 3
    opened.clear()
    look(range_of(journal, from_ms=NOW_MS + 2 * HOUR_MS)).close()
    assert opened == [*names, names[2]]  # the last one is still written to


def test_the_journal_is_complete_from_where_no_number_is_missing(journal: JournalBuilder) -> None:
    for number in (1, 2, 3, 4, 5):
        journal.begin(number)
        journal.batch(message(b"%d" % number, (QUEUE, number)))
    retain(journal, 4)
    assert look(range_of(journal)).kept_since_ms == NOW_MS + 1
    (Path(journal.directory) / segment_name(3)).unlink()
    history = look(range_of(journal))
    assert history.kept_since_ms == NOW_MS + 4
    assert bodies(history) == [b"1", b"2", b"4", b"5"]


# ------------------------------------------------------------------------------- in pieces


def test_a_piece_has_no_more_messages_than_are_published_at_once(journal: JournalBuilder) -> None:
    count = 2 * CHUNK_MESSAGES + 3
    journal.begin(1)
    journal.batch(*(message(b"%d" % offset, (QUEUE, offset)) for offset in range(count)))
    history = look(range_of(journal))
    pieces = []
    while (records := history.read()) is not None:
        pieces.append(len(records))
    history.close()
    assert pieces == [CHUNK_MESSAGES, CHUNK_MESSAGES, 3]


def test_a_piece_has_hardly_more_octets_than_are_published_at_once(tmp_path: Path) -> None:
    journal = JournalBuilder(tmp_path / "journal", segment_bytes=8 << 20)
    journal.begin(1)
    sent = [bytes([offset]) * 300_000 for offset in range(10)]
    journal.batch(*(message(body, (QUEUE, offset)) for offset, body in enumerate(sent)))
    history = look(range_of(journal))
    sizes, found = [], []
    while (records := history.read()) is not None:
        sizes.append(sum(len(each.payload) for each in records))
        found += [each.payload[-2] for each in records]
    history.close()
    journal.close()
    assert found == list(range(10))
    assert max(sizes) < replay_range.CHUNK_BYTES + 310_000


# --------------------------------------------------------------------------------- a model


@st.composite
def _histories(draw: st.DrawFn) -> list[list[list[tuple[str, int]]]]:
    """Segments of batches of what happens to which queue: "own", "both", "other", "move"."""
    step = st.tuples(st.sampled_from(["own", "both", "other", "move"]), st.integers(0, 30))
    batch = st.lists(step, min_size=1, max_size=6)
    return draw(st.lists(st.lists(batch, min_size=1, max_size=4), min_size=1, max_size=5))


@given(
    segments=_histories(),
    retained=st.sets(st.integers(1, 4)),
    gone=st.sets(st.integers(1, 4)),
    held_max=st.integers(1, 3),
)
def test_each_message_of_which_there_is_a_record_comes_once_and_in_order(
    segments: list[list[list[tuple[str, int]]]],
    retained: set[int],
    gone: set[int],
    held_max: int,
) -> None:
    with TemporaryDirectory() as directory:
        _check(Path(directory), segments, retained, gone, held_max)


def _check(
    directory: Path,
    segments: list[list[list[tuple[str, int]]]],
    retained: set[int],
    gone: set[int],
    held_max: int,
) -> None:
    journal = JournalBuilder(directory / "journal", segment_bytes=65_536)
    known: dict[int, set[int]] = {}  # offset to the segments with a record of it
    next_offset = other_offset = 0
    for number, batches in enumerate(segments, 1):
        journal.begin(number)
        for steps in batches:
            shared, own, moved = [], [], []
            for kind, choice in steps:
                if kind == "move":
                    if choice in known:
                        moved.append(message(b"%d" % choice, (QUEUE, choice), moved=True))
                        known[choice].add(number)
                    continue
                if kind == "other":
                    shared.append(message(b"other", (OTHER, other_offset)))
                else:
                    body = b"%d" % next_offset
                    entries = [(QUEUE, next_offset)]
                    if kind == "both":
                        shared.append(message(body, (OTHER, other_offset), *entries))
                    else:
                        own.append(message(body, *entries))
                    known[next_offset] = {number}
                    next_offset += 1
                other_offset += kind != "own"
            journal.batch(*shared, *own, *moved, clean_payload())
    tail = len(segments)
    for number in retained:
        if number < tail and number not in gone:
            retain(journal, number)
    for number in gone:
        if number < tail:
            (Path(journal.directory) / segment_name(number)).unlink()
    lost = {number for number in gone if number < tail}
    expected = [b"%d" % offset for offset in sorted(known) if known[offset] - lost]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_range, "HELD_MAX", held_max)
        history = look(range_of(journal))
        assert bodies(history) == expected
    journal.close()
    assert history.problems == []
