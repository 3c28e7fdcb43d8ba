"""A broker in a thread with default settings, asked over real HTTP while pika is at work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hareline.settings import Settings
from tests.support.api_broker import ApiBroker, api_broker
from tests.support.http_api import HttpApi


@pytest.fixture(scope="module")
def broker() -> Iterator[ApiBroker]:
    with api_broker(Settings()) as made:
        yield made


@pytest.fixture
def http(broker: ApiBroker) -> HttpApi:
    return HttpApi(broker.url)


@pytest.fixture
def channel(broker: ApiBroker) -> Iterator[Any]:
    channel = broker.connect("guest", password="guest").channel()
    channel.confirm_delivery()
    yield channel
    broker.disconnect()
