"""Queue arguments: RabbitMQ's texts and order of checks, Qpid's names, and equivalence.

The texts of the tests named ``..._as_rabbitmq`` were compared with RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hareline.errors import PreconditionFailed
from hareline.queues.declare.arguments import (
    check_equivalent,
    check_queue_type_properties,
    overlaid,
    parse_queue_arguments,
    server_named_prefix,
)
from hareline.queues.declare.readers import DefaultFilter
from hareline.queues.declare.table import ARGUMENTS, BY_NAME, Argument, QueueArguments
from hareline.wire.table import (
    Array,
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    decode_table,
    encode_table,
)

FIELDS = [argument.field for argument in ARGUMENTS if argument.field is not None]

TEN_YEARS_MS = 315_360_000_000


def parse(arguments: Mapping[str, object]) -> QueueArguments:
    return parse_queue_arguments(arguments, queue="q", vhost="/")


def received(arguments: Mapping[str, object]) -> Table:
    """The arguments as they come from the wire."""
    return decode_table(encode_table(arguments), 0)[0]


def refusal(arguments: Mapping[str, object]) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        parse(received(arguments))
    return caught.value.explanation


def difference(current: Mapping[str, object], redeclared: Mapping[str, object]) -> str | None:
    """What a redeclaration of a queue is told; None when it is fine."""
    try:
        check_equivalent(received(current), received(redeclared), queue="q", vhost="/")
    except PreconditionFailed as problem:
        return problem.explanation
    return None


# ---------------------------------------------------------------------------------- without effect


# of each argument without effect (``field`` None in the table): a value that it accepts
WITHOUT_EFFECT: dict[str, object] = {
    "x-dead-letter-strategy": "at-least-once",
    "x-max-in-memory-length": 1,
    "x-max-in-memory-bytes": 1,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-quorum-initial-group-size": 3,
    "x-stream-max-segment-size-bytes": 1,
    "x-stream-filter-size-bytes": 16,
    "x-initial-cluster-size": 3,
    "x-queue-leader-locator": "balanced",
    "x-queue-master-locator": "min-masters",
    "x-consumer-disconnected-timeout": 1,
    "x-member-placement-tag": "rack",
}


def test_these_arguments_have_no_effect() -> None:
    assert set(WITHOUT_EFFECT) == {
        argument.name for argument in ARGUMENTS if argument.field is None
    }


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_argument_without_effect_is_checked_and_compared_all_the_same(name: str) -> None:
    of_type: dict[str, object] = {"x-queue-type": min(BY_NAME[name].queue_types)}
    if name != "x-queue-master-locator":  # which RabbitMQ takes without looking
        assert f"invalid arg '{name}'" in refusal({**of_type, name: Array()})
    given = {**of_type, name: WITHOUT_EFFECT[name]}
    assert parse(given) == parse(of_type), "it fills no field"
    assert parse(given).raw == given
    assert difference(given, given) is None
    text = difference(given, of_type)
    assert text is not None
    assert text.startswith(f"inequivalent arg '{name}' for queue 'q' in vhost '/': ")


# ------------------------------------------------------------------------------------------- fields


def test_nothing_given_is_none_everywhere() -> None:
    parsed = parse({})
    assert parsed == QueueArguments(raw={})
    assert all(getattr(parsed, field) is None for field in FIELDS)


def test_rabbitmq_arguments_fill_their_fields() -> None:
    parsed = parse(
        received(
            {
                "x-expires": 1,
                "x-message-ttl": 0,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
                "x-max-length": SignedInt(10),
                "x-max-length-bytes": Short(11),
                "x-max-priority": UnsignedByte(255),
                "x-overflow": "reject-publish-dlx",
                "x-single-active-consumer": True,
                "x-queue-type": "classic",
                "x-delivery-limit": -1,
            }
        )
    )
    # differs: no-effect
    assert parsed.expires_ms == 1
    assert parsed.message_ttl_ms == 0
    assert parsed.dead_letter_exchange == ""
    assert parsed.dead_letter_routing_key == "dead"
    assert (parsed.max_length, parsed.max_length_bytes) == (10, 11)
    assert parsed.max_priority == 255
    assert parsed.overflow == "reject-publish-dlx"
    assert parsed.single_active_consumer is True
    assert parsed.queue_type == "classic"
    assert parsed.delivery_limit == -1


def test_an_integer_of_any_width_becomes_a_plain_integer() -> None:
    for value in (
        Byte(7),
        UnsignedByte(7),
        Short(7),
        UnsignedShort(7),
        UnsignedInt(7),
        LongLong(7),
    ):
        assert type(parse(received({"x-max-length": value})).max_length) is int


def test_raw_is_what_came_also_what_means_nothing_here() -> None:
    arguments = received({"x-my-own": [1, {"a": None}], "x-max-length": 3})
    parsed = parse(arguments)
    assert parsed.raw is arguments
    assert parsed.max_length == 3


def test_unknown_arguments_are_no_error_whatever_they_hold() -> None:
    parsed = parse(received({"x-message-tll": "soon", "x-": None, "": Array()}))
    assert parsed == parse({})
    assert parsed.raw == {"x-message-tll": "soon", "x-": None, "": []}


def test_a_parsed_value_is_frozen_and_equal_by_what_it_means() -> None:
    parsed = parse({"x-default-filters": {"a": {"x-qpid-replay-period": ["1"]}}})
    same = parse({"defaultFilters": '{"a": {"x-qpid-replay-period": ["1"]}}'})
    assert parsed == same
    assert hash(parsed) == hash(same)
    assert parsed != parse({"x-default-filters": {}})
    with pytest.raises(dataclasses.FrozenInstanceError):
        parsed.max_length = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1s", 1000),
        ("2m", 120_000),
        ("3h", 10_800_000),
        ("007D", 7 * 86_400_000),
        ("1M", 30 * 86_400_000),
        ("1Y", 365 * 86_400_000),
    ],
)
def test_max_age_is_read_in_its_units(text: str, milliseconds: int) -> None:
    assert parse({"x-queue-type": "stream", "x-max-age": text}).max_age_ms == milliseconds


# -------------------------------------------------------------------- refusals, as RabbitMQ's texts

INVALID: list[tuple[str, object, str]] = [
    ("x-message-ttl", SignedInt(-1), "{value_negative,-1}"),
    ("x-message-ttl", TEN_YEARS_MS + 1, "{value_too_large,315360000001}"),
    ("x-message-ttl", "10", '"expected integer, got longstr"'),
    ("x-message-ttl", True, '"expected integer, got bool"'),
    ("x-message-ttl", 1.5, '"expected integer, got double"'),
    ("x-message-ttl", Float(1.5), '"expected integer, got float"'),
    ("x-message-ttl", Timestamp(5), '"expected integer, got timestamp"'),
    ("x-message-ttl", None, '"expected integer, got void"'),
    ("x-message-ttl", b"10", '"expected integer, got binary"'),
    ("x-message-ttl", [1], '"expected integer, got array"'),
    ("x-message-ttl", {"a": 1}, '"expected integer, got table"'),
    ("x-message-ttl", Decimal("1.5"), '"expected integer, got decimal"'),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -5, "{value_negative,-5}"),
    ("x-expires", TEN_YEARS_MS + 1, "{value_too_large,315360000001}"),
    ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("x-dead-letter-routing-key", 5, "{unacceptable_type,long}"),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length-bytes", "5", '"expected integer, got longstr"'),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-overflow", "drop-tail", "invalid_overflow"),
    ("x-overflow", 5, "{unacceptable_type,long}"),
    ("x-queue-mode", "eager", "\"unsupported queue mode 'eager'\""),
    ("x-queue-mode", True, "{unacceptable_type,bool}"),
    ("x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("x-queue-version", -1, "{value_negative,-1}"),
    ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ("x-single-active-consumer", 1, "{unacceptable_type,long}"),
    ("x-queue-type", "x", "\"unsupported queue type 'x'\""),
    ("x-queue-type", 'a"b\\c', '"unsupported queue type \'a\\"b\\\\c\'"'),
    ("x-queue-type", b"classic", "{unacceptable_type,binary}"),
]


@pytest.mark.parametrize(("name", "value", "term"), INVALID)
def test_a_bad_value_is_refused_as_rabbitmq_does(name: str, value: object, term: str) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


@pytest.mark.parametrize(
    ("queue_type", "name", "value", "term"),
    [
        ("quorum", "x-dead-letter-strategy", "maybe", "invalid_dlx_strategy"),
        ("quorum", "x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("quorum", "x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("quorum", "x-queue-leader-locator", "here", "invalid_queue_locator_arg"),
        ("stream", "x-initial-cluster-size", 0, "{value_zero,0}"),
        ("stream", "x-max-age", "1A", "invalid_max_age"),
        ("stream", "x-max-age", "0D", "invalid_max_age"),
        ("stream", "x-max-age", "1D2", "invalid_max_age"),
        ("stream", "x-max-age", 5, "{unacceptable_type,long}"),
    ],
)
def test_a_bad_value_for_another_queue_type_is_refused_as_rabbitmq_does(
    queue_type: str, name: str, value: object, term: str
) -> None:
    text = refusal({name: value, "x-queue-type": queue_type})
    assert text == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


@pytest.mark.parametrize("age", ["", "D", "-1D", "1", "1y", "1D\n", "9" * 5000 + "D", "\u0661D"])
def test_a_max_age_that_is_none_is_refused(age: str) -> None:
    text = refusal({"x-max-age": age, "x-queue-type": "stream"})
    # differs: max-age-number
    assert text == "invalid arg 'x-max-age' for queue 'q' in vhost '/': invalid_max_age"


@pytest.mark.parametrize(("limit", "type_"), [("3", "longstr"), (2.5, "double"), (True, "bool")])
def test_a_delivery_limit_that_is_not_an_integer_is_refused(limit: object, type_: str) -> None:
    text = refusal({"x-delivery-limit": limit})
    # differs: delivery-limit-type
    assert text == (
        "invalid arg 'x-delivery-limit' for queue 'q' in vhost '/': "
        f'"expected integer, got {type_}"'
    )


def test_the_type_of_the_dead_letter_exchange_is_checked_first_as_rabbitmq() -> None:
    text = refusal({"x-queue-type": "x", "x-expires": 0, "x-dead-letter-exchange": SignedInt(4)})
    assert (
        text
        == "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )


def test_the_queue_type_is_checked_before_the_rest_as_rabbitmq() -> None:
    assert refusal({"x-expires": 0, "x-queue-type": "x"}).endswith("unsupported queue type 'x'\"")


def test_values_are_checked_in_the_order_of_rabbitmq_not_of_the_table() -> None:
    assert "'x-expires'" in refusal({"x-message-ttl": -1, "x-expires": -1})
    assert "'x-max-length'" in refusal({"x-overflow": "z", "x-max-length": -1})


@pytest.mark.parametrize(
    ("name", "value", "queue_type"),
    [
        ("x-max-priority", 5, "quorum"),
        ("x-max-priority", 5, "stream"),
        ("x-message-ttl", 5, "stream"),
        ("x-overflow", "drop-head", "stream"),
        ("x-queue-mode", "lazy", "quorum"),
        ("x-delivery-limit", 3, "stream"),
        ("x-max-age", "1D", "classic"),
        ("x-max-age", "1D", "quorum"),
        ("x-dead-letter-strategy", "at-least-once", "classic"),
        ("x-sort-key", "k", "quorum"),
        ("qpid.last_value_queue_key", "k", "stream"),
    ],
)
def test_an_argument_that_the_queue_type_has_not_is_refused_as_rabbitmq_does(
    name: str, value: object, queue_type: str
) -> None:
    assert refusal({name: value, "x-queue-type": queue_type}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{queue_type}_queue"
    )


def test_of_several_foreign_arguments_the_first_received_is_named() -> None:
    assert "'x-max-age'" in refusal({"x-max-age": "1D", "x-dead-letter-strategy": "x"})
    assert "'x-dead-letter-strategy'" in refusal({"x-dead-letter-strategy": "x", "x-max-age": "1D"})


def test_the_sizes_of_a_stream_have_their_own_sentences() -> None:
    assert refusal(
        {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 3_000_000_001}
    ) == ("Exceeded max value for x-stream-max-segment-size-bytes")
    for size in (15, 256):
        assert refusal({"x-queue-type": "stream", "x-stream-filter-size-bytes": size}) == (
            "Invalid value for x-stream-filter-size-bytes"
        )
    fits = {"x-stream-max-segment-size-bytes": 3_000_000_000, "x-stream-filter-size-bytes": 16}
    assert parse({"x-queue-type": "stream", **fits}).raw == {"x-queue-type": "stream", **fits}


def test_queue_and_vhost_are_named_as_they_are() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        parse_queue_arguments({"x-expires": 0}, queue="ä b", vhost="v/1")
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'ä b' in vhost 'v/1': "
        "{value_zero,0}"
    )


def test_a_plain_dictionary_has_the_types_that_it_would_be_sent_with() -> None:
    for value, name in ((b"", "binary"), (None, "void"), (1.0, "double"), ({}, "table")):
        with pytest.raises(PreconditionFailed, match=f"expected integer, got {name}"):
            parse({"x-max-length": value})
    with pytest.raises(PreconditionFailed, match="invalid type 'long' for arg"):
        parse({"x-dead-letter-exchange": 4})


# ------------------------------------------------------------------------------------- Qpid's names


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("qpid.max_count", 10, "max_length", 10),
        ("qpid.max_count", "10", "max_length", 10),
        ("maximumQueueDepthMessages", 0, "max_length", 0),
        ("maximumQueueDepthMessages", -1, "max_length", None),
        ("qpid.max_size", 10.9, "max_length_bytes", 10),
        ("x-qpid-capacity", SignedInt(7), "max_length_bytes", 7),
        ("maximumQueueDepthBytes", "-5", "max_length_bytes", None),
        ("qpid.policy_type", "ring", "overflow", "drop-head"),
        ("qpid.policy_type", "Flow_To_Disk", "overflow", "flow-to-disk"),
        ("overflowPolicy", "PRODUCER_FLOW_CONTROL", "overflow", "flow-control"),
        ("overflowPolicy", "REJECT", "overflow", "reject-publish"),
        ("overflowPolicy", "NONE", "overflow", "none"),
        ("x-qpid-priorities", "3", "priorities", 3),
        ("priorities", 10, "priorities", 10),
        ("qpid.queue_sort_key", "k", "sort_key", "k"),
        ("sortKey", "k", "sort_key", "k"),
        ("qpid.last_value_queue_key", "k", "last_value_key", "k"),
        ("lvqKey", "k", "last_value_key", "k"),
        ("qpid.last_value_queue", True, "last_value_key", "qpid.LVQ_key"),
        ("qpid.last_value_queue", 1, "last_value_key", "qpid.LVQ_key"),
        ("qpid.last_value_queue", "TRUE", "last_value_key", "qpid.LVQ_key"),
        ("qpid.last_value_queue", False, "last_value_key", None),
        ("qpid.group_header_key", "k", "message_group_key", "k"),
        ("messageGroupKeyOverride", "k", "message_group_key", "k"),
        ("messageGroupType", "SHARED_GROUPS", "message_group_type", "shared"),
        ("messageGroupType", "NONE", "message_group_type", "none"),
        ("qpid.shared_msg_group", 1, "message_group_type", "shared"),
        ("qpid.shared_msg_group", "1", "message_group_type", "shared"),
        ("qpid.shared_msg_group", True, "message_group_type", None),
        ("qpid.default-message-group", "g", "message_group_default", "g"),
        ("messageGroupDefaultGroup", "g", "message_group_default", "g"),
        ("qpid.ensure_nondestructive_consumers", "true", "non_destructive", True),
        ("ensureNondestructiveConsumers", False, "non_destructive", False),
        ("no-local", "TRUE", "no_local", True),
        ("no-local", "yes", "no_local", False),
        ("noLocal", True, "no_local", True),
        ("minimumMessageTtl", "5", "min_message_ttl_ms", 5),
        ("maximumMessageTtl", 0, "max_message_ttl_ms", 0),
        ("expiryPolicy", "ROUTE_TO_ALTERNATE", "expiry_policy", "route-to-alternate"),
        ("holdOnPublishEnabled", "False", "hold_on_publish", False),
        ("x-qpid-dlq-enabled", "true", "dlq_auto", True),
        ("alternateExchange", "dead", "alternate_binding", "dead"),
        ("alternateBinding", {"destination": "dead"}, "alternate_binding", "dead"),
        ("alternateBinding", '{"destination": "dead"}', "alternate_binding", "dead"),
        ("x-qpid-maximum-delivery-count", "4", "max_delivery_attempts", 4),
        ("maximumDeliveryAttempts", 0, "max_delivery_attempts", 0),
        ("maximumLiveConsumers", 2, "max_live_consumers", 2),
        ("qpid.message_durability", "ALWAYS", "message_durability", "always"),
        ("messageDurability", "NEVER", "message_durability", "never"),
    ],
)
def test_a_qpid_name_sets_the_field_in_qpids_meaning(
    name: str, value: object, field: str, expected: object
) -> None:
    assert getattr(parse(received({name: value})), field) == expected


@pytest.mark.parametrize(
    ("name", "value", "term"),
    [
        ("qpid.max_count", "ten", "\"expected integer, got 'ten'\""),
        ("qpid.max_count", True, '"expected integer, got bool"'),
        ("qpid.max_count", float("nan"), '"expected integer, got double"'),
        ("qpid.max_count", "9" * 19, "{value_too_large,9999999999999999999}"),
        ("x-qpid-priorities", 0, "{value_zero,0}"),
        ("x-qpid-priorities", 256, "{max_value_exceeded,256}"),
        ("maximumDeliveryAttempts", -1, "{value_negative,-1}"),
        ("qpid.policy_type", "ring_strict", "invalid_overflow"),
        ("overflowPolicy", "ring", "invalid_overflow"),
        ("holdOnPublishEnabled", 1, "{unacceptable_type,long}"),
        ("holdOnPublishEnabled", "on", "{unacceptable_type,longstr}"),
        ("alternateBinding", {"destination": " "}, '"expected a table with a destination"'),
        ("alternateBinding", "dead", '"expected a table, got text that is not JSON"'),
        ("alternateBinding", "[" * 100_000, '"expected a table, got text that is not JSON"'),
        ("alternateBinding", "[]", "{unacceptable_type,longstr}"),
        ("sortKey", " ", "value_blank"),
    ],
)
def test_a_value_that_qpid_could_not_convert_is_refused(
    name: str, value: object, term: str
) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


def test_a_void_under_a_qpid_name_says_nothing() -> None:
    assert parse(received({"qpid.max_count": None, "noLocal": None})).max_length is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x-max-length": 10}, {"qpid.max_count": 11}),
        ({"x-max-length": 10}, {"maximumQueueDepthMessages": -1}),
        ({"qpid.max_size": 10}, {"x-qpid-capacity": 11}),
        ({"x-overflow": "drop-head"}, {"overflowPolicy": "REJECT"}),
        ({"x-hold-on-publish": True}, {"holdOnPublishEnabled": "false"}),
        ({"alternateBinding": {"destination": "a"}}, {"alternateExchange": "b"}),
    ],
)
def test_two_names_of_one_argument_with_different_values_are_both_named(
    first: dict[str, object], second: dict[str, object]
) -> None:
    text = refusal(second | first)
    assert text == (
        f"contradictory args '{next(iter(first))}' and '{next(iter(second))}' "
        "for queue 'q' in vhost '/': they mean the same and differ"
    )


def test_two_names_of_one_argument_that_mean_the_same_are_fine() -> None:
    parsed = parse(
        {"x-max-length": 10, "qpid.max_count": "10", "x-overflow": "drop-head"}
        | {"qpid.policy_type": "ring"}
    )
    assert (parsed.max_length, parsed.overflow) == (10, "drop-head")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x-max-priority": 5}, {"x-last-value-key": "k"}),
        ({"x-max-priority": 0}, {"x-qpid-priorities": 3}),
        ({"priorities": 5}, {"qpid.queue_sort_key": "k"}),
        ({"x-sort-key": "k"}, {"qpid.last_value_queue": True}),
    ],
)
def test_contradictory_orderings_are_both_named(
    first: dict[str, object], second: dict[str, object]
) -> None:
    assert refusal(second | first) == (
        f"contradictory args '{next(iter(first))}' and '{next(iter(second))}' "
        "for queue 'q' in vhost '/': a queue has one ordering"
    )


def test_the_last_value_switch_names_the_default_key_only_where_no_key_is_given() -> None:
    switch = {"qpid.last_value_queue": True}
    assert parse(switch).last_value_key == "qpid.LVQ_key"
    assert parse({**switch, "qpid.last_value_queue_key": "stock"}).last_value_key == "stock"
    assert parse({"qpid.last_value_queue": False, "x-max-priority": 5}).last_value_key is None


def test_details_of_sorting_need_a_sort_key() -> None:
    parsed = parse({"x-sort-order": "desc", "x-sort-type": "number", "sortKey": "price"})
    assert (parsed.sort_key, parsed.sort_order, parsed.sort_type) == ("price", "desc", "number")
    assert refusal({"x-sort-order": "desc"}).endswith(": sort_order_but_no_sort_key_defined")
    assert refusal({"x-sort-type": "number"}).endswith(": sort_type_but_no_sort_key_defined")


@pytest.mark.parametrize("name", ["x-message-group-key", "qpid.group_header_key"])
def test_a_group_key_without_a_type_makes_standard_groups(name: str) -> None:
    assert parse({name: "cart"}).message_group_type == "standard"
    assert parse({name: "cart", "qpid.shared_msg_group": 0}).message_group_type == "standard"
    assert parse({name: "cart", "qpid.shared_msg_group": 1}).message_group_type == "shared"
    assert parse({name: "cart", "messageGroupType": "NONE"}).message_group_type == "none"


@pytest.mark.parametrize("spelling", ["JMSXGroupID", "JMSXGroupId"])
def test_the_built_in_group_key_is_no_header_of_its_own(spelling: str) -> None:
    parsed = parse({"qpid.group_header_key": spelling, "qpid.shared_msg_group": "1"})
    assert (parsed.message_group_key, parsed.message_group_type) == (None, "shared")


def test_limits_by_qpids_names_bound_nothing_until_a_policy_is_named() -> None:
    assert parse({"qpid.max_count": 5}).overflow == "none"
    assert parse({"qpid.max_count": 5, "qpid.policy_type": "ring"}).overflow == "drop-head"
    assert parse({"qpid.max_count": 5, "x-max-length-bytes": 5}).overflow is None
    assert parse({"x-max-length": 5}).overflow is None


def test_a_flow_resume_capacity_turns_flow_control_on() -> None:
    flow = {"x-qpid-capacity": 1000, "x-qpid-flow-resume-capacity": "800"}
    parsed = parse({**flow, "qpid.policy_type": "ring"})
    assert (parsed.overflow, parsed.flow_resume_percent) == ("flow-control", 80.0)
    assert parse({**flow, "x-overflow": "discard"}).overflow == "discard"
    assert parse({**flow, "x-flow-resume-limit": 50}).flow_resume_percent == 50.0
    assert parse({"x-qpid-flow-resume-capacity": 800}).overflow is None
    assert parse({"x-qpid-capacity": 0, "x-qpid-flow-resume-capacity": 0}).flow_resume_percent == 0
    assert refusal({"x-qpid-capacity": 10, "x-qpid-flow-resume-capacity": 11}) == (
        "invalid arg 'x-qpid-flow-resume-capacity' for queue 'q' in vhost '/': "
        "{max_value_exceeded,11}"
    )


@pytest.mark.parametrize("value", [-1, 101, 100.1, "80", True, float("nan")])
def test_a_resume_limit_is_a_percentage(value: object) -> None:
    assert refusal({"x-flow-resume-limit": value}).startswith("invalid arg 'x-flow-resume-limit'")


def test_default_filters_come_as_a_table_or_as_json() -> None:
    expected = (
        DefaultFilter("x-qpid-replay-period", "x-qpid-replay-period", "0"),
        DefaultFilter("mine", "x-filter-jms-selector", "a > 1"),
    )
    table = {
        "x-qpid-replay-period": {"x-qpid-replay-period": ["0"]},
        "mine": {"x-filter-jms-selector": ["a > 1"]},
    }
    assert parse(received({"qpid.default_filters": table})).default_filters == expected
    text = (
        '{"x-qpid-replay-period": {"x-qpid-replay-period": ["0"]},'
        ' "mine": {"x-filter-jms-selector": ["a > 1"]}}'
    )
    assert parse({"defaultFilters": text}).default_filters == expected
    assert parse({"x-default-filters": {}}).default_filters == ()


@pytest.mark.parametrize(
    ("value", "term"),
    [
        (5, "{unacceptable_type,long}"),
        ("nonsense", '"expected a table, got text that is not JSON"'),
        ({"f": "x"}, "\"filter 'f' needs exactly one type\""),
        ({"f": {}}, "\"filter 'f' needs exactly one type\""),
        ({"f": {"a": ["1"], "b": ["1"]}}, "\"filter 'f' needs exactly one type\""),
        ({"f": {"x-qpid-replay-period": "1"}}, "\"filter 'f' needs a list of one argument\""),
        ({"f": {"x-qpid-replay-period": []}}, "\"filter 'f' needs a list of one argument\""),
        ({"f": {"x-qpid-replay-period": ["1h"]}}, "\"filter 'f' has an invalid argument\""),
        ({"f": {"x-filter-jms-selector": [" "]}}, "\"filter 'f' has an invalid argument\""),
        ({"f": {"x-color": ["red"]}}, "\"filter 'f' has an unknown type 'x-color'\""),
    ],
)
def test_default_filters_of_another_shape_are_refused(value: object, term: str) -> None:
    assert refusal({"x-default-filters": value}) == (
        f"invalid arg 'x-default-filters' for queue 'q' in vhost '/': {term}"
    )


# ------------------------------------------------------------------------ properties and the prefix


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"is_durable": False}, "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        ({"is_exclusive": True}, "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"),
        ({"is_auto_delete": True}, "invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        (
            {"is_durable": False, "is_exclusive": True, "is_auto_delete": True},
            "invalid property 'auto-delete' for queue 'q' in vhost '/'",
        ),
        (
            {"is_durable": False, "is_exclusive": True},
            "invalid property 'exclusive-owner' for queue 'q' in vhost '/'",
        ),
    ],
)
def test_replicated_queue_types_are_durable_shared_and_permanent_as_rabbitmq(
    queue_type: str, properties: dict[str, bool], text: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_properties({"x-queue-type": queue_type}, **properties)
    assert caught.value.explanation == text


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
def test_a_replicated_queue_is_named_by_its_client_as_rabbitmq(queue_type: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_properties({"x-queue-type": queue_type}, is_server_named=True, is_durable=False)
    assert caught.value.explanation == (
        f"Cannot declare a server-named queue for type rabbit_{queue_type}_queue"
    )


def check_properties(arguments: Mapping[str, object], **properties: bool) -> None:
    given_properties: dict[str, Any] = {
        "is_durable": True,
        "is_exclusive": False,
        "is_auto_delete": False,
        "is_server_named": False,
    }
    given_properties.update(properties)
    check_queue_type_properties(parse(arguments), queue="q", vhost="/", **given_properties)


def test_plain_durable_queues_of_every_type_and_classic_ones_of_any_kind_are_fine() -> None:
    for queue_type in ("classic", "quorum", "stream"):
        check_properties({"x-queue-type": queue_type})
    for arguments in ({}, {"x-queue-type": "classic"}):
        check_properties(
            arguments,
            is_durable=False,
            is_exclusive=True,
            is_auto_delete=True,
            is_server_named=True,
        )


@pytest.mark.parametrize("value", [None, "", 5, b"app"])
def test_a_name_prefix_that_is_none_leaves_the_usual_one(value: object) -> None:
    assert server_named_prefix({"x-name-prefix": value}) == "amq.gen"
    assert server_named_prefix({}) == "amq.gen"


def test_a_name_prefix_has_at_most_64_octets() -> None:
    assert server_named_prefix({"x-name-prefix": "ü" * 32}) == "ü" * 32
    with pytest.raises(PreconditionFailed) as caught:
        server_named_prefix({"x-name-prefix": "ü" * 32 + "x"})
    assert caught.value.explanation == (
        f"Queue name prefix '{'ü' * 32}x' exceeds the 64-byte limit"
    )


# -------------------------------------------------------------------------------------- equivalence

INEQUIVALENT: list[tuple[dict[str, object], dict[str, object], str]] = [
    (
        {"x-message-ttl": SignedInt(1000)},
        {},
        "'x-message-ttl' * received none but current is the value '1000' of type 'signedint'",
    ),
    (
        {},
        {"x-message-ttl": 2000},
        "'x-message-ttl' * received the value '2000' of type 'long' but current is none",
    ),
    (
        {"x-message-ttl": 1000},
        {"x-message-ttl": SignedInt(2000)},
        "'x-message-ttl' * received '2000' but current is '1000'",
    ),
    (
        {"x-message-ttl": 1},
        {"x-message-ttl": True},
        "'x-message-ttl' * received 'true' but current is '1'",
    ),
    (
        {"x-message-ttl": 1000},
        {"x-message-ttl": "1000"},
        "'x-message-ttl' * received '1000' but current is '1000'",
    ),
    (
        {"x-max-length": 5},
        {"x-max-length": None},
        "'x-max-length' * received none but current is '5'",
    ),
    (
        {},
        {"x-max-length": None},
        "'x-max-length' * received the value 'undefined' of type 'void' but current is none",
    ),
    (
        {"x-single-active-consumer": False},
        {},
        "'x-single-active-consumer' * received none but current is the value 'false' of type "
        "'bool'",
    ),
    (
        {"x-dead-letter-exchange": "a"},
        {"x-dead-letter-exchange": "b"},
        "'x-dead-letter-exchange' * received 'b' but current is 'a'",
    ),
    (
        {},
        {"x-queue-type": "quorum"},
        "'x-queue-type' * received the value 'quorum' of type 'longstr' but current is none",
    ),
    (
        {"x-queue-type": "quorum"},
        {},
        "'x-queue-type' * received none but current is the value 'quorum' of type 'longstr'",
    ),
    (
        {"x-queue-type": "classic"},
        {"x-queue-type": "stream"},
        "'x-queue-type' * received 'stream' but current is 'classic'",
    ),
    (
        {},
        {"x-queue-type": b"classic"},
        "'x-queue-type' * received the value 'classic' of type 'binary' but current is none",
    ),
    (
        {"x-max-length": 5, "x-max-priority": 3},
        {"x-max-length": 6, "x-max-priority": 4},
        "'x-max-length' * received '6' but current is '5'",
    ),
    (
        {},
        {"x-message-ttl": -1},
        "'x-message-ttl' * received the value '-1' of type 'long' but current is none",
    ),
]


@pytest.mark.parametrize(("current", "redeclared", "text"), INEQUIVALENT)
def test_an_inequivalent_argument_is_refused_as_rabbitmq_does(
    current: dict[str, object], redeclared: dict[str, object], text: str
) -> None:
    expected = "inequivalent arg " + text.replace(" * ", " for queue 'q' in vhost '/': ")
    assert difference(current, redeclared) == expected


@pytest.mark.parametrize(
    ("current", "redeclared"),
    [
        ({}, {}),
        ({"x-message-ttl": 1000}, {"x-message-ttl": Short(1000)}),
        ({"x-message-ttl": UnsignedInt(1000)}, {"x-message-ttl": LongLong(1000)}),
        ({"x-message-ttl": 1000}, {"x-message-ttl": Timestamp(1000)}),
        ({"x-overflow": "drop-head"}, {"x-overflow": b"drop-head"}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-queue-type": "classic"}, {}),
        ({"x-foo": 1}, {"x-foo": 2}),
        ({}, {"x-foo": 2}),
        ({"x-foo": 1}, {}),
        ({}, {"x-max-age": "1D"}),  # a classic queue has none, so it is not looked at
        ({"x-queue-type": "stream"}, {"x-queue-type": "stream", "x-message-ttl": 5}),
    ],
)
def test_an_equivalent_redeclaration_is_fine_as_rabbitmq(
    current: dict[str, object], redeclared: dict[str, object]
) -> None:
    assert difference(current, redeclared) is None


def test_two_names_of_one_argument_compare_by_what_they_mean() -> None:
    assert difference({"qpid.max_count": "10"}, {"x-max-length": 10}) is None
    assert difference({"x-overflow": "drop-head"}, {"qpid.policy_type": "RING"}) is None
    assert difference({"x-max-length": 10}, {"qpid.max_count": 11}) == (
        "inequivalent arg 'qpid.max_count' for queue 'q' in vhost '/': "
        "received '11' but current is '10'"
    )
    assert difference({"x-max-length": 10}, {"qpid.max_count": "ten"}) == (
        "inequivalent arg 'qpid.max_count' for queue 'q' in vhost '/': "
        "received 'ten' but current is '10'"
    )
    assert difference({"qpid.max_count": 10}, {}) == (
        "inequivalent arg 'qpid.max_count' for queue 'q' in vhost '/': "
        "received none but current is the value '10' of type 'long'"
    )


def test_tables_compare_by_their_values_and_show_them() -> None:
    one = {"x-default-filters": {"f": {"x-qpid-replay-period": ["1"]}}}
    two = {"x-default-filters": {"f": {"x-qpid-replay-period": ["2"]}}}
    assert difference(one, one) is None
    assert difference(one, two) == (
        "inequivalent arg 'x-default-filters' for queue 'q' in vhost '/': received "
        "'{f:{x-qpid-replay-period:[2]}}' but current is '{f:{x-qpid-replay-period:[1]}}'"
    )
    assert difference({"x-flow-resume-limit": 80.0}, {"x-flow-resume-limit": Float(80.0)}) is None
    assert difference({"x-flow-resume-limit": 80.0}, {"x-flow-resume-limit": 80}) is not None


# --------------------------------------------------------------------------------------- properties

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1).map(SignedInt),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.binary(max_size=5),
    st.sampled_from(
        ["", "true", "classic", "quorum", "stream", "drop-head", "RING", "1D", "7", "{}", "NONE"]
    ),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(
        st.text("abc", max_size=2), st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=2
    ),
)
TABLES = st.dictionaries(st.sampled_from(sorted([*BY_NAME, "x-foo"])), VALUES, max_size=6)


def test_an_overlay_replaces_by_meaning() -> None:
    declared = {"qpid.max_count": 5, "x-other": 1}
    assert overlaid(declared, {"x-max-length": 7}) == {"x-other": 1, "x-max-length": 7}
    assert overlaid(declared, {"x-max-length": None}) == {"x-other": 1}
    assert overlaid(declared, {"x-other": None}) == {"qpid.max_count": 5}


@given(TABLES)
@example({"no-local": math.nan, "x-queue-master-locator": [math.nan]})
def test_whatever_comes_is_read_or_refused_and_is_equivalent_to_itself(
    arguments: dict[str, object],
) -> None:
    table = received(arguments)
    try:
        parse(table)
    except PreconditionFailed as problem:
        refused = problem.explanation
    else:
        check_equivalent(table, table, queue="q", vhost="/")
        check_equivalent(table, received(arguments), queue="q", vhost="/")
        return
    assert "queue 'q' in vhost '/'" in refused or "x-stream-" in refused


@given(st.dictionaries(st.sampled_from(sorted(BY_NAME)), VALUES, max_size=3), TABLES)
def test_any_two_declarations_compare_without_a_fault(
    current: dict[str, object], redeclared: dict[str, object]
) -> None:
    try:
        parse(received(current))
    except PreconditionFailed:
        current = {}
    text = difference(current, redeclared)
    assert text is None or text.startswith("inequivalent arg '")


@given(st.sampled_from(ARGUMENTS), VALUES)
def test_the_same_octets_are_read_the_same_each_time(argument: Argument, value: object) -> None:
    arguments = {argument.name: value, "x-queue-type": min(argument.queue_types)} | (
        {argument.name: value} if argument.name == "x-queue-type" else {}
    )
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(repr(dataclasses.astuple(parse(received(arguments)))))
        except PreconditionFailed as problem:
            outcomes.append(problem.reply_text)
    assert outcomes[0] == outcomes[1]
