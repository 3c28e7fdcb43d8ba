"""Facts of certificates, and the users that they stand for in SASL EXTERNAL.

``net.tls`` reads those of clients after the handshake, where OpenSSL has verified them, and the
broker's own. ``cryptography`` is imported by the first call, so a broker without TLS has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from hareline.patterns import Pattern

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


# ------------------------------------------------------------------------ the user of a certificate


#: The SASL mechanism.
EXTERNAL: Final = "EXTERNAL"

NameField = Literal["common_name", "distinguished_name", "dns", "email", "uri"]


class NameRule(NamedTuple):
    """A name in certificates that ``pattern`` matches as a whole, and in time, stands for ``user``.

    ``user`` may quote groups of the pattern: ``\\1``.
    """

    pattern: str
    user: str


class ExternalLogin:
    """``field``: where the name stands. Without ``rules`` it is the user's; otherwise the first
    rule that matches says who it is, and a name that none matches is no user's.
    """

    __slots__ = ("_field", "_rules")

    def __init__(self, field: NameField = "common_name", rules: Iterable[NameRule] = ()) -> None:
        self._field = field
        self._rules = [(Pattern(rule.pattern), rule.user) for rule in rules]

    def user_name(self, certificate: PeerCertificate | None) -> str:
        """The user that the certificate stands for; empty: none."""
        name = "" if certificate is None else self._name_in(certificate)
        if not name or not self._rules:
            return name
        for pattern, user in self._rules:
            try:
                found = pattern.match_of(name)
            except TimeoutError:  # those behind it were not meant for this name, perhaps
                return ""
            if found is not None:
                return found.expand(user)
        return ""

    def _name_in(self, certificate: PeerCertificate) -> str:
        if self._field == "common_name":
            return certificate.common_name
        if self._field == "distinguished_name":
            return certificate.subject
        names: Sequence[str] = certificate.dns_names
        if self._field == "email":
            names = certificate.email_addresses
        elif self._field == "uri":
            names = certificate.uris
        return names[0] if names else ""
