"""Options of the ports, and of what the broker says it is."""

from __future__ import annotations

import socket

from pydantic import field_validator

from hareline.settings.section import Section, option
from hareline.settings.values import (
    BindAddress,
    EmptyOrShortString,
    NetworkList,
    Port,
    QpidProduct,
    ShortString,
)


class Listener(Section):
    """Where AMQP clients connect."""

    enabled: bool = option(
        True, "Whether this port, without TLS, is opened; [tls] and [[listeners]] have others."
    )
    bind: BindAddress = option(
        "127.0.0.1",
        "Address to listen on. Loopback unless told otherwise; 0.0.0.0 for every IPv4 "
        "interface, :: for every IPv6 interface.",
    )
    port: Port = option(5672, "TCP port for AMQP. 0 lets the system choose; the choice is logged.")
    backlog: int = option(
        1024, "Connections the system may hold ready for us to accept.", ge=1, le=65535
    )
    proxy_protocol_from: NetworkList = option(
        (),
        "Proxies whose connections begin with a header of the PROXY protocol, version 1 or 2, and "
        "are those of the client that it names. Connections from elsewhere begin without one.",
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
    proxy_protocol_from: NetworkList = option(
        (), "Proxies whose connections begin with a header of the PROXY protocol."
    )
    tls: bool = option(False, "Whether clients of this port speak TLS, as [tls] says.")


class Management(Section):
    """Where the HTTP interface listens."""

    enabled: bool = option(True, "Whether the HTTP interface is started at all.")
    http: bool = option(
        True, "Whether the port without TLS is opened; `tls.management_port` is the other one."
    )
    bind: BindAddress = option("127.0.0.1", "Address to listen on.")
    port: Port = option(15672, "TCP port for HTTP. 0 lets the system choose; the choice is logged.")
    sample_interval_s: float = option(
        5.0,
        "How often counters and depths are sampled, for rates and histories.",
        reload="live",
        ge=0.1,
        le=60,
    )
    proxy_protocol_from: NetworkList = option(
        (), "Proxies whose connections begin with a header of the PROXY protocol."
    )
    forwarded_by: NetworkList = option(
        (),
        "Reverse proxies that are believed when they name the client of a request in the header "
        "X-Forwarded-For, and its scheme in X-Forwarded-Proto: 127.0.0.1 for one on this machine.",
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
    tls: bool = option(False, "Whether that port has TLS, as [tls] says.")


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
