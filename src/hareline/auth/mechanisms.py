"""SASL mechanisms: which are offered, and how a response becomes user name and password.

``amqp.handshake`` offers ``MechanismRegistry.offered`` in connection.start and gives the response
of start-ok to ``decode``, or to an exchange of several steps where ``has_steps``. This module
does not check passwords (``auth.users`` does), and no error text repeats a response, because that
contains one.

=============  ==============================================================================
PLAIN          ``authzid NUL authcid NUL password`` (RFC 4616); authcid is the user, authzid is
               ignored
AMQPLAIN       the fields of a field table, without its length in front, with the long strings
               ``LOGIN`` and ``PASSWORD`` (what PLAIN meant in AMQP 0-8)
SCRAM-SHA-256  several steps, without the password: ``auth.scram``
=============  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from hareline.auth import scram
from hareline.auth.backends import Credentials
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

KNOWN: Final = (*MECHANISMS, scram.MECHANISM)
"""Every mechanism, in the order in which they are offered unless the settings differ."""


class MechanismRegistry:
    """The mechanisms that are switched on, in the order in which they are offered."""

    __slots__ = ("_enabled",)

    def __init__(self, enabled: Iterable[str] = KNOWN) -> None:
        """Raises ValueError for a name that is not in ``KNOWN``, or for an empty list."""
        self._enabled = tuple(dict.fromkeys(enabled))
        if not self._enabled:
            raise ValueError("no authentication mechanism is switched on")
        for name in self._enabled:
            if name not in KNOWN:
                raise ValueError(
                    f"unknown authentication mechanism '{name}' (known: {', '.join(KNOWN)})"
                )

    def offered(self, *, is_scram_for_all: bool) -> str:
        """The names as connection.start lists them, separated by spaces.

        SCRAM is left out while a user can log in by another mechanism but not by SCRAM.
        """
        names = [name for name in self._enabled if is_scram_for_all or name != scram.MECHANISM]
        return " ".join(names or self._enabled)

    def has_steps(self, name: str) -> bool:
        """True if the response to connection.start is only the first of an exchange.

        Raises CommandInvalid (503) for a mechanism that is unknown or switched off.
        """
        if name not in KNOWN:
            raise CommandInvalid(f"unknown authentication mechanism '{name}'")
        if name not in self._enabled:
            raise CommandInvalid(f"invalid authentication mechanism '{name}'")
        return name not in MECHANISMS

    def decode(self, name: str, response: bytes) -> Credentials:
        """Credentials of the response of a mechanism without further steps.

        Raises MalformedFrame (502) for a response of the wrong layout, and like ``has_steps``.
        """
        has_steps = self.has_steps(name)
        assert not has_steps
        return MECHANISMS[name](response)


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
