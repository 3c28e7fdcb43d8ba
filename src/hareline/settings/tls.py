"""Options of TLS: which certificates the broker shows, on which ports, and whom it lets connect.

Paths are texts here, where an empty one means "none"; ``net.tls`` reads the files. Invariant: what
needs another option to make sense is refused without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import model_validator
from pydantic_core import InitErrorDetails

from hareline.settings.problems import known_in, problem, refuse
from hareline.settings.section import Section, option
from hareline.settings.values import BindAddress, EmptyOrPath, Port

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
