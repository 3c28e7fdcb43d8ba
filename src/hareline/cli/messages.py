"""``hareline publish``, ``get`` and ``tail``: messages over AMQP, and how they are shown.

As JSON a message is that of RabbitMQ's ``/api/queues/.../get``. Invariant: a body that is not UTF-8
is never changed: JSON has it in base64, a terminal in hex. `tail` takes no message from its queue
and marks none as redelivered; where a broker has no browsers, it follows streams only.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from click import argument, option

from hareline.cli.amqp_client import Confirming, NotInTime, opened_channel
from hareline.cli.command import PATH, Number, Session, Whole, client_command, pairs, typed_pairs
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.output import Column, Display, complain, visible
from hareline.octets import octets_of_base64, text_or_base64

_TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id"),
)
_NUMBERS: Final = {"delivery_mode": 2, "priority": 255, "timestamp": 2**63 - 1}
_ALL: Final = (*_TEXTS, *_NUMBERS, "headers")


def properties_from(
    given: Mapping[str, str], headers: Mapping[str, Any], *, is_persistent: bool
) -> dict[str, Any]:
    """Properties of a message by name. Raises CommandFailed for one that does not exist."""
    found: dict[str, Any] = {}
    for written, value in given.items():
        name = written.replace("-", "_")
        if name in _NUMBERS:
            if not value.isdecimal() or int(value) > _NUMBERS[name]:
                raise CommandFailed(
                    f"--property: {name}: '{value}' is not a number from 0 to {_NUMBERS[name]}",
                    ExitStatus.USAGE,
                )
            found[name] = int(value)
        elif name in _TEXTS:
            found[name] = value
        else:
            raise CommandFailed(
                f"--property: '{written}' is not one of {', '.join(_ALL[:-1])}; "
                "--header sets a header",
                ExitStatus.USAGE,
            )
    if headers:
        found["headers"] = dict(headers)
    if is_persistent:
        found.setdefault("delivery_mode", 2)
    return found


def properties_of(properties: Any) -> dict[str, Any]:
    """The properties that a message of pika has, as JSON can hold them."""
    found = {name: getattr(properties, name, None) for name in _ALL}
    return {name: _jsonable(value) for name, value in found.items() if value is not None}


def message_json(method: Any, properties: Any, body: bytes) -> dict[str, Any]:
    """A message as the API shows one. ``method``: pika's, by which it came."""
    payload, is_base64 = text_or_base64(body)
    return {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": properties_of(properties),
        "payload": payload,
        "payload_bytes": len(body),
        "payload_encoding": "base64" if is_base64 else "string",
    }


def message_lines(message: Mapping[str, Any]) -> list[str]:
    """A message of the API for a terminal: where it is from, its properties, its body."""
    source = message.get("exchange") or "default exchange"
    first = f"{source} -> {message.get('routing_key', '')!r}"
    if "position" in message:
        first = f"{message['position']}: {first}"
    if message.get("redelivered"):
        first += " (redelivered)"
    properties = dict(message.get("properties") or {})
    headers = properties.pop("headers", {}) or {}
    lines = [visible(first)]
    if properties:
        lines.append("  " + visible(", ".join(f"{k}={v}" for k, v in properties.items())))
    lines += [f"  {visible(str(k))}: {visible(_short(v))}" for k, v in headers.items()]
    lines.append(f"  {visible(body_text(message))}")
    return lines


def body_text(message: Mapping[str, Any]) -> str:
    """The body for a terminal; hex if it is not text."""
    payload = str(message.get("payload", ""))
    if message.get("payload_encoding") != "base64":
        return payload
    return octets_of_base64(payload).hex(" ")


def body_octets(message: Mapping[str, Any]) -> bytes:
    """The body of a message of the API."""
    payload = str(message.get("payload", ""))
    if message.get("payload_encoding") == "base64":
        return octets_of_base64(payload)
    return payload.encode()


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _jsonable(value: Any) -> Any:
    match value:
        case bytes():
            text, is_base64 = text_or_base64(value)
            return {"base64": text} if is_base64 else text
        case dict():
            return {str(key): _jsonable(each) for key, each in value.items()}
        case list() | tuple():
            return [_jsonable(each) for each in value]
        case Decimal():
            return str(value)
        case datetime.datetime():
            return int(value.replace(tzinfo=datetime.UTC).timestamp())
        case _:
            return value


