"""Fields of a table are taken out without touching the others."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.errors import InvalidRows
from hareline.spark.shared.headers import text_field, without_fields
from hareline.wire.table import Byte, Float, Short, Table, Timestamp, decode_table, encode_table

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([Byte(1), Short(2), Float(0.5), Timestamp(7), Decimal("1.5"), 0.25]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
TABLES = st.dictionaries(st.text(max_size=4), VALUES, max_size=6)


@given(TABLES, st.data())
def test_what_stays_is_as_it_was(table: dict[str, object], data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from([*table, "absent"])))
    fields = without_fields(encode_table(table)[4:], {name.encode() for name in names})
    kept = {name: value for name, value in table.items() if name not in names}
    assert fields == encode_table(kept)[4:]


@given(st.binary(max_size=30))
def test_octets_that_are_no_table_are_refused_or_kept(octets: bytes) -> None:
    with suppress(InvalidRows):
        assert without_fields(octets, ()) == octets


@pytest.mark.parametrize("octets", [b"\5a", b"\1aS\0\0\0\2b", b"\1a?", b"\1al\0"])
def test_a_field_that_is_cut_off_is_refused(octets: bytes) -> None:
    with pytest.raises(InvalidRows, match="octet 3 does not begin a field"):
        without_fields(b"\1nV" + octets, ())


def test_a_text_is_a_field() -> None:
    octets = text_field("x-name", "größe")
    assert decode_table(len(octets).to_bytes(4, "big") + octets, 0)[0] == Table({"x-name": "größe"})
