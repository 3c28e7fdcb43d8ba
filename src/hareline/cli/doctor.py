"""``hareline doctor``: checks of this machine, the installation and the broker.

Invariant: nothing is changed, and a check that fails itself does not keep others from running. A
journal is read under the same lock as ``hareline journal verify`` takes, so never while a broker
writes it.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import platform
import resource
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click
from click import option

from hareline import compiled
from hareline.cli.command import PATH, Session, client_command
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, path_of
from hareline.cli.output import console, visible
from hareline.cli.target import Address, Target
from hareline.errors import ConfigurationError, StoreError
from hareline.octets import in_units

if TYPE_CHECKING:
    from hareline.settings import Reading, Settings


class Verdict(StrEnum):
    ok = "ok"
    note = "note"
    warning = "warning"
    error = "error"


@dataclass(frozen=True)
class Finding:
    """``remedy``: what to do, empty if nothing is to be done."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.ok, found)


def note(check: str, found: str, remedy: str = "") -> Finding:
    return Finding(check, Verdict.note, found, remedy)


def warning(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.warning, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.error, found, remedy)


_OLDEST_PYTHON: Final = (3, 11)
_FILES_WANTED: Final = 4096
_BEFORE_RELEASE_S: Final = 1_735_689_600  # 2025: no build is older
_SKEW_S: Final = 60.0
_SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")


def check_python() -> Iterator[Finding]:
    """The interpreter, and the event loop that the broker will use."""
    version = platform.python_version()
    name = f"{platform.python_implementation()} {version}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        yield warning("python", name, "install Python 3.11 or newer")
    else:
        yield ok("python", f"{name}, hareline {_version('hareline')} ({compiled.build()} build)")
    uvloop = _version("uvloop")
    if uvloop is not None:
        yield ok("uvloop", f"uvloop {uvloop}")
    elif platform.python_implementation() == "CPython":
        yield warning(
            "uvloop",
            "not installed: the broker runs on plain asyncio, slower",
            "python -m pip install uvloop",
        )
    else:
        yield note("uvloop", "not available for this Python: the broker runs on plain asyncio")


