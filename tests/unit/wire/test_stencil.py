"""What a stencil matches, what it does not, and when one is cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.wire import stencil as module
from hareline.wire.methods import commands, encode_method
from hareline.wire.plain_properties import PERSISTENT, walk
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.stencil import (
    CREDIT_MAX,
    CUT_COST,
    HEADER_SIZE_MAX,
    RUN_FROM,
    SHAPES_MAX,
    TRY_EVERY,
    VALUES_MAX,
    Stencil,
    Stencils,
    cut_stencil,
)
from hareline.wire.table import Table
from tests.unit.wire.test_plain_properties import PROPERTIES

METHOD = encode_method(1, commands.Basic.Publish, exchange="", routing_key="q")
BODY_MAX = 1000


def content(body: bytes, properties: Properties | bytes = b"\0\0") -> tuple[bytes, int]:
    """Header and body frame of channel 1, and the header frame's octets."""
    octets = properties if isinstance(properties, bytes) else encode_properties(properties)
    payload = struct.pack(">HHQ", 60, 0, len(body)) + octets
    header = struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"
    frame = struct.pack(">BHI", 3, 1, len(body)) + body + b"\xce" if body else b""
    return header + frame, len(header)


def example(number: int, **more: object) -> Properties:
    headers = Table({"tenant": f"t{number:06d}", "attempt": number})
    return Properties(
        content_type="application/json",
        headers=headers,
        delivery_mode=1,
        message_id=f"m{number:09d}",
        **more,  # type: ignore[arg-type]
    )


def made_of(octets: bytes, header_size: int) -> Stencil:
    stencil = cut_stencil(octets, header_size)
    assert stencil is not None
    return stencil


def learned(*contents: tuple[bytes, int]) -> Stencils:
    """The stencils of a channel to which these were plain, each of a shape of its own."""
    stencils = Stencils()
    for shape, (octets, header_size) in enumerate(contents):
        stencils.learn(octets, header_size, shape)
    return stencils


def take(stencils: Stencils, data: bytes, position: int = 0) -> tuple[int, list[bytes]]:
    contents: list[bytes] = []
    stop = stencils.take(data, position, METHOD, BODY_MAX, contents)
    return stop, contents


