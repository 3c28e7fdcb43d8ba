"""``hareline queue``: declare, delete, pause and resume queues.

``cli.queue_messages`` adds the commands on their messages. What only Hareline can do is asked
for with ``POST /api/queues/VHOST/NAME/OPERATION``. Invariant: a broker that does not know the
operation is said to be one, and is not mistaken for one that does not have the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from hareline.cli.client_command import Session, client_command
from hareline.cli.completing import complete_queue
from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Refused, path_of
from hareline.cli.lean import new_group
from hareline.cli.values import typed_pairs

app = new_group("queue", "Declare, delete and pause queues; browse and move messages.")

QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=complete_queue)
]
_TYPES: Final = "x-queue-type"
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405


def what(session: Session, queue: str) -> str:
    """The queue, for a sentence."""
    return f"queue '{queue}' in vhost '{session.one_vhost}'"


@client_command(app)
def declare(
    session: Session,
    queue: QueueName,
    kind: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="classic, quorum, stream.", show_default=False),
    ] = None,
    durable: Annotated[
        bool, typer.Option("--durable/--transient", help="Kept over a restart, or gone after it.")
    ] = True,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last consumer.")
    ] = False,
    argument: Annotated[
        list[str],
        typer.Option(
            "--argument",
            "-a",
            metavar="NAME=VALUE",
            help="An argument, as x-max-length=100, its value as JSON or text; may be given again.",
        ),
    ] = [],  # noqa: B006 - Typer makes a new one for each run
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


@client_command(app)
def delete(
    session: Session,
    queue: QueueName,
    if_empty: Annotated[
        bool, typer.Option("--if-empty", help="Only if it has no messages.")
    ] = False,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Only if it has no consumers.")
    ] = False,
) -> None:
    """Delete a queue with its messages and bindings."""
    conditions = {"if-empty": if_empty, "if-unused": if_unused}
    query = {name: "true" for name, is_asked in conditions.items() if is_asked}
    path = path_of("queues", session.one_vhost, queue)
    session.api.delete(path, query, what=what(session, queue))
    session.out.done(f"{what(session, queue)}: deleted", deleted=queue)


@client_command(app)
def pause(session: Session, queue: QueueName) -> None:
    """Stop deliveries until `resume`, also over a restart.

    Publishers go on, and the queue grows."""
    operate(session, queue, "pause", {})
    session.out.done(f"{what(session, queue)}: paused", paused=True)


@client_command(app)
def resume(session: Session, queue: QueueName) -> None:
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
    """Whether a 404 means the path: RabbitMQ says of a queue that is gone `Object Not Found`."""
    answer = error.answer if isinstance(error.answer, dict) else {}
    return error.code == _NOT_FOUND and answer.get("reason") == '"Not Found"\n'
