"""Who may ask for what: tags, virtual hosts that are not shown, connections of others."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration.users import Secret, secret_of
from hareline.management.api import users
from tests.support.api_broker import OTHER, PASSWORD, ApiBroker, api_broker


@pytest.mark.acceptance
def test_a_login_is_needed_and_programs_are_asked_for_one(broker: ApiBroker) -> None:
    answer = broker.http.ask("GET", "/api/overview")
    assert (answer.status_code, answer.json()["error"]) == (401, "not_authorized")
    assert answer.headers["www-authenticate"].startswith("Basic realm=")
    script = broker.http.ask("GET", "/api/overview", headers={"Sec-Fetch-Dest": "empty"})
    assert script.status_code == 401
    assert "www-authenticate" not in script.headers


@pytest.mark.acceptance
def test_a_user_without_a_tag_may_not_use_the_api(broker: ApiBroker) -> None:
    reason = (
        "Not management user: user 'plain' has no tag of "
        "management, policymaker, monitoring, administrator"
    )
    assert broker.refused("/whoami", "plain") == (
        401,
        {"error": "not_authorised", "reason": reason},
    )


@pytest.mark.parametrize("user", ["admin", "monitor", "policymaker", "manager"])
def test_each_tag_lets_its_user_in(broker: ApiBroker, user: str) -> None:
    found = broker.get("/whoami", user)
    assert found["name"] == user
    assert len(found["tags"]) == 1


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["queues", "exchanges", "bindings", "consumers"])
def test_a_virtual_host_is_hidden_from_those_without_permissions_in_it(
    broker: ApiBroker, kind: str
) -> None:
    channel = broker.connect("elsewhere", OTHER).channel()
    channel.queue_declare(f"hidden-{kind}", auto_delete=True)
    channel.basic_consume(f"hidden-{kind}", lambda *_: None)
    for user, is_seen in (("elsewhere", True), ("monitor", True), ("admin", True)):
        assert OTHER in {_vhost(row) for row in broker.get(f"/{kind}", user)}, (user, is_seen)
        assert broker.get(f"/{kind}/{OTHER}", user)
    assert OTHER not in {_vhost(row) for row in broker.get(f"/{kind}", "manager")}
    refusal = broker.refused(f"/{kind}/{OTHER}", "manager")
    assert refusal == (
        401,
        {
            "error": "not_authorised",
            "reason": "User not authorised to access virtual host",
        },
    )


def _vhost(row: dict[str, Any]) -> Any:
    return row["queue"]["vhost"] if "queue" in row else row["vhost"]


@pytest.mark.parametrize(
    "path",
    [
        "/queues/{}",
        "/exchanges/{}",
        "/bindings/{}",
        "/consumers/{}",
        "/vhosts/{}/connections",
        "/vhosts/{}/channels",
        "/aliveness-test/{}",
    ],
)
def test_a_virtual_host_that_is_missing_is_not_found(broker: ApiBroker, path: str) -> None:
    assert broker.refused(path.format("nowhere")) == (
        404,
        {"error": "Object Not Found", "reason": "Not Found"},
    )


def test_connections_and_channels_of_others_are_for_those_who_monitor(broker: ApiBroker) -> None:
    own = broker.connect("manager")
    own.channel()
    other = broker.connect("monitor")
    other.channel()
    own_name, other_name = broker.name_of(own), broker.name_of(other)

    def names(kind: str, user: str) -> set[str]:
        return {row["name"].removesuffix(" (1)") for row in broker.get(f"/{kind}", user)}

    for kind in ("connections", "channels", "vhosts/%2F/connections", "vhosts/%2F/channels"):
        assert {own_name, other_name} <= names(kind, "monitor")
        assert own_name in names(kind, "manager")
        assert other_name not in names(kind, "manager")
    assert broker.get(f"/connections/{own_name}", "manager")["name"] == own_name
    assert broker.refused(f"/connections/{other_name}", "manager")[0] == 404
    assert broker.refused(f"/channels/{other_name} (1)", "manager")[0] == 404
    assert broker.refused("/connections/username/monitor", "manager")[0] == 401


def test_overviews_count_what_their_users_see(broker: ApiBroker) -> None:
    with_all = broker.get("/overview", "monitor")["object_totals"]
    with_own = broker.get("/overview", "elsewhere")["object_totals"]
    assert with_all["exchanges"] == 2 * with_own["exchanges"]
    assert broker.get("/overview", "elsewhere")["listeners"] == []


def test_another_site_may_not_change_anything(broker: ApiBroker) -> None:
    connection = broker.connect("manager")
    path = f"/connections/{broker.name_of(connection)}"
    answer = broker.ask("DELETE", path, headers={"Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_site")
    answer = broker.ask("DELETE", path, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    connection.process_data_events()
    assert connection.is_open


@pytest.mark.parametrize("prefix", ["/%61pi", "/a%70i", "/api%2F.", "/%61%70%69"])
def test_another_spelling_of_a_path_is_refused(broker: ApiBroker, prefix: str) -> None:
    login = ("admin", PASSWORD)
    foreign = {"Sec-Fetch-Site": "cross-site"}
    path = f"{prefix}/users/eve"
    body = {"password": "p", "tags": "administrator"}
    answer = broker.http.ask("PUT", path, body, auth=login, headers=foreign)
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_site")
    assert broker.http.ask("PUT", path, body, auth=login).status_code == 400
    assert broker.ask("GET", "/users/eve").status_code == 404


@pytest.mark.acceptance
def test_too_many_failed_logins_are_refused_for_a_while_whatever_the_password() -> None:
    with api_broker() as broker:
        for _ in range(10):
            answer = broker.http.ask("GET", "/api/whoami", auth=("admin", "wrong"))
            assert answer.status_code == 401
        answer = broker.http.ask("GET", "/api/whoami", auth=("admin", PASSWORD))
        assert (answer.status_code, answer.json()["error"]) == (429, "too_many_requests")
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert broker.get("/whoami", "monitor")["name"] == "monitor"


@pytest.mark.acceptance
def test_a_changed_password_holds_for_the_next_request() -> None:
    with api_broker() as broker:
        assert broker.get("/whoami")["name"] == "admin"
        changed = broker.thread.ask(lambda running: running.context.users.remove("admin"))
        assert changed is not None
        assert broker.refused("/whoami")[0] == 401


@pytest.mark.acceptance
def test_rights_that_go_while_a_password_is_hashed_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with api_broker() as broker:

        def slow_secret_of(password: str, algorithm: str) -> Secret:
            broker.thread.ask(lambda running: running.context.users.remove("admin"))
            return secret_of(password, algorithm)

        monkeypatch.setattr(users, "secret_of", slow_secret_of)
        answer = broker.ask("PUT", "/users/eve", json={"password": "e", "tags": "administrator"})
        assert answer.status_code == 401
        assert broker.thread.ask(lambda running: running.context.users.lookup("eve")) is None


SHOVEL = {"src-uri": "amqp://", "dest-uri": "amqp://"}


@pytest.mark.acceptance
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_limits_of_virtual_hosts_are_over_policymakers(broker: ApiBroker, method: str) -> None:
    path = "/parameters/vhost-limits/%2F/limits"
    body = {"value": {"max-queues": 10_000}}
    assert broker.ask("PUT", path, json=body).status_code in (201, 204)
    try:
        answer = broker.ask(method, path, "policymaker", json={"value": {"max-queues": -1}})
        assert answer.status_code == 401
        reason = "Not administrator user: user 'policymaker' has no tag of administrator"
        assert answer.json() == {"error": "not_authorised", "reason": reason}
        assert broker.get("/vhost-limits/%2F") == [{"vhost": "/", **body}]
        other = "/parameters/shovel/%2F/mine"
        assert broker.ask("PUT", other, "policymaker", json={"value": SHOVEL}).status_code == 201
        assert broker.ask("DELETE", other, "policymaker").status_code == 204
    finally:
        assert broker.ask("DELETE", path).status_code == 204


@pytest.mark.acceptance
def test_a_parameter_is_shown_to_those_who_may_list_it(broker: ApiBroker) -> None:
    """Setting one needs permissions in its virtual host; monitoring is enough to look."""
    looker = {"password": PASSWORD, "tags": "policymaker,monitoring"}
    assert broker.ask("PUT", "/users/looker", json=looker).status_code == 201
    path = "/parameters/shovel/%2F/shown"
    assert broker.ask("PUT", path, json={"value": SHOVEL}).status_code == 201
    try:
        wanted = {"component": "shovel", "vhost": "/", "name": "shown", "value": SHOVEL}
        assert broker.get("/parameters/shovel/%2F", "looker") == [wanted]
        assert broker.get(path, "looker") == wanted
        for method in ("PUT", "DELETE"):
            answer = broker.ask(method, path, "looker", json={"value": {**SHOVEL, "x": 2}})
            assert answer.status_code == 401
        assert broker.get(path) == wanted
        assert broker.refused("/parameters/shovel/nope/shown", "looker")[0] == 404
    finally:
        assert broker.ask("DELETE", path).status_code == 204
        assert broker.ask("DELETE", "/users/looker").status_code == 204
