"""Streams over HTTP: their ends and their messages, from the broker's management port.

A failed request is repeated with growing pauses, for as long as the options allow; an answer that
breaks off is continued. Connections are kept by process, address and login, since Spark asks for
tails dozens of times a second. Invariant: `StreamClient.chunks` gives exactly the messages it was
asked for, in order, with right checksums, or raises an error that names what is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from hareline.spark.errors import (
    BrokerRefused,
    IncarnationChanged,
    InvalidOption,
    LoginRefused,
    MessagesMissing,
    MessageTooLarge,
    NotAStream,
    OffsetGone,
    QueueGone,
    SparkSideError,
    TailRegressed,
)
from hareline.spark.reading.access import (
    MESSAGE_MAX,
    Chunk,
    StreamAccess,
    StreamState,
    gone_text,
    lost_text,
    no_right_text,
    not_a_stream_text,
    too_large_text,
)
from hareline.spark.reading.amqp_session import Refusal, broker_id_at
from hareline.spark.shared.options import Connection
from hareline.wire.stream_chunks import (
    BROKER_HEADER,
    ERROR_HEAD_SIZE,
    HEADER_SIZE,
    ChunkHeader,
    MalformedChunk,
    check_columns,
    decode_error,
    decode_header,
    error_size,
)

#: By process, address and login.
_kept: dict[tuple[int, SplitResult, str], HTTPConnection] = {}


class Http:
    """Requests to ``/api/stream/{vhost}`` of one broker as one user; holds no socket itself."""

    def __init__(self, connection: Connection) -> None:
        self._url = urlsplit(connection.http_url)
        self._base = f"{self._url.path.rstrip('/')}/api/stream/{quote(connection.vhost, safe='')}"
        if connection.token is not None:
            self._authorization = f"Bearer {connection.token}"
        else:
            login = f"{connection.user}:{connection.password}"
            self._authorization = f"Basic {b64encode(login.encode()).decode()}"

    @contextmanager
    def request(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> Iterator[HTTPResponse]:
        """The answer, of any status. Raises OSError or HTTPException.

        ``timeout_s``: how long the broker may send nothing. The connection is closed unless the
        answer is read to its end.
        """
        key = (os.getpid(), self._url, self._authorization)
        connection = _kept.pop(key, None)
        response = None
        try:
            if connection is not None:
                response = self._ask_again(connection, method, path, body, timeout_s)
            if connection is None or response is None:
                connection = self._connect(timeout_s)
                response = self._ask(connection, method, path, body)
            yield response
        finally:
            if connection is not None:
                # An answer is closed once it is read to its end.
                is_whole = response is not None and response.isclosed() and not response.will_close
                # One is kept; another thread may have made a second one meanwhile.
                if not is_whole or _kept.setdefault(key, connection) is not connection:
                    connection.close()

    def _ask_again(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
    ) -> HTTPResponse | None:
        """The answer on a kept connection; None if the broker closed it meanwhile."""
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            return self._ask(connection, method, path, body)
        except ConnectionError:  # http.client's RemoteDisconnected is one too
            connection.close()
            return None

    def _ask(
        self, connection: HTTPConnection, method: str, path: str, body: bytes | None
    ) -> HTTPResponse:
        headers = {"Authorization": self._authorization}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, self._base + path, body, headers)
        return connection.getresponse()

    def _connect(self, timeout_s: float) -> HTTPConnection:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        return kind(self._url.hostname or "", self._url.port, timeout=timeout_s)


#: Octets of bodies in a chunk: Arrow counts them in 31 bits.
_CHUNK_MAX: Final = (1 << 31) - 1
#: Another attempt may help: the broker is starting, stopping, or asked for less.
_PASSING: Final = frozenset((408, 429, 500, 502, 503, 504))
#: How long the broker at the AMQP port may take to say who it is.
_GREETING_S: Final = 3.0
#: Management and AMQP ports that need not be compared again, by this process.
_of_one_broker: set[tuple[str, str, int]] = set()


class _Stopping(Exception):
    """The broker ended an answer since it stops."""


class StreamClient(StreamAccess):
    """Asks for the streams of one virtual host. Holds no socket, so it can be sent to tasks."""

    def __init__(self, connection: Connection, timeout_s: float, retries: int) -> None:
        super().__init__(connection, timeout_s, retries, connection.http_url, "url or httpUrl")
        self._http = Http(connection)

    def streams(self) -> list[StreamState]:
        """All streams that the user may read, in the order of their names."""
        fields = self._json("GET", "", "")
        if not isinstance(fields, list):
            raise self._strange("the streams")
        return sorted((self._state(each) for each in fields), key=lambda each: each.queue)

    def described(self, queues: Sequence[str]) -> dict[str, StreamState]:
        if len(queues) == 1:
            return {queue: self.tail(queue) for queue in queues}
        listed = {each.queue: each for each in self.streams()}
        # Asking for one that is not in the list says why it is not.
        return {queue: listed.get(queue) or self.tail(queue) for queue in queues}

    def tail(self, queue: str, after: int | None = None, wait_ms: int = 0) -> StreamState:
        wait = {} if after is None else {"after": after, "wait_ms": wait_ms}
        return self._state(
            self._json("GET", self._path(queue, "tail", wait), queue, wait_s=wait_ms / 1000)
        )

    def offset_at(self, queue: str, timestamp_ms: int) -> int:
        path = self._path(queue, "offset-for-timestamp", {"timestamp_ms": timestamp_ms})
        try:
            return int(self._json("GET", path, queue)["offset"])  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            raise self._strange(queue) from None

    def report(self, queue: str, reader: str, at: int, incarnation: str, *, pins: bool) -> None:
        """Tell the broker how far a reader is; with ``pins``, keep what is behind from deletion."""
        position = {"offset": at, "incarnation": incarnation, "pin": pins}
        self._json("PUT", self._path(queue, f"readers/{quote(reader, safe='')}"), queue, position)

    def chunks(self, queue: str, start: int, end: int, incarnation: str) -> Iterator[Chunk]:
        at = start
        patience = self.patience()
        while at < end:
            before = at
            try:
                for chunk in self._answer(queue, at, end, incarnation):
                    _check_place(queue, chunk.header, at, end)
                    at += chunk.header.count
                    patience.reset()
                    yield chunk
            except (OSError, HTTPException, _Stopping) as problem:
                patience.interrupted(problem)
            except MalformedChunk as problem:
                if not patience.may_repeat():
                    raise MessagesMissing(
                        f"stream {queue!r} from offset {at}: what the broker sent {problem}; "
                        "something between it and Spark damages the answer"
                    ) from None
            else:
                if at == before and not patience.may_repeat():
                    raise MessagesMissing(
                        f"stream {queue!r}: the broker sends none of the messages "
                        f"{at} to {end - 1}, and no reason"
                    )

    def close(self) -> None:
        """Keep the connection: ``http`` has one for the whole process."""

    def _answer(self, queue: str, start: int, end: int, incarnation: str) -> Iterator[Chunk]:
        """The chunks of one answer, which may end before ``end``."""
        wanted: dict[str, object] = {"start": start, "end": end, "incarnation": incarnation}
        path = self._path(queue, "range", wanted)
        with self._http.request("GET", path, None, self._timeout_s) as response:
            if response.status in _PASSING:
                raise _Stopping(_reason_of(response.read(), response.status))
            if response.status != 200:
                raise self._refusal(response.status, response.read(), queue, (start, end))
            while first := response.read(1):
                head = first + _read(response, ERROR_HEAD_SIZE - 1)
                size = error_size(head)
                if size is None:
                    yield self._chunk(queue, response, head)
                    continue
                error = decode_error(bytes(_read(response, size)))
                if error.error == "stopping":
                    raise _Stopping(error.reason)
                if error.error == "missing":
                    raise MessagesMissing(
                        f"stream {queue!r}, message {error.offset}: {error.reason}"
                    )
                if error.error != "truncated":  # the next request is refused with what is left
                    raise BrokerRefused(f"stream {queue!r}: {error.error}: {error.reason}")

    def _chunk(self, queue: str, response: HTTPResponse, head: bytes) -> Chunk:
        header = decode_header(head + _read(response, HEADER_SIZE - ERROR_HEAD_SIZE))
        sizes = _read(response, header.count * 16)
        body_sizes = memoryview(sizes)[header.count * 12 :].cast("I")
        largest = max(body_sizes, default=0)
        if largest > MESSAGE_MAX:
            at = header.first_offset + body_sizes.tolist().index(largest)
            raise MessageTooLarge(too_large_text(queue, at, largest, MESSAGE_MAX))
        if max(header.bodies_size, header.metas_size) > _CHUNK_MAX:
            raise MalformedChunk("has more octets in a column than Arrow can count")
        meta_sizes = memoryview(sizes)[header.count * 8 : header.count * 12].cast("I")
        if (sum(meta_sizes), sum(body_sizes)) != (header.metas_size, header.bodies_size):
            raise MalformedChunk("has sizes that do not add up")
        columns = bytearray(header.columns_size)
        columns[: len(sizes)] = sizes
        _read_into(response, memoryview(columns)[len(sizes) :])
        check_columns(header, columns)
        return Chunk(header, columns)

    def _json(
        self,
        method: str,
        path: str,
        queue: str,
        body: dict[str, object] | None = None,
        wait_s: float = 0,
    ) -> object:
        """The JSON of an answer; ``queue``: what it is about, empty for the virtual host."""
        octets = None if body is None else json.dumps(body).encode()
        patience = self.patience()
        is_repeated = False
        while True:
            try:
                with self._http.request(method, path, octets, self._timeout_s + wait_s) as response:
                    status, answer = response.status, response.read()
                    broker_id = response.getheader(BROKER_HEADER)
            except (OSError, HTTPException) as problem:
                patience.interrupted(problem)
                continue
            if status in _PASSING:
                patience.interrupted(_Stopping(_reason_of(answer, status)))
                continue
            if not self._is_one_broker(broker_id):
                # Its id is of before a restart, perhaps: ask once more.
                if is_repeated:
                    raise self._two_brokers()
                is_repeated = True
                continue
            if not 200 <= status < 300:
                raise self._refusal(status, answer, queue)
            try:
                return json.loads(answer)
            except ValueError:
                raise self._strange(queue or "its streams") from None

    def _is_one_broker(self, broker_id: str | None) -> bool:
        """False if the AMQP port is another broker's; once true for a pair of ports, always true.

        The read needs only the management port: if the other one cannot be reached, that is fine.
        """
        at = self._connection
        ports = (at.http_url, at.host, at.port)
        if not broker_id or ports in _of_one_broker:
            return True
        with contextlib.suppress(OSError, Refusal, BrokerRefused):
            if broker_id_at(at, min(self._timeout_s, _GREETING_S)) != broker_id:
                return False
        _of_one_broker.add(ports)
        return True

    def _two_brokers(self) -> InvalidOption:
        at = self._connection
        return InvalidOption(
            f"url (amqp://{at.host}:{at.port}) and httpUrl ({at.http_url}) are of two "
            "brokers: set httpUrl to the management port of the broker in url"
        )

    def _refusal(
        self, status: int, answer: bytes, queue: str, wanted: tuple[int, int] = (0, 0)
    ) -> SparkSideError:
        """Error for a status other than 200, with what to do about it."""
        fields = _fields_of(answer)
        reason = _reason_of(answer, status)
        vhost = self._connection.vhost
        start, end = wanted
        match status, fields.get("error"):
            case 401, _:
                who = f"user {self._connection.user!r}" if not self._connection.token else "token"
                return LoginRefused(
                    f"{self._where} refuses {who}: {reason}; check the options "
                    "user and password (guest may log in only from the broker's machine)"
                )
            case 403, _:
                return LoginRefused(no_right_text(self._connection.user, queue, vhost, reason))
            case 404, "not_found":
                what = f"stream {queue!r} in virtual host {vhost!r}" if queue else f"{vhost!r}"
                return QueueGone(f"there is no {what} at {self._where}: {reason}")
            case 409, "not_a_stream":
                return NotAStream(not_a_stream_text(queue, reason))
            case 409, "incarnation_changed":
                return IncarnationChanged(
                    f"stream {queue!r} was deleted and declared again, so its messages {start} to "
                    f"{end - 1} are gone; begin again with a new checkpointLocation, or set "
                    "onIncarnationChange=restart"
                )
            case 410, _ if isinstance(first := fields.get("first"), int):
                return OffsetGone(gone_text(queue, start, first), first=first)
            case 416, _:
                return TailRegressed(lost_text(queue, end, fields.get("next")))
        return BrokerRefused(f"{self._where} answers {status} about {queue or vhost!r}: {reason}")

    def _state(self, fields: object) -> StreamState:
        try:
            return StreamState(
                str(fields["queue"]),  # type: ignore[index]
                str(fields["incarnation"]),  # type: ignore[index]
                int(fields["first"]),  # type: ignore[index]
                int(fields["next"]),  # type: ignore[index]
                int(fields["bytes"]),  # type: ignore[index]
            )
        except (KeyError, TypeError, ValueError):
            raise self._strange("a stream") from None

    def _strange(self, what: str) -> BrokerRefused:
        return BrokerRefused(
            f"{self._where} does not answer about {what} as a Hareline broker "
            "does; is httpUrl the address of its management port?"
        )

    def _path(self, queue: str, what: str, arguments: Mapping[str, object] | None = None) -> str:
        path = f"/{quote(queue, safe='')}/{what}"
        return f"{path}?{urlencode(arguments)}" if arguments else path


def _check_place(queue: str, header: ChunkHeader, at: int, end: int) -> None:
    """Raises unless the chunk begins at ``at`` and does not go beyond ``end``."""
    if header.first_offset > at:
        raise MessagesMissing(
            f"stream {queue!r}: messages {at} to {header.first_offset - 1} are missing in what "
            "the broker sent"
        )
    if header.first_offset < at or at + header.count > end:
        last = header.first_offset + header.count - 1
        raise BrokerRefused(
            f"stream {queue!r}: the broker sent messages {header.first_offset} to {last} and "
            f"was asked for {at} to {end - 1}"
        )
    if header.count == 0:
        raise MalformedChunk("has no messages")


def _read(response: HTTPResponse, size: int) -> bytearray:
    octets = bytearray(size)
    _read_into(response, memoryview(octets))
    return octets


def _read_into(response: HTTPResponse, octets: memoryview) -> None:
    """Fill the octets. Raises OSError if the answer ends before."""
    filled = 0
    while filled < len(octets):
        count = response.readinto(octets[filled:])
        if count == 0:
            raise ConnectionError("the answer broke off in the middle of a chunk")
        filled += count


def _fields_of(answer: bytes) -> dict[str, int | str]:
    try:
        fields = json.loads(answer)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _reason_of(answer: bytes, status: int) -> str:
    return str(_fields_of(answer).get("reason") or f"status {status}")
