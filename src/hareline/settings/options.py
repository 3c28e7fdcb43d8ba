"""Every option of the broker, declared once: name, type, bounds, default, description, reload.

``settings.sources`` builds a ``Settings`` from file, environment and flags; the sample file, the
help texts and docs/configuration.md are written from the same declarations by
``settings.reference``. Values are handed down to the layers below, which never import this.
Invariant: a ``Settings`` that exists is usable as it stands (names unique, patterns compile, hashes
have the right length), and never changes; a reload builds another one and compares.

Units are the last part of a name. Zero means "no limit" where a description says so.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from hareline.choices import HashingAlgorithm, LogLevel
from hareline.settings.values import (
    BindAddress,
    CorruptionPolicy,
    DiskWatermark,
    EmptyOrShortString,
    HomeRelativePath,
    JournalSync,
    LogFormat,
    Mechanisms,
    Octets,
    PermissionPattern,
    Port,
    QpidProduct,
    ScramKeys,
    ShortString,
    StorageKind,
    Watermark,
)

Reload = Literal["live", "restart"]
T = TypeVar("T")

FRAME_MIN_BYTES: Final = 4096
MESSAGE_MAX_BYTES: Final = 536_870_912
PASSWORD_SALT_OCTETS: Final = 4
SCRAM: Final = "SCRAM-SHA-256"
INCONSISTENT: Final = "inconsistent"  # pydantic's type of what does not fit together
SEGMENT_MIN_BYTES: Final = 1 << 20
SEGMENT_MAX_BYTES: Final = 1 << 30
DISK_SHARE: Final = 0.02  # what "auto" means for the disk, and its upper bound
DISK_AT_MOST_BYTES: Final = 1 << 30
EVERY_INTERFACE: Final = {"0.0.0.0": False, "::": True}  # whether it is of IPv6
LOOPBACK_ADDRESSES: Final = {"127.0.0.1", "::1"}


def option(default: Any, description: str, *, reload: Reload = "restart", **bounds: Any) -> Any:
    """One option: what it defaults to, what it means, and whether SIGHUP can change it.

    ``reload`` is "live" when a running broker takes the new value over, "restart" when it must be
    started again. ``bounds`` are pydantic's: ``ge``, ``le``, ``gt``, ``min_length``, ``pattern``.
    """
    return Field(default, description=description, json_schema_extra={"reload": reload}, **bounds)


class Section(BaseModel):
    """What every table of the file has in common: unknown keys are errors, values are final."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )


class Listener(Section):
    """Where AMQP clients connect."""

    bind: BindAddress = option(
        "127.0.0.1",
        "Address to listen on. Loopback alone unless told otherwise; 0.0.0.0 for every IPv4 "
        "interface, :: for every IPv6 interface.",
    )
    port: Port = option(5672, "TCP port for AMQP. 0 lets the system choose; the choice is logged.")
    backlog: int = option(
        1024, "Connections the system may hold ready for us to accept.", ge=1, le=65535
    )


class FurtherListener(Section):
    """One more port for AMQP clients, for another network or with another product name."""

    bind: BindAddress = option("127.0.0.1", "Address to listen on.")
    port: Port = option(..., "TCP port. 0 lets the system choose; the choice is logged.")
    product: EmptyOrShortString = option(
        "",
        "Server property `product` for everybody who connects here, such as `qpid` for Qpid's JMS "
        "client. Empty: as on the first port, where it depends on the client's address.",
    )


class Management(Section):
    """Where the HTTP interface listens."""

    enabled: bool = option(True, "Whether the HTTP interface is started at all.")
    bind: BindAddress = option("127.0.0.1", "Address to listen on.")
    port: Port = option(15672, "TCP port for HTTP. 0 lets the system choose; the choice is logged.")