#: Above so many messages there is a progress bar.
_MANY: Final = 1_000


@client_command()
@argument("body", required=False, help="The body; without it, standard input.")
@option(
    "--queue", "-q", metavar="NAME", shell_complete=complete_queue, help="Send it to this queue."
)
@option(
    "--exchange",
    "-e",
    metavar="NAME",
    shell_complete=complete_exchange,
    help="Send it to this exchange.",
)
@option("--routing-key", "-k", metavar="KEY", default="", show_default=False, help="Routing key.")
@option("--file", type=PATH, metavar="FILE", help="The body is its content.")
@option("--lines", is_flag=True, help="Each line of the input is a message.")
@option("--count", type=Whole(1), default=1, help="Send it N times.")
@option(
    "--header",
    "-H",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header, its value as JSON or text; may be given again.",
)
@option(
    "--property",
    "-P",
    "property_",
    multiple=True,
    metavar="NAME=VALUE",
    help="content_type, correlation_id, priority or another; may be given again.",
)
@option("--persistent", is_flag=True, help="It survives a restart, in a durable queue.")
@option("--unroutable-ok", is_flag=True, help="No error if no queue takes it.")
def publish(
    session: Session,
    body: str | None,
    queue: str | None,
    exchange: str | None,
    routing_key: str,
    file: Path | None,
    lines: bool,
    count: int,
    header: tuple[str, ...],
    property_: tuple[str, ...],
    persistent: bool,
    unroutable_ok: bool,
) -> None:
    """Publish messages, and wait until the broker confirms each.

    Ends with status 1 if the broker refused a message, or no queue takes it.
    """
    if (queue is None) == (exchange is None):
        raise CommandFailed("give --queue or --exchange", ExitStatus.USAGE)
    if queue is not None and routing_key:
        raise CommandFailed("--routing-key goes with --exchange", ExitStatus.USAGE)
    if body is not None and (file is not None or lines):
        raise CommandFailed("BODY goes with neither --file nor --lines", ExitStatus.USAGE)
    properties = properties_from(
        pairs(property_, "--property"),
        typed_pairs(header, "--header"),
        is_persistent=persistent,
    )
    key = routing_key if queue is None else queue
    bodies = _bodies(body, file, lines, count)
    sent, returned = _send(session, exchange or "", key, bodies, properties, count)
    if sent or unroutable_ok or session.out.is_json:
        session.out.done(f"published {messages_text(sent)}", published=sent, unroutable=returned)
    if not returned:
        return
    reason = f"nothing is bound to exchange '{exchange}' for routing key '{key}'"
    if queue is not None:
        reason = f"there is no queue '{queue}' in vhost '{session.one_vhost}'"
    problem = f"no queue takes {messages_text(returned)}: {reason}"
    if not unroutable_ok:
        raise CommandFailed(problem)
    session.out.warn(problem)


