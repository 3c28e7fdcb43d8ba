"""What was durable is there again before anybody connects, and what is not is said exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from hareline.broker.ownership import ClientOwner
from hareline.broker.queues.declare.arguments import parse_queue_arguments
from hareline.broker.queues.declare.build import make_order
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.orders.priority import PriorityOrder
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import VirtualHost
from hareline.errors import StoreError
from hareline.message import ExpiringMessage, Message
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.interface import ContentStore
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import CHECKPOINT, MESSAGE
from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.segment import segment_path
from hareline.storage.memory import MemoryStore
from hareline.storage.recovery.live_entries import KnownQueue, QueueContents
from hareline.storage.recovery.progress import RecoveryProgress
from hareline.storage.recovery.read_journal import (
    JournalRecovery,
    RecoveryListener,
    VhostRecovery,
    known_queues,
)
from hareline.storage.recovery.state import RecoveredQueue
from hareline.turn import Turn
from tests.support.journals import (
    JournalBuilder,
    checkpoint_payload,
    commit_payload,
    free_payload,
    message_payload,
    part_payload,
    settle_payload,
)
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.timers import ManualTimers
from tests.support.vhosts import forget_report

Q = 1
QUEUES = {Q: KnownQueue("queue 'q' in vhost '/'")}


class Listener(RecoveryListener):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int]] = []
        self.damage: list[tuple[str, str]] = []
        self.impossible: list[tuple[str, str, str]] = []

    def on_progress(self, done: int, all_work: int) -> None:
        self.progress.append((done, all_work))

    def on_damage(self, problem: str, action: str) -> None:
        self.damage.append((problem, action))

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        self.impossible.append((vhost, what, problem))


class DictContentStore(ContentStore):
    """Messages by position."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}

    def read(self, position: int) -> Message:
        return self.messages[position]

    def read_run(self, positions: Sequence[int]) -> list[Message]:
        return [self.messages[position] for position in positions]

    def content(self, position: int) -> bytes:
        return self.messages[position].content

    def spool(self, message: Message) -> int:
        raise AssertionError("nothing is spooled while recovering")

    def drop_spooled(self, positions: Iterable[int]) -> None:
        raise AssertionError("nothing was spooled")


# ------------------------------------------------------------------------- the journal


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalBuilder]:
    builder = JournalBuilder(tmp_path / "journal", 1 << 16)
    builder.begin(1)
    yield builder
    builder.close()


def make_recovery(
    directory: str,
    listener: Listener,
    policy: Decision = Decision.FAIL,
    queues: Mapping[int, KnownQueue] = QUEUES,
    newest: int = 0,
) -> JournalRecovery:
    progress = RecoveryProgress(listener.on_progress)
    return JournalRecovery(Files(), directory, queues, policy, listener, progress, newest)


def recovered(
    journal: JournalBuilder,
    listener: Listener,
    policy: Decision = Decision.FAIL,
    newest: int = 0,
) -> JournalRecovery:
    recovery = make_recovery(journal.directory, listener, policy, newest=newest)
    for _ in recovery.read():
        pass
    return recovery


def messages(first: int, behind: int) -> list[tuple[int, bytes]]:
    return [message_payload(make_message(b"x" * 50), (Q, each)) for each in range(first, behind)]


def test_a_directory_that_is_not_there_yet_is_an_empty_journal(
    tmp_path: Path, listener: Listener
) -> None:
    recovery = make_recovery(str(tmp_path / "data" / "journal"), listener)
    assert list(recovery.read()) == []
    assert recovery.state.segments == []
    assert recovery.state.next_segment == 1
    assert recovery.state.queues == {Q: RecoveredQueue()}


