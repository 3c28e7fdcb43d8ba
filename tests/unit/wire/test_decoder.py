"""The decoder against pamqp: the same frames in the same order, however the stream is cut.

A ``Recorder`` stands where the connection does. It notes what it is told in the words of the
protocol (a publish, an ack, a frame), so a publish that took the lane and one that came frame by
frame look the same; what they must look like is computed from the same octets by pamqp, frame by
frame. As a channel does, it takes its lane away while a content is half received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands as pamqp_commands
from pamqp import frame as pamqp_frame
from pamqp import header as pamqp_header
from pamqp import heartbeat as pamqp_heartbeat

from hareline.errors import AmqpError, FrameError, NotFound, NotKept, PreconditionFailed
from hareline.wire import stencil
from hareline.wire.constants import BASIC_ACK, BASIC_PUBLISH, FRAME_MAX_BEFORE_TUNE
from hareline.wire.decoder import (
    Decoder,
    FrameSink,
    KnownRoute,
    PublishLane,
    SettleLane,
)
from hareline.wire.properties import decode_delivery_mode

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_HEAD = Struct(">BHI")
CONTENT_HEAD = Struct(">HHQH")
ACK = Struct(">QB")
FRAME_MAX = 1024
LANE_BODY_MAX = 64


class Publish(NamedTuple):
    channel: int
    method: bytes
    header: bytes
    body: bytes


class Ack(NamedTuple):
    channel: int
    tag: int
    is_multiple: bool


class Other(NamedTuple):
    kind: int
    channel: int
    payload: bytes


Event = Publish | Ack | Other


class RecordingRoute(KnownRoute):
    """``method``: the payload that leads here, by runs unless its key has dots."""

    def __init__(self, method: bytes, *, is_persistent: bool = False) -> None:
        self.method = method
        self.takes_runs = b"a.b.c" not in method
        self.is_persistent = is_persistent

    @property
    def persistent(self) -> RecordingRoute:
        return RecordingRoute(self.method, is_persistent=True)


class RecordingPublishLane(PublishLane):
    def __init__(self, recorder: Recorder, number: int) -> None:
        super().__init__()
        self.recorder = recorder
        self.number = number
        self.calls = self.plain_calls = self.checked_calls = 0
        self.run_sizes: list[int] = []

    def publish(self, route: Any, flags: int, content: bytes, header_size: int, size: int) -> bool:
        assert flags == int.from_bytes(content[19:21], "big")
        self.note(route.method, content, header_size, size)
        return self.recorder.lets_publishes_repeat

    def publish_checked(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        assert not route.takes_runs
        self.checked_calls += 1
        self.note_plain(route, content, header_size, size)

    def publish_plain(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        assert route.takes_runs
        self.plain_calls += 1
        self.note_plain(route, content, header_size, size)

    def note_plain(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        mode = decode_delivery_mode(content[19 : header_size - 1])
        assert route.is_persistent == (mode == 2)
        self.note(route.method, content, header_size, size)

    def publish_run(
        self, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        assert len(contents) > 1
        self.run_sizes.append(len(contents))
        self.publish_each(route, contents, header_size, framing)

    def note(self, method: bytes, content: bytes, header_size: int, size: int) -> None:
        frames = split(content)
        assert [one.kind for one in frames] == ([HEADER, BODY] if size else [HEADER])
        assert {one.channel for one in frames} == {self.number}
        header = frames[0].payload
        assert len(header) + 8 == header_size
        body = frames[1].payload if size else b""
        assert len(body) == size
        self.calls += 1
        self.recorder.note(Publish(self.number, method, header, body))


class RecordingSettleLane(SettleLane):
    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder = recorder
        self.number = number
        self.calls = 0

    def ack(self, tag: int, multiple: int) -> None:
        self.calls += 1
        self.recorder.note(Ack(self.number, tag, multiple & 1 == 1))


@dataclass
class HalfContent:
    method: bytes
    header: bytes | None = None
    chunks: list[bytes] = field(default_factory=list)


class Recorder(FrameSink):
    """``fail_at`` maps the number of a noted event to the error that its call raises."""

    __slots__ = (
        "contents",
        "decoder",
        "errors",
        "events",
        "fail_at",
        "goes_on_after_errors",
        "lanes",
        "lets_publishes_repeat",
        "settle_lanes",
    )

    def __init__(self) -> None:
        self.decoder = Decoder(self)
        self.decoder.frame_max = FRAME_MAX
        self.decoder.lane_body_max = LANE_BODY_MAX
        self.events: list[Event] = []
        self.errors: list[tuple[int, AmqpError]] = []
        self.fail_at: dict[int, AmqpError] = {}
        self.goes_on_after_errors = True
        self.lets_publishes_repeat = True
        self.lanes: dict[int, RecordingPublishLane] = {}
        self.settle_lanes: dict[int, RecordingSettleLane] = {}
        self.contents: dict[int, HalfContent] = {}

    def add_publish_lane(self, number: int, known: Iterable[bytes] = ()) -> RecordingPublishLane:
        lane = self.lanes[number] = RecordingPublishLane(self, number)
        lane.routes.update((payload, RecordingRoute(payload)) for payload in known)
        self.decoder.publish_lanes[number] = lane
        return lane

    def add_settle_lane(self, number: int) -> RecordingSettleLane:
        lane = self.settle_lanes[number] = RecordingSettleLane(self, number)
        self.decoder.settle_lanes[number] = lane
        return lane

    def note(self, event: Event) -> None:
        self.events.append(event)
        error = self.fail_at.get(len(self.events))
        if error is not None:
            raise error

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        index = int.from_bytes(payload[:4], "big")
        content = self.contents.get(number)
        if kind == METHOD and index == BASIC_PUBLISH:
            self.contents[number] = HalfContent(payload)
            self.decoder.publish_lanes.pop(number, None)
        elif kind == HEADER and content is not None and content.header is None:
            content.header = payload
            self.complete(number, content)
        elif kind == BODY and content is not None and content.header is not None:
            content.chunks.append(payload)
            self.complete(number, content)
        elif kind == METHOD and index == BASIC_ACK:
            tag, bits = ACK.unpack(payload[4:])
            self.note(Ack(number, tag, bits & 1 == 1))
        else:
            self.note(Other(kind, number, payload))

    def complete(self, number: int, content: HalfContent) -> None:
        assert content.header is not None
        size = CONTENT_HEAD.unpack_from(content.header)[2]
        body = b"".join(content.chunks)
        if len(body) < size:
            return
        del self.contents[number]
        lane = self.lanes.get(number)
        if lane is not None:
            lane.routes.setdefault(content.method, RecordingRoute(content.method))
            self.decoder.publish_lanes[number] = lane
        self.note(Publish(number, content.method, content.header, body))

    def on_error(self, number: int, error: AmqpError) -> bool:
        self.errors.append((number, error))
        return self.goes_on_after_errors


# ------------------------------------------------------------------------ streams and the oracle


def frame(kind: int, number: int, payload: bytes) -> bytes:
    return FRAME_HEAD.pack(kind, number, len(payload)) + payload + b"\xce"


def split(octets: bytes) -> list[Other]:
    frames = []
    while octets:
        kind, number, size = FRAME_HEAD.unpack_from(octets)
        frames.append(Other(kind, number, octets[7 : 7 + size]))
        assert octets[7 + size] == 0xCE
        octets = octets[8 + size :]
    return frames


def publish(
    number: int,
    exchange: str = "x",
    routing_key: str = "k",
    body: bytes = b"",
    *,
    chunk: int = FRAME_MAX,
    mandatory: bool = False,
    properties: pamqp_commands.Basic.Properties | None = None,
) -> bytes:
    """A publish as pamqp writes it."""
    method = pamqp_commands.Basic.Publish(
        exchange=exchange, routing_key=routing_key, mandatory=mandatory
    )
    header = pamqp_header.ContentHeader(0, len(body), properties)
    bodies = [
        frame(BODY, number, body[start : start + chunk]) for start in range(0, len(body), chunk)
    ]
    return b"".join(
        (pamqp_frame.marshal(method, number), pamqp_frame.marshal(header, number), *bodies)
    )


def ack(number: int, tag: int, *, multiple: bool = False) -> bytes:
    return pamqp_frame.marshal(pamqp_commands.Basic.Ack(tag, multiple), number)


def nack(number: int, tag: int) -> bytes:
    return pamqp_frame.marshal(pamqp_commands.Basic.Nack(tag, True, True), number)


HEARTBEAT_OCTETS = pamqp_frame.marshal(pamqp_heartbeat.Heartbeat(), 0)


def oracle(octets: bytes) -> list[Event]:
    """What pamqp finds in a stream of whole, legal frames.

    Only a body frame without octets is read by hand, which pamqp cannot.
    """
    events: list[Event] = []
    halves: dict[int, HalfContent] = {}
    for kind, number, payload in split(octets):
        whole = frame(kind, number, payload)
        if kind == BODY:
            halves[number].chunks.append(payload)
            if payload:
                _, _, content_body = pamqp_frame.unmarshal(whole)
                assert getattr(content_body, "value", None) == payload
        else:
            consumed, channel, value = pamqp_frame.unmarshal(whole)
            assert (consumed, channel) == (len(whole), number)
            if isinstance(value, pamqp_commands.Basic.Publish):
                halves[number] = HalfContent(payload)
            elif isinstance(value, pamqp_header.ContentHeader):
                halves[number].header = payload
            elif isinstance(value, pamqp_commands.Basic.Ack):
                assert value.delivery_tag is not None
                events.append(Ack(number, value.delivery_tag, bool(value.multiple)))
            else:
                events.append(Other(kind, number, payload))
        half = halves.get(number)
        if half is not None and half.header is not None:
            size = pamqp_frame.unmarshal(frame(HEADER, number, half.header))[2]
            body = b"".join(half.chunks)
            if len(body) == getattr(size, "body_size", None):
                events.append(Publish(number, half.method, half.header, body))
                del halves[number]
    assert not halves
    return events


NAMES = st.text("abcXYZ019-_.:@#", max_size=8)
CHANNELS = st.sampled_from([1, 2, 300])
PROPERTIES = st.builds(
    pamqp_commands.Basic.Properties,
    content_type=st.none() | NAMES,
    headers=st.none() | st.dictionaries(NAMES.filter(len), st.integers(0, 9) | NAMES, max_size=2),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    correlation_id=st.none() | NAMES,
)
PUBLISHES = st.builds(
    publish,
    CHANNELS,
    exchange=st.sampled_from(["", "x"]),
    routing_key=st.sampled_from(["k", "a.b.c"]),
    body=st.binary(max_size=LANE_BODY_MAX + 20),
    chunk=st.sampled_from([1, 7, 30, FRAME_MAX]),
    mandatory=st.booleans(),
    properties=st.none() | PROPERTIES,
)
# runs of publishes that differ in nothing but the octets of the body, or not even there
RUNS = st.builds(
    lambda number, bodies: b"".join(publish(number, "", "k", body) for body in bodies),
    CHANNELS,
    st.lists(st.sampled_from([b"", b"1234", b"5678", b"\xce\xce\xce\xce"]), min_size=2, max_size=8),
)
ACKS = st.builds(ack, CHANNELS, st.integers(0, 2**63 - 1), multiple=st.booleans())
OTHERS = st.one_of(
    st.just(HEARTBEAT_OCTETS),
    st.builds(nack, CHANNELS, st.integers(0, 2**63 - 1)),
    st.builds(
        lambda number, name: pamqp_frame.marshal(pamqp_commands.Queue.Declare(queue=name), number),
        CHANNELS,
        NAMES,
    ),
    st.builds(
        lambda number: pamqp_frame.marshal(pamqp_commands.Channel.Close(200, "bye", 0, 0), number),
        CHANNELS,
    ),
)
PARTS = st.one_of(PUBLISHES, RUNS, ACKS, OTHERS)
STREAMS = st.lists(PARTS, max_size=8).map(b"".join)
SHORT_STREAMS = st.lists(PARTS, max_size=4).map(b"".join)
# which channels have lanes, and how many of the stream's publish methods are known beforehand
LANES = st.sets(CHANNELS)


def publish_methods(octets: bytes) -> list[bytes]:
    return [
        payload
        for kind, _, payload in split(octets)
        if kind == METHOD and int.from_bytes(payload[:4], "big") == BASIC_PUBLISH
    ]


def recorder_for(
    octets: bytes, publish_lanes: Iterable[int], settle_lanes: Iterable[int], knows: bool = True
) -> Recorder:
    recorder = Recorder()
    known = publish_methods(octets) if knows else ()
    for number in publish_lanes:
        recorder.add_publish_lane(number, known)
    for number in settle_lanes:
        recorder.add_settle_lane(number)
    return recorder


# ------------------------------------------------------------------------------- the same calls


@given(STREAMS, LANES, LANES, st.booleans(), st.booleans())
def test_a_whole_stream_gives_what_pamqp_finds_in_it(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int], knows: bool, repeats: bool
) -> None:
    recorder = recorder_for(octets, publish_lanes, settle_lanes, knows)
    recorder.lets_publishes_repeat = repeats
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert recorder.errors == []


@given(SHORT_STREAMS, LANES, LANES, st.booleans())
def test_a_cut_at_any_octet_changes_nothing(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int], knows: bool
) -> None:
    expected = oracle(octets)
    for cut in range(len(octets) + 1):
        recorder = recorder_for(octets, publish_lanes, settle_lanes, knows)
        recorder.decoder.feed(octets[:cut])
        recorder.decoder.feed(octets[cut:])
        assert recorder.events == expected, cut
        assert recorder.errors == []


@given(STREAMS, LANES, LANES)
def test_octet_by_octet_gives_the_same_calls(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int]
) -> None:
    recorder = recorder_for(octets, publish_lanes, settle_lanes)
    for position in range(len(octets)):
        recorder.decoder.feed(octets[position : position + 1])
    assert recorder.events == oracle(octets)


@given(STREAMS, LANES, LANES, st.lists(st.integers(0, 200), max_size=30))
def test_chunks_of_any_size_give_the_same_calls(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int], sizes: list[int]
) -> None:
    recorder = recorder_for(octets, publish_lanes, settle_lanes)
    for chunk in chunks(octets, sizes):
        recorder.decoder.feed(chunk)
    assert recorder.events == oracle(octets)


def chunks(octets: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut off these sizes, empty ones too, then the rest."""
    pieces = []
    position = 0
    for size in sizes:
        pieces.append(octets[position : position + size])
        position += size
    pieces.append(octets[position:])
    return pieces


