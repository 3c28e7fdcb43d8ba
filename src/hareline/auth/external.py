"""SASL EXTERNAL: which user a client is by its certificate.

``auth.mechanisms`` asks for the name, and offers EXTERNAL only where there is one. The certificate
was verified by the authorities of the settings (``net.tls``); what it says is believed.

Invariant: a certificate stands for one user or for none, whatever the client claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from hareline.auth.certificates import PeerCertificate
from hareline.patterns import Pattern

MECHANISM: Final = "EXTERNAL"

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
