"""``hareline deadletter``: dead messages to files, and from files or a queue back to work.

Invariant: a message is acknowledged after its file is on disk, and marked as done after a queue has
taken it, so a run that is broken off anywhere loses none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import MAXYEAR, UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from click import argument, option

from hareline.cli.amqp_client import Confirming, opened_channel
from hareline.cli.command import PATH, Command, Group, Session, client_command
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.deadletter.files import Dump, Marks, files_of, is_marked, marks_of, messages_of
from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences
from hareline.cli.messages import message_json, message_lines, messages_text, reader_arguments
from hareline.cli.migrate.exact_properties import exact_properties, properties_of_octets
from hareline.cli.output import Column, Display, Output, complain
from hareline.cli.queue import run_operation, what
from hareline.errors import MalformedFrame
from hareline.message import TRANSIENT, Address, made_message
from hareline.message.exported import ImportedMessage, exported
from hareline.octets import readable, with_texts
from hareline.queues.dead_letters.history import COPIES, first_death
from hareline.wire.properties import replace_headers
from hareline.wire.table import Array, Table

deadletter = Group("deadletter", help="Keep dead messages in files; send them again.")

_PREFETCH: Final = 16  # messages that may be large
_REASONS_MAX: Final = 5
_DELIVERY_COUNT: Final = "x-delivery-count"
_TIME_END_S: Final = int(datetime(MAXYEAR, 1, 1, tzinfo=UTC).timestamp())
_COLUMNS: Final = (
    Column("message", "message"),
    Column("reason", "reason"),
    Column("queue", "queue"),
    Column("time_ms", "time", "time_ms"),
    Column("octets", "octets", "octets"),
    Column("exchange", "exchange"),
    Column("routing_key", "routing-key"),
    Column("done", "done"),
)
_folder = argument("folder", type=PATH, metavar="DIR", help="Directory of the files.")


@client_command(deadletter)
@argument("queue", shell_complete=complete_queue, help="Queue of dead letters.")
@_folder
@option("--remove", is_flag=True, help="Take them from the queue once they are on disk.")
def dump(session: Session, queue: str, folder: Path, remove: bool) -> None:
    """Write the messages of a queue to a new file in a directory."""
    vhost = session.one_vhost
    with (
        exact_properties(),
        opened_channel(session.target, vhost, "hareline deadletter dump") as channel,
        closing(Dump(folder, {"vhost": vhost, "queue": readable(queue)})) as file,
    ):
        tag = 0  # of the last message that is not acknowledged
        found = _taken(channel, queue) if remove else _browsed(session, channel, queue)
        with Display(f"dumping {queue}", is_quick=True) as display:
            for each in found:
                if each is not None:
                    method, properties, body = each
                    file.add(_line_of(method, properties.octets, body))
                    display.show_count(file.count, None)
                    tag = method.delivery_tag
                if remove and tag and (each is None or file.is_full):
                    file.sync()
                    channel.basic_ack(tag, multiple=True)
                    tag = 0
        if file.count:
            file.end()
        if remove and tag:
            channel.basic_ack(tag, multiple=True)
    path = str(file.path) if file.count else None
    session.out.done(
        f"{path or what(session, queue)}: {messages_text(file.count)}",
        file=path,
        messages=file.count,
    )


def _taken(channel: Any, queue: str) -> Iterator[tuple[Any, Any, bytes] | None]:
    """Yield the messages that are there now, which the caller acknowledges.

    None: the rest may wait for that, since a group has one message out at a time.
    """
    method, properties, body = channel.basic_get(queue)
    left = 0 if method is None else method.message_count
    while method is not None:
        yield method, properties, body
        if not left:
            return
        left -= 1
        method, properties, body = channel.basic_get(queue)
        if method is None:
            yield None
            method, properties, body = channel.basic_get(queue)


def _browsed(session: Session, channel: Any, queue: str) -> Iterator[tuple[Any, Any, bytes] | None]:
    """Yield the messages that are there now; they stay."""
    arguments = reader_arguments(session, channel, queue, "first")
    channel.basic_qos(prefetch_count=_PREFETCH)
    for found in channel.consume(queue, arguments={**arguments, "x-filter-auto-close": True}):
        yield found
        channel.basic_ack(found[0].delivery_tag)


def _line_of(method: Any, octets: bytes, body: bytes) -> dict[str, Any]:
    """The line of a message, without what its last queue has added."""
    address = Address.of(_text(method.exchange), _text(method.routing_key))
    message = made_message(address, octets, body, 0, TRANSIENT)
    if method.redelivered:
        with suppress(MalformedFrame):
            message = message.without_header(_DELIVERY_COUNT)
    line = exported(message)
    del line["arrival_ms"]  # which AMQP does not tell
    return line


def _text(name: str | bytes) -> str:
    """A name as the broker has it; pika leaves one that is not UTF-8 as octets."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