# ------------------------------------------------------------------------ what takes which lane


def test_a_known_publish_is_one_call_of_its_lane() -> None:
    octets = publish(1, "x", "k", b"body") + publish(2, "x", "k", b"body")
    recorder = recorder_for(octets, [1, 2], [])
    recorder.decoder.feed(octets)
    assert [recorder.lanes[number].calls for number in (1, 2)] == [1, 1]
    assert [type(event) for event in recorder.events] == [Publish, Publish]


def test_a_publish_to_an_unknown_route_goes_to_the_sink_and_the_next_one_takes_the_lane() -> None:
    octets = publish(1, "x", "k", b"body")
    recorder = recorder_for(octets, [1], [], knows=False)
    recorder.decoder.feed(octets + octets)
    assert recorder.lanes[1].calls == 1
    assert len(recorder.events) == 2
    assert recorder.events[0] == recorder.events[1]


def test_a_body_above_the_lanes_limit_goes_to_the_sink() -> None:
    octets = publish(1, "", "k", b"a" * LANE_BODY_MAX)
    longer = publish(1, "", "k", b"a" * (LANE_BODY_MAX + 1))
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets + longer)
    assert recorder.lanes[1].calls == 1
    assert recorder.events == oracle(octets + longer)


def test_a_body_in_several_frames_goes_to_the_sink() -> None:
    octets = publish(1, "", "k", b"abcdef", chunk=3)
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets)
    assert recorder.lanes[1].calls == 0
    assert recorder.events == oracle(octets)


