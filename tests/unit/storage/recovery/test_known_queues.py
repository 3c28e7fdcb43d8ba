"""What is known of a queue before the journal is read is what its declaration says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.broker.making import make_order
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.orders.priority import PriorityOrder
from hareline.queues.queue import Queue
from hareline.server.known_queues import known_queues
from hareline.storage.administration import PolicyRecord
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.recovery.queue_contents import KnownQueue
from hareline.turn import Turn
from tests.support.messages import make_message


class TestKnownQueues:
    @pytest.fixture
    def definitions(self, tmp_path: Path) -> Iterator[SqliteDefinitions]:
        definitions = SqliteDefinitions(tmp_path / FILE_NAME)
        yield definitions
        definitions.close()

    def known(self, definitions: SqliteDefinitions, **arguments: object) -> KnownQueue:
        names = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue_id = definitions.add_queue("/", "q", is_auto_delete=False, arguments=names)
        return known_queues(definitions)[queue_id]

    def test_every_virtual_host_is_looked_into(self, definitions: SqliteDefinitions) -> None:
        ids = [
            definitions.add_queue(vhost, "q", is_auto_delete=False, arguments={})
            for vhost in ("/", "other")
        ]
        assert known_queues(definitions) == {
            ids[0]: KnownQueue("queue 'q' in vhost '/'"),
            ids[1]: KnownQueue("queue 'q' in vhost 'other'"),
        }

    @pytest.mark.parametrize(
        "arguments",
        [
            {"x_max_priority": 0},
            {"x_max_priority": 5},
            {"x_max_priority": 255, "x_default_priority": 7},
            {"x_qpid_priorities": 10},
            {"x_qpid_priorities": 3, "x_default_priority": 0},
        ],
        ids=str,
    )
    def test_a_level_is_the_one_that_the_queue_itself_gives(
        self, definitions: SqliteDefinitions, arguments: dict[str, object]
    ) -> None:
        level_of = self.known(definitions, **arguments).level_of
        assert level_of is not None
        raw = {key.replace("_", "-"): value for key, value in arguments.items()}
        order = make_order(parse_queue_arguments(raw, queue="q", vhost="/"))
        assert isinstance(order, PriorityOrder)
        queue = Queue("q", order, Turn(lambda _: None))
        for priority in (None, *range(256)):
            message = make_message(b"x", priority=priority)
            queue.enqueue(message)
            (entry,) = queue.acquire(1)
            assert level_of(message.property_octets) == order._level(entry), priority

    @pytest.mark.parametrize(
        ("arguments", "is_loaded"),
        [
            ({"x_max_length": 5}, False),
            ({"x_max_priority": 5}, False),
            ({"x_queue_type": "quorum"}, False),
            ({"x_message_ttl": 5}, True),
            ({"x_sort_key": "k"}, True),
            ({"x_last_value_key": "k"}, True),
            ({"x_queue_type": "stream"}, False),
            ({"x_non_destructive": True, "x_last_value_key": "k"}, True),
            ({"x_message_group_key": "k"}, True),
            ({"x_hold_on_publish": True}, True),
        ],
        ids=str,
    )
    def test_whether_entries_become_objects_is_told(
        self, definitions: SqliteDefinitions, arguments: dict[str, object], *, is_loaded: bool
    ) -> None:
        assert self.known(definitions, **arguments).is_loaded is is_loaded

    @pytest.mark.row("C5")
    def test_levels_that_a_policy_gives_are_known(self, definitions: SqliteDefinitions) -> None:
        for name, pattern in (("bad", "("), ("p", "^q$")):
            definitions.administration.put(
                PolicyRecord("/", False, name, pattern, "all", 0, {"max-priority": 3})
            )
        level_of = self.known(definitions).level_of
        assert level_of is not None
        assert level_of(make_message(priority=2).property_octets) == 2

    def test_arguments_that_are_not_taken_any_more_are_no_error_yet(
        self, definitions: SqliteDefinitions
    ) -> None:
        assert self.known(definitions, x_max_priority="high") == KnownQueue(
            "queue 'q' in vhost '/'"
        )
