"""What a reader is handed and gives back, which entries are for it, and what basic.get sees."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.lane import BATCH_ENTRIES
from hareline.queues.dispatch.reading import Getter
from hareline.selectors.selector import compile_selector
from hareline.wire.table import Table
from tests.support.deep_queues import deep_log, make_windows_small, publish
from tests.support.vhosts import NON_DESTRUCTIVE, QueueStand, numbers

PRIORITIES = {**NON_DESTRUCTIVE, "x-max-priority": 9}
SORTED = {**NON_DESTRUCTIVE, "x-sort-key": "k"}
STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def log() -> QueueStand:
    return QueueStand(NON_DESTRUCTIVE)


@pytest.mark.row("A15")
def test_acks_and_nacks_give_credit_back_and_change_nothing(log: QueueStand) -> None:
    log.publish(*numbers(0, 9))
    reader = log.consume(3)
    assert reader.bodies == numbers(0, 3)
    reader.ack()
    log.turn.run()
    assert reader.bodies == numbers(0, 6)
    rejected = reader.take_unacked()
    for entry in rejected:
        reader.restore_credit(entry.message.size)
    rejected[0].queue.reject(rejected)
    log.turn.run()
    assert reader.bodies == numbers(0, 9)
    assert log.queue.ready_count == 9


def test_what_is_requeued_is_not_redelivered(log: QueueStand) -> None:
    log.publish(*numbers(0, 4))
    reader = log.consume(2)
    reader.release()
    log.turn.run()
    assert reader.bodies == numbers(0, 4)
    assert reader.redelivered == [False] * 4


def test_readings_are_counted_as_unacked(log: QueueStand) -> None:
    log.publish(*numbers(0, 4))
    reader, other = log.consume(3), log.consume(acknowledges=False)
    assert log.queue.unacked_count == 3
    assert log.queue.delivered_count == 7
    reader.ack(1)
    assert log.queue.unacked_count == 2
    reader.release()
    assert log.queue.unacked_count == 0
    assert len(other.bodies) == 4


# ---------------------------------------------------------------------------- stream filters


def filtered_stream() -> QueueStand:
    stream = QueueStand(STREAM)
    stream.publish(b"eu", headers={"a": 1, "x-stream-filter-value": "eu"})
    stream.publish(b"us", headers={"x-stream-filter-value": "us"})
    stream.publish(b"none")
    stream.publish(b"other", headers={"other": "eu"})
    stream.publish(b"number", headers={"x-stream-filter-value": 5})
    stream.publish(b"table", headers={"x-stream-filter-value": Table(eu=1)})
    stream.publish(b"asia", headers={"x-stream-filter-value": "asia"})
    return stream


@pytest.mark.parametrize(
    ("values", "bodies"),
    [
        ({"eu"}, [b"eu"]),
        ({"eu", "asia"}, [b"eu", b"asia"]),
        ({"nobody"}, []),
        ({"us", ""}, [b"us", b"none", b"other", b"number", b"table"]),
    ],
)
def test_a_stream_filter_lets_only_its_values_through(
    values: set[str], bodies: list[bytes]
) -> None:
    stream = filtered_stream()
    reader = stream.consume(100, stream_filter=frozenset(values))
    assert reader.bodies == bodies
    stream.publish(b"eu later", headers={"x-stream-filter-value": "eu"})
    assert reader.bodies == bodies + [b"eu later"] * ("eu" in values)


def test_a_stream_filter_and_a_selector_must_both_be_true() -> None:
    stream = filtered_stream()
    wanted = frozenset(("eu", "us"))
    assert stream.consume(9, stream_filter=wanted, selector="a = 1").bodies == [b"eu"]
    assert stream.consume(9, stream_filter=wanted, selector="a = 2").bodies == []


def test_what_a_stream_filter_passes_over_costs_no_credit() -> None:
    stream = QueueStand(STREAM)
    for number in range(3 * BATCH_ENTRIES):
        value = "rare" if number % 300 == 299 else "often"
        stream.accept(b"%d" % number, headers={"x-stream-filter-value": value})
    reader = stream.consume(2, stream_filter=frozenset(("rare",)))
    assert reader.bodies == [b"299", b"599"]
    reader.ack()
    stream.turn.run()
    assert reader.bodies == [b"299", b"599", b"899", b"1199"]


# ------------------------------------------------------------------------------- basic.get


def with_filters(queue: Mapping[str, object], **filters: tuple[str, str]) -> QueueStand:
    table = {name: {type_: [argument]} for name, (type_, argument) in filters.items()}
    return QueueStand({**queue, "x-default-filters": table})


def got(queue: QueueStand) -> bytes | None:
    entry = queue.queue.get()
    if entry is None:
        return None
    entry.queue.settle(entry)
    return entry.message.body


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES, SORTED], ids=str)
@pytest.mark.row("A18")
def test_get_shows_the_first_of_which_the_default_selector_is_true(
    arguments: dict[str, object],
) -> None:
    queue = with_filters(
        {**arguments, "x-message-ttl": 1000}, colour=("x-filter-jms-selector", "colour = 'red'")
    )
    queue.publish(b"blue", headers={"colour": "blue"})
    assert got(queue) is None
    queue.publish(b"red", headers={"colour": "red"})
    queue.timers.advance(600)
    queue.publish(b"new blue", headers={"colour": "blue"})
    queue.publish(b"new red", headers={"colour": "red"})
    assert [got(queue), got(queue)] == [b"red", b"red"]
    queue.timers.advance(600)
    assert got(queue) == b"new red"
    assert queue.queue.unacked_count == 0
    assert queue.bodies == [b"new blue", b"new red"]


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES], ids=["log", "priorities"])
@pytest.mark.row("A18")
def test_get_shows_the_first_within_the_default_replay_period(
    arguments: dict[str, object],
) -> None:
    queue = with_filters(arguments, recent=("x-qpid-replay-period", "10"))
    queue.publish(b"old")
    queue.timers.advance(6000)
    queue.publish(b"new")
    assert got(queue) == b"old"
    queue.timers.advance(6000)
    assert got(queue) == b"new"
    queue.timers.advance(6000)
    assert got(queue) is None


@pytest.mark.parametrize("period", ["0", "-5"])
@pytest.mark.row("A18")
def test_get_shows_nothing_where_only_what_is_to_come_is_shown(period: str) -> None:
    queue = with_filters(NON_DESTRUCTIVE, recent=("x-qpid-replay-period", period))
    queue.publish(b"now")
    assert got(queue) is None


@pytest.mark.row("A18")
def test_selector_and_replay_period_hold_for_get_together() -> None:
    queue = with_filters(
        NON_DESTRUCTIVE,
        recent=("x-qpid-replay-period", "10"),
        colour=("x-filter-jms-selector", "colour = 'red'"),
        size=("x-filter-jms-selector", "size > 3"),
    )
    queue.publish(b"old", headers={"colour": "red", "size": 9})
    queue.timers.advance(11_000)
    queue.publish(b"blue", headers={"colour": "blue", "size": 9})
    queue.publish(b"small", headers={"colour": "red", "size": 1})
    assert got(queue) is None
    queue.publish(b"right", headers={"colour": "red", "size": 9})
    assert got(queue) == b"right"


@pytest.mark.row("A18")
@pytest.mark.pure("replaces a method, which compiled code calls directly")
def test_get_looks_at_each_message_of_a_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = with_filters(NON_DESTRUCTIVE, colour=("x-filter-jms-selector", "colour = 'red'"))
    looks: list[QueueEntry] = []
    matches = Getter._is_true_of

    def look(getter: Getter, entry: QueueEntry) -> bool:
        looks.append(entry)
        return matches(getter, entry)

    monkeypatch.setattr(Getter, "_is_true_of", look)
    queue.publish(*numbers(0, 50))
    assert [got(queue), got(queue)] == [None, None]
    assert len(looks) == 50
    queue.publish(b"red", headers={"colour": "red"})
    queue.publish(*numbers(50, 60))
    assert [got(queue), got(queue), got(queue)] == [b"red"] * 3
    assert len(looks) == 53


@pytest.mark.row("A18")
def test_get_goes_back_for_what_was_held() -> None:
    queue = with_filters(
        {**NON_DESTRUCTIVE, "x-hold-on-publish": True},
        colour=("x-filter-jms-selector", "colour = 'red'"),
    )
    due = queue.timers.clock.now_ms + 60_000
    queue.publish(b"held", headers={"colour": "red", "x-qpid-not-valid-before": due})
    queue.publish(b"blue", headers={"colour": "blue"})
    queue.publish(b"red", headers={"colour": "red"})
    assert got(queue) == b"red"
    queue.timers.advance(61_000)
    assert got(queue) == b"held"


def test_readings_outlive_their_queue(log: QueueStand) -> None:
    log.publish(*numbers(0, 3))
    reader = log.consume()
    log.vhost.delete_queue("q", None)
    reader.ack(1)
    reader.release()
    log.turn.run()
    assert reader.bodies == numbers(0, 3)


def test_a_get_goes_on_from_pages_into_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    paged, log = deep_log(40)
    assert log.paged_count == 32
    wanted = "0029"
    selector = compile_selector(f"JMSCorrelationID = '{wanted}'")
    getter = Getter(selector, [], paged.timers.clock)
    assert getter.first(log) is None
    looked_at = sum(paged.content_store.runs)
    assert looked_at == 32
    publish(paged, 1, correlation_id=wanted)
    paged.settle_down()
    for _ in range(2):
        entry = getter.first(log)
        assert entry is not None
        assert entry.offset == 40
    assert sum(paged.content_store.runs) == looked_at, "looked at again"
