"""Values of the settings for the parts of a broker.

``server`` calls this when it starts and when it takes over new settings. The layers below never
import the settings; each is handed plain values of its own types. Invariant: a function here
depends on its arguments alone, but for the version of the interpreter and the salts of new hashes.
"""

from __future__ import annotations

import ipaddress
import platform
import socket
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from hareline import __version__
from hareline.administration.origins import Origins, VhostOrigin
from hareline.amqp.context import Identity, Limits
from hareline.auth.access_rules import AccessRule, AccessRules, LogDecision
from hareline.auth.certificates import ExternalLogin, NameRule
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.passwords import hash_password
from hareline.auth.peer import Networks
from hareline.auth.permissions import Permissions, compile_pattern
from hareline.auth.scram import MECHANISM as SCRAM
from hareline.auth.scram import PasswordKeys, ScramKeys, salt_of
from hareline.auth.users import User
from hareline.broker.capacity import BrokerCapacity
from hareline.events import Report
from hareline.net.binding import Address
from hareline.net.listener import Endpoint
from hareline.net.tls.contexts import CertificateFiles, TlsOptions
from hareline.net.tls.service import TlsService
from hareline.settings import Settings, VirtualHost
from hareline.settings import User as UserSettings
from hareline.settings.access import AccessRule as AccessRuleSettings
from hareline.storage.disk.opening import StorageOptions
from hareline.storage.journal.damage import Decision


def addresses(settings: Settings) -> list[Address]:
    """Addresses of the AMQP listeners, in their order, then of the management and metrics ports."""
    first, management, metrics = settings.listener, settings.management, settings.metrics
    tls = settings.tls
    addresses = [Address("listener", first.bind, first.port)] if first.enabled else []
    addresses += [
        Address(
            f"listeners[{index}]",
            further.bind,
            further.port,
            has_tls=further.tls,
            product=further.product,
        )
        for index, further in enumerate(settings.listeners)
    ]
    if tls.is_on and tls.amqp:
        addresses.append(Address("tls", tls.bind, tls.port, has_tls=True))
    if management.enabled:
        addresses += _http_addresses(settings)
        if metrics.enabled and metrics.listener:
            address = Address("metrics", metrics.bind, metrics.port, has_tls=metrics.tls)
            addresses.append(address._replace(serves="metrics"))
    return addresses


def _http_addresses(settings: Settings) -> list[Address]:
    """Addresses of the management port, without TLS and with it."""
    management, tls = settings.management, settings.tls
    found = []
    if management.http:
        found.append(Address("management", management.bind, management.port, serves="http"))
    if tls.is_on and tls.management:
        key = "management_port"
        found.append(Address("tls", tls.bind, tls.management_port, key, "http", has_tls=True))
    return found


def tls_options(settings: Settings) -> TlsOptions:
    """The certificates, and the rules for clients."""
    tls = settings.tls
    tables = [("tls", tls.certificate, tls.key, tls.key_password_file)]
    tables += [
        (f"tls_certificates[{index}]", each.certificate, each.key, each.key_password_file)
        for index, each in enumerate(settings.tls_certificates)
    ]
    return TlsOptions(
        tuple(CertificateFiles(*each) for each in tables),
        tls.client_authorities,
        tls.client_revocations,
        tls.verify_clients,
        tls.verify_http_clients,
        tls.min_version,
        tls.ciphers,
    )


def tls_service(
    settings: Settings, report: Report, handshake_timeout_s: Callable[[], float]
) -> TlsService | None:
    """TLS as the settings have it; None: no port has any. Raises ListenError."""
    if not settings.tls.is_on:
        return None
    return TlsService(
        tls_options(settings),
        report,
        handshake_timeout_s,
        check_interval_s=settings.tls.check_interval_s,
        warning_days=settings.tls.expiry_warning_days,
    )


def endpoints(
    settings: Settings,
    addresses: Sequence[Address],
    bound: Sequence[Sequence[socket.socket]],
    tls: TlsService | None,
) -> list[Endpoint]:
    """The AMQP ports among these addresses."""
    backlog = settings.listener.backlog
    proxies = {
        f"listeners[{index}]": further.proxy_protocol_from
        for index, further in enumerate(settings.listeners)
    }
    of_first = settings.listener.proxy_protocol_from
    return [
        Endpoint(
            address,
            sockets,
            backlog,
            tls if address.has_tls else None,
            Networks(proxies.get(address.table, of_first)),
        )
        for address, sockets in zip(addresses, bound, strict=True)
        if address.serves == "amqp"
    ]


def identity(settings: Settings) -> Identity:
    """Identity of the broker in connection.start."""
    return Identity(
        product=settings.identity.product,
        version=settings.identity.version,
        cluster_name=settings.identity.cluster_name,
        platform=f"{platform.python_implementation()} {platform.python_version()}",
        brand=f"Hareline {__version__}",
        qpid_product=settings.identity.qpid_product,
        node=f"hareline@{socket.gethostname().partition('.')[0]}",
    )


