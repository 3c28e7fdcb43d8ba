"""The memory alarm: publishers are told and not read from, consumers go on, and then all do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from pamqp import commands

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.events import Event
from hareline.net.memory import MemoryWatch, available_bytes, used_bytes
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

from .conftest import StartDaemon

DEADLINE_S = 30.0
MIB = 1 << 20

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")


def resident_bytes(daemon: BrokerProcess) -> int:
    assert daemon.process is not None
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@needs_proc
def test_publishers_wait_above_the_watermark_until_consumers_have_freed_memory(
    start_daemon: StartDaemon,
) -> None:
    config = '[memory]\nspool_share = 1\ncheck_interval_s = 0.05\nwatermark = "64GiB"\n'
    daemon = start_daemon(config)
    publisher = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda _, f: told.append(f.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = publisher.channel()
    channel.queue_declare("q")
    daemon.reload(config.replace('"64GiB"', str(resident_bytes(daemon) + 30 * MIB)))

    published = 0

    def is_blocked() -> bool:
        nonlocal published
        for _ in range(20):
            channel.basic_publish("", "q", bytes(20_000))
            published += 1
        publisher.process_data_events(0)
        return bool(told)

    wait_for(is_blocked, DEADLINE_S, "connection.blocked")
    assert told == ["low on memory"]
    for _ in range(50):  # these stay in the socket
        channel.basic_publish("", "q", b"afterwards")

    with RawClient((daemon.host, daemon.port)) as consumer:
        consumer.open()
        consumer.consume("q", no_ack=True)
        bodies = consumer.read_bodies(published)
        assert set(bodies) == {bytes(20_000)}

        def is_unblocked() -> bool:
            publisher.process_data_events(0.05)
            return len(told) > 1

        wait_for(is_unblocked, DEADLINE_S, "connection.unblocked")
        assert consumer.read_bodies(50) == [b"afterwards"] * 50
    assert told == ["low on memory", "unblocked"]
    publisher.close()
    codes = [
        code
        for code in ("MEM-1001", "CON-1009", "MEM-1002", "CON-1010")
        if code in daemon.log_path.read_text()
    ]
    assert len(codes) == 4


def test_a_blocked_publisher_is_not_read_from_and_loses_nothing(broker: BrokerThread) -> None:
    publisher, observer = broker.client().open(), broker.client().open()
    observer.declare("q")
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    octets = publisher.publish_octets("q", bytes(100_000))
    count = publisher.send_until_nobody_reads(octets)
    publisher.expect(commands.Connection.Blocked)
    assert count > 1
    assert observer.ready_count("q") == 0
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    publisher.expect(commands.Connection.Unblocked)
    publisher.send_the_rest()
    wait_for(lambda: observer.ready_count("q") == count + 1, DEADLINE_S, "all its publishes")


def test_who_does_not_publish_is_not_blocked(broker: BrokerThread) -> None:
    publisher, consumer = broker.client().open(), broker.client().open()
    consumer.declare("q")
    publisher.publish("q", b"before")
    broker.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].ready_count == 1, "the message"
    )
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    consumer.consume("q", no_ack=False)
    assert consumer.read_bodies(1) == [b"before"]
    consumer.send(commands.Basic.Ack(delivery_tag=1))
    assert consumer.declare("other") == "other"
    broker.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].unacked_count == 0, "the ack"
    )
    assert broker.ask(
        lambda inside: [connection.is_blocked for connection in inside.context.connections]
    ) == [False, False]


def test_a_blocked_client_that_cannot_be_told_is_held_all_the_same(broker: BrokerThread) -> None:
    publisher, observer = broker.client().open(capabilities={}), broker.client().open()
    observer.declare("q")
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    octets = publisher.publish_octets("q", bytes(100_000))
    count = publisher.send_until_nobody_reads(octets)
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    publisher.send_the_rest()
    wait_for(lambda: observer.ready_count("q") == count + 1, DEADLINE_S, "all its publishes")
    assert publisher.declare("next-frame") == "next-frame"


def test_a_blocked_client_that_goes_away_is_noticed_when_the_alarm_ends(
    broker: BrokerThread,
) -> None:
    publisher = broker.client().open()
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    publisher.publish("nowhere", b"x")
    publisher.expect(commands.Connection.Blocked)
    publisher.drop()
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    broker.wait_until(lambda inside: not inside.context.connections, "it to be gone")


# -------------------------------------------------------------------------- the watch


class Log:
    """What a MemoryWatch reports."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, event: Event, **fields: object) -> None:
        assert set(fields) == set(event.fields)
        self.codes.append(event.code)


