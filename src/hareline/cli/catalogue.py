"""All commands that are imported when they are run: name, place, and the line for the help.

``hareline.cli`` shows these lines without importing what is behind them, so that help is quick
however many commands there are. Invariant: a line here is the first line of the command's own help;
tests/unit/cli/test_catalogue.py checks it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """``place``: module below hareline, and the command or group in it."""

    name: str
    place: str
    summary: str


#: Heading of the help -> its commands, in the order in which users meet them.
CATALOGUE: Final[dict[str, tuple[Row, ...]]] = {
    "See a running broker": (
        Row(
            "status",
            "cli.status:status",
            "Show version, counts, rates, memory and disk of the broker.",
        ),
        Row(
            "health",
            "cli.status:health",
            "Check that the broker works; exit status 1 if it does not.",
        ),
        Row(
            "top",
            "cli.top.command:top",
            "Watch the busiest queues and connections; q ends it.",
        ),
        Row("queues", "cli.resources:queues", "See queues."),
        Row("streams", "cli.resources:streams", "See streams."),
        Row("exchanges", "cli.resources:exchanges", "See exchanges."),
        Row("bindings", "cli.resources:bindings", "See bindings."),
        Row("connections", "cli.resources:connections", "See connections."),
        Row("channels", "cli.resources:channels", "See channels."),
        Row("consumers", "cli.resources:consumers", "See consumers."),
    ),
    "Messages": (
        Row(
            "publish",
            "cli.publish:publish",
            "Publish messages, and wait until the broker confirms each.",
        ),
        Row(
            "get",
            "cli.get:get",
            "Take messages from a queue, and print them.",
        ),
        Row("tail", "cli.tail:tail", "Follow a queue or stream; nothing is taken."),
        Row("replay", "cli.replay:replay", "Put earlier messages into a queue again."),
    ),
    "Change a running broker": (
        Row(
            "queue",
            "cli.queue_messages:app",
            "Declare, delete and pause queues; browse and move messages.",
        ),
        Row("exchange", "cli.exchange:app", "Declare and delete exchanges."),
        Row("bind", "cli.exchange:bind", "Bind a queue or exchange to an exchange."),
        Row(
            "unbind",
            "cli.exchange:unbind",
            "Remove a binding, by its routing key and arguments.",
        ),
        Row("connection", "cli.connection:app", "Close connections."),
        Row("policy", "cli.policy:app", "List, set and clear policies."),
        Row("user", "cli.user:app", "List, add, change and delete users."),
        Row("vhost", "cli.vhost:app", "List, add, limit and delete virtual hosts."),
        Row("definitions", "cli.definitions:app", "Export and import what is declared."),
        Row(
            "migrate",
            "cli.migrate.command:migrate",
            "Move all from a running RabbitMQ to a Hareline.",
        ),
    ),
    "Test, mend and archive": (
        Row(
            "perf",
            "cli.perf.command:perf",
            "Put load on a broker, and measure rates and latencies.",
        ),
        Row(
            "doctor",
            "cli.doctor.command:doctor",
            "Say what is wrong with this installation, and what to do.",
        ),
        Row("tls", "cli.tls.command:app", "Make certificates for trying TLS."),
        Row(
            "journal", "cli.journal:app", "Read, check and repair the journal of a stopped broker."
        ),
        Row("spark", "cli.spark:app", "Archive streams, replay them, and report, by Spark."),
        Row(
            "completion",
            "cli.root:completion",
            "Print a script that completes commands and names in a shell.",
        ),
    ),
}
ROWS: Final[dict[str, Row]] = {row.name: row for rows in CATALOGUE.values() for row in rows}
