"""Decorators for the compiled build, and whether this is one.

mypyc compiles the modules that ``scripts/compiled_wheel.py`` names; the same source runs
interpreted. Two decorators tell mypyc what it cannot see, and change nothing in an interpreted
build:

``mypyc_attr(allow_interpreted_subclasses=True)``   interpreted code derives from the class (modules
                                                    that are not compiled, or tests)
``trait``                                           an interface that is one base of several, and
                                                    that compiled classes alone implement

mypyc knows them by the names that they have in ``mypy_extensions``, which is needed to build and
not to run. This module is never compiled itself.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

__all__ = ["build", "mypyc_attr", "trait"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr, trait
else:

    def mypyc_attr(**_attributes):
        return _unchanged

    def trait(cls):
        return cls

    def _unchanged(cls):
        return cls


#: A module that is compiled wherever any is: its package below this one, and its name.
_WITNESS = ("wire", "decoder")


def build() -> str:
    """Kind of build that was installed, "compiled" or "pure"; imports nothing to find out."""
    package, module = _WITNESS
    spec = PathFinder.find_spec(module, [str(Path(__file__).with_name(package))])
    origin = "" if spec is None or spec.origin is None else spec.origin
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
