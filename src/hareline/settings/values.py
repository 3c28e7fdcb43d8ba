"""The types of option values: how text in a file becomes a size, a share, a name, a pattern.

Only the modules that declare options use them. Each raises with a sentence that completes
"listener.port: ...", as pydantic's own messages do; none depends on another option.
"""

from __future__ import annotations

import base64
import ipaddress
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from hareline.patterns import check_pattern
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

LogFormat = Literal["auto", "console", "json"]
MechanismName = Literal["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"]
BackendName = Literal["internal", "oauth2", "http", "ldap"]
CertificateName = Literal["common_name", "distinguished_name", "dns", "email", "uri"]
StorageKind = Literal["journal", "memory"]
JournalSync = Literal["always", "interval", "never"]
CorruptionPolicy = Literal["fail", "skip", "truncate"]

SCRAM_ITERATIONS: Final = range(4096, 10_000_001)
SCRAM_SALT_OCTETS: Final = range(8, 65)
SCRAM_KEY_OCTETS: Final = 32

OCTETS_FORMS: Final = 'bytes or a size such as "64KiB"'
WATERMARK_FORMS: Final = 'a share such as 0.6 or "60%", bytes, or a size such as "4GiB"'
DISK_WATERMARK_FORMS: Final = (
    '"auto", a share such as 0.02 or "2%", bytes, or a size such as "1GiB"'
)
AUDIT_FORMS: Final = '"off", "all", or "sample:" and a share above 0, such as "sample:0.01"'
MAX_AGE_FORMS: Final = 'a number above 0 and one of Y, M, D, h, m, s, such as "7D", or empty'

