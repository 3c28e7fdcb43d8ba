"""Users at run time: passwords, tags, permissions, topic permissions and limits.

``Users`` composes each user of the broker's ``UserRegistry`` of what the settings and the records
say, and has open connections take over the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from hareline import events
from hareline.administration.changes import INTERNAL, Changes
from hareline.administration.checks import (
    AdministrationError,
    bad_request,
    check_limit,
    check_name,
    in_force,
)
from hareline.administration.origins import Origins
from hareline.amqp.context import Context
from hareline.amqp.ports import LiveConnection
from hareline.auth.backends import Workers
from hareline.auth.passwords import (
    DEFAULT_ALGORITHM,
    KNOWN_ALGORITHMS,
    NEW_ALGORITHM,
    algorithm_of_hash,
    check_hash,
    hash_password,
    verify_password,
)
from hareline.auth.permissions import Permissions, TopicPermissions
from hareline.auth.scram import ScramKeys, new_keys
from hareline.auth.users import INTERNAL as INTERNAL_BACKEND
from hareline.auth.users import User
from hareline.errors import StoreError
from hareline.events import Report
from hareline.later import Job
from hareline.patterns import check_pattern
from hareline.storage.administration import (
    PermissionRecord,
    Record,
    RemovedDefault,
    TopicPermissionRecord,
    UserRecord,
)

RATES: Final = ("max-publish-rate", "max-publish-bytes-rate")
#: RabbitMQ has the first two.
USER_LIMITS: Final = ("max-connections", "max-channels", *RATES)
_DELETED_AT_ONCE: Final = 20
_PREFIX: Final = "rabbit_password_hashing_"  # before the name of an algorithm in RabbitMQ's JSON

_Change = Callable[[LiveConnection], None]


class Secret(NamedTuple):
    """The stored parts of a password. ``scram``: keys as text; empty: none can be made of it."""

    password_hash: str
    hashing: str
    scram: str


def secret_of(password: str, algorithm: str = NEW_ALGORITHM) -> Secret:
    """Return the parts of a password to store. Takes long for argon2id, so a thread calls it."""
    try:
        scram = str(new_keys(password))
    except ValueError:  # SASLprep prohibits it: it is good for the other mechanisms
        scram = ""
    return Secret(hash_password(password, algorithm), algorithm, scram)


def algorithm_of(hashing: str | None, stored: str = "") -> str:
    """Our name of the algorithm of a stored hash. Raises AdministrationError for an unknown one."""
    if hashing is None:
        return algorithm_of_hash(stored)
    name = hashing.removeprefix(_PREFIX)
    if name not in KNOWN_ALGORITHMS:
        known = ", ".join(_PREFIX + each for each in KNOWN_ALGORITHMS)
        raise bad_request(f"hashing_algorithm '{hashing}' is not known; known are: {known}")
    return name


def algorithm_name(hashing: str) -> str:
    """RabbitMQ's name of one of our hashing algorithms."""
    return _PREFIX + hashing


def is_same(user: User, record: UserRecord, password: str | None) -> bool:
    """True if this record asks for nothing but what the user is already."""
    if set(user.tags) != set(record.tags):
        return False
    if password is not None:
        return bool(user.password_hash) and verify_password(
            password, user.password_hash, user.hashing
        )
    return user.password_hash == record.password_hash and user.hashing == record.hashing