def test_the_picture_in_the_documentation_is_that_of_a_stencil() -> None:
    formats: list[str] = []

    class Listening(struct.Struct):
        def __init__(self, layout: str) -> None:
            formats.append(layout)

    octets, header_size = content(b"body", example(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Struct", Listening)
        made_of(octets, header_size)
    assert formats[-1] == ">11s8x3s16x16s7x9s8x2s10x4s4x"
    assert METHOD.hex(" ") == "01 00 01 00 00 00 0a 00 3c 00 28 00 00 00 01 71 00 ce"
    assert (octets[3:7].hex(" "), octets[19:21].hex(" ")) == ("00 00 00 53", "b0 80")
    assert octets[38:42].hex(" ") == "00 00 00 24"


@given(PROPERTIES, PROPERTIES, st.data())
def test_what_matches_is_what_the_walk_says_it_is(
    first: Properties, second: Properties, data: st.DataObject
) -> None:
    octets, header_size = content(b"body", first)
    stencil = cut_stencil(octets, header_size)
    if stencil is None:
        return
    assert stencil.matches(octets, 0)
    other = bytearray(data.draw(st.sampled_from([octets, content(b"body", second)[0]])))
    for _ in range(data.draw(st.integers(1, 4))):
        other[data.draw(st.integers(0, len(other) - 1))] = data.draw(st.integers(0, 255))
    if stencil.matches(bytes(other), 0):
        plain = walk(bytes(other[19 : header_size - 1]), None)
        assert plain
        assert (plain == PERSISTENT) == stencil.is_persistent
        assert other[:11] == octets[:11]


def test_publishes_with_other_values_and_bodies_of_any_size_are_taken_together() -> None:
    contents = [content(b"x" * (1 + number % 3), example(number))[0] for number in range(9)]
    stencils = learned(content(b"body", example(0)))
    stop, taken = take(stencils, b"".join(METHOD + one for one in contents) + b"rest")
    assert taken == contents
    assert stop == sum(len(METHOD) + len(one) for one in contents)


def test_one_that_is_not_here_as_a_whole_is_left() -> None:
    octets, header_size = content(b"body", example(1))
    data = (METHOD + octets) * 5
    for length in range(len(data)):
        stencils = learned((octets, header_size))
        whole = length // (len(METHOD) + len(octets))
        for _ in range(2):  # by a stencil of any size, then by that of whole publishes
            stop, taken = take(stencils, data[:length])
            assert taken == [octets] * whole
            assert stop == whole * (len(METHOD) + len(octets))


def test_every_octet_is_compared_but_those_of_values() -> None:
    octets, header_size = content(b"body", example(1))
    values = [b"application/json", b"t000001", b"m000000001", b"body"]
    starts = [(octets.index(value), len(value)) for value in values]
    starts.append((octets.index(b"attempt") + len(b"attemptl"), 8))
    holes = {start + index for start, size in starts for index in range(size)}
    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 1
        for known in (1, 4):  # by a stencil of any size, then by that of whole publishes
            stencils = learned((octets, header_size))
            take(stencils, (METHOD + octets) * known)
            taken = take(stencils, METHOD + bytes(changed))[1]
            assert taken == ([bytes(changed)] if place in holes else []), place


@pytest.mark.parametrize(("in_header", "in_frame"), [(4, 5), (5, 4), (0, 0), (1001, 1001)])
def test_sizes_that_differ_or_are_outside_of_the_limits_are_left(
    in_header: int, in_frame: int
) -> None:
    octets, header_size = content(b"x" * 1001, example(1))
    changed = bytearray(octets)
    changed[11:19] = in_header.to_bytes(8, "big")
    changed[header_size + 3 : header_size + 7] = in_frame.to_bytes(4, "big")
    stencils = learned(content(b"body", example(1)))
    assert take(stencils, METHOD + bytes(changed) + b"\xce" * 2000)[1] == []


def test_a_run_goes_on_in_the_next_read_and_ends_at_another_publish() -> None:
    octets, header_size = content(b"body", example(1))
    stencils = learned((octets, header_size))
    data = (METHOD + octets) * 5
    take(stencils, data)
    run = stencils._run
    assert run is not None
    assert take(stencils, data[:-1], len(data) - run.size) == (len(data) - run.size, [])
    assert take(stencils, data)[1] == [octets] * 5
    assert stencils._run is run
    other = content(b"other!", example(2))[0]
    assert take(stencils, METHOD + other)[1] == [other]
    assert stencils._run is None


def test_no_run_is_made_for_groups_that_another_publish_ends_in_the_same_read() -> None:
    shapes = [content(b"body", example(0))[0], content(b"body")[0]]
    stencils = learned(*(content(b"body", each) for each in (example(0), Properties())))
    group = b"".join((METHOD + octets) * RUN_FROM for octets in shapes)
    position = 0
    data = group * 3
    while position < len(data):
        position, taken = take(stencils, data, position)
        assert len(taken) == RUN_FROM
    runs = [each.run for each in stencils.recent]
    assert [run is None for run in runs] == [False, True], "only that of the last in the read"
    position, taken = take(stencils, data)
    assert take(stencils, data, position)[1] == [shapes[1]] * RUN_FROM
    assert stencils._run is runs[0], "its turn has come again, and it was not made anew"


def test_two_shapes_in_turn_are_both_recent() -> None:
    shapes = [content(b"body", example(0)), content(b"body")]
    stencils = learned(*shapes)
    data = b"".join(METHOD + octets for octets, _ in shapes * 4)
    position = 0
    for octets, _ in shapes * 4:
        position, taken = take(stencils, data, position)
        assert taken == [octets]
        assert stencils.recent[0].matches(octets, 0)
    assert position == len(data)


def test_a_shape_that_is_not_recent_is_found() -> None:
    shapes = [content(b"body", Properties(app_id="a" * size)) for size in range(3)]
    stencils = learned(*shapes)
    first = METHOD + shapes[0][0]
    assert take(stencils, first)[1] == []
    assert not stencils.find(METHOD + shapes[1][0], len(METHOD), 0)
    assert stencils.find(first, len(METHOD), 0)
    assert take(stencils, first)[1] == [shapes[0][0]]
    assert not stencils.find(first, len(METHOD), 0), "it is recent"


def test_shapes_that_never_come_again_are_tried_ever_more_rarely() -> None:
    stencils = Stencils()
    cut = []
    for number in range(4 * TRY_EVERY):
        octets, header_size = content(b"body", Properties(app_id="a" * (number % 200)))
        before = dict(stencils.by_shape)
        stencils.learn(octets, header_size, number)
        if stencils.by_shape != before:
            cut.append(number)
    bought = CREDIT_MAX // CUT_COST
    assert cut == [*range(bought), *(bought - 1 + TRY_EVERY * n for n in range(1, 4))]
    assert stencils.recent == ()


def test_matches_earn_what_the_next_stencil_costs() -> None:
    stencils = Stencils()
    for number in range(CREDIT_MAX // CUT_COST):
        stencils.learn(*content(b"body", Properties(app_id="a" * number)), number)
    octets, header_size = content(b"body", Properties(app_id="new"))
    last = content(b"body", Properties(app_id="a" * number))[0]
    take(stencils, (METHOD + last) * CUT_COST)
    stencils.learn(octets, header_size, 999)
    assert 999 in stencils.by_shape


def test_the_oldest_shape_goes_when_there_are_many() -> None:
    stencils = Stencils()
    for number in range(SHAPES_MAX + 3):
        octets, header_size = content(b"body", Properties(app_id="a" * number))
        stencils.learn(octets, header_size, number)
        take(stencils, (METHOD + octets) * CUT_COST)
    assert list(stencils.by_shape) == list(range(3, SHAPES_MAX + 3))


def test_no_stencil_is_cut_from_a_large_header_or_from_what_asks_for_something() -> None:
    large = content(b"body", Properties(headers=Table(a="x" * HEADER_SIZE_MAX)))
    assert cut_stencil(*large) is None
    many = {f"h{number}": number for number in range(VALUES_MAX)}
    made_of(*content(b"body", Properties(headers=Table(many))))
    assert cut_stencil(*content(b"body", Properties(headers=Table(many), app_id="a"))) is None
    assert cut_stencil(*content(b"body", Properties(headers=Table(CC=["a"])))) is None
