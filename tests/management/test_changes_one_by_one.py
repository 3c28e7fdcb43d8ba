"""Administrative changes over HTTP, of which each waits for those before it to be durable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hareline.settings import Settings, VirtualHost
from hareline.storage.definitions.file import DefinitionTransaction
from tests.support.broker_thread import BrokerThread, StartBroker
from tests.support.hanging import hanging_while_cleared
from tests.support.http_api import HttpApi


@pytest.fixture
def broker(start_broker: StartBroker, durable: Settings) -> BrokerThread:
    return start_broker(durable, has_http=True)


@pytest.fixture
def definitions_answer() -> Iterator[threading.Event]:
    """While it is cleared, each transaction of the definitions hangs."""
    with hanging_while_cleared(DefinitionTransaction, "run") as answers:
        yield answers


def test_who_loses_the_right_while_waiting_changes_nothing(
    broker: BrokerThread, definitions_answer: threading.Event
) -> None:
    guest = HttpApi(broker.management_url)
    guest.done("PUT", "/api/users/bob", {"password": "bob", "tags": "administrator"})
    guest.done("PUT", "/api/permissions/%2F/bob", {"configure": "", "write": "", "read": ""})
    bob = HttpApi(broker.management_url, "bob", "bob")
    asked: list[tuple[str, str, object]] = [
        ("PUT", "/api/users/mallory", {"password": "p", "tags": "administrator"}),
        ("PUT", "/api/policies/%2F/p", {"pattern": "", "definition": {"expires": 9}}),
        ("DELETE", "/api/users/guest", None),
        ("POST", "/api/definitions", {"users": [{"name": "eve", "password_hash": "", "tags": ""}]}),
    ]
    with ThreadPoolExecutor(len(asked) + 1) as pool:
        definitions_answer.clear()
        demotion = pool.submit(guest.call, "PUT", "/api/users/bob", {"password": "bob", "tags": ""})
        broker.wait_until(lambda inside: inside.administration.changes.is_pending, "the demotion")
        answers = [pool.submit(bob.call, *each) for each in asked]
        broker.wait_until(
            lambda inside: len(inside.administration.changes._waiting) == len(asked) + 1,
            "all to wait for it",
        )
        definitions_answer.set()
        assert demotion.result()[0] == 204
        assert [answer.result()[0] for answer in answers] == [401] * len(asked)
    assert [user["name"] for user in guest.get("/api/users")] == ["bob", "guest"]
    assert guest.get("/api/policies") == []


def test_a_long_import_lets_changes_of_others_in_between(broker: BrokerThread) -> None:
    api, other = HttpApi(broker.management_url), HttpApi(broker.management_url)
    items = [{"name": f"p{number}", "value": number} for number in range(2_000)]
    done = 0
    with ThreadPoolExecutor(1) as pool:
        importing = pool.submit(api.call, "POST", "/api/definitions", {"global_parameters": items})
        while not importing.done():
            other.done("PUT", "/api/global-parameters/other", {"value": done})
            done += 1
        assert importing.result() == (204, None)
    assert done > 2, "one would have waited for the end"
    assert len(api.get("/api/global-parameters")) >= len(items) + 1


def test_a_reload_waits_for_a_deletion_that_is_under_way(
    broker: BrokerThread, definitions_answer: threading.Event
) -> None:
    api = HttpApi(broker.management_url)
    api.done("PUT", "/api/vhosts/shop", {})
    with ThreadPoolExecutor(1) as pool:
        definitions_answer.clear()
        deletion = pool.submit(api.call, "DELETE", "/api/vhosts/shop")
        broker.wait_until(lambda inside: inside.administration.changes.is_pending, "the deletion")
        broker.ask(
            lambda inside: inside.reload(
                inside.settings.model_copy(
                    update={"vhosts": (*inside.settings.vhosts, VirtualHost(name="shop"))}
                )
            )
        )
        definitions_answer.set()
        assert deletion.result()[0] == 204
    broker.wait_until(lambda inside: "shop" in inside.context.vhosts, "it to be made again")
    assert api.get("/api/vhosts/shop")["set_by"] == "settings"


def test_a_stop_answers_those_who_wait(
    broker: BrokerThread, definitions_answer: threading.Event
) -> None:
    api = HttpApi(broker.management_url)
    with ThreadPoolExecutor(3) as pool:
        definitions_answer.clear()
        put = pool.submit(api.call, "PUT", "/api/users/ann", {"password": "p", "tags": ""})
        broker.wait_until(lambda inside: inside.administration.changes.is_pending, "the change")
        other = pool.submit(api.call, "PUT", "/api/users/bob", {"password": "p", "tags": ""})
        broker.wait_until(
            lambda inside: len(inside.administration.changes._waiting) == 2, "both to wait"
        )
        stopped = pool.submit(broker.stop)
        answers = [each.result() for each in (put, other)]
        definitions_answer.set()
        stopped.result()
    assert [(status, body["error"]) for status, body in answers] == [(503, "stopping")] * 2
