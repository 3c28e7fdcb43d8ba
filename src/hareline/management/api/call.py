"""The table of routes of the API, and the ``Call`` that each handler is given.

A resource module has ``routes = Routes("users")``, and puts a row above each handler. Caller, body
and what AMQP would let the caller do are looked at here. A handler raises a ``Refusal``, or lets an
AmqpError or AdministrationError pass: ``api.app`` answers these.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from hareline.administration import Administration
from hareline.amqp.internal_events import acting
from hareline.auth.access_rules import AccessRules
from hareline.auth.permissions import AccessChecker, Resource, Right
from hareline.auth.users import INTERNAL, User
from hareline.broker.change_recorder import Doer
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost, audit_only
from hareline.errors import AccessRefused, NotAllowed, StoreError
from hareline.management.answers import (
    LIST_PARAMETERS,
    PROBLEMS,
    Page,
    Refusal,
    bad_request,
    created,
    no_content,
    not_found,
)
from hareline.management.api.site import Site
from hareline.management.bodies import (
    BODY_MAX_BYTES,
    HeldBody,
    answer_under_way,
    parse_body,
    read_body,
)
from hareline.management.pace import Pace, pace_of
from hareline.management.routes import Route, exchange_name, name_in_path
from hareline.management.settling import WhenSettled, idle, settled
from hareline.queues.queue import Queue
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

_DIGITS_MAX: Final = 18
_OVER: Final = object()

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Handler = Callable[["Call"], Awaitable[Response]]


class Body(BaseModel):
    """A body as RabbitMQ takes it: keys that it does not know mean nothing."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class Row:
    """A route. ``needs``: the tag of its caller; None: no login.

    ``enters``: the caller enters the virtual host of the path. ``changes``: the handler begins when
    no administrative change is under way. ``reads_bytes``: how much of a body is read before it
    begins; 0: it reads the body itself. ``described``: what OpenAPI says, as ``Route`` takes it.
    """

    request: str
    handler: Handler
    needs: Tag | None
    enters: bool
    changes: bool
    reads_bytes: int
    described: dict[str, Any]

    def bound_to(self, site: Site) -> Route:
        """The route of a broker."""

        async def endpoint(request: Request) -> Response:
            call = Call(site, request, self)
            await call.begin()
            return await self.handler(call)

        return Route(self.request, endpoint, **self.described)


class Routes:
    """The rows of a resource. ``group``: OpenAPI's tag.

    ``needs``, ``enters``: of rows that say nothing else.
    """

    def __init__(self, group: str, needs: Tag = "management", *, enters: bool = False) -> None:
        self._group = group
        self._needs = needs
        self._enters = enters
        self.rows: list[Row] = []

    def __call__(
        self,
        request: str,
        *,
        needs: Tag | None = None,
        is_open: bool = False,
        enters: bool | None = None,
        changes: bool = False,
        lists: type[BaseModel] | None = None,
        body: Any = None,
        body_max: int = BODY_MAX_BYTES,
        answers: Mapping[int, Mapping[str, Any]] | None = None,
        parameters: Sequence[Mapping[str, Any]] = (),
        has_problems: bool = True,
        **described: Any,
    ) -> Callable[[Handler], Handler]:
        """Add a row for a handler; its name and docstring go into the OpenAPI document.

        ``is_open``: without a login. ``lists``: the model of an item, where ``listing`` answers.
        ``body``: its model. ``described``: further arguments of ``Route``.
        """
        if lists is not None:
            described["gives"] = list[lists] | Page[lists]  # type: ignore[valid-type]
            parameters = (*LIST_PARAMETERS, *parameters)

        all_answers: dict[Any, Any] = {**(PROBLEMS if has_problems else {}), **(answers or {})}

        def add(handler: Handler) -> Handler:
            said = {
                "name": handler.__name__,
                "text": handler.__doc__,
                "group": self._group,
                "body": body,
                "answers": all_answers,
                "parameters": parameters,
                **described,
            }
            reads_bytes = body_max if body is not None else 0
            tag = None if is_open else needs or self._needs
            does_enter = self._enters if enters is None else enters
            self.rows.append(Row(request, handler, tag, does_enter, changes, reads_bytes, said))
            return handler

        return add


