"""Runs the broker with windows so small that a few messages make a queue deep.

``python small_windows.py python -m hareline serve ...``: what follows the interpreter is the
command line of ``hareline``. ``use_small_windows`` does the same to this process.
"""

from __future__ import annotations

import runpy
import sys
from typing import Final

import pytest

from hareline.queues.core import pages
from hareline.queues.orders import fifo, log_columns, log_order, log_pages
from hareline.queues.orders import window as paging
from hareline.server import restore

WINDOW_ENTRIES: Final = 5
PAGE_ENTRIES: Final = 3
ENTRIES_PER_STEP: Final = 7


def use_small_windows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(paging, "WINDOW_ENTRIES", WINDOW_ENTRIES)
    for module in (fifo, log_order, pages, paging):
        patch.setattr(module, "PAGE_ENTRIES", PAGE_ENTRIES)
    for module in (log_columns, log_pages):
        patch.setattr(module, "LOG_PAGE_ENTRIES", PAGE_ENTRIES)
    patch.setattr(restore, "ENTRIES_PER_STEP", ENTRIES_PER_STEP)


if __name__ == "__main__":
    use_small_windows(pytest.MonkeyPatch())
    sys.argv = sys.argv[3:]
    runpy.run_module("hareline", run_name="__main__", alter_sys=True)
