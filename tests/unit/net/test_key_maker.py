"""SCRAM keys are derived while the loop goes on, and those that a reload brings as well."""

from __future__ import annotations

import asyncio

from hareline.auth.passwords import hash_password
from hareline.auth.scram import PasswordKeys, salt_of
from hareline.auth.users import User, UserRegistry
from hareline.net.key_maker import KeyMaker

LIMIT_S = 60.0


def _users(*names: str) -> list[User]:
    return [
        User(name, hash_password(name), scram=PasswordKeys(name, salt_of(name))) for name in names
    ]


async def _until_derived(registry: UserRegistry) -> int:
    """Waits for the last of them; returns how often the loop had its turn meanwhile."""
    turns = 0
    async with asyncio.timeout(LIMIT_S):
        while registry.next_underived() is not None:
            await asyncio.sleep(0)
            turns += 1
    return turns


async def test_all_keys_are_derived_in_the_end() -> None:
    registry = UserRegistry(_users("a", "b", "c"))
    maker = KeyMaker(registry)
    maker.start()
    assert await _until_derived(registry) > 0
    maker.stop()


async def test_users_that_come_later_get_theirs() -> None:
    registry = UserRegistry(_users("a"))
    maker = KeyMaker(registry)
    maker.start()
    registry.replace(_users("b", "c"))
    maker.start()
    await _until_derived(registry)
    registry.replace(_users("d"))
    assert registry.next_underived() is not None
    maker.start()
    await _until_derived(registry)
    maker.stop()


async def test_after_stop_nothing_more_is_derived() -> None:
    registry = UserRegistry(_users("a"))
    maker = KeyMaker(registry)
    maker.stop()
    maker.start()
    maker.stop()
    await asyncio.get_running_loop().run_in_executor(None, int)  # what was begun has ended
    assert registry.next_underived() is not None