class Users:
    """``origins`` is replaced by a reload, followed by ``compose_all``."""

    def __init__(self, context: Context, changes: Changes, origins: Origins) -> None:
        self._context = context
        self._changes = changes
        self._connection_changes = ConnectionChanges(context)
        self.origins = origins
        store = changes.store
        self._records = {record.name: record for record in store.records(UserRecord)}
        self._permissions: dict[str, dict[str, PermissionRecord]] = {}
        for permission in store.records(PermissionRecord):
            self._permissions.setdefault(permission.user, {})[permission.vhost] = permission
        self._topics: dict[str, dict[tuple[str, str], TopicPermissionRecord]] = {}
        for topic in store.records(TopicPermissionRecord):
            self._topics.setdefault(topic.user, {})[topic.vhost, topic.exchange] = topic
        removed = store.records(RemovedDefault)
        self._removed = {each.name for each in removed if each.kind == "user"}
        self._is_reported = False

    # ------------------------------------------------------------------------- the registry

    def compose_all(self) -> None:
        """Bring the registry in line with settings and records."""
        there = {user.name for user in self._context.users}
        for name in sorted(there | self.origins.users.keys() | self._records.keys()):
            self._compose(name)
        self._report_default_users()

    def has_default_password(self, name: str) -> bool:
        """True for a default user that was given no password at run time: everybody knows it."""
        record = self._records.get(name)
        return (
            self.origins.are_users_default
            and name in self.origins.users
            and name not in self._removed
            and not (record is not None and record.is_own)
        )

    def _report_default_users(self) -> None:
        """Say once that a default user can go, as soon as another administrator can log in."""
        for name in self.origins.users:
            if self._is_reported or not self.has_default_password(name):
                continue
            for user in self._context.users:
                can_log_in = bool(user.password_hash) or user.scram is not None
                if user.name != name and can_log_in and "administrator" in user.tags:
                    self._is_reported = True
                    self._context.report(events.DEFAULT_USER_STAYS, user=name, other=user.name)
                    break

    def _compose(self, name: str) -> None:
        """Bring one user in line; a user that is gone takes its connections along."""
        registry = self._context.users
        user = self._composed(name)
        if user is None:
            if registry.remove(name) is not None:
                reason = f"user '{name}' is deleted"
                self._change_connections(name, lambda each: each.force_close(reason))
        elif user != registry.lookup(name):
            registry.add(user)
            self._change_connections(name, lambda each: each.renew_access())

    def renew_connections(self) -> None:
        """All connections take over what their users may do now: access rules have changed."""
        found = [each for each in self._context.connections if each.client.user is not None]
        self._connection_changes.add(found, lambda each: each.renew_access())

    def _change_connections(self, name: str, change: Callable[[LiveConnection], None]) -> None:
        found = [each for each in self._context.connections if is_administered(each, name)]
        self._connection_changes.add(found, change)

    def _composed(self, name: str) -> User | None:
        record = self._records.get(name)
        base = self._base(name, record)
        if base is None:
            return None
        given = {
            each.vhost: Permissions(each.configure, each.write, each.read)
            for each in self._permissions.get(name, {}).values()
        }
        if self.origins.fixes_user(name):  # where the settings give permissions, those count
            given.update(base.permissions)
        else:
            given = {**base.permissions, **given}
        limits = {} if record is None else record.limits
        return replace(
            base,
            permissions=given,
            topic_permissions={
                key: TopicPermissions(each.write, each.read)
                for key, each in self._topics.get(name, {}).items()
            },
            max_connections=in_force(limits.get("max-connections")),
            max_channels=in_force(limits.get("max-channels")),
            max_publish_rate=in_force(limits.get("max-publish-rate")),
            max_publish_bytes_rate=in_force(limits.get("max-publish-bytes-rate")),
        )

    def _base(self, name: str, record: UserRecord | None) -> User | None:
        """The user with its credentials and tags, without permissions; None if there is none."""
        origins = self.origins
        if origins.fixes_user(name):
            return origins.users[name]
        if record is not None and record.is_own:
            return User(
                name,
                record.password_hash,
                record.hashing,
                record.tags,
                scram=ScramKeys.parse(record.scram) if record.scram else None,
            )
        if name in self._removed:
            return None
        return origins.users.get(name)

    # --------------------------------------------------------------------------------- users

    def lookup(self, name: str) -> User:
        """Raises AdministrationError if there is no such user."""
        user = self._context.users.lookup(name)
        if user is None:
            raise AdministrationError("not_found", f"no user '{name}'")
        return user

    def put(
        self,
        name: str,
        *,
        password: str | None = None,
        password_hash: str | None = None,
        hashing: str | None = None,
        tags: Iterable[str] = (),
        secret: Secret | None = None,
        by: str = INTERNAL,
    ) -> bool:
        """Make or change a user; True if it was made. Neither password: it cannot log in by one.

        ``hashing``: an algorithm by RabbitMQ's name or ours. ``secret``: of ``password``; without
        it a quick hash is made, which the next login replaces. Raises AdministrationError.
        """
        check_name("user", name)
        algorithm = algorithm_of(hashing, password_hash or "")
        if password is not None and password_hash is not None:
            raise bad_request("both_password_and_password_hash_are_provided")
        if password == "":
            raise bad_request(f"user '{name}': the password is empty, so it would let anybody in")
        stored, scram = password_hash or "", ""
        if password is not None:
            stored, algorithm, scram = secret or secret_of(password, DEFAULT_ALGORITHM)
        elif stored:
            try:
                check_hash(stored, algorithm)
            except ValueError as problem:
                raise bad_request(f"user '{name}': {problem}") from None
        before = self._records.get(name)
        if stored and before is not None and before.password_hash == stored:
            scram = before.scram
        distinct = tuple(dict.fromkeys(tags))
        record = UserRecord(
            name, stored, algorithm, scram, distinct, self.limits(name), is_own=True
        )
        existing = self._context.users.lookup(name)
        if self.origins.fixes_user(name):
            if existing is not None and is_same(existing, record, password):
                return False
            raise self.origins.user_is_fixed(name)
        extra = self._kept_permissions(name, existing)

        def apply() -> None:
            self._records[name] = record
            for permission in extra:
                self._permissions.setdefault(name, {})[permission.vhost] = permission
            self._compose(name)
            if existing is None:
                self._changes.tell("user.created", by, name=name)
            elif password is not None or password_hash is not None:
                self._changes.tell("user.password.changed", by, name=name)
            else:
                self._changes.tell("user.password.cleared", by, name=name)
            if record.tags or existing is not None:
                self._changes.tell("user.tags.set", by, name=name, tags=list(record.tags))
            self._report_default_users()

        self._changes.write(apply, put=[record, *extra])
        return existing is None

    def _kept_permissions(self, name: str, existing: User | None) -> list[PermissionRecord]:
        """The permissions that the default user has and no record says."""
        record, base = self._records.get(name), self.origins.users.get(name)
        if existing is None or base is None or (record is not None and record.is_own):
            return []
        return _permission_records(base, but=self._permissions.get(name, {}))

    def can_rehash(self, user: User) -> bool:
        """True if a record has the hash of this user, as it is here, and nothing is under way."""
        record = self._records.get(user.name)
        return (
            record is not None
            and not self._changes.is_pending
            and record.is_own
            and not self.origins.fixes_user(user.name)
            and (record.password_hash, record.hashing) == (user.password_hash, user.hashing)
        )

    def rehash(
        self, user: User, password_hash: str, hashing: str, on_done: Callable[[], None]
    ) -> None:
        """Store the same password by another hash, if that can be done now."""
        if not self.can_rehash(user):
            return
        record = self._records[user.name]._replace(password_hash=password_hash, hashing=hashing)

        def apply() -> None:
            self._records[user.name] = record
            self._compose(user.name)
            on_done()

        self._changes.write(apply, put=[record])

    def delete(self, name: str, *, by: str = INTERNAL) -> None:
        """Delete a user with all permissions; its connections are closed.

        Raises AdministrationError: there is none, or the settings name it.
        """
        self.lookup(name)
        for _ in self.delete_all((name,), by=by):
            continue

    def _delete(self, names: Sequence[str], by: str) -> None:
        gone: list[Record] = []
        for name in names:
            gone += self._permissions.get(name, {}).values()
            gone += self._topics.get(name, {}).values()
            gone += [self._records[name]] if name in self._records else []
        removed = [RemovedDefault("user", name) for name in names if name in self.origins.users]

        def apply() -> None:
            self._removed.update(each.name for each in removed)
            for name in names:
                self._records.pop(name, None)
                self._permissions.pop(name, None)
                self._topics.pop(name, None)
                self._compose(name)
                self._changes.tell("user.deleted", by, name=name)

        self._changes.write(apply, delete=gone, put=removed)

    def delete_all(
        self, names: Iterable[str], *, by: str = INTERNAL
    ) -> Generator[None, None, None]:
        """Delete these users, some a step; a missing one is no error.

        Raises AdministrationError before the first is deleted.
        """
        there = [name for name in dict.fromkeys(names) if name in self._context.users]
        for name in there:
            if self.origins.fixes_user(name):
                raise self.origins.user_is_fixed(name)
        for start in range(0, len(there), _DELETED_AT_ONCE):
            step = there[start : start + _DELETED_AT_ONCE]
            self._delete([name for name in step if name in self._context.users], by)
            yield

    # --------------------------------------------------------------------------- permissions

    def put_permission(
        self, user: str, vhost: str, configure: str, write: str, read: str, *, by: str = INTERNAL
    ) -> bool:
        """Set what a user may do in a virtual host; True if it had no permissions there.

        Raises AdministrationError: no such user or virtual host, a bad pattern, set elsewhere.
        """
        found = self._user_in(user, vhost)
        _check_patterns(
            f"permissions of user '{user}'", configure=configure, write=write, read=read
        )
        permissions = Permissions(configure, write, read)
        before = found.permissions.get(vhost)
        if self._fixes_permission(user, vhost):
            if before == permissions:
                return False
            raise self.origins.permission_is_fixed(user, vhost)
        record = PermissionRecord(user, vhost, configure, write, read)

        def apply() -> None:
            self._permissions.setdefault(user, {})[vhost] = record
            self._compose(user)
            self._changes.tell("permission.created", by, **record._asdict())

        self._changes.write(apply, put=[record])
        return before is None

    def delete_permission(self, user: str, vhost: str, *, by: str = INTERNAL) -> None:
        """Take all permissions in a virtual host; connections there are closed.

        Raises AdministrationError.
        """
        found = self._context.users.lookup(user)
        if found is None or vhost not in found.permissions:
            raise AdministrationError("not_found", f"user '{user}' has no permissions in '{vhost}'")
        if self._fixes_permission(user, vhost):
            raise self.origins.permission_is_fixed(user, vhost)
        record = self._permissions.get(user, {}).get(vhost)

        def done() -> None:
            self._compose(user)
            self._changes.tell("permission.deleted", by, user=user, vhost=vhost)

        if record is None:  # of the default user: from now on it has a record of its own
            self._own(found, vhost, done)
            return

        def apply() -> None:
            del self._permissions[user][vhost]
            done()

        self._changes.write(apply, delete=[record])

    def _fixes_permission(self, user: str, vhost: str) -> bool:
        origins = self.origins
        return origins.fixes_user(user) and vhost in origins.users[user].permissions

    def _own(self, user: User, except_in: str, on_done: Callable[[], None]) -> None:
        """Write down the default user as it is, but for its permissions in this virtual host."""
        keys = user.scram
        scram = "" if keys is None else str(keys if isinstance(keys, ScramKeys) else keys.derive())
        tags, limits = tuple(user.tags), self.limits(user.name)
        record = UserRecord(
            user.name, user.password_hash, user.hashing, scram, tags, limits, is_own=True
        )
        permissions = _permission_records(user, but=(except_in,))

        def apply() -> None:
            self._records[user.name] = record
            self._permissions[user.name] = {each.vhost: each for each in permissions}
            on_done()

        self._changes.write(apply, put=[record, *permissions])

    # --------------------------------------------------------------------- topic permissions

    def put_topic_permission(
        self, user: str, vhost: str, exchange: str, write: str, read: str, *, by: str = INTERNAL
    ) -> bool:
        """Set which routing keys a user may use with a topic exchange; True if that is new.

        Raises AdministrationError: no such user or virtual host, a bad name or pattern.
        """
        self._user_in(user, vhost)
        if exchange:  # the default exchange has an empty name
            check_name("exchange", exchange)
        _check_patterns(f"topic permissions of user '{user}'", write=write, read=read)
        record = TopicPermissionRecord(user, vhost, exchange, write, read)
        is_new = (vhost, exchange) not in self._topics.get(user, {})

        def apply() -> None:
            self._topics.setdefault(user, {})[vhost, exchange] = record
            self._compose(user)
            self._changes.tell("topic.permission.created", by, **record._asdict())

        self._changes.write(apply, put=[record])
        return is_new

    def delete_topic_permissions(
        self, user: str, vhost: str, exchange: str | None = None, *, by: str = INTERNAL
    ) -> None:
        """Lift the bounds on routing keys in a virtual host, or for one exchange of it.

        Raises AdministrationError.
        """
        self._user_in(user, vhost)
        topics = self._topics.get(user, {})
        gone = [
            record
            for key, record in topics.items()
            if key[0] == vhost and exchange in (None, key[1])
        ]
        if not gone:
            raise AdministrationError("not_found", f"user '{user}' has no topic permissions there")

        def apply() -> None:
            for record in gone:
                del topics[record.vhost, record.exchange]
            self._compose(user)
            self._changes.tell("topic.permission.deleted", by, user=user, vhost=vhost)

        self._changes.write(apply, delete=gone)

    def topic_permissions(self) -> list[TopicPermissionRecord]:
        """All topic permissions of users that there are."""
        users = self._context.users
        return [
            record
            for user, topics in self._topics.items()
            if user in users
            for record in topics.values()
        ]

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is gone, with the records of permissions in it."""
        for records in self._permissions.values():
            records.pop(vhost, None)
        for topics in self._topics.values():
            for key in [key for key in topics if key[0] == vhost]:
                del topics[key]
        for user in list(self._context.users):
            if vhost in user.permissions or any(key[0] == vhost for key in user.topic_permissions):
                self._compose(user.name)

    # --------------------------------------------------------------------------------- limits

    def limits(self, name: str) -> Mapping[str, int]:
        """The limits of a user, by RabbitMQ's names; a negative one means no limit."""
        record = self._records.get(name)
        return {} if record is None else record.limits

    def set_limit(self, name: str, limit: str, value: object, *, by: str = INTERNAL) -> None:
        """Set one limit of a user. Raises AdministrationError."""
        self.lookup(name)
        checked = check_limit("user-limits", limit, value, USER_LIMITS)
        if limit in RATES and checked == 0:
            raise bad_request(
                f"{limit} should be at least 1, or negative for no limit: a user that may publish "
                "nothing at all needs permissions without write"
            )
        limits = {**self.limits(name), limit: checked}
        self._put_limits(name, limits, "user.limits.set", by, **{limit: checked})

    def clear_limit(self, name: str, limit: str, *, by: str = INTERNAL) -> None:
        """Lift one limit of a user, if it is set."""
        self.lookup(name)
        limits = {key: value for key, value in self.limits(name).items() if key != limit}
        self._put_limits(name, limits, "user.limits.cleared", by, limit=limit)

    def _put_limits(
        self, name: str, limits: Mapping[str, int], event: str, by: str, **told: object
    ) -> None:
        empty = UserRecord(name, "", DEFAULT_ALGORITHM, "", (), {}, is_own=False)
        record = self._records.get(name, empty)._replace(limits=limits)

        def apply() -> None:
            self._records[name] = record
            self._compose(name)
            self._changes.tell(event, by, name=name, **told)

        self._changes.write(apply, put=[record])

    def _user_in(self, user: str, vhost: str) -> User:
        found = self._context.users.lookup(user)
        if found is None or vhost not in self._context.vhosts:
            raise bad_request("vhost_or_user_not_found")
        return found