def keyed(key: str, body: bytes = b"body", routing_key: str = "k") -> bytes:
    properties = pamqp_commands.Basic.Properties(correlation_id=key)
    return publish(1, "x", routing_key, body, properties=properties)


def test_publishes_that_take_turns_are_told_apart_by_all_that_is_before_their_bodies() -> None:
    first = [keyed("a"), keyed("b"), keyed("a", b"longer"), keyed("bb", b"bod"), keyed("b", b"")]
    octets = b"".join(first * 3)
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert recorder.lanes[1].calls == len(first) * 3
    assert recorder.lanes[1].plain_calls > 0


def test_a_publish_that_matches_a_stencil_and_is_half_there_waits_for_the_rest() -> None:
    octets = (keyed("a") + keyed("b")) * 3
    for cut in range(len(octets)):
        recorder = recorder_for(octets, [1], [])
        recorder.decoder.feed(octets[:cut])
        recorder.decoder.feed(octets[cut:])
        assert recorder.events == oracle(octets)


def test_forgotten_routes_are_asked_for_again_whatever_stencil_was_cut() -> None:
    octets = (keyed("a") + keyed("b")) * 2
    recorder = recorder_for(octets, [1], [])
    lane = recorder.lanes[1]
    recorder.decoder.feed(octets)
    lane.forget_routes()
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets + octets)
    assert lane.calls < 8, "the first of them had to find its route"


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_stencils_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencil, "SHAPES_MAX", 3)
    octets = b"".join(keyed("k" * number) for number in range(50))
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert 0 < len(recorder.lanes[1].stencils.by_shape) <= 3


