"""Checks of what the broker is told and where it keeps things: settings, ports, files, journal.

Invariant: they only read. A journal is read under the same lock as ``hareline journal verify``
takes, so never while a broker writes it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hareline.cli.doctor.finding import Finding, error, note, ok, warning
from hareline.cli.target import Address, Target
from hareline.errors import ConfigurationError, StoreError
from hareline.octets import in_units

if TYPE_CHECKING:
    from hareline.settings import Reading, Settings

_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH
_NETWORK_FILE_SYSTEMS: Final = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"}
_LOCK_NAME: Final = "lock"


def check_settings(
    file: Path | None, environ: Mapping[str, str]
) -> tuple[Reading | None, list[Finding]]:
    """The settings that `serve` would read, None if it would refuse them."""
    from hareline.settings import config_path, read_settings

    path = config_path(file, environ)
    try:
        reading = read_settings(path, environ)
    except ConfigurationError as problem:
        remedy = "mend it; `hareline check-config` reads it again, `config-sample` explains all"
        return None, [error("settings", each, remedy) for each in problem.problems]
    where = "no file, only environment and defaults" if path is None else str(path)
    found = [ok("settings", where)]
    found += [
        note("settings", f"{option}: {reading.origin_of(option)} outweighs {path}")
        for option in reading.overridden
    ]
    if path is not None and _has_passwords(reading.settings) and path.stat().st_mode & _OTHERS:
        found.append(
            warning(
                "settings",
                f"{path} has passwords and all users can read it",
                f"chmod o= {path}, or use password_hash",
            )
        )
    return reading, found


def _has_passwords(settings: Settings) -> bool:
    return any(user.password is not None for user in settings.users if user.name != "guest")


def check_ports(settings: Settings, *, is_broker_here: bool) -> Iterator[Finding]:
    """Whether the ports can be listened on, or have the broker on them already."""
    wanted = [("listeners", each.bind, each.port) for each in settings.listeners]
    if settings.listener.enabled:
        wanted.insert(0, ("listener", settings.listener.bind, settings.listener.port))
    if settings.management.enabled and settings.management.http:
        wanted.append(("management", settings.management.bind, settings.management.port))
    for option, bind, port in wanted:
        where = f"{bind}:{port}"
        if port == 0:
            yield note("ports", f"{option}: the system chooses a port at each start")
            continue
        problem = _listening_problem(bind, port)
        if problem is None:
            yield ok("ports", f"{option}: {where} is free")
        elif problem == errno.EADDRINUSE and is_broker_here:
            yield ok("ports", f"{option}: {where} is in use, and a broker runs here")
        elif problem == errno.EADDRINUSE:
            yield error(
                "ports",
                f"{option}: {where} is in use by another program",
                f"`ss -ltnp 'sport = :{port}'` shows which; stop it, or set {option}.port",
            )
        else:
            yield error(
                "ports",
                f"{option}: cannot listen on {where}: {os.strerror(problem)}",
                f"set {option}.bind to an address of this machine and a port above 1023",
            )


def _listening_problem(bind: str, port: int) -> int | None:
    """The errno of an attempt to listen, or None; nothing is left open."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
            attempt.listen(1)
    except OSError as problem:
        return problem.errno or errno.EINVAL
    return None


def check_data_directory(settings: Settings) -> Iterator[Finding]:
    """Whether the data directory can be used, and how much room there is."""
    if settings.storage.kind == "memory":
        yield warning(
            "data directory",
            "storage.kind is `memory`: nothing outlives the process",
            "leave storage.kind out, unless this broker is for tests",
        )
        return
    path = Path(settings.data_dir)
    existing = path
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        yield error("data directory", f"{existing} is not a directory", "set data_dir")
        return
    if not os.access(existing, os.W_OK | os.X_OK):
        yield error(
            "data directory",
            f"{existing} cannot be written by this user",
            f"run the broker as its owner, or `chown` it; {path} is data_dir",
        )
    elif existing is not path:
        yield ok("data directory", f"{path} will be made at the first start")
    else:
        yield from _rights(path)
    kind = _file_system(existing)
    if kind in _NETWORK_FILE_SYSTEMS:
        yield warning(
            "data directory",
            f"it is on {kind}: a sync there may promise more than it keeps",
            "use a local disk",
        )
    elif kind in {"tmpfs", "ramfs"}:
        yield warning("data directory", f"it is on {kind}, which is memory", "use a disk")
    found = os.statvfs(existing)
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    mark = settings.disk.watermark_bytes(total)
    said = (
        f"{in_units(free)} of {in_units(total)} free; publishers are blocked below {in_units(mark)}"
    )
    if free < mark:
        yield error("disk", said, "make room, or lower disk.free_watermark")
    elif free < 2 * mark:
        yield warning("disk", said, "make room soon")
    else:
        yield ok("disk", said)


def _rights(path: Path) -> Iterator[Finding]:
    found = path.stat()
    if found.st_mode & _OTHERS:
        yield warning(
            "data directory", f"{path}: all users of the machine can enter it", f"chmod o= {path}"
        )
    elif found.st_uid != os.geteuid():
        yield note("data directory", f"{path} belongs to user id {found.st_uid}, not to you")
    else:
        yield ok("data directory", str(path))
    for each in sorted(path.iterdir()):
        if not os.access(each, os.R_OK | os.W_OK):
            yield error(
                "data directory",
                f"{each} cannot be read and written by this user",
                f"chown -R {found.st_uid} {path}",
            )


