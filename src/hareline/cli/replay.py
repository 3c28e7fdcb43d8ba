"""``hareline replay``: ask a running broker over HTTP to replay messages, and print the result.

Invariant: exit status 0 means that all matching messages are in the target queue; 1 that some were
not replayed, with the reason on standard error. Standard output has only the result.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import sys
from typing import Any, Final

import click
from click import option

from hareline.cli.command import Command, Whole
from hareline.cli.failures import ExitStatus, fail
from hareline.cli.output import console, say_error, visible

PASSWORD_VARIABLE: Final = "HARELINE_PASSWORD"
_NOT_OURS: Final = "the answer does not come from a broker"


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
    if not url.startswith(("http://", "https://")):
        fail(f"hareline: --url: '{url}' does not begin with http:// or https://")
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
    outcome, reason = _ask(f"{url.rstrip('/')}/api/replay", given, user, _password(user))
    if "replayed" in outcome:
        _show(outcome, queue, to_queue)
    if reason:
        fail(f"hareline: {reason}")
    if outcome["unreadable"]:
        raise click.exceptions.Exit(ExitStatus.FAILED)


def _ask(url: str, fields: dict[str, Any], user: str, password: str) -> tuple[dict[str, Any], str]:
    """The answer's fields, and the reason of a refusal, empty if there was none."""
    from http.client import HTTPException  # what is not needed to parse a command line
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = Request(
        url,
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "Authorization": f"Basic {login}"},
    )
    try:
        # No time limit, because a replay may take long. No proxy: this is between machines.
        with build_opener(ProxyHandler({})).open(request) as answer:
            outcome = _decoded(url, answer.read())
    except HTTPError as error:
        with error:
            refusal = _decoded(url, error.read())
        return refusal, str(refusal.get("reason", f"{url}: {error.code} {error.reason}"))
    except (URLError, HTTPException, OSError, ValueError) as error:  # the last for the URL
        said = getattr(error, "reason", error)
        fail(f"hareline: {url}: {getattr(said, 'strerror', None) or said}")
    if "replayed" not in outcome:
        fail(f"hareline: {url}: {_NOT_OURS}")
    return outcome, ""


def _decoded(url: str, octets: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(octets)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        fail(f"hareline: {url}: {_NOT_OURS}")
    return fields


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


def _password(user: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        return password
    if not _is_terminal():
        fail(f"hareline: no password: set {PASSWORD_VARIABLE}, or run this on a terminal")
    return getpass.getpass(f"Password of {user}: ")


def _is_terminal() -> bool:
    return sys.stdin.isatty()
