"""Time spans that a request may ask samples for: ``lengths_age`` and ``lengths_incr``.

RabbitMQ's four pairs of query parameters; the API reads them once a request and hands the window of
a group to ``Sampler.details``. A window has at most ``SAMPLES_MAX`` samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GROUPS: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
SAMPLES_MAX: Final = 500
_SECONDS_MAX: Final = 31_536_000  # a year
_DIGITS_MAX: Final = 12


class Window(NamedTuple):
    """The last ``age_s`` seconds, with a sample every ``increment_s``."""

    age_s: int
    increment_s: int


class WindowError(ValueError):
    """A window that cannot be had; its text is for the client."""


def read_windows(parameters: Mapping[str, str]) -> dict[str, Window]:
    """The windows by their groups that these query parameters ask for; raises WindowError."""
    windows: dict[str, Window] = {}
    for group in GROUPS:
        age, increment = parameters.get(f"{group}_age"), parameters.get(f"{group}_incr")
        if age is None or increment is None:
            continue
        window = Window(_seconds(f"{group}_age", age), _seconds(f"{group}_incr", increment))
        if window.age_s // window.increment_s >= SAMPLES_MAX:
            raise WindowError(
                f"{group}_age of {window.age_s} and {group}_incr of {window.increment_s} seconds "
                f"are more than {SAMPLES_MAX} samples"
            )
        windows[group] = window
    return windows


def _seconds(name: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else 0
    if not 0 < number <= _SECONDS_MAX:
        shown = text[:_DIGITS_MAX]
        raise WindowError(
            f"{name} must be a number of seconds from 1 to {_SECONDS_MAX}, not '{shown}'"
        )
    return number
