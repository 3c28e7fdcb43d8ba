"""``hareline queue``: declare, delete, pause and resume queues.

``cli.queue_messages`` adds the commands on their messages. What only Hareline can do is asked
for with ``POST /api/queues/VHOST/NAME/OPERATION``. Invariant: a broker that does not know the
operation is said to be one, and is not mistaken for one that does not have the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from click import argument, option

from hareline.cli.command import Group, Session, client_command
from hareline.cli.completing import complete_queue
from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Refused, path_of
from hareline.cli.values import typed_pairs

app = Group("queue", help="Declare, delete and pause queues; browse and move messages.")

queue_name = argument("queue", shell_complete=complete_queue, help="The queue.")
_TYPES: Final = "x-queue-type"
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405


def what(session: Session, queue: str) -> str:
    """The queue, for a sentence."""
    return f"queue '{queue}' in vhost '{session.one_vhost}'"


@client_command(app)
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


@client_command(app)
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


@client_command(app)
@queue_name
def pause(session: Session, queue: str) -> None:
    """Stop deliveries until `resume`, also over a restart.

    Publishers go on, and the queue grows."""
    operate(session, queue, "pause", {})
    session.out.done(f"{what(session, queue)}: paused", paused=True)


@client_command(app)
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
    """Whether a 404 means the path: RabbitMQ says of a queue that is gone `Object Not Found`."""
    answer = error.answer if isinstance(error.answer, dict) else {}
    return error.code == _NOT_FOUND and answer.get("reason") == '"Not Found"\n'
