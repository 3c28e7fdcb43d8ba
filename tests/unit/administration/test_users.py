"""Users made, changed and deleted while clients are connected, and what a restart has of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline import events
from hareline.administration import AdministrationError
from hareline.administration.origins import Origins
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS
from hareline.auth.users import User
from hareline.later import SHARE_S
from hareline.wire.methods import commands
from tests.support.administered import Administered
from tests.support.login_work import authenticate

Restart = Callable[..., Administered]


def refused(call: Callable[[], object]) -> AdministrationError:
    with pytest.raises(AdministrationError) as caught:
        call()
    return caught.value


def made(broker: Administered, name: str = "ann", vhost: str = "/") -> None:
    broker.administration.users.put(name, password=name, tags=["monitoring"])
    broker.administration.users.put_permission(name, vhost, ".*", ".*", ".*")


def test_a_new_user_logs_in_and_one_made_again_has_the_new_password(broker: Administered) -> None:
    users = broker.administration.users
    assert users.put("ann", password="ann", tags=["monitoring", "monitoring"], by="guest")
    users.put_permission("ann", "/", "^a", ".*", "")
    assert broker.connect("ann").user.tags == ("monitoring",)
    assert not users.put("ann", password="other", tags=[])
    assert authenticate(broker.users, "ann", "ann", is_loopback=False) is None
    assert authenticate(broker.users, "ann", "other", is_loopback=False) is not None
    assert broker.events() == [
        "user.created",
        "user.tags.set",
        "permission.created",
        "user.password.changed",
        "user.tags.set",
    ]


def test_tags_keep_their_order(restarted: Restart) -> None:
    given = ["monitoring", "a", "policymaker"]
    restarted().administration.users.put("ann", tags=given)
    user = restarted().users.lookup("ann")
    assert user is not None
    assert list(user.tags) == given


def test_a_user_with_a_password_has_keys_for_scram(broker: Administered) -> None:
    broker.administration.users.put("ann", password="secret")
    assert broker.users.has_keys("ann")
    broker.administration.users.put("ann", password_hash=hash_password("secret"))
    assert not broker.users.has_keys("ann")


@pytest.mark.parametrize("hashing", ["sha256", "sha512"])
def test_hashes_of_rabbitmq_are_taken(broker: Administered, hashing: str) -> None:
    stored = hash_password("old password", hashing)
    broker.administration.users.put(
        "ann", password_hash=stored, hashing=f"rabbit_password_hashing_{hashing}"
    )
    assert authenticate(broker.users, "ann", "old password", is_loopback=False) is not None


def test_what_is_wrong_with_a_user_is_said_and_nothing_changes(broker: Administered) -> None:
    users = broker.administration.users
    for call, text in (
        (lambda: users.put("", password="p"), "a user needs a name"),
        (lambda: users.put("a" * 256, password="p"), "255 octets"),
        (lambda: users.put("\udc80", password="p"), "not UTF-8"),
        (lambda: users.put("ann", password=""), "the password is empty"),
        (lambda: users.put("ann", password="p", password_hash="h"), "both_password"),
        (lambda: users.put("ann", password_hash="!"), "not base64"),
        (lambda: users.put("ann", password_hash="", hashing="rot13"), "rot13"),
    ):
        error = refused(call)
        assert (error.kind, text in error.reason) == ("bad_request", True), error.reason
    assert "ann" not in broker.users
    assert broker.events() == []


def test_a_deleted_user_is_disconnected_and_others_stay(broker: Administered) -> None:
    made(broker, "ann")
    made(broker, "bob")
    ann, bob = broker.connect("ann"), broker.connect("bob")
    broker.administration.users.delete("ann")
    refusal = ann.refusal()
    assert (refusal.code, refusal.text) == (320, "CONNECTION_FORCED - user 'ann' is deleted")
    assert bob.connection.is_running
    assert refused(lambda: broker.administration.users.delete("ann")).kind == "not_found"


def test_many_connections_of_a_user_follow_in_shares(broker: Administered) -> None:
    """Connections that come meanwhile, and others, are not concerned."""
    users = broker.administration.users
    made(broker, "ann")
    made(broker, "bob")
    peers = [broker.connect("ann") for _ in range(20)]
    bob = broker.connect("bob")
    broker.clock.work_s = SHARE_S / 4

    def count_running() -> int:
        return [peer.connection.is_running for peer in peers].count(True)

    users.delete("ann")
    assert 0 < count_running() < 20
    users.delete("bob")
    assert bob.connection.is_running  # it is behind those of ann
    made(broker, "ann")
    again = broker.connect("ann")
    broker.run_turns()
    assert count_running() == 0
    assert peers[-1].refusal().text == "CONNECTION_FORCED - user 'ann' is deleted"
    assert bob.refusal().text == "CONNECTION_FORCED - user 'bob' is deleted"
    assert again.connection.is_running


def test_permissions_reach_many_connections_in_shares(broker: Administered) -> None:
    made(broker)
    peers = [broker.connect("ann") for _ in range(20)]
    peers[18].lose()
    broker.clock.work_s = SHARE_S / 4
    broker.administration.users.delete_permission("ann", "/")
    assert peers[19].connection.is_running
    broker.run_turns()
    refusal = peers[19].refusal()
    assert refusal.text == "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"
    assert [peer.connection.is_running for peer in peers] == [False] * 20


def test_permissions_reach_open_channels(broker: Administered) -> None:
    made(broker)
    peer = broker.connect("ann")
    peer.call(1, commands.Queue.Declare, queue="q")
    broker.administration.users.put_permission("ann", "/", "^other$", "", "")
    peer.send(1, commands.Queue.Declare, queue="q2")
    assert peer.refusal().text == (
        "ACCESS_REFUSED - configure access to queue 'q2' in vhost '/' refused for user 'ann'"
    )


def test_without_permissions_connections_to_the_virtual_host_are_closed(
    broker: Administered,
) -> None:
    made(broker)
    peer = broker.connect("ann")
    broker.administration.users.delete_permission("ann", "/")
    assert peer.refusal().text == "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"
    gone = refused(lambda: broker.administration.users.delete_permission("ann", "/"))
    assert gone.kind == "not_found"


def test_permissions_need_a_user_a_virtual_host_and_valid_patterns(broker: Administered) -> None:
    users = broker.administration.users
    made(broker)
    for user, vhost in (("nobody", "/"), ("ann", "nowhere")):
        error = refused(lambda u=user, v=vhost: users.put_permission(u, v, "", "", ""))  # type: ignore[misc]
        assert error.reason == "vhost_or_user_not_found"
    error = refused(lambda: users.put_permission("ann", "/", "(", "", ""))
    assert "configure pattern '('" in error.reason


def test_topic_permissions_bound_routing_keys(broker: Administered) -> None:
    made(broker)
    users = broker.administration.users
    assert users.put_topic_permission("ann", "/", "amq.topic", "^{username}\\.", "^b")
    peer = broker.connect("ann", channels=(1, 2, 3))
    peer.call(1, commands.Queue.Declare, queue="q")
    peer.call(1, commands.Queue.Bind, queue="q", exchange="amq.topic", routing_key="b.#")
    peer.publish(1, "ann.x", b"1", exchange="amq.topic")
    peer.publish(1, "ann.x", b"2", exchange="amq.topic")
    broker.run_turns()
    assert peer.connection.is_running
    peer.send(2, commands.Queue.Bind, queue="q", exchange="amq.topic", routing_key="x")
    assert peer.refusal().text.startswith("ACCESS_REFUSED - read access to topic 'x'")
    peer.publish(3, "eve.x", b"", exchange="amq.topic")
    assert peer.refusal().text.startswith("ACCESS_REFUSED - write access to topic 'eve.x'")
    users.delete_topic_permissions("ann", "/", "amq.topic")
    peer.open(2)
    peer.call(2, commands.Queue.Bind, queue="q", exchange="amq.topic", routing_key="x")
    assert refused(lambda: users.delete_topic_permissions("ann", "/")).kind == "not_found"


def test_limits_of_a_user_bound_connections_and_channels(broker: Administered) -> None:
    made(broker)
    users = broker.administration.users
    users.set_limit("ann", "max-connections", 1)
    users.set_limit("ann", "max-channels", 2)
    peer = broker.connect("ann", channels=(1, 2))
    peer.send(3, commands.Channel.Open)
    assert peer.refusal().text == (
        "NOT_ALLOWED - number of channels opened for user 'ann' has reached the maximum allowed "
        "user limit of (2)"
    )
    peer.send(0, commands.Connection.CloseOk)
    peer.connection.on_transport_lost("")
    broker.connect("ann", channels=())
    second = broker.accept(is_loopback=False)
    second.start("ann", "ann")
    second.expect(commands.Connection.Tune)
    second.send(0, commands.Connection.TuneOk, frame_max=8192, channel_max=9, heartbeat=0)
    second.send(0, commands.Connection.Open, virtual_host="/")
    assert second.refusal().text == (
        "NOT_ALLOWED - connection refused for user 'ann': user connection limit (1) is reached"
    )
    users.set_limit("ann", "max-publish-rate", 5)
    users.set_limit("ann", "max-publish-bytes-rate", 6)
    ann = broker.users.lookup("ann")
    assert ann is not None
    assert (ann.max_publish_rate, ann.max_publish_bytes_rate) == (5, 6)
    error = refused(lambda: users.set_limit("ann", "max-publish-rate", 0))
    assert "max-publish-rate should be at least 1, or negative" in error.reason
    users.clear_limit("ann", "max-publish-rate")
    users.clear_limit("ann", "max-publish-bytes-rate")
    users.set_limit("ann", "max-connections", -1)
    broker.connect("ann", channels=())
    users.clear_limit("ann", "max-channels")
    assert users.limits("ann") == {"max-connections": -1}
    for limit, value in (("max-queues", 1), ("max-channels", "2"), ("max-channels", True)):
        assert refused(lambda n=limit, v=value: users.set_limit("ann", n, v)).kind == "bad_request"  # type: ignore[misc]


def test_a_restart_has_what_was_set(restarted: Restart) -> None:
    broker = restarted()
    made(broker)
    users = broker.administration.users
    users.put_topic_permission("ann", "/", "amq.topic", "a", "b")
    users.set_limit("ann", "max-channels", 7)
    before = broker.users.lookup("ann")
    assert restarted().users.lookup("ann") == before
    restarted().administration.users.delete("ann")
    broker = restarted()
    assert "ann" not in broker.users
    assert not list(broker.administration.users.topic_permissions())


def test_the_default_user_stays_deleted_until_it_is_made_again(restarted: Restart) -> None:
    restarted().administration.users.delete("guest")
    broker = restarted()
    assert "guest" not in broker.users
    assert broker.administration.users.put("guest", password="new")
    broker = restarted()
    assert authenticate(broker.users, "guest", "new", is_loopback=True) is not None


def test_the_default_user_keeps_its_permissions_with_a_new_password(restarted: Restart) -> None:
    restarted().administration.users.put("guest", password="new", tags=["administrator"])
    guest = restarted().users.lookup("guest")
    assert guest is not None
    assert guest.permissions == {"/": ALL_PERMISSIONS}
    restarted().administration.users.delete_permission("guest", "/")
    guest = restarted().users.lookup("guest")
    assert guest is not None
    assert guest.permissions == {}


def test_permissions_of_the_default_user_can_be_taken(restarted: Restart) -> None:
    restarted().administration.users.delete_permission("guest", "/")
    guest = restarted().users.lookup("guest")
    assert guest is not None
    assert (guest.permissions, bool(guest.password_hash)) == ({}, True)


def of_file() -> Origins:
    ann = User("ann", hash_password("ann"), permissions={"/": ALL_PERMISSIONS})
    return Origins(where="/etc/hareline.toml", users={"ann": ann})


def test_what_the_settings_name_is_changed_there_alone(restarted: Restart) -> None:
    broker = restarted(of_file())
    users = broker.administration.users
    broker.administration.vhosts.put("new")
    for call, option in (
        (lambda: users.put("ann", password="other"), "[[users]]"),
        (lambda: users.delete("ann"), "[[users]]"),
        (lambda: list(users.delete_all(["ann"])), "[[users]]"),
        (lambda: users.put_permission("ann", "/", "", "", ""), "[[users.permissions]]"),
        (lambda: users.delete_permission("ann", "/"), "[[users.permissions]]"),
    ):
        error = refused(call)
        assert error.kind == "conflict"
        assert "/etc/hareline.toml" in error.reason
        assert option in error.reason
    assert not users.put("ann", password="ann")  # it is that already
    assert not users.put_permission("ann", "/", ".*", ".*", ".*")
    assert users.put_permission("ann", "new", "a", "b", "c")  # of this the settings say nothing
    users.set_limit("ann", "max-connections", 3)
    ann = restarted(of_file()).users.lookup("ann")
    assert ann is not None
    assert set(ann.permissions) == {"/", "new"}
    assert ann.max_connections == 3


def test_settings_that_no_longer_name_a_user_take_it_away(restarted: Restart) -> None:
    broker = restarted(of_file())
    peer = broker.connect("ann")
    broker.administration.reload(Origins(users={}))
    assert peer.refusal().text == "CONNECTION_FORCED - user 'ann' is deleted"
    assert "ann" not in broker.users


def test_a_reload_keeps_users_of_run_time(broker: Administered) -> None:
    made(broker, "bob")
    peer = broker.connect("bob")
    broker.administration.reload(of_file())
    assert peer.connection.is_running
    assert {user.name for user in broker.users} == {"ann", "bob"}


def test_many_are_deleted_at_once_or_none(broker: Administered) -> None:
    made(broker, "a")
    made(broker, "b")
    list(broker.administration.users.delete_all(["a", "missing", "b", "a"]))
    assert [user.name for user in broker.users] == ["guest"]


def test_a_list_of_topic_permissions_stays_while_others_come(broker: Administered) -> None:
    users = broker.administration.users
    users.put("ann", password="p")
    users.put_topic_permission("guest", "/", "amq.topic", "", "")
    found = iter(users.topic_permissions())
    users.put_topic_permission("ann", "/", "amq.topic", "", "")
    users.put_topic_permission("guest", "/", "other", "", "")
    assert [each.user for each in found] == ["guest"]


def test_many_users_are_deleted_in_steps(broker: Administered) -> None:
    users = broker.administration.users
    names = [f"user{number}" for number in range(50)]
    for name in names:
        users.put(name, password_hash="")
    steps = users.delete_all(names)
    next(steps)
    assert 1 < len(broker.users) < 51
    users.delete(names[-1])
    for _ in steps:
        continue
    assert [user.name for user in broker.users] == ["guest"]


def test_the_default_user_stays_and_the_log_says_once_that_it_should_go() -> None:
    broker = Administered()
    client = broker.connect("guest")
    users = broker.administration.users
    users.put("ann", password="ann", tags=["monitoring"])
    users.put("ben", tags=["administrator"])  # without a password
    assert broker.reported(events.DEFAULT_USER_STAYS) == []
    for name in ("ann", "cleo"):
        users.put(name, password="x", tags=["administrator"])
    assert broker.reported(events.DEFAULT_USER_STAYS) == [{"user": "guest", "other": "ann"}]
    assert users.has_default_password("guest")
    users.delete("guest")
    assert client.refusal().code == 320
    assert not users.has_default_password("guest")


def test_the_default_user_does_not_come_back(restarted: Restart) -> None:
    restarted().administration.users.put("ann", password="ann", tags=["administrator"])
    broker = restarted()
    assert broker.reported(events.DEFAULT_USER_STAYS) == [{"user": "guest", "other": "ann"}]
    broker.administration.users.delete("guest")
    assert [user.name for user in restarted().users] == ["ann"]


def test_a_user_that_was_given_a_password_is_no_default_any_more() -> None:
    broker = Administered()
    users = broker.administration.users
    users.put("guest", password="new", tags=["administrator"])
    users.put("ann", password="ann", tags=["administrator"])
    assert not users.has_default_password("guest")
    assert broker.reported(events.DEFAULT_USER_STAYS) == []


def test_users_of_the_settings_stay() -> None:
    guest = User("guest", hash_password("guest"), tags=frozenset({"administrator"}))
    broker = Administered(origins=Origins(users={"guest": guest}))
    broker.administration.users.put("ann", password="ann", tags=["administrator"])
    assert "guest" in broker.users
    assert not broker.administration.users.has_default_password("guest")
