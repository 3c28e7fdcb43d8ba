"""Producer ids and sequences: the broker's rule on them gives each row exactly once."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.writing.producers import (
    PRODUCER_ID,
    PRODUCER_SEQUENCE,
    Lanes,
    batch_prefix,
    producer_fields,
    stream_prefix,
)
from hareline.wire.table import decode_table

Pair = tuple[str, int]


def pairs(fields: Iterable[bytes]) -> list[Pair]:
    """Ids and sequences as the broker reads them."""
    found = []
    for octets in fields:
        table, _ = decode_table(len(octets).to_bytes(4, "big") + octets, 0)
        assert table.kinds == {PRODUCER_ID: "S", PRODUCER_SEQUENCE: "l"}
        producer, sequence = table.values()
        assert isinstance(producer, str)
        assert isinstance(sequence, int)
        found.append((producer, sequence))
    return found


def test_fields_are_a_text_and_a_64_bit_integer() -> None:
    assert pairs([producer_fields("größe".encode(), 2**62)]) == [("größe", 2**62)]


def test_rows_take_turns_among_lanes() -> None:
    assert pairs(Lanes("p", 2, batch=3).fields(0, 5)) == [
        ("p/2/0", 3 * 2**32),
        ("p/2/1", 3 * 2**32),
        ("p/2/0", 3 * 2**32 + 1),
        ("p/2/1", 3 * 2**32 + 1),
        ("p/2/0", 3 * 2**32 + 2),
    ]


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 40))
def test_pairs_do_not_depend_on_how_rows_are_cut_into_batches(
    lanes: int, first: int, second: int
) -> None:
    made = Lanes("p", lanes)
    cut = made.fields(0, first) + made.fields(first, second)
    assert cut == Lanes("p", lanes).fields(0, first + second)


class DedupBroker:
    """The rule of the broker, on what one partition publishes."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.kept: list[object] = []

    def take(self, pair: Pair, row: object) -> None:
        producer, sequence = pair
        if sequence > self.highest.get(producer, -1):
            self.highest[producer] = sequence
            self.kept.append(row)


@given(
    lanes=st.integers(1, 5),
    sizes=st.lists(st.integers(0, 20), max_size=4),
    data=st.data(),
)
def test_each_row_is_kept_once_whatever_is_refused_and_done_again(
    lanes: int, sizes: list[int], data: st.DataObject
) -> None:
    """A task fails at rows that the broker refuses, with the rest of its window accepted or not."""
    broker = DedupBroker()
    for batch, size in enumerate(sizes):
        rows = pairs(Lanes("p", lanes, batch).fields(0, size))
        failures = data.draw(st.lists(st.integers(0, max(0, size - 1)), max_size=4))
        for refused in failures:  # each is an attempt that ends there
            for row, pair in enumerate(rows):
                if row >= refused + lanes:  # never in flight together with the refused one
                    break
                if row == refused or (row > refused and data.draw(st.booleans())):
                    continue
                broker.take(pair, (batch, row))
        for row, pair in enumerate(rows):  # the attempt that succeeds
            broker.take(pair, (batch, row))
        for row, pair in enumerate(rows):  # and a replay, because Spark was killed then
            broker.take(pair, (batch, row))
    wanted = [(batch, row) for batch, size in enumerate(sizes) for row in range(size)]
    assert sorted(broker.kept) == wanted  # type: ignore[type-var]


def test_a_stream_has_the_same_producers_in_all_its_batches_and_lives() -> None:
    settings = {"spark.master": "local[2]", "spark.app.id": "local-1"}
    first = stream_prefix("query", 1, 2, settings)
    assert first == stream_prefix("query", 1, 2, {**settings, "spark.app.id": "local-2"})


def test_what_may_cut_a_batch_otherwise_makes_other_producers() -> None:
    names = {
        stream_prefix("query", 1, 2, {"spark.master": "local[2]"}),
        stream_prefix("query", 1, 2, {"spark.master": "local[4]"}),
        stream_prefix("query", 1, 4, {"spark.master": "local[2]"}),
        stream_prefix("query", 1, 2, {"spark.sql.shuffle.partitions": "8"}),
        stream_prefix("query", 2, 2, {"spark.master": "local[2]"}),
        stream_prefix("other", 1, 2, {"spark.master": "local[2]"}),
        batch_prefix("write", 1),
        batch_prefix("write", 2),
    }
    assert len(names) == 8


def test_another_number_of_lanes_makes_other_producers() -> None:
    two = {producer for producer, _ in pairs(Lanes("p", 2).fields(0, 10))}
    three = {producer for producer, _ in pairs(Lanes("p", 3).fields(0, 10))}
    assert not two & three
