"""Options of one access rule; ``hareline.auth.access_rules`` says how they work."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from hareline.settings.section import Section, option
from hareline.settings.values import InWords, PermissionPattern


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            ipaddress.ip_network(text)
        except ValueError as problem:
            raise PydanticCustomError(
                "network",
                "Input should be addresses and networks such as 10.0.0.0/8: {problem}",
                {"problem": str(problem)},
            ) from None
    return texts


Networks = Annotated[
    tuple[str, ...], AfterValidator(_networks), InWords("list of addresses and networks")
]


class AccessRule(Section):
    """The first rule that matches an operation decides it, before permissions are looked at.

    What is left empty matches everything.
    """

    rule: Literal["allow", "deny", "allow-log", "deny-log"] = option(
        ..., "What becomes of a matching operation, and whether the log says so.", reload="live"
    )
    users: tuple[str, ...] = option((), "Names of users.", reload="live")
    tags: tuple[str, ...] = option(
        (), "Tags, one of which a user has; with `users`, one of both matches.", reload="live"
    )
    rights: tuple[Literal["access", "configure", "write", "read"], ...] = option(
        (), "Rights that are asked for; `access` opens a virtual host.", reload="live"
    )
    objects: tuple[Literal["vhost", "queue", "exchange"], ...] = option(
        (), "Kinds of objects.", reload="live"
    )
    vhosts: tuple[str, ...] = option((), "Names of virtual hosts.", reload="live")
    name: PermissionPattern = option(
        "", "Pattern that is searched for in the object's name.", reload="live"
    )
    routing_key: PermissionPattern = option(
        "",
        "Pattern that is searched for in the routing key of a publish to an exchange, or of a "
        "binding to it.",
        reload="live",
    )
    from_networks: Networks = option(
        (), "Addresses and networks, such as 10.0.0.0/8, that the client comes from.", reload="live"
    )
