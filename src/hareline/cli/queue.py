"""``hareline queue``: queues, and operations on their messages.

The broker does the work and answers with lines of progress; docs/message-operations.md has the
bodies. Invariant: a command that could do only a part of its work says how much was refused and
why, and ends with status 1; a broker that does not know an operation is said to be one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from click import argument, option

from hareline.cli.command import (
    PATH,
    Group,
    OneOf,
    Session,
    Whole,
    client_command,
    together,
    typed_pairs,
)
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Refused, path_of
from hareline.cli.messages import message_lines
from hareline.cli.output import Column, Display

queue = Group("queue", help="Declare, delete and pause queues; browse and move messages.")

queue_name = argument("queue", shell_complete=complete_queue, help="The queue.")
_IN_FORCE: Final = (
    Column("name", "name"),
    Column("value", "value"),
    Column("origin", "origin"),
    Column("origin_name", "origin_name"),
)
_TYPES: Final = "x-queue-type"
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405


def what(session: Session, queue: str) -> str:
    """The queue, for a sentence."""
    return f"queue '{queue}' in vhost '{session.one_vhost}'"


@client_command(queue)
@queue_name
@option("--type", "kind", metavar="TYPE", help="classic, quorum, stream.")
@option("--durable/--transient", default=True, help="Kept over a restart, or gone after it.")
@option("--auto-delete", is_flag=True, help="Deleted with its last consumer.")
@option(
    "--argument",
    "-a",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument, as x-max-length=100, its value as JSON or text; may be given again.",
)
def declare(
    session: Session,
    queue: str,
    kind: str | None,
    durable: bool,
    auto_delete: bool,
    argument: tuple[str, ...],
) -> None:
    """Declare a queue; the same one again is no error."""
    arguments = typed_pairs(argument, "--argument")
    if kind is not None:
        arguments[_TYPES] = kind
    body = {"durable": durable, "auto_delete": auto_delete, "arguments": arguments}
    path = path_of("queues", session.one_vhost, queue)
    is_new = session.api.put(path, body, what=what(session, queue))
    session.out.done(
        f"{what(session, queue)}: {'declared' if is_new else 'exists'}", created=is_new
    )


@client_command(queue)
@queue_name
@option("--if-empty", is_flag=True, help="Only if it has no messages.")
@option("--if-unused", is_flag=True, help="Only if it has no consumers.")
def delete(session: Session, queue: str, if_empty: bool, if_unused: bool) -> None:
    """Delete a queue with its messages and bindings."""
    conditions = {"if-empty": if_empty, "if-unused": if_unused}
    query = {name: "true" for name, is_asked in conditions.items() if is_asked}
    path = path_of("queues", session.one_vhost, queue)
    session.api.delete(path, query, what=what(session, queue))
    session.out.done(f"{what(session, queue)}: deleted", deleted=queue)


@client_command(queue)
@queue_name
def arguments(session: Session, queue: str) -> None:
    """Show each argument in force, and what decides it.

    Columns: name, value, origin, and the name of a policy that is the origin.
    """
    path = path_of("hareline", "queues", session.one_vhost, queue, "effective-arguments")
    found = session.api.get(path, what=what(session, queue))
    session.out.table(_IN_FORCE, found["arguments"])


@client_command(queue)
@queue_name
def pause(session: Session, queue: str) -> None:
    """Stop deliveries until `resume`, also over a restart.

    Publishers go on, and the queue grows."""
    operate(session, queue, "pause", {})
    session.out.done(f"{what(session, queue)}: paused", paused=True)


@client_command(queue)
@queue_name
def resume(session: Session, queue: str) -> None:
    """Let deliveries from a paused queue go on."""
    operate(session, queue, "resume", {})
    session.out.done(f"{what(session, queue)}: resumed", paused=False)


def operate(session: Session, queue: str, operation: str, body: dict[str, Any]) -> Any:
    """The answer to an operation of ours. Raises CommandFailed."""
    path = path_of("queues", session.one_vhost, queue, operation)
    with unknown_as_sentence(session, operation):
        return session.api.post(path, body, what=what(session, queue))


@contextmanager
def unknown_as_sentence(session: Session, operation: str) -> Iterator[None]:
    """Say of a broker that has no such operation that it has none, and not that a queue is gone."""
    try:
        yield
    except Refused as error:
        if error.code != _METHOD_NOT_ALLOWED and not _is_no_route(error):
            raise
        raise CommandFailed(f"{session.api.url}: this broker has no `{operation}`") from None


def _is_no_route(error: Refused) -> bool:
    """True if a 404 means the path: RabbitMQ says of a queue that is gone `Object Not Found`."""
    answer = error.answer if isinstance(error.answer, dict) else {}
    return error.code == _NOT_FOUND and answer.get("reason") == '"Not Found"\n'


_PAGE: Final = 1_000
_SHOWN: Final = 20
_BROWSED: Final = (
    Column("offset", "offset"),
    Column("state", "state"),
    Column("exchange", "exchange"),
    Column("routing_key", "routing-key"),
    Column("payload_bytes", "octets"),
    Column("properties", "properties"),
    Column("payload_encoding", "encoding"),
    Column("payload", "payload"),
)

_selector = option(
    "--where", "selector", metavar="SELECTOR", help="Only those that this JMS selector matches."
)
_limit = option("--limit", type=Whole(1), help="At most N, from the head.")
_which = together(
    _selector,
    option(
        "--offset",
        "offsets",
        type=Whole(0),
        multiple=True,
        help="Only the message of this offset, as `browse` shows it; may be given again.",
    ),
    _limit,
    option("--all", is_flag=True, help="All messages."),
)
_where_to = together(
    option(
        "--to-queue", metavar="NAME", shell_complete=complete_queue, help="Queue that gets them."
    ),
    option(
        "--to-exchange",
        metavar="NAME",
        shell_complete=complete_exchange,
        help="Exchange that gets them.",
    ),
    option(
        "--routing-key",
        "-k",
        metavar="KEY",
        help="With --to-exchange; by default the one they have.",
    ),
)


@client_command(queue)
@queue_name
@option("--limit", type=Whole(1), default=_SHOWN, help="At most N messages.")
@option("--end", is_flag=True, help="From the end on, the newest first.")
@_selector
@option(
    "--encoding",
    type=OneOf(["auto", "json", "hex", "base64"]),
    metavar="WORD",
    default="auto",
    help="How bodies are shown: auto, json, hex or base64.",
)
@option("--truncate", type=Whole(0), metavar="OCTETS", default=50000, help="Of each body.")
def browse(
    session: Session,
    queue: str,
    limit: int,
    end: bool,
    selector: str | None,
    encoding: str,
    truncate: int,
) -> None:
    """Look at messages; nothing is taken, counted or moved.

    Columns without a terminal: offset, state, exchange, routing-key, octets, properties, encoding,
    payload.
    """
    body: dict[str, Any] = {
        "start": "end" if end else "head",
        "selector": selector,
        "encoding": encoding,
        "truncate": truncate,
    }
    messages: list[dict[str, Any]] = []
    path = path_of("queues", session.one_vhost, queue, "browse")
    while True:
        body["count"] = min(_PAGE, limit - len(messages))
        with unknown_as_sentence(session, "browse"):
            page = session.api.post(path, body, what=what(session, queue), is_long=True)
        messages += page["messages"]
        body["position"] = page["position"]
        if page["position"] is None or len(messages) >= limit:
            break
    if session.out.is_terminal and not session.out.is_json:
        for message in messages:
            shown = {**message, "position": message["offset"]}
            sys.stdout.write("\n".join(message_lines(shown)) + "\n")
        return
    session.out.table(_BROWSED, messages)


@client_command(queue)
@queue_name
@option("--limit", type=Whole(1), help="Only the first N.")
def purge(session: Session, queue: str, limit: int | None) -> None:
    """Delete all messages, or the first ones.

    Those that a consumer has not acknowledged stay."""
    if limit is not None:
        run_operation(session, queue, "purge", "deleted", {"limit": limit})
        return
    path = path_of("queues", session.one_vhost, queue, "contents")
    session.api.delete(path, what=what(session, queue))
    session.out.done(f"{what(session, queue)}: purged", purged=queue)


@client_command(queue, "delete-messages")
@queue_name
@_which
def delete_messages(session: Session, queue: str, **which: Any) -> None:
    """Delete messages; they are not dead-lettered."""
    run_operation(session, queue, "delete", "deleted", _selection(which))


@client_command(queue)
@queue_name
@_where_to
@_which
def move(session: Session, queue: str, **asked: Any) -> None:
    """Move messages to another queue or to an exchange."""
    run_operation(session, queue, "move", "moved", _selection(asked) | _place(**asked))


@client_command(queue)
@queue_name
@_where_to
@_which
def copy(session: Session, queue: str, **asked: Any) -> None:
    """Copy messages to another queue or to an exchange."""
    run_operation(session, queue, "copy", "copied", _selection(asked) | _place(**asked))


@client_command(queue)
@queue_name
@_which
def retry(session: Session, queue: str, **which: Any) -> None:
    """Send dead letters back to where they died first."""
    run_operation(session, queue, "retry", "retried", _selection(which))


@client_command(queue)
@queue_name
@argument("file", type=PATH, help="The file, or - for output.")
@_selector
@_limit
def export(
    session: Session, queue: str, file: Path, selector: str | None, limit: int | None
) -> None:
    """Write messages to a file; they stay in the queue.

    The file has a line of JSON for each, and can be imported."""
    wanted = {"selector": selector, "limit": limit}
    body = {name: value for name, value in wanted.items() if value is not None}
    path = path_of("queues", session.one_vhost, queue, "export")
    # The end says how many there are: a file that was cut off does not have it.
    end: dict[str, Any] = {}
    with (
        unknown_as_sentence(session, "export"),
        Display(f"exporting {queue}", is_quick=True) as display,
    ):
        lines = session.api.lines(path, body, what=what(session, queue))
        first = next(lines, b"")  # a refusal comes before the file is made
        with _opened(file) as out:
            out.write(first)
            for number, line in enumerate(lines, 1):
                out.write(line)
                if line.startswith(b'{"end":'):
                    end = json.loads(line)
                elif number % 1_000 == 0:
                    display.show_count(number, None)
    if not end:
        raise CommandFailed(f"{file}: cut off: the broker ended the answer before its end")
    if str(file) != "-":
        count, unreadable = end["messages"], end["unreadable"]
        session.out.done(
            f"{file}: {count:,} messages", file=str(file), messages=count, unreadable=unreadable
        )
    if end["unreadable"]:
        raise CommandFailed(f"{end['unreadable']:,} messages could not be read from disk")


@client_command(queue, "import")
@queue_name
@argument("file", type=PATH, help="A file that `export` wrote.")
def import_messages(session: Session, queue: str, file: Path) -> None:
    """Put the messages of an exported file into a queue."""
    path = path_of("queues", session.one_vhost, queue, "import")
    size = file.stat().st_size
    with (
        file.open("rb") as content,
        unknown_as_sentence(session, "import"),
        Display(f"importing into {queue}", is_quick=True) as display,
    ):
        read = _Counted(content, size, display)
        answer = session.api.upload(path, read, size, what=what(session, queue))
    _report(session, queue, "imported", answer)


class _Counted:
    """A file that shows how much of it was read."""

    def __init__(self, content: Any, size: int, display: Display) -> None:
        self._content = content
        self._size = size
        self._display = display
        self._done = 0

    def read(self, size: int = -1) -> bytes:
        octets: bytes = self._content.read(size)
        self._done += len(octets)
        self._display.show_share(self._done, self._size)
        return octets


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A file for writing that only its owner can read; standard output for `-`."""
    if str(file) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        yield out