@deadletter.command(cls=Command)
@_folder
@argument("message", required=False, help="Show this one whole: 1.17 is message 17 of file 1.")
@option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(folder: Path, message: str | None, as_json: bool) -> None:
    """List the messages in a directory, or show one whole.

    Reason, queue, exchange and routing key are those of the first death. Columns without a
    terminal: message, reason, queue, time, octets, exchange, routing-key, done.
    """
    with errors_as_sentences():
        out = Output(is_json=as_json)
        if message is None:
            out.table(_COLUMNS, _rows(folder))
            return
        found = _message_named(folder, message)
        method = SimpleNamespace(
            exchange=found.exchange, routing_key=found.routing_key, redelivered=False
        )
        whole: Any = with_texts(message_json(method, found.properties, found.body), readable)
        if as_json:
            out.json(whole)
            return
        for line in message_lines(whole):
            out.line(line)


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for file in files_of(folder):
        marks = marks_of(file)
        for number, message in messages_of(file):
            origin = origin_of(message)
            yield {
                "message": f"{file.stem}.{number}",
                "reason": readable(origin.reason),
                "queue": readable(origin.queue),
                "time_ms": origin.time_ms,
                "octets": len(message.body),
                "exchange": readable(origin.exchange),
                "routing_key": readable(origin.keys[0]),
                "done": is_marked(marks, number),
            }


def _message_named(folder: Path, name: str) -> ImportedMessage:
    for file in files_of(folder):
        if name.startswith(f"{file.stem}."):
            for number, message in messages_of(file):
                if name == f"{file.stem}.{number}":
                    return message
    raise CommandFailed(f"{folder}: has no message {name}", ExitStatus.NOT_FOUND)


class Origin(NamedTuple):
    """First death of a message; of one that has not died what it was last published with."""

    has_died: bool
    reason: str
    queue: str
    time_ms: int | None
    exchange: str
    keys: list[str]


def origin_of(message: ImportedMessage) -> Origin:
    """Read where a message died first. Any publisher may have written what says so."""
    headers = message.properties.headers or Table()
    death = first_death(headers)
    keys = None if death is None else death.get("routing-keys")
    keys = [each for each in keys if isinstance(each, str)] if isinstance(keys, list) else []
    if death is None or not keys:
        return Origin(False, "", "", None, message.exchange, [message.routing_key])
    time_s = death.get("time")
    if not isinstance(time_s, int) or not 0 <= time_s < _TIME_END_S:
        time_s = None
    facts = [death.get(field) for field in ("reason", "queue", "exchange")]
    reason, queue, exchange = (each if isinstance(each, str) else "" for each in facts)
    return Origin(True, reason, queue, None if time_s is None else time_s * 1000, exchange, keys)


