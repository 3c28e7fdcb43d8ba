"""Ordered access rules, as Broker-J has them: the first that matches an operation decides it.

The ``UserRegistry`` keeps them; an ``AccessChecker`` asks those that concern its user, virtual host
and network. If none matches, the user's permissions decide. A rule about routing keys never allows
an operation without one, or with any; nor does a pattern that takes too long for a name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from hareline.auth.peer import address_of
from hareline.errors import AccessRefused
from hareline.patterns import Pattern

RuleRight = Literal["access", "configure", "write", "read"]
RuleObject = Literal["vhost", "queue", "exchange"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Told of what a rule that logs has decided: its number, the user, the address, and a sentence.
LogDecision = Callable[[int, str, str, str], None]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Conditions of a rule; an empty one, or None, matches everything.

    Of ``users`` and ``tags`` one has to match.

    ``number``: its place in the list, from 1.
    """

    number: int
    is_allowed: bool
    is_logged: bool = False
    users: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    rights: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    vhosts: frozenset[str] = frozenset()
    name: Pattern | None = None
    routing_key: Pattern | None = None
    networks: tuple[Network, ...] = ()

    def concerns(self, user: str, tags: frozenset[str], vhost: str, host: str) -> bool:
        """True if it can match what this user does there, coming from this address."""
        if (self.users or self.tags) and user not in self.users and not self.tags & tags:
            return False
        if self.vhosts and vhost not in self.vhosts:
            return False
        return not self.networks or _is_in(host, self.networks)

    def matches(self, right: str, kind: str, name: str, routing_key: str | None) -> bool:
        """True if this operation is one that it decides.

        ``routing_key`` None: the operation has none, or concerns whatever keys there are.
        """
        if self.rights and right not in self.rights:
            return False
        if self.objects and kind not in self.objects:
            return False
        if self.name is not None and not self._is_found(self.name, name):
            return False
        if self.routing_key is None:
            return True
        if kind != "exchange":
            return False
        if routing_key is None:
            return not self.is_allowed
        return self._is_found(self.routing_key, routing_key)

    def _is_found(self, pattern: Pattern, name: str) -> bool:
        try:
            return pattern.is_in(name)
        except TimeoutError:
            return not self.is_allowed


class RulesOfUser:
    """The rules that concern one user in one virtual host, from one address."""

    __slots__ = ("_host", "_log", "_rules", "_user", "_vhost", "has_keys")

    def __init__(
        self, rules: tuple[AccessRule, ...], user: str, vhost: str, host: str, log: LogDecision
    ) -> None:
        self._rules = rules
        self._user = user
        self._vhost = vhost
        self._host = host
        self._log = log
        self.has_keys = any(each.routing_key is not None for each in rules)

    def decide(self, right: str, kind: str, name: str, routing_key: str | None = None) -> bool:
        """True: a rule allows it; False: none decides. Raises AccessRefused where one denies it."""
        for rule in self._rules:
            if rule.matches(right, kind, name, routing_key):
                break
        else:
            return False
        if kind == "vhost":
            what = f"access to vhost '{name}'"
        else:
            key = "" if routing_key is None else f" with routing key '{routing_key}'"
            what = f"{right} access to {kind} '{name}'{key} in vhost '{self._vhost}'"
        if rule.is_logged:
            outcome = "granted to" if rule.is_allowed else "refused for"
            self._log(rule.number, self._user, self._host, f"{what} {outcome}")
        if not rule.is_allowed:
            raise AccessRefused(f"{what} refused for user '{self._user}' by an access rule")
        return True


def _ignore(_number: int, _user: str, _host: str, _what: str) -> None:
    """A registry that no broker has made logs nothing."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """All rules, in their order."""

    rules: tuple[AccessRule, ...] = ()
    log: LogDecision = field(default=_ignore, compare=False)

    def of_user(self, user: str, tags: Iterable[str], vhost: str, host: str) -> RulesOfUser | None:
        """The rules that concern a user there; None: there is none."""
        if not self.rules:
            return None
        own = frozenset(tags)
        found = tuple(each for each in self.rules if each.concerns(user, own, vhost, host))
        return RulesOfUser(found, user, vhost, host, self.log) if found else None


NO_RULES: Final = AccessRules()


def _is_in(host: str, networks: tuple[Network, ...]) -> bool:
    """True if the address is in one of these networks; no address is in none of them."""
    address = address_of(host)
    return address is not None and any(address in each for each in networks)