def test_an_empty_body_takes_the_lane() -> None:
    octets = publish(1, "", "k") * 3
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets)
    assert recorder.lanes[1].calls == 3
    assert recorder.events == oracle(octets)


def test_an_empty_body_frame_is_handed_over() -> None:
    head = publish(1, "", "k", b"ab")[: -len(frame(BODY, 1, b"ab"))]
    octets = head + frame(BODY, 1, b"") + frame(BODY, 1, b"ab")
    recorder = recorder_for(octets, [1], [])
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert recorder.lanes[1].calls == 0


def test_a_publish_of_another_channel_between_two_alike_ones_is_not_taken_for_theirs() -> None:
    mine, other = publish(1, "", "k", b"mine"), publish(2, "", "k", b"them")
    octets = mine + mine + mine + other + mine + other + other
    recorder = recorder_for(octets, [1, 2], [])
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert (recorder.lanes[1].calls, recorder.lanes[2].calls) == (4, 3)


def test_a_lane_that_is_taken_away_within_a_stream_gets_nothing_more() -> None:
    class ClosingRecorder(Recorder):
        def on_frame(self, kind: int, number: int, payload: bytes) -> None:
            super().on_frame(kind, number, payload)
            if int.from_bytes(payload[:4], "big") == pamqp_commands.Channel.Close.index:
                del self.lanes[number]
                self.decoder.publish_lanes.pop(number, None)
                self.decoder.settle_lanes.pop(number, None)

    one = publish(1, "", "k", b"body")
    close = pamqp_frame.marshal(pamqp_commands.Channel.Close(200, "", 0, 0), 1)
    octets = one * 4 + ack(1, 5) + close + one * 4 + ack(1, 6)
    recorder = ClosingRecorder()
    lane = recorder.add_publish_lane(1, publish_methods(octets))
    settle_lane = recorder.add_settle_lane(1)
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert (lane.calls, settle_lane.calls) == (4, 1)


