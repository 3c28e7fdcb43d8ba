"""Options of who may connect, how users prove who they are, and what they may do."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, NamedTuple, Self, get_args

from pydantic import AfterValidator, SecretStr, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from hareline.choices import HashingAlgorithm
from hareline.patterns import check_template
from hareline.settings.section import UNKNOWN, Section, option, problem, refuse, value_in
from hareline.settings.values import (
    Backends,
    CertificateName,
    EmptyOrShortString,
    InWords,
    Mechanisms,
    PermissionPattern,
    ScramKeys,
    ShortString,
)

PASSWORD_SALT_OCTETS: Final = 4
ARGON2ID: Final = "argon2id"
#: As ``auth.argon2id`` reads it: memory, passes, lanes; salt and digest in base64 without padding.
_ARGON2ID_HASH: Final = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})"
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}",
    re.ASCII,
)
ARGON2ID_MEMORY_MAX_KIB: Final = 131_072
ARGON2ID_PASSES: Final = range(1, 17)
ARGON2ID_LANES: Final = range(1, 17)


class Auth(Section):
    """Authentication of clients. Users themselves are listed under [[users]]."""

    mechanisms: Mechanisms = option(
        ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256"),
        "SASL mechanisms that are offered, in this order, where they work. SCRAM-SHA-256 is left "
        "out while a user could not log in with it. EXTERNAL, by a client's certificate, is "
        "offered to those that have shown one. ANONYMOUS needs `anonymous_user`.",
    )
    anonymous_user: EmptyOrShortString = option(
        "", "The user as whom clients log in by ANONYMOUS, without a password.", reload="live"
    )
    passwords_need_tls: bool = option(
        False,
        "Whether PLAIN and AMQPLAIN, and logins over HTTP, are refused without TLS, except from "
        "this machine: they send the password as it is.",
        reload="live",
    )
    backends: Backends = option(
        ("internal",),
        "Who decides whether a user may log in, asked in this order until one says yes: this "
        "broker's own users, `oauth2` ([oauth]), `http` ([http_auth]), `ldap` ([ldap]).",
    )
    external_name: CertificateName = option(
        "common_name",
        "By EXTERNAL, which name in a client's certificate is the user's: that of its subject, or "
        "the first alternative name of this kind.",
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
    password_hashing: HashingAlgorithm = option(
        "argon2id",
        "What passwords set at run time are hashed by. With argon2id, the quick hashes of "
        "users who are not in the settings are replaced at their next login; RabbitMQ takes "
        "users with the others only.",
        reload="live",
    )
    login_failures_max: int = option(
        10,
        "Logins as one user that may fail from one address within a minute, over AMQP and HTTP "
        "together, and five times as many with all names; further ones are refused, right or "
        "wrong. 0 means no limit.",
        reload="live",
        ge=0,
        le=1000,
    )


class ExternalUser(Section):
    """Users that names in certificates stand for, by EXTERNAL. The first match decides."""

    match: PermissionPattern = option(
        ..., "Regular expression that the whole name has to match.", min_length=1
    )
    user: str = option(..., "The user; `\\1` stands for the first group of `match`.", min_length=1)

    @model_validator(mode="after")
    def _quotes_groups_that_exist(self) -> Self:
        try:
            check_template(self.match, self.user)
        except ValueError as error:
            message = "Input should quote only groups that match has: {reason}"
            refuse([problem(("user",), message, reason=str(error))])
        return self


class Permission(Section):
    """Permissions of a user in one virtual host.

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
        "What `hareline hash-password` prints: a hash by argon2id, or salt and digest in base64.",
        reload="live",
        repr=False,
    )
    hashing: HashingAlgorithm = option(
        "sha256",
        "Digest that `password_hash` was made with; a hash by argon2id says so itself.",
        reload="live",
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
    def algorithm(self) -> HashingAlgorithm:
        """Algorithm that ``password_hash`` was made by."""
        return _algorithm_of(self.password_hash or "", self.hashing)

    @field_validator("password")
    @classmethod
    def _is_not_empty(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty password would let in everyone who knows the name; RabbitMQ refuses it as well.
        if value is not None and not value.get_secret_value():
            raise PydanticCustomError("empty_password", "Password should not be empty")
        return value

    @model_validator(mode="after")
    def _proves_itself_in_one_way(self) -> Self:
        refuse(credential_problems(self))
        return self


class Credentials(NamedTuple):
    """Credentials of a user; None for those not given."""

    password: object
    password_hash: object
    scram: object

    @classmethod
    def of(cls, user: object) -> Credentials | None:
        """Credentials in the table of a user; None if not known."""
        found = cls(*(value_in(User, user, key) for key in cls._fields))
        return None if UNKNOWN in found else found


def credential_problems(user: object) -> Iterator[InitErrorDetails]:
    """Problems of a user's credentials."""
    given = Credentials.of(user)
    if given is None:
        return
    if given.password is not None and given.scram is not None:
        yield problem((), "scram should not be given beside password, which it is made of")
    elif given.scram is None and (given.password is None) == (given.password_hash is None):
        yield problem((), "Exactly one of password and password_hash should be given")
    hashing = value_in(User, user, "hashing")
    if isinstance(given.password_hash, str) and hashing in get_args(HashingAlgorithm):
        yield from _hash_problems(given.password_hash, _algorithm_of(given.password_hash, hashing))


def _algorithm_of(text: str, hashing: HashingAlgorithm) -> HashingAlgorithm:
    return ARGON2ID if text.startswith(f"${ARGON2ID}$") else hashing


def _hash_problems(text: str, hashing: HashingAlgorithm) -> Iterator[InitErrorDetails]:
    """The layout is RabbitMQ's: base64 of a 4-octet salt and the digest of salt and password.

    That of argon2id is the usual one.
    """
    if hashing == ARGON2ID:
        yield from _argon2id_problems(text)
        return
    try:
        length = len(base64.b64decode(text, validate=True))
    except ValueError:  # also raised for characters that are not ASCII
        yield problem(("password_hash",), "Input should be base64")
        return
    expected = PASSWORD_SALT_OCTETS + hashlib.new(hashing).digest_size
    if length != expected:
        message = "Input should hold {expected} octets for {hashing}, not {length}"
        values = {"expected": expected, "hashing": hashing, "length": length}
        yield problem(("password_hash",), message, **values)


def _argon2id_problems(text: str) -> Iterator[InitErrorDetails]:
    match = _ARGON2ID_HASH.fullmatch(text)
    if match is None:
        form = "$argon2id$v=19$m=...,t=...,p=...$salt$digest"
        yield problem(("password_hash",), "Input should read {form}", form=form)
        return
    memory_kib, passes, lanes = (int(each) for each in match.groups())
    if passes not in ARGON2ID_PASSES or lanes not in ARGON2ID_LANES:
        yield problem(("password_hash",), "Input should have t and p from 1 to 16")
    elif not 8 * lanes <= memory_kib <= ARGON2ID_MEMORY_MAX_KIB:
        message = "Input should have m from {least} to {most}"
        values = {"least": 8 * lanes, "most": ARGON2ID_MEMORY_MAX_KIB}
        yield problem(("password_hash",), message, **values)


def is_scram_safe_in(user: object) -> bool:
    """True if any client can log in as this user by SCRAM; the table may not be valid."""
    password = value_in(User, user, "password")
    if isinstance(password, SecretStr):
        password = password.get_secret_value()
    has_keys = password is not None or value_in(User, user, "scram") is not None
    texts = (value_in(User, user, "name"), password or "")
    return has_keys and all(
        text.isascii() and text.isprintable() for text in texts if isinstance(text, str)
    )


# ------------------------------------------------------------------------------------- access rules


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
