"""Checks from outside: does the API answer, does AMQP, and is the login right?"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from hareline.cli.doctor.finding import Finding, error, note, ok, warning
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, path_of
from hareline.cli.target import Target
from hareline.octets import in_units

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_SLOW_S: Final = 1.0
_PATIENCE_S: Final = 5.0


class Seen(NamedTuple):
    """Facts about the broker from the API; none where the user may not see it.

    ``amqp_port``: of its first listener for AMQP.
    """

    node: Mapping[str, Any] = MappingProxyType({})
    amqp_port: int | None = None


def check_api(api: Api, *, is_named: bool = True) -> tuple[Seen, list[Finding]]:
    """Ask the API about the broker; one finding is its speed, or why it cannot be asked.

    ``is_named``: the command line says that there is a broker, so it is an error if there is none.
    """
    began = time.monotonic()
    try:
        who = api.get(path_of("whoami"))
        overview: Any = api.get(path_of("overview"))
    except CommandFailed as problem:
        if problem.status is ExitStatus.UNREACHABLE:
            return Seen(), [
                (error if is_named else warning)(
                    "api",
                    str(problem),
                    "start it with `hareline serve`, or set --url; management.enabled must be true",
                )
            ]
        remedy = "use a user with the tag management, monitoring or administrator"
        return Seen(), [error("api", str(problem), remedy)]
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
    node, alarms = _alarms(api)
    ports = [
        each["port"] for each in overview.get("listeners") or [] if each.get("protocol") == "amqp"
    ]
    seen = Seen(node, ports[0] if ports else None)
    return seen, [*found, *alarms, *_default_users(api)]


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
        where = "from the broker's machine" if is_kept_here else "from wherever it is reached"
        said = f"'{name}' logs in {where} with a password that everybody knows"
        others = [
            each for each in users if each["name"] != name and "administrator" in each["tags"]
        ]
        remedy = f"hareline user delete {name}"
        if not others:
            remedy = f"hareline user add NAME --tag administrator; then {remedy}"
        verdict = error if not is_kept_here else warning if others else note
        yield verdict("users", said, remedy)


def _alarms(api: Api) -> tuple[Mapping[str, Any], list[Finding]]:
    """The first node, and what is short on any."""
    try:
        nodes = api.get(path_of("nodes"))
    except CommandFailed:
        said = "this user may not see the node; the tag monitoring allows it"
        return {}, [note("alarms", said)]
    nodes = nodes if isinstance(nodes, list) else []
    return next(iter(nodes), {}), [found for node in nodes for found in _alarms_of(node)]


def _alarms_of(node: Mapping[str, Any]) -> Iterator[Finding]:
    if node.get("mem_alarm"):
        used, limit = _size(node, "mem_used"), _size(node, "mem_limit")
        yield error(
            "alarms",
            f"memory is short, publishers are blocked: {used} are used, {limit} are allowed",
            "let consumers catch up, or raise memory.watermark",
        )
    if node.get("disk_free_alarm"):
        free, needed = _size(node, "disk_free"), _size(node, "disk_free_limit")
        disk = node.get("disk_free_alarm_reason") or f"{free} are free, {needed} are needed"
        yield error(
            "alarms",
            f"the disk is short, publishers are blocked: {disk}",
            "let consumers catch up, make room, or lower disk.free_watermark",
        )


def _size(node: Mapping[str, Any], key: str) -> str:
    """A size for people; RabbitMQ has texts where it does not know one."""
    octets = node.get(key)
    return in_units(octets) if isinstance(octets, int | float) else "an unknown number of octets"


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
        yield (error if target.given else warning)(
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
