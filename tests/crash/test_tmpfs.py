"""A real broker on a file system of 16 MiB that runs full.

The file system is a tmpfs in a mount namespace of its own, which an ordinary user may make where
user namespaces are allowed; elsewhere these tests are skipped. A process that only waits keeps the
namespace, and with it the data, while the broker is killed and started again.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pamqp import commands, frame, header
from pamqp.base import Frame
from pamqp.body import ContentBody

from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

DISK_BYTES: Final = 16 << 20
BODY_SIZE: Final = 20_000
MESSAGES_MAX: Final = 2 * DISK_BYTES // BODY_SIZE
PERSISTENT: Final = commands.Basic.Properties(delivery_mode=2)
SMALL_SEGMENTS: Final = '[journal]\nsegment_bytes = "1MiB"\n[disk]\ncheck_interval_s = 0.05\n'
QUEUE: Final = "line"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker, not started yet, whose data directory is on the small file system."""
    for needed in ("unshare", "nsenter", "mount"):
        if shutil.which(needed) is None:
            pytest.skip(f"needs the program {needed}")
    broker = BrokerProcess(tmp_path, SMALL_SEGMENTS)
    broker.data_dir.mkdir()
    script = f"mount -t tmpfs -o size={DISK_BYTES} none '{broker.data_dir}' && echo mounted && cat"
    keeper = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        said = keeper.stdout.readline()
        if said != b"mounted\n":
            pytest.skip(f"needs a mount namespace of its own: {said.decode().strip()}")
        broker.launcher = (
            *("nsenter", "--preserve-credentials", "--user", "--mount"),
            *("--target", str(keeper.pid), "--wd=/"),
        )
        yield broker
    finally:
        broker.kill()
        keeper.stdin.close()
        keeper.wait()
        keeper.stdout.close()


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient((broker.host, broker.port)).open()


def put(client: RawClient, number: int) -> None:
    body = b"%08d" % number + bytes(BODY_SIZE)
    client.send(commands.Basic.Publish(routing_key=QUEUE))
    head = header.ContentHeader(body_size=len(body), properties=PERSISTENT)
    client.send_octets(frame.marshal(head, 1) + frame.marshal(ContentBody(body), 1))


def fill(client: RawClient) -> tuple[int, str]:
    """Publish one after the other until told to stop; how many are confirmed, and the reason.

    What was on its way when the broker said so waits in the socket; one message at most.
    """
    confirmed = 0
    for number in range(MESSAGES_MAX):
        put(client, number)
        while confirmed <= number:
            method = client.expect(Frame)
            if isinstance(method, commands.Connection.Blocked):
                return confirmed, method.reason
            assert isinstance(method, commands.Basic.Ack), method
            confirmed = method.delivery_tag or 0
    raise AssertionError(f"{MESSAGES_MAX} messages on a disk of {DISK_BYTES} octets")


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(body[:8]) for body in bodies]


def drain(broker: BrokerProcess, count: int) -> list[int]:
    """Take so many and acknowledge them; that is on the disk at the end."""
    with connect(broker) as client:
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        client.consume(QUEUE, no_ack=False)
        bodies = client.read_bodies(count)
        client.send(commands.Basic.Ack(delivery_tag=count, multiple=True))
        client.send(commands.Tx.Commit())
        while not isinstance(client.read()[1], commands.Tx.CommitOk):
            continue  # what waited may be delivered meanwhile
    return numbers(bodies)


def await_unblocked(client: RawClient) -> int:
    """Read until the broker says that it goes on; the last publish that was confirmed meanwhile."""
    confirmed = 0
    while True:
        method = client.expect(Frame)
        if isinstance(method, commands.Connection.Unblocked):
            return confirmed
        assert isinstance(method, commands.Basic.Ack), method
        confirmed = method.delivery_tag or 0


@pytest.mark.acceptance
@pytest.mark.parametrize("watermark", ['"2MiB"', "1000"])
def test_publishers_wait_while_the_disk_is_full_and_acks_make_room(
    small_disk: BrokerProcess, watermark: str
) -> None:
    """By the watermark, and when the file system itself has no more."""
    broker = small_disk
    broker.config_path.write_text(f"{SMALL_SEGMENTS}free_watermark = {watermark}\n", "utf-8")
    broker.start()
    with connect(broker) as client:
        client.declare(QUEUE, durable=True)
        client.select_confirms()
        confirmed, reason = fill(client)
        assert confirmed
        assert "disk" in reason
        assert drain(broker, confirmed) == list(range(confirmed))
        published = confirmed + 1  # the last one came in just when the broker said so
        if await_unblocked(client) < published:
            client.read_confirms(published)
        put(client, published)
        client.read_confirms(published + 1)
    broker.stop()


@pytest.mark.acceptance
@pytest.mark.parametrize("watermark", ['"2MiB"', "1000"])
def test_a_broker_that_is_killed_on_a_full_disk_comes_back_with_everything(
    small_disk: BrokerProcess, watermark: str
) -> None:
    broker = small_disk
    broker.config_path.write_text(f"{SMALL_SEGMENTS}free_watermark = {watermark}\n", "utf-8")
    broker.start()
    with connect(broker) as client:
        client.declare(QUEUE, durable=True)
        client.select_confirms()
        confirmed, _ = fill(client)
        broker.kill()
    broker.start()
    with connect(broker) as client:
        count = client.ready_count(QUEUE)
        assert confirmed <= count <= confirmed + 1
    assert drain(broker, count) == list(range(count))
    broker.kill()
    broker.start()
    with connect(broker) as client:
        assert client.ready_count(QUEUE) == 0, "acknowledgements were not kept"
        client.select_confirms()
        put(client, 0)
        while not isinstance(client.read()[1], commands.Basic.Ack):
            continue  # it is blocked until what was acknowledged has gone from the disk
    broker.stop()