def test_a_route_that_is_forgotten_within_a_stream_is_asked_for_anew() -> None:
    class RebindingRecorder(Recorder):
        def on_frame(self, kind: int, number: int, payload: bytes) -> None:
            super().on_frame(kind, number, payload)
            if int.from_bytes(payload[:4], "big") == pamqp_commands.Queue.Declare.index:
                self.lanes[number].routes.clear()

    one = publish(1, "", "k", b"body")
    declare = pamqp_frame.marshal(pamqp_commands.Queue.Declare(queue="q"), 1)
    octets = one * 3 + declare + one * 3
    recorder = RebindingRecorder()
    lane = recorder.add_publish_lane(1, publish_methods(octets))
    recorder.decoder.feed(octets)
    assert recorder.events == oracle(octets)
    assert lane.calls == 5


def test_publishes_without_lane_flag_are_never_repeated_blindly() -> None:
    octets = publish(1, "", "k", b"body") * 5
    recorder = recorder_for(octets, [1], [])
    recorder.lets_publishes_repeat = False
    plain: list[bytes] = []
    lane = recorder.lanes[1]
    lane.publish_plain = lambda route, content, header_size, size: plain.append(content)  # type: ignore[method-assign]
    recorder.decoder.feed(octets)
    assert plain == []
    assert recorder.events == oracle(octets)


# ------------------------------------------------------------------------------ errors of calls


ERRORS: list[Callable[[], AmqpError]] = [
    lambda: NotFound("no exchange 'x' in vhost '/'"),
    lambda: PreconditionFailed("unknown delivery tag 7"),
]


@given(STREAMS, LANES, LANES, st.sets(st.integers(1, 20)), st.lists(st.integers(0, 60), max_size=6))
def test_an_error_of_a_call_loses_and_repeats_no_frame(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int], at: set[int], sizes: list[int]
) -> None:
    expected = oracle(octets)
    recorder = recorder_for(octets, publish_lanes, settle_lanes)
    recorder.fail_at = {number: ERRORS[number % 2]() for number in at}
    for chunk in chunks(octets, sizes):
        recorder.decoder.feed(chunk)
    assert recorder.events == expected
    failed = [number for number in sorted(at) if number <= len(expected)]
    assert recorder.errors == [
        (expected[number - 1].channel, recorder.fail_at[number]) for number in failed
    ]


@given(STREAMS, LANES, LANES, st.integers(1, 10), st.lists(st.integers(0, 60), max_size=6))
def test_after_a_final_error_nothing_more_is_decoded(
    octets: bytes, publish_lanes: set[int], settle_lanes: set[int], at: int, sizes: list[int]
) -> None:
    expected = oracle(octets)
    recorder = recorder_for(octets, publish_lanes, settle_lanes)
    recorder.fail_at = {at: NotFound("gone")}
    recorder.goes_on_after_errors = False
    for chunk in chunks(octets, sizes):
        recorder.decoder.feed(chunk)
    assert recorder.events == expected[:at]
    assert len(recorder.errors) == (1 if at <= len(expected) else 0)