class Call:
    """One request: who asks, for what, and what AMQP would let that user do.

    ``who`` is there in a handler. ``access``: rights in the virtual host that was entered, which is
    done as a connection of the user would; no queue that a connection has exclusively is its own.
    """

    __slots__ = (
        *("_entered", "_needed", "_row", "_rules", "_user"),
        *("access", "octets", "request", "site", "who"),
    )
    who: Caller
    access: AccessChecker
    _rules: AccessRules  # by which ``access`` was made, and the user
    _user: User

    def __init__(self, site: Site, request: Request, row: Row) -> None:
        self.site = site
        self.request = request
        self.octets = b""
        self._row = row
        self._entered: VirtualHost | None = None
        self._needed: set[tuple[Right, Resource, str]] = set()

    # ---------------------------------------------------------------------------- the caller

    async def begin(self) -> None:
        """Look at the caller and read the body, as the row says. Raises Refusal.

        The caller is looked at before the body is read, so that strangers send none, and after: the
        body may have come slowly, and a right may be gone by then.
        """
        row = self._row
        if row.needs is None:
            return
        if row.reads_bytes:
            await self.check()
            self.octets = await read_body(self.request, row.reads_bytes)
        await (self.take_turn() if row.changes else self.check())

    async def check(self, needs: Tag | None = None) -> None:
        """Look at the caller: its login, its tag, and that it may enter. Raises Refusal.

        ``needs``: the tag, where the row says none.
        """
        request = self.request
        user = await self.site.authenticator.user(request)
        self.who = Caller(self.site, user, "" if request.client is None else request.client.host)
        tag = needs or self._row.needs
        if tag is not None:
            self.who.require_tag(tag)
        if self._row.enters:
            self.enter(self.name("vhost"))

    async def take_turn(self) -> None:
        """Wait until no other change is under way; the caller is looked at after that."""
        changes = self.administration.changes
        await self.check()
        while changes.is_pending:
            await idle(changes)
            await self.check()  # that change may have been about this caller

    @property
    def by(self) -> str:
        """The name of the user who asks."""
        return self.who.user.name

    @property
    def doer(self) -> Doer:
        """The user as the one who does what it asks for."""
        client, user = self.request.client, self.who.user
        address = "" if client is None else f"{client.host}:{client.port}"
        return Doer("http", user.name, address, user.backend)

    # --------------------------------------------------------------------------- the request

    def name(self, place: str) -> str:
        """A name in the path."""
        return name_in_path(self.request.path_params[place])

    def checked_name(self, place: str = "queue") -> str:
        """A name in the path. Raises Refusal for one that no queue can have."""
        return checked_name(self.name(place), place)

    def exchange_name(self, place: str = "exchange") -> str:
        """The exchange of the path; ``amq.default`` is the default one. Raises Refusal."""
        return exchange_name(checked_name(self.name(place), "exchange"))

    @property
    def query(self) -> QueryParams:
        """The arguments."""
        return self.request.query_params

    def flag(self, name: str) -> bool:
        """True if this argument is ``true``."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int, minimum: int, maximum: int) -> int:
        """The number that this argument is. Raises Refusal for any other."""
        text = self.query.get(name)
        if text is None:
            return default
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else -1
        if not minimum <= number <= maximum:
            shown = text[:_DIGITS_MAX]
            raise bad_request(f"{name}: must be a number from {minimum} to {maximum}, not {shown}")
        return number

    def body(self, model: type[Model]) -> Model:
        """The body; an empty one is an empty object. Raises Refusal."""
        octets = self.octets or b"{}"
        if issubclass(model, Body):
            _check_unicode(octets)
        return parse_body(model, octets)

    @property
    def pace(self) -> Pace:
        """The pace of all long answers."""
        return pace_of(self.request)

    def kept(self, kind: type[T]) -> T:
        """The one object of this class that the application keeps."""
        kept: dict[type[Any], Any] = self.request.app.state.kept
        if kind not in kept:
            kept[kind] = kind()
        found: T = kept[kind]
        return found

    def held_answer(self) -> HeldBody:
        """An answer with messages: a context, in which it and what it is made of are counted."""
        return answer_under_way(self.request, self.site.context.limits.max_message_bytes)

    # ---------------------------------------------------------------------- the virtual host

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host that was entered, or the path's, for reading. Raises Refusal."""
        return self._entered or self.who.vhost(self.name("vhost"))

    def enter(self, vhost_name: str) -> None:
        """Enter a virtual host. Raises Refusal."""
        self._entered = self.who.enter(vhost_name)
        self.site.context.clock.refresh()
        self._user, self._rules = self.who.user, self.site.users.rules
        self.access = self.site.users.checker(self._user, vhost_name, self.who.host)

    def require(self, right: Right, resource: Resource, name: str) -> None:
        """Raise AccessRefused unless the user has this right, now and at each ``renew``."""
        self.access.require(right, resource, name)
        self._needed.add((right, resource, name))

    def renew(self) -> None:
        """Go by the user as it is now; for what takes long, before each of its shares.

        Raises Refusal if the virtual host is gone or the user may not enter it any more, and
        AccessRefused if it has lost a right that was needed.
        """
        vhost, users = self.vhost, self.site.users
        if self.site.vhosts.get(vhost.name) is not vhost:
            raise not_found(f"vhost '{vhost.name}' is deleted")
        old = self._user
        user: User | None = old
        if old.backend != INTERNAL:  # what a token says holds for the request
            self._check_expiry()
        else:
            user = users.lookup(old.name)
        if user is old and users.rules is self._rules:
            return
        if user is None:
            raise Refusal(401, "not_authorised", f"user '{old.name}' is deleted")
        who = Caller(self.site, user, self.who.host)
        who.require_tag("management")
        who.enter(vhost.name)
        access = users.checker(user, vhost.name, who.host)
        for right in self._needed:
            access.require(*right)
        self.who, self.access, self._user, self._rules = who, access, user, users.rules

    def _check_expiry(self) -> None:
        """Raise Refusal if the login, which another backend has granted, has ended."""
        clock, user = self.site.context.clock, self._user
        clock.refresh()
        if user.expires_ms is not None and user.expires_ms <= clock.now_ms:
            raise Refusal(401, "not_authorised", f"the token of user '{user.name}' has expired")

    def acting(self) -> AbstractContextManager[None]:
        """Have all that happens within it done by this user. It must not last beyond an await."""
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

    def queue_in_path(self, right: Right) -> Queue:
        """The queue of the path, on which the user has this right. Raises as ``queue``."""
        return self.queue(self.checked_name(), right)

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

    def check_open(self, queue: Queue) -> None:
        """Raise AccessRefused for a queue that only the broker writes to."""
        if queue.name == self.vhost.routing.closed_queue:
            raise AccessRefused(audit_only(queue.name, self.vhost.name))

    # ------------------------------------------------------------------------ what is changed

    @property
    def administration(self) -> Administration:
        """The broker's administration."""
        return self.site.administration

    async def settle_change(self, lost: str = "so not done") -> None:
        """Return when what was administered is durable. Raises Refusal, which has ``lost``."""
        await _settle(self.administration.changes.when_settled, lost)

    async def settle_definitions(self) -> None:
        """Return when what was declared, bound or deleted is durable. Raises Refusal."""
        await _settle(self.vhost.when_settled, "and undone")

    async def put_done(self, is_new: bool) -> Response:
        """201 for what was made, 204 for what was there, when it is durable. Raises Refusal."""
        await self.settle_change()
        return created() if is_new else no_content()

    async def done(self) -> Response:
        """204 when what was administered is durable. Raises Refusal if it is lost."""
        return await self.put_done(is_new=False)

    async def run_changes(self, steps: Generator[None, None, None], lost: str) -> None:
        """Take steps that each make changes. Raises Refusal, with ``lost``, if one is not durable.

        Changes of others go between the steps.
        """
        changes = self.administration.changes
        async with self.pace.share() as share:
            is_over = False
            while not is_over:
                while changes.is_pending:
                    await share.wait_for(idle(changes))
                is_over = next(steps, _OVER) is _OVER
                await share.wait_for(_settle(changes.when_settled, lost))
                await share.wait_for(asyncio.sleep(0))  # changes that wait go before the next step

    async def wait_until_durable(self, ticket: int) -> None:
        """Return when what has gathered under this ticket is on disk. Raises Refusal."""
        if not ticket:
            return
        store = self.vhost.environment.store
        if store.durable_ticket < ticket and not store.failure:
            is_durable = asyncio.Event()
            store.when_durable(ticket, is_durable.set)
            store.ask_for_turn()
            await is_durable.wait()
        if store.failure:
            raise Refusal(503, "not_stored", f"not stored durably: {store.failure}")


