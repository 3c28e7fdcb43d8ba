"""What is declared durably is there, as it was declared, when the file is opened again."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.message import Table, Timestamp
from hareline.storage.definitions import (
    FILE_NAME,
    QUEUE_ID_MAX,
    BindingDefinition,
    DefinitionsMissing,
    ExchangeDefinition,
    QueueDefinition,
    SqliteDefinitions,
)
from hareline.wire.table import (
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)

NO_UTF8 = b"caf\xe9 \x00 x".decode("utf-8", "surrogateescape")

EVERY_TYPE = Table(
    {
        "bool": True,
        "byte": Byte(-1),
        "unsigned byte": UnsignedByte(255),
        "short": Short(-300),
        "unsigned short": UnsignedShort(60_000),
        "int": SignedInt(-70_000),
        "unsigned int": UnsignedInt(4_000_000_000),
        "long": 2**62,
        "long long": LongLong(-(2**62)),
        "float": Float(0.5),
        "double": 0.1,
        "decimal": Decimal("12.34"),
        "text": "größe",
        "no text": NO_UTF8,
        "octets": b"\xff\x00",
        "array": [1, "two", Short(3)],
        "time": Timestamp(1_700_000_000),
        "table": Table({"inner": Byte(1)}),
        "void": None,
    }
)

Open = Callable[[], SqliteDefinitions]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def reopened(path: Path) -> Iterator[Open]:
    """The file as another process would find it: each call closes what the last one gave."""
    given: list[SqliteDefinitions] = []

    def reopen() -> SqliteDefinitions:
        for definitions in given:
            definitions.close()
        given[:] = [SqliteDefinitions(path)]
        return given[0]

    yield reopen
    for definitions in given:
        definitions.close()


def test_a_queue_comes_back_with_the_type_of_each_argument(reopened: Open) -> None:
    queue_id = reopened().add_queue("/", "q", is_auto_delete=True, arguments=EVERY_TYPE)
    (queue,) = reopened().queues("/")
    assert queue == QueueDefinition(queue_id, "q", True, EVERY_TYPE)
    assert queue.arguments.kinds == EVERY_TYPE.kinds
    assert list(queue.arguments) == list(EVERY_TYPE)


@pytest.mark.parametrize("owner", [None, "client-1", "", "größe", NO_UTF8])
def test_a_queue_comes_back_with_its_owner(reopened: Open, owner: str | None) -> None:
    definitions = reopened()
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={}, owner=owner)
    definitions.add_queue("/", "p", is_auto_delete=False, arguments={})
    assert [queue.owner for queue in reopened().queues("/")] == [owner, None]


def test_exchanges_and_bindings_come_back_in_their_order(reopened: Open) -> None:
    definitions = reopened()
    for name in ("z", "a", "m"):
        definitions.add_exchange(
            "/", name, "topic", is_auto_delete=name == "a", is_internal=name == "m", arguments={}
        )
    definitions.add_exchange(
        "other", "z", "direct", is_auto_delete=False, is_internal=False, arguments=EVERY_TYPE
    )
    definitions.bind("/", "z", "queue", "q", "#", EVERY_TYPE)
    definitions.bind("/", "a", "exchange", "z", "", {})
    definitions = reopened()
    assert definitions.exchanges("/") == [
        ExchangeDefinition("z", "topic", False, False, Table()),
        ExchangeDefinition("a", "topic", True, False, Table()),
        ExchangeDefinition("m", "topic", False, True, Table()),
    ]
    assert definitions.exchanges("other") == [
        ExchangeDefinition("z", "direct", False, False, EVERY_TYPE)
    ]
    assert definitions.bindings("/") == [
        BindingDefinition("z", "queue", "q", "#", EVERY_TYPE),
        BindingDefinition("a", "exchange", "z", "", Table()),
    ]
    assert definitions.bindings("other") == []
    assert definitions.vhosts() == ["/", "other"]


def test_names_that_are_not_utf8_survive_everywhere(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_exchange(
        NO_UTF8, NO_UTF8, "fanout", is_auto_delete=False, is_internal=False, arguments={}
    )
    definitions.add_queue(NO_UTF8, NO_UTF8, is_auto_delete=False, arguments={})
    definitions.bind(NO_UTF8, NO_UTF8, "queue", NO_UTF8, NO_UTF8, {NO_UTF8: NO_UTF8})
    definitions = reopened()
    assert definitions.vhosts() == [NO_UTF8]
    assert [queue.name for queue in definitions.queues(NO_UTF8)] == [NO_UTF8]
    assert [exchange.name for exchange in definitions.exchanges(NO_UTF8)] == [NO_UTF8]
    assert definitions.bindings(NO_UTF8) == [
        BindingDefinition(NO_UTF8, "queue", NO_UTF8, NO_UTF8, Table({NO_UTF8: NO_UTF8}))
    ]
    definitions.unbind(NO_UTF8, NO_UTF8, "queue", NO_UTF8, NO_UTF8, {NO_UTF8: NO_UTF8})
    assert definitions.bindings(NO_UTF8) == []
    definitions.delete_queue(NO_UTF8, NO_UTF8)
    definitions.delete_exchange(NO_UTF8, NO_UTF8)
    assert reopened().vhosts() == []


def test_an_id_is_never_given_again(reopened: Open) -> None:
    definitions = reopened()
    first = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    assert first > 0
    definitions.delete_queue("/", "q")
    second = reopened().add_queue("/", "q", is_auto_delete=False, arguments={})
    assert second > first


def test_a_binding_is_one_however_often_it_is_made_and_whatever_the_order(
    reopened: Open,
) -> None:
    definitions = reopened()
    definitions.bind("/", "x", "queue", "q", "k", {"a": 1, "b": "2"})
    definitions.bind("/", "x", "queue", "q", "k", {"b": "2", "a": 1})
    assert len(definitions.bindings("/")) == 1
    for routing_key, arguments in (("k", {"a": LongLong(1), "b": "2"}), ("k2", {}), ("k", {})):
        definitions.bind("/", "x", "queue", "q", routing_key, arguments)
    assert len(definitions.bindings("/")) == 4
    definitions.unbind("/", "x", "queue", "q", "k", {"b": "2", "a": 1})
    definitions.unbind("/", "x", "queue", "q", "k", {"c": 2})  # there is none
    assert [binding.arguments for binding in reopened().bindings("/")] == [
        {"a": 1, "b": "2"},
        {},
        {},
    ]


def test_a_binding_replaces_others_in_one_step(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_exchange(
        "/", "x", "topic", is_auto_delete=False, is_internal=False, arguments={}
    )
    place = ("/", "x", "queue", "q", "key")
    for number in range(3):
        definitions.bind(*place, {"n": number})
    definitions.bind("/", "x", "queue", "q", "other", {"n": 0})
    definitions.bind(*place, {"n": 7}, replaced=[{"n": 0}, {"n": 2}])
    assert [(one.routing_key, one.arguments) for one in reopened().bindings("/")] == [
        ("key", {"n": 1}),
        ("other", {"n": 0}),
        ("key", {"n": 7}),
    ]


def test_a_deleted_queue_takes_its_bindings_along_and_no_others(reopened: Open) -> None:
    definitions = reopened()
    for vhost, name in (("/", "q"), ("/", "p"), ("v", "q")):
        definitions.add_queue(vhost, name, is_auto_delete=False, arguments={})
        definitions.bind(vhost, "x", "queue", name, "k", {})
    definitions.bind("/", "x", "exchange", "q", "k", {})  # an exchange of the same name
    definitions.delete_queue("/", "q")
    definitions = reopened()
    assert [queue.name for queue in definitions.queues("/")] == ["p"]
    assert [(b.kind, b.destination) for b in definitions.bindings("/")] == [
        ("queue", "p"),
        ("exchange", "q"),
    ]
    assert len(definitions.bindings("v")) == 1


def test_a_deleted_exchange_takes_along_the_bindings_of_both_its_ends(reopened: Open) -> None:
    definitions = reopened()
    for name in ("a", "b", "c"):
        definitions.add_exchange(
            "/", name, "direct", is_auto_delete=False, is_internal=False, arguments={}
        )
    definitions.bind("/", "a", "exchange", "b", "", {})
    definitions.bind("/", "b", "exchange", "c", "", {})
    definitions.bind("/", "a", "exchange", "c", "", {})
    definitions.bind("/", "a", "queue", "b", "", {})  # a queue of the same name
    definitions.delete_exchange("/", "b")
    assert [exchange.name for exchange in definitions.exchanges("/")] == ["a", "c"]
    assert [(b.source, b.kind, b.destination) for b in reopened().bindings("/")] == [
        ("a", "exchange", "c"),
        ("a", "queue", "b"),
    ]


def test_an_exchange_and_its_own_queue_come_and_go_together(reopened: Open) -> None:
    definitions = reopened()
    add_exchange = partial(
        definitions.add_exchange, "/", is_auto_delete=False, is_internal=False, arguments={}
    )
    assert add_exchange("plain", "topic") == 0
    before = definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    of_exchange = add_exchange("e", "topic", queue="of e")
    assert of_exchange == before + 1
    definitions = reopened()
    assert definitions.queues("/")[1] == QueueDefinition(of_exchange, "of e", False, Table())
    definitions.delete_exchange("/", "e", queue="of e")
    definitions = reopened()
    assert [exchange.name for exchange in definitions.exchanges("/")] == ["plain"]
    assert [queue.name for queue in definitions.queues("/")] == ["q"]
    assert definitions.queue_ids("/", "of e") == [of_exchange]


def test_an_exchange_whose_queue_cannot_be_written_is_not_either(
    reopened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = reopened()
    monkeypatch.setattr("hareline.storage.definitions.QUEUE_ID_MAX", 0)
    with pytest.raises(StoreError, match="all 0 queue ids have been used"):
        definitions.add_exchange(
            "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}, queue="own"
        )
    assert reopened().exchanges("/") == []


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
            "import os, pathlib, sys; from hareline.storage.definitions import SqliteDefinitions\n"
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
        monkeypatch.setattr("hareline.storage.definitions.QUEUE_ID_MAX", 1)
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


def test_what_was_told_is_there_without_an_orderly_end(path: Path) -> None:
    definitions = SqliteDefinitions(path)
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    second = SqliteDefinitions(path)  # the first one is still open, as after a crash
    assert [queue.name for queue in second.queues("/")] == ["q"]
    second.close()
    definitions.close()


def test_a_change_that_fails_leaves_nothing_behind(path: Path, reopened: Open) -> None:
    definitions = reopened()
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    definitions.bind("/", "x", "queue", "q", "", {})
    outside = sqlite3.connect(path, isolation_level=None)
    outside.execute(
        "CREATE TRIGGER refuse BEFORE DELETE ON bindings BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with pytest.raises(StoreError, match=rf"{FILE_NAME}: no room"):
        definitions.delete_queue("/", "q")
    outside.execute("DROP TRIGGER refuse")
    outside.close()
    assert len(definitions.queues("/")) == 1
    definitions.delete_queue("/", "q")  # the connection is as good as before
    assert reopened().queues("/") == []


def test_a_queue_declared_twice_is_an_error(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    with pytest.raises(StoreError, match="UNIQUE"):
        definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    assert len(definitions.queues("/")) == 1


def test_the_end_of_ids_is_a_sentence_and_no_queue(path: Path, reopened: Open) -> None:
    definitions = reopened()
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    outside = sqlite3.connect(path, isolation_level=None)
    outside.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'queues'", (QUEUE_ID_MAX,))
    outside.close()
    with pytest.raises(StoreError, match="queue ids have been used"):
        definitions.add_queue("/", "p", is_auto_delete=False, arguments={})
    assert [queue.name for queue in definitions.queues("/")] == ["q"]


def test_hosts_come_back_in_the_order_in_which_they_were_last_seen(reopened: Open) -> None:
    definitions = reopened()
    for host, day in (("10.0.0.1", 1), ("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)):
        definitions.remember_host(host, day)
    assert definitions.hosts() == [("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)]
    definitions = reopened()
    assert definitions.hosts() == [("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)]
    definitions.forget_hosts([NO_UTF8, "::1", "never seen"])
    assert reopened().hosts() == [("10.0.0.1", 3)]


def test_hosts_are_no_virtual_hosts(reopened: Open) -> None:
    definitions = reopened()
    definitions.remember_host("10.0.0.1", 1)
    assert definitions.vhosts() == []


class TestFilesThatAreNotOurs:
    def test_a_later_version_is_refused_by_its_number(self, path: Path) -> None:
        SqliteDefinitions(path).close()
        outside = sqlite3.connect(path)
        outside.execute("PRAGMA user_version = 99")
        outside.close()
        with pytest.raises(StoreError, match=rf"{FILE_NAME}: version 99, .* than 2; a newer"):
            SqliteDefinitions(path)

    def test_no_database_at_all_is_told(self, path: Path) -> None:
        path.write_bytes(b"definitions of another kind, and long enough to be looked at " * 20)
        with pytest.raises(StoreError, match=rf"{FILE_NAME}: file is not a database"):
            SqliteDefinitions(path)

    def test_the_database_of_another_program_is_left_alone(self, path: Path) -> None:
        outside = sqlite3.connect(path)
        outside.execute("CREATE TABLE theirs (x)")
        outside.close()
        with pytest.raises(StoreError, match="of another program"):
            SqliteDefinitions(path)

    @pytest.mark.parametrize("pragma", ["user_version = 1", "application_id = 7"])
    def test_nor_is_one_without_tables_filled(self, path: Path, pragma: str) -> None:
        outside = sqlite3.connect(path)
        outside.execute(f"PRAGMA {pragma}")
        outside.close()
        with pytest.raises(StoreError, match="of another program"):
            SqliteDefinitions(path)

    def test_an_empty_file_is_filled_unless_that_is_forbidden(self, path: Path) -> None:
        """What a broker leaves that was killed before it had made its tables."""
        path.touch()
        with pytest.raises(DefinitionsMissing, match=rf"{FILE_NAME}: empty"):
            SqliteDefinitions(path, may_create=False)
        assert path.read_bytes() == b""
        SqliteDefinitions(path).close()
        SqliteDefinitions(path, may_create=False).close()
        path.unlink()
        with pytest.raises(DefinitionsMissing, match=rf"{FILE_NAME}: missing"):
            SqliteDefinitions(path, may_create=False)
        assert not path.exists()

    @pytest.mark.parametrize(
        ("statement", "text"),
        [
            ("DROP TABLE queues", "damaged, there is no table 'queues'"),
            ("DROP TABLE deleted_queues", "damaged, there is no table 'deleted_queues'"),
            ("ALTER TABLE queues DROP COLUMN owner", "the table 'queues' has no column 'owner'"),
            ("DELETE FROM journal", "damaged, the table 'journal' has no newest segment"),
            ("UPDATE journal SET newest_segment = 'x'", "'journal' has no newest segment"),
        ],
    )
    def test_what_lacks_a_table_or_a_part_of_one_is_told(
        self, path: Path, statement: str, text: str
    ) -> None:
        SqliteDefinitions(path).close()
        outside = sqlite3.connect(path, isolation_level=None)
        outside.execute(statement)
        outside.close()

        def newest() -> int:
            with closing(SqliteDefinitions(path)) as definitions:
                return definitions.newest_segment

        with pytest.raises(StoreError, match=rf"{FILE_NAME}: .*{text}"):
            newest()

    def test_a_missing_directory_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"nowhere/definitions\.sqlite: No such file"):
            SqliteDefinitions(tmp_path / "nowhere" / FILE_NAME)

    def test_arguments_that_are_damaged_name_their_queue(self, path: Path, reopened: Open) -> None:
        reopened().add_queue("/", "q", is_auto_delete=False, arguments={"a": 1})
        outside = sqlite3.connect(path, isolation_level=None)
        outside.execute("UPDATE queues SET arguments = x'0161'")
        outside.close()
        with pytest.raises(StoreError, match=r"arguments of queue 'q': .*field table"):
            reopened().queues("/")


def test_names_are_text_to_other_tools(path: Path) -> None:
    definitions = SqliteDefinitions(path)
    definitions.add_queue("/", "größe", is_auto_delete=False, arguments={})
    definitions.close()
    outside = sqlite3.connect(path)
    assert outside.execute("SELECT name, typeof(name) FROM queues").fetchall() == [
        ("größe", "text")
    ]
    outside.close()


# ---------------------------------------------------------------------- names of the past


def test_the_ids_of_deleted_queues_are_remembered_by_their_names(reopened: Open) -> None:
    definitions = reopened()
    ids = []
    for name in ("q", "other", NO_UTF8, "q"):
        ids.append(definitions.add_queue("/", name, is_auto_delete=False, arguments={}))
        definitions.delete_queue("/", name)
    ids.append(definitions.add_queue("/", "q", is_auto_delete=False, arguments={}))
    definitions.add_queue("elsewhere", "q", is_auto_delete=False, arguments={})
    definitions = reopened()
    assert definitions.queue_ids("/", "q") == [ids[0], ids[3], ids[4]]
    assert definitions.queue_ids("/", NO_UTF8) == [ids[2]]
    assert definitions.queue_ids("/", "never") == []
    definitions.delete_queue("/", "never")  # nothing comes of it
    assert definitions.queue_ids("/", "never") == []


def test_of_deleted_queues_the_last_are_remembered(
    reopened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.storage.definitions.DELETED_QUEUES_MAX", 2)
    definitions = reopened()
    for name in ("a", "b", "c"):
        definitions.add_queue("/", name, is_auto_delete=False, arguments={})
        definitions.delete_queue("/", name)
    assert [bool(definitions.queue_ids("/", name)) for name in ("a", "b", "c")] == [
        False,
        True,
        True,
    ]


def test_an_empty_file_is_refused_before_sqlite_removes_its_log(tmp_path: Path) -> None:
    path = tmp_path / "definitions.sqlite"
    log = tmp_path / "definitions.sqlite-wal"
    path.touch()
    log.write_bytes(b"all that is left")
    with pytest.raises(DefinitionsMissing, match="empty"):
        SqliteDefinitions(path, may_create=False)
    assert log.read_bytes() == b"all that is left"