def test_discard_in_the_middle_of_a_stream_ends_it_at_once() -> None:
    class Discarding(Recorder):
        def on_frame(self, kind: int, number: int, payload: bytes) -> None:
            super().on_frame(kind, number, payload)
            self.decoder.discard()

    recorder = Discarding()
    recorder.decoder.feed(nack(1, 1) + nack(1, 2))
    recorder.decoder.feed(nack(1, 3))
    assert len(recorder.events) == 1


# -------------------------------------------------------------------------------------- garbage


@pytest.mark.parametrize(
    ("octets", "explanation"),
    [
        (
            FRAME_HEAD.pack(BODY, 1, FRAME_MAX + 1) + b"x",
            f"type 3, all octets = <<>>: {{frame_too_large,{FRAME_MAX + 1},{FRAME_MAX - 8}}}",
        ),
        (
            FRAME_HEAD.pack(METHOD, 1, 0xFFFFFFFF) + b"x",
            f"type 1, all octets = <<>>: {{frame_too_large,4294967295,{FRAME_MAX - 8}}}",
        ),
        (
            frame(METHOD, 1, b"\0\x32\0\x0a")[:-1] + b"\xcd",
            "type 1, all octets = <<0,50,0,10>>: {invalid_frame_end_marker,205}",
        ),
        (
            frame(BODY, 1, b"a" * 20)[:-1] + b"\0",
            'type 3, first 16 octets = <<"aaaaaaaaaaaaaaaa">>: {invalid_frame_end_marker,0}',
        ),
        (frame(4, 1, b"ab"), 'type 4, all octets = <<"ab">>: unknown_frame'),
        (frame(0, 0, b""), "type 0, all octets = <<>>: unknown_frame"),
        (
            frame(255, 7, bytes(range(17))),
            "type 255, first 16 octets = <<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15>>: unknown_frame",
        ),
        (frame(4, 1, b'a"b\\'), 'type 4, all octets = <<"a\\"b\\\\">>: unknown_frame'),
    ],
)
def test_a_bad_frame_is_501_in_the_words_of_rabbitmq(octets: bytes, explanation: str) -> None:
    for stream in (octets, octets + HEARTBEAT_OCTETS * 3):  # one for either loop of the decoder
        recorder = Recorder()
        recorder.decoder.feed(stream)
        error = recorder.errors[0][1]
        assert isinstance(error, FrameError)
        assert (error.reply_code, error.explanation) == (501, explanation)
        assert (error.class_id, error.method_id) == (0, 0)


def test_an_oversize_frame_is_refused_as_soon_as_its_head_is_read() -> None:
    recorder = Recorder()
    recorder.decoder.feed(FRAME_HEAD.pack(BODY, 1, FRAME_MAX + 1) + b"x")
    assert [error.reply_code for _, error in recorder.errors] == [501]


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
@pytest.mark.parametrize(
    "octets", [FRAME_HEAD.pack(BODY, 50, 1 << 24) + bytes(20), frame(BODY, 50, b"")[:-1] + b"\0"]
)
def test_an_error_has_the_channel_of_its_frame_however_the_stream_is_cut(
    octets: bytes, chunk: int
) -> None:
    recorder = Recorder()
    stream = ack(7, 1) + octets
    for start in range(0, len(stream), chunk):
        recorder.decoder.feed(stream[start : start + chunk])
    assert [number for number, _ in recorder.errors] == [50]


def test_a_payload_of_exactly_frame_max_is_tolerated_as_rabbitmq_does() -> None:
    recorder = Recorder()
    recorder.decoder.feed(frame(METHOD, 1, b"\0" * FRAME_MAX))
    assert recorder.events == [Other(METHOD, 1, b"\0" * FRAME_MAX)]
    assert recorder.errors == []


def test_frame_max_is_the_small_one_until_it_is_negotiated() -> None:
    assert Decoder(Recorder()).frame_max == FRAME_MAX_BEFORE_TUNE == 8192


@pytest.mark.parametrize("size", [FRAME_MAX + 1, FRAME_MAX + 100])
def test_an_oversize_content_header_does_not_slip_through_the_lane(size: int) -> None:
    method = pamqp_frame.marshal(pamqp_commands.Basic.Publish(exchange="", routing_key="k"), 1)
    header = frame(HEADER, 1, CONTENT_HEAD.pack(60, 0, 0, 0).ljust(size, b"\0"))
    recorder = Recorder()
    recorder.add_publish_lane(1, publish_methods(method))
    recorder.decoder.feed(method + header + HEARTBEAT_OCTETS)
    assert recorder.lanes[1].calls == 0
    assert [error.reply_code for _, error in recorder.errors] == [501]
    assert recorder.events == []


