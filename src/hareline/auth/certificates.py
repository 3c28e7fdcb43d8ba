"""What a certificate says of its owner and of itself, read by ``cryptography``.

``net.tls`` reads the certificates of clients after the TLS handshake, and those that the broker
itself shows; SASL EXTERNAL finds the user's name in the former. Whether a certificate is to be
believed is not decided here: OpenSSL has checked it before.

``cryptography`` is imported by the first call, so that a broker without TLS does without it.
Invariant: any text in the record came from a certificate that could be parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509


class PeerCertificate(NamedTuple):
    """``subject`` and ``issuer`` are texts as in RFC 4514, ``serial`` is hexadecimal.

    ``common_name`` is empty for a subject without one; of several it is the most specific, the last
    in the certificate. Times are epoch milliseconds.
    """

    subject: str
    common_name: str
    dns_names: tuple[str, ...]
    email_addresses: tuple[str, ...]
    uris: tuple[str, ...]
    issuer: str
    serial: str
    not_after_ms: int
    not_before_ms: int = 0
    addresses: tuple[str, ...] = ()


def read_der(octets: bytes) -> PeerCertificate:
    """The facts of a certificate in DER. Raises ValueError for octets that are none."""
    from cryptography.x509 import load_der_x509_certificate

    return facts_of(load_der_x509_certificate(octets))


def read_pem(octets: bytes) -> list[PeerCertificate]:
    """The facts of all certificates in a file of PEM. Raises ValueError if it has none."""
    from cryptography.x509 import load_pem_x509_certificates

    return [facts_of(each) for each in load_pem_x509_certificates(octets)]


def facts_of(certificate: x509.Certificate) -> PeerCertificate:
    """The facts of a certificate that ``cryptography`` has parsed. Raises ValueError."""
    from cryptography.x509 import DNSName, IPAddress, RFC822Name, UniformResourceIdentifier
    from cryptography.x509.oid import NameOID

    names = _alternative_names(certificate)

    def of(kind: type[Any]) -> tuple[str, ...]:
        return tuple(str(each.value) for each in names if isinstance(each, kind))

    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return PeerCertificate(
        subject=certificate.subject.rfc4514_string(),
        common_name=str(common[-1].value) if common else "",
        dns_names=of(DNSName),
        email_addresses=of(RFC822Name),
        uris=of(UniformResourceIdentifier),
        issuer=certificate.issuer.rfc4514_string(),
        serial=f"{certificate.serial_number:x}",
        not_after_ms=int(certificate.not_valid_after_utc.timestamp() * 1000),
        not_before_ms=int(certificate.not_valid_before_utc.timestamp() * 1000),
        addresses=of(IPAddress),
    )


def _alternative_names(certificate: x509.Certificate) -> list[Any]:
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        return list(certificate.extensions.get_extension_for_class(SubjectAlternativeName).value)
    except ExtensionNotFound:
        return []