def test_the_state_says_which_files_there_are_and_what_lives_in_them(
    journal: JournalBuilder, listener: Listener
) -> None:
    journal.batch(*messages(0, 4))
    ends = [journal.segment.end]
    journal.begin(2)
    journal.batch(*messages(4, 6), settle_payload((Q, 1, 2)))
    ends.append(journal.segment.end)
    state = recovered(journal, listener).state
    assert [(s.number, s.end, s.total) for s in state.segments] == [
        (1, ends[0], 4),
        (2, ends[1], 2),
    ]
    assert state.segments[0].created_ms < state.segments[1].created_ms
    assert state.next_segment == 3
    assert state.queues[Q].live == {1: 2, 2: 2}
    assert list(state.settled[1][2]) == [Q, 1, 2]
    done, all_work = listener.progress[-1]
    assert done == all_work - 1 > 0, "there is always something left before the end"


def test_the_last_file_is_cut_to_its_end_and_the_others_are_left(
    journal: JournalBuilder, listener: Listener
) -> None:
    journal.batch(*messages(0, 2))
    journal.begin(2)
    journal.batch(*messages(2, 4))
    state = recovered(journal, listener).state
    sizes = [Path(segment_path(journal.directory, number)).stat().st_size for number in (1, 2)]
    assert sizes == [1 << 16, state.segments[1].end]
    assert [s.size_bytes for s in state.segments] == sizes


def test_freed_files_that_are_still_there_go_and_say_nothing(
    journal: JournalBuilder, listener: Listener
) -> None:
    journal.batch(*messages(0, 2))
    journal.begin(2)
    journal.batch(*messages(2, 3), free_payload(1))
    recovery = recovered(journal, listener)
    assert list(recovery.contents[Q].offsets) == [2]
    assert not Path(segment_path(journal.directory, 1)).exists()
    assert [s.number for s in recovery.state.segments] == [2]


def test_numbers_go_on_above_all_that_ever_were(
    journal: JournalBuilder, listener: Listener
) -> None:
    retained = Path(journal.directory) / "retained"
    retained.mkdir()
    (retained / f"{9:016x}.log").write_bytes(b"")
    (retained / "notes.txt").write_bytes(b"")
    assert recovered(journal, listener).state.next_segment == 10


def test_a_torn_tail_is_cut_and_nobody_is_told(journal: JournalBuilder, listener: Listener) -> None:
    journal.batch(*messages(0, 2))
    end = journal.segment.end
    journal.batch(*messages(2, 5), durable=0)
    damage(journal, end + 200)
    recovery = recovered(journal, listener)
    assert list(recovery.contents[Q].offsets) == [0, 1]
    assert listener.damage == []
    assert Path(segment_path(journal.directory, 1)).stat().st_size == end


def damage(journal: JournalBuilder, offset: int) -> None:
    damage_at(Path(segment_path(journal.directory, journal.segment.number)), offset)


