"""How many logins may fail: for a user from an address, for an address, and for how long."""

from __future__ import annotations

import pytest

from hareline.auth.login_limits import NAMES_FACTOR, PLACES_MAX, WINDOW_S, LoginLimits
from hareline.auth.peer import network_of


class Stand:
    def __init__(self, failures_max: int = 3) -> None:
        self.failures_max = failures_max
        self.now_s = 1000.0
        self.locked: list[tuple[str, str, int]] = []
        self.limits = LoginLimits(
            lambda: self.failures_max,
            lambda: self.now_s,
            lambda network, user, wait_s: self.locked.append((network, user, wait_s)),
        )

    def fail(self, host: str, user: str, times: int = 1) -> None:
        for _ in range(times):
            self.limits.on_failure(host, user)


def test_a_user_waits_only_after_as_many_failures_as_may_be() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann", 2)
    assert stand.limits.wait_s("192.0.2.1", "ann") == 0
    stand.fail("192.0.2.1", "ann")
    assert stand.limits.wait_s("192.0.2.1", "ann") == WINDOW_S


def test_the_wait_ends_when_enough_failures_are_old() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann")
    stand.now_s += 20
    stand.fail("192.0.2.1", "ann", 2)
    assert stand.limits.wait_s("192.0.2.1", "ann") == WINDOW_S - 20
    stand.now_s += WINDOW_S - 20
    assert stand.limits.wait_s("192.0.2.1", "ann") == 0
    stand.fail("192.0.2.1", "ann")
    assert stand.limits.wait_s("192.0.2.1", "ann") == 20


def test_other_users_and_other_addresses_do_not_wait() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann", 3)
    assert stand.limits.wait_s("192.0.2.1", "bob") == 0
    assert stand.limits.wait_s("192.0.2.2", "ann") == 0


def test_an_address_waits_that_tries_many_names() -> None:
    stand = Stand()
    for number in range(3 * NAMES_FACTOR):
        assert stand.limits.wait_s("192.0.2.1", "bob") == 0
        stand.fail("192.0.2.1", f"user{number}")
    assert stand.limits.wait_s("192.0.2.1", "bob") == WINDOW_S


def test_a_success_forgives_the_failures_of_its_user_and_not_those_of_the_address() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann", 2)
    stand.limits.on_success("192.0.2.1", "ann")
    stand.fail("192.0.2.1", "ann", 2)
    assert stand.limits.wait_s("192.0.2.1", "ann") == 0
    for number in range(3 * NAMES_FACTOR - 4):
        stand.fail("192.0.2.1", f"user{number}")
    assert stand.limits.wait_s("192.0.2.1", "ann") == WINDOW_S


def test_zero_is_no_limit_and_may_be_set_while_running() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann", 3)
    stand.failures_max = 0
    assert stand.limits.wait_s("192.0.2.1", "ann") == 0
    stand.fail("192.0.2.1", "ann", 100)
    stand.failures_max = 3
    assert stand.limits.wait_s("192.0.2.1", "ann") == WINDOW_S


def test_what_is_remembered_is_bounded() -> None:
    stand = Stand()
    for number in range(2 * PLACES_MAX):
        stand.fail("192.0.2.1", f"user{number}")
    assert len(stand.limits) == PLACES_MAX
    assert stand.limits.wait_s("192.0.2.1", "bob") > 0, "the address is what is remembered longest"


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_address_counts_as_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_lockout_is_told_once_when_it_begins() -> None:
    stand = Stand()
    stand.fail("192.0.2.1", "ann", 2)
    assert stand.locked == []
    stand.fail("192.0.2.1", "ann", 3)
    assert stand.locked == [("192.0.2.1", "ann", 60)]
    stand.now_s += WINDOW_S
    stand.fail("192.0.2.1", "ann", 3)
    assert stand.locked[1:] == [("192.0.2.1", "ann", 60)]


def test_a_lockout_of_an_address_names_no_user() -> None:
    stand = Stand()
    for number in range(3 * NAMES_FACTOR):
        stand.fail("192.0.2.1", f"user {number}")
    assert stand.locked == [("192.0.2.1", "", 60)]
