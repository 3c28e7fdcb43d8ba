"""All options of the broker as one ``Settings``, and the differences between two of them.

Each option is declared once, with type, bounds, default, description and reload, in the module of
its table. A ``Settings`` that exists is usable as it stands and never changes; a reload builds
another one and compares. Units are the last part of a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from hareline.choices import LogLevel
from hareline.settings.access import AccessRule, Auth, ExternalUser, Permission, User
from hareline.settings.authorities import HttpAuth, Ldap, LdapGroup, OAuth
from hareline.settings.consistency import Tables, mismatches
from hareline.settings.limits import Limits
from hareline.settings.network import (
    Events,
    FurtherListener,
    Identity,
    Listener,
    Management,
    Metrics,
    Tls,
    TlsCertificate,
    WebSocket,
)
from hareline.settings.resources import Disk, Journal, Memory, Storage
from hareline.settings.section import Section, option, refuse, reload_of
from hareline.settings.values import HomeRelativePath, LogFormat
from hareline.settings.vhosts import VirtualHost


class Shutdown(Section):
    """Deadlines for stopping the broker."""

    deadline_s: float = option(
        10.0,
        "After SIGTERM, connections have this long to take what was sent to them; those that have "
        "taken it close within 3 s.",
        reload="live",
        ge=0,
        le=3600,
    )


class Log(Section):
    """Operational log, on standard error."""

    level: LogLevel = option("info", "Least severity that is written.", reload="live")
    format: LogFormat = option(
        "auto", "Lines for people, JSON for programs; `auto` means people on a terminal only."
    )


def _guest(validated: dict[str, Any]) -> tuple[User, ...]:
    """The user of a broker that lists none; ``validated`` holds the options declared before."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    vhosts: tuple[VirtualHost, ...] = validated.get("vhosts", ())
    return (
        User(
            name="guest",
            password=SecretStr("guest"),
            tags=("administrator",),
            permissions=tuple(Permission(vhost=vhost.name, **everything) for vhost in vhosts),
        ),
    )


class Settings(Section):
    """All options of one broker."""

    data_dir: HomeRelativePath = option(
        "~/.local/state/hareline",
        "Directory for all that outlives a restart; made when the broker starts. A leading ~ is "
        "the home directory.",
    )
    load_definitions: str = option(
        "",
        "Definitions in RabbitMQ's JSON that are taken over at each start, before clients can "
        "connect: a file, or a directory whose .json files are read in the order of their names. "
        "A leading ~ is the home directory. Empty: nothing is loaded.",
    )
    listeners: tuple[FurtherListener, ...] = option(
        (),
        "Further ports for AMQP clients, beside that of `listener`: a table [[listeners]] for "
        "each.",
    )
    ldap_groups: tuple[LdapGroup, ...] = option(
        (),
        "What members of groups of an LDAP directory may do: a table [[ldap_groups]] for each "
        "group. A member of several gets what any of them permits.",
    )
    access_rules: tuple[AccessRule, ...] = option(
        (),
        "Ordered rules, a table [[access_rules]] for each: the first that matches an operation "
        "decides it, before permissions are looked at. What it leaves empty matches everything.",
        reload="live",
    )
    tls_certificates: tuple[TlsCertificate, ...] = option(
        (),
        "Further certificates, for clients that ask for one of the host names in them: a table "
        "[[tls_certificates]] for each. Other clients are shown that of [tls].",
        reload="live",
    )
    external_users: tuple[ExternalUser, ...] = option(
        (),
        "Whom names in certificates stand for, by EXTERNAL: a table [[external_users]] for each "
        "rule. Without any, a name is the user's own; with some, one that none matches is refused.",
    )
    listener: Listener = Listener()
    tls: Tls = Tls()
    management: Management = Management()
    metrics: Metrics = Metrics()
    websocket: WebSocket = WebSocket()
    events: Events = Events()
    identity: Identity = Identity()
    limits: Limits = Limits()
    auth: Auth = Auth()
    oauth: OAuth = OAuth()
    http_auth: HttpAuth = HttpAuth()
    ldap: Ldap = Ldap()
    memory: Memory = Memory()
    storage: Storage = Storage()
    journal: Journal = Journal()
    disk: Disk = Disk()
    shutdown: Shutdown = Shutdown()
    log: Log = Log()
    vhosts: tuple[VirtualHost, ...] = option(
        (VirtualHost(name="/"),),
        "Virtual hosts. A running broker adds new ones; it never removes one.",
        reload="live",
    )
    users: tuple[User, ...] = Field(
        default_factory=_guest,
        description="Users. Giving any replaces the default one: guest with the password guest, "
        "who may do everything in every virtual host, but from this machine only. Each has one of "
        "`password` and `password_hash`; `scram` may stand beside the latter, or in its place "
        "where every user can log in by SCRAM-SHA-256.",
        json_schema_extra={"reload": "live"},
    )

    _came_from: str = PrivateAttr("the settings")

    @property
    def came_from(self) -> str:
        """The file that was read, for people; another word where there was none."""
        return self._came_from

    def read_from(self, path: Path) -> Self:
        """The same settings, which say that they came from this file."""
        settings = self.model_copy()
        settings._came_from = str(path)
        return settings

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        refuse(mismatches(Tables.of(Settings, self)))
        return self


def mismatch_details(tree: Mapping[str, Any]) -> list[ErrorDetails]:
    """Mismatches in a tree of JSON values, parts of which may be invalid.

    pydantic checks a table as a whole only if each of its values is valid; this finds the rest in
    the same go. What depends on an invalid value is passed over.
    """
    try:
        refuse(mismatches(Tables.of(Settings, tree)))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def leaf_options() -> Iterator[tuple[str, FieldInfo]]:
    """Every option by its dotted name (``listener.port``), in the order of the file.

    A list of tables (``users``) is one option.
    """
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for key, inner in section.model_fields.items():
                yield f"{name}.{key}", inner
        else:
            yield name, field


def changed_options(old: Settings, new: Settings) -> list[str]:
    """Dotted names of the options that differ, in the order of the file."""
    return [name for name, _ in leaf_options() if value_of(old, name) != value_of(new, name)]


def restart_options(old: Settings, new: Settings) -> list[str]:
    """Differences that a running broker cannot take over, in words for the operator.

    A virtual host that is no longer listed is one of them: removing it would drop its queues. So
    are options of a virtual host that it keeps for as long as it runs.
    """
    names = [
        name
        for name, field in leaf_options()
        if reload_of(field) == "restart" and value_of(old, name) != value_of(new, name)
    ]
    kept = {vhost.name: vhost for vhost in new.vhosts}
    for vhost in old.vhosts:
        if vhost.name not in kept:
            names.append(f"vhosts: {vhost.name}")
            continue
        names += [
            f"vhosts: {vhost.name}.{key}"
            for key, field in VirtualHost.model_fields.items()
            if reload_of(field) == "restart"
            and getattr(vhost, key) != getattr(kept[vhost.name], key)
        ]
    return names


def value_of(settings: Settings, name: str) -> object:
    """The value of an option by its dotted name."""
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value
