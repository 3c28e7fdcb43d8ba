"""Methods: our codec against pamqp where pamqp is right, and beside it where it is not."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import base as pamqp_base
from pamqp import exceptions as pamqp_exceptions
from pamqp import frame as pamqp_frame

from hareline.errors import CommandInvalid, FrameError
from hareline.wire.constants import FRAME_END
from hareline.wire.methods import (
    Access,
    Exchange,
    Frame,
    commands,
    decode_method,
    encode_method,
    method_name,
)
from hareline.wire.table import Table, Timestamp, text_octets
from tests.support.examples import examples

PAMQP_METHODS: list[type[Frame]] = list(commands.INDEX_MAPPING.values())
OUR_METHODS: list[type[Frame]] = [
    Access.Request,
    Access.RequestOk,
    Exchange.Bound,
    Exchange.BoundOk,
]
ALL_METHODS = [*PAMQP_METHODS, *OUR_METHODS]
CONTENT_METHODS = [
    commands.Basic.Publish,
    commands.Basic.Return,
    commands.Basic.Deliver,
    commands.Basic.GetOk,
]
TABLES = st.dictionaries(
    st.text(max_size=10),
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(width=32, allow_nan=False),
        st.text(max_size=10),
        st.none(),
        st.lists(st.text(max_size=5), max_size=3),
        st.dictionaries(st.text(max_size=5), st.booleans(), max_size=2),
    ),
    max_size=4,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": st.text(max_size=80).filter(lambda text: len(text.encode()) <= 255),
    "longstr": st.text(max_size=100),
    "table": TABLES,
}
# what pamqp's validators let through: names of a narrow alphabet, deprecated fields empty
PAMQP_NAMES = st.text("abcXYZ019-_.:@#,/", max_size=80)
PAMQP_VALUES = VALUES | {
    "shortstr": PAMQP_NAMES,
    "longstr": st.text(max_size=100),
    "longlong": st.integers(0, 2**63 - 1),
}
PAMQP_ONLY: dict[str, Any] = {
    "ticket": 0,
    "capabilities": "",
    "insist": False,
    "known_hosts": "",
    "cluster_id": "",
    "out_of_band": "0",
    "channel_id": "0",
}


@st.composite
def fields_of(draw: st.DrawFn, method_class: type[Frame], for_pamqp: bool) -> dict[str, Any]:
    values = PAMQP_VALUES if for_pamqp else VALUES
    fields: dict[str, Any] = {}
    for name in method_class.__slots__:
        if for_pamqp and name in PAMQP_ONLY:
            fields[name] = PAMQP_ONLY[name]
        else:
            fields[name] = draw(values[method_class.amqp_type(name)])
    return fields


def payload_of(frame: bytes) -> bytes:
    kind, _, size = struct.unpack(">BHI", frame[:7])
    assert kind == 1
    assert frame[-1] == FRAME_END
    assert len(frame) == size + 8
    return frame[7:-1]


def name_of(method_class: type[Frame]) -> str:
    return method_class.name


# ------------------------------------------------------------------------------------ round trip


@pytest.mark.parametrize("method_class", ALL_METHODS, ids=name_of)
@settings(max_examples=examples(0.4))
@given(data=st.data())
def test_what_was_encoded_is_decoded(method_class: type[Frame], data: st.DataObject) -> None:
    fields = data.draw(fields_of(method_class, for_pamqp=False))
    channel = data.draw(st.integers(0, 65535))
    frame = encode_method(channel, method_class, **fields)
    assert frame[1:3] == channel.to_bytes(2, "big")
    method = decode_method(payload_of(frame))
    assert type(method) is method_class
    assert dict(method) == fields


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize("method_class", PAMQP_METHODS, ids=name_of)
@settings(max_examples=examples(0.4))
@given(data=st.data())
def test_pamqp_reads_what_we_write(method_class: type[Frame], data: st.DataObject) -> None:
    fields = data.draw(fields_of(method_class, for_pamqp=True))
    frame = encode_method(7, method_class, **fields)
    consumed, channel, theirs = pamqp_frame.unmarshal(frame)
    assert (consumed, channel) == (len(frame), 7)
    assert isinstance(theirs, method_class)
    assert dict(theirs) == fields


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize("method_class", PAMQP_METHODS, ids=name_of)
@settings(max_examples=examples(0.4))
@given(data=st.data())
def test_we_read_what_pamqp_writes(method_class: type[Frame], data: st.DataObject) -> None:
    fields = data.draw(fields_of(method_class, for_pamqp=True))
    frame = pamqp_frame.marshal(method_class(**fields), 7)
    method = decode_method(payload_of(frame))
    assert type(method) is method_class
    assert dict(method) == fields


def test_missing_fields_are_zero_empty_and_false() -> None:
    method = decode_method(payload_of(encode_method(1, commands.Queue.Declare)))
    assert isinstance(method, commands.Queue.Declare)
    assert dict(method) == {
        "ticket": 0,
        "queue": "",
        "passive": False,
        "durable": False,
        "exclusive": False,
        "auto_delete": False,
        "nowait": False,
        "arguments": Table(),
    }


def test_a_frame_looks_like_the_specification_says() -> None:
    frame = encode_method(
        258, commands.Queue.Declare, queue="q", durable=True, nowait=True, arguments={"k": None}
    )
    assert frame == (
        b"\x01\x01\x02\x00\x00\x00\x10"  # method frame, channel 258, 16 octets
        b"\x00\x32\x00\x0a"  # class 50, method 10
        b"\x00\x00\x01q"  # ticket, queue
        b"\x12"  # passive 1, durable 2, exclusive 4, auto-delete 8, no-wait 16
        b"\x00\x00\x00\x03\x01kV"
        b"\xce"
    )


def test_bits_fill_one_octet_from_the_lowest() -> None:
    frame = encode_method(0, Access.Request, realm="/", passive=True, read=True)
    assert payload_of(frame) == b"\x00\x1e\x00\x0a\x01/\x12"
    method = decode_method(b"\x00\x1e\x00\x0a\x01/\xf9")  # bits that mean nothing are ignored
    assert dict(method) == {
        "realm": "/",
        "exclusive": True,
        "passive": False,
        "active": False,
        "write": True,
        "read": True,
    }


def test_a_long_string_takes_and_gives_any_octets() -> None:
    octets = b"\x00guest\x00\xff\xfe"
    frame = encode_method(0, commands.Connection.StartOk, mechanism="PLAIN", response=octets)
    method = decode_method(payload_of(frame))
    assert isinstance(method, commands.Connection.StartOk)
    assert text_octets(method.response) == octets
    again = encode_method(0, commands.Connection.StartOk, **dict(method))
    assert again == frame


# ------------------------------------------------------------------------------- hazards of pamqp


@pytest.mark.parametrize(
    "name", ["two words", "größe", "a*b>c#", "日本", "n" * 255, "line\nbreak", "nul\0", "?&=%"]
)
def test_any_legal_name_goes_both_ways(name: str) -> None:
    frame = encode_method(1, commands.Queue.DeclareOk, queue=name)
    method = decode_method(payload_of(frame))
    assert isinstance(method, commands.Queue.DeclareOk)
    assert method.queue == name
    declare = decode_method(payload_of(encode_method(1, commands.Queue.Declare, queue=name)))
    assert dict(declare)["queue"] == name


@pytest.mark.parametrize("name", ["größe", "a*b", "日本", "?&=%"])
def test_pamqp_refuses_names_that_are_legal(name: str) -> None:
    """Should this ever fail, a hazard is gone and our own walk has one reason less."""
    with pytest.raises(ValueError, match="queue"):
        commands.Queue.Declare(queue=name)


def test_deprecated_fields_may_hold_anything() -> None:
    for method_class, fields in (
        (
            commands.Connection.Open,
            {"virtual_host": "v" * 200, "capabilities": "c", "insist": True},
        ),
        (commands.Connection.OpenOk, {"known_hosts": "here"}),
        (commands.Channel.Open, {"out_of_band": "x"}),
        (commands.Basic.GetEmpty, {"cluster_id": "c"}),
        (commands.Basic.Get, {"ticket": 101, "queue": "q", "no_ack": True}),
    ):
        assert issubclass(method_class, pamqp_base.Frame)
        method = decode_method(payload_of(encode_method(0, method_class, **fields)))
        assert dict(method) == fields


def test_table_arguments_keep_the_types_they_came_with() -> None:
    table = (
        b"\x05countI\x00\x00\x00\x01"
        b"\x04timeT\x00\x00\x01\x8b\xcf\xe5\x68\x00"
        b"\x05ratiod\x3f\xb9\x99\x99\x99\x99\x99\x9a"
    )
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00" + struct.pack(">I", len(table)) + table
    method = decode_method(payload)
    assert isinstance(method, commands.Queue.Declare)
    assert isinstance(method.arguments, Table)
    assert method.arguments.kinds == {"count": "I", "time": "T", "ratio": "d"}
    assert payload_of(encode_method(1, commands.Queue.Declare, **dict(method))) == payload
    theirs = commands.Queue.Declare(queue="q", arguments={"count": 1})
    assert b"countI\x00\x00\x00\x01" not in pamqp_frame.marshal(theirs, 1)


def test_a_timestamp_that_is_no_date_is_kept() -> None:
    arguments = {"at": Timestamp(2**64 - 1)}
    method = decode_method(
        payload_of(encode_method(1, commands.Queue.Declare, arguments=arguments))
    )
    assert isinstance(method, commands.Queue.Declare)
    assert method.arguments == arguments
    with pytest.raises(pamqp_exceptions.UnmarshalingException, match="out of range"):
        pamqp_frame.unmarshal(encode_method(1, commands.Queue.Declare, arguments=arguments))


def test_the_recover_of_0_9_is_that_of_0_9_1() -> None:
    for bit in (False, True):
        method = decode_method(b"\0\x3c\0\x66" + bytes((bit,)))
        assert isinstance(method, commands.Basic.Recover)
        assert method.requeue is bit
    assert encode_method(1, commands.Basic.Recover, requeue=True)[7:11] == b"\0\x3c\0\x6e"


def test_methods_that_pamqp_does_not_have_are_here() -> None:
    payload = b"\x00\x28\x00\x16\x02ex\x02rk\x01q"
    with pytest.raises(pamqp_exceptions.UnmarshalingException):
        pamqp_frame.unmarshal(b"\x01\x00\x01" + struct.pack(">I", len(payload)) + payload + b"\xce")
    method = decode_method(payload)
    assert isinstance(method, Exchange.Bound)
    assert (method.exchange, method.routing_key, method.queue) == ("ex", "rk", "q")
    answer = encode_method(1, Exchange.BoundOk, reply_code=2, reply_text="no")
    assert payload_of(answer) == b"\x00\x28\x00\x17\x00\x02\x02no"
    assert payload_of(encode_method(1, Access.RequestOk, ticket=1)) == b"\x00\x1e\x00\x0b\x00\x01"


@pytest.mark.parametrize("method_class", OUR_METHODS, ids=name_of)
def test_added_methods_have_the_shape_of_the_others(method_class: type[Frame]) -> None:
    made = method_class()
    assert set(dict(made)) == set(method_class.__slots__)
    assert made.marshal() == payload_of(encode_method(0, method_class, **dict(made)))[4:]
    assert method_class.index & 0xFFFF == method_class.frame_id


# ------------------------------------------------------------------------------------ bad octets


def sample_payloads() -> list[bytes]:
    values = {
        "bit": True,
        "octet": 7,
        "short": 258,
        "long": 70_000,
        "longlong": 2**40,
        "shortstr": "näme",
        "longstr": "long",
        "table": {"k": {"inner": [1, "two", None]}},
    }
    payloads = []
    for method_class in ALL_METHODS:
        fields = {name: values[method_class.amqp_type(name)] for name in method_class.__slots__}
        payloads.append(payload_of(encode_method(1, method_class, **fields)))
    return payloads


@pytest.mark.parametrize("payload", sample_payloads(), ids=map(name_of, ALL_METHODS))
def test_a_method_cut_anywhere_is_malformed(payload: bytes) -> None:
    for cut in range(len(payload)):
        with pytest.raises(FrameError) as caught:
            decode_method(payload[:cut])
        known = cut >= 4
        expected = struct.unpack(">HH", payload[:4]) if known else (0, 0)
        assert (caught.value.class_id, caught.value.method_id) == expected


@pytest.mark.parametrize("payload", sample_payloads(), ids=map(name_of, ALL_METHODS))
def test_octets_behind_the_arguments_are_malformed(payload: bytes) -> None:
    with pytest.raises(FrameError, match=": 2 octets too many"):
        decode_method(payload + b"\x00\x00")


@given(st.sampled_from(ALL_METHODS), st.binary(max_size=80))
def test_garbage_is_a_method_or_malformed_and_nothing_else(
    method_class: type[Frame], octets: bytes
) -> None:
    index = method_class.index
    payload = struct.pack(">I", index) + octets
    method: Frame | FrameError
    try:
        method = decode_method(payload)
    except FrameError as problem:
        method = problem
    if isinstance(method, FrameError):
        assert method.explanation.startswith(f"cannot decode {method_name(index)}: ")
        assert (method.class_id, method.method_id) == (index >> 16, index & 0xFFFF)
        return
    assert type(method) is method_class
    assert len(payload_of(encode_method(0, method_class, **dict(method)))) <= len(payload)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (b"", "no octets left for 'ticket'"),
        (b"\x00", "no octets left for 'ticket'"),
        (b"\x00\x00", "no octets left for 'queue'"),
        (b"\x00\x00\x05ab", "no octets left for 'queue'"),
        (b"\x00\x00\x01q", "no octets left for 'passive'"),
        (b"\x00\x00\x02q\xff\x00\x00\x00\x00\x00", "malformed UTF-8 in shortstr 'queue'"),
        (b"\x00\x00\x01q\x00\x00\x00", "'arguments': field table: its length needs 4 octets"),
        (
            b"\x00\x00\x01q\x00\x00\x00\x00\x03\x01kz",
            "'arguments': field table: unknown type octet 0x7a at octet 2 in k",
        ),
        (b"\x00\x00\x01q\x00\x00\x00\x00\x00!", "1 octets too many"),
    ],
)
def test_malformed_arguments_are_named(arguments: bytes, text: str) -> None:
    with pytest.raises(FrameError) as caught:
        decode_method(b"\x00\x32\x00\x0a" + arguments)
    assert caught.value.explanation == f"cannot decode queue.declare: {text}"


@pytest.mark.parametrize("method_class", CONTENT_METHODS, ids=name_of)
def test_names_beside_content_may_be_any_octets_as_in_rabbitmq(method_class: type[Frame]) -> None:
    frame = encode_method(1, method_class, routing_key="\udcff\udcfe")
    method = decode_method(payload_of(frame))
    assert dict(method)["routing_key"] == "\udcff\udcfe"
    assert encode_method(1, method_class, **dict(method)) == frame


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 999), (99, 1), (0, 0), (40, 41)])
def test_unknown_ids_are_an_unimplemented_method(class_id: int, method_id: int) -> None:
    with pytest.raises(CommandInvalid) as caught:
        decode_method(struct.pack(">HH", class_id, method_id) + b"whatever")
    assert caught.value.explanation == "unimplemented method"
    assert (caught.value.class_id, caught.value.method_id) == (class_id, method_id)
    assert method_name(class_id << 16 | method_id) == f"{class_id}.{method_id}"


# ------------------------------------------------------------------------------------ bad values


def test_a_field_that_the_method_does_not_have_is_named() -> None:
    with pytest.raises(TypeError, match=r"queue\.declare-ok has no field name, size"):
        encode_method(1, commands.Queue.DeclareOk, name="q", queue="q", size=1)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"queue": "q" * 256}, ValueError, r"field queue: a short string holds 255 octets"),
        ({"message_count": -1}, ValueError, r"field message_count: "),
        ({"message_count": 2**32}, ValueError, r"field message_count: "),
        ({"queue": 7}, TypeError, r"field queue: "),
        ({"queue": None}, TypeError, r"field queue: "),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=rf"queue\.declare-ok: {text}"):
        encode_method(1, commands.Queue.DeclareOk, **fields)


def test_names_are_written_as_in_the_specification() -> None:
    assert method_name(commands.Queue.DeclareOk.index) == "queue.declare-ok"
    assert method_name(commands.Basic.RecoverAsync.index) == "basic.recover-async"
    assert method_name(commands.Connection.UpdateSecretOk.index) == "connection.update-secret-ok"
    assert method_name(Exchange.Bound.index) == "exchange.bound"
    assert len({method_name(method.index) for method in ALL_METHODS}) == len(ALL_METHODS)
