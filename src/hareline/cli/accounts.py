"""``hareline user`` and ``hareline vhost``: who may use the broker, and how much of it.

Invariant: a new password is read from standard input or the terminal, never from a flag, or it is
made here and written to standard output once.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import Any, Final

from click import argument, option

from hareline.cli.command import Group, Session, client_command, pairs
from hareline.cli.completing import Completer, complete_user, complete_vhost
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.listing import compiled
from hareline.cli.output import Column


def add_limits(group: Group, kind: str, title: str, complete: Completer, names: str) -> None:
    """Add ``limits`` to the group of this ``kind``, "user" or "vhost"; ``names``: for the help."""

    @client_command(
        group,
        help=f"Show or set the limits of a {title}.\n\n"
        "Shows them as they are then. 0 forbids all, a negative number sets no limit.",
    )
    @argument("name", shell_complete=complete, help=f"The {title}.")
    @argument(
        "limit",
        nargs=-1,
        metavar="[LIMIT=N]...",
        help=f"{names}; nothing behind the = removes a limit.",
    )
    def limits(session: Session, name: str, limit: tuple[str, ...]) -> None:
        what, path = f"{title} '{name}'", (f"{kind}-limits", name)
        wanted = {key: _number(key, text) for key, text in pairs(limit, "LIMIT").items()}
        session.api.get(path_of(f"{kind}s", name), what=what)  # a limit is kept for no other
        for key, number in wanted.items():
            if number is None:
                session.api.delete(path_of(*path, key), what=f"limit '{key}' of {what}")
            else:
                session.api.put(path_of(*path, key), {"value": number}, what=what)
        found = session.api.get(path_of(*path))
        values = found[0]["value"] if found else {}
        rows = [{"limit": key, "value": value} for key, value in values.items()]
        session.out.table((Column("limit", "limit"), Column("value", "value", "count")), rows)


def _number(key: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise CommandFailed(f"{key}: '{text}' is not a whole number", ExitStatus.USAGE) from None


user = Group("user", help="List, add, change and delete users.")

_user = argument("name", shell_complete=complete_user, help="The user.")
_tags = option(
    "--tag",
    multiple=True,
    metavar="TAG",
    help="administrator, monitoring, policymaker or management; may be given again.",
)
_password_hash = option(
    "--password-hash", metavar="HASH", help="What `hash-password` prints, in place of a password."
)
#: Octets of a password that is made here, 32 characters.
_NEW_PASSWORD_OCTETS: Final = 24
_USERS: Final = (Column("name", "name"), Column("tags", "tags"))
_PERMISSIONS: Final = (
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("configure", "configure"),
    Column("write", "write"),
    Column("read", "read"),
)


@client_command(user, "list")
def list_users(session: Session) -> None:
    """List users and their tags."""
    rows = session.api.get(path_of("users"))
    if not session.out.is_json:
        rows = [{**row, "tags": ",".join(_tags_of(row))} for row in rows]
    session.out.table(_USERS, rows)


@client_command(user)
@_user
@_tags
@_password_hash
def add(session: Session, name: str, tag: tuple[str, ...], password_hash: str | None) -> None:
    """Add a user, with a password that is asked for.

    Without a terminal the password is the first line of standard input.

    Use `user permissions` to give the user rights in a virtual host.
    """
    path = path_of("users", name)
    what = f"user '{name}'"
    if any(row["name"] == name for row in session.api.get(path_of("users"))):
        raise CommandFailed(f"{what} exists; `user passwd` and `user tags` change it")
    session.api.put(path, {**_secret(password_hash), "tags": ",".join(tag)}, what=what)
    session.out.done(f"{what}: added", created=True)


@client_command(user)
@_user
def delete(session: Session, name: str) -> None:
    """Delete a user and its permissions."""
    session.api.delete(path_of("users", name), what=f"user '{name}'")
    session.out.done(f"user '{name}': deleted", deleted=name)


@client_command(user)
@_user
@_password_hash
def passwd(session: Session, name: str, password_hash: str | None) -> None:
    """Change a password, which is asked for.

    Without a terminal it is the first line of standard input."""
    _change_password(session, name, lambda: _secret(password_hash))
    session.out.done(f"user '{name}': password changed", changed=name)


@client_command(user)
@_user
def rotate(session: Session, name: str) -> None:
    """Give a user a new password that nobody knows yet, and print it.

    Connections that are open stay; the old password is refused from now on.
    """
    password = secrets.token_urlsafe(_NEW_PASSWORD_OCTETS)
    _change_password(session, name, lambda: {"password": password})
    if session.out.is_json:
        session.out.json({"changed": name, "password": password})
    else:
        session.out.line(password)


@client_command(user)
@_user
@argument("tag", nargs=-1, help="The tags from now on; none without any.")
def tags(session: Session, name: str, tag: tuple[str, ...]) -> None:
    """Set the tags of a user."""
    what = f"user '{name}'"
    user = session.api.get(path_of("users", name), what=what)
    body: dict[str, Any] = {"tags": ",".join(tag)}
    for key in ("password_hash", "hashing_algorithm"):
        if user.get(key):
            body[key] = user[key]
    session.api.put(path_of("users", name), body, what=what)
    session.out.done(f"{what}: tags {','.join(tag) or 'none'}", tags=tag)


@client_command(user)
@_user
@option("--configure", metavar="REGEX", help="May declare and delete these.")
@option("--write", metavar="REGEX", help="May publish and bind to these.")
@option("--read", metavar="REGEX", help="May consume and bind from these.")
@option("--clear", is_flag=True, help="Take all rights in the virtual host.")
def permissions(
    session: Session,
    name: str,
    configure: str | None,
    write: str | None,
    read: str | None,
    clear: bool,
) -> None:
    """Show or set what a user may do in virtual hosts.

    Shows all permissions; with a flag it sets or clears those in one virtual host.

    A right that is not named stays as it is. '.*' is everything, '' is nothing.
    """
    what = f"user '{name}'"
    given = {"configure": configure, "write": write, "read": read}
    wanted = {key: value for key, value in given.items() if value is not None}
    path = path_of("permissions", session.one_vhost, name)
    if clear and wanted:
        raise CommandFailed("--clear goes with no right", ExitStatus.USAGE)
    if clear:
        session.api.delete(path, what=f"permission of {what} in vhost '{session.one_vhost}'")
        session.out.done(f"{what}: no rights in vhost '{session.one_vhost}'", cleared=name)
        return
    rows = session.api.get(path_of("users", name, "permissions"), what=what)
    if not wanted:
        if session.vhost is not None:
            rows = [row for row in rows if row["vhost"] == session.vhost]
        session.out.table(_PERMISSIONS, rows)
        return
    for key, pattern in wanted.items():
        compiled(pattern, f"--{key}")
    before: dict[str, str] = next((row for row in rows if row["vhost"] == session.one_vhost), {})
    body = {key: wanted.get(key, before.get(key, "")) for key in given}
    session.api.put(path, body, what=what)
    said = ", ".join(f"{key} '{value}'" for key, value in body.items())
    session.out.done(f"{what}: {said} in vhost '{session.one_vhost}'", **body)


add_limits(
    user,
    "user",
    "user",
    complete_user,
    "max-connections, max-channels, max-publish-rate or max-publish-bytes-rate",
)


def _tags_of(user: dict[str, Any]) -> list[str]:
    tags_ = user.get("tags") or []
    return tags_.split(",") if isinstance(tags_, str) else list(tags_)


def _change_password(session: Session, name: str, secret: Callable[[], dict[str, str]]) -> None:
    """Keep the tags. ``secret``: asked for once the user is known to exist."""
    path, what = path_of("users", name), f"user '{name}'"
    tags = ",".join(_tags_of(session.api.get(path, what=what)))
    session.api.put(path, {**secret(), "tags": tags}, what=what)


def _secret(password_hash: str | None) -> dict[str, str]:
    if password_hash is not None:
        return {"password_hash": password_hash}
    return {"password": _new_password()}


def _new_password() -> str:
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise CommandFailed("no password on standard input", ExitStatus.USAGE)
        return password
    import getpass

    while True:
        password = getpass.getpass("New password: ")
        if password and password == getpass.getpass("Again: "):
            return password
        sys.stderr.write("empty, or not the same twice; try again\n")


vhost = Group("vhost", help="List, add, limit and delete virtual hosts.")

_VHOSTS: Final = (
    Column("name", "name"),
    Column("description", "description"),
    Column("default_queue_type", "default-type"),
    Column("messages", "messages", "count"),
    Column("messages_ready", "ready", "count"),
    Column("messages_unacknowledged", "unacked", "count"),
    Column("tracing", "tracing", "flag"),
)
_vhost = argument("name", shell_complete=complete_vhost, help="The virtual host.")


@client_command(vhost, "list")
def list_vhosts(session: Session) -> None:
    """List virtual hosts.

    Columns: name, description, default-type, messages, ready, unacked, tracing.
    """
    session.out.table(_VHOSTS, session.api.get(path_of("vhosts")))


@client_command(vhost, "add")
@_vhost
@option("--description", metavar="TEXT", default="", show_default=False, help="What it is for.")
@option("--default-type", metavar="TYPE", help="Type of queues that name none.")
def add_vhost(session: Session, name: str, description: str, default_type: str | None) -> None:
    """Add a virtual host, or change its description."""
    body = {"description": description}
    if default_type is not None:
        body["default_queue_type"] = default_type
    is_new = session.api.put(path_of("vhosts", name), body, what=f"vhost '{name}'")
    session.out.done(f"vhost '{name}': {'added' if is_new else 'changed'}", created=is_new)


@client_command(vhost, "delete")
@_vhost
def delete_vhost(session: Session, name: str) -> None:
    """Delete a virtual host with all its queues and messages."""
    session.api.delete(path_of("vhosts", name), what=f"vhost '{name}'")
    session.out.done(f"vhost '{name}': deleted", deleted=name)


add_limits(
    vhost,
    "vhost",
    "virtual host",
    complete_vhost,
    "max-connections, max-queues, max-exchanges or max-bindings",
)
