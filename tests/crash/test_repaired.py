"""Whatever a journal has suffered, after ``hareline journal repair --apply`` a broker starts on it.

The journal is one that brokers have written, each run a segment. What must be there afterwards is
said by the messages that stand in the segments that were not touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Final, NamedTuple

import pika
import pytest
from click.testing import CliRunner
from pika.adapters.blocking_connection import BlockingChannel

from hareline.cli.root import root
from hareline.settings import Settings, Storage
from hareline.storage.journal.format.frame import BATCH_MAGIC, BATCH_MAGIC_OFFSET, BATCH_SIZE
from hareline.testing import running_broker

RUNS: Final = 4
BODIES: Final = 4  # of each run
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


class Template(NamedTuple):
    """``bodies``: what stands in each segment of the journal, by its path, in order.

    ``settled``: of those the ones that were acknowledged, in another segment.
    """

    data_dir: Path
    bodies: dict[Path, list[bytes]]
    settled: set[bytes]


def settings_of(data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, storage=Storage(kind="journal"))


def in_broker(data_dir: Path, story: Callable[[BlockingChannel], object]) -> None:
    with running_broker(settings_of(data_dir)) as url:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            story(channel)
        finally:
            connection.close()


def drained(channel: BlockingChannel) -> list[bytes]:
    bodies = []
    while (body := channel.basic_get("q", auto_ack=True)[2]) is not None:
        bodies.append(body)
    return bodies


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Each run but the first settles the second message there is."""
    data_dir = tmp_path_factory.mktemp("template") / "data"
    everything = []
    settled = set()
    for run in range(RUNS):

        def story(channel: BlockingChannel, run: int = run) -> None:
            channel.queue_declare("q", durable=True)
            if run:
                channel.basic_get("q")
                method, _, second = channel.basic_get("q")
                channel.basic_ack(method.delivery_tag)
                settled.add(second)
            for number in range(BODIES):
                body = b"<run %d, message %d>" % (run, number) + bytes(2_000)
                everything.append(body)
                channel.basic_publish("", "q", body, PERSISTENT)

        in_broker(data_dir, story)
    segments = {path: path.read_bytes() for path in sorted((data_dir / "journal").glob("*.log"))}
    bodies = {
        path: [body for body in everything if body in octets] for path, octets in segments.items()
    }
    assert [len(each) for each in bodies.values()] == [BODIES] * RUNS
    return Template(data_dir, bodies, settled)


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut(path: Path) -> None:
    octets = path.read_bytes()
    path.write_bytes(octets[: len(octets) // 2])


def without_header(path: Path) -> None:
    path.write_bytes(bytes(40) + path.read_bytes()[40:])


def without_checkpoint(path: Path) -> None:
    octets = path.read_bytes()
    start = octets.index(BATCH_MAGIC) - BATCH_MAGIC_OFFSET + BATCH_SIZE
    path.write_bytes(octets[:start] + bytes(20) + octets[start + 20 :])


def without_first_batch(path: Path) -> None:
    octets = path.read_bytes()
    start = octets.index(BATCH_MAGIC) - BATCH_MAGIC_OFFSET
    path.write_bytes(octets[:start] + bytes(200) + octets[start + 200 :])


def scratched(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    middle = len(octets) // 2
    octets[middle : middle + 30] = b"?" * 30
    path.write_bytes(octets)


Damage = Callable[[Path], None]
Case = tuple[str, tuple[tuple[int, Damage], ...]]  # way of the repair, damages by segment
DAMAGES: Final[list[Damage]] = [
    missing,
    empty,
    zeroed,
    cut,
    without_header,
    without_checkpoint,
    without_first_batch,
    scratched,
]
WORST: Final[list[Damage]] = [missing, zeroed, without_header]


def _cases() -> Iterator[Case]:
    for way in ("skip", "truncate"):
        for number, damage in product(range(RUNS), DAMAGES):
            yield way, ((number, damage),)
        for damage in (missing, zeroed):
            yield way, tuple((number, damage) for number in range(RUNS))
    for one, other in combinations(range(RUNS), 2):
        for damages in product(WORST, WORST):
            yield "skip", ((one, damages[0]), (other, damages[1]))


def _name(case: Case) -> str:
    way, damages = case
    return "-".join([way, *(f"{damage.__name__}_{number}" for number, damage in damages)])


@pytest.mark.acceptance
@pytest.mark.parametrize("case", list(_cases()), ids=_name)
def test_a_broker_starts_after_a_repair_and_has_what_was_not_damaged(
    template: Template, tmp_path: Path, case: Case
) -> None:
    way, damages = case
    data_dir = tmp_path / "data"
    shutil.copytree(template.data_dir, data_dir)
    segments = [data_dir / path.relative_to(template.data_dir) for path in template.bodies]
    for number, damage in damages:
        damage(segments[number])

    repaired = CliRunner().invoke(
        root, ["journal", "repair", "--apply", "--way", way, str(data_dir)]
    )
    assert (repaired.exit_code, repaired.stderr) == (0, ""), repaired.output
    verified = CliRunner().invoke(root, ["journal", "verify", str(data_dir)])
    assert verified.exit_code == 0, verified.output

    found: list[bytes] = []
    in_broker(data_dir, lambda channel: found.extend(drained(channel)))
    in_broker(data_dir, lambda channel: found.extend(drained(channel)))  # nothing comes back
    bodies = list(template.bodies.values())
    touched = [number for number, _ in damages]
    kept = range(min(touched)) if way == "truncate" else set(range(RUNS)) - set(touched)
    left = [body for number in kept for body in bodies[number]]
    expected = [body for body in left if body not in template.settled]
    assert [body for body in found if body in expected] == expected
    everything = [body for each in bodies for body in each]
    assert found == [body for body in everything if body in set(found)]
    assert len(found) == len(set(found))
    if way == "truncate":
        assert set(found) <= {body for each in bodies[: min(touched) + 1] for body in each}
