"""Addresses are bound as they were asked for, or refused with the option to blame."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from hareline.errors import ListenError
from hareline.net.binding import Address, bind_all, close_all

ELSEWHERE = "127.0.0.2"  # other processes take ports of 127.0.0.1

Found = list[tuple[int, int, int, str, tuple[Any, ...]]]


def _resolve_to(monkeypatch: pytest.MonkeyPatch, *targets: tuple[int, str]) -> None:
    """What the system says any name stands for, in the running loop."""

    async def getaddrinfo(_host: str, port: int, **_options: object) -> Found:
        return [(family, socket.SOCK_STREAM, 6, "", (host, port)) for family, host in targets]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)


async def test_a_bound_address_is_refused_to_clients_until_it_is_listened_on() -> None:
    ((bound,),) = await bind_all([Address("listener", "127.0.0.1", 0)])
    address = bound.getsockname()
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        bound.listen()
        socket.create_connection(address).close()
    finally:
        bound.close()


async def test_a_name_is_bound_at_all_of_its_addresses_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, elsewhere = (socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "192.0.2.1")
    _resolve_to(monkeypatch, here, elsewhere, (socket.AF_INET, "127.0.0.2"))
    (sockets,) = await bind_all([Address("listener", "a-name", 0)])
    close_all([sockets])
    assert len(sockets) == 2
    _resolve_to(monkeypatch, elsewhere)
    with pytest.raises(ListenError) as refused:
        await bind_all([Address("listener", "a-name", 0)])
    assert refused.value.problems == [
        ("listener.bind", "cannot listen on a-name:0: not an address of this machine")
    ]


async def test_what_was_bound_is_let_go_of_when_another_address_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = socket.socket()
        free.bind((ELSEWHERE, 0))
        port = free.getsockname()[1]
        free.close()
        with pytest.raises(ListenError, match=r"management\.port: .*already in use"):
            await bind_all(
                [
                    Address("listener", ELSEWHERE, port),
                    Address("management", "127.0.0.1", other.getsockname()[1]),
                ]
            )
    with socket.socket() as again:  # without SO_REUSEADDR, so nobody else has it
        again.bind((ELSEWHERE, port))


@pytest.mark.parametrize(
    ("number", "port", "problem"),
    [
        (errno.EACCES, 80, ("listener.port", "ports below 1024 need a privilege")),
        (errno.EACCES, 5672, ("listener.bind", os.strerror(errno.EACCES))),
        (errno.ENOBUFS, 80, ("listener.bind", os.strerror(errno.ENOBUFS))),
    ],
)
async def test_any_other_refusal_is_said_in_the_system_s_words(
    monkeypatch: pytest.MonkeyPatch, number: int, port: int, problem: tuple[str, str]
) -> None:
    async def getaddrinfo(*_arguments: object, **_options: object) -> Found:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    with pytest.raises(ListenError) as refused:
        await bind_all([Address("listener", "::1", port)])
    option, reason = problem
    assert refused.value.problems == [(option, f"cannot listen on [::1]:{port}: {reason}")]


async def test_what_is_no_name_at_all_is_said_so() -> None:
    """Python encodes names before it asks the system."""
    with pytest.raises(ListenError) as caught:
        await bind_all([Address("listener", "nonsense..host", 0)])
    assert caught.value.problems == [
        ("listener.bind", "cannot listen on nonsense..host:0: not a host name")
    ]
