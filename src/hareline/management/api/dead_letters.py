"""``GET /api/hareline/dead-letters``: where dead letters are, and why they died.

Dead-letter queues are those that the dead-letter exchange or the alternate of another queue leads
to. Of each one the first ``EXAMINED_MAX`` messages are read where they stand, and counted by
reason, queue and address of their first death. That is remembered as long as they are the first, so
that a page that asks again and again reads only what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.broker.operations.walking import messages_of, read_together, walk
from hareline.broker.vhost import VirtualHost
from hareline.errors import MalformedFrame
from hareline.management.answers import encoded
from hareline.management.api.call import Call, Routes
from hareline.management.api.listing import Pieces
from hareline.management.pace import Share
from hareline.management.routes import parameter
from hareline.message import Message
from hareline.queues.dead_letters.history import first_death
from hareline.queues.dead_letters.targets import alternate_of
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue

routes = Routes("hareline")

EXAMINED_MAX: Final = 500
#: Queues that are examined; further ones are listed with their depth only.
QUEUES_MAX: Final = 100
#: Queues that are listed, the deepest.
ROWS_MAX: Final = 500
SOURCES_MAX: Final = 50
#: Queues of whose messages it is remembered why they died: 7 MB at most.
REMEMBERED_MAX: Final = QUEUES_MAX

_Death = tuple[str, str, str, str]  # reason, queue, exchange, routing key


class DeathReason(BaseModel):
    """The number of messages that died here for this reason, and where they were published to."""

    reason: str
    queue: str
    exchange: str
    routing_key: str
    count: int


class DeadLetterQueue(BaseModel):
    """``sources``: queues that send their dead letters here. ``examined``: messages counted."""

    vhost: str
    name: str
    messages: int
    examined: int
    sources: list[str]
    reasons: list[DeathReason]


class DeadLetterQueues(BaseModel):
    """The deepest first. ``total``: how many there are, of which some may not be listed."""

    items: list[DeadLetterQueue]
    total: int


@routes(
    "GET /api/hareline/dead-letters",
    gives=DeadLetterQueues,
    parameters=[parameter("vhost", "string", "Only in this virtual host.")],
)
async def dead_letters(call: Call) -> Response:
    """Dead-letter queues, and the reasons for which their messages died."""
    who, name, examinations = call.who, call.query.get("vhost"), call.kept(Examinations)
    rows: list[tuple[Queue, dict[str, Any]]] = []
    async with call.pace.share() as share:
        for vhost in [who.vhost(name)] if name else who.vhosts():
            for queue, sources in (await _targets(vhost, share)).items():
                rows.append((queue, _row(vhost, queue, sources)))
                await share.pause()
        total = len(rows)
        rows = nsmallest(ROWS_MAX, rows, key=_deepest_first)
        for queue, row in rows[:QUEUES_MAX]:
            # what may be read over AMQP may be counted here; the rest shows its depth
            if not queue.is_deleted and who.may("read", "queue", row["vhost"], row["name"]):
                _count(row, await examinations.deaths(row["vhost"], queue, share))
                await share.pause()
        found = Pieces()
        for _, row in rows:
            found.add(encoded(row))
            await share.pause()
    return found.answer(b'{"items":[', b'],"total":%d}' % total)


def _deepest_first(found: tuple[Queue, dict[str, Any]]) -> tuple[int, str, str]:
    row = found[1]
    return -row["messages"], row["vhost"], row["name"]


async def _targets(vhost: VirtualHost, share: Share) -> dict[Queue, list[str]]:
    """The dead-letter queues of a virtual host, each with some queues that send to it.

    Bindings are walked once for each exchange, however many queues name it.
    """
    senders: dict[str, list[str]] = {}  # by the exchange that they send to
    found: dict[Queue, list[str]] = {}
    for queue in list(vhost.queues.values()):
        await share.pause()
        arguments = vhost.queue_arguments.get(queue.name)
        if arguments is None:
            continue
        for target in _targets_of(vhost, queue.name, arguments):
            if isinstance(target, Queue):
                _add(found.setdefault(target, []), [queue.name])
            else:
                _add(senders.setdefault(target, []), [queue.name])
    for exchange, names in senders.items():
        async for queue in _bound_to(vhost, exchange, share):
            _add(found.setdefault(queue, []), names)
    return found


def _add(sources: list[str], names: list[str]) -> None:
    """Note sources, of which only the first are shown."""
    sources += names
    if len(sources) > 2 * SOURCES_MAX:
        sources[:] = _first(sources)


def _first(sources: list[str]) -> list[str]:
    return nsmallest(SOURCES_MAX, set(sources))


def _targets_of(vhost: VirtualHost, name: str, arguments: QueueArguments) -> Iterator[Queue | str]:
    """Yield the targets of this queue's dead letters: queues, and names of exchanges."""
    exchange = arguments.dead_letter_exchange
    if exchange == "":
        queue = vhost.queues.get(arguments.dead_letter_routing_key or name)
        if queue is not None and queue.name != name:
            yield queue
    elif exchange is not None:
        yield exchange
    alternate = alternate_of(arguments, name)
    if alternate is not None:
        if alternate in vhost.exchanges:
            yield alternate
        elif alternate in vhost.queues:
            yield vhost.queues[alternate]