class Identity(Section):
    """What the broker says it is.

    Clients decide by product and version which features they use, so the defaults name the
    RabbitMQ release whose behaviour this broker follows. Its own name goes into further properties.
    """

    product: ShortString = option("RabbitMQ", "Server property `product`.")
    qpid_product: QpidProduct = option(
        "RabbitMQ (qpid)",
        "Server property `product` for addresses that Qpid's JMS client connects from: it uses "
        "ADDR destinations only where it contains `qpid`. Empty: everybody is told `product`.",
    )
    version: str = option(
        "4.2.0",
        "Server property `version`. Clients parse it as a semantic version.",
        pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$",
    )
    cluster_name: ShortString = option(
        "hareline@{hostname}",
        "Server property `cluster_name`. `{hostname}` stands for this machine's short name.",
    )

    @field_validator("cluster_name")
    @classmethod
    def _with_the_host_name(cls, value: str) -> str:
        return value.replace("{hostname}", socket.gethostname().partition(".")[0])


class Limits(Section):
    """What one peer may ask of the broker."""

    frame_max_bytes: Octets = option(
        131_072,
        "Largest frame that is offered to a client, header and end octet included.",
        reload="live",
        ge=FRAME_MIN_BYTES,
        le=134_217_728,
    )
    channel_max: int = option(
        2047, "Channels a connection may open.", reload="live", ge=1, le=65535
    )
    heartbeat_s: int = option(
        60,
        "Heartbeat interval that is offered to a client; the client decides. 0 offers none.",
        reload="live",
        ge=0,
        le=65535,
    )
    handshake_timeout_s: float = option(
        10.0,
        "A connection that is not open after this time is dropped.",
        reload="live",
        gt=0,
        le=3600,
    )
    max_message_bytes: Octets = option(
        134_217_728,
        "Largest message body; a larger one closes its channel.",
        reload="live",
        ge=1,
        le=MESSAGE_MAX_BYTES,
    )
    large_message_bytes: Octets = option(
        1_048_576,
        "A larger body is never held in memory as a whole: it is written to a file of its own as "
        "it comes, and read from there as it is delivered.",
        ge=65_536,
        le=MESSAGE_MAX_BYTES,
    )
    max_connections: int = option(
        0, "Open connections of the whole broker; 0 means no limit.", reload="live", ge=0
    )
    max_consumers_per_channel: int = option(
        0, "Consumers on one channel; 0 means no limit.", reload="live", ge=0
    )
    max_selectors_per_queue: int = option(
        16_384,
        "Different selectors that the consumers of one queue may have, each of which may be held "
        "against each message; a long one, or one that searches texts with LIKE, counts as "
        "several. One more is refused with 406. 0 means no limit.",
        reload="live",
        ge=0,
    )
    write_buffer_high_bytes: Octets = option(
        262_144,
        "Octets that may wait for a client's socket before deliveries to it are suspended.",
        reload="live",
        ge=FRAME_MIN_BYTES,
    )


class Auth(Section):
    """How clients prove who they are. Users themselves are listed under [[users]]."""

    mechanisms: Mechanisms = option(
        ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256"),
        "SASL mechanisms that are offered, in this order. SCRAM-SHA-256 is left out while some "
        "user could not log in by it.",
    )
    loopback_users: tuple[str, ...] = option(
        ("guest",), "Users who may only connect from this machine.", reload="live"
    )
    failure_delay_s: float = option(
        3.0,
        "How long a refused connection is kept before its socket is dropped; slows guessing.",
        reload="live",
        ge=0,
        le=60,
    )


class Memory(Section):
    """When publishers are blocked because memory runs short."""

    watermark: Watermark = option(
        0.6,
        "Above it, connections that publish are blocked. Up to 1 it is a share of the memory this "
        "process may use (the cgroup's limit, if there is one); otherwise an amount, as a number "
        'of bytes or with a unit: "4GiB".',
        reload="live",
    )
    check_interval_s: float = option(
        1.0, "How often memory use is looked at.", reload="live", gt=0, le=60
    )
    spool_share: float = option(
        0.7,
        "Above this share of the watermark the contents of messages that are not persistent leave "
        "memory for the disk, and come back when they are delivered. 1 means never.",
        reload="live",
        gt=0,
        le=1,
    )

    def watermark_bytes(self, total_bytes: int) -> int:
        """The watermark in bytes, where ``total_bytes`` is what this process may use at most."""
        if isinstance(self.watermark, float):
            return int(self.watermark * total_bytes)
        return self.watermark


