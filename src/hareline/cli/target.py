"""Address of a broker and login, of flags, environment, the client's file and defaults.

The file is ``~/.config/hareline/client.toml``, or what HARELINE_CLIENT_CONFIG names::

    default = "shop"

    [targets.shop]
    url = "https://broker.example:15671"
    amqp_url = "amqps://broker.example:5671"
    user = "ann"
    password_file = "/run/secrets/ann"
    ca_file = "/etc/ssl/broker-ca.pem"
    vhost = "shop"
    timeout = 10

Invariant: addresses of a level (flag, environment, file) are never mixed with those of a lower one,
so a command that names another broker by --url talks to that one alone. A password is never taken
from a flag, since every user of the machine sees those.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from hareline.cli.failures import CommandFailed, ExitStatus

#: The variables that the client reads; the broker's settings leave them alone.
VARIABLES: Final = {
    "HARELINE_URL": "address of the broker: http://HOST:15672 or amqp://HOST:5672/VHOST",
    "HARELINE_HTTP_URL": "address of the management port, if HARELINE_URL is that for AMQP",
    "HARELINE_AMQP_URL": "address for AMQP, if HARELINE_URL is that of the management port",
    "HARELINE_USER": "who logs in",
    "HARELINE_PASSWORD": "the password",
    "HARELINE_PASSWORD_FILE": "file whose first line is the password",
    "HARELINE_CA_FILE": "file of the authorities that sign certificates, in PEM",
    "HARELINE_VHOST": "virtual host",
    "HARELINE_TIMEOUT": "seconds to wait for an answer",
    "HARELINE_TARGET": "name of a target of the client's file",
    "HARELINE_CLIENT_CONFIG": "the client's file, in place of ~/.config/hareline/client.toml",
}
DEFAULT_URL: Final = "http://127.0.0.1:15672"
DEFAULT_TIMEOUT_S: Final = 30.0
_GUEST: Final = "guest"
_KEYS: Final[dict[str, type | tuple[type, ...]]] = {
    "url": str,
    "amqp_url": str,
    "user": str,
    "password": str,
    "password_file": str,
    "ca_file": str,
    "vhost": str,
    "timeout": (int, float),
}
_HTTP: Final = {"http": 15672, "https": 15671}
_AMQP: Final = {"amqp": 5672, "amqps": 5671}
_PARTNER: Final = {"http": "amqp", "https": "amqps", "amqp": "http", "amqps": "https"}
_READABLE_BY_OTHERS: Final = 0o077


@dataclass(frozen=True)
class Names:
    """Names of the flags and variables of a broker, for errors and to read them."""

    url: str = "--url"
    amqp_url: str = "--amqp-url"
    password_file: str = "--password-file"
    ca_file: str = "--ca-file"
    prefix: str = "HARELINE_"
    #: Whether the client's file names a target for a command line that names none.
    has_default: bool = True


@dataclass(frozen=True)
class Flags:
    """Values from the command line."""

    target: str | None = None
    url: str | None = None
    amqp_url: str | None = None
    user: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    vhost: str | None = None
    timeout: float | str | None = None


@dataclass(frozen=True)
class Address:
    """Address to connect to, without the login. ``path``: a prefix of all paths, for HTTP."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def is_secure(self) -> bool:
        return self.scheme in {"https", "amqps"}

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Target:
    """A broker and a login. ``vhost``: None if none was named.

    ``given``: of "http" and "amqp", the addresses that were named; the other one is a guess.
    """

    http: Address
    amqp: Address
    user: str
    vhost: str | None
    timeout_s: float
    _passwords: tuple[str | Path, ...] = field(default=(), repr=False)
    ca_file: Path | None = None
    names: Names = Names()
    given: frozenset[str] = frozenset()

    def password(self, *, may_ask: bool = True) -> str:
        """The password: given, guest's, or asked for on a terminal. Raises CommandFailed."""
        for each in self._passwords:
            return each if isinstance(each, str) else _first_line(each)
        if self.user == _GUEST:
            return _GUEST
        if not may_ask or not is_terminal():
            raise CommandFailed(
                f"no password for {self.user}: set {self.names.prefix}PASSWORD or "
                f"{self.names.prefix}PASSWORD_FILE, or run this on a terminal",
                ExitStatus.USAGE,
            )
        import getpass

        return getpass.getpass(f"Password of {self.user} at {self.http.host}: ")

    def tls_context(self) -> Any:
        """An ``ssl.SSLContext`` that checks certificates. Raises CommandFailed."""
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else ""
            raise CommandFailed(
                f"{self.names.ca_file}: {self.ca_file}: {said or 'has no certificate in PEM'}",
                ExitStatus.USAGE,
            ) from None

    def with_password(self, password: str) -> Target:
        """The same with a password that is known now."""
        return replace(self, _passwords=(password,))


@dataclass(frozen=True)
class _Level(Flags):
    """Values from one source, and the names of the flag, variable or key to blame."""

    http_url: str | None = None
    password: str | None = None
    url_name: str = "--url"
    amqp_url_name: str = "--amqp-url"
    timeout_name: str = "--timeout"


