"""Checks from outside: does the API answer, does AMQP, and is the login right?"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any, Final, cast

from hareline.commands.doctor.finding import Finding, error, note, ok, warning
from hareline.commands.failures import CommandFailed, ExitStatus
from hareline.commands.http_client import Api, path_of
from hareline.commands.target import Target

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_SLOW_S: Final = 1.0
_PATIENCE_S: Final = 5.0


def check_api(api: Api) -> tuple[bool, list[Finding]]:
    """Whether the API can be asked, and how fast."""
    began = time.monotonic()
    try:
        who = api.get(path_of("whoami"))
        overview: Any = api.get(path_of("overview"))
    except CommandFailed as problem:
        if problem.status is ExitStatus.UNREACHABLE:
            return False, [
                warning(
                    "api",
                    str(problem),
                    "start it with `hareline serve`, or set --url; management.enabled must be true",
                )
            ]
        remedy = "use a user with the tag management, monitoring or administrator"
        return True, [error("api", str(problem), remedy)]
    seconds = time.monotonic() - began
    version = f"{overview.get('product_name', '')} {overview.get('product_version', '')}".strip()
    found = [ok("api", f"{api.url}: {version}, as {who.get('name')}, {seconds * 1000:.0f} ms")]
    if seconds > _SLOW_S:
        found.append(
            warning(
                "api",
                f"two requests took {seconds:.1f} s",
                "look at `hareline top`: the broker, or the machine, is busy",
            )
        )
    return True, found + list(_alarms(api)) + list(_default_users(api))


def _default_users(api: Api) -> Iterator[Finding]:
    """Users whose password everybody knows, and where they may log in from."""
    try:
        users: Any = api.get(path_of("users"))
    except CommandFailed:  # only administrators see them, and can do something about it
        return
    for user in users:
        if not user.get("has_default_password"):
            continue
        name = user["name"]
        is_kept_here = user.get("loopback_only")
        where = "from the broker's machine" if is_kept_here else "from everywhere"
        said = f"'{name}' logs in {where} with a password that everybody knows"
        others = [
            each for each in users if each["name"] != name and "administrator" in each["tags"]
        ]
        remedy = f"hareline user delete {name}"
        if not others:
            remedy = f"hareline user add NAME --tag administrator; then {remedy}"
        yield (note if is_kept_here and not others else warning)("users", said, remedy)


def _alarms(api: Api) -> Iterator[Finding]:
    try:
        nodes = api.get(path_of("nodes"))
    except CommandFailed:
        yield note("alarms", "this user may not see the node; the tag monitoring allows it")
        return
    for node in nodes if isinstance(nodes, list) else []:
        for word, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")):
            if node.get(key):
                yield error(
                    "alarms",
                    f"{word} is short: publishers are blocked",
                    "let consumers catch up, make room, or raise the watermark",
                )


def check_amqp(target: Target) -> Iterator[Finding]:
    """Whether an AMQP broker answers at the address for clients, whose certificate is trusted."""
    try:
        with _connected(target) as connection:
            connection.sendall(_HEADER)
            octets = connection.recv(16)
    except OSError as problem:
        untrusted = getattr(problem, "verify_message", None)
        if untrusted:
            said = f"{target.amqp}: its certificate is not trusted: {untrusted}"
            yield error("amqp", said, "set --ca-file to the authorities that have signed it")
            return
        yield warning(
            "amqp",
            f"{target.amqp}: {problem.strerror or problem}",
            "start the broker, or set --amqp-url",
        )
        return
    if octets[:1] == b"\x01":
        yield ok("amqp", f"{target.amqp} answers")
    else:
        yield error("amqp", f"{target.amqp} is not an AMQP 0-9-1 broker", "set --amqp-url")


def _connected(target: Target) -> socket.socket:
    """A connection to the address for clients, with TLS if it says so. Raises OSError."""
    address = target.amqp
    plain = socket.create_connection(
        (address.host, address.port), min(target.timeout_s, _PATIENCE_S)
    )
    if not address.is_secure:
        return plain
    try:
        return cast(
            "socket.socket", target.tls_context().wrap_socket(plain, server_hostname=address.host)
        )
    except BaseException:
        plain.close()
        raise
