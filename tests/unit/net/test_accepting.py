"""Which sockets may begin and when: rates, half-open sockets of an address, what is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hareline import events
from hareline.amqp.context import Limits
from hareline.clock import TokenBucket
from hareline.net.accepting import ADDRESSES_MAX, HANDSHAKES_MAX, Accepting
from tests.unit.amqp.peer import SteppedBroker

ANN, BOB = "192.0.2.1", "192.0.2.2"


class Door:
    """What a stepped broker accepts."""

    def __init__(self, **limits: Any) -> None:
        self.broker = SteppedBroker(Limits(**limits))
        self.accepting = Accepting(self.broker.context)

    def come(self, host: str = ANN) -> float | None:
        return self.accepting.admit(host, f"{host}:4711")

    def change(self, **limits: Any) -> None:
        self.broker.context.set_limits(replace(self.broker.context.limits, **limits))

    @property
    def reached(self) -> dict[str, int]:
        return self.broker.context.counts.limits_reached.by_limit

    @property
    def reasons(self) -> list[object]:
        return [fields["reason"] for fields in self.broker.reported(events.CONNECTION_REFUSED)]


def test_without_limits_each_socket_begins_at_once() -> None:
    door = Door()
    assert {door.come() for _ in range(1000)} == {0.0}
    assert door.reached == {}


def test_above_the_rate_sockets_wait_and_those_that_would_wait_too_long_are_dropped() -> None:
    door = Door(connection_rate=10, handshake_timeout_s=2)
    waits = [door.come(ANN if number % 2 else BOB) for number in range(22)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:20] == pytest.approx([number / 10 for number in range(1, 11)])
    assert waits[20:] == [None, None]
    assert door.reached == {"connection_rate": 12}
    assert door.reasons == ["limits.connection_rate is reached"]
    door.broker.advance(0.1)
    assert door.come() == pytest.approx(1.0)


def test_a_flood_from_one_address_uses_up_nothing_of_the_others() -> None:
    door = Door(connection_rate=10, connection_rate_per_address=2, handshake_timeout_s=1)
    assert [door.come(ANN) for _ in range(5)] == [0.0, 0.0, 0.5, None, None]
    assert [door.come(BOB) for _ in range(2)] == [0.0, 0.0]
    assert door.reached == {"connection_rate_per_address": 3}
    assert door.reasons == ["limits.connection_rate_per_address is reached for address '192.0.2.1'"]


def test_a_network_of_ipv6_addresses_is_one_address() -> None:
    door = Door(connection_rate_per_address=1, handshake_timeout_s=1)
    assert [door.come(f"2001:db8::{n}") for n in range(1, 4)] == [0.0, None, None]
    assert door.come("2001:db8:0:1::1") == 0


def test_a_flood_is_reported_once_a_second_with_how_many_it_was() -> None:
    door = Door(connection_rate=1, handshake_timeout_s=1)
    for _ in range(5):
        door.come()
    assert len(door.reasons) == 1
    door.broker.advance(1.0)
    door.come()
    door.come()
    assert door.reasons[1] == (
        "limits.connection_rate is reached; 3 more were refused since the last such message"
    )


def test_an_address_may_have_some_handshakes_beside_its_connections_and_no_more() -> None:
    door = Door(max_connections_per_address=3)
    for _ in range(3 + HANDSHAKES_MAX):
        assert door.come() == 0
    assert door.come() is None
    assert door.come(BOB) == 0
    assert door.reached == {"max_connections_per_address": 1}
    assert door.reasons == ["limits.max_connections_per_address is reached for address '192.0.2.1'"]
    door.accepting.on_gone(ANN)
    assert door.come() == 0
    assert door.come() is None


def test_sockets_count_that_came_before_the_limit() -> None:
    door = Door()
    for _ in range(1 + HANDSHAKES_MAX):
        door.come()
    door.change(max_connections_per_address=1)
    assert door.come() is None


def test_rates_can_be_changed_and_lifted() -> None:
    door = Door(connection_rate=1, connection_rate_per_address=1, handshake_timeout_s=1)
    assert [door.come(), door.come()] == [0.0, None]
    door.change(connection_rate=100, connection_rate_per_address=100)
    door.come()
    door.broker.advance(1)
    assert [door.come() for _ in range(50)] == [0.0] * 50
    door.change(connection_rate=0, connection_rate_per_address=0)
    assert [door.come() for _ in range(500)] == [0.0] * 500


@pytest.mark.pure("makes a subclass of a compiled class")
def test_addresses_that_came_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Counted(TokenBucket):
        def __init__(self, rate: float, now_s: float) -> None:
            super().__init__(rate, now_s)
            made.append(self)

    monkeypatch.setattr("hareline.net.accepting.TokenBucket", Counted)
    door = Door(connection_rate_per_address=1, handshake_timeout_s=1)
    for number in range(ADDRESSES_MAX):
        door.come(f"10.0.{number >> 8}.{number & 255}")
    door.broker.advance(1.5)
    door.come("10.9.0.0")  # room is made: all but this one are as if they had never come
    count = len(made)
    door.come("10.0.0.0")
    assert len(made) == count + 1
    assert door.come("10.9.0.0") is None