def limits(settings: Settings) -> Limits:
    """Limits on what one peer may ask of the broker."""
    delay_s = settings.auth.failure_delay_s
    names = [each.name for each in fields(Limits) if each.name != "authentication_failure_delay_s"]
    given: dict[str, Any] = {name: getattr(settings.limits, name) for name in names}
    return Limits(**given, authentication_failure_delay_s=delay_s)


def mechanisms(settings: Settings, started_with: Settings) -> MechanismRegistry:
    """Mechanisms by which clients may log in.

    ``started_with``: decides until the next restart which mechanisms are on, and whom certificates
    stand for.
    """
    auth = settings.auth
    rules = [NameRule(each.match, each.user) for each in started_with.external_users]
    return MechanismRegistry(
        started_with.auth.mechanisms,
        ExternalLogin(started_with.auth.external_name, rules),
        anonymous_user=auth.anonymous_user,
        needs_tls=auth.passwords_need_tls,
    )


def set_capacity(capacity: BrokerCapacity, settings: Settings) -> None:
    """Bound what may be declared in all virtual hosts together."""
    given = settings.limits
    capacity.max_queues = given.max_queues
    capacity.max_exchanges = given.max_exchanges
    capacity.max_bindings = given.max_bindings
    capacity.max_arguments_bytes = given.max_arguments_bytes


def storage_options(settings: Settings) -> StorageOptions:
    """Place of messages and definitions, and when they count as safe."""
    journal = settings.journal
    return StorageOptions(
        data_dir=settings.data_dir,
        segment_bytes=journal.segment_bytes,
        sync=journal.sync,
        sync_interval_ms=journal.sync_interval_ms,
        on_corruption=Decision(journal.on_corruption),
        retention_age_s=journal.retention_age_s,
        retention_bytes=journal.retention_bytes,
    )


def audit_arguments(vhost: VirtualHost) -> dict[str, object]:
    """The arguments of the audit stream of a virtual host."""
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    if vhost.audit_max_bytes:
        arguments["x-max-length-bytes"] = vhost.audit_max_bytes
    if vhost.audit_max_age:
        arguments["x-max-age"] = vhost.audit_max_age
    return arguments


def access_rules(settings: Settings, log: LogDecision) -> AccessRules:
    """The rules of the settings. ``log``: told of what those decide that log."""
    return AccessRules(
        tuple(_access_rule(number, each) for number, each in enumerate(settings.access_rules, 1)),
        log,
    )


def _access_rule(number: int, given: AccessRuleSettings) -> AccessRule:
    return AccessRule(
        number,
        is_allowed=given.rule.startswith("allow"),
        is_logged=given.rule.endswith("-log"),
        users=frozenset(given.users),
        tags=frozenset(given.tags),
        rights=frozenset(given.rights),
        objects=frozenset(given.objects),
        vhosts=frozenset(given.vhosts),
        name=compile_pattern(given.name) if given.name else None,
        routing_key=compile_pattern(given.routing_key) if given.routing_key else None,
        networks=tuple(map(ipaddress.ip_network, given.from_networks)),
    )


def users(settings: Settings, started_with: Settings) -> list[User]:
    """The users with their hashes, permissions and SCRAM keys.

    ``started_with``: the settings that decide which mechanisms are on until the next restart.
    """
    has_scram = SCRAM in started_with.auth.mechanisms
    return [
        User(
            name=user.name,
            password_hash=user.password_hash
            or (hash_password(user.password.get_secret_value()) if user.password else ""),
            # of a password that stands in the settings nothing is kept, so a quick hash does
            hashing=user.algorithm if user.password_hash else "sha256",
            tags=user.tags,
            permissions={
                permission.vhost: Permissions(
                    permission.configure, permission.write, permission.read
                )
                for permission in user.permissions
            },
            scram=_scram(user) if has_scram else None,
        )
        for user in settings.users
    ]


def origins(settings: Settings, started_with: Settings) -> Origins:
    """Names in the settings, which decide over what is administered at run time."""
    given = settings.model_fields_set
    return Origins(
        where=settings.came_from,
        users={user.name: user for user in users(settings, started_with)},
        vhosts={
            vhost.name: VhostOrigin(
                vhost.max_connections or None,
                vhost.max_queues or None,
                vhost.tracing,
                vhost.max_exchanges or None,
                vhost.max_bindings or None,
            )
            for vhost in settings.vhosts
        },
        are_users_default="users" not in given,
        are_vhosts_default="vhosts" not in given,
        names_cluster="cluster_name" in started_with.identity.model_fields_set,
    )


def _scram(user: UserSettings) -> ScramKeys | PasswordKeys | None:
    if user.scram is not None:
        return ScramKeys.parse(user.scram)
    if user.password is None:
        return None
    try:
        return PasswordKeys(user.password.get_secret_value(), salt_of(user.name))
    except ValueError:  # SASLprep prohibits it: it is good for the other mechanisms
        return None
