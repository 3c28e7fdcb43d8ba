"""Options of the ports, of what the broker says it is, and of what one peer may ask of it."""

from __future__ import annotations

import socket
from typing import Final

from pydantic import field_validator

from hareline.settings.section import Section, option
from hareline.settings.values import (
    BindAddress,
    EmptyOrShortString,
    Octets,
    Port,
    QpidProduct,
    ShortString,
)

FRAME_MIN_BYTES: Final = 4096
MESSAGE_MAX_BYTES: Final = 536_870_912


class Listener(Section):
    """Where AMQP clients connect."""

    bind: BindAddress = option(
        "127.0.0.1",
        "Address to listen on. Loopback unless told otherwise; 0.0.0.0 for every IPv4 "
        "interface, :: for every IPv6 interface.",
    )
    port: Port = option(5672, "TCP port for AMQP. 0 lets the system choose; the choice is logged.")
    backlog: int = option(
        1024, "Connections the system may hold ready for us to accept.", ge=1, le=65535
    )


class FurtherListener(Section):
    """One more port for AMQP clients, for another network or with another product name."""

    bind: BindAddress = option("127.0.0.1", "Address to listen on.")
    port: Port = option(..., "TCP port. 0 lets the system choose; the choice is logged.")
    product: EmptyOrShortString = option(
        "",
        "Server property `product` for all clients that connect here, such as `qpid` for Qpid's "
        "JMS client. Empty: as on the first port, where it depends on the client's address.",
    )


class Management(Section):
    """Where the HTTP interface listens."""

    enabled: bool = option(True, "Whether the HTTP interface is started at all.")
    bind: BindAddress = option("127.0.0.1", "Address to listen on.")
    port: Port = option(15672, "TCP port for HTTP. 0 lets the system choose; the choice is logged.")
    sample_interval_s: float = option(
        5.0,
        "How often counters and depths are sampled, for rates and histories.",
        reload="live",
        ge=0.1,
        le=60,
    )
    login_failures_max: int = option(
        10,
        "Logins as one user that may fail from one address within a minute, and five times as "
        "many with all names; further ones are refused with 429. 0 means no limit.",
        reload="live",
        ge=0,
        le=1000,
    )


class Metrics(Section):
    """Whether Prometheus may ask for metrics, and where."""

    enabled: bool = option(
        True,
        "Whether `/metrics` is served on the management port, and times are measured for it.",
    )
    authentication: bool = option(
        False,
        "Whether a scrape needs a login, with the tag monitoring or administrator. As in RabbitMQ "
        "it needs none; the ports are on loopback unless told otherwise.",
        reload="live",
    )
    listener: bool = option(
        False,
        "Whether a port is opened for `/metrics` alone, where RabbitMQ's scrape jobs look for it.",
    )
    bind: BindAddress = option("127.0.0.1", "Address of that port.")
    port: Port = option(15692, "TCP port, where `listener` is on. 0 lets the system choose.")


class Events(Section):
    """The event exchange: what happens to the broker's objects, as messages."""

    vhost: EmptyOrShortString = option(
        "",
        "Virtual host that gets the exchange `amq.rabbitmq.event`, to which events of all virtual "
        "hosts are published. Who may read from it sees them all. Empty: there is none.",
    )


class Identity(Section):
    """What the broker says it is.

    Clients decide by product and version which features they use, so the defaults name the
    RabbitMQ release whose behaviour this broker follows. Its own name goes into further properties.
    """

    product: ShortString = option("RabbitMQ", "Server property `product`.")
    qpid_product: QpidProduct = option(
        "RabbitMQ (qpid)",
        "Server property `product` for addresses that Qpid's JMS client connects from: it uses "
        "ADDR destinations only where it contains `qpid`. Empty: all clients are told `product`.",
    )
    version: str = option(
        "4.2.0",
        "Server property `version`. Clients parse it as a semantic version.",
        pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$",
    )
    cluster_name: ShortString = option(
        "hareline@{hostname}",
        "Server property `cluster_name`. `{hostname}` stands for this machine's short name.",
    )

    @field_validator("cluster_name")
    @classmethod
    def _with_the_host_name(cls, value: str) -> str:
        return value.replace("{hostname}", socket.gethostname().partition(".")[0])


class Limits(Section):
    """What one peer may ask of the broker."""

    frame_max_bytes: Octets = option(
        131_072,
        "Largest frame that is offered to a client, header and end octet included.",
        reload="live",
        ge=FRAME_MIN_BYTES,
        le=134_217_728,
    )
    channel_max: int = option(
        2047, "Channels a connection may open.", reload="live", ge=1, le=65535
    )
    heartbeat_s: int = option(
        60,
        "Heartbeat interval that is offered to a client; the client decides. 0 offers none.",
        reload="live",
        ge=0,
        le=65535,
    )
    handshake_timeout_s: float = option(
        10.0,
        "A connection that is not open after this time is dropped.",
        reload="live",
        gt=0,
        le=3600,
    )
    max_message_bytes: Octets = option(
        134_217_728,
        "Largest message body; a larger one closes its channel.",
        reload="live",
        ge=1,
        le=MESSAGE_MAX_BYTES,
    )
    large_message_bytes: Octets = option(
        1_048_576,
        "A larger body is never held in memory as a whole: it is written to a file of its own as "
        "it comes, and read from there as it is delivered.",
        ge=65_536,
        le=MESSAGE_MAX_BYTES,
    )
    max_connections: int = option(
        0, "Open connections of the whole broker; 0 means no limit.", reload="live", ge=0
    )
    max_consumers_per_channel: int = option(
        0, "Consumers on one channel; 0 means no limit.", reload="live", ge=0
    )
    max_selectors_per_queue: int = option(
        16_384,
        "Different selectors that the consumers of one queue may have, each of which may be tested "
        "against each message; a long one, or one that searches texts with LIKE, counts as "
        "several. One more is refused with 406. 0 means no limit.",
        reload="live",
        ge=0,
    )
    write_buffer_high_bytes: Octets = option(
        262_144,
        "Octets that may wait for a client's socket before deliveries to it are suspended.",
        reload="live",
        ge=FRAME_MIN_BYTES,
    )
