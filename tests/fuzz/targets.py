"""All targets by their names."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

NAMES: Final = ("decoder", "tables", "selectors", "connection", "http")


def target_of(name: str) -> Target:
    """The target; imports what it calls only now, so that a fuzzer can watch it."""
    target: Target = import_module(f"tests.fuzz.{name}_target").TARGET
    return target
