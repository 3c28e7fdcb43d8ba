"""Scopes of a token: ``RIGHT:VHOST/NAME``, ``RIGHT:VHOST/NAME/KEY`` and ``tag:TAG``.

They are RabbitMQ's; RIGHT is configure, write or read. ``*`` in the other parts stands for any
text, all else for itself, percent-encoded where need be; ``{vhost}`` stands for the virtual host,
``{sub}`` for that claim of the token. A scope of any other form permits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, get_args
from urllib.parse import quote, unquote_plus

from hareline.auth.permissions import Grants, Resource, Right

#: More scopes than any token needs; each may be looked at for each new name (RabbitMQ's limit).
SCOPES_MAX: Final = 2048

_TAG: Final = "tag:"
_RIGHTS: Final = frozenset(get_args(Right))
_BAD_NUL: Final = "%00"
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_VHOST: Final = "vhost"
#: Stands for ``{vhost}`` in a scope that was read; no scope of a token may have it.
VHOST_MARK: Final = "\0"


class Wildcard:
    """A pattern in which ``*`` stands for any text. Raises ValueError for a bad ``%``, or a NUL.

    ``VHOST_MARK`` in it stands for the virtual host that ``matches`` is given.
    """

    __slots__ = ("_is_marked", "_parts")

    def __init__(self, pattern: str) -> None:
        if _BAD_PERCENT.search(pattern):
            raise ValueError(f"'{pattern}' has a % without two hexadecimal digits")
        if _BAD_NUL in pattern:
            raise ValueError(f"'{pattern}' has a NUL, which no name has")
        self._parts = [unquote_plus(part, errors="surrogateescape") for part in pattern.split("*")]

        self._is_marked = VHOST_MARK in pattern

    def matches(self, text: str, vhost_name: str = "") -> bool:
        """True if the whole text fits; takes time in proportion to the text for each ``*``."""
        parts = self._parts
        if self._is_marked:
            parts = [part.replace(VHOST_MARK, vhost_name) for part in parts]
        first, *middle = parts
        if not middle:
            return text == first
        last = middle.pop()
        end = len(text) - len(last)
        place = len(first)
        if end < place or not (text.startswith(first) and text.endswith(last)):
            return False
        for part in middle:
            found = text.find(part, place, end)
            if found < 0:
                return False
            place = found + len(part)
        return True


class _Scope(NamedTuple):
    """One scope that permits something. ``routing_key`` None: it says nothing of topics."""

    right: str
    vhost: Wildcard
    name: Wildcard
    routing_key: Wildcard | None


class ScopeGrants(Grants):
    """Rights by the scopes of one token. ``scopes`` are without the prefix.

    ``claims``: those of the token that are text, for variables in scopes.
    """

    __slots__ = ("_here", "_scopes")

    never_pends = True

    def __init__(self, scopes: Iterable[str], claims: Mapping[str, str]) -> None:
        self._scopes = [
            read for scope in scopes if VHOST_MARK not in scope for read in _read(scope, claims)
        ]
        self._here: tuple[str, list[_Scope]] | None = None  # of the virtual host asked for last

    def enters(self, vhost_name: str) -> bool:
        return bool(self._in(vhost_name))

    def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
        return any(
            scope.right == right and scope.name.matches(name, vhost_name)
            for scope in self._in(vhost_name)
        )

    def allows_topic(self, vhost_name: str, right: Right, exchange: str, routing_key: str) -> bool:
        return any(
            scope.right == right
            and scope.routing_key is not None
            and scope.name.matches(exchange, vhost_name)
            and scope.routing_key.matches(routing_key, vhost_name)
            for scope in self._in(vhost_name)
        )

    def _in(self, vhost_name: str) -> list[_Scope]:
        """The scopes that say something of this virtual host."""
        if self._here is None or self._here[0] != vhost_name:
            found = [each for each in self._scopes if each.vhost.matches(vhost_name, vhost_name)]
            self._here = vhost_name, found
        return self._here[1]


def tags_of(scopes: Iterable[str]) -> frozenset[str]:
    """The tags that these scopes, without the prefix, give."""
    tags = (scope[len(_TAG) :] for scope in scopes if scope.startswith(_TAG))
    return frozenset(filter(None, tags))


def _filled(scope: str, claims: Mapping[str, str]) -> str:
    """The scope with its variables put in, and ``VHOST_MARK`` for the virtual host.

    A value stands for itself: a ``*`` or ``/`` in a claim, which the user may have chosen, widens
    no pattern. An unknown variable stands for its own name, as in RabbitMQ.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return VHOST_MARK if name == _VHOST else quote(claims.get(name, name), safe="")

    return _VARIABLE.sub(value, scope)


def _read(scope: str, claims: Mapping[str, str]) -> list[_Scope]:
    """Read a scope: one entry, or none if it is not of the form for permissions."""
    right, colon, pattern = _filled(scope, claims).partition(":")
    parts = pattern.split("/")
    if not colon or right not in _RIGHTS or len(parts) not in (2, 3):
        return []
    try:
        vhost, name, *keys = [Wildcard(part) for part in parts]
    except ValueError:
        return []
    return [_Scope(right, vhost, name, keys[0] if keys else None)]
