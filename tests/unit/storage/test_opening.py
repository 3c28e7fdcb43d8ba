"""One directory opened, recovered, written to, closed, and opened again."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest

from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.errors import StoreError
from hareline.message import LargeBody, large_message
from hareline.server.known_queues import known_queues
from hareline.server.restore import VhostRecovery
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.disk.directory import DataDirectory
from hareline.storage.disk.opening import DiskStorage, StorageCallbacks, StorageOptions
from hareline.storage.journal.damage import Decision
from hareline.storage.recovery.reports import RecoveryListener
from hareline.turn import Turn
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.vhosts import forget_report

BODY = bytes(range(256)) * 8


class Listener(RecoveryListener):
    def __init__(self) -> None:
        self.damage: list[tuple[str, str]] = []
        self.progress: list[tuple[int, int]] = []

    def on_progress(self, done: int, all_work: int) -> None:
        self.progress.append((done, all_work))

    def on_damage(self, problem: str, action: str) -> None:
        self.damage.append((problem, action))

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        raise AssertionError(problem)


SEGMENT_BYTES = 1 << 20


def _ignore(_: object) -> None:
    """What the storage tells is of no interest."""


class Machine:
    """A data directory, and brokers that open it one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = Listener()
        self.failures: list[str] = []
        self.troubles: list[str] = []

    def open(self, policy: Decision = Decision.FAIL) -> Opened:
        return Opened(self, policy)

    def options(self, policy: Decision) -> StorageOptions:
        return StorageOptions(self.path, SEGMENT_BYTES, "always", 1000, policy, 0, 0)


class Opened:
    """``vhost`` is "/", restored."""

    def __init__(self, machine: Machine, policy: Decision) -> None:
        self._handed_back: SimpleQueue[Callable[[], None]] = SimpleQueue()
        callbacks = StorageCallbacks(
            self._handed_back.put,
            lambda _: None,
            machine.failures.append,
            machine.troubles.append,
            known_queues,
        )
        self.storage = DiskStorage(machine.options(policy), callbacks, Clock(), machine.listener)
        try:
            for _ in self.storage.recover():
                pass
            self.vhost = self._restored(machine.listener)
        except BaseException:
            self.storage.close()
            raise

    def _restored(self, listener: Listener) -> VirtualHost:
        timers = ManualTimers()
        vhost = VirtualHost(
            "/",
            Turn(lambda _: None),
            clock=timers.clock,
            timers=timers,
            report=forget_report,
            store=self.storage.store,
            definitions=self.storage.definitions,
        )
        storage = self.storage
        recovery = VhostRecovery(
            vhost,
            storage.definitions,
            storage.next_offsets,
            storage.contents,
            storage.content_store,
            listener,
            storage.progress,
        )
        recovery.restore_exchanges()
        recovery.restore_queues()
        recovery.restore_bindings()
        for _ in recovery.restore_messages():
            pass
        storage.progress.finish()
        return vhost

    def declare(self, name: str = "q", arguments: Mapping[str, object] | None = None) -> None:
        self.vhost.declare_queue(
            name, is_durable=True, is_auto_delete=False, owner=None, arguments=arguments or {}
        )

    def publish(self, body: bytes, queue: str = "q") -> None:
        self.vhost.queues[queue].enqueue(make_message(body).unwritten())

    def publish_large(self, queue: str = "q") -> LargeBody:
        draft = self.storage.bodies.begin(len(BODY))
        draft.add(BODY)
        body = draft.finish()
        small = make_message()
        message = large_message(small.address, _header_of(len(BODY)), body, small.arrival_ms, -1)
        self.vhost.queues[queue].enqueue(message)
        return body

    def bodies(self, queue: str = "q") -> list[bytes]:
        taken = []
        while (entry := self.vhost.queues[queue].get()) is not None:
            taken.append(bytes(entry.message.body))
        return taken

    def hear_from_threads(self) -> None:
        """Wait until one has done something, and run what it hands back."""
        self._handed_back.get(timeout=60)()

    def close(self) -> None:
        self.storage.close()


