"""Where logins have done what would hold up everybody else: slow hashes, questions to a directory.

``net.login_workers`` implements it with threads. ``auth.internal`` submits the comparison of a
password, ``administration`` the new hash of a user, and ``authorities.ldap`` a whole login.

Invariant: ``done`` is called on the thread of the event loop.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Workers(metaclass=ABCMeta):
    """Computes beside the event loop, a bounded number of tasks at once."""

    @abstractmethod
    def submit(
        self,
        origin: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Have ``work`` computed in a thread, then ``done`` called with what it returned.

        ``done`` gets None if ``work`` has raised, has waited too long, or was not wanted any more
        when it was its turn. False, and neither is called, if too much waits already: in all, or
        for this ``origin``. Origins are served in turn.
        """
