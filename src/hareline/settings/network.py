"""Options of the ports, TLS and WebSocket included, and of the names that the broker gives itself.

Paths of certificates are texts here, where an empty one means "none"; ``net.tls`` reads the files.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from hareline.settings.section import Section, known_in, option, problem, refuse
from hareline.settings.values import (
    BindAddress,
    EmptyOrPath,
    EmptyOrShortString,
    InWords,
    NetworkList,
    Port,
    QpidProduct,
    ShortString,
)


class Listener(Section):
    """Ports for AMQP clients."""

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
    """Port of the HTTP interface."""

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
    """Metrics for Prometheus, and their port."""

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
    """Names that the broker gives itself.

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


# ---------------------------------------------------------------------------------------- WebSocket


EVERY_ORIGIN: Final = "*"
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+", re.ASCII)


def _origins(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value != EVERY_ORIGIN and _ORIGIN.fullmatch(value.lower()) is None:
            raise PydanticCustomError(
                "origin",
                "'{value}' should be an origin such as https://shop.example, or *",
                {"value": value},
            )
    return values


Origins = Annotated[
    tuple[str, ...], AfterValidator(_origins), InWords("list of origins such as https://a.example")
]


class WebSocket(Section):
    """AMQP over WebSocket, at /ws/amqp on the port of HTTP."""

    enabled: bool = option(True, "Whether clients may connect by WebSocket.")
    origins: Origins = option(
        (),
        "Sites whose pages may connect: scheme, host and port as a browser names them, such as "
        "https://shop.example; * for all. Programs and pages of the broker's own port always may.",
        reload="live",
    )


# ---------------------------------------------------------------------------------------------- TLS


ClientVerification = Literal["none", "optional", "required"]
TlsVersion = Literal["1.2", "1.3"]


class Tls(Section):
    """Ports with TLS. They are opened once `certificate` names a file, beside those without TLS,
    which `listener.enabled` and `management.http` close.
    """

    certificate: EmptyOrPath = option(
        "",
        "File with the certificate that the broker shows, in PEM; certificates of intermediate "
        "authorities follow it. Empty: no port has TLS.",
        reload="live",
    )
    key: EmptyOrPath = option(
        "",
        "File with its private key, in PEM. Empty: the key stands in the file of `certificate`.",
        reload="live",
    )
    key_password_file: EmptyOrPath = option(
        "",
        "File whose first line is the password of the private key. Empty: the key has none.",
        reload="live",
    )
    bind: BindAddress = option("127.0.0.1", "Address to listen on, of both ports.")
    amqp: bool = option(True, "Whether AMQP clients can connect with TLS, on `port`.")
    port: Port = option(5671, "TCP port for AMQP with TLS. 0 lets the system choose.")
    management: bool = option(
        True, "Whether the HTTP interface is served with TLS, on `management_port`."
    )
    management_port: Port = option(15671, "TCP port for HTTPS. 0 lets the system choose.")
    client_authorities: EmptyOrPath = option(
        "",
        "File with the authorities, in PEM, whose certificates are accepted from clients.",
        reload="live",
    )
    client_revocations: EmptyOrPath = option(
        "",
        "File with the revocation lists (CRLs), in PEM, of each authority that signs certificates "
        "of clients. A certificate on its authority's list is refused, and so is any where the "
        "list is missing or has expired. Empty: no certificate counts as revoked.",
        reload="live",
    )
    verify_clients: ClientVerification = option(
        "none",
        "Whether AMQP clients show a certificate. `optional`: one that is shown must be valid. "
        "`required`: a client without one cannot connect.",
        reload="live",
    )
    verify_http_clients: ClientVerification = option(
        "none", "The same for clients of the HTTP interface.", reload="live"
    )
    min_version: TlsVersion = option(
        "1.2", "Oldest version of TLS that a client may use.", reload="live"
    )
    ciphers: str = option(
        "ECDHE+AESGCM:ECDHE+CHACHA20",
        "Suites for TLS 1.2, as OpenSSL writes them (`openssl ciphers`); TLS 1.3 has its own, all "
        "of them strong.",
        reload="live",
        min_length=1,
    )
    check_interval_s: float = option(
        10.0,
        "How often the files are looked at; changed ones are used for connections made from then "
        "on.",
        reload="live",
        gt=0,
        le=86_400,
    )
    expiry_warning_days: int = option(
        30,
        "A certificate that expires within so many days is named in the log, once a day.",
        reload="live",
        ge=0,
        le=3650,
    )

    @property
    def is_on(self) -> bool:
        """True if the broker has a certificate to show."""
        return bool(self.certificate)

    @model_validator(mode="after")
    def _is_complete(self) -> Tls:
        refuse(tls_problems(self))
        return self


class TlsCertificate(Section):
    """A further certificate, for clients that ask for one of its host names (SNI)."""

    certificate: EmptyOrPath = option(
        ..., "File with the certificate, as `tls.certificate`.", reload="live", min_length=1
    )
    key: EmptyOrPath = option("", "File with its private key, as `tls.key`.", reload="live")
    key_password_file: EmptyOrPath = option("", "As `tls.key_password_file`.", reload="live")


def tls_problems(tls: object) -> Iterator[InitErrorDetails]:
    """Options that need another one, in [tls]."""
    certificate = known_in(Tls, tls, "certificate", str)
    if certificate == "":
        for key in ("key", "key_password_file", "client_authorities"):
            if known_in(Tls, tls, key, str):
                message = "certificate should be given as well: without it no port has TLS"
                yield problem((key,), message)
    if known_in(Tls, tls, "client_authorities", str) == "":
        for key in ("verify_clients", "verify_http_clients"):
            wanted = known_in(Tls, tls, key, str)
            if wanted in ("optional", "required"):
                message = (
                    "client_authorities should be given where clients are verified, "
                    "or no certificate is accepted"
                )
                yield problem((key,), message)
        if known_in(Tls, tls, "client_revocations", str):
            message = "client_authorities should be given as well: it signs what is revoked"
            yield problem(("client_revocations",), message)
