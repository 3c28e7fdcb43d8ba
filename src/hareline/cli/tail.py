"""``hareline tail``: follow the messages of a queue or stream without taking them.

A stream is read by offset. Any other queue gets a browser, a consumer that only looks; RabbitMQ has
none, so there only streams can be followed. Invariant: no message leaves its queue, and none is
marked as redelivered.
"""

from __future__ import annotations

import datetime
import re
import sys
import time
from typing import Any, Final

from click import argument, option

from hareline.cli.amqp_client import opened_channel
from hareline.cli.command import Session, Whole, client_command
from hareline.cli.completing import complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.message_text import body_octets, message_json, message_lines

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
        arguments = _arguments(session, channel, queue, start)
        if where is not None:
            arguments["x-filter-jms-selector"] = where
        if no_follow:
            arguments["x-filter-auto-close"] = True
        channel.basic_qos(prefetch_count=_PREFETCH)
        deliveries = channel.consume(queue, arguments=arguments)
        for seen, (method, properties, octets) in enumerate(deliveries, 1):
            message = message_json(
                exchange=method.exchange,
                routing_key=method.routing_key,
                redelivered=method.redelivered,
                properties=properties,
                body=octets,
            )
            _print(session, message, is_body=body)
            channel.basic_ack(method.delivery_tag)
            if seen == count:
                break


def _print(session: Session, message: dict[str, Any], *, is_body: bool) -> None:
    if session.out.is_json:
        session.out.json_line(message)
        return
    if is_body:
        sys.stdout.buffer.write(body_octets(message) + b"\n")
    else:
        sys.stdout.write("\n".join(message_lines(message)) + "\n")
    sys.stdout.flush()


def _arguments(session: Session, channel: Any, queue: str, start: str) -> dict[str, Any]:
    """What makes the consumer a reader that begins there."""
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
    """Whether the broker knows browsers; as its product it may give RabbitMQ's name."""
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