def _permission_records(user: User, but: Container[str]) -> list[PermissionRecord]:
    """The permissions of a user as records, but for those in these virtual hosts."""
    return [
        PermissionRecord(user.name, vhost, each.configure, each.write, each.read)
        for vhost, each in user.permissions.items()
        if vhost not in but
    ]


def _check_patterns(what: str, **patterns: str) -> None:
    """Raises AdministrationError for a pattern that is invalid, too long or too slow."""
    for right, pattern in patterns.items():
        try:
            check_pattern(pattern)
        except ValueError as problem:
            raise bad_request(
                f"{what}: {right} pattern '{pattern}' is not a regular expression: it {problem}"
            ) from None


class PasswordUpgrades:
    """Slow hashes for users whose password is stored by a quick one, made at their next login.

    RabbitMQ's definitions bring quick ones, and an import hashes passwords by them. A login is the
    moment when the broker has the password; a thread computes the new hash. ``algorithm``: what
    passwords are to be hashed by; called each time, for reloads.
    """

    def __init__(
        self, users: Users, workers: Workers, algorithm: Callable[[], str], report: Report
    ) -> None:
        self._users = users
        self._workers = workers
        self._algorithm = algorithm
        self._report = report
        self._under_way: set[str] = set()

    def on_proven(self, user: User, password: str) -> None:
        """Have the password hashed again, which was right, if its hash is a quick one."""
        if user.hashing == NEW_ALGORITHM or self._algorithm() != NEW_ALGORITHM:
            return
        if user.name in self._under_way or not self._users.can_rehash(user):
            return
        self._under_way.add(user.name)
        work = partial(hash_password, password, NEW_ALGORITHM)
        if not self._workers.submit("", work, partial(self._on_hashed, user)):
            self._under_way.discard(user.name)  # the next login tries again

    def _on_hashed(self, user: User, password_hash: str | None) -> None:
        self._under_way.discard(user.name)
        if password_hash is None:
            return

        def report() -> None:
            self._report(events.PASSWORD_REHASHED, user=user.name, before=user.hashing)

        with suppress(StoreError):  # the next login tries again
            self._users.rehash(user, password_hash, NEW_ALGORITHM, report)


