"""What is called plain decodes, and asks for nothing; what asks for something is never plain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.errors import MalformedFrame
from hareline.wire.constants import DIRECT_REPLY_TO
from hareline.wire.plain_properties import (
    DEPTH_MAX,
    NOT_PLAIN,
    PERSISTENT,
    PLAIN,
    TABLE_MAX_BYTES,
    plain_expiration,
    walk,
)
from hareline.wire.properties import Properties, decode_properties, encode_properties
from hareline.wire.table import Table, Timestamp

USER = b"guest"
TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(max_size=10)
    | st.builds(Timestamp, st.integers(0, 2**63)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PROPERTIES = st.builds(
    Properties,
    content_type=st.none() | TEXT,
    headers=st.none() | st.builds(Table, st.dictionaries(TEXT, VALUES, max_size=4)),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | TEXT,
    reply_to=st.none() | TEXT,
    message_id=st.none() | TEXT,
    timestamp=st.none() | st.builds(Timestamp, st.integers(0, 2**63)),
    app_id=st.none() | TEXT,
)


@given(PROPERTIES)
def test_ordinary_properties_are_plain(properties: Properties) -> None:
    expected = PERSISTENT if properties.delivery_mode == 2 else PLAIN
    if properties.headers is not None and properties.headers.keys() & {"CC", "BCC"}:
        expected = NOT_PLAIN
    assert walk(encode_properties(properties), USER) == expected


@given(PROPERTIES, st.data())
def test_damaged_octets_that_are_plain_still_decode(
    properties: Properties, data: st.DataObject
) -> None:
    octets = bytearray(encode_properties(properties))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(octets[: data.draw(st.integers(0, len(octets)))])
    if walk(damaged, USER):
        decode_properties(damaged)


@given(st.binary(max_size=80))
def test_garbage_that_is_plain_still_decodes(octets: bytes) -> None:
    if walk(octets, USER):
        decode_properties(octets)


@given(PROPERTIES)
def test_every_truncation_is_left_to_the_decoder(properties: Properties) -> None:
    octets = encode_properties(properties)
    for length in range(len(octets)):
        assert not walk(octets[:length], USER)
        with pytest.raises(MalformedFrame):
            decode_properties(octets[:length])


@pytest.mark.parametrize(
    "properties",
    [
        Properties(user_id="guest2"),
        Properties(expiration="60000"),
        Properties(reply_to="amq.rabbitmq.reply-to"),
        Properties(headers=Table(CC=["a"])),
        Properties(headers=Table(BCC=["a"])),
        Properties(headers=Table(CC="not even a list")),
    ],
)
def test_what_asks_for_something_is_not_plain(properties: Properties) -> None:
    assert not walk(encode_properties(properties), USER)


def test_limits_are_left_to_the_decoder() -> None:
    nested: dict[str, object] = {}
    for _ in range(DEPTH_MAX):
        nested = {"t": nested}
    assert not walk(encode_properties(Properties(headers=Table(nested))), USER)
    large = Table(text="x" * TABLE_MAX_BYTES)
    assert not walk(encode_properties(Properties(headers=large)), USER)


# --------------------------------------------------------------------------- the expiration alone


@given(PROPERTIES, TEXT)
def test_an_expiration_that_is_all_they_ask_for_is_found(
    properties: Properties, expiration: str
) -> None:
    is_plain = walk(encode_properties(properties), USER)
    properties.expiration = expiration
    octets = encode_properties(properties)
    assert plain_expiration(octets, USER) == (expiration if is_plain else None)


@given(PROPERTIES)
def test_without_an_expiration_none_is_found(properties: Properties) -> None:
    assert plain_expiration(encode_properties(properties), USER) is None


@pytest.mark.parametrize(
    "others",
    [
        Properties(user_id="guest2"),
        Properties(reply_to=DIRECT_REPLY_TO.decode()),
        Properties(headers=Table(CC=["a"])),
        Properties(headers=Table(BCC=["a"])),
    ],
)
def test_what_asks_for_more_is_left_to_the_decoder(others: Properties) -> None:
    others.expiration = "60000"
    assert plain_expiration(encode_properties(others), USER) is None


@given(PROPERTIES, st.data())
def test_a_damaged_expiration_is_the_decoders_or_what_it_finds(
    properties: Properties, data: st.DataObject
) -> None:
    properties.expiration = "60000"
    octets = bytearray(encode_properties(properties))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(octets[: data.draw(st.integers(0, len(octets)))])
    found = plain_expiration(damaged, USER)
    if found is not None:
        assert decode_properties(damaged).expiration == found