def _selection(asked: dict[str, Any]) -> dict[str, Any]:
    """Selection of messages, as the body has it. Raises CommandFailed if nothing was said."""
    given = {name: asked[name] for name in ("selector", "offsets", "limit", "all")}
    given = {name: value for name, value in given.items() if value not in (None, (), False)}
    if not given:
        raise CommandFailed(
            "say which messages: --where, --offset, --limit or --all", ExitStatus.USAGE
        )
    return given


def _place(
    to_queue: str | None, to_exchange: str | None, routing_key: str | None, **_: Any
) -> dict[str, str]:
    if (to_queue is None) == (to_exchange is None):
        raise CommandFailed("give --to-queue or --to-exchange", ExitStatus.USAGE)
    if routing_key is not None and to_exchange is None:
        raise CommandFailed("--routing-key goes with --to-exchange", ExitStatus.USAGE)
    place = {"to_queue": to_queue, "to_exchange": to_exchange, "routing_key": routing_key}
    return {name: value for name, value in place.items() if value is not None}


def run_operation(
    session: Session, queue: str, operation: str, verb: str, body: dict[str, Any]
) -> None:
    """Have the broker do it, show how far it is, and print the result."""
    path = path_of("queues", session.one_vhost, queue, operation)
    answer: dict[str, Any] = {}
    with unknown_as_sentence(session, operation):
        with Display(f"{operation}: {queue}", is_quick=True) as display:
            lines = session.api.lines(path, body, {"progress": "true"}, what=what(session, queue))
            for line in lines:
                answer = json.loads(line)
                if not answer.get("complete"):
                    display.show_count(answer.get(verb, 0), None)
        if "reason" in answer:
            raise CommandFailed(
                f"{what(session, queue)}: {answer['reason']}; {answer.get(verb, 0):,} were {verb}"
            )
        if not answer.get("complete"):
            raise CommandFailed(f"{what(session, queue)}: the broker ended the answer early")
    del answer["complete"]
    _report(session, queue, verb, answer)


def _report(session: Session, queue: str, verb: str, answer: dict[str, Any]) -> None:
    count = answer.get(verb, 0)
    plural = "" if count == 1 else "s"
    session.out.done(f"{what(session, queue)}: {count:,} message{plural} {verb}", **answer)
    refused = [f"{each['count']:,}: {each['reason']}" for each in answer["refused"].values()]
    if refused:
        raise CommandFailed(f"messages that stay where they are: {'; '.join(refused)}")