BAD_CONTENTS = {
    "the header is of another class": (frame(HEADER, 1, CONTENT_HEAD.pack(50, 0, 4, 0)), b"body"),
    "the weight is not zero": (frame(HEADER, 1, CONTENT_HEAD.pack(60, 1, 4, 0)), b"body"),
    "the body is longer than announced": (
        frame(HEADER, 1, CONTENT_HEAD.pack(60, 0, 3, 0)),
        b"body",
    ),
    "the body is shorter than announced": (
        frame(HEADER, 1, CONTENT_HEAD.pack(60, 0, 5, 0)),
        b"body",
    ),
    "the header is too short": (frame(HEADER, 1, CONTENT_HEAD.pack(60, 0, 4, 0)[:13]), b"body"),
    "the header is on another channel": (frame(HEADER, 2, CONTENT_HEAD.pack(60, 0, 4, 0)), b"body"),
    "there is no header": (b"", b"body" * 8),
}


@pytest.mark.parametrize("name", BAD_CONTENTS)
def test_a_publish_that_is_not_well_made_goes_to_the_sink_frame_by_frame(name: str) -> None:
    class Raw(Recorder):
        def on_frame(self, kind: int, number: int, payload: bytes) -> None:
            self.note(Other(kind, number, payload))

    method = pamqp_frame.marshal(pamqp_commands.Basic.Publish(exchange="", routing_key="k"), 1)
    header, body = BAD_CONTENTS[name]
    octets = method + header + frame(BODY, 1, body) + HEARTBEAT_OCTETS * 3
    recorder = Raw()
    recorder.add_publish_lane(1, publish_methods(method))
    recorder.decoder.feed(octets)
    assert recorder.events == split(octets)
    assert recorder.lanes[1].calls == 0


@pytest.mark.parametrize("part", [0, 1, 2], ids=["method", "header", "body"])
@pytest.mark.parametrize("before", [0, 3])
def test_a_publish_with_a_wrong_end_octet_takes_no_lane(part: int, before: int) -> None:
    good = publish(1, "", "k", b"body")
    frames = [frame(*one) for one in split(good)]
    frames[part] = frames[part][:-1] + b"\xcf"
    recorder = recorder_for(good, [1], [])
    recorder.decoder.feed(good * before + b"".join(frames) + good)
    assert recorder.events == oracle(good * before)
    (error,) = [error for _, error in recorder.errors]
    assert error.explanation.endswith(": {invalid_frame_end_marker,207}")


def test_an_ack_of_the_wrong_size_does_not_take_the_lane() -> None:
    class Raw(Recorder):
        def on_frame(self, kind: int, number: int, payload: bytes) -> None:
            self.note(Other(kind, number, payload))

    octets = frame(METHOD, 1, b"\0\x3c\0\x50" + b"\0" * 8) + frame(
        METHOD, 1, b"\0\x3c\0\x50" + b"\0" * 10
    )
    recorder = Raw()
    recorder.add_settle_lane(1)
    recorder.decoder.feed(octets)
    assert recorder.events == split(octets)


class Stray(Recorder):
    """Takes every frame as it is: garbage has no contents."""

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        self.note(Other(kind, number, payload))


def kept_size(decoder: Decoder) -> int:
    """How many octets the decoder holds back."""
    return sum(len(chunk) for chunk in decoder._chunks)


@given(st.binary(max_size=300), st.lists(st.integers(0, 40), max_size=8))
def test_garbage_gives_a_frame_error_or_waits_for_more_but_nothing_else(
    octets: bytes, sizes: list[int]
) -> None:
    recorder = Stray()
    recorder.add_settle_lane(1)
    for chunk in chunks(octets, sizes):
        recorder.decoder.feed(chunk)
        assert kept_size(recorder.decoder) < FRAME_MAX + 8
    assert all(isinstance(error, FrameError) for _, error in recorder.errors)


