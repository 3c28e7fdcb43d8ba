"""All commands that are imported when they are run: name, place, and the line for the help.

``hareline.cli`` shows these lines without importing what is behind them, so that help is quick
however many commands there are. Invariant: a line here is the first line of the command's own help;
tests/unit/cli/test_catalogue.py checks it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """``module``: of `hareline.cli`, which has the command or group under its own name."""

    name: str
    module: str
    summary: str


#: Heading of the help -> its commands, in the order in which users meet them.
CATALOGUE: Final[dict[str, tuple[Row, ...]]] = {
    "See a running broker": (
        Row("status", "status", "Show version, counts, rates, memory and disk of the broker."),
        Row("health", "status", "Check that the broker works; exit status 1 if it does not."),
        Row("top", "top", "Watch the busiest queues and connections; q ends it."),
        Row("queues", "resources", "See queues."),
        Row("streams", "resources", "See streams."),
        Row("exchanges", "resources", "See exchanges."),
        Row("bindings", "resources", "See bindings."),
        Row("connections", "resources", "See connections."),
        Row("channels", "resources", "See channels."),
        Row("consumers", "resources", "See consumers."),
    ),
    "Messages": (
        Row("publish", "messages", "Publish messages, and wait until the broker confirms each."),
        Row("get", "messages", "Take messages from a queue, and print them."),
        Row("tail", "messages", "Follow a queue or stream; nothing is taken."),
        Row("replay", "replay", "Put earlier messages into a queue again."),
        Row("deadletter", "deadletter.command", "Keep dead messages in files; send them again."),
    ),
    "Change a running broker": (
        Row("queue", "queue", "Declare, delete and pause queues; browse and move messages."),
        Row("exchange", "changes", "Declare and delete exchanges; see delayed messages."),
        Row("bind", "changes", "Bind a queue or exchange to an exchange."),
        Row("unbind", "changes", "Remove a binding, by its routing key and arguments."),
        Row("connection", "changes", "Close connections."),
        Row("policy", "changes", "List, set and clear policies."),
        Row("user", "accounts", "List, add, change and delete users."),
        Row("vhost", "accounts", "List, add, limit and delete virtual hosts."),
        Row("definitions", "changes", "Export and import what is declared."),
        Row("migrate", "migrate.command", "Move all from a running RabbitMQ to a Hareline."),
    ),
    "Test, mend and archive": (
        Row("perf", "perf.command", "Put load on a broker, and measure rates and latencies."),
        Row("doctor", "doctor", "Say what is wrong with this installation, and what to do."),
        Row("tls", "tls.command", "Make certificates for trying TLS."),
        Row("journal", "journal", "Read, check and repair the journal of a stopped broker."),
        Row("spark", "spark", "Archive streams, replay them, and report, by Spark."),
        Row("completion", "root", "Print a script that completes commands and names in a shell."),
    ),
}
ROWS: Final[dict[str, Row]] = {row.name: row for rows in CATALOGUE.values() for row in rows}
