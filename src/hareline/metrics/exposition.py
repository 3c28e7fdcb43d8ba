"""Prometheus' text format 0.0.4: lines of families, labels and values.

``metrics.rendering`` writes with it in shares, which no client library for Prometheus can do
(docs/decisions/0017-metrics-text.md). A line stays one line of valid UTF-8, whatever octets a
client has put into a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isnan
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

MetricType = Literal["counter", "gauge", "histogram", "untyped"]


class Family(NamedTuple):
    """All samples of one name; ``name`` has no prefix."""

    name: str
    type: MetricType
    help: str


def head(prefix: str, family: Family) -> str:
    """The lines in front of the samples of a family, in RabbitMQ's order."""
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    name = f"{prefix}{family.name}"
    return f"# TYPE {name} {family.type}\n# HELP {name} {text}\n"


def label(name: str, value: str) -> str:
    """One label with its value; labels of a sample are joined with commas."""
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    if not value.isascii():  # octets that are not UTF-8 are surrogates
        value = value.encode("utf-8", "backslashreplace").decode()
    return f'{name}="{value}"'


def sample(name: str, labels: str, value: float) -> str:
    """One line; ``labels`` may be empty."""
    return f"{name}{{{labels}}} {number(value)}\n" if labels else f"{name} {number(value)}\n"


def number(value: float) -> str:
    """A value; True and False are 1 and 0."""
    if isinstance(value, int):
        return str(int(value))
    if value in (inf, -inf) or isnan(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)


def histogram(
    prefix: str, family: Family, bounds: Iterable[float], counts: Iterable[int], total: float
) -> str:
    """A whole histogram without labels.

    ``counts`` has one number for each bound, of values up to it and above the one before, and one
    more for what is above all; ``total``: the sum of the values.
    """
    name = f"{prefix}{family.name}"
    lines = [head(prefix, family)]
    reached = 0
    for bound, count in zip((*bounds, inf), counts, strict=True):
        reached += count
        lines.append(sample(f"{name}_bucket", label("le", number(float(bound))), reached))
    lines.append(sample(f"{name}_sum", "", total))
    lines.append(sample(f"{name}_count", "", reached))
    return "".join(lines)
