"""What counts as one address, and that nothing is kept of names that have nothing open."""

from __future__ import annotations

from hareline.amqp.open_counts import OpenCounts

ANN, BOB = ("internal", "ann"), ("oauth2", "bob")


def test_what_is_open_is_counted_by_each_of_its_names() -> None:
    counts = OpenCounts()
    counts.count_connection(1, "/", ANN, "192.0.2.1")
    counts.count_connection(1, "shop", ANN, "192.0.2.2")
    counts.count_channel(1, ANN)
    counts.count_channel(1, BOB)
    assert (counts.connections, counts.channels) == (2, 2)
    assert counts.by_vhost == {"/": 1, "shop": 1}
    assert counts.by_user == {ANN: 2}
    assert counts.by_address == {"192.0.2.1": 1, "192.0.2.2": 1}
    assert counts.channels_by_user == {ANN: 1, BOB: 1}


def test_names_with_nothing_open_are_forgotten() -> None:
    counts = OpenCounts()
    for by in (1, -1):
        counts.count_connection(by, "/", ANN, "192.0.2.1")
        counts.count_channel(by, ANN)
    assert (counts.connections, counts.channels) == (0, 0)
    assert not counts.by_vhost
    assert not counts.by_user
    assert not counts.by_address
    assert not counts.channels_by_user