def _header_of(size: int) -> bytes:
    return make_message(bytes(size)).content[: make_message(bytes(size)).header_size]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "data")


def large_files(machine: Machine) -> list[Path]:
    return sorted((machine.path / "large").iterdir())


def test_nothing_of_a_queue_is_durable_before_its_definition(machine: Machine) -> None:
    opened = machine.open()
    storage = opened.storage
    storage.follow_turns(lambda: None)
    opened.declare()
    opened.publish(b"kept")
    ticket = storage.store.ticket
    while storage.store.durable_ticket < ticket:
        storage.write_pending()
        assert storage.store.ticket == ticket or not storage.definitions.file.added_queues()
        opened.hear_from_threads()
    opened.close()
    again = machine.open()
    assert again.bodies() == [b"kept"]
    again.close()


def crashed(machine: Machine) -> Opened:
    """What a start finds when the machine ends now."""
    copy = Machine(machine.path.with_name("copy"))
    shutil.copytree(machine.path, copy.path, ignore=shutil.ignore_patterns("lock"))
    return copy.open()


def test_a_queue_whose_deletion_is_not_durable_keeps_its_messages(machine: Machine) -> None:
    opened = machine.open()
    opened.declare()
    opened.publish(b"kept")
    opened.declare("other")
    opened.close()
    opened = machine.open()
    opened.storage.follow_turns(lambda: None)
    opened.vhost.delete_queue("q", None)
    opened.publish(b"x", "other")
    ticket = opened.storage.store.ticket
    while opened.storage.store.durable_ticket < ticket:
        opened.storage.store.write_pending()  # and no turn, which would commit the deletion
        opened.hear_from_threads()
    copy = crashed(machine)
    assert (copy.bodies(), copy.bodies("other")) == ([b"kept"], [b"x"])
    copy.close()
    opened.close()
    again = machine.open()
    assert list(again.vhost.queues) == ["other"]
    again.close()


