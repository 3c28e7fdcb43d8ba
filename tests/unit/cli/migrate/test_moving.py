"""Queues that cannot be moved as a whole end with a sentence, and those after them are moved.

Both brokers are Harelines in threads. test_migrate.py moves from a real RabbitMQ.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from hareline.cli.http_client import Api
from hareline.cli.migrate import moving
from hareline.cli.migrate.inventory import SourceQueue
from hareline.cli.migrate.moving import Result, move_all, prefetch_of
from hareline.cli.target import Flags, Target, read_target
from hareline.server.broker import Broker
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker

BODY = b"x" * 1000


class Ends:
    """The broker to move from, that to move to, and what moves between them."""

    def __init__(self, old: ApiBroker, new: ApiBroker) -> None:
        self.old = old
        self.new = new
        self.moved: list[int] = []

    def fill(self, queue: str, count: int, arguments: dict[str, Any] | None = None) -> Any:
        """Declare a queue on both, with messages on the old one; returns the channel there."""
        channel = self.old.connect().channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        self.new.connect().channel().queue_declare(queue, durable=True)
        for _ in range(count):
            channel.basic_publish("", queue, BODY)
        return channel

    def move(self, *queues: SourceQueue) -> list[Result]:
        with closing(Api(target_of(self.new))) as api:
            return move_all(
                list(queues), target_of(self.old), target_of(self.new), api, self.moved.append
            )

    def depth(self, broker: ApiBroker, queue: str) -> int:
        return broker.thread.ask_queue(queue, lambda found: found.ready_count + found.unacked_count)


def target_of(broker: ApiBroker) -> Target:
    host, port = broker.thread.address
    environ = {"HARELINE_PASSWORD": PASSWORD, "XDG_CONFIG_HOME": "/none"}
    flags = Flags(url=broker.url, amqp_url=f"amqp://{host}:{port}", user="admin", timeout=60)
    return read_target(flags, environ)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    monkeypatch.setattr(moving, "IDLE_S", 0.1)
    monkeypatch.setattr(moving, "PATIENCE_S", 2)
    with ExitStack() as stack:
        yield Ends(*(stack.enter_context(api_broker()) for _ in range(2)))


def queue(name: str, messages: int = 1) -> SourceQueue:
    return SourceQueue("/", name, messages, size_bytes=messages * len(BODY))


def test_a_queue_whose_messages_another_consumer_gets_does_not_hold_up_the_next(
    ends: Ends,
) -> None:
    channel = ends.fill("taken", 5, {"x-single-active-consumer": True})
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("taken", lambda *_: None)
    ends.fill("free", 3)
    taken, free = ends.move(queue("taken", 5), queue("free", 3))
    assert taken.moved == 0
    assert taken.problem.startswith("no message for 2 s, though 4 are ready there: ")
    assert "single active" in taken.problem
    assert (free.moved, free.problem) == (3, "")
    assert ends.depth(ends.old, "taken") == 5


def test_a_paused_queue_is_named_too(ends: Ends) -> None:
    ends.fill("paused", 2)
    assert ends.old.ask("POST", "/queues/%2F/paused/pause").status_code == 204
    (result,) = ends.move(queue("paused", 2))
    assert "the queue is paused" in result.problem
    assert ends.depth(ends.old, "paused") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-length": 4}, "1 messages and a limit of 4 (x-max-length, drop-head)"),
        (
            {"x-max-length-bytes": 3_500, "x-overflow": "discard"},
            "1,000 octets and a limit of 3,500 (x-max-length-bytes, discard)",
        ),
        ({"x-max-length": 4, "x-overflow": "reject-publish"}, "(x-max-length, reject-publish)"),
        ({"x-max-length": 4, "x-overflow": "flow-control"}, "(x-max-length, flow-control)"),
    ],
    ids=["drop-head", "discard", "reject-publish", "flow-control"],
)
def test_no_limit_here_costs_a_message(ends: Ends, arguments: dict[str, Any], said: str) -> None:
    ends.fill("limited", 4)
    path = "/queues/%2F/limited"
    assert ends.new.ask("PATCH", path, json={"arguments": arguments}).status_code == 200
    ends.new.connect().channel().basic_publish("", "limited", BODY)
    ends.new.wait_for(path, lambda row: row["messages"] == 1, "the message that was there")
    (result,) = ends.move(queue("limited", 4))
    assert said in result.problem
    assert "so it has no room for the next" in result.problem
    assert (ends.depth(ends.old, "limited"), ends.depth(ends.new, "limited")) == (4, 1)
    lifted = {"arguments": dict.fromkeys(arguments)}
    assert ends.new.ask("PATCH", path, json=lifted).status_code == 200
    (again,) = ends.move(queue("limited", 4))
    assert (again.moved, again.problem) == (4, "")
    assert (ends.depth(ends.old, "limited"), ends.depth(ends.new, "limited")) == (0, 5)


def test_a_queue_is_filled_up_to_its_limit(ends: Ends) -> None:
    ends.fill("exact", 4)
    body = {"pattern": "^exact$", "definition": {"max-length": 4}}
    assert ends.new.ask("PUT", "/policies/%2F/p", json=body).status_code == 201
    (result,) = ends.move(queue("exact", 4))
    assert (result.moved, result.problem) == (4, "")
    assert ends.depth(ends.new, "exact") == 4


def test_a_broker_that_is_short_of_memory_is_waited_for_and_named(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def on_said(problem: str, *, style: str) -> None:
        said.append(problem)
        threading.Timer(0.3, set_alarm, (False,)).start()

    def set_alarm(is_on: bool) -> None:
        def change(broker: Broker) -> None:
            alarms = broker.context.alarms
            (alarms.set if is_on else alarms.clear)("memory")

        ends.new.thread.ask(change)

    monkeypatch.setattr(moving, "complain", on_said)
    ends.fill("first", 3)
    set_alarm(True)
    (result,) = ends.move(queue("first", 3))
    assert (result.moved, result.problem) == (3, "")
    assert (ends.depth(ends.old, "first"), ends.depth(ends.new, "first")) == (0, 3)
    (sentence,) = said
    assert sentence == f"waiting: {target_of(ends.new).http}: short of memory"


def test_large_messages_come_few_at_a_time(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PREFETCH_BYTES", 4 * len(BODY))
    ends.fill("large", 7)
    (result,) = ends.move(queue("large", 7))
    assert (result.moved, result.problem) == (7, "")
    assert ends.moved == [2, 4, 6, 7]  # half of what is prefetched goes with one commit


@pytest.mark.parametrize(
    ("messages", "size_bytes", "wanted"),
    [
        (0, 0, moving.PREFETCH_MESSAGES),
        (10, 0, moving.PREFETCH_MESSAGES),
        (10, 100, moving.PREFETCH_MESSAGES),
        (1_000, 1_000 << 20, 16),
        (2, 1 << 30, 1),
    ],
)
def test_what_is_prefetched_has_a_bound_in_octets(
    messages: int, size_bytes: int, wanted: int
) -> None:
    assert prefetch_of(SourceQueue("/", "q", messages, size_bytes=size_bytes)) == wanted
