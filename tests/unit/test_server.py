"""A broker on the event loop of a test: what its start opens, and what is left when that fails."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline import events
from hareline.errors import ListenError, StoreError
from hareline.events import Event
from hareline.net.binding import Address, bind_all, close_all
from hareline.server import broker as server
from hareline.server.broker import Broker
from hareline.settings import FurtherListener, Listener, Management, Settings, Storage

DEADLINE_S = 60.0
IN_MEMORY = Storage(kind="memory")


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Event, dict[str, object]]]:
    """What a broker made after this reports."""
    found: list[tuple[Event, dict[str, object]]] = []
    monkeypatch.setattr(server, "report", lambda event, **fields: found.append((event, fields)))
    return found


def settings(**values: object) -> Settings:
    """On free ports and without a disk, unless ``values`` say otherwise."""
    usual: dict[str, object] = {
        "listener": {"port": 0},
        "management": {"enabled": False},
        "storage": {"kind": "memory"},
    }
    return Settings.model_validate({**usual, **values})


# ------------------------------------------------------------------------- the start


async def test_a_management_port_in_use_is_named(taken_port: int) -> None:
    broker = Broker(
        Settings(
            listener=Listener(port=0), management=Management(port=taken_port), storage=IN_MEMORY
        )
    )
    with pytest.raises(
        OSError, match=rf"management.port: .*127.0.0.1:{taken_port}: .*already in use"
    ):
        await broker.start()


async def test_a_port_that_cannot_be_listened_on_leaves_nothing_running() -> None:
    """Sockets that nobody listens on may share an address, so the second one is refused late."""
    reserved = await bind_all([Address("reserved", "127.0.0.1", 0)])
    port = reserved[0][0].getsockname()[1]
    ports = {"listener": Listener(port=port), "management": Management(port=port)}
    broker = Broker(Settings(storage=IN_MEMORY).model_copy(update=ports))
    try:
        with pytest.raises(ListenError, match=rf"listener.port: .*:{port}: address already in use"):
            await broker.start()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    finally:
        close_all(reserved)


async def test_every_address_that_cannot_be_had_is_named_before_anything_is_read(
    taken_port: int, tmp_path: Path
) -> None:
    broker = Broker(
        Settings(
            data_dir=tmp_path / "data",
            listener=Listener(bind="192.0.2.1", port=0),
            listeners=(FurtherListener(port=0), FurtherListener(port=taken_port)),
            management=Management(bind="no-such-host.invalid"),
        )
    )
    with pytest.raises(ListenError) as refused:
        await broker.start()
    first, second, third = refused.value.problems
    assert first == (
        "listener.bind",
        "cannot listen on 192.0.2.1:0: not an address of this machine",
    )
    assert second == (
        "listeners[1].port",
        f"cannot listen on 127.0.0.1:{taken_port}: address already in use",
    )
    assert third[0] == "management.bind"
    assert third[1].startswith("cannot listen on no-such-host.invalid:15672: no address is known")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("which", ["listener", "management"])
async def test_an_address_of_another_machine_is_named(which: str) -> None:
    elsewhere = "192.0.2.1"
    broker = Broker(
        Settings(
            listener=Listener(port=0, bind=elsewhere if which == "listener" else "127.0.0.1"),
            management=Management(port=0, bind=elsewhere),
            storage=IN_MEMORY,
        )
    )
    with pytest.raises(OSError, match=re.escape(elsewhere)):
        await broker.start()


async def test_the_management_port_answers_as_soon_as_it_is_known() -> None:
    """It is printed then, and somebody may be waiting for that line."""
    broker = Broker(
        Settings(listener=Listener(port=0), management=Management(port=0), storage=IN_MEMORY)
    )
    await broker.start()
    port = int(broker.management_url.rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
    await broker.stop(0)


async def test_the_urls_are_known_once_it_has_started() -> None:
    broker = Broker(settings(listeners=[{"port": 0}]))
    assert (broker.url, broker.urls, broker.has_started) == ("", [], False)
    await broker.start()
    assert broker.has_started
    assert len(broker.urls) == 2
    assert broker.url == broker.urls[0]
    for url in broker.urls:
        port = int(url.removeprefix("amqp://127.0.0.1:"))
        socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
    await broker.stop(0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(broker.url.rpartition(":")[2])))


async def test_no_client_can_connect_while_the_disk_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[type[OSError]] = []
    bind = "127.0.0.2"  # other processes take ports of 127.0.0.1
    listener = socket.create_server((bind, 0))
    port = listener.getsockname()[1]
    listener.close()

    async def watched(self: Broker) -> None:
        try:
            socket.create_connection((bind, port)).close()
        except OSError as error:
            tried.append(type(error))

    monkeypatch.setattr(Broker, "_open_storage", watched)
    broker = Broker(
        settings(
            listener={"bind": bind, "port": port},
            storage={"kind": "journal"},
            data_dir=str(tmp_path),
        )
    )
    await broker.start()
    assert tried == [ConnectionRefusedError]
    await broker.stop(0)


async def test_a_data_directory_in_use_ends_the_start(tmp_path: Path) -> None:
    values = settings(storage={"kind": "journal"}, data_dir=str(tmp_path))
    first, second = Broker(values), Broker(values)
    await first.start()
    with pytest.raises(StoreError):
        await second.start()
    assert second.urls == []
    await first.stop(0)
    third = Broker(values)  # the lock is free again
    await third.start()
    await third.stop(0)


async def test_a_start_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    values = settings(storage={"kind": "journal"}, data_dir=str(tmp_path))
    broker = Broker(values)
    starting = asyncio.ensure_future(broker.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not broker.has_started
    after = Broker(values)
    await after.start()
    await after.stop(0)


# ------------------------------------------------------------------------ the reload


async def test_a_reload_takes_over_what_it_can_and_names_the_rest(
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    broker = Broker(settings())
    await broker.start()
    broker.reload(
        settings(
            listener={"port": 0, "backlog": 5},
            limits={"heartbeat_s": 7, "max_bindings": 9},
            vhosts=[
                {"name": "/", "max_queues": 3, "max_producers": 5, "producer_max_age_s": 60},
                {"name": "new", "max_connections": 4},
            ],
        )
    )
    context = broker.context
    assert context.limits.heartbeat_s == 7
    assert context.vhosts["/"].max_queues == 3
    assert context.capacity.max_bindings == context.vhosts["new"].capacity.whole.max_bindings == 9
    producers = context.vhosts["/"].producers
    assert (producers.max_count, producers.max_age_ms) == (5, 60_000)
    assert context.vhost_connection_limits["new"] == 4
    changed, waiting = reported[-2:]
    assert changed == (
        events.CONFIGURATION_RELOADED,
        {
            "changed": [
                "listener.backlog",
                "limits.heartbeat_s",
                "limits.max_bindings",
                "vhosts",
                "users",
            ]
        },
    )
    assert waiting == (events.CONFIGURATION_NEEDS_RESTART, {"options": "listener.backlog"})
    await broker.stop(0)


async def test_what_waits_for_a_restart_is_named_at_each_reload_until_then(
    reported: list[tuple[Event, dict[str, object]]],
) -> None:
    broker = Broker(settings())
    await broker.start()
    for _ in range(2):
        broker.reload(settings(listener={"port": 0, "backlog": 5}))
        assert reported[-1][0] is events.CONFIGURATION_NEEDS_RESTART
    broker.reload(settings())
    assert reported[-1] == (
        events.CONFIGURATION_NEEDS_RESTART,
        {"options": "listener.backlog"},
    )
    broker.reload(settings())
    assert reported[-1] == (events.CONFIGURATION_RELOADED, {"changed": []})
    await broker.stop(0)
