"""Checks across tables: names, rights, mechanisms and ports that have to fit together.

``settings.options`` calls ``mismatches`` for validated settings, and for a tree of JSON values in
which something else is wrong, so that all problems are named at once. A check whose values are not
all known finds no problem. Checks of one table stand where it is declared.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from pydantic_core import InitErrorDetails

from hareline.settings.access import (
    Auth,
    Credentials,
    Permission,
    User,
    credential_problems,
    is_scram_safe_in,
)
from hareline.settings.authorities import authority_problems
from hareline.settings.network import (
    Events,
    FurtherListener,
    Listener,
    Management,
    Metrics,
    Tls,
    TlsCertificate,
    tls_problems,
)
from hareline.settings.section import Section, below, known_in, problem, value_in
from hareline.settings.vhosts import VirtualHost, copy_problems, prefetch_problems

_SCRAM: Final = "SCRAM-SHA-256"
EVERY_INTERFACE: Final = {"0.0.0.0": False, "::": True}  # whether it is of IPv6
LOOPBACK_ADDRESSES: Final = {"127.0.0.1", "::1"}


class Tables(NamedTuple):
    """The tables of the file that are held against each other."""

    listener: object
    listeners: object
    tls: object
    tls_certificates: object
    management: object
    metrics: object
    events: object
    auth: object
    oauth: object
    http_auth: object
    ldap: object
    vhosts: object
    users: object

    @classmethod
    def of(cls, model: type[Section], settings: object) -> Tables:
        """``model`` declares them, ``settings`` has their values."""
        return cls(*(value_in(model, settings, key) for key in cls._fields))


def mismatches(tables: Tables) -> Iterator[InitErrorDetails]:
    """Everything that does not fit together, each at its place below the settings."""
    vhosts, users = _entries(tables.vhosts), _entries(tables.users)
    if not vhosts and isinstance(tables.vhosts, list | tuple):
        yield problem(("vhosts",), "at least one virtual host should be listed")
    for index, vhost in enumerate(vhosts):
        yield from below(("vhosts", index), prefetch_problems(vhost))
        yield from below(("vhosts", index), copy_problems(vhost))
    for index, user in enumerate(users):
        yield from below(("users", index), credential_problems(user))
    yield from _repetitions("vhosts", VirtualHost, vhosts)
    yield from _repetitions("users", User, users)
    yield from _permission_problems(users, [known_in(VirtualHost, v, "name", str) for v in vhosts])
    yield from _mechanism_problems(tables.auth, users)
    yield from _external_problems(tables)
    backends = value_in(Auth, tables.auth, "backends")
    yield from authority_problems(backends, tables.oauth, tables.http_auth, tables.ldap)
    yield from _event_problems(
        tables.events, [known_in(VirtualHost, v, "name", str) for v in vhosts]
    )
    yield from below(("tls",), tls_problems(tables.tls))
    yield from _tls_port_problems(tables)
    yield from _closed_port_problems(tables)
    yield from _port_problems(tables)


def _entries(tables: object) -> Sequence[object]:
    """The entries of a list of tables; none if it is no list."""
    return tables if isinstance(tables, list | tuple) else ()


def _repetitions(
    key: str, model: type[Section], tables: Sequence[object]
) -> Iterator[InitErrorDetails]:
    seen: set[str] = set()
    for index, table in enumerate(tables):
        name = known_in(model, table, "name", str)
        if name is None:
            continue
        if name in seen:
            message = "'{name}' is already the name of another entry"
            yield problem((key, index, "name"), message, name=name)
        seen.add(name)


def _permission_problems(
    users: Sequence[object], vhost_names: Collection[str | None]
) -> Iterator[InitErrorDetails]:
    for index, user in enumerate(users):
        seen: set[str] = set()
        permissions = value_in(User, user, "permissions")
        if not isinstance(permissions, list | tuple):
            continue
        for position, permission in enumerate(permissions):
            vhost = known_in(Permission, permission, "vhost", str)
            if vhost is None:
                continue
            place = ("users", index, "permissions", position, "vhost")
            if vhost in seen:
                yield problem(place, "'{name}' already has an entry", name=vhost)
            elif vhost_names and vhost not in vhost_names and None not in vhost_names:
                yield problem(place, "no virtual host '{name}' is listed", name=vhost)
            seen.add(vhost)


def _mechanism_problems(auth: object, users: Sequence[object]) -> Iterator[InitErrorDetails]:
    """Users who cannot log in by any of the mechanisms that will be offered."""
    mechanisms = value_in(Auth, auth, "mechanisms")
    if not isinstance(mechanisms, list | tuple):
        return
    mechanisms = tuple(mechanisms)
    if "ANONYMOUS" in mechanisms and value_in(Auth, auth, "anonymous_user") == "":
        message = "'ANONYMOUS' is in auth.mechanisms, so this has to name a user"
        yield problem(("auth", "anonymous_user"), message)
    others = [value_in(User, user, "name") for user in users if not is_scram_safe_in(user)]
    for index, user in enumerate(users):
        name = known_in(User, user, "name", str)
        given = Credentials.of(user)
        if name is None or given is None or given.password is not None:
            continue
        if mechanisms == (_SCRAM,) and given.scram is None:
            message = "'{name}' needs it: SCRAM-SHA-256 is the only mechanism"
            yield problem(("users", index, "scram"), message, name=name)
        if given.password_hash is None and given.scram is not None:
            place = ("users", index, "password_hash")
            if _SCRAM not in mechanisms:
                message = "'{name}' needs it: auth.mechanisms is without SCRAM-SHA-256"
                yield problem(place, message, name=name)
            elif others and mechanisms != (_SCRAM,):
                message = (
                    "'{name}' needs it: SCRAM-SHA-256 is not offered while '{other}' cannot use it"
                )
                yield problem(place, message, name=name, other=others[0])


def _external_problems(tables: Tables) -> Iterator[InitErrorDetails]:
    """EXTERNAL where no client is asked for a certificate."""
    mechanisms = value_in(Auth, tables.auth, "mechanisms")
    if not isinstance(mechanisms, list | tuple) or "EXTERNAL" not in mechanisms:
        return
    if known_in(Tls, tables.tls, "verify_clients", str) == "none":
        message = "EXTERNAL needs tls.verify_clients to be optional or required"
        yield problem(("auth", "mechanisms"), message)


def _event_problems(
    events: object, vhost_names: Collection[str | None]
) -> Iterator[InitErrorDetails]:
    """An event exchange in a virtual host that is not listed."""
    name = known_in(Events, events, "vhost", str)
    if name and vhost_names and name not in vhost_names and None not in vhost_names:
        yield problem(("events", "vhost"), "no virtual host '{name}' is listed", name=name)


class _Claim(NamedTuple):
    """An address that a listener asks for; ``place`` is that of its port."""

    place: tuple[str | int, ...]
    name: str
    bind: str
    port: int


def _tls_port_problems(tables: Tables) -> Iterator[InitErrorDetails]:
    """Options that need the certificate of [tls], where that names none."""
    if known_in(Tls, tables.tls, "certificate", str) != "":
        return
    message = "tls.certificate should be given where this has TLS"
    for index, further in enumerate(_entries(tables.listeners)):
        if value_in(FurtherListener, further, "tls") is True:
            yield problem(("listeners", index, "tls"), message)
    if value_in(Metrics, tables.metrics, "tls") is True:
        yield problem(("metrics", "tls"), message)
    for index, certificate in enumerate(_entries(tables.tls_certificates)):
        if known_in(TlsCertificate, certificate, "certificate", str):
            message = "tls.certificate should be given as well: it is shown to all other clients"
            yield problem(("tls_certificates", index, "certificate"), message)


def _closed_port_problems(tables: Tables) -> Iterator[InitErrorDetails]:
    """Ports without TLS that are closed, where there is none with TLS."""
    tls = tables.tls
    certificate = known_in(Tls, tls, "certificate", str)
    if certificate is None:
        return
    is_closed = value_in(Listener, tables.listener, "enabled") is False
    has_other = bool(certificate) and value_in(Tls, tls, "amqp") is not False
    if is_closed and not has_other and not _entries(tables.listeners):
        yield problem(("listener", "enabled"), "no port would be left for AMQP clients")
    management = tables.management
    is_closed = value_in(Management, management, "http") is False
    has_other = bool(certificate) and value_in(Tls, tls, "management") is not False
    if is_closed and not has_other and value_in(Management, management, "enabled") is True:
        message = "no port would be left for HTTP; for none at all set management.enabled to false"
        yield problem(("management", "http"), message)


def _claims(tables: Tables) -> Iterator[_Claim]:
    """The claim of each listener whose address is known."""
    listeners: list[tuple[tuple[str | int, ...], str, type[Section], object]] = []
    if value_in(Listener, tables.listener, "enabled") is True:
        listeners.append((("listener",), "listener", Listener, tables.listener))
    for index, further in enumerate(_entries(tables.listeners)):
        name = f"listeners[{index}]"
        listeners.append((("listeners", index), name, FurtherListener, further))
    if value_in(Management, tables.management, "enabled") is True:
        if value_in(Management, tables.management, "http") is True:
            listeners.append((("management",), "management", Management, tables.management))
        metrics = tables.metrics
        if all(value_in(Metrics, metrics, key) is True for key in ("enabled", "listener")):
            listeners.append((("metrics",), "metrics", Metrics, metrics))
    for place, name, model, table in listeners:
        bind, port = known_in(model, table, "bind", str), known_in(model, table, "port", int)
        if bind is not None and port is not None:
            yield _Claim((*place, "port"), f"{name}.port", bind, port)
    yield from _tls_claims(tables)


def _tls_claims(tables: Tables) -> Iterator[_Claim]:
    """The claims of [tls], where its ports are opened."""
    tls = tables.tls
    bind = known_in(Tls, tls, "bind", str)
    if bind is None or not known_in(Tls, tls, "certificate", str):
        return
    keys = ["port"] if value_in(Tls, tls, "amqp") is True else []
    if value_in(Management, tables.management, "enabled") is True:
        keys += ["management_port"] if value_in(Tls, tls, "management") is True else []
    for key in keys:
        port = known_in(Tls, tls, key, int)
        if port is not None:
            yield _Claim(("tls", key), f"tls.{key}", bind, port)


def _port_problems(tables: Tables) -> Iterator[InitErrorDetails]:
    """Ports that the system would refuse, because another listener has them on that address."""
    claims = list(_claims(tables))
    for index, claim in enumerate(claims):
        for other in claims[:index]:
            if claim.port == other.port != 0 and _share_addresses(claim.bind, other.bind):
                message = "Input should differ from {other}, which is {port} too"
                yield problem(claim.place, message, other=other.name, port=claim.port)
                break


def _share_addresses(one: str, other: str) -> bool:
    """True if two values of ``bind`` mean a common interface, as far as the texts say."""
    if one == other:
        return True
    for bind, elsewhere in ((one, other), (other, one)):
        if bind in EVERY_INTERFACE:
            return EVERY_INTERFACE[bind] == (":" in elsewhere) or not _is_address(elsewhere)
    return "localhost" in (one, other) and bool({one, other} & LOOPBACK_ADDRESSES)


def _is_address(bind: str) -> bool:
    """True for an address, False for a name, which may stand for addresses of both families."""
    try:
        ipaddress.ip_address(bind)
    except ValueError:
        return False
    return True
