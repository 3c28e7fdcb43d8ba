"""What is declared durably is there, as it was declared, when the file is opened again."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.message import Table
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import (
    QUEUE_ID_MAX,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    SqliteDefinitions,
)
from hareline.wire.table import LongLong, Short

NO_UTF8 = b"caf\xe9 \x00 x".decode("utf-8", "surrogateescape")
ARGUMENTS = Table({"number": Short(-300), "text": "größe", "octets": b"\xff\x00"})

Open = Callable[[], SqliteDefinitions]


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
        "other", "z", "direct", is_auto_delete=False, is_internal=False, arguments=ARGUMENTS
    )
    definitions.bind("/", "z", "queue", "q", "#", ARGUMENTS)
    definitions.bind("/", "a", "exchange", "z", "", {})
    definitions = reopened()
    assert definitions.exchanges("/") == [
        ExchangeDefinition("z", "topic", False, False, Table()),
        ExchangeDefinition("a", "topic", True, False, Table()),
        ExchangeDefinition("m", "topic", False, True, Table()),
    ]
    assert definitions.exchanges("other") == [
        ExchangeDefinition("z", "direct", False, False, ARGUMENTS)
    ]
    assert definitions.bindings("/") == [
        BindingDefinition("z", "queue", "q", "#", ARGUMENTS),
        BindingDefinition("a", "exchange", "z", "", Table()),
    ]
    assert definitions.bindings("other") == []
    assert definitions.vhosts() == ["/", "other"]


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
    assert definitions.queues("/")[1] == QueueDefinition(
        of_exchange, "of e", False, Table(), None, definitions.queues("/")[1].incarnation
    )
    definitions.delete_exchange("/", "e", queue="of e")
    definitions = reopened()
    assert [exchange.name for exchange in definitions.exchanges("/")] == ["plain"]
    assert [queue.name for queue in definitions.queues("/")] == ["q"]
    assert definitions.queue_ids("/", "of e") == [of_exchange]


def test_an_exchange_whose_queue_cannot_be_written_is_not_either(
    reopened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = reopened()
    monkeypatch.setattr("hareline.storage.definitions.sqlite.QUEUE_ID_MAX", 0)
    with pytest.raises(StoreError, match="all 0 queue ids have been used"):
        definitions.add_exchange(
            "/", "e", "topic", is_auto_delete=False, is_internal=False, arguments={}, queue="own"
        )
    assert reopened().exchanges("/") == []


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
    definitions = reopened()
    with pytest.raises(StoreError, match="queue ids have been used"):
        definitions.add_queue("/", "p", is_auto_delete=False, arguments={})
    assert [queue.name for queue in definitions.queues("/")] == ["q"]


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
    monkeypatch.setattr("hareline.storage.definitions.sqlite.DELETED_QUEUES_MAX", 2)
    definitions = reopened()
    for name in ("a", "b", "c"):
        definitions.add_queue("/", name, is_auto_delete=False, arguments={})
        definitions.delete_queue("/", name)
    assert [bool(definitions.queue_ids("/", name)) for name in ("a", "b", "c")] == [
        False,
        True,
        True,
    ]


def test_each_declaration_has_an_incarnation_that_stays(reopened: Open) -> None:
    definitions = reopened()
    definitions.add_queue(
        "/", "q", is_auto_delete=False, arguments={}, incarnation="00112233aabbccdd"
    )
    definitions.add_queue("/", "p", is_auto_delete=False, arguments={})
    given, drawn = [queue.incarnation for queue in definitions.queues("/")]
    assert given == "00112233aabbccdd"
    assert re.fullmatch("[0-9a-f]{16}", drawn)
    assert [queue.incarnation for queue in reopened().queues("/")] == [given, drawn]


def test_what_operators_have_set_for_a_queue_goes_with_it(tmp_path: Path) -> None:
    with closing(SqliteDefinitions(tmp_path / FILE_NAME)) as definitions:
        definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
        changes: dict[str, object] = {"x-max-length": 5, "x-overflow": None}
        definitions.set_queue_settings("/", "q", is_paused=True, changes=changes)
        definitions.set_queue_settings("/", "no such queue", is_paused=True, changes={})
    with closing(SqliteDefinitions(tmp_path / FILE_NAME)) as definitions:
        (queue,) = definitions.queues("/")
        assert (queue.is_paused, queue.changes) == (True, changes)
        definitions.delete_queue("/", "q")
        definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
        (queue,) = definitions.queues("/")
        assert (queue.is_paused, queue.changes) == (False, None)
