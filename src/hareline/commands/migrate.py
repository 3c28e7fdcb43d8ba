"""``hareline migrate``: definitions and messages from a running RabbitMQ or LavinMQ to a Hareline.

Definitions go over HTTP, as export there and import here. Messages go over AMQP, queue by queue, in
batches: a batch is published in one transaction, and acknowledged to its old broker when the commit
was answered, so it is on disk here. A run that is broken off is continued by the next one, since
what was moved is no longer there; only the batch that was under way may come twice.

Invariant: a message leaves the old broker after it is durable in the new one, with its properties,
headers, body and routing key octet by octet, and in its order.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import typer

from hareline.cli_progress import Display, complain

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 4 << 20
IDLE_S: Final = 1.0  # without a message, after which the queue is asked whether it is empty
HTTP_TIMEOUT_S: Final = 300.0
EXCHANGE: Final = "hareline.migrate"  # a fan-out, so that the routing key of a message is kept
_SOCKET_TIMEOUT_S: Final = 30.0


class MigrationError(Exception):
    """A sentence that says what was wrong and what to do."""


class Login(NamedTuple):
    """Where a broker is asked, and as whom."""

    host: str
    port: int
    user: str
    password: str


def login_of(url: str, schemes: tuple[str, ...], port: int) -> Login:
    """The parts of a URL. Raises MigrationError."""
    parts = urlsplit(url if "://" in url else f"{schemes[0]}://{url}")
    try:
        given_port = parts.port
    except ValueError:
        raise MigrationError(f"{parts.hostname}: the port is no number from 0 to 65535") from None
    if parts.scheme not in schemes or not parts.hostname:
        shown = " or ".join(f"{scheme}://user:password@host:port" for scheme in schemes)
        raise MigrationError(f"'{parts.scheme}://{parts.hostname or ''}' is not {shown}")
    return Login(
        parts.hostname,
        given_port or port,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
    )


class Api:
    """The HTTP API of a broker."""

    def __init__(self, login: Login) -> None:
        self._url = f"http://{login.host}:{login.port}"
        secret = base64.b64encode(f"{login.user}:{login.password}".encode()).decode("ascii")
        self._headers = {"Authorization": f"Basic {secret}", "Content-Type": "application/json"}
        self.place = f"{login.host}:{login.port}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer; None for one without a body. Raises MigrationError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._url}{path}", data, headers=self._headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S) as answer:
                octets = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode("utf-8", "replace")[:300]
            raise MigrationError(f"{self.place}: {method} {path}: {error.code} {reason}") from None
        except OSError as error:
            cause = getattr(error, "reason", error)
            raise MigrationError(f"{self.place}: {cause}") from None
        try:
            return json.loads(octets) if octets else None
        except ValueError:
            raise MigrationError(f"{self.place}: {path} answered no JSON") from None


@dataclass(frozen=True, slots=True)
class SourceQueue:
    """A queue of the old broker. ``refusal``: why its messages are not copied, or empty."""

    vhost: str
    name: str
    messages: int
    refusal: str = ""


def queues_of(api: Api, vhosts: tuple[str, ...]) -> list[SourceQueue]:
    """The queues with their depths; of these virtual hosts, or of all if there are none."""
    found = []
    for queue in api.call("GET", "/api/queues?disable_stats=false"):
        vhost, name = str(queue["vhost"]), str(queue["name"])
        if vhosts and vhost not in vhosts:
            continue
        kind = queue.get("type") or queue.get("arguments", {}).get("x-queue-type", "classic")
        refusal = ""
        if queue.get("exclusive") or queue.get("owner_pid_details"):
            refusal = "it is exclusive to a connection"
        elif kind == "stream":
            refusal = "a stream is not emptied by reading it; let its consumers read it there"
        elif name.startswith("amq."):
            refusal = "names that begin with 'amq.' are a broker's own"
        found.append(SourceQueue(vhost, name, int(queue.get("messages") or 0), refusal))
    return sorted(found, key=lambda each: (each.vhost, each.name))


def copy_definitions(source: Api, target: Api, vhosts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Import there what is exported here; returns what was left out."""
    if not vhosts:
        definitions = source.call("GET", "/api/definitions")
        report = target.call("POST", "/api/definitions?report=true", definitions)
        return list((report or {}).get("left_out", ()))
    left_out: list[dict[str, Any]] = []
    for vhost in vhosts:
        path = quote(vhost, safe="")
        definitions = source.call("GET", f"/api/definitions/{path}")
        target.call("POST", "/api/definitions", {"vhosts": [{"name": vhost}]})
        report = target.call("POST", f"/api/definitions/{path}?report=true", definitions)
        left_out += (report or {}).get("left_out", ())
    return left_out