async def _bound_to(vhost: VirtualHost, exchange: str, share: Share) -> AsyncIterator[Queue]:
    """Queues that the exchange leads to by whatever key, each once, also behind other exchanges."""
    visited = {exchange}
    pending = [exchange]
    given: set[Queue] = set()
    for current in pending:
        for binding in vhost.bindings.from_source(current):
            await share.pause()
            if binding.kind == "queue":
                queue = vhost.queues.get(binding.destination)
                if queue is not None and queue not in given:
                    given.add(queue)
                    yield queue
            elif binding.destination not in visited:
                visited.add(binding.destination)
                pending.append(binding.destination)


def _row(vhost: VirtualHost, queue: Queue, sources: list[str]) -> dict[str, Any]:
    return {
        "vhost": vhost.name,
        "name": queue.name,
        "messages": queue.ready_count + queue.unacked_count,
        "examined": 0,
        "sources": _first(sources),
        "reasons": [],
    }


@dataclass(slots=True)
class _Examined:
    """Deaths of the first messages of a queue, by their offsets; None: it has not died.

    ``mark``: of the queue when it was examined, so that it is not where nothing has happened.
    """

    declared_ms: int
    mark: int = -1
    deaths: dict[int, _Death | None] = field(default_factory=dict)


class Examinations:
    """Deaths in dead-letter queues known from earlier requests, of the queues asked for last."""

    def __init__(self) -> None:
        self._by_queue: dict[tuple[str, str], _Examined] = {}

    async def deaths(self, vhost: str, queue: Queue, share: Share) -> list[_Death | None]:
        """Return the death of each of the first messages of a queue."""
        found = self._by_queue.pop((vhost, queue.name), None)
        if found is None or found.declared_ms != queue.declared_ms:
            found = _Examined(queue.declared_ms)
        mark = queue.change_mark
        if mark != found.mark:
            found.deaths = await _examine(queue, found.deaths, share)
            found.mark = mark
        self._by_queue[vhost, queue.name] = found
        while len(self._by_queue) > REMEMBERED_MAX:
            del self._by_queue[next(iter(self._by_queue))]
        return list(found.deaths.values())


async def _examine(
    queue: Queue, known: Mapping[int, _Death | None], share: Share
) -> dict[int, _Death | None]:
    """Find the deaths of the queue's first messages, by offset; reads those that are not known."""
    deaths: dict[int, _Death | None] = {}
    same: dict[_Death | None, _Death | None] = {}  # equal ones are kept once
    for share_of_queue in walk(queue):
        entries = share_of_queue[: EXAMINED_MAX - len(deaths)]
        deaths.update((entry.offset, known.get(entry.offset)) for entry in entries)
        unknown = [entry for entry in entries if entry.offset not in known]
        for part in read_together(queue, unknown):
            for entry, message in zip(part, messages_of(queue, part), strict=True):
                death = None if message is None else _first_death(message)
                deaths[entry.offset] = same.setdefault(death, death)
            await share.pause()
        await share.pause()
        if len(deaths) >= EXAMINED_MAX:
            break
    return deaths


def _count(row: dict[str, Any], deaths: list[_Death | None]) -> None:
    """Write into a row why its messages died."""
    row["examined"] = len(deaths)
    row["reasons"] = [
        {
            "reason": reason,
            "queue": queue_name,
            "exchange": exchange,
            "routing_key": routing_key,
            "count": count,
        }
        for (reason, queue_name, exchange, routing_key), count in Counter(
            death for death in deaths if death is not None
        ).most_common()
    ]


def _first_death(message: Message) -> _Death | None:
    """Reason, queue, and where it had been published to; None for what has not died."""
    try:
        return _death_in(message.headers)
    except MalformedFrame:
        return None  # headers that cannot be read tell of no death


def _death_in(headers: Mapping[str, object]) -> _Death | None:
    first = first_death(headers)
    if first is None:
        return None
    reason, queue = headers.get("x-first-death-reason"), headers.get("x-first-death-queue")
    keys = first.get("routing-keys")
    return (
        str(reason or first.get("reason", "")),
        str(queue or first.get("queue", "")),
        str(first.get("exchange", "")),
        str(keys[0]) if isinstance(keys, list) and keys else "",
    )
