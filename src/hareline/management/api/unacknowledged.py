"""Deliveries that are not acknowledged: the messages of a queue, a channel or a consumer.

A page shows each with its message as browse does, its delivery tag, its age and who has it. Pages
go by connection, channel and tag, so the oldest deliveries of a channel come first.

Invariant: a message is shown only to users with the right to read its queue, and a channel only to
those who may see its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel
from starlette.responses import Response

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer
from hareline.broker.operations.walking import messages_of
from hareline.errors import AmqpError
from hareline.management.answers import Refusal, bad_request, encoded, not_found
from hareline.management.api.call import Call, Routes
from hareline.management.api.connections import age_s, channels_of, find_channel, holder_json
from hareline.management.api.listing import Pieces
from hareline.management.api.message_json import Encoding, Shown, browsed_message
from hareline.management.api.messages import COUNT_MAX, PAGE_BYTES_MAX, MessageInfo
from hareline.management.api.running import run_to_end
from hareline.management.api.site import Site
from hareline.management.routes import integer, parameter
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue
from hareline.statistics.unacked import delivered_ms, is_of

COUNT: Final = 50
TRUNCATE: Final = 50_000
LOOKED_AT_ONCE: Final = 1_024  # deliveries, in some 0.2 ms
_ENCODINGS: Final = get_args(Encoding)
_POSITION_MAX: Final = 1_024
_DIGITS_MAX: Final = 20
_PARAMETERS: Final = (
    parameter("count", integer(1, COUNT_MAX, COUNT), "Messages of a page."),
    parameter("position", "string", "Where the page before ended."),
    parameter("truncate", integer(0, PAGE_BYTES_MAX, TRUNCATE), "Octets of each body."),
    parameter("encoding", {"type": "string", "enum": list(_ENCODINGS)}, "Of bodies."),
)

routes = Routes("messages")


class HolderInfo(BaseModel):
    """The holder of a message. ``consumer_tag`` null: a basic.get, or a consumer that is gone."""

    consumer_tag: str | None
    channel: str
    connection_name: str
    user: str | None


class UnackedMessage(MessageInfo):
    """A delivery and its message. ``age_s`` null: no sample says when it went out."""

    state: Literal["unacknowledged"]
    queue: str
    delivery_tag: int
    age_s: float | None
    held_by: HolderInfo


class UnackedPage(BaseModel):
    """``position``: for the next page; null: there is no more.

    ``hidden``: messages that this page came across and left out, because the user may not read
    their queues, or because these are deleted or exclusive.
    """

    messages: list[UnackedMessage]
    position: str | None
    hidden: int


class _Place(NamedTuple):
    """The place of a delivery in the order of pages."""

    connected_ms: int
    connection_name: str
    number: int
    tag: int


class _Delivery(NamedTuple):
    place: _Place
    connection: Connection
    channel: Channel
    entry: QueueEntry
    queue: Queue


@dataclass(slots=True)
class _Page:
    found: list[_Delivery] = field(default_factory=list)
    has_more: bool = False
    hidden: int = 0


#: The queue of a delivery that belongs to the page; None for another one.
_Wanted = Callable[[QueueEntry], Queue | None]
_Places = Iterable[tuple[Connection, Channel]]


@routes(
    "GET /api/queues/{vhost}/{queue}/unacknowledged",
    gives=UnackedPage,
    parameters=_PARAMETERS,
    enters=True,
)
async def of_queue(call: Call) -> Response:
    """The messages of a queue that were delivered and are not acknowledged."""
    queue = call.queue_in_path("read")
    return await _answer(
        call, _in_order(call), lambda entry: queue if is_of(entry, queue) else None
    )


@routes("GET /api/channels/{channel}/unacknowledged", gives=UnackedPage, parameters=_PARAMETERS)
async def of_channel(call: Call) -> Response:
    """The messages that a channel has not acknowledged, of queues that the user may read."""
    async with call.pace.share() as share:
        connection, channel = await find_channel(call.site, call.who, call.name("channel"), share)
    call.enter(channel.vhost.name)
    queues = _ReadableQueues(call)
    return await _answer(call, [(connection, channel)], queues.of, queues)


@routes(
    "GET /api/consumers/{vhost}/{connection}/{channel}/{consumer}/unacknowledged",
    gives=UnackedPage,
    parameters=_PARAMETERS,
    enters=True,
)
async def of_consumer(call: Call) -> Response:
    """The messages that a consumer has not acknowledged."""
    name = f"{call.name('connection')} ({call.name('channel')})"
    async with call.pace.share() as share:
        connection, channel = await find_channel(call.site, call.who, name, share)
    consumer = channel.consumers.by_tag.get(call.name("consumer"))
    if consumer is None or channel.vhost is not call.vhost:
        raise not_found()
    queue = call.queue(consumer.queue.name, "read")
    return await _answer(
        call, [(connection, channel)], lambda entry: queue if entry.consumer is consumer else None
    )


class _ReadableQueues:
    """The queues that a user may read, looked up once for each name.

    ``hidden``: deliveries of other queues that were asked for.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._by_name: dict[str, Queue | None] = {}
        self.hidden = 0

    def of(self, entry: QueueEntry) -> Queue | None:
        """The queue of a delivery; None if the user may not read it."""
        name = entry.queue.name
        if name not in self._by_name:
            self._by_name[name] = self._readable(name)
        queue = self._by_name[name]
        if queue is not None and is_of(entry, queue):
            return queue
        self.hidden += 1
        return None

    def _readable(self, name: str) -> Queue | None:
        try:
            return self._call.queue(name, "read")
        except (Refusal, AmqpError):  # not there, not allowed, or exclusive
            return None


