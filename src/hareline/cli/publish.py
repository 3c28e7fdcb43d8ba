"""``hareline publish``: send a message, a file, or each line of input, and await the confirms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from click import argument, option

from hareline.cli.amqp_client import NotInTime, opened_channel, within
from hareline.cli.command import PATH, Session, Whole, client_command
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.message_text import properties_from
from hareline.cli.progress import Display, complain
from hareline.cli.values import pairs, typed_pairs

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
        session.out.done(f"published {_messages(sent)}", published=sent, unroutable=returned)
    if not returned:
        return
    reason = f"nothing is bound to exchange '{exchange}' for routing key '{key}'"
    if queue is not None:
        reason = f"there is no queue '{queue}' in vhost '{session.one_vhost}'"
    problem = f"no queue takes {_messages(returned)}: {reason}"
    if not unroutable_ok:
        raise CommandFailed(problem)
    session.out.warn(problem)


def _messages(count: int) -> str:
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
    seconds = session.target.timeout_s
    made = pika.BasicProperties(**properties)
    with (
        opened_channel(session.target, session.one_vhost, "hareline publish") as channel,
        _progress(count) as show,
    ):
        channel.confirm_delivery()
        blocking: list[str] = []
        # BlockingConnection tells of an alarm only when all is sent, which an alarm can prevent.
        connection = channel.connection._impl
        connection.add_on_connection_blocked_callback(
            lambda _, frame: blocking.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(lambda *_: blocking.clear())
        for body in bodies:
            try:
                with within(seconds):
                    channel.basic_publish(exchange, key, body, made, mandatory=True)
                sent += 1
            except exceptions.UnroutableError:
                returned += 1
            except (exceptions.NackError, TimeoutError) as error:
                if sent:
                    complain(f"{_messages(sent)} published before", style=None)
                if isinstance(error, TimeoutError):
                    problem = f"no confirm within {seconds:g} s"
                    for reason in blocking[-1:]:
                        problem += f": the broker is {reason}, and blocks publishers"
                    raise NotInTime(problem) from None
                raise CommandFailed(
                    f"the broker refused a message to exchange '{exchange}' with routing key "
                    f"'{key}': a queue is full, or it cannot be stored"
                ) from None
            show(sent + returned)
    return sent, returned


class _progress:  # noqa: N801 - used as a function
    """A bar on standard error if there are many messages; nothing otherwise."""

    def __init__(self, count: int) -> None:
        self._display = Display("publishing", is_quick=True) if count >= _MANY else None
        self._count = count

    def __enter__(self) -> Any:
        if self._display is None:
            return lambda _: None
        display = self._display.__enter__()
        return lambda done: display.show_count(done, self._count) if done % 100 == 0 else None

    def __exit__(self, *error: object) -> None:
        if self._display is not None:
            self._display.__exit__(*error)
