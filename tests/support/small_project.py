"""A ``conftest.py`` for the small projects in which tests try the results by group."""

from __future__ import annotations

from typing import Final

#: The results of this project's suite, and no other hook of it. The profile of hypothesis is taken
#: and not used, so that hypothesis need not be loaded.
CONFTEST: Final = """
from tests.support import results

pytest_configure = results.register

def pytest_addoption(parser):
    results.add_options(parser)
    parser.addoption("--hypothesis-profile")
"""
