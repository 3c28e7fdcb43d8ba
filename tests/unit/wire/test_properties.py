"""Properties are read one by one, and edited without touching any other octet."""

from __future__ import annotations

import struct
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands as pamqp_commands
from pamqp import header as pamqp_header

from hareline.errors import MalformedFrame
from hareline.wire import constants
from hareline.wire.properties import (
    NO_PROPERTIES,
    Properties,
    decode_delivery_mode,
    decode_header,
    decode_headers,
    decode_priority,
    decode_properties,
    encode_properties,
    replace_headers,
    replace_reply_to,
    with_integer_header,
)
from hareline.wire.table import Table, Timestamp, UnsignedInt, encode_table

SHORTSTRS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
HEADERS = st.dictionaries(
    st.text(max_size=8),
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**32 - 1).map(UnsignedInt),
        st.text(max_size=8),
        st.booleans(),
        st.none(),
    ),
    max_size=4,
).map(Table)


def some_properties() -> st.SearchStrategy[Properties]:
    def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() | values

    texts = {
        name: maybe(SHORTSTRS)
        for name in (
            "content_type",
            "content_encoding",
            "correlation_id",
            "reply_to",
            "expiration",
            "message_id",
            "type",
            "user_id",
            "app_id",
            "cluster_id",
        )
    }
    return st.builds(
        Properties,
        headers=maybe(HEADERS),
        delivery_mode=maybe(st.integers(0, 255)),
        priority=maybe(st.integers(0, 255)),
        timestamp=maybe(st.integers(0, 2**64 - 1).map(Timestamp)),
        **texts,
    )


FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=Table({"n": 1}),
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=Timestamp(1_700_000_000),
    type="t",
    user_id="u",
    app_id="a",
    cluster_id="x",
)


def test_each_flag_stands_for_its_property() -> None:
    flags = {
        name.removeprefix("FLAG_").lower(): value
        for name, value in vars(constants).items()
        if name.startswith("FLAG_")
    }
    assert list(flags) == [field.name for field in fields(Properties)]
    for name, flag in flags.items():
        octets = encode_properties(Properties(**{name: getattr(FULL, name)}))
        assert octets[:2] == flag.to_bytes(2, "big")
        assert decode_properties(octets) == Properties(**{name: getattr(FULL, name)})


def test_a_property_list_looks_like_the_specification_says() -> None:
    octets = (
        b"\x90\x40"  # content-type, delivery-mode, timestamp
        b"\x0atext/plain"
        b"\x02"
        b"\x00\x00\x00\x00\x65\x53\xf1\x00"
    )
    properties = Properties(
        content_type="text/plain", delivery_mode=2, timestamp=Timestamp(1_700_000_000)
    )
    assert decode_properties(octets) == properties
    assert encode_properties(properties) == octets


@given(some_properties())
def test_what_was_encoded_is_decoded(properties: Properties) -> None:
    octets = encode_properties(properties)
    assert decode_properties(octets) == properties
    assert encode_properties(decode_properties(octets)) == octets
    assert decode_headers(octets) == (properties.headers or Table())


def test_no_properties_are_two_octets() -> None:
    assert encode_properties(Properties()) == NO_PROPERTIES
    assert decode_properties(NO_PROPERTIES) == Properties()
    assert decode_headers(NO_PROPERTIES) == Table()


# ---------------------------------------------------------------------------------------- pamqp


def pamqp_body(properties: pamqp_commands.Basic.Properties) -> bytes:
    return pamqp_header.ContentHeader(0, 0, properties).marshal()[12:]


@given(some_properties())
def test_pamqp_reads_what_we_write(properties: Properties) -> None:
    time = properties.timestamp
    if time is not None:
        properties = replace(properties, timestamp=Timestamp(time % 2**32))
    theirs = pamqp_header.ContentHeader()
    theirs.unmarshal(struct.pack(">HHQ", 60, 0, 0) + encode_properties(properties))
    for field in fields(Properties):
        name = field.name
        ours: object = getattr(properties, name)
        if isinstance(ours, Timestamp):
            ours = datetime.fromtimestamp(ours, UTC)
        pamqp_name = {"type": "message_type"}.get(name, name)
        assert getattr(theirs.properties, pamqp_name) == ours or (name == "cluster_id" and not ours)


def test_we_read_what_pamqp_writes() -> None:
    theirs = pamqp_commands.Basic.Properties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"n": 1, "f": 0.5},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        message_type="t",
        user_id="u",
        app_id="a",
    )
    expected = replace(FULL, headers=Table({"f": 0.5, "n": 1}), cluster_id=None)
    octets = pamqp_body(theirs)
    assert decode_properties(octets) == expected
    assert encode_properties(decode_properties(octets)) == octets