def test_a_segment_that_begins_as_everything_ends_is_noted(machine: Machine) -> None:
    opened = machine.open()
    opened.storage.follow_turns(lambda: None)
    opened.declare()
    for _ in range(8):
        opened.publish(bytes(SEGMENT_BYTES // 4))
    opened.close()
    again = machine.open()
    assert again.storage.definitions.newest_segment > 1
    assert len(again.bodies()) == 8
    again.close()


def test_a_lock_on_the_definitions_does_not_keep_the_journal_from_its_end(
    machine: Machine,
) -> None:
    opened = machine.open()
    opened.declare()
    opened.storage.follow_turns(lambda: None)
    with closing(sqlite3.connect(machine.path / FILE_NAME, isolation_level=None)) as outside:
        outside.execute("BEGIN IMMEDIATE")
        opened.publish(b"kept")
        opened.declare("lost")
        opened.storage.close(2.0)
        copy = crashed(machine)
        assert (list(copy.vhost.queues), copy.bodies()) == (["q"], [b"kept"])
        copy.close()
        outside.execute("ROLLBACK")
    assert [trouble[:27] for trouble in machine.troubles] == ["the definitions are locked,"]
    assert not opened.storage.store.is_hung


def test_progress_is_of_everything_and_only_grows(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.server.restore.DEFINITIONS_PER_REPORT", 2)
    monkeypatch.setattr("hareline.server.restore.MESSAGES_PER_READ", 10)
    first = machine.open()
    first.declare("plain")
    first.declare("sorted", {"x-sort-key": "k"})
    for queue in ("plain", "sorted"):
        for _ in range(100):
            first.publish(b"x", queue)
        first.vhost.bind("amq.fanout", "queue", first.vhost.queues[queue], "", {})
    first.close()
    machine.listener.progress.clear()
    machine.open().close()
    shares = [done / all_work for done, all_work in machine.listener.progress]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert shares.count(1) == 1
    assert len(shares) >= 10 + 2, "loading 100 entries, and definitions, show too"


def test_what_was_written_is_there_the_next_time(machine: Machine) -> None:
    first = machine.open()
    first.declare()
    first.publish(b"one")
    first.publish(b"two")
    first.close()
    second = machine.open()
    assert second.bodies() == [b"one", b"two"]
    second.close()
    assert machine.failures == []


def test_offsets_go_on(machine: Machine) -> None:
    for expected in (0, 1, 2):
        opened = machine.open()
        if not expected:
            opened.declare()
        queue = opened.vhost.queues["q"]
        assert queue.next_offset == expected
        opened.publish(b"x")
        opened.close()


def test_closing_ends_the_threads_and_lets_go_of_the_directory(machine: Machine) -> None:
    before = threading.active_count()
    opened = machine.open()
    assert threading.active_count() == before + 2, "of the journal, and of the definitions"
    with pytest.raises(StoreError, match="in use"):
        machine.open()
    opened.close()
    assert threading.active_count() == before
    DataDirectory(machine.path).close()


def test_a_virtual_host_that_is_not_served_is_named_and_its_messages_stay(
    machine: Machine,
) -> None:
    first = machine.open()
    first.declare()
    first.publish(b"kept")
    first.close()
    without = machine.options(Decision.FAIL)
    callbacks = StorageCallbacks(_ignore, _ignore, _ignore, _ignore, known_queues)
    storage = DiskStorage(without, callbacks, Clock(), machine.listener)
    for _ in storage.recover():
        pass
    assert storage.unserved({"shop"}) == {"/": 1}
    assert storage.unserved({"/"}) == {}
    storage.close()
    again = machine.open()
    assert again.bodies() == [b"kept"]
    again.close()


def newest_file(machine: Machine) -> Path:
    return max((machine.path / "journal").glob("*.log"))


def _no_file(path: Path) -> None:
    path.unlink()


def _no_octets(path: Path) -> None:
    path.write_bytes(b"")


def _no_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")


def _tables_dropped(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'")
        for (name,) in rows.fetchall():
            if name != "sqlite_sequence":
                database.execute(f"DROP TABLE {name}")


def _of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE queues (id, vhost, name)")


def _no_queues(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE queues")


def _no_database(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough for one " * 100)


@pytest.mark.parametrize(
    ("lose", "text"),
    [
        (_no_file, "missing, though there are messages in "),
        (_no_octets, "empty, though there are messages in "),
        (_no_tables, "empty, though there are messages in "),
        (_tables_dropped, "damaged, there is no table 'exchanges'"),
        (_of_another_program, "a database of another program"),
        (_no_queues, "damaged, there is no table 'queues'"),
        (_no_database, "file is not a database"),
    ],
)
def test_without_definitions_nothing_of_a_journal_is_touched(
    machine: Machine, lose: Callable[[Path], None], text: str
) -> None:
    first = machine.open()
    first.declare()
    first.publish(b"kept")
    first.publish_large()
    first.close()
    definitions = machine.path / "definitions.sqlite"
    whole = definitions.read_bytes()
    lose(definitions)
    lost = definitions.read_bytes() if definitions.exists() else None
    files = [each for name in ("journal", "large") for each in (machine.path / name).iterdir()]
    before = {each: each.read_bytes() for each in files}
    for policy in Decision:
        with pytest.raises(StoreError, match=rf"definitions\.sqlite: {text}"):
            machine.open(policy)
    assert (definitions.read_bytes() if definitions.exists() else None) == lost
    assert before == {each: each.read_bytes() for each in files}
    definitions.write_bytes(whole)
    again = machine.open()
    assert again.bodies() == [b"kept", BODY]
    again.close()


def test_definitions_of_which_a_page_is_damaged_never_cost_a_message(machine: Machine) -> None:
    """Each page in turn: it is noticed, or it does not matter."""
    names = [f"a queue whose name takes much of a page, {number}" for number in range(100)]
    first = machine.open()
    for name in names:
        first.declare(name)
        first.publish(b"kept", name)
    first.close()
    whole = (machine.path / "definitions.sqlite").read_bytes()
    page_size = int.from_bytes(whole[16:18], "big")
    noticed = 0
    for start in range(0, len(whole), page_size):
        copy = Machine(machine.path.with_name(f"copy {start}"))
        shutil.copytree(machine.path, copy.path)
        definitions = copy.path / "definitions.sqlite"
        definitions.write_bytes(whole[:start] + bytes(page_size) + whole[start + page_size :])
        try:
            opened = copy.open()
        except StoreError as error:
            noticed += 1
            assert "definitions.sqlite: " in str(error)  # noqa: PT017 - or there is none
            definitions.write_bytes(whole)
            opened = copy.open()
        assert [opened.bodies(name) for name in names] == [[b"kept"]] * 100
        opened.close()
    assert noticed > 3


def _gone(path: Path) -> None:
    path.unlink()


def _all_gone(path: Path) -> None:
    shutil.rmtree(path.parent)


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("lose", "text"),
    [
        (_gone, "the file of the newest segment is missing"),
        (_all_gone, "the file of the newest segment is missing"),
        (_emptied, "0 octets are too few for a segment header"),
        (_zeroed, "does not begin with the octets HARELINE"),
    ],
)
def test_the_newest_segment_is_missed(
    machine: Machine, lose: Callable[[Path], None], text: str
) -> None:
    first = machine.open()
    first.declare()
    first.publish(b"lost")
    first.close()
    newest = newest_file(machine)
    lose(newest)
    left = newest.read_bytes() if newest.exists() else None
    with pytest.raises(StoreError, match=rf"{newest.name}\b.*: {text}"):
        machine.open()
    assert machine.listener.damage[-1][1] == "the broker does not start"
    assert (newest.read_bytes() if newest.exists() else None) == left
    second = machine.open(Decision.SKIP)
    assert newest.name in machine.listener.damage[-1][0]
    assert machine.listener.damage[-1][1] == "left out"
    assert second.bodies() == []
    second.publish(b"new")
    second.close()
    assert newest_file(machine).name > newest.name
    third = machine.open()
    assert third.bodies() == [b"new"]
    third.close()


def test_what_is_truncated_with_the_newest_segment_is_not_missed_afterwards(
    machine: Machine,
) -> None:
    for body in (b"one", b"two", b"three"):
        opened = machine.open()
        if body == b"one":
            opened.declare()
        opened.publish(body)
        opened.close()
    second = sorted((machine.path / "journal").glob("*.log"))[1]
    _zeroed(second)
    truncated = machine.open(Decision.TRUNCATE)
    assert truncated.bodies() == [b"one"]
    truncated.close()
    machine.open().close()


def test_others_may_not_read_what_is_there(machine: Machine) -> None:
    before = os.umask(0)
    try:
        opened = machine.open()
        opened.declare()
        opened.publish_large()
        opened.close()
    finally:
        os.umask(before)
    for path in (machine.path, *machine.path.rglob("*")):
        assert not path.stat().st_mode & 0o007, path


class TestLargeBodies:
    def test_a_large_body_is_there_the_next_time_and_strays_are_not(self, machine: Machine) -> None:
        first = machine.open()
        first.declare()
        first.publish_large()
        first.close()
        (kept,) = large_files(machine)
        stray = kept.with_name(f"{1:016x}")
        stray.write_bytes(b"left by a crash")
        second = machine.open()
        assert large_files(machine) == [kept]
        assert second.bodies() == [BODY]
        second.close()

    def test_a_missing_body_is_damage_that_is_named(self, machine: Machine) -> None:
        first = machine.open()
        first.declare()
        first.publish(b"small")
        first.publish_large()
        first.close()
        (kept,) = large_files(machine)
        kept.unlink()
        with pytest.raises(StoreError) as caught:
            machine.open()
        assert f"{kept}: No such file" in str(caught.value)
        assert "entry 1 of queue 'q' in vhost '/'" in str(caught.value)
        skipped = machine.open(Decision.SKIP)
        assert [action for _, action in machine.listener.damage] == [
            "the broker does not start",
            "left out",
        ]
        assert skipped.vhost.queues["q"].ready_count == 1
        skipped.close()
        again = machine.open()  # the entry is settled for good
        assert again.bodies() == [b"small"]
        again.close()
