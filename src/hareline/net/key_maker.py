"""SCRAM keys of the passwords in the settings, derived while the broker already serves.

Each takes about a millisecond of pure computing, which would block the event loop, and a thousand
users should not delay the start by a second. So they are derived one after the other in a thread,
which releases the interpreter lock meanwhile. ``server`` starts it at the start and after a reload;
a login that comes sooner derives its own (``auth.users``).
"""

from __future__ import annotations

import asyncio

from hareline.auth.users import UserRegistry


class KeyMaker:
    """Needs a running event loop from ``start`` to ``stop``."""

    def __init__(self, users: UserRegistry) -> None:
        self._users = users
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Derive the keys that are missing; a derivation that runs takes in what was added."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._derive_all())

    def stop(self) -> None:
        """Derive no more keys."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _derive_all(self) -> None:
        loop = asyncio.get_running_loop()
        while (keys := self._users.next_underived()) is not None:
            await loop.run_in_executor(None, keys.derive)