@dataclass(frozen=True)
class _Parsed:
    address: Address
    user: str | None
    password: str | None
    vhost: str | None


def read_target(flags: Flags, environ: Mapping[str, str], names: Names = Names()) -> Target:
    """The broker to ask. Raises CommandFailed that names the flag, variable or file."""
    levels = [
        _Level(**vars(flags), url_name=names.url, amqp_url_name=names.amqp_url),
        _of_environment(environ, names.prefix),
        _of_file(flags, environ, names),
    ]
    reach = next((n for n, level in enumerate(levels) if level.url is not None), len(levels))
    main: _Parsed | None = None
    if reach < len(levels):
        level = levels[reach]
        assert level.url is not None
        main = _parse(level.url, level.url_name, {**_HTTP, **_AMQP})
        _refuse_visible(main, reach, level.url_name, names)
    within = levels[: reach + 1]
    http = _first_parsed(within, "http_url", f"{names.prefix}HTTP_URL", _HTTP)
    amqp = _first_parsed(within, "amqp_url", None, _AMQP)
    if amqp is not None and levels[0].amqp_url is not None:
        _refuse_visible(amqp, 0, names.amqp_url, names)
    named = {"http": http, "amqp": amqp}
    given = {scheme for scheme, address in named.items() if address is not None}
    if main is not None:
        given.add("http" if main.address.scheme in _HTTP else "amqp")
    http, amqp = _paired(main, http, amqp, _default_url(environ, names.prefix))
    found = _logged_in(levels, [amqp, main or http, http], reach + 1)
    return replace(found, names=names, given=frozenset(given))


def _paired(
    main: _Parsed | None, http: _Parsed | None, amqp: _Parsed | None, default_url: str
) -> tuple[_Parsed, _Parsed]:
    """Both addresses; one that is not given is that of the same host with the usual port."""
    if main is None:
        main = http or amqp or _parse(default_url, "", _HTTP)
    is_http = main.address.scheme in _HTTP
    http = http or (main if is_http else _partner(main, _HTTP))
    return http, amqp or (_partner(main, _AMQP) if is_http else main)


def _default_url(environ: Mapping[str, str], prefix: str) -> str:
    """Default place of the broker: on this machine, as a container's variables say."""
    port = environ.get(f"{prefix}MANAGEMENT__PORT", "")
    return f"http://127.0.0.1:{port}" if port.isascii() and port.isdecimal() else DEFAULT_URL


def _partner(parsed: _Parsed, ports: Mapping[str, int]) -> _Parsed:
    scheme = _PARTNER[parsed.address.scheme]
    address = Address(scheme, parsed.address.host, ports[scheme])
    return replace(parsed, address=address)


def _logged_in(levels: list[_Level], addresses: list[_Parsed], rank: int) -> Target:
    """``addresses``: for AMQP first, for HTTP last.

    ``rank``: where a login or virtual host in an address stands among those of the levels.
    """
    passwords: list[str | Path] = []
    candidates = [(level.user, level.password, level.password_file) for level in levels]
    vhosts = [level.vhost for level in levels]
    for each in reversed(addresses):
        candidates.insert(rank, (each.user, each.password, None))
        vhosts.insert(rank, each.vhost)
    named = next((of for of, _, _ in candidates if of is not None), None)
    user = named or _GUEST
    for of, password, file in candidates:
        if of is not None and of != user:
            break  # what follows is another user's
        if password is not None:
            passwords.append(password)
        elif file is not None:
            passwords.append(Path(file).expanduser())
    return Target(
        http=addresses[-1].address,
        amqp=addresses[0].address,
        user=user,
        vhost=next((each for each in vhosts if each is not None), None),
        timeout_s=_timeout_s(levels),
        _passwords=tuple(passwords),
        ca_file=next((Path(each.ca_file).expanduser() for each in levels if each.ca_file), None),
    )


def _timeout_s(levels: list[_Level]) -> float:
    for level in levels:
        if level.timeout is not None:
            try:
                seconds = float(level.timeout)
            except ValueError:
                seconds = -1
            if not 0 < seconds < float("inf"):
                raise CommandFailed(
                    f"{level.timeout_name}: '{level.timeout}' is not a number of seconds above 0",
                    ExitStatus.USAGE,
                )
            return seconds
    return DEFAULT_TIMEOUT_S


def _of_environment(environ: Mapping[str, str], prefix: str) -> _Level:
    keys = ("url", "http_url", "amqp_url", "user", "password_file", "ca_file", "vhost", "timeout")
    return _Level(
        **{key: environ.get(f"{prefix}{key.upper()}") or None for key in keys},
        # An empty password is a password.
        password=environ.get(f"{prefix}PASSWORD"),
        url_name=f"{prefix}URL",
        amqp_url_name=f"{prefix}AMQP_URL",
        timeout_name=f"{prefix}TIMEOUT",
    )


def config_file(environ: Mapping[str, str]) -> Path:
    """Path of the client's file, which may not be there."""
    if named := environ.get("HARELINE_CLIENT_CONFIG"):
        return Path(named).expanduser()
    folder = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "hareline" / "client.toml"


