"""Callers of the API: their tags, the virtual hosts they see, their rights by name.

The rules are RabbitMQ's:

=============  ===================================================================================
management     the virtual hosts that the user has permissions in, and its own connections
policymaker    as management, and policies and parameters there
monitoring     as management, and all virtual hosts, connections and nodes, for reading
administrator  as monitoring and policymaker, and users, permissions and virtual hosts
=============  ===================================================================================

Invariant: a caller finds no object of a virtual host that it does not see.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from hareline.auth.permissions import AccessChecker, Resource, Right
from hareline.auth.users import User
from hareline.broker.vhost import VirtualHost
from hareline.errors import NotAllowed
from hareline.management.api.answers import not_found
from hareline.management.refusals import Refusal

if TYPE_CHECKING:
    from hareline.management.api.site import Site

Tag = Literal["management", "policymaker", "monitoring", "administrator"]

#: What each tag of a user stands for.
IMPLIED: Final = MappingProxyType[str, frozenset[Tag]](
    {
        "management": frozenset({"management"}),
        "policymaker": frozenset({"management", "policymaker"}),
        "monitoring": frozenset({"management", "monitoring"}),
        "administrator": frozenset({"management", "policymaker", "monitoring", "administrator"}),
    }
)
_LACKING: Final = MappingProxyType[Tag, str](
    {
        "management": "Not management user",
        "policymaker": "Not policymaker user",
        "monitoring": "Not monitor user",
        "administrator": "Not administrator user",
    }
)


class Caller:
    """The user of one request. ``tags``: all that its tags stand for. ``host``: its address."""

    __slots__ = ("_checkers", "_site", "host", "tags", "user")

    def __init__(self, site: Site, user: User, host: str = "") -> None:
        self._site = site
        self.user = user
        self.host = host
        self.tags: frozenset[Tag] = frozenset().union(
            *(IMPLIED.get(tag, frozenset()) for tag in user.tags)
        )
        self._checkers: dict[str, AccessChecker] = {}

    @property
    def is_monitor(self) -> bool:
        """True if the user sees all virtual hosts and connections."""
        return "monitoring" in self.tags

    @property
    def is_administrator(self) -> bool:
        """True if the user may do everything."""
        return "administrator" in self.tags

    def require_tag(self, tag: Tag) -> None:
        """Raise Refusal (401) unless the user has this tag, or one that stands for it."""
        if tag not in self.tags:
            enough = ", ".join(name for name, implied in IMPLIED.items() if tag in implied)
            reason = f"{_LACKING[tag]}: user '{self.user.name}' has no tag of {enough}"
            raise Refusal(401, "not_authorised", reason)

    def sees(self, vhost_name: str) -> bool:
        """True if objects of this virtual host are shown to the user."""
        return self.is_monitor or self.user.enters(vhost_name)

    def exists(self, vhost_name: str) -> bool:
        """True if there is such a virtual host."""
        return vhost_name in self._site.vhosts

    def may_enter(self, vhost_name: str) -> bool:
        """True if the user has permissions in this virtual host."""
        return self.user.enters(vhost_name)

    def vhosts(self) -> list[VirtualHost]:
        """The virtual hosts that the user sees, by name."""
        vhosts = self._site.vhosts
        return [vhosts[name] for name in sorted(vhosts) if self.sees(name)]

    def vhost(self, name: str) -> VirtualHost:
        """A virtual host for reading. Raises Refusal: 404 if missing, 401 if it is not seen."""
        return self._found(name, self.sees)

    def enter(self, name: str) -> VirtualHost:
        """A virtual host to change something in. Raises Refusal like ``vhost``, and 401 if the
        user has no permissions there."""
        return self._found(name, self.may_enter)

    def may(self, right: Right, resource: Resource, vhost_name: str, name: str) -> bool:
        """True if AMQP would let the user do this to the resource of this name."""
        if not self.may_enter(vhost_name):
            return False
        try:
            return self._checker(vhost_name).may(right, resource, name)
        except NotAllowed:  # a rule keeps the user out
            return False

    def require(self, right: Right, resource: Resource, vhost_name: str, name: str) -> None:
        """Raise AccessRefused (or NotAllowed without any permissions) unless the user may."""
        self._checker(vhost_name).require(right, resource, name)

    def _checker(self, vhost_name: str) -> AccessChecker:
        checker = self._checkers.get(vhost_name)
        if checker is None:
            checker = self._site.users.checker(self.user, vhost_name, self.host)
            self._checkers[vhost_name] = checker
        return checker

    def _found(self, name: str, is_allowed: Callable[[str], bool]) -> VirtualHost:
        vhost = self._site.vhosts.get(name)
        if vhost is None:
            raise not_found()
        if not is_allowed(name):
            raise Refusal(401, "not_authorised", "User not authorised to access virtual host")
        return vhost

    def __repr__(self) -> str:
        return f"<Caller {self.user.name!r}>"
