"""``hareline replay``: ask a running broker over HTTP to replay messages, and print the result.

Invariant: exit status 0 means that all matching messages are in the target queue; 1 that some were
not replayed, with the reason on standard error. Standard output has only the result.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click
from click import option
from click.exceptions import Exit

from hareline.cli.command import Command, Whole
from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences
from hareline.cli.http_client import Api, Refused, Unreachable
from hareline.cli.output import console, say_error, visible
from hareline.cli.target import asked_password, target_at


@click.command(cls=Command)
@option(
    "--queue",
    metavar="NAME",
    required=True,
    help="Queue whose messages are replayed; may be deleted.",
)
@option("--to-queue", metavar="NAME", required=True, help="Queue that gets them. It must exist.")
@option(
    "--from",
    "from_instant",
    metavar="TIME",
    required=True,
    help="First arrival: ISO 8601 with a zone (2026-01-05T10:00:00Z), or epoch milliseconds.",
)
@option("--to", "to_instant", metavar="TIME", required=True, help="Arrivals before this instant.")
@option("--vhost", metavar="NAME", default="/", help="Virtual host of both queues.")
@option("--exchange", metavar="NAME", help='Only messages published to it; "" is the default one.')
@option("--routing-key", metavar="KEY", help="Only messages published with this key.")
@option("--selector", metavar="TEXT", help="Only messages that this JMS selector matches.")
@option("--limit", type=Whole(1), help="At most this many, the oldest.")
@option(
    "--url",
    metavar="URL",
    default="http://127.0.0.1:15672",
    help="Address of the broker's management port.",
)
@option("--user", metavar="NAME", default="guest", help="A user with the tag administrator.")
def replay(
    queue: str,
    to_queue: str,
    from_instant: str,
    to_instant: str,
    vhost: str,
    exchange: str | None,
    routing_key: str | None,
    selector: str | None,
    limit: int | None,
    url: str,
    user: str,
) -> None:
    """Put earlier messages into a queue again.

    Asks a running broker, whose journal must have kept them: journal.retention_age_s,
    journal.retention_bytes. The password comes from the environment's HARELINE_PASSWORD, or is
    asked for on a terminal.
    """
    fields = {
        "vhost": vhost,
        "queue": queue,
        "to_queue": to_queue,
        "from": from_instant,
        "to": to_instant,
        "exchange": exchange,
        "routing_key": routing_key,
        "selector": selector,
        "limit": limit,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    with errors_as_sentences():
        outcome, reason = _ask(url, given, user)
        if "replayed" in outcome:
            _show(outcome, queue, to_queue)
        if reason:
            raise CommandFailed(reason)
        if outcome["unreadable"]:
            raise Exit(ExitStatus.FAILED)


def _ask(url: str, fields: dict[str, Any], user: str) -> tuple[dict[str, Any], str]:
    """The answer's fields, and the reason of a refusal, empty if there was none."""
    if not url.startswith(("http://", "https://")):
        raise CommandFailed(f"--url: '{url}' does not begin with http:// or https://")
    where, reason = f"{url.rstrip('/')}/api/replay", ""
    password = asked_password(user)
    try:
        target = target_at(url, user, password)
    except CommandFailed as error:
        raise CommandFailed(f"{where}: {error}") from None
    try:
        with closing(Api(target)) as api:  # without a time limit, because a replay may take long
            outcome = api.post("/replay", fields, is_long=True)
    except Refused as error:
        from http.client import responses

        outcome = error.answer
        reason = f"{where}: {error.code} {responses.get(error.code, '')}"
    except Unreachable as error:
        raise CommandFailed(f"{where}: {error.said}") from None
    if not isinstance(outcome, dict) or not (reason or "replayed" in outcome):
        raise CommandFailed(f"{where}: the answer does not come from a broker")
    return outcome, reason and str(outcome.get("reason", reason))


def _show(outcome: dict[str, Any], queue: str, to_queue: str) -> None:
    count = outcome["replayed"]
    line = f"replayed {count} message{'' if count == 1 else 's'} of '{queue}' into '{to_queue}'"
    if count:
        line += f", which arrived from {outcome['first']} to {outcome['last']}"
    console().print(visible(line))
    for problem in outcome["problems"]:
        say_error(f"hareline: {problem}")
    if outcome["unreadable"]:
        say_error(f"hareline: messages that could not be read: {outcome['unreadable']}")
