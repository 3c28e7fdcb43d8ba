"""What another process writes, on its way through the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest_asyncio

from hareline.management.range_answers import HIGH_BYTES, Relay, flushed, speaks_tls
from tests.support.waiting import until


class Client(asyncio.Transport):
    """Remembers what is written; ``waiting`` octets of it are not sent yet."""

    def __init__(self, **extra: object) -> None:
        super().__init__(extra)
        self.written = b""
        self.waiting = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.waiting


@pytest_asyncio.fixture
async def client() -> Client:
    return Client()


@pytest_asyncio.fixture
async def relay(client: Client) -> AsyncIterator[Relay]:
    made = Relay(client)
    yield made
    made.close()
    made.close()


async def test_everything_goes_on_until_the_end(relay: Relay, client: Client) -> None:
    with socket.socket(fileno=relay.far.detach()) as far:  # as another process has it
        sending = asyncio.create_task(relay.run())
        far.sendall(b"one ")
        await until(lambda: client.written == b"one ", "the first piece")
        far.sendall(b"two")
    await asyncio.wait_for(sending, 60)
    assert client.written == b"one two"


async def test_no_more_is_read_than_the_client_takes(relay: Relay, client: Client) -> None:
    client.waiting = HIGH_BYTES + 1
    with socket.socket(fileno=relay.far.detach()) as far:
        sending = asyncio.create_task(relay.run())
        far.sendall(b"one ")
        await until(lambda: client.written, "the first piece")
        far.sendall(b"two")
        for _ in range(5):
            await asyncio.sleep(0)
        assert client.written == b"one "
        client.waiting = 0
        await until(lambda: client.written == b"one two", "the second piece")
    await asyncio.wait_for(sending, 60)


async def test_a_flush_waits_for_what_is_left(client: Client) -> None:
    client.waiting = 10
    waiting = asyncio.create_task(flushed(client, 5))
    await asyncio.sleep(0)
    assert not waiting.done()
    client.waiting = 5
    await asyncio.wait_for(waiting, 60)


def test_tls_is_seen_by_its_context() -> None:
    assert speaks_tls(Client(sslcontext=object()))
    assert not speaks_tls(Client())
