"""Options of ``format("amqp")``: reading of their text, address of the broker, and login.

Names of options ignore case. An `OptionReader` knows all names of source or sink, refuses others,
and makes a `Connection` of those that both have. Instants are also arguments of ``hareline spark``.
Invariant: no password or token is in a repr or an error.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from hareline.spark.errors import InvalidOption

#: The options of a `Connection`, and the variable of the environment that stands in for each.
CONNECTION_OPTIONS: Final[Mapping[str, str]] = {
    "url": "HARELINE_URL",
    "httpUrl": "HARELINE_HTTP_URL",
    "user": "HARELINE_USER",
    "password": "HARELINE_PASSWORD",
    "passwordFile": "HARELINE_PASSWORD_FILE",
    "token": "HARELINE_TOKEN",
}

#: Options of a socket to the broker. Spark may compute for minutes, so no heartbeats are agreed on.
KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

#: Texts for an instant.
INSTANT_FORMS: Final = "ISO 8601 with a zone (2026-01-05T10:00:00Z) or epoch milliseconds"
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
_SECRETS: Final = ("password", "passwordFile", "token")
_AMQP_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_MANAGEMENT_PORT: Final = 15672
#: What Spark's source for Kafka calls an option, and its name here, both in lower case.
_KAFKA_NAMES: Final = {"maxoffsetspertrigger": "maxrecordspertrigger"}
_FLAGS: Final = {"true": True, "false": False}


class OptionReader:
    """The options of one reader or writer; each value is checked when it is asked for."""

    def __init__(
        self,
        options: Mapping[str, str],
        known: Iterable[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``known``: all names there are. Raises InvalidOption for another one."""
        self._values = {name.lower(): value for name, value in options.items()}
        self._environment = os.environ if environment is None else environment
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name not in names:
                raise InvalidOption(_unknown(name, names))

    def text(self, name: str) -> str | None:
        """The option as it was given; None if it was not, or is empty."""
        return self._values.get(name.lower()) or None

    def number(self, name: str, default: int, least: int) -> int:
        """The option as a whole number. Raises InvalidOption."""
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise InvalidOption(f"{name} must be a whole number from {least} on, not {text!r}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """The option as a truth value. Raises InvalidOption."""
        text = self.text(name)
        if text is None:
            return default
        value = _FLAGS.get(text.lower())
        if value is None:
            raise InvalidOption(f"{name} must be true or false, not {text!r}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The option in lower case, one of ``choices``; the first is the default."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise InvalidOption(f"{name} must be {' or '.join(choices)}, not {text!r}")
        return text

    def instant_ms(self, name: str) -> int | None:
        """The option as milliseconds since 1970. Raises InvalidOption."""
        text = self.text(name)
        try:
            return None if text is None else microseconds_of(text) // 1_000
        except ValueError:
            raise InvalidOption(f"{name} must be {INSTANT_FORMS}, not {text!r}") from None

    def only_one(self, names: tuple[str, ...]) -> str | None:
        """The one of these options that was given, if any. Raises InvalidOption for two."""
        given = [name for name in names if self.text(name) is not None]
        if len(given) > 1:
            raise InvalidOption(f"{' and '.join(given)} contradict each other: give one of them")
        return given[0] if given else None

    def connection(self) -> Connection:
        """Address of the broker and login. Raises InvalidOption."""
        url = self._or_environment("url")
        if url is None:
            raise InvalidOption(
                "url is missing: give the option url, such as amqp://localhost:5672, "
                "or set HARELINE_URL before Spark starts"
            )
        parts = _split("url", url, tuple(_AMQP_PORTS))
        vhost = unquote(parts.path[1:]) or "/"
        if "/" in parts.path[1:]:
            raise InvalidOption(
                "the virtual host in url must be percent-encoded: / in its name is %2F"
            )
        host, scheme = parts.hostname or "", parts.scheme
        user = self._or_environment("user") or unquote(parts.username or "") or None
        password, token = self._secret()
        if user is None and token is None:
            user = "guest"
        if user == "guest" and password is None and token is None:
            password = "guest"
        if password is None and token is None:
            raise InvalidOption(
                f"no password for user {user!r}: give the option password or passwordFile, "
                "or set HARELINE_PASSWORD before Spark starts"
            )
        return Connection(
            host=host,
            port=parts.port or _AMQP_PORTS[scheme],
            is_tls=scheme == "amqps",
            vhost=vhost,
            http_url=self._http_url(host, is_tls=scheme == "amqps"),
            user=user or "",
            password=password or "",
            token=token,
        )

    def _http_url(self, host: str, *, is_tls: bool) -> str:
        given = self._or_environment("httpUrl")
        if given is not None:
            if _split("httpUrl", given, ("http", "https")).username is not None:
                raise InvalidOption("httpUrl has a user in it: use the option user")
            return given.rstrip("/")
        address = f"[{host}]" if ":" in host else host
        return f"{'https' if is_tls else 'http'}://{address}:{_MANAGEMENT_PORT}"

    def _secret(self) -> tuple[str | None, str | None]:
        """Password and token, at most one of them."""
        name = self.only_one(_SECRETS)
        if name is None:
            given = [each for each in _SECRETS if self._environment.get(CONNECTION_OPTIONS[each])]
            if len(given) > 1:
                variables = " and ".join(CONNECTION_OPTIONS[each] for each in given)
                raise InvalidOption(f"{variables} contradict each other: set one of them")
            name = given[0] if given else None
        if name is None:
            return None, None
        value = self._or_environment(name)
        if name == "passwordFile" and value is not None:
            return _first_line(value), None
        if name == "token" and value is not None and not (value.isascii() and value.isprintable()):
            raise InvalidOption("token must be printable ASCII on one line")
        return (None, value) if name == "token" else (value, None)

    def _or_environment(self, name: str) -> str | None:
        return self.text(name) or self._environment.get(CONNECTION_OPTIONS[name]) or None


@dataclass(frozen=True)
class Connection:
    """Address of the broker and login; sent to executors with the reader or writer."""

    host: str
    port: int
    is_tls: bool
    vhost: str
    #: Of the management port, without a slash at its end.
    http_url: str
    user: str
    password: str = field(repr=False)
    #: For a proxy in front of the management port, instead of user and password.
    token: str | None = field(default=None, repr=False)


def _unknown(name: str, names: Mapping[str, str]) -> str:
    near = [_KAFKA_NAMES[name]] if _KAFKA_NAMES.get(name) in names else None
    near = near or get_close_matches(name, names, n=1)
    if near:
        return f"there is no option {name!r}; did you mean {names[near[0]]!r}?"
    return f"there is no option {name!r}; there are {', '.join(sorted(names.values()))}"


def _split(name: str, url: str, schemes: tuple[str, ...]) -> SplitResult:
    """The parts of a URL. Its text is in no error: it may have a password in it."""
    form = f"{name} must be {schemes[0]}://HOST:PORT or {schemes[1]}://HOST:PORT"
    try:
        parts = urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise InvalidOption(f"{form}; host or port cannot be read") from None
    if parts.password is not None:
        raise InvalidOption(
            f"{name} has a password in it, where logs would show it: use the option password "
            "or passwordFile, or set HARELINE_PASSWORD"
        )
    if parts.scheme not in schemes or not is_complete or parts.query or parts.fragment:
        raise InvalidOption(form)
    return parts


def _first_line(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "is not UTF-8"
        raise InvalidOption(f"passwordFile {path}: {why}") from None
    if not lines or not lines[0]:
        raise InvalidOption(f"passwordFile {path}: its first line is empty")
    return lines[0]


def microseconds_of(text: str) -> int:
    """Microseconds since 1970. Raises ValueError for a text of another form, or from before."""
    if text.isascii() and text.isdecimal():
        return int(text) * 1_000
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None or moment < _EPOCH:
        raise ValueError(text)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
