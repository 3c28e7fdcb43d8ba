"""All commands that are imported when they are run: name, place, and the line for the help.

``hareline.cli`` shows these lines without importing what is behind them, so that help is quick
however many commands there are. Invariant: a line here is the first line of the command's own help;
tests/unit/commands/test_catalogue.py checks it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """``place``: module below hareline, and the Typer application or function in it."""

    name: str
    place: str
    summary: str


#: Heading of the help -> its commands, in the order in which users meet them.
CATALOGUE: Final[dict[str, tuple[Row, ...]]] = {
    "See a running broker": (
        Row(
            "status",
            "commands.status:status_app",
            "Show version, counts, rates, memory and disk of the broker.",
        ),
        Row(
            "health",
            "commands.status:health_app",
            "Check that the broker works; exit status 1 if it does not.",
        ),
        Row(
            "top",
            "commands.top.command:app",
            "Watch the busiest queues and connections; q ends it.",
        ),
        Row("queues", "commands.resources:queues", "See queues."),
        Row("streams", "commands.resources:streams", "See streams."),
        Row("exchanges", "commands.resources:exchanges", "See exchanges."),
        Row("bindings", "commands.resources:bindings", "See bindings."),
        Row("connections", "commands.resources:connections", "See connections."),
        Row("channels", "commands.resources:channels", "See channels."),
        Row("consumers", "commands.resources:consumers", "See consumers."),
    ),
    "Messages": (
        Row(
            "publish",
            "commands.publish:app",
            "Publish messages, and wait until the broker confirms each.",
        ),
        Row(
            "get",
            "commands.get:app",
            "Take messages from a queue, and print them.",
        ),
        Row("tail", "commands.tail:app", "Follow a queue or stream; nothing is taken."),
        Row("replay", "cli_replay:replay", "Put earlier messages into a queue again."),
    ),
    "Change a running broker": (
        Row(
            "queue",
            "commands.queue_messages:app",
            "Declare, delete and pause queues; browse and move messages.",
        ),
        Row("exchange", "commands.exchange:app", "Declare and delete exchanges."),
        Row("bind", "commands.exchange:bind_app", "Bind a queue or exchange to an exchange."),
        Row(
            "unbind",
            "commands.exchange:unbind_app",
            "Remove a binding, by its routing key and arguments.",
        ),
        Row("connection", "commands.connection:app", "Close connections."),
        Row("policy", "commands.policy:app", "List, set and clear policies."),
        Row("user", "commands.user:app", "List, add, change and delete users."),
        Row("vhost", "commands.vhost:app", "List, add, limit and delete virtual hosts."),
        Row("definitions", "commands.definitions:app", "Export and import what is declared."),
        Row(
            "migrate",
            "commands.migrate.command:app",
            "Move all from a running RabbitMQ to a Hareline.",
        ),
    ),
    "Test, mend and archive": (
        Row(
            "perf",
            "commands.perf.command:app",
            "Put load on a broker, and measure rates and latencies.",
        ),
        Row(
            "doctor",
            "commands.doctor.command:app",
            "Say what is wrong with this installation, and what to do.",
        ),
        Row("tls", "commands.tls.command:app", "Make certificates for trying TLS."),
        Row(
            "journal", "cli_journal:app", "Read, check and repair the journal of a stopped broker."
        ),
        Row("spark", "cli_spark:app", "Archive streams, replay them, and report, by Spark."),
        Row(
            "completion",
            "commands.completion:app",
            "Print a script that completes commands and names in a shell.",
        ),
    ),
}
ROWS: Final[dict[str, Row]] = {row.name: row for rows in CATALOGUE.values() for row in rows}
