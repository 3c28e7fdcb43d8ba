"""Users made at run time log in over AMQP and HTTP with hashes that take a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from hareline.auth.passwords import hash_password
from tests.support.broker_process import BrokerProcess
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

SETTINGS = """
[auth]
failure_delay_s = 0

[[users]]
name = "admin"
password = "admin"
tags = ["administrator"]
"""
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def api(broker: BrokerProcess) -> HttpApi:
    return HttpApi(broker.management_url, "admin", "admin")


def connected(broker: BrokerProcess, user: str, password: str) -> Any:
    return pika.BlockingConnection(
        pika.URLParameters(broker.url_for(username=user, password=password, vhost="/"))
    )


def add_user(api: HttpApi, name: str, **credentials: str) -> None:
    api.call("PUT", f"/api/users/{name}", {**credentials, "tags": "monitoring"})
    api.call("PUT", f"/api/permissions/%2F/{name}", EVERYTHING)


@pytest.mark.acceptance
def test_a_new_password_has_a_slow_hash_and_logs_in_everywhere(
    broker: BrokerProcess, api: HttpApi
) -> None:
    add_user(api, "ann", password="sécret:1")
    ann = api.get("/api/users/ann")
    assert ann["hashing_algorithm"] == "rabbit_password_hashing_argon2id"
    assert ann["password_hash"].startswith("$argon2id$v=19$")
    with contextlib.closing(connected(broker, "ann", "sécret:1")) as connection:
        connection.channel().queue_declare("", exclusive=True)
    assert HttpApi(broker.management_url, "ann", "sécret:1").get("/api/whoami")["name"] == "ann"
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(broker, "ann", "wrong")


@pytest.mark.acceptance
def test_a_hash_of_rabbitmq_is_replaced_at_the_next_login(
    broker: BrokerProcess, api: HttpApi
) -> None:
    stored = hash_password("test12", "sha512")
    algorithm = "rabbit_password_hashing_sha512"
    add_user(api, "ben", password_hash=stored, hashing_algorithm=algorithm)
    for _ in range(2):
        connected(broker, "ben", "test12").close()
        wait_for(
            lambda: api.get("/api/users/ben")["password_hash"].startswith("$argon2id$"),
            60.0,
            "the hash is replaced",
        )
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(broker, "ben", "test13")


@pytest.mark.acceptance
def test_a_changed_password_holds_for_the_next_login(broker: BrokerProcess, api: HttpApi) -> None:
    add_user(api, "cleo", password="one")
    connected(broker, "cleo", "one").close()
    add_user(api, "cleo", password="two")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(broker, "cleo", "one")
    connected(broker, "cleo", "two").close()
