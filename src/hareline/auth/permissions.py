"""Rights of a user in a virtual host: three patterns, or the grants of another authority.

``amqp`` makes one ``AccessChecker`` per connection and asks it before each operation. Rules and
refusals are RabbitMQ's: a pattern is searched for unanchored, the empty one matches only the empty
name, and the default exchange is called ``amq.default``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, Protocol

from hareline.auth.access_rules import NO_RULES, AccessRules
from hareline.errors import AccessRefused, NotAllowed
from hareline.patterns import Pattern

Right = Literal["configure", "write", "read"]
Resource = Literal["queue", "exchange"]


class RightsPending(Exception):
    """An authority is being asked for a right. Raised before anything has changed.

    ``when_decided``: calls back once, on the event loop, when asking again will find the answer.
    ``again``: what is to be done then, where that is less than everything.
    """

    def __init__(self, when_decided: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("a right is being asked for")
        self.when_decided = when_decided
        self.again: Callable[[], None] | None = None


class Grants(ABC):
    """Each method may raise RightsPending, unless ``never_pends``."""

    __slots__ = ()

    never_pends = False

    @abstractmethod
    def enters(self, vhost_name: str) -> bool:
        """True if the user may open this virtual host."""

    @abstractmethod
    def allows(self, vhost_name: str, right: Right, resource: Resource, name: str) -> bool:
        """True if the user has this right on the queue or exchange."""

    @abstractmethod
    def allows_topic(self, vhost_name: str, right: Right, exchange: str, routing_key: str) -> bool:
        """True if the user may use this routing key with the topic exchange."""


# -------------------------------------------------------------------------------------- permissions


DECISIONS_MAX: Final = 256  # remembered grants per connection; names are the client's to choose
DEFAULT_EXCHANGE_NAME: Final = "amq.default"
_RIGHTS: Final[tuple[Right, ...]] = ("configure", "write", "read")
_EVERYTHING: Final = frozenset({".*", "^.*", "^.*$", ".*$"})


@dataclass(frozen=True, slots=True)
class Permissions:
    """One user's patterns in one virtual host. Raises ValueError naming a pattern that is bad.

    Patterns are regular expressions with ASCII classes; of the PCRE that RabbitMQ takes,
    possessive quantifiers, lookarounds and POSIX classes work too, ``\\Q...\\E`` does not. A name
    that takes too long is not allowed.
    """

    configure: str
    write: str
    read: str
    _compiled: Mapping[Right, Pattern] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compiled: dict[Right, Pattern] = {}
        for right in _RIGHTS:
            pattern: str = getattr(self, right)
            try:
                compiled[right] = compile_pattern(pattern)
            except ValueError as problem:
                raise ValueError(f"{right} pattern '{pattern}' {problem}") from None
        object.__setattr__(self, "_compiled", compiled)

    def allow(self, right: Right, name: str) -> bool:
        """True if the pattern of this right is found in the name."""
        return is_found(self._compiled[right], name)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """A pattern to search with. Raises ValueError ``is not a regular expression: ...``."""
    try:
        return Pattern(pattern or "^$", is_ascii=True)
    except ValueError as problem:
        raise ValueError(f"is not a regular expression: {problem}") from None


def is_found(pattern: Pattern, name: str) -> bool:
    """True if the pattern is found in the name, in time."""
    try:
        return pattern.is_in(name)
    except TimeoutError:
        return False


ALL_PERMISSIONS: Final = Permissions(".*", ".*", ".*")


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """One user's patterns for the routing keys of one topic exchange, as RabbitMQ has them.

    ``{username}`` and ``{vhost}`` in a pattern stand for the names of the user and the virtual
    host. Raises ValueError naming a pattern that is bad.
    """

    write: str
    read: str

    def __post_init__(self) -> None:
        for right, pattern in (("write", self.write), ("read", self.read)):
            try:
                compile_pattern(pattern)
            except ValueError as problem:
                raise ValueError(f"{right} pattern '{pattern}' {problem}") from None

    def pattern_for(self, right: Right, user_name: str, vhost_name: str) -> Pattern:
        """The pattern of a right, with the names put in."""
        pattern = self._text_of(right)
        pattern = pattern.replace("{username}", re.escape(user_name))
        return compile_pattern(pattern.replace("{vhost}", re.escape(vhost_name)))

    def allow_every_key(self, right: Right) -> bool:
        """True if the pattern of a right says in the plainest way that it bounds nothing."""
        return self._text_of(right) in _EVERYTHING

    def _text_of(self, right: Right) -> str:
        return self.write if right == "write" else self.read


class Holder(Protocol):
    """The part of a user that permissions need (``auth.users.User`` has it)."""

    @property
    def name(self) -> str: ...

    @property
    def tags(self) -> Collection[str]: ...

    @property
    def permissions(self) -> Mapping[str, Permissions]: ...

    @property
    def topic_permissions(self) -> Mapping[tuple[str, str], TopicPermissions]: ...

    @property
    def grants(self) -> Grants | None: ...


class AccessChecker:
    """The rights of one user in one virtual host, at the time when the checker was made.

    ``UserRegistry.checker`` makes them. ``amqp`` has a new one made when the users were read again,
    and for update-secret. ``host``: the address that the user comes from. ``asks_for_keys``: access
    rules look at routing keys, whatever the exchange. Raises NotAllowed (530) when made for a user
    who has no permissions in that virtual host, or whom a rule keeps out. Where another authority
    decides (``auth.permissions``) this and the checks may raise RightsPending.
    """

    __slots__ = (
        "_granted",
        "_grants",
        "_permissions",
        "_rules",
        "_topics",
        "asks_for_keys",
        "host",
        "rules",
        "user_name",
        "vhost_name",
    )

    def __init__(
        self, user: Holder, vhost_name: str, rules: AccessRules = NO_RULES, host: str = ""
    ) -> None:
        grants, permissions = user.grants, user.permissions.get(vhost_name)
        if permissions is None if grants is None else not grants.enters(vhost_name):
            raise NotAllowed(f"access to vhost '{vhost_name}' refused for user '{user.name}'")
        self._grants = grants
        self.host = host
        self.rules = rules
        self._rules = rules.of_user(user.name, frozenset(user.tags), vhost_name, host)
        self.asks_for_keys = self._rules is not None and self._rules.has_keys
        if self._rules is not None:
            try:
                self._rules.decide("access", "vhost", vhost_name)
            except AccessRefused as refused:
                raise NotAllowed(refused.explanation) from None
        self.user_name = user.name
        self.vhost_name = vhost_name
        self._permissions = permissions
        self._topics = user.topic_permissions
        # an idle connection decides nothing
        self._granted: set[tuple[Right, Resource, str]] | None = None

    def require(
        self, right: Right, resource: Resource, name: str, routing_key: str | None = None
    ) -> None:
        """Raise AccessRefused (403) unless the user has this right on the resource.

        ``routing_key``: of a publish or binding, where it is one; access rules may ask for it.
        """
        if not name and resource == "exchange":
            name = DEFAULT_EXCHANGE_NAME
        rules = self._rules
        if rules is not None and rules.decide(right, resource, name, routing_key):
            return
        decision = (right, resource, name)
        granted = self._granted
        if granted is not None and decision in granted:
            return
        if not self._allows(right, resource, name):
            raise AccessRefused(
                f"{right} access to {resource} '{name}' in vhost '{self.vhost_name}'"
                f" refused for user '{self.user_name}'"
            )
        if granted is None or len(granted) >= DECISIONS_MAX:
            granted = self._granted = set()
        granted.add(decision)

    def _allows(self, right: Right, resource: Resource, name: str) -> bool:
        if self._grants is not None:
            return self._grants.allows(self.vhost_name, right, resource, name)
        return self._permissions is not None and self._permissions.allow(right, name)

    def may(self, right: Right, resource: Resource, name: str) -> bool:
        """True where ``require`` raises nothing."""
        try:
            self.require(right, resource, name)
        except AccessRefused:
            return False
        return True

    def may_publish(self, exchange: str, keys: Iterable[str], *, is_topic: bool) -> bool:
        """True if the user may publish to the exchange with each of these routing keys."""
        try:
            given = list(keys)
            if not given:
                self.require("write", "exchange", exchange)
            for key in given:
                self.require("write", "exchange", exchange, key)
                if is_topic:
                    self.require_topic("write", exchange, key)
        except AccessRefused:
            return False
        return True

    @property
    def has_grants(self) -> bool:
        """True if another authority than this broker decides."""
        return self._grants is not None

    @property
    def may_pend(self) -> bool:
        """True if a check may raise RightsPending."""
        return self._grants is not None and not self._grants.never_pends

    def has_topics(self, exchange: str) -> bool:
        """True if topic permissions restrict the keys of this exchange for the user."""
        return self._grants is not None or (self.vhost_name, exchange) in self._topics

    def require_topic(self, right: Right, exchange: str, routing_key: str) -> None:
        """Raise AccessRefused (403) unless the user may use this key with this topic exchange.

        A user without topic permissions for the exchange may use any.
        """
        if not self._allows_topic(right, exchange, routing_key):
            raise AccessRefused(
                f"{right} access to topic '{routing_key}' in exchange '{exchange}' in vhost "
                f"'{self.vhost_name}' refused for user '{self.user_name}'"
            )

    def _allows_topic(self, right: Right, exchange: str, routing_key: str) -> bool:
        if self._grants is not None:
            return self._grants.allows_topic(self.vhost_name, right, exchange, routing_key)
        permissions = self._topics.get((self.vhost_name, exchange)) if self._topics else None
        if permissions is None:
            return True
        pattern = permissions.pattern_for(right, self.user_name, self.vhost_name)
        return is_found(pattern, routing_key)

    def require_every_topic(self, right: Right, exchange: str) -> None:
        """Raise AccessRefused (403) if the user may use only some keys with this exchange.

        For what lets messages through whatever their keys are: bindings between exchanges, and
        alternates. An exchange that is named there may become a topic exchange later, so its type
        does not matter. Another authority is asked for the key ``#``.
        """
        if self._grants is not None:
            self.require_topic(right, exchange, "#")
            return
        permissions = self._topics.get((self.vhost_name, exchange))
        if permissions is not None and not permissions.allow_every_key(right):
            raise AccessRefused(
                f"{right} access to all topics in exchange '{exchange}' in vhost "
                f"'{self.vhost_name}' refused for user '{self.user_name}'"
            )

    def __repr__(self) -> str:
        return f"<AccessChecker of {self.user_name!r} in {self.vhost_name!r}>"