def _of_file(flags: Flags, environ: Mapping[str, str], names: Names) -> _Level:
    path = config_file(environ)
    wanted = flags.target or environ.get(f"{names.prefix}TARGET") or None
    targets, default = _read_file(path, is_needed=bool(environ.get("HARELINE_CLIENT_CONFIG")))
    name = wanted or (default if names.has_default else None)
    if name is None:
        return _Level()
    if name not in targets:
        known = ", ".join(targets) or "none"
        raise CommandFailed(f"{path}: no target '{name}'; known: {known}", ExitStatus.USAGE)
    return _Level(
        **targets[name],
        url_name=f"{path}: targets.{name}.url",
        amqp_url_name=f"{path}: targets.{name}.amqp_url",
        timeout_name=f"{path}: targets.{name}.timeout",
    )


def _read_file(path: Path, *, is_needed: bool) -> tuple[dict[str, dict[str, Any]], str | None]:
    """The targets by name, and the name of the default one."""
    if not is_needed and not path.exists():
        return {}, None
    import tomllib

    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path}: {error}", ExitStatus.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", ExitStatus.USAGE) from None
    problems = [f"unknown key '{key}'" for key in tree if key not in {"default", "targets"}]
    targets, default = tree.get("targets", {}), tree.get("default")
    if not isinstance(targets, dict) or not all(isinstance(t, dict) for t in targets.values()):
        problems.append("targets: should be tables, [targets.NAME]")
        targets = {}
    if not isinstance(default, str | None):
        problems.append("default: should be the name of a target")
    for name, options in targets.items():
        problems += _problems_of(name, options)
    if problems:
        raise CommandFailed(f"{path}: {'; '.join(problems)}", ExitStatus.USAGE)
    _check_rights(path, targets)
    return targets, default


def _problems_of(name: str, options: dict[str, Any]) -> list[str]:
    problems = []
    for key, value in options.items():
        if key not in _KEYS:
            problems.append(f"targets.{name}: unknown key '{key}'; known: {', '.join(_KEYS)}")
        elif not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            what = "a number" if key == "timeout" else "text"
            problems.append(f"targets.{name}.{key}: should be {what}")
    return problems


def _check_rights(path: Path, targets: dict[str, dict[str, Any]]) -> None:
    """Refuse a file with a password that other users of the machine can read."""
    has_password = any("password" in options for options in targets.values())
    if has_password and path.stat().st_mode & _READABLE_BY_OTHERS:
        raise CommandFailed(
            f"{path}: has a password and can be read by other users; run `chmod 600 {path}`",
            ExitStatus.USAGE,
        )


def _first_parsed(
    levels: list[_Level], key: str, name: str | None, ports: Mapping[str, int]
) -> _Parsed | None:
    for level in levels:
        text = getattr(level, key)
        if text is not None:
            return _parse(text, name or level.amqp_url_name, ports)
    return None


def _refuse_visible(parsed: _Parsed, level: int, name: str, names: Names) -> None:
    if level == 0 and parsed.password is not None:
        raise CommandFailed(
            f"{name}: every user of this machine can see a password there; set "
            f"{names.prefix}PASSWORD or use {names.password_file}",
            ExitStatus.USAGE,
        )


def _parse(text: str, name: str, ports: Mapping[str, int]) -> _Parsed:
    schemes = " or ".join(f"{scheme}://" for scheme in ports)
    shown = re.sub(r"//[^/@]*@", "//", text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise CommandFailed(f"{name}: '{shown}': {error}", ExitStatus.USAGE) from None
    if parts.scheme not in ports or not parts.hostname:
        raise CommandFailed(
            f"{name}: '{shown}' does not begin with {schemes} and a host", ExitStatus.USAGE
        )
    is_amqp = parts.scheme in _AMQP
    path = parts.path.rstrip("/")
    vhost = unquote(parts.path[1:]) if is_amqp and len(parts.path) > 1 else None
    prefix = "" if is_amqp else path.removesuffix("/api")
    return _Parsed(
        Address(
            parts.scheme, parts.hostname, ports[parts.scheme] if port is None else port, prefix
        ),
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        vhost,
    )


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", ExitStatus.USAGE) from None


def target_at(url: str, user: str, password: str) -> Target:
    """The broker with its management port at an address, whatever else is set."""
    http = _parse(url, "--url", _HTTP)
    amqp = _partner(http, _AMQP).address
    return Target(http.address, amqp, user, None, DEFAULT_TIMEOUT_S, (password,))


def asked_password(user: str) -> str:
    """HARELINE_PASSWORD, or what is typed on a terminal. Raises CommandFailed."""
    password = os.environ.get("HARELINE_PASSWORD")
    if password is not None:
        return password
    if not is_terminal():
        raise CommandFailed("no password: set HARELINE_PASSWORD, or run this on a terminal")
    import getpass

    return getpass.getpass(f"Password of {user}: ")


def is_terminal() -> bool:
    return sys.stdin.isatty()
