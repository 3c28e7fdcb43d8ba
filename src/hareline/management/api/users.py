"""Users, what they log in with, their permissions and their limits.

Invariant: no answer contains a password; hashes are shown to administrators alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel
from starlette.responses import Response

from hareline.administration.users import algorithm_name, secret_of
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import Permissions
from hareline.auth.users import User
from hareline.management.answers import answer, bad_request, no_content, not_found
from hareline.management.api.call import Body, Call, Routes
from hareline.management.api.listing import listing
from hareline.management.api.site import Site

routes = Routes("users", needs="administrator")
permissions_routes = Routes("permissions", needs="administrator")
limits_routes = Routes("limits", needs="administrator")


class UserInfo(BaseModel):
    """A user. ``set_by``: "settings" if it can only be changed there, else "run time".

    ``has_default_password``: everybody knows it. ``loopback_only``: it may log in from the broker's
    own machine only.
    """

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]
    set_by: str
    has_default_password: bool
    loopback_only: bool


class UserBody(Body):
    """A user to be made or changed, by a password or by its hash, or by none of them."""

    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] | None = None
    administrator: bool | str | None = None


class BulkDelete(Body):
    """Names of users to be deleted."""

    users: list[str]


class PasswordHash(BaseModel):
    """``ok``: the hash."""

    ok: str


@routes("GET /api/users", lists=UserInfo)
async def users(call: Call) -> Response:
    """All users."""
    return await _users(call, list(call.site.users))


@routes("GET /api/users/without-permissions", lists=UserInfo)
async def without_permissions(call: Call) -> Response:
    """Users who may not enter any virtual host."""
    return await _users(call, [user for user in call.site.users if not user.permissions])


@routes("POST /api/users/bulk-delete", body=BulkDelete, changes=True)
async def bulk_delete(call: Call) -> Response:
    """Delete several users; those that are not there are no error."""
    steps = call.administration.users.delete_all(call.body(BulkDelete).users, by=call.by)
    await call.run_changes(steps, "so the last ones are not deleted")
    return no_content()


@routes("GET /api/users/{user}", gives=UserInfo)
async def user(call: Call) -> Response:
    """One user."""
    return answer(describe_user(call.site, _user(call)))


@routes("PUT /api/users/{user}", body=UserBody, changes=True)
async def put_user(call: Call) -> Response:
    """Make a user, or change its password and tags. Without a password it has none."""
    body = call.body(UserBody)
    secret = None
    if body.password:
        secret = await asyncio.to_thread(secret_of, body.password, _hashing(call))
        await call.take_turn()  # the caller may have changed meanwhile
    is_new = call.administration.users.put(
        call.name("user"),
        password=body.password,
        password_hash=body.password_hash,
        hashing=body.hashing_algorithm,
        tags=_tags(body),
        secret=secret,
        by=call.by,
    )
    return await call.put_done(is_new)


@routes("DELETE /api/users/{user}", changes=True)
async def delete_user(call: Call) -> Response:
    """Delete a user; its connections are closed."""
    call.administration.users.delete(call.name("user"), by=call.by)
    return await call.done()


@routes("GET /api/auth/hash_password/{password}", gives=PasswordHash)
async def hashed(call: Call) -> Response:
    """The hash of a password, as ``password_hash`` of a user takes it."""
    found = await asyncio.to_thread(hash_password, call.name("password"), _hashing(call))
    return answer({"ok": found})


def describe_user(site: Site, user: User) -> dict[str, Any]:
    """A user as JSON."""
    users = site.administration.users
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": algorithm_name(user.hashing),
        "tags": list(user.tags),
        "limits": dict(users.limits(user.name)),
        "set_by": "settings" if users.origins.fixes_user(user.name) else "run time",
        "has_default_password": users.has_default_password(user.name),
        "loopback_only": user.name in site.settings().auth.loopback_users,
    }


async def _users(call: Call, found: list[User]) -> Response:
    return await listing(
        call,
        found,
        lambda user: describe_user(call.site, user),
        ("name",),
        name_of=lambda user: user.name,
    )


def _user(call: Call) -> User:
    """The user in the path. Raises AdministrationError."""
    return call.administration.users.lookup(call.name("user"))


def _hashing(call: Call) -> str:
    return call.site.settings().auth.password_hashing


def _tags(body: UserBody) -> list[str]:
    """Tags as a list, or as a text with commas; Raises Refusal if neither is given."""
    tags = body.tags
    if tags is None:
        if body.administrator is None:
            raise bad_request("tags_not_present")
        return ["administrator"] if body.administrator in (True, "true") else []
    given = tags.split(",") if isinstance(tags, str) else tags
    return [tag for tag in map(str.strip, given) if tag]


# --------------------------------------------------------------------------------- permissions


class PermissionInfo(BaseModel):
    """The patterns of a user in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionInfo(BaseModel):
    """The patterns of a user for the routing keys of a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class PermissionBody(Body):
    """Patterns for names; an empty one permits nothing."""

    configure: str
    write: str
    read: str


class TopicPermissionBody(Body):
    """Patterns for routing keys of an exchange."""

    exchange: str
    write: str
    read: str


class _Given(NamedTuple):
    user: str
    vhost: str
    permissions: Permissions

    def described(self) -> dict[str, str]:
        given = self.permissions
        patterns = {"configure": given.configure, "write": given.write, "read": given.read}
        return {"user": self.user, "vhost": self.vhost, **patterns}


@permissions_routes("GET /api/permissions", lists=PermissionInfo)
async def permissions(call: Call) -> Response:
    """The permissions of all users."""
    return await _permissions(call)


@permissions_routes("GET /api/users/{user}/permissions", lists=PermissionInfo)
async def user_permissions(call: Call) -> Response:
    """The permissions of a user."""
    return await _permissions(call, user=_user(call).name)


@permissions_routes("GET /api/vhosts/{vhost}/permissions", lists=PermissionInfo)
async def vhost_permissions(call: Call) -> Response:
    """The permissions in a virtual host."""
    return await _permissions(call, vhost=_vhost_name(call))


@permissions_routes("GET /api/permissions/{vhost}/{user}", gives=PermissionInfo)
async def permission(call: Call) -> Response:
    """The permissions of a user in a virtual host."""
    user, vhost = _user(call), call.name("vhost")
    found = user.permissions.get(vhost)
    if found is None or vhost not in call.site.vhosts:
        raise not_found()
    return answer(_Given(user.name, vhost, found).described())


@permissions_routes("PUT /api/permissions/{vhost}/{user}", body=PermissionBody, changes=True)
async def put_permission(call: Call) -> Response:
    """Set what a user may do in a virtual host; open connections follow at once."""
    body = call.body(PermissionBody)
    is_new = call.administration.users.put_permission(
        call.name("user"), call.name("vhost"), body.configure, body.write, body.read, by=call.by
    )
    return await call.put_done(is_new)


@permissions_routes("DELETE /api/permissions/{vhost}/{user}", changes=True)
async def delete_permission(call: Call) -> Response:
    """Take all permissions of a user in a virtual host."""
    call.administration.users.delete_permission(call.name("user"), call.name("vhost"), by=call.by)
    return await call.done()


@permissions_routes("GET /api/topic-permissions", lists=TopicPermissionInfo)
async def topic_permissions(call: Call) -> Response:
    """The topic permissions of all users."""
    return await _topic_permissions(call)


@permissions_routes("GET /api/users/{user}/topic-permissions", lists=TopicPermissionInfo)
async def user_topic_permissions(call: Call) -> Response:
    """The topic permissions of a user."""
    return await _topic_permissions(call, user=_user(call).name)


@permissions_routes("GET /api/vhosts/{vhost}/topic-permissions", lists=TopicPermissionInfo)
async def vhost_topic_permissions(call: Call) -> Response:
    """The topic permissions in a virtual host."""
    return await _topic_permissions(call, vhost=_vhost_name(call))


@permissions_routes("GET /api/topic-permissions/{vhost}/{user}", lists=TopicPermissionInfo)
async def topic_permission(call: Call) -> Response:
    """The topic permissions of a user in a virtual host."""
    user, vhost = _user(call), _vhost_name(call)
    if not any(key[0] == vhost for key in user.topic_permissions):
        raise not_found()
    return await _topic_permissions(call, user=user.name, vhost=vhost)


@permissions_routes(
    "PUT /api/topic-permissions/{vhost}/{user}", body=TopicPermissionBody, changes=True
)
async def put_topic_permission(call: Call) -> Response:
    """Set which routing keys a user may use with a topic exchange."""
    body = call.body(TopicPermissionBody)
    is_new = call.administration.users.put_topic_permission(
        call.name("user"), call.name("vhost"), body.exchange, body.write, body.read, by=call.by
    )
    return await call.put_done(is_new)


@permissions_routes("DELETE /api/topic-permissions/{vhost}/{user}", changes=True)
async def delete_topic_permissions(call: Call) -> Response:
    """Lift all bounds on the routing keys of a user in a virtual host."""
    names = call.name("user"), call.name("vhost")
    call.administration.users.delete_topic_permissions(*names, by=call.by)
    return await call.done()


@permissions_routes("DELETE /api/topic-permissions/{vhost}/{user}/{exchange}", changes=True)
async def delete_topic_permission(call: Call) -> Response:
    """Lift the bounds on the routing keys of a user for one exchange."""
    names = call.name("user"), call.name("vhost"), call.name("exchange")
    call.administration.users.delete_topic_permissions(*names, by=call.by)
    return await call.done()


async def _permissions(call: Call, user: str | None = None, vhost: str | None = None) -> Response:
    found = (
        each
        for each in _all_given(call.site)
        if user in (None, each.user) and vhost in (None, each.vhost)
    )
    return await listing(call, found, _Given.described, ("user", "vhost"))


async def _topic_permissions(
    call: Call, user: str | None = None, vhost: str | None = None
) -> Response:
    found = (
        each._asdict()
        for each in call.administration.users.topic_permissions()
        if user in (None, each.user) and vhost in (None, each.vhost)
    )
    return await listing(call, found, dict, ("user", "vhost", "exchange"))


def _all_given(site: Site) -> Iterator[_Given]:
    for user in list(site.users):
        for vhost, given in user.permissions.items():
            if vhost in site.vhosts:
                yield _Given(user.name, vhost, given)


def _vhost_name(call: Call) -> str:
    """The virtual host in the path, whoever may enter it. Raises AdministrationError."""
    return call.administration.vhosts.lookup(call.name("vhost")).name


# -------------------------------------------------------------------------------------- limits


class UserLimits(BaseModel):
    """The limits of a user: ``max-connections``, ``max-channels`` and rates of publishing."""

    user: str
    value: dict[str, int]


class LimitBody(Body):
    """A limit; a negative one means no limit."""

    value: object


@limits_routes("GET /api/user-limits", gives=list[UserLimits])
async def user_limits(call: Call) -> Response:
    """The limits of all users."""
    return answer(_limits(call, sorted(user.name for user in call.site.users)))


@limits_routes("GET /api/user-limits/{user}", gives=list[UserLimits])
async def limits_of_user(call: Call) -> Response:
    """The limits of a user, as an array of one or none."""
    return answer(_limits(call, [_user(call).name]))


@limits_routes("PUT /api/user-limits/{user}/{limit}", body=LimitBody, changes=True)
async def put_user_limit(call: Call) -> Response:
    """Set a limit of a user."""
    value = call.body(LimitBody).value
    call.administration.users.set_limit(call.name("user"), call.name("limit"), value, by=call.by)
    return await call.done()


@limits_routes("DELETE /api/user-limits/{user}/{limit}", changes=True)
async def delete_user_limit(call: Call) -> Response:
    """Lift a limit of a user."""
    call.administration.users.clear_limit(call.name("user"), call.name("limit"), by=call.by)
    return await call.done()


def _limits(call: Call, names: list[str]) -> list[dict[str, object]]:
    limits = call.administration.users.limits
    return [{"user": name, "value": dict(limits(name))} for name in names if limits(name)]
