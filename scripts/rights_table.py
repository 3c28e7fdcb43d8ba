"""Every operation with the rights that it needs: the one source of the table in docs/security.md.

``scripts.write_rights`` writes the page from it. ``tests/management/test_rights.py`` takes from it
what to try: each operation by users who have all of its rights but one, and by one who has these
and nothing else. Whoever adds a method of AMQP, or a route that changes or reads messages, adds a
row; both tests fail until it is there.

Invariant: an operation is refused without any one of its needs, and done with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from hareline.auth.permissions import Right

Kind = Literal["queue", "exchange", "topic"]
Way = Literal["AMQP", "HTTP"]

# What the names of needs stand for. The operation is asked for "the queue" or "the exchange".
QUEUE: Final = "the queue"
EXCHANGE: Final = "the exchange"
SOURCE: Final = "the source"
DESTINATION: Final = "the destination"
TARGET: Final = "where they go"
DEAD_LETTER_EXCHANGE: Final = "the dead-letter exchange"
ALTERNATE: Final = "the alternate"
ALTERNATE_QUEUE: Final = "`<queue>_DLQ`"
ARCHIVE: Final = "the stream"
DEFAULT_EXCHANGE: Final = "`amq.default`"
ROUTING_KEY: Final = "the routing key"
EACH_KEY: Final = "each routing key"
EVERY_KEY: Final = "every routing key"
GIVEN_NAME: Final = "the name it gets"


class Need(NamedTuple):
    """A right on something.

    ``kind`` topic: on keys of the exchange that the need before it names, by the user's topic
    permissions there if there are any.
    """

    right: Right
    kind: Kind
    name: str


class Operation(NamedTuple):
    """``name``: of the method, or of the route. ``variant``: what is special about it.

    ``tag``: which one HTTP asks for in addition; empty: none.
    """

    way: Way
    name: str
    needs: tuple[Need, ...] = ()
    variant: str = ""
    tag: str = ""

    @property
    def title(self) -> str:
        """What the operation is called in the table, once each."""
        return f"{self.name} {self.variant}".strip()


def configure_queue(name: str = QUEUE) -> Need:
    """The right to declare and delete it."""
    return Need("configure", "queue", name)


def read_queue(name: str = QUEUE) -> Need:
    """The right to take its messages."""
    return Need("read", "queue", name)


def write_queue(name: str = QUEUE) -> Need:
    """The right to bind it, or to have messages put there by its name."""
    return Need("write", "queue", name)


def configure(name: str = EXCHANGE) -> Need:
    """The right to declare and delete an exchange."""
    return Need("configure", "exchange", name)


def read(name: str = EXCHANGE) -> Need:
    """The right to bind something to an exchange."""
    return Need("read", "exchange", name)


def write(name: str = EXCHANGE) -> Need:
    """The right to publish to an exchange."""
    return Need("write", "exchange", name)


def write_key(name: str = ROUTING_KEY) -> Need:
    """The right to publish with a key to a topic exchange."""
    return Need("write", "topic", name)


def read_key(name: str = ROUTING_KEY) -> Need:
    """The right to bind with a key to a topic exchange."""
    return Need("read", "topic", name)


# ------------------------------------------------------------------------------------- over AMQP


def _amqp(name: str, *needs: Need, variant: str = "") -> Operation:
    return Operation("AMQP", name, needs, variant)


_OVER_AMQP: Final = (
    _amqp("exchange.declare", configure()),
    _amqp("exchange.declare", variant="passive"),
    *(
        _amqp(
            "exchange.declare",
            configure(),
            read(),
            read_key(EVERY_KEY),
            write(ALTERNATE),
            write_key(EVERY_KEY),
            variant=f"with `{argument}`",
        )
        for argument in ("alternate-exchange", "alternateExchange", "alternateBinding")
    ),
    _amqp(
        "exchange.declare",
        configure(),
        read(),
        read_key(EVERY_KEY),
        write_queue(ARCHIVE),
        variant="with `x-archive-to`",
    ),
    _amqp("exchange.delete", configure()),
    _amqp("exchange.bind", write(DESTINATION), write_key(EVERY_KEY), read(SOURCE), read_key()),
    _amqp("exchange.unbind", write(DESTINATION), read(SOURCE), read_key()),
    _amqp("exchange.bound"),
    _amqp("queue.declare", configure_queue()),
    _amqp("queue.declare", configure_queue(GIVEN_NAME), variant="without a name"),
    _amqp("queue.declare", variant="passive"),
    _amqp(
        "queue.declare",
        configure_queue(),
        read_queue(),
        write(DEAD_LETTER_EXCHANGE),
        write_key(EVERY_KEY),
        variant="with `x-dead-letter-exchange`",
    ),
    _amqp(
        "queue.declare",
        configure_queue(),
        read_queue(),
        write(DEAD_LETTER_EXCHANGE),
        write_key(),
        variant="with `x-dead-letter-exchange` and `x-dead-letter-routing-key`",
    ),
    *(
        _amqp(
            "queue.declare",
            configure_queue(),
            read_queue(),
            write(ALTERNATE),
            write_key(EVERY_KEY),
            variant=f"with `{argument}`",
        )
        for argument in ("alternateExchange", "alternateBinding")
    ),
    _amqp(
        "queue.declare",
        configure_queue(),
        read_queue(),
        configure_queue(ALTERNATE_QUEUE),
        write_queue(ALTERNATE_QUEUE),
        variant="with `x-dlq-auto`",
    ),
    _amqp(
        "queue.declare",
        configure_queue(),
        read_queue(),
        write_queue(ARCHIVE),
        variant="with `x-archive-to`",
    ),
    _amqp("queue.delete", configure_queue()),
    _amqp("queue.bind", write_queue(), read(), read_key()),
    _amqp("queue.unbind", write_queue(), read(), read_key()),
    _amqp("queue.purge", read_queue()),
    _amqp("basic.publish", write(), write_key()),
    _amqp("basic.publish", write(), write_key(EACH_KEY), variant="with `CC` or `BCC`"),
    _amqp("basic.publish", write(DEFAULT_EXCHANGE), variant="to a queue by its name"),
    _amqp("basic.publish", write(DEFAULT_EXCHANGE), variant="of a direct reply"),
    _amqp("basic.publish", write(), write_key(), variant="in a transaction"),
    _amqp("basic.consume", read_queue()),
    _amqp("basic.consume", variant="of direct replies"),
    _amqp("basic.get", read_queue()),
    *(
        _amqp(name)
        for name in (
            "basic.ack",
            "basic.nack",
            "basic.reject",
            "basic.recover",
            "basic.recover-async",
            "basic.cancel",
            "basic.qos",
            "channel.open",
            "channel.close",
            "channel.flow",
            "channel.flow-ok",
            "access.request",
            "confirm.select",
            "tx.select",
            "tx.commit",
            "tx.rollback",
        )
    ),
)


# ------------------------------------------------------------------------------------- over HTTP


def _http(name: str, *needs: Need, variant: str = "", tag: str = "management") -> Operation:
    return Operation("HTTP", name, needs, variant, tag)


_OF_QUEUE: Final = "/api/queues/{vhost}/{queue}"
_OF_EXCHANGE: Final = "/api/exchanges/{vhost}/{exchange}"
_OF_STREAM: Final = "/api/stream/{vhost}/{queue}"
_OF_POLICY: Final = "/api/policies/{vhost}/{name}"
_TO_QUEUE: Final = "/api/bindings/{vhost}/e/{source}/q/{destination}"
_TO_EXCHANGE: Final = "/api/bindings/{vhost}/e/{source}/e/{destination}"

_OVER_HTTP: Final = (
    _http(f"PUT {_OF_EXCHANGE}", configure()),
    _http(
        f"PUT {_OF_EXCHANGE}",
        configure(),
        read(),
        read_key(EVERY_KEY),
        write(ALTERNATE),
        write_key(EVERY_KEY),
        variant="with `alternate-exchange`",
    ),
    _http(f"DELETE {_OF_EXCHANGE}", configure()),
    _http(f"PUT {_OF_QUEUE}", configure_queue()),
    _http(
        f"PUT {_OF_QUEUE}",
        configure_queue(),
        read_queue(),
        write(DEAD_LETTER_EXCHANGE),
        write_key(EVERY_KEY),
        variant="with `x-dead-letter-exchange`",
    ),
    _http(f"PATCH {_OF_QUEUE}", configure_queue()),
    _http(
        f"PATCH {_OF_QUEUE}",
        configure_queue(),
        read_queue(),
        write(DEAD_LETTER_EXCHANGE),
        write_key(EVERY_KEY),
        variant="with `x-dead-letter-exchange`",
    ),
    _http(f"DELETE {_OF_QUEUE}", configure_queue()),
    _http(f"POST {_TO_QUEUE}", write_queue(DESTINATION), read(SOURCE), read_key()),
    _http(
        f"POST {_TO_EXCHANGE}",
        write(DESTINATION),
        write_key(EVERY_KEY),
        read(SOURCE),
        read_key(),
    ),
    _http(f"DELETE {_TO_QUEUE}/{{props}}", write_queue(DESTINATION), read(SOURCE), read_key()),
    _http(f"DELETE {_TO_EXCHANGE}/{{props}}", write(DESTINATION), read(SOURCE), read_key()),
    _http(f"POST {_OF_EXCHANGE}/publish", write(), write_key()),
    _http(
        f"POST {_OF_EXCHANGE}/publish",
        write(),
        write_key(EACH_KEY),
        variant="with `CC` or `BCC`",
    ),
    _http(f"POST {_OF_QUEUE}/get", read_queue()),
    _http(f"POST {_OF_QUEUE}/browse", read_queue()),
    _http(f"POST {_OF_QUEUE}/export", read_queue()),
    _http(f"POST {_OF_QUEUE}/import", write(DEFAULT_EXCHANGE)),
    *(
        operation
        for verb in ("move", "copy")
        for operation in (
            _http(
                f"POST {_OF_QUEUE}/{verb}",
                read_queue(),
                write(DEFAULT_EXCHANGE),
                variant="to a queue",
            ),
            _http(
                f"POST {_OF_QUEUE}/{verb}",
                read_queue(),
                write(TARGET),
                write_key(),
                variant="to an exchange",
            ),
        )
    ),
    _http(f"POST {_OF_QUEUE}/retry", read_queue(), write(DEFAULT_EXCHANGE)),
    _http(f"POST {_OF_QUEUE}/delete", read_queue()),
    _http(f"POST {_OF_QUEUE}/purge", read_queue()),
    _http(f"DELETE {_OF_QUEUE}/contents", read_queue()),
    _http(f"GET {_OF_QUEUE}/unacknowledged", read_queue()),
    _http(f"GET {_OF_QUEUE}/arguments", read_queue()),
    _http(f"POST {_OF_QUEUE}/pause", configure_queue()),
    _http(f"POST {_OF_QUEUE}/resume", configure_queue()),
    _http(f"GET {_OF_QUEUE}/groups", read_queue()),
    _http(f"POST {_OF_QUEUE}/groups/reset", configure_queue()),
    _http(f"GET {_OF_QUEUE}/held", read_queue()),
    _http(f"POST {_OF_QUEUE}/held/cancel", read_queue()),
    _http(f"POST {_OF_QUEUE}/held/fire", configure_queue()),
    _http(f"GET {_OF_QUEUE}/readers", read_queue()),
    _http(f"GET {_OF_EXCHANGE}/delayed", read()),
    _http(f"POST {_OF_EXCHANGE}/delayed/cancel", configure()),
    _http(f"POST {_OF_EXCHANGE}/delayed/fire", configure()),
    _http(
        f"PUT {_OF_POLICY}",
        read_queue(),
        write(DEAD_LETTER_EXCHANGE),
        write_key(EVERY_KEY),
        variant="with `dead-letter-exchange`",
        tag="policymaker",
    ),
    _http(
        f"PUT {_OF_POLICY}",
        read(),
        read_key(EVERY_KEY),
        write(ALTERNATE),
        write_key(EVERY_KEY),
        variant="with `alternate-exchange`",
        tag="policymaker",
    ),
    *(
        _http(f"{method} {_OF_STREAM}/{path}".rstrip("/"), read_queue(), tag="")
        for method, path in (
            ("GET", "tail"),
            ("GET", "offset-for-timestamp"),
            ("GET", "range"),
            ("GET", "readers"),
            ("GET", "readers/{reader}"),
            ("PUT", "readers/{reader}"),
            ("DELETE", "readers/{reader}"),
        )
    ),
)

OPERATIONS: Final[tuple[Operation, ...]] = (*_OVER_AMQP, *_OVER_HTTP)

#: Routes that change something and need a tag in place of rights on queues and exchanges. Those of
#: "management" are for what is the user's own; an administrator may end what others have open.
TAG_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{method} /api/{path}": tag
        for tag, routes in {
            "administrator": (
                "PUT DELETE users/{user}",
                "POST users/bulk-delete",
                "PUT DELETE user-limits/{user}/{limit}",
                "PUT DELETE permissions/{vhost}/{user}",
                "PUT DELETE topic-permissions/{vhost}/{user}",
                "DELETE topic-permissions/{vhost}/{user}/{exchange}",
                "PUT DELETE vhosts/{vhost}",
                "POST vhosts/{vhost}/start/{node}",
                "POST DELETE vhosts/{vhost}/deletion/protection",
                "PUT DELETE vhost-limits/{vhost}/{limit}",
                "PUT DELETE operator-policies/{vhost}/{name}",
                "PUT DELETE global-parameters/{name}",
                "POST definitions",
                "POST definitions/{vhost}",
                "POST all-configuration",
                "PUT cluster-name",
                "PUT feature-flags/{name}/enable",
                "POST rebalance/queues",
                "POST queues/{vhost}/{queue}/actions",
                "POST replay",
            ),
            "policymaker": (
                "PUT DELETE policies/{vhost}/{name}",
                "PUT DELETE parameters/{component}/{vhost}/{name}",
            ),
            "management": (
                "DELETE connections/{connection}",
                "DELETE connections/username/{user}",
                "DELETE consumers/{vhost}/{connection}/{channel}/{consumer}",
                "POST exchanges/{vhost}/{exchange}/route-test",
            ),
        }.items()
        for route in routes
        for *methods, path in (route.split(),)
        for method in methods
    }
)
