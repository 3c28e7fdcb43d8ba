"""Options of ports and names."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hareline.settings import FurtherListener, Identity, Settings
from tests.support.settings import problems_of


def test_the_home_directory_and_the_host_name_are_filled_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "hare.example.com")
    assert Settings().data_dir == Path("/home/ann/.local/state/hareline")
    assert Identity().cluster_name == "hareline@hare"


def test_further_listeners_are_on_loopback_and_name_no_product_unless_told() -> None:
    assert Settings().listeners == ()
    further = FurtherListener(port=0)
    assert (further.bind, further.product) == ("127.0.0.1", "")
    assert problems_of(listeners=[{"bind": "127.0.0.1"}]) == [
        ("listeners.0.port", "Field required")
    ]
    for wrong in ({"port": 65536}, {"port": 1, "bind": ""}, {"port": 1, "product": "x" * 256}):
        ((place, _),) = problems_of(listeners=[wrong])
        assert place.startswith("listeners.0.")
