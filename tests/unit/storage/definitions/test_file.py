"""Changes are written together, beside the loop; if they are lost, they are undone."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.syncer import InlineSyncer

from .conftest import refusing


def add(definitions: SqliteDefinitions, name: str) -> int:
    return definitions.add_queue("/", name, is_auto_delete=False, arguments={})


class Gathering:
    """``definitions`` gather, and ``seen`` is what a broker that started now would have.

    ``undone``, ``told``: the calls back; what is told of is "" or the start of an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turns = 0
        self.disk = InlineSyncer()
        self.definitions = SqliteDefinitions(path)
        self.definitions.file.gather(self.disk, self._ask)
        self.undone: list[str] = []
        self.told: list[str] = []

    def _ask(self) -> None:
        self.turns += 1

    def add(self, name: str) -> int:
        queue_id = add(self.definitions, name)
        self.definitions.undo_if_lost(lambda _: self.undone.append(name))
        return queue_id

    def tell(self, error: StoreError | None) -> None:
        self.told.append("" if error is None else error.explanation)

    def write(self) -> None:
        """One turn, and all that the disk does then."""
        self.definitions.file.commit()
        self.disk.drain()

    @property
    def seen(self) -> list[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM queues ORDER BY id")]


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


class TestWhatGathers:
    def test_changes_are_durable_together(self, gathering: Gathering) -> None:
        for name in "abc":
            gathering.add(name)
        assert gathering.turns == 1, "asked for once"
        gathering.definitions.file.commit()
        assert gathering.seen == []
        assert gathering.disk.step()
        assert gathering.seen == ["a", "b", "c"]
        assert not gathering.disk.step()
        assert gathering.undone == []

    def test_more_gathers_while_the_disk_is_busy(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.definitions.file.commit()
        for name in "bc":
            gathering.add(name)
            gathering.definitions.file.commit()
        before = gathering.turns
        assert gathering.disk.step()
        assert gathering.seen == ["a"]
        assert gathering.turns == before + 1, "for what has gathered"
        gathering.definitions.file.commit()
        assert gathering.disk.step()
        assert gathering.seen == ["a", "b", "c"]
        assert not gathering.disk.step()

    def test_queues_are_added_and_deleted_until_that_is_durable(self, gathering: Gathering) -> None:
        definitions = gathering.definitions
        first = gathering.add("a")
        definitions.file.commit()
        second = gathering.add("b")
        assert definitions.file.added_queues() == {first, second}
        gathering.disk.step()
        assert definitions.file.added_queues() == {second}
        gathering.write()
        assert definitions.file.added_queues() == set()
        definitions.delete_queue("/", "a", queue_id=first)
        assert [definitions.file.is_deleting(each) for each in (first, second)] == [True, False]
        definitions.file.commit()
        assert definitions.file.is_deleting(first)
        gathering.disk.step()
        assert not definitions.file.is_deleting(first)

    def test_who_waits_is_told_once_for_what_there_was(self, gathering: Gathering) -> None:
        settled = gathering.definitions.when_settled
        assert not settled(gathering.tell, "/"), "there is nothing to wait for"
        gathering.add("a")
        assert settled(gathering.tell, "/")
        assert not settled(gathering.tell, "/"), "it waits already"
        gathering.definitions.file.commit()
        assert not settled(gathering.tell, "/")
        gathering.add("b")
        assert settled(gathering.tell, "/")
        gathering.disk.step()
        assert gathering.told == [""]
        gathering.write()
        assert gathering.told == ["", ""]

    def test_who_names_something_waits_for_that_alone(self, gathering: Gathering) -> None:
        settled = gathering.definitions.when_settled
        gathering.add("a")
        gathering.definitions.file.commit()
        gathering.definitions.bind("/", "x", "queue", "b", "", {})
        assert not settled(gathering.tell, "/", "c")
        assert not settled(gathering.tell, "v", "a", "b", "x")
        assert settled(gathering.tell, "/", "c", "a")
        gathering.disk.step()
        assert gathering.told == [""], "of the first, though more has gathered"
        for name in "bx":
            assert settled(lambda _: None, "/", name)
        gathering.write()
        assert not settled(gathering.tell, "/", "a")

    def test_what_dies_before_it_is_written_has_never_been(self, path: Path) -> None:
        script = (
            "import os, pathlib, sys\n"
            "from hareline.storage.definitions.sqlite import SqliteDefinitions\n"
            "from hareline.storage.journal.syncer import InlineSyncer\n"
            "definitions = SqliteDefinitions(pathlib.Path(sys.argv[1]))\n"
            "definitions.file.gather(InlineSyncer(is_automatic=True), lambda: None)\n"
            "for name in 'ab':\n"
            "    definitions.add_queue('/', name, is_auto_delete=False, arguments={})\n"
            "    if name == 'a': definitions.file.commit()\n"
            "os._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        with closing(SqliteDefinitions(path)) as definitions:
            assert [queue.name for queue in definitions.queues("/")] == ["a"]

    def test_a_queue_without_an_id_is_refused_alone(
        self, gathering: Gathering, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gathering.add("a")
        monkeypatch.setattr("hareline.storage.definitions.sqlite.QUEUE_ID_MAX", 1)
        with pytest.raises(StoreError, match="all 1 queue ids"):
            gathering.add("b")
        gathering.definitions.bind("/", "amq.topic", "queue", "a", "k", {})
        gathering.write()
        assert gathering.seen == ["a"]
        assert len(gathering.definitions.bindings("/")) == 1

    def test_a_segment_is_noted_behind_what_came_before(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.definitions.note_segment(7)
        gathering.write()
        assert gathering.seen == ["a"]
        assert gathering.definitions.newest_segment == 7

    def test_closing_writes_what_has_gathered(self, path: Path) -> None:
        gathering = Gathering(path)
        gathering.add("a")
        gathering.definitions.file.commit()
        gathering.add("b")
        gathering.definitions.close()
        assert gathering.seen == ["a", "b"]


class TestWhatIsLost:
    def test_it_is_undone_in_reverse_and_then_told(self, gathering: Gathering) -> None:
        first = gathering.add("before")
        gathering.write()
        lost = [gathering.add("a"), gathering.add("b")]
        gathering.definitions.when_settled(gathering.tell, "/")
        with no_room(gathering.path):
            gathering.write()
        assert gathering.undone == ["b", "a"]
        assert len(gathering.told) == 1
        assert str(gathering.path) in gathering.told[0]
        assert gathering.seen == ["before"]
        assert gathering.definitions.file.added_queues() == set()
        after = gathering.add("a")
        assert after > max(first, *lost), "an id is used once"
        gathering.write()
        assert gathering.seen == ["before", "a"]
        assert gathering.add("c") == after + 1

    def test_what_has_gathered_behind_it_is_lost_too(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.definitions.when_settled(gathering.tell, "/")
        gathering.definitions.file.commit()
        gathering.add("b")
        gathering.definitions.when_settled(gathering.tell, "/")
        with no_room(gathering.path):
            gathering.disk.step()
        assert gathering.undone == ["b", "a"]
        assert len(gathering.told) == 2
        gathering.write()
        assert gathering.seen == []

    def test_a_change_to_undo_may_be_one_that_is_being_written(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.definitions.file.commit()
        gathering.definitions.undo_if_lost(lambda _: gathering.undone.append("what rests on a"))
        with no_room(gathering.path):
            gathering.disk.step()
        assert gathering.undone == ["what rests on a", "a"]

    def test_nothing_is_undone_that_was_durable_before(self, gathering: Gathering) -> None:
        gathering.definitions.undo_if_lost(lambda _: gathering.undone.append("nothing"))
        gathering.add("a")
        with no_room(gathering.path):
            gathering.write()
        assert (gathering.undone, gathering.told) == (["a"], [])

    def test_deletions_are_made_with_the_next_change(self, gathering: Gathering) -> None:
        definitions = gathering.definitions
        for name in ("q", "r"):
            gathering.add(name)
        add_exchange = partial(
            definitions.add_exchange, "/", "e", "topic", is_auto_delete=False, is_internal=False
        )
        add_exchange(arguments={}, queue="own")
        definitions.bind("/", "e", "queue", "q", "old", {})
        gathering.write()
        with no_room(gathering.path):
            definitions.delete_queue("/", "q")
            definitions.file.commit()
            definitions.delete_exchange("/", "e", queue="own")
            gathering.disk.step()
            definitions.bind("/", "amq.topic", "queue", "r", "k", {})  # lost as well
            gathering.write()
        assert gathering.seen == ["q", "r", "own"]
        gathering.add("q")
        add_exchange(arguments={}, queue="own")
        gathering.write()
        assert gathering.seen == ["r", "q", "own"]
        assert definitions.bindings("/") == []

    def test_what_undoing_changes_is_written_too(self, gathering: Gathering) -> None:
        gathering.add("there")
        gathering.write()
        gathering.add("a")
        gathering.definitions.undo_if_lost(
            lambda _: gathering.definitions.delete_queue("/", "there")
        )
        before = gathering.turns
        with no_room(gathering.path):
            gathering.write()
        assert gathering.turns > before
        gathering.write()
        assert gathering.seen == []

    def test_one_change_that_is_refused_takes_the_others_along(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.definitions.bind("/", "amq.topic", "queue", "a", "k", {})
        gathering.definitions.when_settled(gathering.tell, "/")
        with refusing(gathering.path, "bindings"):
            gathering.write()
        assert gathering.undone == ["a"]
        assert gathering.told == [f"{gathering.path}: no room"]
        gathering.add("c")
        gathering.write()
        assert gathering.seen == ["c"]

    def test_a_turn_is_asked_for_whatever_was_lost(self, gathering: Gathering) -> None:
        gathering.add("a")
        gathering.write()
        gathering.definitions.note_segment(1)
        gathering.definitions.file.commit()
        gathering.definitions.delete_queue("/", "a", queue_id=1)
        before = gathering.turns
        with no_room(gathering.path):
            gathering.disk.step()
        assert gathering.turns == before + 1, "what waits for the deletion in the journal goes on"

    def test_a_bug_in_a_callback_leaves_no_other_waiting(self, gathering: Gathering) -> None:
        def fail(_: StoreError | None) -> None:
            raise ValueError("mine")

        bugs: list[str] = []
        gathering.disk.on_bug = bugs.append
        gathering.add("a")
        gathering.write()
        for is_lost in (False, True):
            gathering.add("b" if is_lost else "c")
            gathering.definitions.undo_if_lost(fail)
            gathering.definitions.when_settled(fail, "/")
            gathering.definitions.when_settled(gathering.tell, "/")
            with no_room(gathering.path) if is_lost else nullcontext():
                gathering.write()
        assert gathering.undone == ["b"]
        assert len(gathering.told) == 2
        assert [bug.count("mine") for bug in bugs] == [1, 1, 1]