_BYTE_SIZE: Final = TypeAdapter(ByteSize)
_SIZE: Final = re.compile(
    r"\s*\d+(\.\d+)?\s*[A-Za-z]*\s*", re.ASCII
)  # ByteSize ignores what follows
_PERCENT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*", re.ASCII)
_SAMPLE: Final = re.compile(r"sample:(\d+(?:\.\d+)?)", re.ASCII)
_MAX_AGE: Final = re.compile(r"(\d{1,18})[YMDhms]", re.ASCII)  # as x-max-age
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", re.ASCII)
_SCRAM_KEYS: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,8}):([^$:]+)\$([^$:]+):([^$:]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class InWords:
    """Permitted values in words, for the reference, where the bare type would say it badly."""

    text: str


def _size(text: str, forms: str) -> int:
    """Octets of a text such as "64KiB"; ``forms`` is what may be given.

    A plain int, because some of these numbers are compared for each frame, where a subclass of int
    costs more.
    """
    if _SIZE.fullmatch(text) is None:
        raise _not_of(forms)
    try:
        return int(_BYTE_SIZE.validate_python(text))
    except ValidationError:
        raise _not_of(forms) from None


def _not_of(forms: str) -> PydanticCustomError:
    return PydanticCustomError("forms", "Input should be {forms}", {"forms": forms})


def _octets(value: object) -> object:
    """Text becomes an int; anything else is left to pydantic."""
    return _size(value, OCTETS_FORMS) if isinstance(value, str) else value


def _watermark(value: object, forms: str = WATERMARK_FORMS) -> float | int:
    """A share of the machine's memory stays a float; an amount becomes an int of bytes."""
    if isinstance(value, str):
        text = value
        percent = _PERCENT.fullmatch(text)
        try:
            value = float(text) if percent is None else float(percent[1]) / 100
        except ValueError:
            value = _size(text, forms)
        if percent is not None and value > 1:
            raise _not_of(forms)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_of(forms)
    if 0 < value <= 1:
        return float(value)
    if 1 < value < math.inf and value == int(value):
        return int(value)
    raise PydanticCustomError(
        "watermark_range", "Input should be above 0; up to 1 it is a share, above 1 whole bytes"
    )


def _disk_watermark(value: object) -> object:
    return "auto" if value == "auto" else _watermark(value, DISK_WATERMARK_FORMS)


def _bind_address(value: str) -> str:
    """Address or host name as text; the start shows whether this machine has it."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if _HOST_NAME.fullmatch(value) is None or value.rpartition(".")[2].isdigit():
            raise PydanticCustomError(
                "bind_address",
                "Input should be an IP address or a host name, without port; 0.0.0.0 stands for "
                "every IPv4 interface, :: for every IPv6 interface",
            ) from None
    return value


def _short_string(value: str) -> str:
    if len(value.encode()) > SHORTSTR_MAX_OCTETS:
        raise PydanticCustomError(
            "shortstr_too_long",
            "Input should be at most {limit} octets of UTF-8",
            {"limit": SHORTSTR_MAX_OCTETS},
        )
    return value


def _qpid_product(value: str) -> str:
    if value and "qpid" not in value.lower():
        raise PydanticCustomError("qpid_product", "Input should contain 'qpid', or be empty")
    return value


def _permission_pattern(value: str) -> str:
    try:
        check_pattern(value)
    except ValueError as problem:
        raise PydanticCustomError(
            "pattern",
            "Input should be a regular expression, but it {reason}",
            {"reason": str(problem)},
        ) from None
    return value


def _scram_keys(value: str | None) -> str | None:
    """RFC 5803: scheme, iterations, salt, stored key, server key; the last three in base64."""
    if value is None:
        return None
    match = _SCRAM_KEYS.fullmatch(value)
    if match is None:
        raise PydanticCustomError(
            "scram_layout",
            "Input should read 'SCRAM-SHA-256$iterations:salt$stored key:server key'",
        )
    iterations, *encoded = match.groups()
    try:
        salt, *keys = [base64.b64decode(part, validate=True) for part in encoded]
    except ValueError:
        raise PydanticCustomError("scram_base64", "salt and keys should be base64") from None
    if int(iterations) not in SCRAM_ITERATIONS:
        raise PydanticCustomError("scram_iterations", "iterations should be 4096 to 10000000")
    if len(salt) not in SCRAM_SALT_OCTETS:
        raise PydanticCustomError("scram_salt", "salt should have 8 to 64 octets")
    if any(len(key) != SCRAM_KEY_OCTETS for key in keys):
        raise PydanticCustomError("scram_key", "both keys should have 32 octets")
    return value


def _audit(value: str) -> str:
    if value in ("off", "all"):
        return value
    match = _SAMPLE.fullmatch(value)
    if match is None or not 0 < float(match[1]) <= 1:
        raise PydanticCustomError("forms", "Input should be {forms}", {"forms": AUDIT_FORMS})
    return value


def _max_age(value: str) -> str:
    if value:
        match = _MAX_AGE.fullmatch(value)
        if match is None or not int(match[1]):
            raise PydanticCustomError("forms", "Input should be {forms}", {"forms": MAX_AGE_FORMS})
    return value


def _named(value: object) -> object:
    if value == "":
        raise PydanticCustomError(
            "no_path", "a path should not be empty; the working directory is '.'"
        )
    return value


def _home_expanded(value: Path) -> Path:
    try:
        return value.expanduser()
    except RuntimeError:
        raise PydanticCustomError(
            "no_home", "'~' cannot be expanded: no home directory is known"
        ) from None


def _networks(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            ipaddress.ip_network(value)
        except ValueError as error:
            raise PydanticCustomError(
                "network",
                "'{value}' should be an address or a network such as 10.0.0.0/8: {reason}",
                {"value": value, "reason": str(error)},
            ) from None
    return values


def _home_expanded_text(value: str) -> str:
    return str(_home_expanded(Path(value))) if value else value


def _some_without_repetition(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise PydanticCustomError("nothing_named", "Input should name at least one")
    for value in values:
        if values.count(value) > 1:
            raise PydanticCustomError("repeated", "'{value}' is named twice", {"value": value})
    return values


Octets = Annotated[int, BeforeValidator(_octets), InWords(OCTETS_FORMS)]
Watermark = Annotated[float | int, PlainValidator(_watermark), InWords(WATERMARK_FORMS)]
DiskWatermark = Annotated[
    float | int | Literal["auto"],
    PlainValidator(_disk_watermark),
    InWords(DISK_WATERMARK_FORMS),
]
BindAddress = Annotated[str, AfterValidator(_bind_address), InWords("address or host name")]
ShortString = Annotated[str, Field(min_length=1), AfterValidator(_short_string)]
EmptyOrShortString = Annotated[str, AfterValidator(_short_string)]
QpidProduct = Annotated[EmptyOrShortString, AfterValidator(_qpid_product)]
PermissionPattern = Annotated[str, AfterValidator(_permission_pattern)]
PatternList = Annotated[tuple[PermissionPattern, ...], InWords("list of patterns")]
ScramKeys = Annotated[str | None, AfterValidator(_scram_keys), InWords("text")]
HomeRelativePath = Annotated[Path, BeforeValidator(_named), AfterValidator(_home_expanded)]
EmptyOrPath = Annotated[str, AfterValidator(_home_expanded_text), InWords("path, or empty")]
Audit = Annotated[str, AfterValidator(_audit), InWords(AUDIT_FORMS)]
MaxAge = Annotated[str, AfterValidator(_max_age), InWords(MAX_AGE_FORMS)]
Mechanisms = Annotated[tuple[MechanismName, ...], AfterValidator(_some_without_repetition)]
Backends = Annotated[tuple[BackendName, ...], AfterValidator(_some_without_repetition)]
NetworkList = Annotated[
    tuple[str, ...], AfterValidator(_networks), InWords("list of addresses and networks")
]
Port = Annotated[int, Field(ge=0, le=65535)]
