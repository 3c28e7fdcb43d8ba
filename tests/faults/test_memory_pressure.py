"""A process that may have no more memory: publishers wait before anything is refused or lost.

``test_memory_alarm`` has the alarm itself. Here the limit is that of the system, and no option says
what it is.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.base import Frame

from tests.support.broker_process import TRACEBACK, BrokerProcess, StartDaemon
from tests.support.raw_client import RawClient

MIB = 1 << 20
#: An idle broker has reserved some half of it, and a tenth is resident.
ROOM_KIB = 640 * 1024
BODY = bytes(100_000)
SETTINGS = '[storage]\nkind = "memory"\n[memory]\ncheck_interval_s = 0.05\n'

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")


@pytest.fixture
def tight(start_daemon: StartDaemon) -> BrokerProcess:
    """A daemon with a limit to its address space."""
    return start_daemon(SETTINGS, launcher=("sh", "-c", f'ulimit -v {ROOM_KIB}; exec "$@"', "sh"))


def connect(daemon: BrokerProcess) -> RawClient:
    return RawClient((daemon.host, daemon.port)).open()


@needs_proc
def test_publishers_wait_before_there_is_no_memory_and_all_messages_come(
    tight: BrokerProcess,
) -> None:
    assert tight.process is not None
    limit, _ = resource.prlimit(tight.process.pid, resource.RLIMIT_AS)
    assert limit == ROOM_KIB * 1024
    with connect(tight) as publisher, connect(tight) as consumer:
        publisher.declare("q")
        octets = publisher.publish_octets("q", BODY)
        count = publisher.send_until_nobody_reads(octets, most_bytes=limit, patience_s=4.0)
        assert isinstance(publisher.expect(Frame), commands.Connection.Blocked)
        taken = consumer.ready_count("q")
        assert 0 < taken <= count
        consumer.consume("q")
        consumer.skip_bodies(taken)
        publisher.expect(commands.Connection.Unblocked)
        publisher.send_the_rest()
        consumer.skip_bodies(count + 1 - taken)
    log = tight.log_path.read_text("utf-8")
    assert "MEM-1001" in log
    assert "MEM-1002" in log
    assert not TRACEBACK.search(log)