def messages_text(count: int) -> str:
    """Say how many messages: ``1 message``, ``2,000 messages``."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def _bodies(body: str | None, file: Path | None, is_lines: bool, count: int) -> Iterator[bytes]:
    if body is not None:
        return _again(body.encode("utf-8", "surrogateescape"), count)
    if is_lines:
        return _lines(file)
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    return _again(content, count)


def _again(body: bytes, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield body


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as opened:
        yield from (line.rstrip(b"\r\n") for line in opened)


def _send(
    session: Session,
    exchange: str,
    key: str,
    bodies: Iterator[bytes],
    properties: dict[str, Any],
    count: int,
) -> tuple[int, int]:
    """Send the messages; count those that a queue has taken, and those that none takes."""
    import pika
    from pika import exceptions

    sent = returned = 0
    made = pika.BasicProperties(**properties)
    with (
        opened_channel(session.target, session.one_vhost, "hareline publish") as channel,
        _progress(count) as show,
    ):
        out = Confirming(channel, session.target.timeout_s)
        for body in bodies:
            try:
                out.publish(exchange, key, body, made)
                sent += 1
            except exceptions.UnroutableError:
                returned += 1
            except (exceptions.NackError, NotInTime) as error:
                if sent:
                    complain(f"{messages_text(sent)} published before", style=None)
                if isinstance(error, NotInTime):
                    raise
                raise CommandFailed(
                    f"the broker refused a message to exchange '{exchange}' with routing key "
                    f"'{key}': a queue is full, or it cannot be stored"
                ) from None
            show(sent + returned)
    return sent, returned


@contextmanager
def _progress(count: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if there are many messages; nothing otherwise."""
    if count < _MANY:
        yield lambda _: None
        return
    with Display("publishing", is_quick=True) as display:
        yield lambda done: display.show_count(done, count) if done % 100 == 0 else None


_POLL_S: Final = 0.05
_COLUMNS: Final = (
    Column("exchange", "exchange"),
    Column("routing_key", "routing-key"),
    Column("redelivered", "redelivered"),
    Column("properties", "properties"),
    Column("payload_encoding", "encoding"),
    Column("payload", "payload"),
)


@client_command()
@argument("queue", shell_complete=complete_queue, help="The queue.")
@option("--count", type=Whole(1), default=1, help="At most this many.")
@option("--keep", is_flag=True, help="Put them back; they count as redelivered then.")
@option(
    "--wait",
    type=Number(0),
    default=0,
    help="How long to wait for the first one.",
)
@option("--body", is_flag=True, help="Print the bodies alone, a line end after each.")
def get(session: Session, queue: str, count: int, keep: bool, wait: float, body: bool) -> None:
    """Take messages from a queue, and print them.

    Each is acknowledged once it is printed.

    `queue browse` and `tail` look without taking. Prints nothing if the queue is empty.
    Columns without a terminal: exchange, routing-key, redelivered, properties, encoding, payload.
    """
    with opened_channel(session.target, session.one_vhost, "hareline get") as channel:
        first = _first(channel, queue, wait)
        taken: list[int] = []
        messages = []
        while first is not None:
            tag, message = first
            taken.append(tag)
            messages.append(message)
            if not session.out.is_json:
                _print_taken(session, message, is_body=body)
                sys.stdout.flush()
                if not keep:
                    channel.basic_ack(tag)
            first = _next(channel, queue) if len(taken) < count else None
        if session.out.is_json:
            session.out.json(messages)
            sys.stdout.flush()
        if taken and keep:
            channel.basic_nack(taken[-1], multiple=True, requeue=True)
        elif taken and session.out.is_json:
            channel.basic_ack(taken[-1], multiple=True)


def _print_taken(session: Session, message: dict[str, Any], *, is_body: bool) -> None:
    if is_body:
        sys.stdout.flush()
        sys.stdout.buffer.write(body_octets(message) + b"\n")
        sys.stdout.buffer.flush()
    elif session.out.is_terminal:
        for line in message_lines(message):
            sys.stdout.write(line + "\n")
    else:
        session.out.table(_COLUMNS, [message])


def _first(channel: Any, queue: str, wait_s: float) -> tuple[int, dict[str, Any]] | None:
    end = time.monotonic() + wait_s
    while True:
        found = _next(channel, queue)
        if found is not None or time.monotonic() >= end:
            return found
        channel.connection.sleep(_POLL_S)


def _next(channel: Any, queue: str) -> tuple[int, dict[str, Any]] | None:
    """Delivery tag and message, or None if the queue is empty."""
    method, properties, body = channel.basic_get(queue)
    if method is None:
        return None
    message = message_json(method, properties, body)
    return method.delivery_tag, {**message, "message_count": method.message_count}


_PREFETCH: Final = 200
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "D": 86_400, "M": 2_592_000, "Y": 31_536_000}
_AGO: Final = re.compile(r"(\d+)([smhDMY])")
#: Longer ago than any message is.
_ALWAYS_S: Final = 3_000_000_000