class Storage(Section):
    """Whether what is declared durable and what is published persistent outlives the process."""

    kind: StorageKind = option(
        "journal",
        "`journal`: on disk, below data_dir. `memory`: nothing is kept, every queue is gone with "
        "the process; for tests.",
    )


class Journal(Section):
    """Where persistent messages are, and when they count as safe."""

    sync: JournalSync = option(
        "always",
        "When a confirm is sent. `always`: what it confirms is on the disk. `interval`: it is with "
        "the system, and on the disk within sync_interval_ms; a crash of the machine, but not of "
        "the broker, may lose that much. `never`: the system decides when it writes.",
    )
    sync_interval_ms: int = option(
        1000, "How often the disk is synced where `sync` is `interval`.", ge=1, le=60_000
    )
    segment_bytes: Octets = option(
        67_108_864,
        "Size of the journal's files; each is allocated as a whole.",
        ge=SEGMENT_MIN_BYTES,
        le=SEGMENT_MAX_BYTES,
    )
    on_corruption: CorruptionPolicy = option(
        "fail",
        "When the journal is found damaged, other than by a write that a crash cut off. `fail`: "
        "the broker says what is damaged and does not start. `skip`: it leaves out what is damaged "
        "and goes on behind it. `truncate`: it drops everything from there on.",
    )
    retention_age_s: int = option(
        0,
        "How long journal files are kept that no queue needs any more, so that messages can be "
        "replayed from them; 0 means no limit. Where retention_bytes is 0 too, none is kept.",
        ge=0,
    )
    retention_bytes: Octets = option(
        0,
        "How much of the disk such files may take, the oldest go first; 0 means no limit. Where "
        "retention_age_s is 0 too, none is kept.",
        ge=0,
    )


class Disk(Section):
    """When publishers are blocked because the disk of data_dir runs full."""

    free_watermark: DiskWatermark = option(
        "auto",
        "With less free space, connections that publish are blocked. Up to 1 it is a share of the "
        "disk, otherwise an amount, as a number of bytes or with a unit. `auto`: 2 % of the disk, "
        "but not more than 1 GiB.",
        reload="live",
    )
    check_interval_s: float = option(
        1.0, "How often free space is looked at.", reload="live", gt=0, le=60
    )

    def watermark_bytes(self, total_bytes: int) -> int:
        """The watermark in bytes, where ``total_bytes`` is the size of the disk."""
        if self.free_watermark == "auto":
            return min(int(DISK_SHARE * total_bytes), DISK_AT_MOST_BYTES)
        if isinstance(self.free_watermark, float):
            return int(self.free_watermark * total_bytes)
        return self.free_watermark