# --------------------------------------------------------------------------------- open connections


class ConnectionChanges(Job):
    """Changes of users carried over to open connections, in their order, in shares of the turn.

    As many as a share has time for follow at once, so that a user with ten thousand connections
    makes no other client wait. One that is gone by then is left out.
    """

    __slots__ = ("_context", "_due", "_is_under_way")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due: deque[tuple[LiveConnection, _Change]] = deque()
        self._is_under_way = False

    def add(self, connections: Iterable[LiveConnection], change: _Change) -> None:
        self._due.extend([(connection, change) for connection in connections])
        if self._due and not self._is_under_way:
            self._is_under_way = not self._context.shares.start(self, self._on_done)

    def run(self, until_s: float) -> bool:
        context, due = self._context, self._due
        while due:
            connection, change = due.popleft()
            if connection in context.connections:
                try:
                    change(connection)
                except BaseException:  # this run is lost, but the next change goes on
                    self._is_under_way = False
                    raise
                if context.clock.running_s() >= until_s:
                    break
        return not due

    def _on_done(self) -> None:
        self._is_under_way = False


def is_administered(connection: LiveConnection, name: str) -> bool:
    """True if the user of this name that is administered here has logged in on the connection."""
    user = connection.client.user
    return user is not None and user.name == name and user.backend == INTERNAL_BACKEND
