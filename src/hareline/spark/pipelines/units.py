"""Numbers as people read them: three digits and a unit. Used by the page of a report."""

from __future__ import annotations

import datetime
from typing import Final

_THOUSANDS: Final = ("", " k", " M", " G", " T", " P")
_OCTETS: Final = (" B", " kB", " MB", " GB", " TB", " PB")
#: From how many microseconds on a unit is used, how many it has, and its name: 90 s, but 2 min.
_DURATIONS: Final = (
    (0, 1, "µs"),
    (1_000, 1_000, "ms"),
    (1_000_000, 1_000_000, "s"),
    (120_000_000, 60_000_000, "min"),
    (7_200_000_000, 3_600_000_000, "h"),
    (172_800_000_000, 86_400_000_000, "d"),
)


def count(number: float) -> str:
    """Such as ``999``, ``1.23 k``, ``45.6 M``."""
    return _scaled(number, 1000, _THOUSANDS)


def octets(number: float) -> str:
    """Such as ``999 B``, ``1.23 kB``: units of 1000."""
    return _scaled(number, 1000, _OCTETS)


def rate(per_second: float) -> str:
    """Such as ``1.23 k/s``."""
    return f"{count(per_second)}/s"


def octet_rate(per_second: float) -> str:
    """Such as ``1.23 MB/s``."""
    return f"{octets(per_second)}/s"


def percent(share: float) -> str:
    """Such as ``12.3 %``; what is not zero does not look as if it were."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    return f"{_digits(share * 100)} %"


def duration(microseconds: float) -> str:
    """Such as ``850 µs``, ``1.23 ms``, ``45.6 s``, ``3.5 min``."""
    size, name = 1, "µs"
    for start, each, unit in _DURATIONS:
        # What would be rounded to 1000 of the smaller unit is 1 of this one.
        if microseconds >= start * 0.9995:
            size, name = each, unit
    return f"{_digits(microseconds / size)} {name}"


def instant(seconds: float, *, with_seconds: bool = True) -> str:
    """Such as ``2026-01-05 10:00:00 UTC``."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC" if with_seconds else "%Y-%m-%d %H:%M UTC")


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    index = 0
    while abs(number) >= base * 0.9995 and index < len(units) - 1:
        number /= base
        index += 1
    return f"{_digits(number)}{units[index]}"


def _digits(number: float) -> str:
    """Three digits that count, and no zeros behind the point at the end."""
    if number == 0:
        return "0"
    size = abs(number)
    places = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
