"""SASL mechanisms: the offered ones, and the user name and password in a response.

``amqp.handshake`` gives a response to ``decode``, or to an exchange of several steps where
``has_steps`` (SCRAM). PLAIN is RFC 4616, its authzid ignored; AMQPLAIN a field table without its
length; EXTERNAL and ANONYMOUS need none. No error text repeats a response: it has a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from hareline.auth import scram
from hareline.auth.backends import Credentials
from hareline.auth.certificates import EXTERNAL, ExternalLogin
from hareline.auth.peer import Peer
from hareline.errors import CommandInvalid, MalformedFrame
from hareline.wire.table import decode_table_body


def decode_plain(response: bytes) -> Credentials:
    """Credentials of a PLAIN response; MalformedFrame unless it has exactly two NULs."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise MalformedFrame("response <<...>> invalid")
    return Credentials(_text(parts[1]), _text(parts[2]))


def decode_amqplain(response: bytes) -> Credentials:
    """Credentials of an AMQPLAIN response; MalformedFrame unless it has the two long strings."""
    try:
        table = decode_table_body(response)
    except MalformedFrame:
        # the text of the table codec would name keys, and garbage may contain a password there
        raise MalformedFrame("response <<...>> invalid") from None
    if "LOGIN" not in table or "PASSWORD" not in table:
        raise MalformedFrame("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    login, password = table["LOGIN"], table["PASSWORD"]
    if not isinstance(login, str) or not isinstance(password, str):
        raise MalformedFrame("AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
    return Credentials(login, password)


MECHANISMS: Final[Mapping[str, Callable[[bytes], Credentials]]] = MappingProxyType(
    {"PLAIN": decode_plain, "AMQPLAIN": decode_amqplain}
)

ANONYMOUS: Final = "ANONYMOUS"

USUAL: Final = (*MECHANISMS, scram.MECHANISM)
"""What is offered unless the settings differ, in this order."""

KNOWN: Final = (*USUAL, EXTERNAL, ANONYMOUS)
"""Every mechanism."""


class MechanismRegistry:
    """The mechanisms that are switched on, in the order in which they are offered.

    ``anonymous_user``: who logs in by ANONYMOUS. ``needs_tls``: those that send a password are
    refused without TLS, except from this machine. ``by_certificate``: who a client is that logs in
    by EXTERNAL.
    """

    __slots__ = ("_enabled", "anonymous_user", "by_certificate", "needs_tls")

    def __init__(
        self,
        enabled: Iterable[str] = USUAL,
        by_certificate: ExternalLogin | None = None,
        *,
        anonymous_user: str = "",
        needs_tls: bool = False,
    ) -> None:
        """Raises ValueError for a name that is not in ``KNOWN``, or for an empty list."""
        self.anonymous_user = anonymous_user
        self.needs_tls = needs_tls
        self._enabled = tuple(dict.fromkeys(enabled))
        self.by_certificate = by_certificate or ExternalLogin()
        if not self._enabled:
            raise ValueError("no authentication mechanism is switched on")
        for name in self._enabled:
            if name not in KNOWN:
                raise ValueError(
                    f"unknown authentication mechanism '{name}' (known: {', '.join(KNOWN)})"
                )

    def offered(
        self,
        peer: Peer,
        *,
        is_scram_for_all: bool,
        is_scram_possible: bool = True,
        is_anonymous_welcome: bool = False,
    ) -> str:
        """The names of those that work for this peer, separated by spaces, for connection.start.

        SCRAM is left out while a user can log in by another mechanism but not by SCRAM, and
        EXTERNAL for a client without a certificate that stands for a user.
        ``is_scram_possible``: the broker's own users can log in. ``is_anonymous_welcome``: the user
        of ANONYMOUS exists and may come from there.
        """
        works = dict.fromkeys(MECHANISMS, self.takes_passwords(peer))
        works |= {scram.MECHANISM: is_scram_for_all, ANONYMOUS: is_anonymous_welcome}
        works[EXTERNAL] = bool(self.by_certificate.user_name(peer.certificate))
        names = [name for name in self._enabled if works[name]]
        if not names and is_scram_possible and scram.MECHANISM in self._enabled:
            names = [scram.MECHANISM]
        return " ".join(names)

    def takes_passwords(self, peer: Peer) -> bool:
        """True if this peer may send a password as it is."""
        return not self.needs_tls or peer.is_tls or peer.is_loopback

    def has_steps(self, name: str) -> bool:
        """True if the response to connection.start is only the first of an exchange.

        Raises CommandInvalid (503) for a mechanism that is unknown or switched off.
        """
        if name not in KNOWN:
            raise CommandInvalid(f"unknown authentication mechanism '{name}'")
        if name not in self._enabled:
            raise CommandInvalid(f"invalid authentication mechanism '{name}'")
        return name == scram.MECHANISM

    def decode(self, name: str, response: bytes, peer: Peer) -> Credentials:
        """Credentials of the response of a mechanism without further steps.

        By EXTERNAL the name is that of the peer's certificate, empty if it stands for no user.
        Raises MalformedFrame (502) for a response of the wrong layout, CommandInvalid (503) for a
        password that should not have been sent, and like ``has_steps``.
        """
        has_steps = self.has_steps(name)
        assert not has_steps
        if name == EXTERNAL:
            return Credentials(self.by_certificate.user_name(peer.certificate), None)
        if name == ANONYMOUS:
            return Credentials(self.anonymous_user, None)
        if not self.takes_passwords(peer):
            raise CommandInvalid(f"authentication mechanism '{name}' needs TLS")
        return MECHANISMS[name](response)


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
