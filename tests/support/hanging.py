"""Work on a disk that hangs until a test lets it go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def hanging_while_cleared(owner: type, method: str) -> Iterator[threading.Event]:
    """While the event is cleared, each call of this method waits; it is set at first."""
    answers = threading.Event()
    answers.set()
    call = getattr(owner, method)

    def wait_and_call(*arguments: object) -> object:
        answers.wait()
        return call(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, wait_and_call)
        try:
            yield answers
        finally:
            answers.set()