def test_values_that_pamqp_refuses_are_legal() -> None:
    properties = Properties(cluster_id="x", delivery_mode=0, timestamp=Timestamp(2**64 - 1))
    assert decode_properties(encode_properties(properties)) == properties
    with pytest.raises(ValueError, match="cluster_id"):
        pamqp_commands.Basic.Properties(cluster_id="x").validate()


def test_a_string_that_is_not_utf8_comes_back_octet_for_octet() -> None:
    octets = b"\x80\x80\x02\xff\xc3\x01\x80"
    assert encode_properties(decode_properties(octets)) == octets


# -------------------------------------------------------------------------------------- editing


@given(some_properties(), HEADERS | st.none())
def test_replacing_the_headers_leaves_every_other_octet(
    properties: Properties, headers: Table | None
) -> None:
    octets = replace_headers(encode_properties(properties), headers)
    assert octets == encode_properties(replace(properties, headers=headers))


@given(some_properties(), SHORTSTRS)
def test_replacing_reply_to_leaves_every_other_octet(properties: Properties, name: str) -> None:
    octets = replace_reply_to(encode_properties(properties), name)
    assert octets == encode_properties(replace(properties, reply_to=name))


@given(some_properties())
def test_the_delivery_mode_alone_is_that_of_all_properties(properties: Properties) -> None:
    octets = encode_properties(properties)
    assert decode_delivery_mode(octets) == decode_properties(octets).delivery_mode


def test_editing_does_not_read_the_headers_it_keeps() -> None:
    """A table that would not decode, or would decode to less, goes through as it came."""
    repeated = b"\x00\x00\x00\x06\x01kV\x01kV"
    octets = b"\x23\x03" + repeated + b"\x01r" + b"\x0510000" + b"behind"
    assert replace_reply_to(octets, "new") == (
        b"\x23\x03" + repeated + b"\x03new" + b"\x0510000" + b"behind"
    )
    table = Table({"a": True})
    assert replace_headers(octets, table) == (
        b"\x23\x03" + encode_table(table) + b"\x01r" + b"\x0510000" + b"behind"
    )


@given(some_properties(), st.integers(-(2**63), 2**63 - 1))
def test_an_integer_header_is_added_and_every_other_octet_left(
    properties: Properties, number: int
) -> None:
    octets = with_integer_header(encode_properties(properties), b"x-stream-offset", number)
    headers = Table(properties.headers or {})
    headers["x-stream-offset"] = number
    assert octets == encode_properties(replace(properties, headers=headers))


@pytest.mark.parametrize("old", [5, "text", UnsignedInt(7), None, Table({"x-stream-offset": 1})])
def test_an_integer_header_takes_the_place_of_its_namesake(old: object) -> None:
    headers = Table({"a": 1, "x-stream-offset": old, "b": "x-stream-offset"})
    octets = encode_properties(replace(FULL, headers=headers))
    changed = decode_properties(with_integer_header(octets, b"x-stream-offset", 9))
    assert changed == replace(
        FULL, headers=Table({"a": 1, "x-stream-offset": 9, "b": "x-stream-offset"})
    )


def test_an_integer_header_is_added_beside_a_value_that_reads_like_its_name() -> None:
    octets = encode_properties(Properties(headers=Table({"a": "x-stream-offset"})))
    changed = decode_properties(with_integer_header(octets, b"x-stream-offset", 9))
    assert changed.headers == {"a": "x-stream-offset", "x-stream-offset": 9}


# ------------------------------------------------------------------------------------ bad octets


@given(some_properties(), st.data())
def test_properties_cut_anywhere_are_malformed(properties: Properties, data: st.DataObject) -> None:
    octets = encode_properties(properties)
    cut = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(MalformedFrame, match="cannot decode basic properties: "):
        decode_properties(octets[:cut])


def test_every_property_cut_anywhere_is_malformed_for_every_reader() -> None:
    octets = encode_properties(FULL)
    behind_headers = len(encode_properties(Properties("text/plain", "gzip", FULL.headers)))
    for cut in range(len(octets)):
        part = octets[:cut]
        with pytest.raises(MalformedFrame):
            decode_properties(part)
        for needs, read in (
            (behind_headers, decode_headers),
            (behind_headers, lambda octets: replace_headers(octets, None)),
            (behind_headers + 1, decode_delivery_mode),
        ):
            if cut < needs:
                with pytest.raises(MalformedFrame):
                    read(part)
            else:
                read(part)