@client_command()
@argument("queue", shell_complete=complete_queue, help="Queue or stream.")
@option(
    "--from",
    "start",
    metavar="PLACE",
    default="next",
    help="next, first, 30m (1h, 7D: so long ago), a time in ISO 8601; for streams also "
    "last and an offset.",
)
@option("--count", type=Whole(1), help="End after N messages.")
@option("--where", metavar="SELECTOR", help="Only messages that this JMS selector matches.")
@option("--no-follow", is_flag=True, help="End when all that is there was shown.")
@option("--body", is_flag=True, help="Print the bodies alone, a line end after each.")
def tail(
    session: Session,
    queue: str,
    start: str,
    count: int | None,
    where: str | None,
    no_follow: bool,
    body: bool,
) -> None:
    """Follow a queue or stream; nothing is taken. Ctrl-C ends it.

    With --json each message is one line.
    """
    with opened_channel(session.target, session.one_vhost, "hareline tail") as channel:
        arguments = reader_arguments(session, channel, queue, start)
        if where is not None:
            arguments["x-filter-jms-selector"] = where
        if no_follow:
            arguments["x-filter-auto-close"] = True
        channel.basic_qos(prefetch_count=_PREFETCH)
        deliveries = channel.consume(queue, arguments=arguments)
        for seen, (method, properties, octets) in enumerate(deliveries, 1):
            message = message_json(method, properties, octets)
            _print_seen(session, message, is_body=body)
            channel.basic_ack(method.delivery_tag)
            if seen == count:
                break


def _print_seen(session: Session, message: dict[str, Any], *, is_body: bool) -> None:
    if session.out.is_json:
        session.out.json_line(message)
        return
    if is_body:
        sys.stdout.buffer.write(body_octets(message) + b"\n")
    else:
        sys.stdout.write("\n".join(message_lines(message)) + "\n")
    sys.stdout.flush()


def reader_arguments(session: Session, channel: Any, queue: str, start: str) -> dict[str, Any]:
    """Arguments that make the consumer a reader that begins there."""
    if not _is_hareline(channel):
        # Elsewhere a consumer of anything but a stream would take the messages.
        path = path_of("queues", session.one_vhost, queue)
        what = f"queue '{queue}' in vhost '{session.one_vhost}'"
        kind = session.api.get(path, {"columns": "name,type"}, what=what).get("type")
        if kind != "stream":
            raise CommandFailed(
                f"{what}: this broker can show streams without taking messages, and this is a "
                f"{kind} queue"
            )
        return {"x-stream-offset": _offset(start)}
    if start == "last" or start.isdecimal():
        return {"x-stream-offset": _offset(start)}
    return {"x-browse": True, "x-qpid-replay-period": str(_seconds_ago(start))}


def _is_hareline(channel: Any) -> bool:
    """True if the broker knows browsers; as its product it may give RabbitMQ's name."""
    properties = getattr(channel.connection._impl, "server_properties", None) or {}
    brand = properties.get("brand", "")
    return (brand.decode() if isinstance(brand, bytes) else str(brand)).startswith("Hareline")


def _offset(start: str) -> Any:
    if start in {"next", "first", "last"} or _AGO.fullmatch(start):
        return start
    return int(start) if start.isdecimal() else _moment(start).replace(tzinfo=None)


def _seconds_ago(start: str) -> int:
    if start == "next":
        return 0
    if start == "first":
        return _ALWAYS_S
    found = _AGO.fullmatch(start)
    if found is not None:
        return int(found[1]) * _UNITS_S[found[2]]
    return max(0, int(time.time() - _moment(start).timestamp()) + 1)


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(
            f"--from: '{text}' is not next, first, last, an offset, 30m, or a time such as "
            "2026-01-05T10:00:00Z",
            ExitStatus.USAGE,
        ) from None
    return (moment if moment.tzinfo is not None else moment.astimezone()).astimezone(datetime.UTC)
