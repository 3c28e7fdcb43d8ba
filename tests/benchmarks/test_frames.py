"""Templates against pamqp as an oracle, and meters against streams that are cut or damaged."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import commands, frame, header

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    BASIC_DELIVER,
    SETTLE_FRAME_SIZE,
    Address,
    ConfirmMeter,
    DeliveryMeter,
    DeliveryShape,
    SingleAcks,
    Tape,
    ack_octets,
    publish_octets,
    stamped_body,
)

FRAME_MAX = 131_072


def frames_in(octets: bytes) -> list[object]:
    found: list[object] = []
    while octets:
        size, _, value = frame.unmarshal(octets)
        found.append(value)
        octets = octets[size:]
    return found


def bodies_in(octets: bytes) -> list[bytes]:
    """The bodies of publishes that fit one frame each."""
    frames = frames_in(octets)
    return [value.value for value in frames if isinstance(value, pamqp_body.ContentBody)]


def stamp_of(body: bytes) -> tuple[int, int]:
    index, lap = struct.unpack_from(">II", body)
    return index, lap


class TestPublishes:
    def test_a_publish_is_what_pamqp_reads(self) -> None:
        properties = commands.Basic.Properties(headers={"kind": "a"})
        octets = publish_octets(Address("key", "ex", properties), b"body", FRAME_MAX)
        publish, content, body = frames_in(octets)
        assert isinstance(publish, commands.Basic.Publish)
        assert (publish.exchange, publish.routing_key) == ("ex", "key")
        assert isinstance(content, header.ContentHeader)
        assert content.body_size == 4
        assert content.properties.headers == {"kind": "a"}
        assert isinstance(body, pamqp_body.ContentBody)
        assert body.value == b"body"

    def test_a_body_above_frame_max_is_cut_into_frames_that_fit(self) -> None:
        body = stamped_body(10_000, 7)
        _, _, *parts = frames_in(publish_octets(Address("q"), body, 4096))
        payloads = [part.value for part in parts if isinstance(part, pamqp_body.ContentBody)]
        assert [len(payload) for payload in payloads] == [4088, 4088, 1824]
        assert b"".join(payloads) == body

    def test_a_body_too_small_for_its_stamp_is_refused(self) -> None:
        with pytest.raises(ValueError, match="stamp"):
            stamped_body(7, 0)


class TestTape:
    def test_messages_carry_their_index_and_go_to_the_addresses_in_turn(self) -> None:
        tape = Tape([Address("a"), Address("b"), Address("c")], 20, FRAME_MAX, count=7)
        frames = frames_in(bytes(tape.octets))
        keys = [value.routing_key for value in frames if isinstance(value, commands.Basic.Publish)]
        assert tape.count == 9
        assert keys == ["a", "b", "c"] * 3
        assert [stamp_of(body)[0] for body in bodies_in(bytes(tape.octets))] == list(range(9))
        assert len(tape.octets) == tape.count * tape.frame_size

    @pytest.mark.parametrize("laps", [1, 2, 255, 256, 257])
    def test_each_lap_is_written_into_every_body_and_nowhere_else(self, laps: int) -> None:
        tape = Tape([Address("q")], 100, FRAME_MAX, count=5)
        before = bytes(tape.octets)
        for lap in range(1, laps + 1):
            tape.begin_lap(lap)
        stamps = [stamp_of(body) for body in bodies_in(bytes(tape.octets))]
        assert stamps == [(index, laps) for index in range(5)]
        changed = {at for at in range(len(before)) if before[at] != tape.octets[at]}
        assert len(changed) <= 4 * 5

    def test_the_lap_finds_its_place_in_bodies_of_several_frames(self) -> None:
        tape = Tape([Address("q")], 9_000, 4096, count=4)
        tape.begin_lap(1)
        first_payloads = bodies_in(bytes(tape.octets))[::3]
        assert [stamp_of(payload) for payload in first_payloads] == [(i, 1) for i in range(4)]

    def test_addresses_of_different_size_are_refused(self) -> None:
        with pytest.raises(ValueError, match="one size"):
            Tape([Address("a"), Address("bb")], 20, FRAME_MAX)


class TestAcks:
    def test_an_ack_is_what_pamqp_reads(self) -> None:
        (ack,) = frames_in(ack_octets(1 << 40, is_multiple=True))
        assert isinstance(ack, commands.Basic.Ack)
        assert (ack.delivery_tag, ack.multiple) == (1 << 40, True)

    @pytest.mark.parametrize(
        ("first", "last"),
        [
            (1, 1),
            (2, 500),
            (65_530, 65_540),
            (65_536, 65_536),
            (131_071, 262_145),
            (1 << 33, 1 << 33),
        ],
    )
    def test_a_run_acks_each_tag_once_in_order(self, first: int, last: int) -> None:
        acks = SingleAcks()
        octets = b"".join(bytes(piece) for piece in acks.pieces(first, last))
        tags = [tag for *_, tag, _, _ in struct.iter_unpack(">BHIIQBB", octets)]
        assert tags == list(range(first, last + 1))
        assert octets[:SETTLE_FRAME_SIZE] == ack_octets(first)

    def test_runs_follow_each_other_over_a_change_of_the_upper_octets(self) -> None:
        acks = SingleAcks()
        for first, last in ((1, 65_000), (65_001, 65_600), (65_601, 65_700)):
            octets = b"".join(bytes(piece) for piece in acks.pieces(first, last))
            assert octets == b"".join(ack_octets(tag) for tag in range(first, last + 1))


def delivery(tag: int, index: int, lap: int) -> bytes:
    deliver = commands.Basic.Deliver(
        consumer_tag="bench", delivery_tag=tag, redelivered=False, exchange="", routing_key="q"
    )
    body = stamped_body(20, index, lap)
    return b"".join(
        (
            frame.marshal(deliver, 1),
            frame.marshal(header.ContentHeader(body_size=len(body)), 1),
            frame.marshal(pamqp_body.ContentBody(body), 1),
        )
    )


DELIVERY_SIZE = len(delivery(1, 0, 0))
SHAPE = DeliveryShape(BASIC_DELIVER, DELIVERY_SIZE, 11 + 1 + 5, DELIVERY_SIZE - 21)
TAPE_COUNT = 3
STREAM = b"".join(delivery(2 + n, n % TAPE_COUNT, n // TAPE_COUNT) for n in range(20))


def feed_in_chunks(meter: DeliveryMeter, stream: bytes, size: int) -> None:
    for start in range(0, len(stream), size):
        meter.feed(memoryview(stream[start : start + size]))


class TestDeliveryMeter:
    @given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
    def test_deliveries_are_counted_however_the_stream_is_cut(self, cuts: list[int]) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=2, tape_count=TAPE_COUNT)
        edges = sorted({0, *cuts, len(STREAM)})
        for start, stop in itertools.pairwise(edges):
            assert meter.feed(memoryview(STREAM[start:stop])) == stop // DELIVERY_SIZE
        assert meter.count == 20

    @pytest.mark.parametrize(
        "damage",
        [
            lambda stream: stream[:200] + stream[201:],
            lambda stream: stream[:200] + b"\x00" + stream[200:],
            lambda stream: stream[DELIVERY_SIZE:],
            lambda stream: stream[: 3 * DELIVERY_SIZE] + stream[4 * DELIVERY_SIZE :],
            lambda stream: stream[:DELIVERY_SIZE] + stream,
        ],
        ids=["octet lost", "octet added", "first lost", "one lost", "first twice"],
    )
    def test_a_damaged_stream_is_noticed(self, damage: Callable[[bytes], bytes]) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=2, tape_count=TAPE_COUNT)
        with pytest.raises(BenchmarkError, match="is not the one expected"):
            feed_in_chunks(meter, damage(STREAM), DELIVERY_SIZE)

    def test_swapped_bodies_are_noticed_although_the_tags_count_up(self) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=2, tape_count=TAPE_COUNT)
        with pytest.raises(BenchmarkError):
            feed_in_chunks(meter, delivery(2, 1, 0) + delivery(3, 0, 0), DELIVERY_SIZE)

    def test_any_message_of_the_tape_will_do_where_there_is_no_order(self) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=2, tape_count=TAPE_COUNT, is_ordered=False)
        feed_in_chunks(meter, delivery(2, 2, 0) + delivery(3, 0, 5) + delivery(4, 2, 0), 50)
        assert meter.count == 3

    @pytest.mark.parametrize(
        "stream", [delivery(3, 0, 0), delivery(2, TAPE_COUNT, 0)], ids=["tag", "not on the tape"]
    )
    def test_what_is_no_message_of_the_tape_is_noticed_without_an_order(
        self, stream: bytes
    ) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=2, tape_count=TAPE_COUNT, is_ordered=False)
        with pytest.raises(BenchmarkError, match="is not the one expected"):
            meter.feed(memoryview(stream))

    def test_tags_are_not_looked_at_where_they_do_not_count_up(self) -> None:
        meter = DeliveryMeter(SHAPE, first_tag=None, tape_count=TAPE_COUNT)
        feed_in_chunks(meter, delivery(1, 0, 0) + delivery(1, 1, 0), DELIVERY_SIZE)
        assert meter.count == 2


class TestConfirmMeter:
    def test_single_acks_in_any_order_are_counted_once_each(self) -> None:
        meter = ConfirmMeter()
        octets = b"".join(ack_octets(tag) for tag in (3, 1, 5, 2, 4))
        assert meter.feed(octets) == 5

    def test_a_multiple_ack_covers_singles_that_came_before_it(self) -> None:
        meter = ConfirmMeter()
        meter.feed(ack_octets(2) + ack_octets(7))
        assert meter.feed(ack_octets(5, is_multiple=True)) == 6
        assert meter.feed(ack_octets(6)) == 7

    @given(cut=st.integers(0, 4 * SETTLE_FRAME_SIZE))
    def test_frames_may_be_cut_anywhere(self, cut: int) -> None:
        octets = ack_octets(1) + ack_octets(3, is_multiple=True) + ack_octets(5) + ack_octets(4)
        meter = ConfirmMeter()
        meter.feed(octets[:cut])
        assert meter.feed(octets[cut:]) == 5

    @pytest.mark.parametrize(
        "octets",
        [
            ack_octets(1) + ack_octets(1),
            ack_octets(3, is_multiple=True) + ack_octets(2),
            ack_octets(3) + ack_octets(3),
        ],
    )
    def test_a_confirm_given_twice_is_an_error(self, octets: bytes) -> None:
        with pytest.raises(BenchmarkError, match="twice"):
            ConfirmMeter().feed(octets)

    def test_a_nack_is_an_error(self) -> None:
        nack = frame.marshal(commands.Basic.Nack(delivery_tag=1), 1)
        with pytest.raises(BenchmarkError, match="nacked"):
            ConfirmMeter().feed(nack)