@given(st.binary(max_size=100))
def test_garbage_is_properties_or_malformed_and_nothing_else(octets: bytes) -> None:
    for read in (
        decode_properties,
        decode_headers,
        decode_delivery_mode,
        lambda octets: replace_headers(octets, Table()),
        lambda octets: replace_reply_to(octets, "r"),
    ):
        refusal = None
        try:
            read(octets)
        except MalformedFrame as problem:
            refusal = problem.explanation
        assert refusal is None or refusal.startswith("cannot decode basic properties: ")


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"", "the flags need 2 octets"),
        (b"\x80", "the flags need 2 octets"),
        (b"\x80\x00", "content_type runs past the end of the header"),
        (b"\x00\x40\x00", "timestamp runs past the end of the header"),
        (b"\x10\x00", "delivery_mode runs past the end of the header"),
        (b"\x20\x00\x00\x00\x00\x05\x01", "headers runs past the end of the header"),
        (b"\x20\x00\x00\x00\x00\x03\x01kz", "headers: field table: unknown type octet 0x7a"),
        (b"\x00\x00\x07\x07", "2 octets too many"),
    ],
)
def test_malformed_properties_are_named(octets: bytes, text: str) -> None:
    with pytest.raises(MalformedFrame, match=f"cannot decode basic properties: {text}"):
        decode_properties(octets)


@pytest.mark.parametrize("low_bits", [1, 2, 3])
def test_the_two_lowest_flags_mean_nothing_as_in_rabbitmq(low_bits: int) -> None:
    octets = bytes((0x10, low_bits)) + b"\x02"
    assert decode_properties(octets) == Properties(delivery_mode=2)
    assert replace_headers(octets, None) == octets
    with pytest.raises(MalformedFrame, match="2 octets too many"):  # no second flags word either
        decode_properties(bytes((0x00, low_bits)) + b"\x00\x00")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (Properties(priority=256), "property priority: "),
        (Properties(delivery_mode=-1), "property delivery_mode: "),
        (Properties(timestamp=Timestamp(2**64)), "property timestamp: "),
        (Properties(app_id="a" * 256), "property app_id: a short string holds 255 octets"),
        (Properties(headers=Table({"k": 2**64})), "property headers: field 'k': "),
    ],
)
def test_a_value_that_does_not_fit_is_named(properties: Properties, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encode_properties(properties)


@given(some_properties())
def test_the_priority_alone_is_what_decoding_them_all_gives(properties: Properties) -> None:
    assert decode_priority(encode_properties(properties)) == properties.priority


@given(some_properties(), st.text(max_size=8))
def test_a_header_alone_is_what_decoding_them_all_gives(properties: Properties, name: str) -> None:
    octets = encode_properties(properties)
    headers = properties.headers or Table()
    for each in (name, *headers):
        assert decode_header(octets, each) == headers.get(each)


@given(some_properties(), st.data())
def test_cut_off_properties_give_the_priority_or_a_malformed_frame(
    properties: Properties, data: st.DataObject
) -> None:
    octets = encode_properties(properties)
    cut = octets[: data.draw(st.integers(0, len(octets)))]
    try:
        assert decode_priority(cut) == properties.priority
    except MalformedFrame:
        assert len(cut) < len(octets)


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"", "priority runs past the end"),
        (b"\x08\x00", "priority runs past the end"),
        (b"\x88\x00\x05abc", "priority runs past the end"),
        (b"\x28\x00\x00\x00\x00\x09", "priority runs past the end"),
        (b"\x28\x00\xff\xff\xff\xff\x01", "priority runs past the end"),
    ],
)
def test_a_priority_that_is_not_there_is_refused(octets: bytes, complaint: str) -> None:
    with pytest.raises(MalformedFrame, match=complaint):
        decode_priority(octets)


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"\x20", "headers runs past the end"),
        (b"\x20\x00", "headers: field table: its length needs 4 octets"),
        (b"\xa0\x00\x09a", "headers: field table: its length needs 4 octets"),
        (b"\xa0\x00", "headers runs past the end"),
        (b"\x20\x00\x00\x00\x00\x03\x01kZ", "headers: field table: unknown type octet 0x5a"),
    ],
)
def test_a_header_in_octets_that_are_none_is_refused(octets: bytes, complaint: str) -> None:
    with pytest.raises(MalformedFrame, match=complaint):
        decode_header(octets, "k")


def test_properties_without_headers_have_no_header() -> None:
    assert decode_header(encode_properties(Properties(content_type="k", priority=3)), "k") is None
    assert decode_header(NO_PROPERTIES, "k") is None
