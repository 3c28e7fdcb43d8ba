"""``hareline migrate``: copies the definitions of another broker, and moves its messages here.

The broker that it migrates to is the one that every command asks; that which it migrates from is
named by an argument, and its flags and variables are those of the others with ``source`` in front.
Invariant: the source is read before anything is changed, and nothing is ever deleted there but
messages that are durable here.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import click
from click import argument, option

from hareline.cli.changes import imported, notes_of
from hareline.cli.command import Session, client_command
from hareline.cli.completing import complete_target, complete_vhost
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, Refused, path_of
from hareline.cli.migrate.inventory import SourceQueue, left_in, queues_of
from hareline.cli.migrate.moving import PREFIX, move_all
from hareline.cli.output import Display, complain
from hareline.cli.target import Flags, Names, Target, read_target

SOURCE: Final = Names(
    url="SOURCE",
    amqp_url="--source-amqp-url",
    password_file="--source-password-file",
    ca_file="--source-ca-file",
    prefix="HARELINE_SOURCE_",
    has_default=False,
)
_HARELINE: Final = "Hareline"


@client_command(without=("vhost",))
@argument(
    "source",
    required=False,
    shell_complete=complete_target,
    help="The broker to copy from: http://HOST:15672, or a target of the client's file; "
    "HARELINE_SOURCE_URL.",
)
@option(
    "--source-amqp-url",
    metavar="URL",
    help="Its address for AMQP; by default the same host, port 5672.",
)
@option(
    "--source-user",
    metavar="NAME",
    help="Who logs in there; the password is HARELINE_SOURCE_PASSWORD.",
)
@option("--source-password-file", metavar="FILE", help="Its first line is that password.")
@option("--source-ca-file", metavar="FILE", help="Authorities for https and amqps there.")
@option(
    "--vhost",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_vhost,
    help="Only this virtual host; may be given again.",
)
@option("--no-definitions", is_flag=True, help="Leave out users, queues, policies and so on.")
@option("--no-messages", is_flag=True, help="Leave the messages where they are.")
@option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
def migrate(
    session: Session,
    source: str | None,
    vhost: tuple[str, ...],
    no_definitions: bool,
    no_messages: bool,
    dry_run: bool,
    **login: str | None,
) -> None:
    """Move all from a running RabbitMQ to a Hareline.

    From LavinMQ too, by what its HTTP API answers; no LavinMQ has been run in the tests.
    Stop its publishers and consumers first. A run that is broken off is continued by the same
    command. Exit status 1 if a queue could not be emptied.
    """
    flags = Flags(**{name.removeprefix("source_"): value for name, value in login.items()})
    end = source_of(source, flags)
    vhosts = tuple(vhost) or (() if end.vhost is None else (end.vhost,))
    try:
        with closing(Api(end)) as source_api:
            migration = Migration(session, end, source_api, vhosts)
            if dry_run:
                migration.show_plan(messages=not no_messages)
                return
            if not no_definitions:
                migration.copy_definitions()
            if not no_messages:
                migration.move_messages()
            migration.finish()
    except KeyboardInterrupt:
        complain("broken off; the same command goes on from here")
        raise click.exceptions.Exit(ExitStatus.INTERRUPTED) from None


def source_of(named: str | None, flags: Flags) -> Target:
    """The broker to copy from: a URL, a target of the client's file, or the variables' one.

    Raises CommandFailed.
    """
    if named is None and not any(
        os.environ.get(f"{SOURCE.prefix}{name}") for name in ("URL", "HTTP_URL", "TARGET")
    ):
        raise CommandFailed(
            "SOURCE: name the broker to copy from: http://HOST:15672, or a target of the client's "
            "file, or set HARELINE_SOURCE_URL",
            ExitStatus.USAGE,
        )
    if named is not None:
        flags = replace(flags, **({"url": named} if "://" in named else {"target": named}))
    try:
        end = read_target(flags, os.environ, SOURCE)
    except CommandFailed as error:
        if named is None or "://" in named:
            raise
        hint = "a URL begins with http:// or amqp://"
        raise CommandFailed(f"{error}; {hint}", error.status) from None
    return end.with_password(end.password())  # asked for once, before anything is done


class Migration:
    """A run of the command: what there is, what was done, and what is said of it."""

    def __init__(
        self, session: Session, source: Target, source_api: Api, vhosts: tuple[str, ...]
    ) -> None:
        """Raises CommandFailed if the source cannot be read or the target is not a Hareline."""
        self._out = session.out
        self._target_api = session.api
        self._target = session.target.with_password(session.target.password())
        self._source = source
        self._source_api = source_api
        self._vhosts = vhosts
        self._left_out: list[Any] = []
        self._report: dict[str, Any] = {}
        if str(source.http) == str(self._target.http):
            raise CommandFailed(
                f"{source.http}: is the source and the target; --url or --target names the target",
                ExitStatus.USAGE,
            )
        self._check_target()
        queues = queues_of(self._source_api, vhosts)
        self._refused = [each for each in queues if each.refusal]
        self._queues = [each for each in queues if not each.refusal]

    def show_plan(self, *, messages: bool) -> None:
        """Say what would be done."""
        waiting = [each for each in self._queues if each.messages and messages]
        total = sum(each.messages for each in waiting)
        if self._out.is_json:
            self._out.json(
                {
                    "queues": [_row(each, messages=each.messages) for each in waiting],
                    "not_moved": self._not_moved(),
                    "messages": total,
                }
            )
            return
        for each in waiting:
            verb = "copy" if each.is_stream else "move"
            self._out.line(f"would {verb} {_counted(each.messages)} of {each.label}")
        self._say_not_moved()
        places = (
            "1 queue or stream" if len(waiting) == 1 else f"{len(waiting):,} queues and streams"
        )
        self._out.line(f"{_counted(total)} in {places}")

    def copy_definitions(self) -> None:
        """Import here what is exported there, and say what was left out."""
        for vhost in self._vhosts or (None,):
            parts = ["definitions"] if vhost is None else ["definitions", vhost]
            definitions = self._source_api.get(path_of(*parts), what=f"vhost '{vhost}'")
            if vhost is not None:  # what is exported of a virtual host does not make it
                imported(self._target_api, None, {"vhosts": [{"name": vhost}]}, "definitions")
            report = imported(self._target_api, vhost, definitions, "definitions")
            self._left_out += (report or {}).get("left_out", [])
        if not self._out.is_json:
            for note in notes_of({"left_out": self._left_out}):
                self._out.line(f"definitions: {note}")
            self._out.line(f"definitions copied, {len(self._left_out)} items with a remark")
        self._report["left_out"] = self._left_out

    def move_messages(self) -> None:
        """Move the messages of queues and copy those of streams, with a bar on a terminal."""
        self._clear_up()
        total = sum(each.messages for each in self._queues)
        if not self._out.is_json:
            self._say_not_moved()
        with Display("moving messages") as display:
            results = move_all(
                self._queues,
                self._source,
                self._target,
                self._target_api,
                lambda moved: display.show_count(moved, max(total, moved)),
            )
        whole = [each.queue for each in results if not each.problem]
        is_changed = any(each.moved for each in results)
        left = left_in(self._source_api, whole, is_changed=is_changed)
        for each in results:
            if each.queue in left:
                each.problem = (
                    f"{_counted(left[each.queue])} still there: a client has them, or publishers "
                    "are at work"
                )
        moved = sum(each.moved for each in results)
        rows = [
            _row(each.queue, moved=each.moved, problem=each.problem)
            for each in results
            if each.moved or each.problem
        ]
        self._report |= {"queues": rows, "not_moved": self._not_moved(), "moved": moved}
        if not self._out.is_json:
            self._out.line(f"{_counted(moved)} moved")

    def finish(self) -> None:
        """Print the report for programs. Raises CommandFailed if a queue was not emptied."""
        if self._out.is_json:
            self._out.json(self._report)
        failed = [row for row in self._report.get("queues", ()) if row["problem"]]
        for row in failed:
            complain(f"{row['kind']} '{row['name']}' in vhost '{row['vhost']}': {row['problem']}")
        if failed:
            raise CommandFailed(f"{len(failed)} not moved as a whole; run the command again")

    def _clear_up(self) -> None:
        """Delete the exchanges here by which a run that was killed moved messages."""
        query = {"name": f"^{re.escape(PREFIX)}\\.", "use_regex": "true", "columns": "vhost,name"}
        for row in list(self._target_api.rows(path_of("exchanges"), query)):
            try:
                self._target_api.delete(path_of("exchanges", row["vhost"], row["name"]))
            except Refused as error:
                if error.status is not ExitStatus.NOT_FOUND:
                    raise

    def _check_target(self) -> None:
        """Raise CommandFailed if the target is another broker, perhaps the one to copy from."""
        overview = self._target_api.get(path_of("overview"))
        product = overview.get("product_name") if isinstance(overview, dict) else None
        if product != _HARELINE:
            raise CommandFailed(
                f"{self._target.http} is {product or 'another broker'}, which is not a Hareline; "
                "--url or --target names the broker to migrate to",
                ExitStatus.USAGE,
            )

    def _not_moved(self) -> list[dict[str, Any]]:
        return [
            _row(each, messages=each.messages, reason=each.refusal)
            for each in self._refused
            if each.messages
        ]

    def _say_not_moved(self) -> None:
        for each in self._refused:
            if each.messages:
                said = f"{_counted(each.messages)} of {each.label}: {each.refusal}"
                self._out.line(f"not moved: {said}")


def _row(queue: SourceQueue, **fields: Any) -> dict[str, Any]:
    kind = "stream" if queue.is_stream else "queue"
    return {"vhost": queue.vhost, "name": queue.name, "kind": kind, **fields}


def _counted(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
