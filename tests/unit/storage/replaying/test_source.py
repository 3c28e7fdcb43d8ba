"""What a replay makes of a message: published anew, but for what its first life has used up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.message import (
    TRANSIENT,
    UNWRITTEN,
    Facts,
    Message,
    Table,
    Timestamp,
    dead_letter,
    encode_fields,
    large_message,
)
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.message import LARGE, MessageRecord
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.replaying.range import Replayable
from hareline.storage.replaying.source import ReplaySource, replayed
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.large_bodies import LargeBodies
from hareline.storage.store.message_records import options_of
from hareline.storage.store.state import RecoveredState
from tests.support.encoders import encode_message
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.store_stand import FakeEntry, persistent

NOW_MS = ARRIVAL_MS + 1_000_000


def dead(message: Message) -> Message:
    """A dead letter whose history is made up."""
    history = encode_fields(Table({"x-death": [Table({"count": 1, "queue": "q"})]}))
    parts = message.parts
    octets = parts.with_fields(parts.fields + history)
    made = dead_letter(message, octets, message.address, ARRIVAL_MS, len(history))
    assert made.history_size == len(history)
    return made


# ------------------------------------------------------------------------ a message again


def test_a_replayed_message_says_where_it_was_and_when_it_came_there() -> None:
    message = make_message(
        b"body", exchange="x", routing_key="k", delivery_mode=2, content_type="a/b", priority=4
    )
    message.arrival_ms = ARRIVAL_MS + 999
    made = replayed(message, "größe", NOW_MS)
    assert made.headers == {
        "x-replayed-from": "größe",
        "x-replayed-arrival": Timestamp(ARRIVAL_MS // 1000),
    }
    assert isinstance(made.headers["x-replayed-arrival"], Timestamp)
    properties = made.properties
    assert (properties.content_type, properties.priority, properties.delivery_mode) == ("a/b", 4, 2)
    assert (made.body, made.size, made.address) == (b"body", 4, message.address)
    assert made.arrival_ms == NOW_MS


@pytest.mark.parametrize("position", [TRANSIENT, 5 << 32])
def test_what_was_persistent_is_to_be_written_again_and_nothing_else(position: int) -> None:
    for mode, expected in ((2, UNWRITTEN), (1, TRANSIENT), (None, TRANSIENT)):
        message = make_message(b"x", delivery_mode=mode)
        message.position = position
        assert replayed(message, "q", NOW_MS).position == expected
        assert message.position == position


def test_the_publisher_s_headers_stay_and_those_of_an_earlier_replay_do_not() -> None:
    first = replayed(make_message(b"x", headers=Table({"a": 1, "b": "two"})), "q1", NOW_MS)
    again = replayed(first, "q2", NOW_MS + 5)
    assert again.headers == {
        "a": 1,
        "b": "two",
        "x-replayed-from": "q2",
        "x-replayed-arrival": Timestamp(NOW_MS // 1000),
    }


def test_a_time_to_live_is_over() -> None:
    message = make_message(b"x", expiration="1000", reply_to="r", message_id="m")
    made = replayed(message.expiring_at(ARRIVAL_MS + 1000), "q", NOW_MS)
    assert (made.extras, made.expires_at_ms) == (None, 0)
    assert made.properties.expiration is None
    assert (made.properties.reply_to, made.properties.message_id) == ("r", "m")


def test_of_a_dead_letter_the_history_is_a_header_like_any_other() -> None:
    made = replayed(dead(make_message(b"x", headers=Table({"a": 1}))), "q", NOW_MS)
    assert (made.extras, made.history_size) == (None, 0)
    assert list(made.headers) == ["a", "x-death", "x-replayed-from", "x-replayed-arrival"]


# ---------------------------------------------------------------------------- the source


class Stand:
    """A store on a real disk, with what a source needs besides."""

    def __init__(self, directory: Path, retention_age_s: int = 60) -> None:
        files = Files()
        self.definitions = SqliteDefinitions(directory / FILE_NAME)
        self.syncer = InlineSyncer()
        self.bodies = LargeBodies(files, str(directory / "large"), now_ms=1)
        journal = str(directory / "journal")
        self.store = DurableStore(
            journal,
            str(directory / "spool"),
            files=files,
            syncer=self.syncer,
            segment_bytes=1 << 20,
            retention_age_s=retention_age_s,
            bodies=self.bodies,
        )
        self.store.start(RecoveredState())
        self.step()
        self.source = ReplaySource(files, journal, self.definitions, self.store, self.bodies)

    def step(self) -> None:
        while any(delay_s == 0.0 for delay_s, _ in self.syncer.submitted):
            self.syncer.step()

    def found(self, *queue_ids: int) -> list[Replayable]:
        history = self.source.open(queue_ids, 0, 2 * ARRIVAL_MS)
        while history.look():
            continue
        records: list[Replayable] = []
        while (piece := history.read()) is not None:
            records += piece
        history.close()
        return records

    def close(self) -> None:
        self.store.close()
        self.definitions.close()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path)
    yield made
    made.close()


def test_what_the_store_has_written_is_found_and_what_it_is_about_to_write_is_not(
    stand: Stand,
) -> None:
    ledger = stand.store.open_queue(1, "q")
    ledger.add(FakeEntry(persistent(b"written"), 0))
    stand.store.write_pending()
    assert stand.found(1) == []
    stand.step()
    (record,) = stand.found(1)
    message = stand.source.message_of(record)
    assert (message.body, message.position) == (b"written", record.position)
    assert stand.found(2) == []


def test_whether_what_was_settled_is_kept_is_the_store_s_to_say(tmp_path: Path) -> None:
    for age_s, name in ((0, "off"), (60, "on")):
        (tmp_path / name).mkdir()
        stand = Stand(tmp_path / name, age_s)
        assert stand.source.is_kept == bool(age_s)
        stand.close()


def test_queues_are_found_by_name_those_that_are_gone_too(stand: Stand) -> None:
    assert stand.source.queue_ids("/", "q") == []
    first = stand.definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    stand.definitions.add_queue("other", "q", is_auto_delete=False, arguments={})
    stand.definitions.delete_queue("/", "q")
    second = stand.definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    assert stand.source.queue_ids("/", "q") == [first, second]


def test_a_large_message_is_replayed_while_its_body_is_there(stand: Stand) -> None:
    draft = stand.bodies.begin(5)
    draft.add(b"large")
    body = draft.finish()
    frame = make_message(bytes(5), delivery_mode=2)
    letter = large_message(frame.address, frame.content[: frame.header_size], body, ARRIVAL_MS)
    letter.extras = Facts(history_size=4, large=body)
    flags, _ = options_of(letter)
    assert flags & LARGE
    record = MessageRecord(
        flags, ARRIVAL_MS, 0, letter.header_size, 5, [], 0, 4, (), body.large_id,
        letter.address.octets, letter.content,
    )  # fmt: skip
    replayable = Replayable(77, b"".join(encode_message(record)))
    made = replayed(stand.source.message_of(replayable), "q", NOW_MS)
    assert made.large is body
    assert (made.body, made.position, made.arrival_ms) == (b"large", UNWRITTEN, NOW_MS)
    assert (made.history_size, made.is_from_default) == (0, False)
    assert made.headers["x-replayed-from"] == "q"
    Path(stand.bodies.path_of(body.large_id)).unlink()
    with pytest.raises(StoreError, match=r"large message is gone: .*No such file"):
        stand.source.message_of(replayable)
