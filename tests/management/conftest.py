"""A broker in a thread with two users, asked over real HTTP while pika is at work."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from hareline.settings import Settings
from tests.support.api_broker import ApiBroker, api_broker
from tests.support.http_api import HttpApi

CONFIG = """
[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]
permissions = [{vhost = "/", configure = ".*", write = ".*", read = ".*"}]

[[users]]
name = "reader"
password = "reader"
tags = ["management"]
permissions = [{vhost = "/", configure = "^$", write = "^$", read = "^open"}]

[auth]
failure_delay_s = 0
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[ApiBroker]:
    with api_broker(Settings.model_validate(tomllib.loads(CONFIG))) as made:
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
