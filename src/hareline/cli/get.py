"""``hareline get``: take messages from a queue, or look at them and put them back."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from click import argument, option

from hareline.cli.amqp_client import opened_channel
from hareline.cli.command import Number, Session, Whole, client_command
from hareline.cli.completing import complete_queue
from hareline.cli.message_text import body_octets, message_json, message_lines
from hareline.cli.output import Column

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
                _print(session, message, is_body=body)
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


def _print(session: Session, message: dict[str, Any], *, is_body: bool) -> None:
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
    message = message_json(
        exchange=method.exchange,
        routing_key=method.routing_key,
        redelivered=method.redelivered,
        properties=properties,
        body=body,
    )
    return method.delivery_tag, {**message, "message_count": method.message_count}