def checked_name(name: str, what: str) -> str:
    """The name. Raises Refusal for one that is no short string."""
    try:
        octets = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise bad_request(f"{what}: has characters that no name may have") from None
    if len(octets) > SHORTSTR_MAX_OCTETS:
        raise bad_request(f"{what}: the name is longer than {SHORTSTR_MAX_OCTETS} octets")
    return name


def _check_unicode(octets: bytes) -> None:
    """Raise Refusal for JSON with half a character (``\\ud800``), which no name can hold."""
    if b"\\ud" not in octets.lower():
        return
    try:
        json.dumps(json.loads(octets), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request("body: a text in it is not Unicode") from None
    except (ValueError, RecursionError):
        return  # the parser of the body says what is wrong


async def _settle(when_settled: WhenSettled, lost: str) -> None:
    """Return when what was changed is durable. Raises Refusal, which has ``lost``, if it is not."""
    try:
        await settled(when_settled)
    except StoreError as error:
        reason = f"not made durable, {lost}: {error.explanation}"
        raise Refusal(503, "not_stored", reason) from None


# --------------------------------------------------------------------------------------- the caller


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
    """The user of one request. ``tags``: all that its tags stand for. ``host``: its address.

    The rules are RabbitMQ's. Management: the virtual hosts that the user has permissions in, and
    its own connections. Policymaker: also policies and parameters there. Monitoring: all virtual
    hosts, connections and nodes, for reading. Administrator: all of it, and users, permissions and
    virtual hosts.
    """

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
