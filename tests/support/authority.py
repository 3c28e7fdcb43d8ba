"""Certificates of an authority of a test's own, as files.

``Files`` writes what ``hareline.cli.tls.authority`` makes. Invariant: each name is written
once, unless a test asks for the same name again, which replaces the files.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from hareline.cli.tls.authority import Authority, Issued

HOSTS = ("localhost", "127.0.0.1")


@dataclass
class Files:
    """``directory``: where they are. The authority's certificate is ``ca.pem``."""

    directory: Path
    authority: Authority = field(default_factory=lambda: Authority.new("authority of a test"))

    def __post_init__(self) -> None:
        self.write("ca", self.authority.own)

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def write(self, stem: str, issued: Issued) -> Path:
        """Write a certificate and its key; returns the path of the former."""
        (self.directory / f"{stem}.key").write_bytes(issued.key)
        path = self.directory / f"{stem}.pem"
        path.write_bytes(issued.certificate)
        return path

    def server(self, *hosts: str, stem: str = "server", days: float = 10) -> Path:
        """A certificate for these names, that ends in so many days."""
        starts = datetime.now(UTC) + timedelta(days=days) - timedelta(days=100)
        return self.write(stem, self.authority.for_server(hosts or HOSTS, 100, starts=starts))

    def client(self, name: str, *, email: str | None = None, uri: str | None = None) -> Path:
        """A certificate of a client."""
        return self.write(name, self.authority.for_client(name, 2, email=email, uri=uri))

    def revoke(self, *names: str, days: int = 1) -> Path:
        """The authority's list of revoked certificates, those of these clients, as ``crl.pem``."""
        now = datetime.now(UTC)
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.authority.certificate.subject)
            .last_update(now - timedelta(days=2))
            .next_update(now + timedelta(days=days))
        )
        for name in names:
            octets = Path(self.pair(name)[0]).read_bytes()
            serial = x509.load_pem_x509_certificate(octets).serial_number
            revoked = x509.RevokedCertificateBuilder(serial, now - timedelta(days=2)).build()
            made = made.add_revoked_certificate(revoked)
        signed = made.sign(self.authority.key, hashes.SHA256())
        path = self.directory / "crl.pem"
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return path

    def client_context(self, name: str | None = None) -> ssl.SSLContext:
        """For clients that trust the authority, and show the certificate of this name if given."""
        context = ssl.create_default_context(cafile=self.ca)
        if name is not None:
            context.load_cert_chain(*self.pair(name))
        return context

    def pair(self, stem: str) -> tuple[str, str]:
        """The paths of a certificate and its key, as text."""
        return str(self.directory / f"{stem}.pem"), str(self.directory / f"{stem}.key")

    def table(self, **more: object) -> dict[str, object]:
        """The table [tls] with the server's certificate, on ports that the system chooses."""
        certificate, key = self.pair("server")
        return {
            "certificate": certificate,
            "key": key,
            "port": 0,
            "management_port": 0,
            "check_interval_s": 0.05,
            **more,
        }