@pytest.fixture
def make_watch() -> Callable[[], tuple[MemoryWatch, Alarms, Log]]:
    def make() -> tuple[MemoryWatch, Alarms, Log]:
        alarms, log = Alarms([]), Log()
        return MemoryWatch(alarms, log, 1000, 1.0), alarms, log

    return make


def test_the_alarm_is_set_above_the_watermark_and_cleared_well_below(
    make_watch: Callable[[], tuple[MemoryWatch, Alarms, Log]],
) -> None:
    watch, alarms, log = make_watch()
    states: list[bool] = []
    for used in (999, 1000, 1001, 5000, 1000, 960, 950, 949, 1000, 1001):
        watch.check(used)
        states.append(alarms.is_on)
    assert states == [False, False, True, True, True, True, True, False, False, True]
    set_code, cleared_code = events.MEMORY_ALARM_SET.code, events.MEMORY_ALARM_CLEARED.code
    assert log.codes == [set_code, cleared_code, set_code]


def test_a_new_watermark_counts_at_the_next_look(
    make_watch: Callable[[], tuple[MemoryWatch, Alarms, Log]],
) -> None:
    watch, alarms, _ = make_watch()
    watch.check(900)
    watch.watermark_bytes = 800
    watch.check(900)
    assert alarms.is_on
    assert alarms.reason == "low on memory"


def test_pressure_comes_before_the_alarm_and_goes_after_it() -> None:
    alarms, pressed = Alarms([]), list[bool]()
    watch = MemoryWatch(alarms, Log(), 1000, 1.0, spool_share=0.7, on_pressure=pressed.append)
    states: list[tuple[bool, bool]] = []
    for used in (700, 701, 670, 1001, 900, 666, 664, 700):
        watch.check(used)
        states.append((pressed[-1] if pressed else False, alarms.is_on))
    on, off = (True, False), (False, False)
    assert states == [off, on, on, (True, True), on, on, off, off]
    assert pressed == [True, False]


def test_a_share_of_all_is_no_pressure_ever() -> None:
    pressed: list[bool] = []
    watch = MemoryWatch(Alarms([]), Log(), 1000, 1.0, on_pressure=pressed.append)
    watch.check(5000)
    assert pressed == []
    watch.spool_share = 0.5
    watch.check(5000)
    watch.spool_share = 1.0
    watch.check(5000)
    assert pressed == [True, False]


def test_used_memory_is_that_of_this_process() -> None:
    before = used_bytes()
    block = bytearray(64 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    assert 60 * MIB < used_bytes() - before < 100 * MIB
    assert MIB < before < available_bytes()


@pytest.mark.parametrize(
    ("membership", "file", "text", "expected"),
    [
        ("0::/\n", "memory.max", "104857600\n", 100 * MIB),
        ("0::/system.slice/h.service\n", "system.slice/h.service/memory.max", "1048576\n", MIB),
        ("0::/system.slice/h.service\n", "system.slice/memory.max", "1048576\n", MIB),
        ("0::/elsewhere\n", "system.slice/memory.max", "1048576\n", None),
        ("4:cpu,memory:/a/b\n", "memory/a/memory.limit_in_bytes", "1048576\n", MIB),
        ("4:cpu:/a\n", "memory/a/memory.limit_in_bytes", "1048576\n", None),
        ("0::/\n", "memory.max", "max\n", None),
        ("0::/\n", "memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("0::/\n", "memory.max", "", None),
    ],
)
def test_a_cgroup_limit_counts_if_it_is_below_the_machines_memory(
    tmp_path: Path, membership: str, file: str, text: str, expected: int | None
) -> None:
    machine = available_bytes(tmp_path / "missing", tmp_path / "missing")
    assert machine == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    member = tmp_path / "cgroup"
    member.write_text(membership)
    limit = tmp_path / "root" / file
    limit.parent.mkdir(parents=True)
    limit.write_text(text)
    assert available_bytes(member, tmp_path / "root") == (expected or machine)