# ------------------------------------------------------------------------------------ messages


@dataclass(slots=True)
class Batch:
    """Messages that were published and not committed. ``last_tag``: to acknowledge them by."""

    count: int = 0
    size_bytes: int = 0
    last_tag: int = 0
    returned: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.count >= BATCH_MESSAGES or self.size_bytes >= BATCH_BYTES

    def clear(self) -> None:
        """Begin again."""
        self.count = self.size_bytes = 0


class Mover:
    """Moves the messages of one virtual host, over a connection to each of the two brokers."""

    def __init__(self, source: Login, target: Login, vhost: str) -> None:
        """Raises MigrationError if one of them cannot be connected to."""
        self._source = _connection(source, vhost)
        try:
            self._target = _connection(target, vhost)
        except MigrationError:
            self._source.close()
            raise

    def close(self) -> None:
        """Close both connections; what was not acknowledged stays in the old broker."""
        for connection in (self._source, self._target):
            with suppress(Exception):
                connection.close()

    def move(self, queue: str, on_moved: Callable[[int], None]) -> int:
        """Move all messages of a queue; returns how many. ``on_moved`` hears of each batch.

        Raises MigrationError. What was not committed is still in the old broker.
        """
        import pika.exceptions

        reading, writing = self._source.channel(), self._target.channel()
        try:
            return self._move(queue, reading, writing, on_moved)
        except pika.exceptions.AMQPError as error:
            raise MigrationError(_reason(error)) from None
        finally:
            for channel in (reading, writing):
                with suppress(Exception):
                    channel.close()

    def _move(
        self,
        queue: str,
        reading: BlockingChannel,
        writing: BlockingChannel,
        on_moved: Callable[[int], None],
    ) -> int:
        exchange = f"{EXCHANGE}.{os.getpid()}"
        writing.queue_declare(queue, passive=True)
        writing.exchange_declare(exchange, "fanout", auto_delete=True)
        writing.queue_bind(queue, exchange)
        writing.tx_select()
        batch = Batch()
        writing.add_on_return_callback(
            lambda _channel, method, _properties, _body: batch.returned.append(method.reply_text)
        )
        reading.basic_qos(prefetch_count=2 * BATCH_MESSAGES)
        moved = 0
        try:
            for method, properties, body in reading.consume(queue, inactivity_timeout=IDLE_S):
                if method is not None:
                    writing.basic_publish(
                        exchange, method.routing_key, body, properties, mandatory=True
                    )
                    batch.count += 1
                    batch.size_bytes += len(body)
                    batch.last_tag = method.delivery_tag
                if batch.is_full or (method is None and batch.count):
                    moved += self._commit(batch, reading, writing)
                    on_moved(moved)
                elif method is None:
                    self._target.process_data_events(0)
                    if not reading.queue_declare(queue, passive=True).method.message_count:
                        return moved
            raise MigrationError("the old broker has ended the consumer: was the queue deleted?")
        finally:
            with suppress(Exception):
                writing.queue_unbind(queue, exchange)  # which deletes the exchange too

    @staticmethod
    def _commit(batch: Batch, reading: BlockingChannel, writing: BlockingChannel) -> int:
        writing.tx_commit()
        if batch.returned:
            raise MigrationError(
                f"{len(batch.returned)} messages of a batch were not taken by the queue here: "
                f"{batch.returned[0]}; the whole batch is still in the old broker"
            )
        reading.basic_ack(batch.last_tag, multiple=True)
        count = batch.count
        batch.clear()
        return count