@client_command(deadletter)
@_folder
@option(
    "--exchange",
    "-e",
    metavar="NAME",
    shell_complete=complete_exchange,
    help="Publish to it; by default to the one of the first death.",
)
@option("--routing-key", "-k", metavar="KEY", help="With --exchange: by this key alone.")
def replay(session: Session, folder: Path, exchange: str | None, routing_key: str | None) -> None:
    """Publish messages of a directory again, each once.

    Ends with status 1 if one was not taken; it stays, and the next run tries it again.
    """
    if routing_key is not None and exchange is None:
        raise CommandFailed("--routing-key goes with --exchange", ExitStatus.USAGE)
    files = files_of(folder)
    with (
        exact_properties(),
        opened_channel(session.target, session.one_vhost, "hareline deadletter replay") as channel,
        Display(f"replaying {folder}", is_quick=True) as display,
    ):
        work = _Replay(Confirming(channel, session.target.timeout_s), exchange, routing_key)
        try:
            for file in files:
                work.publish_file(file, display)
        except BaseException:
            if work.replayed:
                complain(f"{messages_text(work.replayed)} replayed before", style=None)
            raise
    kept = work.problems.total()
    before = f", {work.done_before:,} done before" if work.done_before else ""
    session.out.done(
        f"{folder}: {messages_text(work.replayed)} replayed{before}",
        replayed=work.replayed,
        done_before=work.done_before,
        kept=kept,
    )
    if kept:
        said = "; ".join(f"{count:,}: {why}" for why, count in work.problems.items())
        raise CommandFailed(f"messages that no queue has taken: {said}")


class _Replay:
    """Publishes the messages of files. ``problems``: reasons why messages stay, and of how many."""

    def __init__(self, out: Confirming, exchange: str | None, routing_key: str | None) -> None:
        self._out = out
        self._exchange = exchange
        self._routing_key = routing_key
        self.replayed = 0
        self.done_before = 0
        self.problems: Counter[str] = Counter()

    def publish_file(self, file: Path, display: Display) -> None:
        """Publish what is not done. Raises CommandFailed for a queue that takes no more."""
        with closing(Marks(file)) as marks:
            for number, message in messages_of(file):
                if number in marks:
                    self.done_before += 1
                    continue
                problem = self._problem_with(message, f"{file.stem}.{number}")
                if problem:
                    is_new = problem not in self.problems and len(self.problems) >= _REASONS_MAX
                    self.problems["other reasons" if is_new else problem] += 1
                    continue
                marks.add(number)
                self.replayed += 1
                display.show_count(self.replayed, None)

    def _problem_with(self, message: ImportedMessage, name: str) -> str:
        """Publish a message; the reason why no queue has it, or nothing. Raises CommandFailed."""
        from pika import exceptions

        origin = origin_of(message)
        if self._exchange is None and not origin.has_died:
            return "have not died, so --exchange has to say where they go"
        exchange = origin.exchange if self._exchange is None else self._exchange
        keys = origin.keys if self._routing_key is None else [self._routing_key]
        properties = properties_of_octets(_with_copies(message, keys[1:]))
        try:
            self._out.publish(_octets(exchange), _octets(keys[0]), message.body, properties)
        except exceptions.UnroutableError:
            return f"exchange '{exchange}' leads to no queue for routing key '{keys[0]}'"
        except exceptions.ChannelClosedByBroker as error:  # no such exchange, no right to it
            self._out.reopen()
            return str(error.reply_text)
        except exceptions.NackError:
            raise CommandFailed(
                f"the broker refused message {name}: a queue is full, or it cannot be stored"
            ) from None
        return ""


def _with_copies(message: ImportedMessage, keys: list[str]) -> bytes:
    """The properties with these further routing keys, and without others."""
    headers = Table(message.properties.headers or {})
    if headers.get(COPIES, []) == keys:
        return message.octets
    headers.pop(COPIES, None)
    if keys:
        headers[COPIES] = Array(keys)
    return replace_headers(message.octets, headers)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@client_command(deadletter)
@argument("queue", shell_complete=complete_queue, help="Queue of dead letters.")
def retry(session: Session, queue: str) -> None:
    """Send all dead letters of a queue back to where they died."""
    run_operation(session, queue, "retry", "retried", {"all": True})
