"""An authority of one's own, which signs certificates of servers and clients.

``cli.tls.command`` keeps its files. Keys are of the curve P-256, which all clients take and
whose signatures cost a broker a tenth of those of RSA. Invariant: what an authority signs is for
servers or for clients, never for both, and may not sign further certificates.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: A clock that is behind ours by less takes the certificate at once.
_CLOCK_SKEW: Final = timedelta(hours=1)
AUTHORITY_DAYS: Final = 3650


class Issued(NamedTuple):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """``new`` makes one, ``load`` reads it back."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str, days: int = AUTHORITY_DAYS) -> Authority:
        """An authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        now = datetime.now(UTC)
        usage = _usage(sign=False, certificates=True)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Authority:
        """The authority of these files. Raises ValueError for others."""
        read = x509.load_pem_x509_certificate(certificate)
        loaded = serialization.load_pem_private_key(key, None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not of an elliptic curve")
        if loaded.public_key() != read.public_key():
            raise ValueError("the key does not belong to the certificate")
        return cls(read, loaded)

    def for_server(
        self, hosts: Sequence[str], days: int, *, starts: datetime | None = None
    ) -> Issued:
        """A certificate for these host names and addresses; the first one is its common name."""
        names = [_host(each) for each in hosts]
        return self._issue(hosts[0], names, ExtendedKeyUsageOID.SERVER_AUTH, days, starts)

    def for_client(
        self,
        name: str,
        days: int,
        *,
        email: str | None = None,
        uri: str | None = None,
        starts: datetime | None = None,
    ) -> Issued:
        """A certificate of a client, with its name as the common name and as a DNS name."""
        names: list[x509.GeneralName] = [x509.DNSName(name)] if _is_dns_name(name) else []
        if email is not None:
            names.append(x509.RFC822Name(email))
        if uri is not None:
            names.append(x509.UniformResourceIdentifier(uri))
        return self._issue(name, names, ExtendedKeyUsageOID.CLIENT_AUTH, days, starts)

    @property
    def own(self) -> Issued:
        """The authority's own certificate and key."""
        return Issued(self.certificate.public_bytes(serialization.Encoding.PEM), _pem(self.key))

    def _issue(
        self,
        common_name: str,
        names: Sequence[x509.GeneralName],
        purpose: x509.ObjectIdentifier,
        days: int,
        starts: datetime | None,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        start = starts or datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(common_name))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - _CLOCK_SKEW)
            .not_valid_after(start + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=True, certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(authority, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Issued(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _is_dns_name(text: str) -> bool:
    labels = text.split(".")
    return text.isascii() and all(
        label and label.replace("-", "").replace("_", "").isalnum() for label in labels
    )


def _usage(*, sign: bool, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
