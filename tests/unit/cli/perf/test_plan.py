"""Plans: who does what, and messages that differ in the same way each time."""

from __future__ import annotations

import pickle

import pytest

from hareline.cli.perf.plan import (
    Part,
    Pattern,
    Plan,
    Role,
    headers_of,
    ids_of,
    shared_out,
)


@pytest.mark.parametrize(
    ("producers", "consumers", "processes"), [(1, 1, 2), (4, 2, 3), (1, 9, 4), (3, 0, 2), (0, 2, 1)]
)
def test_every_role_is_given_to_one_process(producers: int, consumers: int, processes: int) -> None:
    parts = shared_out(producers, consumers, processes)
    roles = [role for part in parts for role in part]
    assert len(parts) <= processes
    assert all(parts)
    assert sorted(roles) == sorted(
        [(Role.producer, n) for n in range(producers)]
        + [(Role.consumer, n) for n in range(consumers)]
    )


def test_producers_and_consumers_are_apart_where_there_are_processes() -> None:
    for part in shared_out(4, 4, 4):
        assert len({role for role, _ in part}) == 1


def test_one_process_does_everything() -> None:
    assert len(shared_out(2, 2, 1)) == 1


def test_a_part_can_be_sent_to_a_process() -> None:
    part = Part(((Role.producer, 0),), Plan(Pattern.work, "", "q", ("q",)))
    assert pickle.loads(pickle.dumps(part)) == part


def test_messages_differ() -> None:
    assert headers_of(3, 10) == headers_of(13, 10)
    assert headers_of(3, 10) != headers_of(4, 10)
    assert len({str(headers_of(n, 10)) for n in range(50)}) == 10
    assert ids_of(1, 2) == {"message_id": "1-2", "correlation_id": "c2"}