# ------------------------------------------------------------------------------------ the walk


def _in_order(call: Call) -> Iterator[tuple[Connection, Channel]]:
    """The channels in a virtual host, in the order of pages."""
    connections = [
        (each.connected_ms, each.transport.connection_name, each)
        for each in list(call.site.context.connections)
        if isinstance(each, Connection) and each.client.is_open
    ]
    connections.sort(key=itemgetter(0, 1))  # nearly so already
    for _, _, connection in connections:
        if connection.client.is_open and connection.client.vhost is call.vhost:
            for channel in channels_of(connection):
                yield connection, channel


def _fill(
    page: _Page, places: _Places, wanted: _Wanted, count: int, after: _Place | None, shown: Shown
) -> Iterator[None]:
    """Fill a page with up to ``count`` deliveries behind a place; yields after each share."""
    size = 0
    for connection, channel in places:
        yield
        behind = _tag_behind(connection, channel, after)
        if behind is None:
            continue
        unacked = channel.port.unacked
        for tags in unacked.in_shares(behind, LOOKED_AT_ONCE):
            for tag in tags:
                entry = unacked.entries.get(tag)  # None: acknowledged meanwhile
                queue = None if entry is None else wanted(entry)
                if entry is None or queue is None:
                    continue
                size += _shown_bytes(entry, shown)
                if page.found and (len(page.found) >= count or size > PAGE_BYTES_MAX):
                    page.has_more = True
                    return
                place = _Place(*_key(connection, channel), tag)
                page.found.append(_Delivery(place, connection, channel, entry, queue))
            yield


def _key(connection: Connection, channel: Channel) -> tuple[int, str, int]:
    return connection.connected_ms, connection.transport.connection_name, channel.number


def _tag_behind(connection: Connection, channel: Channel, after: _Place | None) -> int | None:
    """Behind which tag of a channel the page goes on; None: it was on earlier pages."""
    if after is None:
        return 0
    key = _key(connection, channel)
    if key == after[:3]:
        return after.tag
    return 0 if key > after[:3] else None


def _shown_bytes(entry: QueueEntry, shown: Shown) -> int:
    size = entry.message.size
    return size if shown.truncate is None else min(size, shown.truncate)


# ---------------------------------------------------------------------------------- the answer


async def _answer(
    call: Call,
    places: _Places,
    wanted: _Wanted,
    queues: _ReadableQueues | None = None,
) -> Response:
    count = call.number("count", COUNT, 1, COUNT_MAX)
    after = _place_of(call.query.get("position"))
    truncate = call.number("truncate", TRUNCATE, 0, PAGE_BYTES_MAX)
    encoding = call.query.get("encoding", "auto")
    if encoding not in _ENCODINGS:
        raise bad_request(f"encoding: must be one of {', '.join(_ENCODINGS)}")
    shown = Shown(cast("Encoding", encoding), truncate)
    page = _Page()
    found = Pieces()
    with call.held_answer() as held:
        await run_to_end(call, _fill(page, places, wanted, count, after, shown))
        async with call.pace.share() as share:
            for each in page.found:
                [message] = messages_of(each.queue, [each.entry])
                beside = _delivery_json(call.site, each)
                steps = browsed_message(each.entry, message, shown, beside)
                found.add_parts((await share.take(steps)).parts)
                held.resize(found.size)
        position = _position_of(page.found[-1].place) if page.has_more else None
        hidden = 0 if queues is None else queues.hidden
        rest = encoded({"position": position, "hidden": hidden})
        return found.answer(b'{"messages":[', b"]," + rest[1:], held)


def _delivery_json(site: Site, delivery: _Delivery) -> dict[str, Any]:
    """Return the facts shown of a delivery beside its message."""
    port, tag = delivery.channel.port, delivery.place.tag
    sampler, consumer = site.sampler, delivery.entry.consumer
    since_ms = None if sampler is None else delivered_ms(sampler, port.channel_name, tag)
    holder = consumer if isinstance(consumer, ChannelConsumer) else None
    return {
        "state": "unacknowledged",
        "queue": delivery.queue.name,
        "delivery_tag": tag,
        "age_s": None if since_ms is None else age_s(site, since_ms),
        "held_by": holder_json(port, holder, delivery.connection),
    }


def _position_of(place: _Place) -> str:
    return f"{place.connected_ms}-{place.number}-{place.tag}-{place.connection_name}"


def _place_of(text: str | None) -> _Place | None:
    """The place that a page ended with. Raises Refusal for any other text."""
    if text is None:
        return None
    parts = text.split("-", 3)
    numbers = parts[:3]
    is_valid = len(text) <= _POSITION_MAX and len(parts) == 4
    if not is_valid or not all(
        each.isascii() and each.isdigit() and len(each) <= _DIGITS_MAX for each in numbers
    ):
        raise bad_request(f"position: '{text[:80]}' is not a position that a page ended with")
    connected_ms, number, tag = map(int, numbers)
    return _Place(connected_ms, parts[3], number, tag)