class Shutdown(Section):
    """How the broker stops."""

    deadline_s: float = option(
        10.0,
        "After SIGTERM, connections have this long to take what was sent to them and to close.",
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


class VirtualHost(Section):
    """A name space of exchanges and queues, with its own permissions."""

    name: ShortString = option(..., "Name, as clients give it when they connect.", reload="live")
    max_connections: int = option(
        0, "Open connections of this virtual host; 0 means no limit.", reload="live", ge=0
    )
    max_queues: int = option(
        0, "Queues of this virtual host; 0 means no limit.", reload="live", ge=0
    )
    default_dead_letter_exchange: str = option(
        "",
        "Exchange that takes the dead letters of queues that name none themselves, with the "
        "routing key `queue.reason`; a topic exchange of this name is made if there is none. "
        "Empty: they are dropped. In force for queues declared afterwards.",
        reload="live",
        max_length=255,
    )
    default_prefetch: int = option(
        0,
        "Messages that a consumer may have unacknowledged when its client has said nothing "
        "(basic.qos, x-prefetch-count); 0 means no limit.",
        reload="live",
        ge=0,
    )
    prefetch_profile: Literal["none", "activemq"] = option(
        "none",
        "In place of `default_prefetch`, a default for each kind of queue; `activemq`: 1000, but "
        "100 for the exclusive consumer of a durable queue, 32766 for a server-named auto-delete "
        "queue, 500 for a browser.",
        reload="live",
    )
    prefetch_max: int = option(
        0,
        "Upper bound of what a client may ask for, and of the defaults; a low one makes priorities "
        "and other orders exact. 0 means no bound.",
        reload="live",
        ge=0,
    )

    @model_validator(mode="after")
    def _has_one_default_prefetch(self) -> Self:
        _refuse(_prefetch_problems(self))
        return self


class Permission(Section):
    """What a user may do in one virtual host.

    The patterns are searched for anywhere in a resource's name, so `^` and `$` matter; an empty
    one permits nothing.
    """

    vhost: str = option(..., "Name of the virtual host.", reload="live")
    configure: PermissionPattern = option(
        "", "Names that may be declared and deleted.", reload="live"
    )
    write: PermissionPattern = option(
        "", "Names that may be published to and bound.", reload="live"
    )
    read: PermissionPattern = option(
        "", "Names that may be consumed from and bound to.", reload="live"
    )


class User(Section):
    """Someone who may connect. Exactly one of `password` and `password_hash` is given; `scram` may
    stand beside the latter, or in its place where every user can log in by SCRAM-SHA-256.
    """

    name: ShortString = option(..., "Name to log in with.", reload="live")
    password: SecretStr | None = option(None, "The password itself.", reload="live")
    password_hash: str | None = option(
        None,
        "Salt and digest in base64, as `hareline hash-password` prints.",
        reload="live",
        repr=False,
    )
    hashing: HashingAlgorithm = option(
        "sha256", "Digest that `password_hash` was made with.", reload="live"
    )
    scram: ScramKeys = option(
        None,
        "Keys for SCRAM-SHA-256, as `hareline hash-password --scram` prints; a `password` needs "
        "none.",
        reload="live",
        repr=False,
    )
    tags: tuple[str, ...] = option(
        (),
        "Roles: `impersonator` may publish under any user-id, the others matter to HTTP.",
        reload="live",
    )
    permissions: tuple[Permission, ...] = option(
        (), "Rights, one table per virtual host.", reload="live"
    )

    @property
    def is_scram_safe(self) -> bool:
        """Whether any client can log in as this user by SCRAM; ``auth.users`` goes by the same."""
        return _is_scram_safe(self)

    @field_validator("password")
    @classmethod
    def _is_not_empty(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty password would let in whoever knows the name; RabbitMQ refuses it as well.
        if value is not None and not value.get_secret_value():
            raise PydanticCustomError("empty_password", "Password should not be empty")
        return value

    @model_validator(mode="after")
    def _proves_itself_in_one_way(self) -> Self:
        _refuse(_credential_problems(self))
        return self


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
    listeners: tuple[FurtherListener, ...] = option(
        (),
        "Further ports for AMQP clients, beside that of `listener`: a table [[listeners]] for "
        "each, with `port`, and `bind` and `product` where these are not to be the usual ones.",
    )
    listener: Listener = Listener()
    management: Management = Management()
    identity: Identity = Identity()
    limits: Limits = Limits()
    auth: Auth = Auth()
    memory: Memory = Memory()
    storage: Storage = Storage()
    journal: Journal = Journal()
    disk: Disk = Disk()
    shutdown: Shutdown = Shutdown()
    log: Log = Log()
    vhosts: tuple[VirtualHost, ...] = option(
        (VirtualHost.model_construct(name="/"),),  # its check is defined further down
        "Virtual hosts. A running broker adds new ones; it never removes one.",
        reload="live",
    )
    users: tuple[User, ...] = Field(
        default_factory=_guest,
        description="Users. Giving any replaces the default one: guest with the password guest, "
        "who may do everything in every virtual host, but from this machine only.",
        json_schema_extra={"reload": "live"},
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _refuse(_mismatches(self))
        return self


def mismatch_details(tree: Mapping[str, Any]) -> list[ErrorDetails]:
    """What does not fit together in a tree of JSON values, parts of which may be invalid.

    pydantic looks at a table as a whole only if each of its values is valid; this names the rest in
    the same go. Whatever depends on an invalid value is passed over.
    """
    try:
        _refuse(_mismatches(tree))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def leaf_options() -> Iterator[tuple[str, FieldInfo]]:
    """Every option by its dotted name (``listener.port``), in the order of the file.

    Lists of tables (``users``) count as one option.
    """
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for key, inner in section.model_fields.items():
                yield f"{name}.{key}", inner
        else:
            yield name, field


def reload_of(field: FieldInfo) -> Reload:
    """Whether a running broker takes a new value of this option over."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "options are declared with option()"
    return "live" if extra["reload"] == "live" else "restart"


def changed_options(old: Settings, new: Settings) -> list[str]:
    """Dotted names of the options that differ, in the order of the file."""
    return [name for name, _ in leaf_options() if value_of(old, name) != value_of(new, name)]


def restart_options(old: Settings, new: Settings) -> list[str]:
    """What differs and a running broker cannot take over, as it is to be named to the operator.

    A virtual host that is no longer listed is one of them: removing it would drop its queues.
    """
    names = [
        name
        for name, field in leaf_options()
        if reload_of(field) == "restart" and value_of(old, name) != value_of(new, name)
    ]
    kept = {vhost.name for vhost in new.vhosts}
    return names + [f"vhosts: {vhost.name}" for vhost in old.vhosts if vhost.name not in kept]


def value_of(settings: Settings, name: str) -> object:
    """The value of an option by its dotted name."""
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _refuse(problems: Iterable[InitErrorDetails]) -> None:
    """Raise all problems at once, each at its own place below the model that is validated."""
    found = list(problems)
    if found:
        raise ValidationError.from_exception_data("settings", found)


def _problem(place: tuple[str | int, ...], message: str, **values: object) -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError(INCONSISTENT, message, values), loc=place, input=None
    )


def _below(
    place: tuple[str | int, ...], problems: Iterable[InitErrorDetails]
) -> Iterator[InitErrorDetails]:
    for problem in problems:
        problem["loc"] = (*place, *problem.get("loc", ()))
        yield problem


# ------------------------------------------------------------- what has to fit together
#
# These look at validated settings, and at trees of JSON values in which something else is wrong.


class _Unknown:
    """Stands for a value that is invalid, or that a misspelt key was meant to give."""


_UNKNOWN: Final = _Unknown()


def _value(model: type[Section], table: object, key: str) -> Any:
    """What a table says of a key: a default counts, and ``_UNKNOWN`` is what cannot be told."""
    if isinstance(table, Section):
        return getattr(table, key)
    if not isinstance(table, Mapping):
        return _UNKNOWN
    if key in table:
        return table[key]
    field = model.model_fields[key]
    if field.is_required() or not table.keys() <= model.model_fields.keys():
        return _UNKNOWN
    return field.default


def _known(model: type[Section], table: object, key: str, kind: type[T]) -> T | None:
    """The value of a key if it is of this type."""
    value = _value(model, table, key)
    return value if isinstance(value, kind) else None


def _tables(settings: object, key: str) -> Sequence[object]:
    found = _value(Settings, settings, key)
    return found if isinstance(found, list | tuple) else ()


def _mismatches(settings: object) -> Iterator[InitErrorDetails]:
    vhosts, users = _tables(settings, "vhosts"), _tables(settings, "users")
    if not vhosts and isinstance(_value(Settings, settings, "vhosts"), list | tuple):
        yield _problem(("vhosts",), "at least one virtual host should be listed")
    for index, vhost in enumerate(vhosts):
        yield from _below(("vhosts", index), _prefetch_problems(vhost))
    for index, user in enumerate(users):
        yield from _below(("users", index), _credential_problems(user))
    yield from _repetitions("vhosts", VirtualHost, vhosts)
    yield from _repetitions("users", User, users)
    yield from _permission_problems(users, [_known(VirtualHost, v, "name", str) for v in vhosts])
    yield from _mechanism_problems(settings, users)
    yield from _port_problems(settings)


def _prefetch_problems(vhost: object) -> Iterator[InitErrorDetails]:
    profile = _known(VirtualHost, vhost, "prefetch_profile", str)
    if _known(VirtualHost, vhost, "default_prefetch", int) and profile not in (None, "none"):
        message = "Input should be 0 where prefetch_profile is '{profile}'"
        yield _problem(("default_prefetch",), message, profile=profile)


class _Credentials(NamedTuple):
    """What a user proves itself with; None for what is not given."""

    password: object
    password_hash: object
    scram: object

    @classmethod
    def of(cls, user: object) -> _Credentials | None:
        """None if that cannot be told."""
        found = cls(*(_value(User, user, key) for key in cls._fields))
        return None if _UNKNOWN in found else found


def _credential_problems(user: object) -> Iterator[InitErrorDetails]:
    given = _Credentials.of(user)
    if given is None:
        return
    if given.password is not None and given.scram is not None:
        yield _problem((), "scram should not be given beside password, which it is made of")
    elif given.scram is None and (given.password is None) == (given.password_hash is None):
        yield _problem((), "Exactly one of password and password_hash should be given")
    hashing = _value(User, user, "hashing")
    if isinstance(given.password_hash, str) and hashing in get_args(HashingAlgorithm):
        yield from _hash_problems(given.password_hash, hashing)


def _hash_problems(text: str, hashing: HashingAlgorithm) -> Iterator[InitErrorDetails]:
    """The layout is RabbitMQ's: base64 of a 4-octet salt and the digest of salt and password."""
    try:
        length = len(base64.b64decode(text, validate=True))
    except ValueError:  # characters that are not ASCII are one, too
        yield _problem(("password_hash",), "Input should be base64")
        return
    expected = PASSWORD_SALT_OCTETS + hashlib.new(hashing).digest_size
    if length != expected:
        message = "Input should hold {expected} octets for {hashing}, not {length}"
        values = {"expected": expected, "hashing": hashing, "length": length}
        yield _problem(("password_hash",), message, **values)


def _repetitions(
    key: str, model: type[Section], tables: Sequence[object]
) -> Iterator[InitErrorDetails]:
    seen: set[str] = set()
    for index, table in enumerate(tables):
        name = _known(model, table, "name", str)
        if name is None:
            continue
        if name in seen:
            message = "'{name}' is already the name of another entry"
            yield _problem((key, index, "name"), message, name=name)
        seen.add(name)


def _permission_problems(
    users: Sequence[object], vhost_names: Collection[str | None]
) -> Iterator[InitErrorDetails]:
    for index, user in enumerate(users):
        seen: set[str] = set()
        permissions = _value(User, user, "permissions")
        if not isinstance(permissions, list | tuple):
            continue
        for position, permission in enumerate(permissions):
            vhost = _known(Permission, permission, "vhost", str)
            if vhost is None:
                continue
            place = ("users", index, "permissions", position, "vhost")
            if vhost in seen:
                yield _problem(place, "'{name}' already has an entry", name=vhost)
            elif vhost_names and vhost not in vhost_names and None not in vhost_names:
                yield _problem(place, "no virtual host '{name}' is listed", name=vhost)
            seen.add(vhost)


def _is_scram_safe(user: object) -> bool:
    password = _value(User, user, "password")
    if isinstance(password, SecretStr):
        password = password.get_secret_value()
    has_keys = password is not None or _value(User, user, "scram") is not None
    texts = (_value(User, user, "name"), password or "")
    return has_keys and all(
        text.isascii() and text.isprintable() for text in texts if isinstance(text, str)
    )


def _mechanism_problems(settings: object, users: Sequence[object]) -> Iterator[InitErrorDetails]:
    """Each user can log in by a mechanism that is offered to everybody."""
    mechanisms = _value(Auth, _value(Settings, settings, "auth"), "mechanisms")
    if not isinstance(mechanisms, list | tuple):
        return
    mechanisms = tuple(mechanisms)
    others = [_value(User, user, "name") for user in users if not _is_scram_safe(user)]
    for index, user in enumerate(users):
        name = _known(User, user, "name", str)
        given = _Credentials.of(user)
        if name is None or given is None or given.password is not None:
            continue
        if mechanisms == (SCRAM,) and given.scram is None:
            message = "'{name}' needs it: SCRAM-SHA-256 is the only mechanism"
            yield _problem(("users", index, "scram"), message, name=name)
        if given.password_hash is None and given.scram is not None:
            place = ("users", index, "password_hash")
            if SCRAM not in mechanisms:
                message = "'{name}' needs it: auth.mechanisms is without SCRAM-SHA-256"
                yield _problem(place, message, name=name)
            elif others and mechanisms != (SCRAM,):
                message = (
                    "'{name}' needs it: SCRAM-SHA-256 is not offered while '{other}' cannot use it"
                )
                yield _problem(place, message, name=name, other=others[0])


class _Claim(NamedTuple):
    """An address that a listener is to have; ``place`` is that of its port."""

    place: tuple[str | int, ...]
    name: str
    bind: str
    port: int


def _claims(settings: object) -> Iterator[_Claim]:
    """Of each listener whose address can be told."""
    tables: list[tuple[tuple[str | int, ...], str, type[Section], object]] = [
        (("listener",), "listener", Listener, _value(Settings, settings, "listener"))
    ]
    for index, further in enumerate(_tables(settings, "listeners")):
        name = f"listeners[{index}]"
        tables.append((("listeners", index), name, FurtherListener, further))
    management = _value(Settings, settings, "management")
    if _value(Management, management, "enabled") is True:
        tables.append((("management",), "management", Management, management))
    for place, name, model, table in tables:
        bind, port = _known(model, table, "bind", str), _known(model, table, "port", int)
        if bind is not None and port is not None:
            yield _Claim((*place, "port"), f"{name}.port", bind, port)


def _port_problems(settings: object) -> Iterator[InitErrorDetails]:
    """Ports that the system would refuse, since another listener has them on the same address."""
    claims = list(_claims(settings))
    for index, claim in enumerate(claims):
        for other in claims[:index]:
            if claim.port == other.port != 0 and _share_addresses(claim.bind, other.bind):
                message = "Input should differ from {other}, which is {port} too"
                yield _problem(claim.place, message, other=other.name, port=claim.port)
                break


def _share_addresses(one: str, other: str) -> bool:
    """Whether two values of ``bind`` mean the same interface, as far as the texts say."""
    if one == other:
        return True
    for bind, elsewhere in ((one, other), (other, one)):
        if bind in EVERY_INTERFACE:
            return EVERY_INTERFACE[bind] == (":" in elsewhere) or not _is_address(elsewhere)
    return "localhost" in (one, other) and bool({one, other} & LOOPBACK_ADDRESSES)


def _is_address(bind: str) -> bool:
    """Not a name, which may stand for addresses of both families."""
    try:
        ipaddress.ip_address(bind)
    except ValueError:
        return False
    return True
