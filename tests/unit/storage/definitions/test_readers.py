"""Positions of readers come back, and go with their queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hareline.errors import StoreError
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.interface import StoredReader
from hareline.storage.journal.syncer import InlineSyncer

from .conftest import refusing

NO_UTF8 = b"caf\xe9".decode("utf-8", "surrogateescape")

Open = Callable[[], SqliteDefinitions]


def add_queue(definitions: SqliteDefinitions, name: str = "s") -> int:
    return definitions.add_queue("/", name, is_auto_delete=False, arguments={})


def write(
    definitions: SqliteDefinitions, *readers: StoredReader, gone: tuple[tuple[int, str], ...] = ()
) -> list[StoreError]:
    """Returns what says that the change was lost, later."""
    lost: list[StoreError] = []
    changed: dict[tuple[int, str], StoredReader | None] = dict.fromkeys(gone)
    changed.update({(each.queue_id, each.name): each for each in readers})
    definitions.reader_store.write_readers(changed, lost.append)
    return lost


def test_readers_come_back_as_they_were_put_last(reopened: Open) -> None:
    definitions = reopened()
    queue_id, other_id = add_queue(definitions), add_queue(definitions, "other")
    first = StoredReader(queue_id, NO_UTF8, 5, True, 1_000)
    write(definitions, first, StoredReader(queue_id, "b", 1, False, 1_000))
    moved = StoredReader(queue_id, "b", (1 << 63) - 1, True, 2_000)
    write(definitions, moved, StoredReader(other_id, "b", 3, False, 1))
    assert definitions.reader_store.readers(queue_id) == [moved, first]
    definitions = reopened()
    assert definitions.reader_store.readers(queue_id) == [moved, first]
    write(definitions, gone=((queue_id, NO_UTF8), (queue_id, "never seen")))
    assert reopened().reader_store.readers(queue_id) == [moved]


def test_readers_go_with_their_queue_alone(reopened: Open) -> None:
    definitions = reopened()
    queue_id, other_id = add_queue(definitions), add_queue(definitions, "other")
    for each in (queue_id, other_id):
        write(definitions, StoredReader(each, "r", 1, False, 1))
    definitions.delete_queue("/", "s")
    assert reopened().reader_store.readers(queue_id) == []
    assert len(reopened().reader_store.readers(other_id)) == 1


def test_nothing_is_written_for_a_queue_that_is_not_there(reopened: Open) -> None:
    definitions = reopened()
    write(definitions, StoredReader(77, "r", 1, False, 1))
    assert definitions.reader_store.readers(77) == []


def test_what_is_lost_is_told(reopened: Open, path: Path) -> None:
    definitions = reopened()
    queue_id = add_queue(definitions)
    asked: list[str] = []
    definitions.file.gather(InlineSyncer(is_automatic=True), lambda: asked.append("turn"))
    lost = write(definitions, StoredReader(queue_id, "r", 1, False, 1))
    assert asked == ["turn"]
    with refusing(path, "readers"):
        definitions.file.commit()
    assert len(lost) == 1
    assert definitions.reader_store.readers(queue_id) == []
