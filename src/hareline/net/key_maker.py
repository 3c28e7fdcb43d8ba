"""SCRAM keys of the passwords in the settings, derived while the broker already serves.

Each takes a millisecond or so of pure computing, in which nothing else could happen on the event
loop, and a thousand users are no reason to start a second later. So they are derived one after the
other in a thread, which gives up the interpreter lock for that. ``server`` starts it at the start
and after a reload; logins that come sooner derive their own (``auth.users``).
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
        """Derive whatever is still to be derived; one that is at it takes in what was added."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._derive_all())

    def stop(self) -> None:
        """Leave it at those there are."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _derive_all(self) -> None:
        loop = asyncio.get_running_loop()
        while (keys := self._users.next_underived()) is not None:
            await loop.run_in_executor(None, keys.derive)