def check_limits(backlog: int, broker_files: int | None = None) -> Iterator[Finding]:
    """Open files, and connections that the system may hold ready.

    ``broker_files``: what the running broker may open; without it, what this process may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    who = "for a broker that is started from here"
    if broker_files is not None:
        soft, hard, who = broker_files, resource.RLIM_INFINITY, "for the broker"
    if soft != resource.RLIM_INFINITY and soft < _FILES_WANTED:
        yield warning(
            "open files",
            f"{soft} at most {who}: each connection needs one, and each journal segment",
            f"raise it to {_FILES_WANTED} or more: `ulimit -n`, or LimitNOFILE= in systemd"
            + (f" (the hard limit is {hard})" if hard != resource.RLIM_INFINITY else ""),
        )
    else:
        yield ok(
            "open files", "no limit" if soft == resource.RLIM_INFINITY else f"{soft} at most {who}"
        )
    try:
        somaxconn = int(_SOMAXCONN.read_text())
    except (OSError, ValueError):
        return
    if somaxconn < backlog:
        yield note(
            "backlog",
            f"the system holds {somaxconn} connections ready, listener.backlog asks for {backlog}",
            f"sysctl -w net.core.somaxconn={backlog}",
        )


def check_clock(newest_file_s: float | None, broker_s: float | None) -> Iterator[Finding]:
    """The wall clock against the files of the broker and against the running broker."""
    now = time.time()
    remedy = "set the clock, and keep it with chrony or systemd-timesyncd"
    if now < _BEFORE_RELEASE_S:
        yield warning("clock", f"it is {time.ctime(now)}, which is long ago", remedy)
    elif newest_file_s is not None and newest_file_s > now + _SKEW_S:
        yield warning(
            "clock",
            f"files of the data directory were written {newest_file_s - now:.0f} s from now: the "
            "clock was set back; message times to live count from it",
            remedy,
        )
    elif broker_s is not None and abs(broker_s - now) > _SKEW_S:
        yield warning(
            "clock", f"the broker's clock differs by {broker_s - now:+.0f} s from this one", remedy
        )
    else:
        yield ok("clock", time.strftime("%Y-%m-%d %H:%M:%S %z"))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


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
    """Check that the ports can be listened on, or have the broker on them already."""
    wanted = [("listeners", each.bind, each.port) for each in settings.listeners]
    if settings.listener.enabled:
        wanted.insert(0, ("listener", settings.listener.bind, settings.listener.port))
    if settings.management.enabled and settings.management.http:
        wanted.append(("management", settings.management.bind, settings.management.port))
    for name, bind, port in wanted:
        where = f"{bind}:{port}"
        if port == 0:
            yield note("ports", f"{name}: the system chooses a port at each start")
            continue
        problem = _listening_problem(bind, port)
        if problem is None:
            yield ok("ports", f"{name}: {where} is free")
        elif problem == errno.EADDRINUSE and is_broker_here:
            yield ok("ports", f"{name}: {where} is in use, and a broker runs here")
        elif problem == errno.EADDRINUSE:
            yield error(
                "ports",
                f"{name}: {where} is in use by another program",
                f"`ss -ltnp 'sport = :{port}'` shows which; stop it, or set {name}.port",
            )
        else:
            yield error(
                "ports",
                f"{name}: cannot listen on {where}: {os.strerror(problem)}",
                f"set {name}.bind to an address of this machine and a port above 1023",
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
    """Check that the data directory can be used and has room."""
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
    """Check that all of the journal can be read; only while no broker runs."""
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
    """Time at which the newest file of the journal was written, or None."""
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
        nodes = api.nodes()
    except CommandFailed:
        nodes = None
    if nodes is None:
        said = "this user may not see the node; the tag monitoring allows it"
        return {}, [note("alarms", said)]
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
    """Check that an AMQP broker with a trusted certificate answers at the address for clients."""
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


_MARKS: Final = {
    Verdict.ok: ("ok", "green"),
    Verdict.note: ("note", "cyan"),
    Verdict.warning: ("warning", "yellow"),
    Verdict.error: ("error", "red"),
}


@client_command()
@option("--config", type=PATH, metavar="FILE", help="The broker's settings, as for `serve`.")
@option("--remote", is_flag=True, help="Only what can be seen of a broker elsewhere.")
def doctor(session: Session, config: Path | None, remote: bool) -> None:
    """Say what is wrong with this installation, and what to do.

    Changes nothing. Ends with status 1 if there is an error; warnings and notes do not count.
    """
    findings: list[Finding] = []
    settings = None
    if not remote:
        findings, settings = _of_settings(config)
    seen, of_broker = _of_broker(session, settings)
    if settings is not None:
        findings += _of_machine(settings, session, seen)
    findings += of_broker
    if session.out.is_json:
        session.out.json([each.as_dict() for each in findings])
    else:
        _print(session, findings)
    if any(each.verdict is Verdict.error for each in findings):
        raise click.exceptions.Exit(ExitStatus.FAILED)


def _of_settings(config: Path | None) -> tuple[list[Finding], Settings | None]:
    found = _safely("python", check_python)
    reading, of_settings = check_settings(config, os.environ)
    return found + of_settings, None if reading is None else reading.settings


def _of_machine(settings: Settings, session: Session, seen: Seen) -> list[Finding]:
    """Findings about this machine, if the broker that was asked is that of these settings."""
    process = broker_process(settings)
    target = session.target
    if target.given and not is_broker_of(settings, target, process, seen.node):
        said = f"{target.http} is not the broker of these settings, so this machine is not checked"
        return [note("settings", said, "--config FILE names the settings of a broker here")]
    is_here = process is not None
    found = _safely("ports", lambda: check_ports(settings, is_broker_here=is_here))
    found += _safely("data directory", lambda: check_data_directory(settings))
    found += _safely("journal", lambda: check_journal(settings, is_broker_here=is_here))
    files, backlog = seen.node.get("fd_total"), settings.listener.backlog
    found += _safely("open files", lambda: check_limits(backlog, files))
    newest = newest_file_s(settings)
    found += _safely("clock", lambda: check_clock(newest, None))
    found += _safely("passwords", lambda: check_exposure(settings, is_broker_here=is_here))
    return found


def _of_broker(session: Session, settings: Settings | None) -> tuple[Seen, list[Finding]]:
    """Findings about the broker that is named; without a name, about that of the settings."""
    target = session.target
    if not target.given and settings is not None:
        http, amqp = addresses_of(settings)
        if http is None or amqp is None:
            said = "the settings leave a port to the system, or do not open it"
            return Seen(), [note("api", said, "--url and --amqp-url name the broker")]
        session.target = target = replace(target, http=http, amqp=amqp)
    seen, found = check_api(session.api, is_named=bool(target.given))
    if "amqp" not in target.given and seen.amqp_port is not None:
        target = replace(target, amqp=replace(target.amqp, port=seen.amqp_port))
    return seen, found + _safely("amqp", lambda: check_amqp(target))


def _safely(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a check; its own failure is one."""
    try:
        return list(check())
    except (OSError, CommandFailed) as problem:
        return [error(name, str(problem), "this check could not be done")]


def _print(session: Session, findings: list[Finding]) -> None:
    if not session.out.is_terminal:
        for each in findings:
            cells = (each.verdict.value, each.check, each.found, each.remedy)
            session.out.line_of(cells)
        return
    from rich.text import Text

    out = console()
    for each in findings:
        mark, style = _MARKS[each.verdict]
        line = Text(f"{mark:<8}", style=style)
        line.append(f"{each.check}: ", style="bold").append(visible(each.found), style="default")
        out.print(line)
        if each.remedy:
            out.print(Text(f"        -> {visible(each.remedy)}", style="dim"))
