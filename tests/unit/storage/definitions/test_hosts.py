"""The hosts of Qpid clients come back in the order in which they were last seen."""

from __future__ import annotations

from collections.abc import Callable

from hareline.storage.definitions.sqlite import SqliteDefinitions

NO_UTF8 = b"caf\xe9 \x00 x".decode("utf-8", "surrogateescape")

Open = Callable[[], SqliteDefinitions]


def test_hosts_come_back_in_the_order_in_which_they_were_last_seen(reopened: Open) -> None:
    definitions = reopened()
    for host, day in (("10.0.0.1", 1), ("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)):
        definitions.host_store.remember_host(host, day, print)
    assert definitions.host_store.hosts() == [("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)]
    definitions = reopened()
    assert definitions.host_store.hosts() == [("::1", 1), (NO_UTF8, 2), ("10.0.0.1", 3)]
    definitions.host_store.forget_hosts([NO_UTF8, "::1", "never seen"])
    assert reopened().host_store.hosts() == [("10.0.0.1", 3)]


def test_hosts_are_no_virtual_hosts(reopened: Open) -> None:
    definitions = reopened()
    definitions.host_store.remember_host("10.0.0.1", 1, print)
    assert definitions.vhosts() == []
