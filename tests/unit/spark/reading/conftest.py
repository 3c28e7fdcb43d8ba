"""The server that tests of the source read from, and kept connections that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hareline.spark.reading import client
from tests.support.stream_server import StreamServer, stream_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamServer]:
    """A server without streams."""
    monkeypatch.setattr(client, "_kept", {})
    with stream_server() as running:
        yield running
    for connection in client._kept.values():
        connection.close()