def _file_system(path: Path) -> str:
    """The type of the file system a path is on, empty if that is not known."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        _, mounted, found, *_ = line.split()
        mounted = mounted.replace("\\040", " ")
        if len(mounted) > len(best) and path.resolve().is_relative_to(mounted):
            best, kind = mounted, found
    return kind


def broker_process(settings: Settings) -> int | None:
    """The process id of the broker that has the data directory, or None."""
    import fcntl

    path = Path(settings.data_dir) / _LOCK_NAME
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        text = path.read_text(encoding="ascii", errors="replace").strip()
        return int(text) if text.isdigit() else 0
    except OSError:
        return None


def check_journal(settings: Settings, *, is_broker_here: bool) -> Iterator[Finding]:
    """Whether all of the journal can be read; only while no broker runs."""
    journal = Path(settings.data_dir) / "journal"
    if settings.storage.kind == "memory" or not journal.exists():
        return
    if is_broker_here:
        yield note("journal", "in use by the running broker; it is checked when that is stopped")
        return
    from hareline.cli.journal import verified

    try:
        damages = verified(Path(settings.data_dir))
    except (StoreError, OSError) as problem:
        yield error("journal", str(problem), "see docs/operations.md, or restore a backup")
        return
    for damage in damages:
        yield error("journal", damage, "`hareline journal repair` says what can be saved")
    if not damages:
        yield ok("journal", "no damage")


def newest_file_s(settings: Settings) -> float | None:
    """When the newest file of the journal was written, or None."""
    journal = Path(settings.data_dir) / "journal"
    try:
        times = [each.stat().st_mtime for each in journal.iterdir()]
    except OSError:
        return None
    return max(times, default=None)


def addresses_of(settings: Settings) -> tuple[Address | None, Address | None]:
    """Addresses of these settings' broker for HTTP and AMQP; None: not known, or none."""
    management, listener, tls = settings.management, settings.listener, settings.tls
    is_http, is_amqp = management.http, listener.enabled
    http = ("http", management.bind, management.port)
    amqp = ("amqp", listener.bind, listener.port)
    if not is_http and tls.is_on and tls.management:
        http, is_http = ("https", tls.bind, tls.management_port), True
    if not is_amqp and tls.is_on and tls.amqp:
        amqp, is_amqp = ("amqps", tls.bind, tls.port), True
    return (
        _address(*http) if is_http and management.enabled else None,
        _address(*amqp) if is_amqp else None,
    )


def _address(scheme: str, bind: str, port: int) -> Address | None:
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)
    return Address(scheme, here, port) if port else None


def is_broker_of(
    settings: Settings, target: Target, process: int | None, node: Mapping[str, Any]
) -> bool:
    """True if the broker at an address is that of these settings.

    ``process``: the one that has the data directory. ``node``: what the API says of itself.
    """
    host, listening = target.http.host, [each for each in addresses_of(settings) if each]
    here = {socket.gethostname(), *(each.host for each in listening)}
    if not _is_loopback(host) and host not in here:
        return False
    if process and node.get("os_pid"):
        return str(node["os_pid"]) == str(process)
    known = [each.port for each in listening]
    return target.http.port in known or target.amqp.port in known


def check_exposure(settings: Settings, *, is_broker_here: bool = False) -> Iterator[Finding]:
    """Users who can log in from another machine with a password that everybody knows.

    A broker that runs says itself what has become of the default user.
    """
    are_default = "users" not in settings.model_fields_set
    unless = ", unless it was changed or deleted at run time" if are_default else ""
    binds = [settings.listener.bind, *(each.bind for each in settings.listeners)]
    is_outside = [bind for bind in binds if not _is_loopback(bind)]
    for user in () if are_default and is_broker_here else settings.users:
        password = None if user.password is None else user.password.get_secret_value()
        if password != user.name:
            continue
        if user.name in settings.auth.loopback_users:
            said = f"'{user.name}' has its name as password, from this machine only{unless}"
            yield ok("passwords", said)
        elif is_outside:
            yield error(
                "passwords",
                f"'{user.name}' can log in from other machines with its name as password "
                f"(the broker listens on {', '.join(is_outside)}){unless}",
                "give it a password, or put it into auth.loopback_users",
            )
        else:
            yield warning(
                "passwords",
                f"'{user.name}' has its name as password, and is not kept to loopback{unless}",
                "put it into auth.loopback_users before the broker listens on other addresses",
            )
    management = settings.management
    if management.enabled and management.http and not _is_loopback(management.bind):
        yield warning(
            "management",
            f"HTTP on {settings.management.bind} has no TLS: passwords can be read on the way",
            "set management.bind to 127.0.0.1 and put a proxy with TLS in front",
        )


def _is_loopback(bind: str) -> bool:
    if bind == "localhost":
        return True
    try:
        return ip_address(bind).is_loopback
    except ValueError:
        return False