def _connection(login: Login, vhost: str) -> BlockingConnection:
    import pika
    import pika.exceptions

    parameters = pika.ConnectionParameters(
        login.host,
        login.port,
        vhost,
        pika.PlainCredentials(login.user, login.password),
        heartbeat=0,
        socket_timeout=_SOCKET_TIMEOUT_S,
        client_properties={"connection_name": "hareline migrate"},
    )
    try:
        return pika.BlockingConnection(parameters)
    except pika.exceptions.AMQPError as error:
        place = f"{login.host}:{login.port}, virtual host '{vhost}', user '{login.user}'"
        raise MigrationError(f"{place}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = getattr(error, "reply_text", "") or str(error) or repr(error)
    code = getattr(error, "reply_code", "")
    return f"{code} {text}".strip()


@contextmanager
def exact_properties() -> Iterator[None]:
    """Have pika hand properties on as the octets that came, whatever types their headers have."""
    import pika.spec

    class ExactProperties(pika.spec.BasicProperties):  # type: ignore[misc]
        octets = b""

        def decode(self, encoded: bytes, offset: int = 0) -> Any:
            self.octets = bytes(encoded[offset:])
            return self

        def encode(self) -> list[bytes]:
            return [self.octets]

    index = pika.spec.BasicProperties.INDEX
    before = pika.spec.props[index]
    pika.spec.props[index] = ExactProperties
    try:
        yield
    finally:
        pika.spec.props[index] = before


def move_all(
    queues: list[SourceQueue], source: Login, target: Login, display: Display
) -> tuple[int, dict[str, str]]:
    """Move the messages of these queues; returns how many, and by queue what went wrong."""
    failures: dict[str, str] = {}
    total, moved = sum(queue.messages for queue in queues), 0
    by_vhost: dict[str, list[SourceQueue]] = {}
    for queue in queues:
        by_vhost.setdefault(queue.vhost, []).append(queue)
    with exact_properties():
        for vhost, waiting in by_vhost.items():
            for queue in waiting:
                before = moved

                def show(count: int, before: int = before) -> None:
                    display.show_count(before + count, max(total, before + count))

                try:
                    mover = Mover(source, target, vhost)
                    try:
                        moved += mover.move(queue.name, show)
                    finally:
                        mover.close()
                except MigrationError as error:
                    failures[f"{vhost} {queue.name}"] = str(error)
    return moved, failures


# ------------------------------------------------------------------------------------- command


def migrate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            envvar="HARELINE_MIGRATE_SOURCE",
            help="HTTP API of the broker to migrate from: http://user:password@host:15672.",
        ),
    ],
    source_amqp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="HARELINE_MIGRATE_SOURCE_AMQP",
            help="AMQP port of that broker; by default the same host and login, port 5672.",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="HARELINE_MIGRATE_TARGET",
            help="HTTP API of the Hareline to migrate to.",
        ),
    ] = "http://guest:guest@127.0.0.1:15672",
    target_amqp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="HARELINE_MIGRATE_TARGET_AMQP",
            help="AMQP port of that Hareline; by default the same host and login, port 5672.",
        ),
    ] = None,
    vhost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this virtual host; may be given several times."),
    ] = None,
    no_definitions: Annotated[
        bool, typer.Option("--no-definitions", help="Leave out users, queues, policies and so on.")
    ] = False,
    no_messages: Annotated[
        bool, typer.Option("--no-messages", help="Leave the messages where they are.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
) -> None:
    """Move all from a running RabbitMQ or LavinMQ to a Hareline.

    Stop its publishers and consumers first. A run that is broken off is continued by the same
    command. Exit status 1 if a queue could not be emptied.
    """
    try:
        _migrate(
            source,
            source_amqp,
            target,
            target_amqp,
            tuple(vhost or ()),
            not no_definitions,
            not no_messages,
            dry_run,
        )
    except MigrationError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        complain("broken off; the same command goes on from here")
        raise typer.Exit(130) from None


def _migrate(
    source: str,
    source_amqp: str | None,
    target: str,
    target_amqp: str | None,
    vhosts: tuple[str, ...],
    definitions: bool,
    messages: bool,
    dry_run: bool,
) -> None:
    from_login = login_of(source, ("http",), 15672)
    to_login = login_of(target, ("http",), 15672)
    from_amqp = _amqp_login(source_amqp, from_login)
    to_amqp = _amqp_login(target_amqp, to_login)
    from_api, to_api = Api(from_login), Api(to_login)
    queues = queues_of(from_api, vhosts)
    skipped = [queue for queue in queues if queue.refusal]
    waiting = [queue for queue in queues if not queue.refusal and queue.messages]
    for queue in skipped:
        if queue.messages:
            place = f"{queue.vhost} {queue.name}"
            _say(f"not moved: {queue.messages} messages of {place}: {queue.refusal}")
    if dry_run:
        for queue in waiting:
            _say(f"would move {queue.messages} messages of {queue.vhost} {queue.name}")
        _say(f"{sum(queue.messages for queue in waiting)} messages in {len(waiting)} queues")
        return
    if definitions:
        left_out = copy_definitions(from_api, to_api, vhosts)
        for each in left_out:
            place = f" in {each['vhost']}" if each.get("vhost") else ""
            _say(f"definitions: {each['what']} {each['name']}{place}: {each['reason']}")
        _say(f"definitions copied, {len(left_out)} items with a remark")
    if messages:
        with Display("moving messages") as display:
            moved, failures = move_all(waiting, from_amqp, to_amqp, display)
        _say(f"{moved} messages moved")
        for name, problem in failures.items():
            complain(f"{name}: {problem}")
        if failures:
            raise MigrationError(f"{len(failures)} queues were not emptied; run the command again")


def _amqp_login(url: str | None, api: Login) -> Login:
    return api._replace(port=5672) if url is None else login_of(url, ("amqp",), 5672)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
