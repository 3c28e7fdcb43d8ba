"""Users, permissions, virtual hosts, limits, parameters, policies and definitions, by real HTTP."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from hareline.auth.passwords import hash_password
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
SETTINGS = """
[auth]
failure_delay_s = 0

[[vhosts]]
name = "/"
max_connections = 50

[[users]]
name = "admin"
password = "admin"
tags = ["administrator"]
[[users.permissions]]
vhost = "/"
configure = ".*"
write = ".*"
read = ".*"
"""


pytestmark = [pytest.mark.acceptance, pytest.mark.daemon(SETTINGS)]


def api_of(daemon: BrokerProcess, user: str = "admin", password: str = "admin") -> HttpApi:
    return HttpApi(daemon.management_url, user, password)


@pytest.fixture
def api(daemon: BrokerProcess) -> HttpApi:
    return api_of(daemon)


def connected(daemon: BrokerProcess, user: str, password: str, vhost: str = "/") -> Any:
    return pika.BlockingConnection(
        pika.URLParameters(daemon.url_for(username=user, password=password, vhost=vhost))
    )


def test_users(api: HttpApi) -> None:
    assert api.call("PUT", "/api/users/ann", {"password": "p", "tags": "management"}) == (201, None)
    assert api.call("PUT", "/api/users/ann", {"password": "q", "tags": "b, a"}) == (204, None)
    ann = api.get("/api/users/ann")
    assert set(ann) == {
        *("name", "password_hash", "hashing_algorithm", "tags", "limits", "set_by"),
        *("has_default_password", "loopback_only"),
    }
    assert (ann["tags"], ann["limits"], ann["set_by"]) == (["b", "a"], {}, "run time")
    exported = {each["name"]: each["tags"] for each in api.get("/api/definitions")["users"]}
    assert exported["ann"] == ["b", "a"]
    assert {user["name"]: user["set_by"] for user in api.get("/api/users")} == {
        "admin": "settings",
        "ann": "run time",
    }
    assert [user["name"] for user in api.get("/api/users/without-permissions")] == ["ann"]
    assert api.call("PUT", "/api/users/ann", {"password": "p"}) == (
        400,
        {"error": "bad_request", "reason": "tags_not_present"},
    )
    status, body = api.call("PUT", "/api/users/admin", {"password": "x", "tags": ""})
    assert status == 409
    assert "[[users]]" in body["reason"]
    assert "hareline.toml" in body["reason"]
    assert api.call("DELETE", "/api/users/ann") == (204, None)
    assert api.call("DELETE", "/api/users/ann")[0] == 404
    assert api.call("GET", "/api/users/ann") == (
        404,
        {"error": "Object Not Found", "reason": "Not Found"},
    )
    assert api.call("POST", "/api/users/bulk-delete", {"users": ["a", "b"]}) == (204, None)


def test_a_hash_of_the_api_is_a_password_hash(daemon: BrokerProcess, api: HttpApi) -> None:
    stored = api.get("/api/auth/hash_password/secret%2Fword")["ok"]
    api.call("PUT", "/api/users/hashed", {"password_hash": stored, "tags": "management"})
    assert api_of(daemon, "hashed", "secret/word").call("GET", "/api/whoami")[0] == 200


def test_a_virtual_host_from_its_making_to_its_end(daemon: BrokerProcess, api: HttpApi) -> None:
    assert api.call("PUT", "/api/vhosts/my%2Fshop", {"description": "d", "tags": "a,b"})[0] == 201
    assert api.call("PUT", "/api/vhosts/my%2Fshop", {"tracing": True})[0] == 204
    found = api.get("/api/vhosts/my%2Fshop")
    assert (found["description"], found["tags"], found["tracing"]) == ("d", ["a", "b"], True)
    assert api.call("PUT", "/api/users/seller", {"password": "s", "tags": ""})[0] == 201
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connected(daemon, "seller", "s", "my/shop")
    path = "/api/permissions/my%2Fshop/seller"
    assert api.call("PUT", path, {"configure": ".*"})[0] == 400
    assert api.call("PUT", path, EVERYTHING)[0] == 201
    assert api.call("PUT", path, EVERYTHING)[0] == 204
    assert api.get(path) == {"user": "seller", "vhost": "my/shop", **EVERYTHING}
    assert api.get("/api/users/seller/permissions") == [api.get(path)]
    assert [each["user"] for each in api.get("/api/vhosts/my%2Fshop/permissions")] == [
        "admin",  # who has made it
        "seller",
    ]
    connection = connected(daemon, "seller", "s", "my/shop")
    connection.channel().queue_declare("q", durable=True)
    assert api.call("POST", "/api/vhosts/my%2Fshop/deletion/protection")[0] == 204
    assert api.call("DELETE", "/api/vhosts/my%2Fshop")[0] == 412
    assert api.call("DELETE", "/api/vhosts/my%2Fshop/deletion/protection")[0] == 204
    assert api.call("POST", "/api/vhosts/my%2Fshop/start/any")[0] == 204
    assert api.call("DELETE", "/api/vhosts/my%2Fshop")[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosed, match="vhost 'my/shop' is deleted"):
        connection.process_data_events(60)
    assert api.call("DELETE", "/api/vhosts/my%2Fshop")[0] == 404
    assert api.call("DELETE", "/api/vhosts/%2F")[0] == 409
    assert api.get("/api/users/seller/permissions") == []


def test_topic_permissions(daemon: BrokerProcess, api: HttpApi) -> None:
    api.call("PUT", "/api/users/t", {"password": "t", "tags": ""})
    api.call("PUT", "/api/permissions/%2F/t", EVERYTHING)
    path = "/api/topic-permissions/%2F/t"
    body = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert api.call("GET", path)[0] == 404
    assert api.call("PUT", path, body)[0] == 201
    assert api.call("PUT", path, body)[0] == 204
    assert api.get(path) == [{"user": "t", "vhost": "/", **body}]
    assert api.get("/api/users/t/topic-permissions") == api.get(path)
    assert api.get("/api/vhosts/%2F/topic-permissions") == api.get(path)
    assert api.get("/api/topic-permissions") == api.get(path)
    connection = connected(daemon, "t", "t")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "a.b", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.basic_publish("amq.topic", "b.b", b"")
    assert api.call("DELETE", f"{path}/amq.topic")[0] == 204
    assert api.call("DELETE", path)[0] == 404
    connection.close()


def test_limits(api: HttpApi) -> None:
    assert api.get("/api/vhost-limits/%2F") == [{"vhost": "/", "value": {"max-connections": 50}}]
    assert api.call("PUT", "/api/vhost-limits/%2F/max-queues", {"value": 1000})[0] == 204
    assert api.get("/api/vhost-limits")[0]["value"]["max-queues"] == 1000
    assert api.call("PUT", "/api/vhost-limits/%2F/max-connections", {"value": 1})[0] == 409
    assert api.call("PUT", "/api/vhost-limits/%2F/max-queues", {"value": "x"})[0] == 400
    assert api.call("PUT", "/api/vhost-limits/nowhere/max-queues", {"value": 1})[0] == 404
    assert api.get("/api/parameters/vhost-limits/%2F") == [
        {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 1000}}
    ]
    assert api.call("DELETE", "/api/vhost-limits/%2F/max-queues")[0] == 204
    assert api.call("PUT", "/api/user-limits/admin/max-channels", {"value": 99})[0] == 204
    assert api.get("/api/user-limits/admin") == [{"user": "admin", "value": {"max-channels": 99}}]
    assert api.get("/api/user-limits") == api.get("/api/user-limits/admin")
    assert api.call("DELETE", "/api/user-limits/admin/max-channels")[0] == 204
    assert api.get("/api/user-limits/admin") == []


def test_parameters(api: HttpApi) -> None:
    path = "/api/parameters/shovel/%2F/s"
    value = {"src-uri": "amqp://", "dest-uri": ["amqp://x", "amqp://y"]}
    first = api.ask("PUT", path, {"value": value})
    assert first.status_code == 201
    assert "nothing runs a shovel here" in first.headers["Warning"]
    assert api.call("PUT", path, {"value": {**value, "src-uri": "amqp://x"}})[0] == 204
    assert api.get(path)["value"] == {**value, "src-uri": "amqp://x"}
    assert api.get("/api/shovels") == api.get("/api/federation-links/%2F") == []
    assert api.get("/api/parameters") == api.get("/api/parameters/shovel") == [api.get(path)]
    assert api.call("PUT", "/api/parameters/none/%2F/s", {"value": 1}) == (
        400,
        {"error": "bad_request", "reason": "Validation failed\n\ncomponent none not found\n"},
    )
    assert api.call("DELETE", path)[0] == 204
    assert api.call("DELETE", path)[0] == 404
    path = "/api/global-parameters/mine"
    assert api.call("PUT", path, {"value": [1]})[0] == 201
    assert api.get("/api/global-parameters") == [{"name": "mine", "value": [1]}]
    assert api.call("DELETE", path)[0] == 204
    assert api.call("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("component", "value", "problem"),
    [
        ("shovel", {"src-uri": "amqp://"}, 'Key "dest-uri" not found in x'),
        ("shovel", [], "x should be an object, not []"),
        ("federation-upstream", {"uri": None}, "uri should be a URI or a list of URIs, not null"),
        ("federation-upstream", {"uri": []}, "uri should be a URI or a list of URIs, not []"),
        ("federation-upstream", None, "x should be an object, not null"),
        ("federation-upstream-set", [{}], "x should be a list of objects with upstream"),
    ],
)
def test_a_parameter_that_its_component_would_not_take(
    api: HttpApi, component: str, value: object, problem: str
) -> None:
    path = f"/api/parameters/{component}/%2F/x"
    status, answer = api.call("PUT", path, {"value": value})
    assert status == 400
    assert problem in answer["reason"]
    assert api.get(f"/api/parameters/{component}") == []


def test_an_operator_decides_what_a_full_queue_does(daemon: BrokerProcess, api: HttpApi) -> None:
    policy = {"pattern": "^full$", "definition": {"max-length": 9, "overflow": "drop-head"}}
    operator = {
        "pattern": "^full$",
        "definition": {"max-length": 1, "overflow": "reject-publish", "queue-version": 2},
    }
    assert api.call("PUT", "/api/policies/%2F/full", policy)[0] == 201
    assert api.call("PUT", "/api/operator-policies/%2F/full", operator)[0] == 201
    with closing(connected(daemon, "admin", "admin")) as connection:
        channel = connection.channel()
        channel.queue_declare("full")
        channel.confirm_delivery()
        channel.basic_publish("", "full", b"first")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "full", b"second")
        effective = api.get("/api/queues/%2F/full")["effective_policy_definition"]
        assert effective == operator["definition"]
        channel.queue_delete("full")
    for kind in ("policies", "operator-policies"):
        assert api.call("DELETE", f"/api/{kind}/%2F/full")[0] == 204


def test_policies(daemon: BrokerProcess, api: HttpApi) -> None:
    policy = {"pattern": "^p\\.", "definition": {"max-length": 2}, "apply-to": "queues"}
    for kind in ("policies", "operator-policies"):
        path = f"/api/{kind}/%2F/limit"
        assert api.call("PUT", path, policy)[0] == 201
        assert api.call("PUT", path, {**policy, "priority": 3})[0] == 204
        assert api.get(path) == {"vhost": "/", "name": "limit", **policy, "priority": 3}
        assert api.get(f"/api/{kind}") == api.get(f"/api/{kind}/%2F") == [api.get(path)]
        status, body = api.call("PUT", path, {"pattern": "", "definition": {"what": 1}})
        assert (status, body["error"]) == (400, "bad_request")
        assert "are not recognised policy settings" in body["reason"]
    connection = connected(daemon, "admin", "admin")
    channel = connection.channel()
    channel.queue_declare("p.q")
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "p.q", b"")
    assert channel.queue_declare("p.q", passive=True).method.message_count == 2
    queue = api.get("/api/queues/%2F/p.q")
    assert (queue["policy"], queue["operator_policy"]) == ("limit", "limit")
    assert queue["effective_policy_definition"] == {"max-length": 2}
    assert queue["arguments"] == {}
    channel.queue_delete("p.q")
    connection.close()
    policy = {"pattern": "^amq.fanout$", "definition": {"alternate-exchange": "amq.direct"}}
    assert api.call("PUT", "/api/policies/%2F/ae", policy)[0] == 201
    assert api.get("/api/exchanges/%2F/amq.fanout")["policy"] == "ae"
    assert api.get("/api/exchanges/%2F/amq.direct")["policy"] is None
    assert api.call("DELETE", "/api/policies/%2F/ae")[0] == 204
    for kind in ("policies", "operator-policies"):
        assert api.call("DELETE", f"/api/{kind}/%2F/limit")[0] == 204
        assert api.call("DELETE", f"/api/{kind}/%2F/limit")[0] == 404


def test_slow_patterns(daemon: BrokerProcess, api: HttpApi) -> None:
    """One that a trial finds is refused; one that it does not find says for which names."""
    path = "/api/policies/%2F/slow"
    status, body = api.call("PUT", path, {"pattern": "^(a|aa)+b$", "definition": {"max-length": 1}})
    assert (status, body["error"]) == (400, "bad_request")
    assert "takes more than 5 ms for some names, such as 'aaa" in body["reason"]
    policy = {
        "pattern": "^(abcd|abcdabcd)+e$",
        "definition": {"max-length": 1},
        "apply-to": "queues",
    }
    assert api.call("PUT", path, policy)[0] == 201
    assert "slow_names" not in api.get(path)
    connection = connected(daemon, "admin", "admin")
    channel = connection.channel()
    names = ("abcd" * 60 + "!", "abcde")
    for name in names:
        channel.queue_declare(name)
    found = api.get(path)
    assert (found["slow_names"], found["slow_count"]) == ([names[0]], 1)
    assert found == api.get("/api/policies/%2F")[0]
    assert api.get(f"/api/queues/%2F/{names[0]}")["policy"] is None
    assert api.get("/api/queues/%2F/abcde")["policy"] == "slow"
    for name in names:
        channel.queue_delete(name)
    connection.close()
    assert api.call("DELETE", path)[0] == 204


def test_definitions_out_and_in(api: HttpApi) -> None:
    queue = {"name": "dq", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}
    definitions = {"vhosts": [{"name": "def"}], "queues": [{**queue, "vhost": "def"}]}
    assert api.call("POST", "/api/definitions", definitions) == (204, None)
    assert api.call("POST", "/api/definitions?report=true", definitions) == (
        200,
        {"done": {"vhosts": 1, "queues": 1}, "left_out": []},
    )
    assert api.get("/api/definitions/def")["queues"] == [queue]
    whole = api.get("/api/definitions")
    assert {**queue, "vhost": "def"} in whole["queues"]
    assert api.get("/api/all-configuration") == whole
    status, report = api.call("POST", "/api/definitions/def", {"queues": [{"name": "amq.x"}]})
    assert status == 200
    assert [each["name"] for each in report["left_out"]] == ["amq.x"]
    assert api.call("POST", "/api/definitions", b"{")[0] == 400
    assert api.call("POST", "/api/definitions", [])[0] == 400
    assert api.call("DELETE", "/api/vhosts/def")[0] == 204


def test_half_a_character_is_refused(api: HttpApi) -> None:
    half = "\ud800"
    for method, path, body in (
        ("PUT", "/api/vhosts/half", {"description": half}),
        ("PUT", "/api/users/half", {"password": half, "tags": ""}),
        ("PUT", "/api/global-parameters/half", {"value": [half]}),
        ("POST", "/api/definitions", {"queues": [{"vhost": "/", "name": half}]}),
    ):
        assert api.call(method, path, body) == (
            400,
            {"error": "bad_request", "reason": "body: a text in it is not Unicode"},
        )
    assert api.call("PUT", "/api/users/%80", {"tags": ""})[0] == 400
    whole = {"value": "\U0001f407"}  # in JSON two halves
    assert api.call("PUT", "/api/global-parameters/whole", whole)[0] == 201
    assert api.call("DELETE", "/api/global-parameters/whole")[0] == 204


def test_definitions_as_a_form(api: HttpApi) -> None:
    form = (
        b'--x\r\nContent-Disposition: form-data; name="redirect"\r\n\r\nno\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n'
        b'Content-Type: application/json\r\n\r\n{"vhosts": [{"name": "form"}]}\r\n--x--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert api.call("POST", "/api/definitions", form, headers=headers) == (204, None)
    assert api.call("DELETE", "/api/vhosts/form")[0] == 204
    status, body = api.call("POST", "/api/definitions", b"--x--", headers=headers)
    assert (status, body["reason"]) == (400, "form: there is no part 'file'")


def test_a_restart_has_all_of_it(daemon: BrokerProcess, api: HttpApi) -> None:
    for path, body in (
        ("/api/vhosts/kept", {"description": "kept"}),
        ("/api/users/kept", {"password": "kept", "tags": "management"}),
        ("/api/permissions/kept/kept", EVERYTHING),
        ("/api/policies/kept/p", {"pattern": "", "definition": {"max-length": 1}}),
    ):
        assert api.call("PUT", path, body)[0] == 201
    connection = connected(daemon, "kept", "kept", "kept")
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=2))
    connection.close()
    before = api.get("/api/definitions")
    daemon.restart_by_kill()
    after = api.get("/api/definitions")
    assert after["users"][0]["name"] == before["users"][0]["name"] == "admin"
    del before["users"][0], after["users"][0]  # its password is in the file, and hashed anew
    assert after == before
    connection = connected(daemon, "kept", "kept", "kept")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"2", pika.BasicProperties(delivery_mode=2))
    assert channel.basic_get("q", auto_ack=True)[2] == b"2"
    connection.close()
    assert api.call("DELETE", "/api/vhosts/kept")[0] == 204
    assert api.call("DELETE", "/api/users/kept")[0] == 204
    daemon.restart()
    assert [vhost["name"] for vhost in api.get("/api/vhosts")] == ["/"]


@pytest.mark.row("C5")
def test_a_queue_with_priorities_by_policy_has_them_after_a_restart(daemon: BrokerProcess) -> None:
    api = api_of(daemon, "admin", "admin")
    policy = {"pattern": "^by", "definition": {"max-priority": 9}}
    assert api.call("PUT", "/api/policies/%2F/p", policy)[0] == 201
    connection = connected(daemon, "admin", "admin", "/")
    channel = connection.channel()
    for queue in ("by policy", "plain"):
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        for priority in (1, 3, 2):
            properties = pika.BasicProperties(delivery_mode=2, priority=priority)
            channel.basic_publish("", queue, b"%d" % priority, properties)
    connection.close()
    daemon.restart_by_kill()
    channel = connected(daemon, "admin", "admin", "/").channel()
    for queue, order in (("by policy", b"321"), ("plain", b"132")):
        assert b"".join(channel.basic_get(queue, auto_ack=True)[2] for _ in order) == order
    channel.connection.close()


def test_the_files_of_a_deleted_virtual_host_are_freed(start_daemon: StartDaemon) -> None:
    made = start_daemon('[journal]\nsegment_bytes = "1MiB"\n')
    api = api_of(made, "guest", "guest")
    assert api.call("PUT", "/api/vhosts/big", {})[0] == 201
    connection = connected(made, "guest", "guest", "big")
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for _ in range(60):
        channel.basic_publish("", "q", b"x" * 100_000, pika.BasicProperties(delivery_mode=2))
    connection.close()
    journal = made.data_dir / "journal"
    assert len(list(journal.iterdir())) >= 5
    assert api.call("DELETE", "/api/vhosts/big")[0] == 204
    wait_for(lambda: len(list(journal.iterdir())) <= 3, 60, "segments to be freed")
    made.restart()
    assert [vhost["name"] for vhost in api.get("/api/vhosts")] == ["/"]
    assert api.call("PUT", "/api/vhosts/big", {})[0] == 201


def test_definitions_at_the_start(start_daemon: StartDaemon, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"vhosts": [{"name": "loaded"}]}', encoding="utf-8")
    api = api_of(start_daemon(f'load_definitions = "{file}"\n'), "guest", "guest")
    assert [vhost["name"] for vhost in api.get("/api/vhosts")] == ["/", "loaded"]


def test_operator_policies_are_among_the_parameters(api: HttpApi) -> None:
    policy = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert api.call("PUT", "/api/operator-policies/%2F/shown", policy)[0] == 201
    row = {"component": "operator_policy", "vhost": "/", "name": "shown", "value": policy}
    assert row in api.get("/api/parameters")
    assert api.get("/api/parameters/operator_policy/%2F") == [row]
    assert api.get("/api/parameters/operator_policy/%2F/shown") == row
    status, answer = api.call("DELETE", "/api/parameters/operator_policy/%2F/shown")
    assert (status, answer["error"]) == (400, "bad_request")
    assert api.call("DELETE", "/api/operator-policies/%2F/shown")[0] == 204
    assert api.get("/api/parameters/operator_policy") == []


def test_permissions_of_nobody_are_not_found(api: HttpApi) -> None:
    for place in ("%2F/nobody", "nowhere/admin", "nowhere/nobody"):
        assert api.call("DELETE", f"/api/permissions/{place}")[0] == 404


def test_a_virtual_host_has_depths_with_rates_unless_they_are_not_wanted(api: HttpApi) -> None:
    assert api.call("PUT", "/api/vhosts/still", {})[0] == 201
    assert api.get("/api/vhosts/still")["messages_ready_details"] == {"rate": 0.0}
    assert "messages_details" not in api.get("/api/vhosts/%2F?disable_stats=true")
    assert api.get("/api/vhosts/%2F?columns=name,messages_details.rate")["name"] == "/"


def test_a_virtual_host_has_counters_of_messages(daemon: BrokerProcess, api: HttpApi) -> None:
    connection = connected(daemon, "admin", "admin")
    channel = connection.channel()
    channel.queue_declare("counted", exclusive=True)
    channel.basic_publish("", "counted", b"x")

    def is_counted() -> bool:
        connection.process_data_events(0)
        return bool(api.get("/api/vhosts/%2F").get("message_stats", {}).get("publish"))

    wait_for(is_counted, 60.0, "the next sample")
    connection.close()


# ---------------------------------------------- logins, with hashes that take a thread


def add_user(api: HttpApi, name: str, **credentials: str) -> None:
    api.call("PUT", f"/api/users/{name}", {**credentials, "tags": "monitoring"})
    api.call("PUT", f"/api/permissions/%2F/{name}", EVERYTHING)


def test_a_new_password_has_a_slow_hash_and_logs_in_everywhere(
    daemon: BrokerProcess, api: HttpApi
) -> None:
    add_user(api, "ann", password="sécret:1")
    ann = api.get("/api/users/ann")
    assert ann["hashing_algorithm"] == "rabbit_password_hashing_argon2id"
    assert ann["password_hash"].startswith("$argon2id$v=19$")
    with closing(connected(daemon, "ann", "sécret:1")) as connection:
        connection.channel().queue_declare("", exclusive=True)
    assert HttpApi(daemon.management_url, "ann", "sécret:1").get("/api/whoami")["name"] == "ann"
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(daemon, "ann", "wrong")


def test_a_hash_of_rabbitmq_is_replaced_at_the_next_login(
    daemon: BrokerProcess, api: HttpApi
) -> None:
    stored = hash_password("test12", "sha512")
    algorithm = "rabbit_password_hashing_sha512"
    add_user(api, "ben", password_hash=stored, hashing_algorithm=algorithm)
    for _ in range(2):
        connected(daemon, "ben", "test12").close()
        wait_for(
            lambda: api.get("/api/users/ben")["password_hash"].startswith("$argon2id$"),
            60.0,
            "the hash is replaced",
        )
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(daemon, "ben", "test13")


def test_a_changed_password_holds_for_the_next_login(daemon: BrokerProcess, api: HttpApi) -> None:
    add_user(api, "cleo", password="one")
    connected(daemon, "cleo", "one").close()
    add_user(api, "cleo", password="two")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connected(daemon, "cleo", "one")
    connected(daemon, "cleo", "two").close()