@given(STREAMS.filter(len), st.data())
def test_a_damaged_stream_never_hangs_and_never_keeps_more_than_one_frame(
    octets: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(octets)
    for position in data.draw(st.lists(st.integers(0, len(octets) - 1), min_size=1, max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    recorder = Stray()
    for number in (1, 2):
        recorder.add_publish_lane(number, publish_methods(octets))
        recorder.add_settle_lane(number)
    recorder.lets_publishes_repeat = data.draw(st.booleans())
    for chunk in chunks(bytes(damaged), data.draw(st.lists(st.integers(0, 60), max_size=6))):
        recorder.decoder.feed(chunk)
        assert kept_size(recorder.decoder) < FRAME_MAX + 8
    assert all(isinstance(error, FrameError) for _, error in recorder.errors)


@given(st.integers(0, FRAME_MAX), st.integers(1, 5000))
def test_what_is_kept_never_exceeds_one_frame(size: int, chunk: int) -> None:
    recorder = Stray()
    octets = frame(BODY, 1, b"\xce" * size) * 3
    for position in range(0, len(octets), chunk):
        recorder.decoder.feed(octets[position : position + chunk])
        assert kept_size(recorder.decoder) < size + 8
    assert recorder.events == [Other(BODY, 1, b"\xce" * size)] * 3


def test_after_a_bad_frame_nothing_is_kept_or_decoded() -> None:
    recorder = Recorder()  # its on_error asks to go on, as a connection waiting for close-ok does
    recorder.decoder.feed(frame(BODY, 1, b"a")[:-1] + b"\0" + nack(1, 1))
    for _ in range(100):
        recorder.decoder.feed(b"\0" * 100)
    assert len(recorder.errors) == 1
    assert recorder.events == []
    assert kept_size(recorder.decoder) == 0


def test_a_frame_of_an_unknown_type_leaves_the_stream_in_step() -> None:
    recorder = Recorder()
    recorder.decoder.feed(frame(9, 1, b"whatever") + nack(1, 1) + frame(9, 1, b"") + nack(1, 2))
    assert [error.reply_code for _, error in recorder.errors] == [501, 501]
    assert recorder.events == oracle(nack(1, 1) + nack(1, 2))


@pytest.mark.parametrize("between", [b"", b"other"])
def test_a_run_goes_on_behind_publishes_of_another_shape(between: bytes) -> None:
    alike, other = publish(1, "", "k", b"body"), publish(1, "", "k", between)
    parts = [alike * 5, other * 2, alike * 5, other, alike, other * 2 + alike * 2]
    recorder = recorder_for(b"".join(parts), [1], [])
    for part in parts:
        recorder.decoder.feed(part)
    assert recorder.events == oracle(b"".join(parts))
    assert recorder.lanes[1].plain_calls


# ------------------------------------------------------------------------------------- held


class Holding(Recorder):
    """Stops after each frame that goes to it."""

    __slots__ = ()

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        super().on_frame(kind, number, payload)
        self.decoder.hold()


def holding() -> Holding:
    recorder = Holding()
    recorder.add_publish_lane(1, publish_methods(publish(1)))
    recorder.add_settle_lane(1)
    return recorder


@pytest.mark.parametrize("size", [1, 7, 30, 10_000])
def test_a_held_decoder_keeps_what_it_is_fed_and_loses_nothing(size: int) -> None:
    octets = b"".join(
        (nack(1, 1), publish(1, body=b"one"), ack(1, 2), nack(1, 3), publish(1, body=b"two"))
    )
    recorder = holding()
    for start in range(0, len(octets), size):
        recorder.decoder.feed(octets[start : start + size])
    assert recorder.events == oracle(octets)[:1]
    holds = 0
    while recorder.decoder.has_stopped():
        recorder.decoder.resume()
        holds += 1
    assert recorder.events == oracle(octets)
    assert holds == 2
    assert recorder.lanes[1].calls == 2


class HoldingLane(RecordingPublishLane):
    """Stops after each publish that takes no run, and refuses those with an x in their body."""

    def publish_checked(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        self.recorder.decoder.hold()
        if content[-2:-1] == b"x":
            raise NotKept("refused")
        super().publish_checked(route, content, header_size, size)


def test_publishes_behind_one_at_which_it_is_held_wait_and_none_is_lost() -> None:
    bodies = [b"1", b"2", b"3", b"x", b"5", b"6", b"x"]
    octets = b"".join(publish(1, "", "a.b.c", body) for body in bodies)
    recorder = Recorder()
    lane = HoldingLane(recorder, 1)
    for method in publish_methods(octets):
        lane.routes[method] = RecordingRoute(method)
    recorder.lanes[1] = recorder.decoder.publish_lanes[1] = lane
    recorder.decoder.feed(octets)
    holds = 0
    while recorder.decoder.has_stopped():
        recorder.decoder.resume()
        holds += 1
    taken = [each.body for each in recorder.events if isinstance(each, Publish)]
    assert taken == [body for body in bodies if body != b"x"]
    assert [error.reply_code for _, error in recorder.errors] == [NotKept.reply_code] * 2
    assert lane.checked_calls >= 3
    assert holds >= 3


def test_a_held_decoder_that_discards_goes_on_with_nothing() -> None:
    recorder = holding()
    recorder.decoder.feed(nack(1, 1) + nack(1, 2))
    recorder.decoder.discard()
    recorder.decoder.resume()
    assert recorder.events == oracle(nack(1, 1))
