"""``/api/users`` and ``/api/auth/hash_password``: users, and what they log in with.

Invariant: no answer contains a password; hashes are shown to administrators alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.administration.secrets import algorithm_name, secret_of
from hareline.auth.passwords import hash_password
from hareline.auth.users import User
from hareline.management.api.access import caller
from hareline.management.api.administering import (
    Body,
    administration_of,
    answer_done,
    answer_put,
    body_of,
    changer,
    changer_with_body,
    name_of,
    run_changes,
)
from hareline.management.api.answers import answer, no_content
from hareline.management.api.listing import listing
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.site import Site
from hareline.management.refusals import Refusal


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


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["users"])

    def describe(user: User) -> Mapping[str, Any]:
        return describe_user(site, user)

    def hashing() -> str:
        return site.settings().auth.password_hashing

    @router.get("/api/users", **list_route(UserInfo))
    async def users(request: Request) -> Response:
        """All users."""
        await caller(site, request, "administrator")
        return await listing(request, list(site.users), describe, ("name",), name_of=_name)

    @router.get("/api/users/without-permissions", **list_route(UserInfo))
    async def without_permissions(request: Request) -> Response:
        """Users who may not enter any virtual host."""
        await caller(site, request, "administrator")
        found = (user for user in list(site.users) if not user.permissions)
        return await listing(request, found, describe, ("name",), name_of=_name)

    @router.post("/api/users/bulk-delete", **body_route(BulkDelete))
    async def bulk_delete(request: Request) -> Response:
        """Delete several users; those that are not there are no error."""
        who, octets = await changer_with_body(site, request)
        body = body_of(BulkDelete, octets)
        steps = administration_of(site).users.delete_all(body.users, by=who.user.name)
        await run_changes(site, request, steps, "so the last ones are not deleted")
        return no_content()

    @router.get("/api/users/{user}", **one_route(UserInfo))
    async def user(request: Request) -> Response:
        """One user."""
        await caller(site, request, "administrator")
        return answer(describe(administration_of(site).users.lookup(name_of(request, "user"))))

    @router.put("/api/users/{user}", **body_route(UserBody))
    async def put_user(request: Request) -> Response:
        """Make a user, or change its password and tags. Without a password it has none."""
        who, octets = await changer_with_body(site, request)
        body = body_of(UserBody, octets)
        secret = None
        if body.password:
            secret = await asyncio.to_thread(secret_of, body.password, hashing())
            who = await changer(site, request)  # which may have changed meanwhile
        is_new = administration_of(site).users.put(
            name_of(request, "user"),
            password=body.password,
            password_hash=body.password_hash,
            hashing=body.hashing_algorithm,
            tags=_tags(body),
            secret=secret,
            by=who.user.name,
        )
        return await answer_put(site, is_new)

    @router.delete("/api/users/{user}", **one_route(None))
    async def delete_user(request: Request) -> Response:
        """Delete a user; its connections are closed."""
        who = await changer(site, request)
        administration_of(site).users.delete(name_of(request, "user"), by=who.user.name)
        return await answer_done(site)

    @router.get("/api/auth/hash_password/{password}", **one_route(PasswordHash))
    async def hashed(request: Request) -> Response:
        """The hash of a password, as ``password_hash`` of a user takes it."""
        await caller(site, request, "administrator")
        password = name_of(request, "password")
        return answer({"ok": await asyncio.to_thread(hash_password, password, hashing())})

    return router


def describe_user(site: Site, user: User) -> dict[str, Any]:
    """A user as JSON."""
    users = administration_of(site).users
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


def _name(user: User) -> str:
    return user.name


def _tags(body: UserBody) -> list[str]:
    """Tags as a list, or as a text with commas; Raises Refusal if neither is given."""
    tags = body.tags
    if tags is None:
        if body.administrator is None:
            raise Refusal(400, "bad_request", "tags_not_present")
        return ["administrator"] if body.administrator in (True, "true") else []
    given = tags.split(",") if isinstance(tags, str) else tags
    return [tag for tag in map(str.strip, given) if tag]
