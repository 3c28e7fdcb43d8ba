"""Tapes of messages that differ, against pamqp as an oracle; their meters on damaged streams."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import commands, frame, header

from benchmarks.macro import shapes
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import BASIC_DELIVER, Address, DeliveryShape, Meter
from benchmarks.macro.shapes import MESSAGES, Shape, ShapedTape, make_tape, properties_of
from hareline.amqp.inspection import EXPIRATIONS_MAX
from hareline.amqp.routes import ROUTES_MAX
from hareline.wire.stencil import SHAPES_MAX

FRAME_MAX = 131_072
FIRST_TAG = 7
UNLIKE = (Shape.DIFFERING, Shape.ANY)
Message = tuple[commands.Basic.Properties, bytes]


def messages_in(octets: bytes) -> list[Message]:
    """Properties and body of each message; the method frames are checked and dropped."""
    found: list[Message] = []
    properties, body, missing = commands.Basic.Properties(), b"", 0
    while octets:
        size, channel, value = frame.unmarshal(octets)
        assert channel == 1
        if isinstance(value, header.ContentHeader):
            properties, body, missing = value.properties, b"", value.body_size
        elif isinstance(value, pamqp_body.ContentBody):
            body += value.value
            missing -= len(value.value)
            if not missing:
                found.append((properties, body))
        octets = octets[size:]
    assert not missing
    return found


def ids_of(messages: Sequence[Message]) -> list[str | None]:
    return [properties.message_id for properties, _ in messages]


def tape_of(shape: Shape, count: int = 50, body_size: int = 100, stream: int = 0) -> ShapedTape:
    address = Address("q", "", commands.Basic.Properties(delivery_mode=2))
    tape = make_tape(shape, [address], body_size, FRAME_MAX, count=count, stream=stream)
    assert isinstance(tape, ShapedTape)
    return tape


class TestTape:
    def test_messages_that_differ_have_one_size_and_nothing_else_in_common(self) -> None:
        tape = tape_of(Shape.DIFFERING)
        messages = messages_in(bytes(tape.octets))
        assert tape.is_even
        assert len(messages) == tape.count == 50
        assert {properties.delivery_mode for properties, _ in messages} == {2}
        for name in ("message_id", "correlation_id", "timestamp"):
            assert len({getattr(properties, name) for properties, _ in messages}) == 50
        headers = [properties.headers or {} for properties, _ in messages]
        assert all(sorted(each) == ["attempt", "tenant", "trace"] for each in headers)
        for key in ("attempt", "tenant", "trace"):
            assert len({str(each[key]) for each in headers}) == 50

    def test_messages_of_any_shape_vary_in_number_names_and_lengths(self) -> None:
        tape = tape_of(Shape.ANY, 300)
        messages = messages_in(bytes(tape.octets))
        assert not tape.is_even
        assert len(set(ids_of(messages))) == 300
        headers = [properties.headers or {} for properties, _ in messages]
        assert {len(each) for each in headers} == set(range(shapes.HEADERS_MAX + 1))
        assert len({name for each in headers for name in each}) > 300
        assert len({len(properties.correlation_id or "") for properties, _ in messages}) > 30
        sizes = [len(body) for _, body in messages]
        assert min(sizes) < 30
        assert max(sizes) > 170
        assert 85 < sum(sizes) / len(sizes) < 115

    @pytest.mark.parametrize("shape", UNLIKE)
    def test_there_are_more_than_the_broker_remembers_of_anything(self, shape: Shape) -> None:
        tape = make_tape(shape, [Address("q")], 100, FRAME_MAX)
        assert tape.count == MESSAGES > max(EXPIRATIONS_MAX, ROUTES_MAX, SHAPES_MAX)
        assert isinstance(tape, ShapedTape)
        heads = {tape.head_of(index, 0) for index in range(tape.count)}
        assert len(heads) == MESSAGES

    @pytest.mark.parametrize("shape", UNLIKE)
    @pytest.mark.parametrize("laps", [1, 2, 17, 257])
    def test_each_lap_gives_all_messages_new_ids_and_changes_nothing_else(
        self, shape: Shape, laps: int
    ) -> None:
        tape = tape_of(shape)
        before = messages_in(bytes(tape.octets))
        seen = set(ids_of(before))
        for lap in range(1, laps + 1):
            tape.begin_lap(lap)
            seen.update(ids_of(messages_in(bytes(tape.octets))))
        assert len(seen) == (laps + 1) * tape.count
        after = messages_in(bytes(tape.octets))
        for (old, old_body), (new, new_body) in zip(before, after, strict=True):
            assert old_body == new_body
            assert old.message_id is not None
            assert new.message_id is not None
            assert old.message_id[:-6] == new.message_id[:-6]
            assert int(new.message_id[-6:], 16) == laps
            new.message_id = old.message_id
            assert old.marshal() == new.marshal()

    def test_streams_of_one_run_differ(self) -> None:
        ids = [ids_of(messages_in(bytes(tape_of(Shape.ANY, stream=n).octets))) for n in (0, 1, 255)]
        assert len({each for stream in ids for each in stream}) == 150
        with pytest.raises(ValueError, match="from 0 to 255, not 256"):
            tape_of(Shape.ANY, stream=256)

    @pytest.mark.parametrize("shape", UNLIKE)
    def test_each_broker_gets_the_same_octets(self, shape: Shape) -> None:
        first = bytes(tape_of(shape).octets)
        shapes._plain_properties_of.cache_clear()
        assert bytes(tape_of(shape).octets) == first

    @pytest.mark.parametrize("shape", Shape)
    def test_messages_and_octets_are_converted_over_laps(self, shape: Shape) -> None:
        tape = make_tape(shape, [Address("q")], 100, FRAME_MAX, count=5)
        stream = b"".join(tape.piece(first, 5) for first in (0, 5, 10))
        for count in range(16):
            octets = tape.octets_of(count)
            assert tape.begun_in(octets) == count
            assert tape.is_between(octets)
            assert tape.begun_in(octets + 1) == count + 1
            assert not tape.is_between(octets + 1)
            assert len(messages_in(stream[:octets])) == count

    def test_headers_that_an_address_asks_for_are_kept(self) -> None:
        addresses = [
            Address("", "x", commands.Basic.Properties(headers={"kind": kind})) for kind in "ab"
        ]
        tape = make_tape(Shape.DIFFERING, addresses, 100, FRAME_MAX, count=4)
        headers = [properties.headers or {} for properties, _ in messages_in(bytes(tape.octets))]
        assert [each["kind"] for each in headers] == ["a", "b", "a", "b"]
        assert all(len(each) == 4 for each in headers)

    @pytest.mark.parametrize("shape", UNLIKE)
    def test_large_bodies_are_cut_into_frames(self, shape: Shape) -> None:
        tape = make_tape(shape, [Address("q")], 10_000, 4096, count=6)
        messages = messages_in(bytes(tape.octets))
        assert len(messages) == 6
        assert [int.from_bytes(body[:4], "big") for _, body in messages] == list(range(6))

    def test_what_is_large_has_as_many_messages_as_fit(self) -> None:
        tape = make_tape(Shape.DIFFERING, [Address("q")], 1 << 20, FRAME_MAX)
        assert tape.count == shapes.TAPE_OCTETS_MAX >> 20


DELIVER = frame.marshal(
    commands.Basic.Deliver(
        consumer_tag="bench", delivery_tag=0, redelivered=False, exchange="", routing_key="q"
    ),
    1,
)
TAG_AT = 12 + len("bench")
COUNT = 20


def deliveries(tape: ShapedTape, first: int, count: int) -> bytes:
    """As a broker gives them that changes nothing."""
    octets = b""
    for number in range(first, first + count):
        publish = tape.piece(number, 1)
        content = publish[tape.content_starts[0] :]  # the method frames have one size
        tag = (FIRST_TAG + number).to_bytes(8, "big")
        octets += DELIVER[:TAG_AT] + tag + DELIVER[TAG_AT + 8 :] + content
    return octets


def shape_of(tape: ShapedTape) -> DeliveryShape:
    size = len(DELIVER) + tape.starts[1] - tape.content_starts[0]
    return DeliveryShape(BASIC_DELIVER, size, TAG_AT, len(DELIVER) + tape.head_sizes[0] + 7)


def meter_of(tape: ShapedTape, *, is_ordered: bool = True) -> Meter:
    return tape.meter(shape_of(tape), first_tag=FIRST_TAG, is_ordered=is_ordered)


class TestMeter:
    @pytest.mark.parametrize("shape", UNLIKE)
    @given(cuts=st.lists(st.integers(1, 4000), max_size=30))
    def test_deliveries_are_counted_however_the_stream_is_cut(
        self, shape: Shape, cuts: list[int]
    ) -> None:
        octets = STREAMS[shape]
        meter = meter_of(tape_of(shape, COUNT))
        ends = [meter.octets_of(count) for count in range(3 * COUNT + 1)]
        assert ends[-1] == len(octets)
        at = 0
        for size in [*cuts, len(octets)]:
            counted = meter.feed(memoryview(octets[at : at + size]))
            at = min(len(octets), at + size)
            assert counted == meter.count == sum(end <= at for end in ends) - 1
            assert meter.is_between is (at in ends)

    @pytest.mark.parametrize("shape", UNLIKE)
    @pytest.mark.parametrize("number", [0, 5, 41])
    @pytest.mark.parametrize("place", ["tag", "id", "headers", "stamp", "end before"])
    def test_a_changed_octet_of_the_delivery_looked_at_is_told(
        self, shape: Shape, number: int, place: str
    ) -> None:
        tape = tape_of(shape, COUNT)
        meter = meter_of(tape)
        start, index = meter.octets_of(number), number % COUNT
        head_at = start + len(DELIVER)
        places = {
            "tag": start + TAG_AT + 7,
            "id": tape._lap_places[index] - tape.content_starts[index] + head_at + 5,
            "headers": head_at + 30,
            "stamp": head_at + tape.head_sizes[index] + 7 + 3,
            "end before": start - 1,
        }
        octets = bytearray(STREAMS[shape])
        octets[places[place]] ^= 1
        cut = max(0, start - 1)
        meter.feed(memoryview(octets[:cut]))
        if place == "end before" and not number:
            return  # there is none
        with pytest.raises(BenchmarkError, match=f"delivery {number} is not the one expected"):
            meter.feed(memoryview(octets[cut:]))

    def test_a_lost_octet_is_told(self) -> None:
        meter = meter_of(tape_of(Shape.ANY, COUNT))
        octets = STREAMS[Shape.ANY]
        meter.feed(memoryview(octets[:1000]))
        with pytest.raises(BenchmarkError, match="is not the one expected"):
            meter.feed(memoryview(octets[1001:]))

    def test_in_another_order_any_message_of_the_tape_will_do_if_it_is_whole(self) -> None:
        tape = tape_of(Shape.DIFFERING, COUNT)
        size = shape_of(tape).size
        one = bytearray(STREAMS[Shape.DIFFERING][33 * size : 34 * size])
        one[TAG_AT : TAG_AT + 8] = FIRST_TAG.to_bytes(8, "big")
        assert meter_of(tape, is_ordered=False).feed(memoryview(one)) == 1
        one[len(DELIVER) + 40] ^= 1
        with pytest.raises(BenchmarkError, match="is not the one expected"):
            meter_of(tape, is_ordered=False).feed(memoryview(one))

    def test_only_messages_of_one_size_can_be_counted_in_another_order(self) -> None:
        with pytest.raises(ValueError, match="only messages of one size"):
            meter_of(tape_of(Shape.ANY, COUNT), is_ordered=False)

    def test_a_broker_that_changes_properties_is_told(self) -> None:
        tape = tape_of(Shape.DIFFERING, COUNT)
        shape = shape_of(tape)
        longer = DeliveryShape(shape.method, shape.size + 5, TAG_AT, shape.body_offset)
        with pytest.raises(BenchmarkError, match=r"took \d+ octets was delivered in"):
            tape.meter(longer, first_tag=1)

    def test_what_the_caller_has_read_is_skipped(self) -> None:
        meter = meter_of(tape_of(Shape.ANY, COUNT))
        meter.skip(23)
        assert meter.count == 23
        assert meter.is_between
        rest = STREAMS[Shape.ANY][meter.octets :]
        assert meter.feed(memoryview(rest)) == 3 * COUNT


STREAMS = {shape: deliveries(tape_of(shape, COUNT), 0, 3 * COUNT) for shape in UNLIKE}


def test_properties_do_not_depend_on_what_was_made_before() -> None:
    once = properties_of(Shape.ANY, 12).marshal()
    properties_of(Shape.DIFFERING, 3)
    assert properties_of(Shape.ANY, 12).marshal() == once
