"""Queues declared with the argument names of Qpid Broker-J, as a user of pika sees them.

Each name once: that it means the same as the name documented first, and for what queues are and how
much they hold, that it does so.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from hareline.queues.declare.table import ARGUMENTS
from tests.support.pika_calls import get_all, publish, ready_count, receive, serve_until

from .conftest import PikaConnect

# differs: additions
pytestmark = pytest.mark.usefixtures("only_hareline")

SELECTOR = {"s": {"x-filter-jms-selector": ["size < 10"]}}

#: Qpid's name and value, and what is to mean the same. One line for each name there is.
NAMES: list[tuple[str, Any, str, Any]] = [
    ("priorities", "5", "x-qpid-priorities", 5),
    ("qpid.queue_sort_key", "due", "x-sort-key", "due"),
    ("sortKey", "due", "x-sort-key", "due"),
    ("qpid.last_value_queue_key", "symbol", "x-last-value-key", "symbol"),
    ("lvqKey", "symbol", "x-last-value-key", "symbol"),
    ("qpid.last_value_queue", True, "x-last-value-key", "qpid.LVQ_key"),
    ("qpid.group_header_key", "cart", "x-message-group-key", "cart"),
    ("messageGroupKeyOverride", "cart", "x-message-group-key", "cart"),
    ("messageGroupType", "SHARED_GROUPS", "x-message-group-type", "shared"),
    ("qpid.shared_msg_group", "1", "x-message-group-type", "shared"),
    ("qpid.default-message-group", "rest", "x-message-group-default", "rest"),
    ("messageGroupDefaultGroup", "rest", "x-message-group-default", "rest"),
    ("qpid.ensure_nondestructive_consumers", "true", "x-non-destructive", True),
    ("ensureNondestructiveConsumers", True, "x-non-destructive", True),
    (
        "qpid.default_filters",
        '{"s": {"x-filter-jms-selector": ["size < 10"]}}',
        "x-default-filters",
        SELECTOR,
    ),
    ("defaultFilters", SELECTOR, "x-default-filters", SELECTOR),
    ("noLocal", True, "no-local", "true"),
    ("minimumMessageTtl", 1000, "x-min-message-ttl", 1000),
    ("maximumMessageTtl", "1000", "x-max-message-ttl", 1000),
    ("holdOnPublishEnabled", "True", "x-hold-on-publish", True),
    ("x-qpid-dlq-enabled", True, "x-dlq-auto", True),
    ("alternateExchange", "amq.fanout", "alternateBinding", {"destination": "amq.fanout"}),
    ("maximumDeliveryAttempts", 3, "x-qpid-maximum-delivery-count", 3),
    ("qpid.message_durability", "ALWAYS", "x-message-durability", "always"),
    ("messageDurability", "NEVER", "x-message-durability", "never"),
    ("overflowPolicy", "REJECT", "x-overflow", "reject-publish"),
    ("qpid.policy_type", "reject", "x-overflow", "reject-publish"),
    ("qpid.max_count", "7", "x-max-length", 7),
    ("maximumQueueDepthMessages", 7, "x-max-length", 7),
    ("qpid.max_size", 700, "x-max-length-bytes", 700),
    ("x-qpid-capacity", 700, "x-max-length-bytes", 700),
    ("maximumQueueDepthBytes", 700, "x-max-length-bytes", 700),
]
LIMITS = ("x-max-length", "x-max-length-bytes")


def declare(channel: BlockingChannel, arguments: dict[str, Any], name: str = "") -> str:
    return str(channel.queue_declare(name, exclusive=True, arguments=arguments).method.queue)


def publish_all(channel: BlockingChannel, queue: str, *properties: dict[str, Any]) -> None:
    """The body of each is its number."""
    for number, each in enumerate(properties):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(**each))


@pytest.mark.row("A2")
def test_every_name_of_qpids_is_in_this_file() -> None:
    aliases = {alias.name for argument in ARGUMENTS for alias in argument.aliases}
    assert sorted(aliases) == sorted(name for name, *_ in NAMES)


@pytest.mark.row("A2")
@pytest.mark.parametrize(("name_of_qpid", "value", "same", "same_value"), NAMES)
def test_a_queue_may_be_declared_by_either_name(
    connect: PikaConnect, name: str, name_of_qpid: str, value: Any, same: str, same_value: Any
) -> None:
    channel = connect().channel()
    # a limit by Qpid's name alone bounds nothing, by RabbitMQ's name it drops
    policy = {"x-overflow": "drop-head"} if same in LIMITS else {}
    declare(channel, {name_of_qpid: value, **policy}, name)
    declare(channel, {same: same_value, **policy}, name)
    with pytest.raises(ChannelClosedByBroker) as refusal:
        declare(channel, policy, name)
    assert refusal.value.reply_code == 406
    assert f"inequivalent arg '{name_of_qpid}' for queue '{name}'" in refusal.value.reply_text


@pytest.mark.row("A2")
def test_both_names_with_different_values_are_refused(channel: BlockingChannel, name: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as refusal:
        declare(channel, {"x-sort-key": "a", "sortKey": "b"}, name)
    assert refusal.value.reply_code == 406
    assert "contradictory args 'x-sort-key' and 'sortKey'" in refusal.value.reply_text


# ---------------------------------------------------------------------------------- what they are


@pytest.mark.row("A4")
@pytest.mark.parametrize("arguments", [{"x-qpid-priorities": 10}, {"priorities": "10"}])
def test_a_priority_queue(channel: BlockingChannel, arguments: dict[str, Any]) -> None:
    queue = declare(channel, arguments)
    publish_all(channel, queue, {"priority": 3}, {}, {"priority": 5})
    assert get_all(channel, queue) == [b"2", b"1", b"0"]


@pytest.mark.row("A5")
@pytest.mark.parametrize("key", ["qpid.queue_sort_key", "sortKey"])
def test_a_sorted_queue(channel: BlockingChannel, key: str) -> None:
    queue = declare(channel, {key: "due"})
    publish_all(channel, queue, *({"headers": {"due": due}} for due in ("c", "a", "b")), {})
    assert get_all(channel, queue) == [b"3", b"1", b"2", b"0"]


@pytest.mark.row("A6")
@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"qpid.last_value_queue_key": "symbol"}, "symbol"),
        ({"lvqKey": "symbol"}, "symbol"),
        ({"qpid.last_value_queue": True}, "qpid.LVQ_key"),
        ({"qpid.last_value_queue": True, "qpid.last_value_queue_key": "symbol"}, "symbol"),
    ],
)
def test_a_last_value_queue(channel: BlockingChannel, arguments: dict[str, Any], key: str) -> None:
    queue = declare(channel, arguments)
    publish_all(channel, queue, *({"headers": {key: symbol}} for symbol in "aba"), {})
    assert get_all(channel, queue) == [b"1", b"2", b"3"]


# -------------------------------------------------------------------------- how long, and how much


@pytest.mark.row("A16")
@pytest.mark.parametrize(
    ("bound", "expiration", "is_gone"),
    [
        ({"maximumMessageTtl": 60}, "3600000", True),
        ({"maximumMessageTtl": 60}, None, True),
        ({"maximumMessageTtl": 3_600_000}, "60", True),
        ({"minimumMessageTtl": 3_600_000}, "60", False),
        ({"minimumMessageTtl": 60}, None, False),
    ],
)
def test_bounds_on_the_time_to_live(
    channel: BlockingChannel,
    queue: str,
    bound: dict[str, int],
    expiration: str | None,
    is_gone: bool,
) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    bounded, clock = declare(channel, {**bound, **dead}), declare(channel, dead)
    started_s = time.monotonic()
    channel.basic_publish("", bounded, b"bounded", pika.BasicProperties(expiration=expiration))
    channel.basic_publish("", clock, b"clock", pika.BasicProperties(expiration="120"))
    expected = [b"bounded", b"clock"] if is_gone else [b"clock"]
    assert [body for *_, body in receive(channel, queue, len(expected))] == expected
    assert time.monotonic() - started_s >= 0.1
    assert ready_count(channel, bounded) == (0 if is_gone else 1)


COUNT_LIMITS = ["qpid.max_count", "maximumQueueDepthMessages"]
#: By Qpid's names properties count as well as bodies, so bodies are large and limits not exact.
BYTE_LIMITS = ["qpid.max_size", "x-qpid-capacity", "maximumQueueDepthBytes"]
DEPTHS = [{name: 3} for name in COUNT_LIMITS] + [{name: 3_500} for name in BYTE_LIMITS]


def policies(name_on_the_wire: str, attribute: str) -> list[dict[str, str]]:
    return [{"qpid.policy_type": name_on_the_wire}, {"overflowPolicy": attribute}]


@pytest.mark.row("A20", "A22")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("policy", policies("ring", "RING"))
def test_ring_keeps_the_newest(
    channel: BlockingChannel, depth: dict[str, int], policy: dict[str, str]
) -> None:
    queue = declare(channel, {**depth, **policy})
    publish(channel, queue, *[b"%01000d" % number for number in range(10)])
    assert [int(body) for body in get_all(channel, queue)] == [7, 8, 9]


@pytest.mark.row("A20", "A25")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("policy", policies("reject", "REJECT"))
def test_reject_refuses_what_is_too_much(
    channel: BlockingChannel, depth: dict[str, int], policy: dict[str, str]
) -> None:
    queue = declare(channel, {**depth, **policy})
    channel.confirm_delivery()
    publish(channel, queue, *[b"%01000d" % number for number in range(3)])
    with pytest.raises(NackError):
        publish(channel, queue, b"%01000d" % 3)
    assert [int(body) for body in get_all(channel, queue)] == [0, 1, 2]


@pytest.mark.row("A20", "A21")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("policy", [*policies("none", "NONE"), {}])
def test_none_keeps_all(
    channel: BlockingChannel, depth: dict[str, int], policy: dict[str, str]
) -> None:
    queue = declare(channel, {**depth, **policy})
    publish(channel, queue, *[b"%01000d" % number for number in range(10)])
    assert [int(body) for body in get_all(channel, queue)] == list(range(10))


@pytest.mark.row("A24")
@pytest.mark.parametrize("depth", [{"x-max-length": 3}, *DEPTHS])
@pytest.mark.parametrize(
    "policy", [{"x-overflow": "flow-to-disk"}, *policies("flow_to_disk", "FLOW_TO_DISK")]
)
@pytest.mark.row("E27")
def test_flow_to_disk_bounds_nothing_and_gives_all_back_in_order(
    channel: BlockingChannel, depth: dict[str, int], policy: dict[str, str]
) -> None:
    """Where messages are kept is not to be seen from outside."""
    queue = declare(channel, {**depth, **policy})
    channel.confirm_delivery()
    publish(channel, queue, *[b"%01000d" % number for number in range(10)])
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
    channel.basic_nack(tags[-1], multiple=True, requeue=True)
    assert [int(body) for body in get_all(channel, queue)] == list(range(10))


@pytest.mark.row("A20")
@pytest.mark.parametrize("name_of_limit", [*COUNT_LIMITS, *BYTE_LIMITS])
def test_a_limit_below_0_is_none(channel: BlockingChannel, name_of_limit: str) -> None:
    queue = declare(channel, {name_of_limit: -1, "qpid.policy_type": "ring"})
    publish(channel, queue, *[b"x"] * 100)
    assert ready_count(channel, queue) == 100


@pytest.mark.acceptance
@pytest.mark.row("A23")
@pytest.mark.parametrize(
    ("arguments", "resume_count"),
    [
        ({"qpid.policy_type": "producer_flow_control", "qpid.max_count": 10}, 8),
        ({"overflowPolicy": "PRODUCER_FLOW_CONTROL", "maximumQueueDepthBytes": 10_500}, 8),
        ({"x-qpid-capacity": 10_500, "x-qpid-flow-resume-capacity": 5_500}, 5),
        ({"x-overflow": "flow-control", "x-max-length": 10, "x-flow-resume-limit": 30}, 3),
    ],
)
def test_publishers_are_held_until_the_queue_is_down_to_the_limit(
    connect: PikaConnect,
    channel: BlockingChannel,
    name: str,
    arguments: dict[str, Any],
    resume_count: int,
) -> None:
    channel.queue_declare(name, arguments={**arguments, "x-expires": 60_000})
    publisher = connect()
    heard: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
    publisher.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    try:
        publish(publisher.channel(), name, *[bytes(1000)] * 11)
        serve_until(publisher, lambda: heard, "connection.blocked")
        for _ in range(11 - resume_count - 1):
            assert channel.basic_get(name, auto_ack=True)[0] is not None
        ready_count(channel, name)  # what the broker had to say to others is on its way
        publisher.process_data_events(0)
        assert heard == ["blocked"]
        assert channel.basic_get(name, auto_ack=True)[0] is not None
        serve_until(publisher, lambda: len(heard) == 2, "connection.unblocked")
        assert heard == ["blocked", "unblocked"]
    finally:
        channel.queue_delete(name)  # what is held would not close its connection
