"""The changes of a turn are durable together; if they are lost, they are undone."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.definitions.sqlite import SqliteDefinitions


def add(definitions: SqliteDefinitions, name: str) -> int:
    return definitions.add_queue("/", name, is_auto_delete=False, arguments={})


class Gathering:
    """``definitions`` gather, and ``seen`` is what a broker that started now would have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turns = 0
        self.definitions = SqliteDefinitions(path)
        self.definitions.gather(self._ask)
        self.undone: list[str] = []
        self.told: list[str] = []

    def _ask(self) -> None:
        self.turns += 1

    def add(self, name: str) -> int:
        queue_id = add(self.definitions, name)
        self.definitions.undo_if_lost(lambda _: self.undone.append(name))
        return queue_id

    def tell(self, error: StoreError) -> None:
        self.told.append(error.explanation)

    @property
    def seen(self) -> list[str]:
        connection = sqlite3.connect(self.path)
        try:
            return [name for (name,) in connection.execute("SELECT name FROM queues ORDER BY id")]
        finally:
            connection.close()


@pytest.fixture
def gathering(path: Path) -> Iterator[Gathering]:
    gathering = Gathering(path)
    yield gathering
    gathering.definitions.close()


@contextmanager
def no_room(path: Path) -> Iterator[None]:
    """The write-ahead log cannot grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.with_name(path.name + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestGathered:
    def test_changes_are_durable_together(self, gathering: Gathering) -> None:
        for name in "abc":
            gathering.add(name)
        assert gathering.seen == []
        assert gathering.turns == 1, "asked for once"
        assert [queue.name for queue in gathering.definitions.queues("/")] == ["a", "b", "c"]
        gathering.definitions.commit()
        assert gathering.seen == ["a", "b", "c"]
        gathering.add("d")
        assert gathering.turns == 2
        gathering.definitions.commit()
        assert gathering.seen == ["a", "b", "c", "d"]
        assert gathering.undone == []

    def test_what_dies_before_the_commit_has_never_been(self, path: Path) -> None:
        script = (
            "import os, pathlib, sys\n"
            "from hareline.storage.definitions.sqlite import SqliteDefinitions\n"
            "definitions = SqliteDefinitions(pathlib.Path(sys.argv[1]))\n"
            "definitions.gather(lambda: None)\n"
            "for name in 'ab':\n"
            "    definitions.add_queue('/', name, is_auto_delete=False, arguments={})\n"
            "    if name == 'a': definitions.commit()\n"
            "os._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        definitions = SqliteDefinitions(path)
        assert [queue.name for queue in definitions.queues("/")] == ["a"]
        definitions.close()

    def test_nothing_to_commit_is_no_transaction(self, gathering: Gathering) -> None:
        gathering.definitions.commit()
        gathering.definitions.undo_if_lost(lambda _: gathering.undone.append("nothing"))
        gathering.definitions.tell_if_lost(gathering.tell)
        gathering.add("a")
        with no_room(gathering.path):
            gathering.definitions.commit()
        assert (gathering.undone, gathering.told) == (["a"], [])

    def test_a_change_that_cannot_be_made_leaves_the_others(
        self, gathering: Gathering, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gathering.add("a")
        monkeypatch.setattr("hareline.storage.definitions.sqlite.QUEUE_ID_MAX", 1)
        with pytest.raises(StoreError, match="all 1 queue ids"):
            gathering.add("b")
        gathering.definitions.bind("/", "amq.topic", "queue", "a", "k", {})
        gathering.definitions.commit()
        assert gathering.seen == ["a"]
        assert len(gathering.definitions.bindings("/")) == 1

    def test_a_commit_that_fails_undoes_all_and_then_tells(self, gathering: Gathering) -> None:
        first = gathering.add("before")
        gathering.definitions.commit()
        lost = [gathering.add("a"), gathering.add("b")]
        for _ in range(2):
            gathering.definitions.tell_if_lost(gathering.tell)
        with no_room(gathering.path):
            gathering.definitions.commit()
        assert gathering.undone == ["b", "a"]
        assert len(gathering.told) == 1
        assert str(gathering.path) in gathering.told[0]
        assert gathering.seen == ["before"]
        assert not gathering.definitions.has_gathered
        after = gathering.add("a")
        assert after > max(first, *lost), "an id is used once"
        gathering.definitions.commit()
        assert gathering.seen == ["before", "a"]
        assert gathering.add("c") == after + 1

    def test_deletions_that_are_lost_are_made_with_the_next_change(
        self, gathering: Gathering
    ) -> None:
        definitions = gathering.definitions
        for name in ("q", "r"):
            gathering.add(name)
        add_exchange = partial(
            definitions.add_exchange, "/", "e", "topic", is_auto_delete=False, is_internal=False
        )
        add_exchange(arguments={}, queue="own")
        definitions.bind("/", "e", "queue", "q", "old", {})
        definitions.commit()
        with no_room(gathering.path):
            definitions.delete_queue("/", "q")
            definitions.delete_exchange("/", "e", queue="own")
            definitions.commit()
            definitions.bind("/", "amq.topic", "queue", "r", "k", {})  # lost as well
            definitions.commit()
        assert gathering.seen == ["q", "r", "own"]
        gathering.add("q")
        add_exchange(arguments={}, queue="own")
        definitions.commit()
        assert gathering.seen == ["r", "q", "own"]
        assert definitions.bindings("/") == []

    def test_what_undoing_changes_is_made_durable_too(self, gathering: Gathering) -> None:
        gathering.add("there")
        gathering.definitions.commit()
        gathering.add("a")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def delete(_: StoreError) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            gathering.definitions.delete_queue("/", "there")

        gathering.definitions.undo_if_lost(delete)
        with no_room(gathering.path):
            gathering.definitions.commit()
        assert gathering.seen == []

    def test_once_the_transaction_is_given_up_no_change_of_the_turn_is_made(
        self, gathering: Gathering
    ) -> None:
        execute = gathering.definitions._connection.execute
        execute(
            "CREATE TEMP TRIGGER broken BEFORE INSERT ON queues WHEN new.name = 'b'"
            " BEGIN SELECT RAISE(ROLLBACK, 'disk I/O error'); END"
        )
        gathering.add("a")
        with pytest.raises(StoreError, match="disk I/O error"):
            gathering.add("b")
        gathering.definitions.tell_if_lost(gathering.tell)
        with pytest.raises(StoreError, match="disk I/O error"):
            gathering.definitions.delete_queue("/", "a")
        with pytest.raises(StoreError, match="disk I/O error"):
            gathering.add("d")
        gathering.definitions.commit()
        assert gathering.undone == ["a"]
        assert gathering.told == [f"{gathering.path}: disk I/O error"]
        gathering.add("c")
        gathering.definitions.commit()
        assert gathering.seen == ["c"]

    def test_a_segment_is_noted_at_once_with_all_that_has_gathered(
        self, gathering: Gathering
    ) -> None:
        gathering.add("a")
        gathering.definitions.note_segment(7)
        assert gathering.seen == ["a"]
        assert gathering.definitions.newest_segment == 7

    def test_closing_commits(self, path: Path) -> None:
        gathering = Gathering(path)
        gathering.add("a")
        gathering.definitions.close()
        assert gathering.seen == ["a"]
