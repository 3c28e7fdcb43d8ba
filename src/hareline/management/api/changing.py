"""Common parts of routes that change something: rights of the caller, the queue, durability.

Called by ``topology_changes``, ``publishing``, ``messages`` and ``queue_operations``. A request
stands for a connection of its user that has opened the virtual host: it finds, may do and is
refused what AMQP would refuse, and no queue that a connection has exclusively is its own.

Invariant: an answer that says "done" comes after what was done is durable.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request

from hareline.amqp.internal_events import acting
from hareline.auth.access_rules import AccessRules
from hareline.auth.permissions import AccessChecker, Resource, Right
from hareline.auth.users import INTERNAL, User
from hareline.broker.change_recorder import Doer
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost, audit_only
from hareline.errors import AccessRefused, StoreError
from hareline.management.api.access import Caller, caller, doer_over_http
from hareline.management.api.answers import not_found
from hareline.management.api.site import Site
from hareline.management.bodies import BODY_MAX_BYTES, read_body
from hareline.management.paths import exchange_name, name_in_path
from hareline.management.refusals import Refusal
from hareline.management.settling import WhenSettled, settled
from hareline.queues.queue import Queue

NAME_MAX_OCTETS: Final = 255


@dataclass(slots=True)
class Entered:
    """A user in a virtual host that it may enter.

    ``needed``: rights that ``require`` found. ``rules``: access rules by which they were found.
    """

    site: Site
    user: User
    vhost: VirtualHost
    access: AccessChecker
    doer: Doer
    needed: set[tuple[Right, Resource, str]] = field(default_factory=set)
    rules: AccessRules = field(init=False)

    def __post_init__(self) -> None:
        self.rules = self.site.users.rules

    def require(self, right: Right, resource: Resource, name: str) -> None:
        """Raise AccessRefused unless the user has this right, now and at each ``renew``."""
        self.access.require(right, resource, name)
        self.needed.add((right, resource, name))

    def renew(self) -> None:
        """Go by the user as it is now; for what takes long, before each of its shares.

        Raises Refusal if the virtual host is gone or the user may not enter it any more, and
        AccessRefused if it has lost a right that was needed.
        """
        name = self.vhost.name
        if self.site.vhosts.get(name) is not self.vhost:
            raise not_found(f"vhost '{name}' is deleted")
        user: User | None = self.user
        rules = self.site.users.rules
        if self.user.backend != INTERNAL:  # what a token says holds for the request
            self._check_expiry()
        else:
            user = self.site.users.lookup(self.user.name)
        if user is self.user and rules is self.rules:
            return
        if user is None:
            raise Refusal(401, "not_authorised", f"user '{self.user.name}' is deleted")
        who = Caller(self.site, user, self.access.host)
        who.require_tag("management")
        who.enter(name)
        access = self.site.users.checker(user, name, self.access.host)
        for right in self.needed:
            access.require(*right)
        self.user, self.access, self.rules = user, access, rules

    def _check_expiry(self) -> None:
        """Raise Refusal if the login, which another backend has granted, has ended."""
        clock = self.site.context.clock
        clock.refresh()
        if self.user.expires_ms is not None and self.user.expires_ms <= clock.now_ms:
            reason = f"the token of user '{self.user.name}' has expired"
            raise Refusal(401, "not_authorised", reason)

    def acting(self) -> AbstractContextManager[None]:
        """What happens within it is done by this user. It must not last beyond an await."""
        return acting(self.site.context, self.doer)

    def note(self, event: str, queue: Queue, **details: object) -> None:
        """Have the log of changes remember that this user did something to a queue."""
        if self.site.changes is not None:
            with self.acting():
                self.site.changes.on_queue(event, self.vhost.name, queue, details)

    def queue(self, name: str, right: Right | None = None, *, field: str = "") -> Queue:
        """The queue, on which the user has this right. ``field``: of the body, to name it.

        Raises Refusal if there is none, AccessRefused, and ResourceLocked if a connection has it.
        """
        if name not in self.vhost.queues:
            raise self._missing("queue", name, field)
        if right is not None:
            self.require(right, "queue", name)
        return self.vhost.queue(name, None)

    def exchange(self, name: str, right: Right | None = None, *, field: str = "") -> Exchange:
        """As ``queue``, for an exchange."""
        exchange = self.vhost.exchanges.get(name)
        if exchange is None:
            raise self._missing("exchange", name, field)
        if right is not None:
            self.require(right, "exchange", name)
        return exchange

    def _missing(self, what: str, name: str, field: str) -> Refusal:
        if not field:
            return not_found()
        return not_found(f"{field}: no {what} '{name}' in vhost '{self.vhost.name}'")


async def enter(site: Site, request: Request) -> Entered:
    """Who asks, in the virtual host of the path. Raises Refusal."""
    who = await caller(site, request)
    return entered_by(site, request, who, name_in_path(request.path_params["vhost"]))


def entered_by(site: Site, request: Request, who: Caller, vhost_name: str) -> Entered:
    """Who asks, in a virtual host. Raises Refusal."""
    vhost = who.enter(vhost_name)
    site.context.clock.refresh()
    access = site.users.checker(who.user, vhost.name, who.host)
    return Entered(site, who.user, vhost, access, doer_over_http(request, who.user))


async def enter_with_body(
    site: Site, request: Request, max_bytes: int = BODY_MAX_BYTES
) -> tuple[Entered, bytes]:
    """Who asks, in the virtual host of the path, and the body. Raises Refusal.

    As ``caller_with_body``: a body that comes slowly may be there when the virtual host is gone.
    """
    await enter(site, request)
    octets = await read_body(request, max_bytes)
    return await enter(site, request), octets


def queue_name_in(request: Request) -> str:
    """The queue of the path. Raises Refusal for a name that none can have."""
    return checked_name(name_in_path(request.path_params["queue"]), "queue")


def exchange_name_in(request: Request, parameter: str = "exchange") -> str:
    """The exchange of the path; ``amq.default`` is the default one."""
    return exchange_name(checked_name(name_in_path(request.path_params[parameter]), "exchange"))


def checked_name(name: str, what: str) -> str:
    """The name. Raises Refusal for one that is no short string."""
    try:
        octets = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal(400, "bad_request", f"{what}: has characters that no name may have") from None
    if len(octets) > NAME_MAX_OCTETS:
        raise Refusal(
            400, "bad_request", f"{what}: the name is longer than {NAME_MAX_OCTETS} octets"
        )
    return name


def bad_request(reason: str) -> Refusal:
    """The refusal for a request that is wrong."""
    return Refusal(400, "bad_request", reason)


def check_open(entered: Entered, queue: Queue) -> None:
    """Raise AccessRefused for a queue that only the broker writes to."""
    if queue.name == entered.vhost.routing.closed_queue:
        raise AccessRefused(audit_only(queue.name, entered.vhost.name))


async def settle_definitions(entered: Entered) -> None:
    """Return when what was declared, bound or deleted is durable. Raises Refusal if it is lost."""
    await settle(entered.vhost.when_settled, "and undone")


async def settle(when_settled: WhenSettled, lost: str) -> None:
    """Return when what was changed is durable. Raises Refusal, which has ``lost``, if it is not."""
    try:
        await settled(when_settled)
    except StoreError as error:
        reason = f"not made durable, {lost}: {error.explanation}"
        raise Refusal(503, "not_stored", reason) from None


async def wait_until_durable(vhost: VirtualHost, ticket: int) -> None:
    """Return when what has gathered under this ticket is on disk. Raises Refusal if it failed."""
    if not ticket:
        return
    store = vhost.environment.store
    if store.durable_ticket < ticket and not store.failure:
        is_durable = asyncio.Event()
        store.when_durable(ticket, is_durable.set)
        store.ask_for_turn()
        await is_durable.wait()
    if store.failure:
        raise Refusal(503, "not_stored", f"not stored durably: {store.failure}")