def damage_at(path: Path, offset: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[offset] ^= 0xFF
    path.write_bytes(octets)


class TestDamage:
    @pytest.fixture(autouse=True)
    def _damaged_in_the_middle(self, journal: JournalBuilder) -> None:
        """Entry 3 of 0 to 9; what stands before the damage was durable when 6 to 9 were written."""
        journal.batch(*messages(0, 2))
        positions = journal.batch(*messages(2, 6))
        journal.batch(*messages(6, 10))
        damage(journal, offset_of(positions[1]) + 100)

    def test_fail_is_an_error_that_says_all_and_touches_nothing(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        path = Path(segment_path(journal.directory, 1))
        before = path.read_bytes()
        with pytest.raises(StoreError) as caught:
            recovered(journal, listener)
        text = str(caught.value)
        assert f"{path}, offset " in text
        assert "checksum does not match" in text
        assert "1 of queue 'q' in vhost '/' (offsets 3 to 3)" in text
        assert 'journal.on_corruption to "skip" or "truncate"' in text
        ((problem, action),) = listener.damage
        assert "octets: checksum does not match" in problem
        assert action == "the broker does not start"
        assert path.read_bytes() == before

    def test_skip_leaves_out_what_is_damaged_and_no_more(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        recovery = recovered(journal, listener, Decision.SKIP)
        assert list(recovery.contents[Q].offsets) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        ((problem, action),) = listener.damage
        assert "1 of queue 'q' in vhost '/' (offsets 3 to 3)" in problem
        assert action == "left out"

    def test_truncate_drops_everything_from_there_on(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        recovery = recovered(journal, listener, Decision.TRUNCATE)
        assert list(recovery.contents[Q].offsets) == [0, 1]
        ((_, action),) = listener.damage
        assert action.startswith("the journal is cut there, ")
        path = segment_path(journal.directory, 1)
        assert recovery.state.leftovers == [(path, recovery.state.segments[0].end)]

    def test_queues_that_are_deleted_are_named_as_such(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        recovery = make_recovery(journal.directory, listener, Decision.SKIP, {})
        list(recovery.read())
        assert "1 of a queue that is deleted" in listener.damage[0][0]


class TestWhatDamageDoesNotShow:
    """Two to four segments; the damaged one had the entries 10 to 19, of which 10 was settled."""

    @pytest.fixture(autouse=True)
    def _segments(self, journal: JournalBuilder) -> None:
        journal.batch(checkpoint_payload(0))
        journal.batch(*messages(0, 10))
        journal.begin(2)
        journal.batch(checkpoint_payload(0, (Q, 10, 0)))
        journal.batch(*messages(10, 20))

    @staticmethod
    def _go_on(journal: JournalBuilder, *, without: Iterable[int] = ()) -> None:
        journal.begin(3, without=without)
        journal.batch(checkpoint_payload(0, (Q, 20, 0)))
        journal.batch(settle_payload((Q, 10, 1), (Q, 3, 2)), *messages(20, 25))

    @staticmethod
    def _path(journal: JournalBuilder, number: int) -> Path:
        return Path(segment_path(journal.directory, number))

    def _said(self, journal: JournalBuilder, listener: Listener, newest: int = 0) -> str:
        """Of the only damage, whatever the policy."""
        with pytest.raises(StoreError) as caught:
            recovered(journal, listener, Decision.FAIL, newest)
        recovered(journal, listener, Decision.SKIP, newest)
        (first, _), (problem, _) = listener.damage
        assert first == problem
        found = re.search(r"; ((how many )?messages (lost: |are ).*)$", problem)
        assert found
        assert f"; {found[1]}. To start without that, set journal.on_corruption" in str(
            caught.value
        )
        return found[1]

    def test_a_missing_segment_is_bounded_by_what_stands_around_it(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        self._path(journal, 2).unlink()
        said = self._said(journal, listener)
        assert said == "messages lost: at most 9 of queue 'q' in vhost '/' (offsets 11 to 19)"

    def test_what_is_found_of_it_is_not_counted(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        path = self._path(journal, 2)
        self._go_on(journal)
        octets = path.read_bytes()
        path.write_bytes(octets[: octets.index(b"x" * 50) + 300])
        problems = self._said_of_each(journal, listener)
        assert len(problems) == 2  # the record that was cut, and what is not there at all
        for problem in problems:
            assert problem.endswith(" of queue 'q' in vhost '/' (offsets 12 to 19)")
            assert "; messages lost: at most 8 of queue" in problem

    def test_a_damaged_header_costs_nothing_if_the_checkpoint_follows_it(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        damage_at(self._path(journal, 2), 20)
        said = self._said(journal, listener)
        assert said == "messages lost: none, if it is what it seems to be"

    def test_where_nothing_follows_it_cannot_be_told(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._path(journal, 2).unlink()
        said = self._said(journal, listener, newest=2)
        assert said == "how many messages are lost cannot be told"

    def test_what_may_have_been_moved_there_cannot_be_known(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal, without=[1])
        self._path(journal, 1).unlink()
        self._path(journal, 2).unlink()
        said = self._said(journal, listener)
        assert said == (
            "messages lost: at most 17 of queue 'q' in vhost '/' (offsets 0 to 19), and older ones "
            "that had been moved there, which cannot be told"
        )

    def test_nothing_was_published_while_it_was_written(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        journal.begin(4)
        journal.batch(checkpoint_payload(0, (Q, 25, 0)))
        journal.begin(5)
        journal.batch(checkpoint_payload(0, (Q, 25, 0)))
        self._path(journal, 4).unlink()
        assert self._said(journal, listener) == "messages lost: none"

    def test_a_damaged_settle_says_what_comes_back(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        positions = journal.batch(settle_payload((Q, 20, 1)))
        journal.batch(*messages(25, 26))
        damage(journal, offset_of(positions[0]) + 12)
        assert self._said(journal, listener) == (
            "messages lost: none, if it is what it seems to be; those that it settled come back"
        )

    def test_a_message_that_became_something_else_is_not_taken_for_that(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        positions = journal.batch(*messages(25, 26))
        journal.batch(*messages(26, 27))
        path = self._path(journal, 3)
        octets = bytearray(path.read_bytes())
        assert octets[offset_of(positions[0]) + 8] == MESSAGE
        octets[offset_of(positions[0]) + 8] = CHECKPOINT
        path.write_bytes(octets)
        said = self._said(journal, listener)
        assert said == "how many messages are lost cannot be told"

    def test_what_is_truncated_is_more_than_the_damage(
        self, journal: JournalBuilder, listener: Listener
    ) -> None:
        self._go_on(journal)
        self._path(journal, 2).unlink()
        recovered(journal, listener, Decision.TRUNCATE)
        ((problem, _),) = listener.damage
        assert problem.endswith(" (offsets 11 to 19), and all that was written behind it")

    def _said_of_each(self, journal: JournalBuilder, listener: Listener) -> list[str]:
        recovered(journal, listener, Decision.SKIP)
        return [problem for problem, _ in listener.damage]


@pytest.mark.parametrize(
    ("policy", "offsets"),
    [(Decision.SKIP, [0, 1, 2, 3]), (Decision.TRUNCATE, [])],
)
def test_a_transaction_whose_end_is_damaged_is_kept_if_the_rest_is(
    journal: JournalBuilder, listener: Listener, policy: Decision, offsets: list[int]
) -> None:
    journal.batch(*messages(0, 3), part_payload(1, (Q, 0, 3)))
    (position,) = journal.batch(commit_payload(1))
    journal.batch(*messages(3, 4))
    damage(journal, offset_of(position) + 10)
    recovery = recovered(journal, listener, policy)
    assert list(recovery.contents[Q].offsets) == offsets


def test_what_is_truncated_goes_only_once_a_new_segment_is_durable(
    journal: JournalBuilder, listener: Listener
) -> None:
    journal.batch(*messages(0, 1))
    (position,) = journal.batch(*messages(1, 2))
    damage(journal, offset_of(position) + 30)
    journal.begin(2)
    journal.batch(*messages(2, 3))
    recovery = recovered(journal, listener, Decision.TRUNCATE)
    assert list(recovery.contents[Q].offsets) == [0]
    assert [s.number for s in recovery.state.segments] == [1]
    first, second = (segment_path(journal.directory, number) for number in (1, 2))
    assert recovery.state.leftovers == [(first, recovery.state.segments[0].end), (second, 0)]
    assert Path(second).exists()
    assert recovery.state.next_segment == 3


def test_a_reading_that_is_given_up_closes_its_files(
    journal: JournalBuilder, listener: Listener
) -> None:
    for number in (2, 3, 4):
        journal.batch(*messages(number * 10, number * 10 + 3))
        journal.begin(number)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    reading = make_recovery(journal.directory, listener).read()
    next(reading)
    reading.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_offsets_go_on_where_a_checkpoint_says(journal: JournalBuilder, listener: Listener) -> None:
    journal.batch(checkpoint_payload(0, (Q, 1000, 0)))
    assert recovered(journal, listener).state.queues[Q].next_offset == 1000


# ------------------------------------------------------------------ what is known before


class TestKnownQueues:
    @pytest.fixture
    def definitions(self, tmp_path: Path) -> Iterator[SqliteDefinitions]:
        definitions = SqliteDefinitions(tmp_path / FILE_NAME)
        yield definitions
        definitions.close()

    def known(self, definitions: SqliteDefinitions, **arguments: object) -> KnownQueue:
        names = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue_id = definitions.add_queue("/", "q", is_auto_delete=False, arguments=names)
        return known_queues(definitions)[queue_id]

    def test_every_virtual_host_is_looked_into(self, definitions: SqliteDefinitions) -> None:
        ids = [
            definitions.add_queue(vhost, "q", is_auto_delete=False, arguments={})
            for vhost in ("/", "other")
        ]
        assert known_queues(definitions) == {
            ids[0]: KnownQueue("queue 'q' in vhost '/'"),
            ids[1]: KnownQueue("queue 'q' in vhost 'other'"),
        }

    @pytest.mark.parametrize(
        "arguments",
        [
            {"x_max_priority": 0},
            {"x_max_priority": 5},
            {"x_max_priority": 255, "x_default_priority": 7},
            {"x_qpid_priorities": 10},
            {"x_qpid_priorities": 3, "x_default_priority": 0},
        ],
        ids=str,
    )
    def test_a_level_is_the_one_that_the_queue_itself_gives(
        self, definitions: SqliteDefinitions, arguments: dict[str, object]
    ) -> None:
        level_of = self.known(definitions, **arguments).level_of
        assert level_of is not None
        raw = {key.replace("_", "-"): value for key, value in arguments.items()}
        order = make_order(parse_queue_arguments(raw, queue="q", vhost="/"))
        assert isinstance(order, PriorityOrder)
        queue = Queue("q", order, Turn(lambda _: None))
        for priority in (None, *range(256)):
            message = make_message(b"x", priority=priority)
            queue.enqueue(message)
            (entry,) = queue.acquire(1)
            assert level_of(message.property_octets) == order._level(entry), priority

    @pytest.mark.parametrize(
        ("arguments", "is_loaded"),
        [
            ({"x_max_length": 5}, False),
            ({"x_max_priority": 5}, False),
            ({"x_queue_type": "quorum"}, False),
            ({"x_message_ttl": 5}, True),
            ({"x_sort_key": "k"}, True),
            ({"x_last_value_key": "k"}, True),
            ({"x_queue_type": "stream"}, True),
            ({"x_message_group_key": "k"}, True),
            ({"x_hold_on_publish": True}, True),
        ],
        ids=str,
    )
    def test_whether_entries_become_objects_is_told(
        self, definitions: SqliteDefinitions, arguments: dict[str, object], *, is_loaded: bool
    ) -> None:
        assert self.known(definitions, **arguments).is_loaded is is_loaded

    def test_arguments_that_are_not_taken_any_more_are_no_error_yet(
        self, definitions: SqliteDefinitions
    ) -> None:
        assert self.known(definitions, x_max_priority="high") == KnownQueue(
            "queue 'q' in vhost '/'"
        )


# ------------------------------------------------------------------ the virtual host


class Disk:
    """Definitions, and messages in a content store, from which a virtual host is restored."""

    def __init__(self, directory: Path) -> None:
        self.definitions = SqliteDefinitions(directory / FILE_NAME)
        self.content_store = DictContentStore()
        self.contents: dict[int, QueueContents] = {}
        self.next_offsets: dict[int, int] = {}
        self.listener = Listener()
        self.timers = ManualTimers()

    def queue(self, name: str, next_offset: int = 0, **arguments: object) -> int:
        names = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue_id = self.definitions.add_queue("/", name, is_auto_delete=False, arguments=names)
        self.next_offsets[queue_id] = next_offset
        self.contents[queue_id] = QueueContents()
        return queue_id

    def put(self, queue_id: int, offset: int, message: Message, delivery_count: int = 0) -> None:
        contents = self.contents[queue_id]
        message.position = len(self.content_store.messages) + 1
        self.content_store.messages[message.position] = message
        contents.offsets.append(offset)
        contents.positions.append(message.position)
        contents.sizes.append(message.size)
        if delivery_count:
            contents.delivery_counts[offset] = delivery_count
        self.next_offsets[queue_id] = max(self.next_offsets[queue_id], offset + 1)

    def restored(self) -> VirtualHost:
        vhost = VirtualHost(
            "/",
            Turn(lambda _: None),
            clock=self.timers.clock,
            timers=self.timers,
            report=forget_report,
            store=MemoryStore(),
            definitions=self.definitions,
        )
        self.progress = RecoveryProgress(self.listener.on_progress)
        recovery = VhostRecovery(
            vhost,
            self.definitions,
            self.next_offsets,
            self.contents,
            self.content_store,
            self.listener,
            self.progress,
        )
        recovery.restore_exchanges()
        recovery.restore_queues()
        recovery.restore_bindings()
        for _ in recovery.restore_messages():
            pass
        self.recovery = recovery
        return vhost


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.definitions.close()


def bodies(queue: Queue) -> list[bytes]:
    return [bytes(entry.message.body) for entry in queue.ready_entries()]


def test_a_queue_of_a_client_id_is_that_client_id_s_again(disk: Disk) -> None:
    add = disk.definitions.add_queue
    add("/", "theirs", is_auto_delete=False, arguments={}, owner="client-1")
    add("/", "everybody's", is_auto_delete=False, arguments={})
    queues = disk.restored().queues
    assert queues["theirs"].owner == ClientOwner("client-1")
    assert queues["everybody's"].owner is None


def taken(queue: Queue) -> QueueEntry:
    entry = queue.get()
    assert entry is not None
    return entry


def test_definitions_become_exchanges_queues_and_bindings(disk: Disk) -> None:
    disk.definitions.add_exchange(
        "/", "x", "topic", is_auto_delete=False, is_internal=False, arguments={"a": 1}
    )
    disk.definitions.add_exchange(
        "/", "y", "fanout", is_auto_delete=True, is_internal=True, arguments={}
    )
    disk.queue("q", x_max_priority=3)
    disk.definitions.bind("/", "x", "queue", "q", "a.#", {})
    disk.definitions.bind("/", "x", "exchange", "y", "b", {})
    vhost = disk.restored()
    x, y = vhost.exchanges["x"], vhost.exchanges["y"]
    assert (x.type_name, x.is_durable, x.arguments) == ("topic", True, {"a": 1})
    assert (y.is_auto_delete, y.is_internal) == (True, True)
    assert vhost.queues["q"].is_durable
    found, _ = vhost.route(x, ["a.b"], make_message())
    assert [queue.name for queue in found] == ["q"]
    recovery = disk.recovery
    assert (recovery.exchange_count, recovery.binding_count, len(recovery.queues)) == (2, 2, 1)
    assert disk.listener.impossible == []


def test_messages_are_in_their_queue_with_offsets_and_counts(disk: Disk) -> None:
    queue_id = disk.queue("q", next_offset=40)
    disk.put(queue_id, 5, make_message(b"five"), delivery_count=2)
    disk.put(queue_id, 9, make_message(b"nine"))
    queue = disk.restored().queues["q"]
    assert (queue.next_offset, queue.ready_count, queue.ready_bytes) == (40, 2, 8)
    first, second = taken(queue), taken(queue)
    assert (first.offset, first.delivery_count, first.message.body) == (5, 2, b"five")
    assert (second.offset, second.delivery_count) == (9, 0)
    assert disk.recovery.message_count == 2
    assert disk.contents == {}


def test_more_messages_than_one_reading_come_in_their_order(disk: Disk) -> None:
    queue_id = disk.queue("q")
    for offset in range(1300):
        disk.put(queue_id, offset, make_message(b"%d" % offset))
    assert bodies(disk.restored().queues["q"]) == [b"%d" % offset for offset in range(1300)]


def test_priorities_and_last_values_are_as_they_were(disk: Disk) -> None:
    by_priority = disk.queue("p", x_max_priority=9)
    for offset, priority in enumerate((1, 9, 5)):
        disk.put(by_priority, offset, make_message(b"%d" % priority, priority=priority))
    by_value = disk.queue("v", x_last_value_key="k")
    disk.put(by_value, 3, make_message(b"old", headers={"k": "a"}))
    disk.put(by_value, 7, make_message(b"new", headers={"k": "a"}))
    vhost = disk.restored()
    assert bodies(vhost.queues["p"]) == [b"9", b"5", b"1"]
    assert bodies(vhost.queues["v"]) == [b"new"]


def test_a_time_to_live_that_ran_out_meanwhile_has_run_out(disk: Disk) -> None:
    queue_id = disk.queue("q")
    disk.put(queue_id, 0, ExpiringMessage(make_message(b"short"), ARRIVAL_MS + 10))
    disk.put(queue_id, 1, ExpiringMessage(make_message(b"long"), ARRIVAL_MS + 10_000))
    disk.timers.clock.now_ms = ARRIVAL_MS + 5000
    queue = disk.restored().queues["q"]
    entry = taken(queue)
    assert entry.message.body == b"long"
    disk.timers.advance(10_000)
    assert queue.ready_count == 0


def test_a_queue_s_time_to_live_counts_from_the_arrival(disk: Disk) -> None:
    queue_id = disk.queue("q", x_message_ttl=1000)
    disk.put(queue_id, 0, make_message(b"x"))
    disk.timers.clock.now_ms = ARRIVAL_MS + 999
    queue = disk.restored().queues["q"]
    assert queue.ready_count == 1
    disk.timers.clock.advance(2)
    assert queue.get() is None


def test_dead_letters_of_the_start_stand_behind_what_their_queue_had(disk: Disk) -> None:
    """What is over the limit (it was unacked when the broker stopped) is dead-lettered."""
    source = disk.queue(
        "a", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="b"
    )
    for offset in range(3):
        disk.put(source, offset, make_message(b"dead%d" % offset))
    target = disk.queue("b")
    disk.put(target, 0, make_message(b"old"))
    vhost = disk.restored()
    assert bodies(vhost.queues["a"]) == [b"dead2"]
    assert bodies(vhost.queues["b"]) == [b"old", b"dead0", b"dead1"]


def test_a_binding_to_an_exchange_that_is_gone_is_told_and_the_rest_comes_back(
    disk: Disk,
) -> None:
    disk.queue("q")
    disk.definitions.bind("/", "gone", "queue", "q", "k", {})
    disk.definitions.bind("/", "amq.direct", "queue", "q", "k", {})
    disk.restored()
    assert disk.recovery.binding_count == 1
    assert disk.listener.impossible == [
        ("/", "binding of queue 'q' to exchange 'gone'", "no exchange 'gone' in vhost '/'")
    ]


def test_a_queue_that_cannot_be_made_any_more_is_an_error_that_names_it(disk: Disk) -> None:
    disk.queue("q", x_max_priority="high")
    with pytest.raises(
        StoreError, match=r"queue 'q' in vhost '/' is in the definitions, but .*x-max"
    ):
        disk.restored()


def test_an_exchange_of_an_unknown_type_is_an_error_that_names_it(disk: Disk) -> None:
    disk.definitions.add_exchange(
        "/", "x", "x-later", is_auto_delete=False, is_internal=False, arguments={}
    )
    with pytest.raises(StoreError, match=r"exchange 'x' in vhost '/' is in the definitions, but"):
        disk.restored()


def test_the_post_works_again_after_the_start(disk: Disk) -> None:
    disk.queue("a", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="b")
    disk.queue("b")
    vhost = disk.restored()
    for body in (b"one", b"two"):
        vhost.queues["a"].put(make_message(body))
    assert bodies(vhost.queues["b"]) == [b"one"]
