"""Logins of a directory: groups become tags and rights, and the event loop waits for none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hareline import events
from hareline.auth.backends import Answer, Credentials, Refusal
from hareline.auth.passwords import hash_password
from hareline.auth.peer import Peer
from hareline.auth.permissions import Permissions
from hareline.auth.users import User, UserRegistry
from hareline.authorities.directory import DirectoryRules
from hareline.authorities.ldap import GroupRights, LdapBackend, login_decisions
from hareline.clock import ManualClock
from hareline.events import Event
from hareline.net import login_workers
from hareline.net.login_workers import LoginWorkers
from tests.support.directory_server import Directory, Entry, serving
from tests.support.login_work import AtOnce

ANN = "uid=ann,dc=x"
OPS, DEV = "cn=ops,ou=groups,dc=x", "cn=dev,ou=groups,dc=x"
RIGHTS = [
    GroupRights("CN=Ops, ou=groups, dc=x", frozenset({"administrator"})),
    GroupRights(OPS.replace("ops", "dev"), frozenset(), {"/": Permissions("^a", "", "^a")}),
    GroupRights("cn=qa,ou=groups,dc=x", frozenset({"x"}), {"/": Permissions("^b|c", "^b", "")}),
]
HERE = Peer("127.0.0.1", is_loopback=True)


class Stand:
    def __init__(self, url: str, users: UserRegistry | None = None, threads: int = 4) -> None:
        self.clock = ManualClock()
        self.reports: list[tuple[Event, dict[str, object]]] = []
        rules = DirectoryRules((url,), "uid=${username},dc=x", group_base="ou=groups,dc=x")
        decisions = login_decisions(self.clock.running_s, 15)
        self.workers = LoginWorkers(self._report, lambda: 3600.0, threads)
        self.backend = LdapBackend(rules, RIGHTS, decisions, self._report, self.workers, users)

    def _report(self, event: Event, **fields: object) -> None:
        self.reports.append((event, fields))

    def begin(self, name: str, password: str | None, peer: Peer = HERE) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.backend.begin(Credentials(name, password), peer, future.set_result)
        return future


@pytest.fixture
def directory() -> Directory:
    return Directory(
        Entry(ANN, "pw"),
        Entry("uid=bob,dc=x", "pw"),
        Entry(OPS, values={"member": (ANN,)}),
        Entry(DEV, values={"member": (ANN, "uid=bob,dc=x")}),
        Entry("cn=qa,ou=groups,dc=x", values={"member": (ANN,)}),
        Entry("cn=unknown,ou=groups,dc=x", values={"member": (ANN,)}),
    )


@pytest.fixture
def url(directory: Directory) -> Iterator[str]:
    with serving(directory) as url:
        yield url


async def test_groups_give_tags_and_rights(url: str) -> None:
    stand = Stand(url)
    ann = await stand.begin("ann", "pw")
    assert isinstance(ann, User)
    assert (ann.name, ann.backend) == ("ann", "ldap")
    other = await stand.begin("ANN", "pw")
    assert isinstance(other, User)
    assert other.name == "ann"
    assert ann.tags == ("administrator", "x")
    both = ann.permissions["/"]
    assert [both.allow("configure", name) for name in ("ax", "xc", "x")] == [True, True, False]
    assert [both.allow("write", name) for name in ("ax", "bx", "")] == [False, True, False]
    bob = await stand.begin("bob", "pw")
    assert isinstance(bob, User)
    assert bob.tags == ()
    assert not bob.permissions["/"].allow("write", "bx")
    stand.workers.stop()


async def test_a_wrong_password_is_refused(url: str, directory: Directory) -> None:
    stand = Stand(url)
    assert await stand.begin("ann", "wrong") == Refusal("denied")
    for name, password in (("", "x"), ("ann", ""), ("ann", None)):
        assert await stand.begin(name, password) == Refusal()
    assert len(directory.binds) == 1
    stand.workers.stop()


async def test_a_login_that_was_right_is_remembered(url: str, directory: Directory) -> None:
    stand = Stand(url)
    for _ in range(3):
        assert isinstance(await stand.begin("ann", "pw"), User)
    assert len(directory.binds) == 1
    stand.clock.advance(15_000)
    await stand.begin("ann", "pw")
    assert len(directory.binds) == 2
    stand.workers.stop()


async def test_the_directory_is_asked_once_for_all_who_wait(url: str, directory: Directory) -> None:
    stand = Stand(url, threads=1)
    directory.gate.clear()
    waiting = [stand.begin("ann", "pw") for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    directory.gate.set()
    assert all(isinstance(each, User) for each in await asyncio.gather(*waiting))
    assert len(directory.binds) == 1
    stand.workers.stop()


async def test_a_line_that_is_too_long_is_refused(
    url: str, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_workers, "WAITING_OF_ORIGIN_MAX", 1)
    stand = Stand(url, threads=1)
    directory.gate.clear()
    waiting = [stand.begin("ann", f"pw{number}") for number in range(3)]
    assert waiting[2].result() == Refusal("too many logins wait for the directory", is_guess=False)
    waiting.append(stand.begin("ann", "pw", Peer("192.0.2.1", is_loopback=False)))
    directory.gate.set()
    assert isinstance((await asyncio.gather(*waiting))[-1], User)
    stand.workers.stop()


async def test_nobody_is_asked_about_a_login_whose_client_has_gone(
    url: str, directory: Directory
) -> None:
    stand = Stand(url, threads=1)
    directory.gate.clear()
    gone = HERE._replace(is_gone=lambda: True)
    waiting = [stand.begin("bob", "pw")]  # is asked about now
    waiting += [stand.begin("ann", f"pw{number}", gone) for number in range(3)]
    waiting += [stand.begin("ann", "pw", gone), stand.begin("ann", "pw")]
    directory.gate.set()
    answers = await asyncio.gather(*waiting)
    assert [isinstance(each, User) for each in answers] == [True, *[False] * 3, True, True]
    assert directory.binds == ["uid=bob,dc=x", ANN]
    stand.workers.stop()


async def test_a_directory_that_is_gone_lets_nobody_in() -> None:
    with serving(Directory()) as url:
        pass
    stand = Stand(url)
    answer = await stand.begin("ann", "pw")
    assert answer == Refusal("the directory gave no valid answer", is_guess=False)
    event, fields = stand.reports[0]
    assert event is events.AUTHORITY_FAILED
    assert "cannot be asked" in str(fields["problem"])
    stand.workers.stop()


async def test_octets_that_are_no_text_are_not_sent(url: str, directory: Directory) -> None:
    stand = Stand(url)
    answer = await stand.begin("ann", "\udcff")
    assert isinstance(answer, Refusal)
    stand.workers.stop()


async def test_rights_may_be_those_of_this_broker(url: str) -> None:
    known = User("ann", hash_password("other"), tags=frozenset({"monitoring"}))
    stand = Stand(url, UserRegistry([known]))
    assert await stand.begin("ann", "pw") is known
    answer = await stand.begin("bob", "pw")
    assert answer == Refusal("no user 'bob' is known here, so it has no rights")
    stand.workers.stop()


def test_the_name_of_a_group_is_checked() -> None:
    def report(event: Event, **fields: object) -> None:
        """No login is tried."""

    with pytest.raises(ValueError, match="'ops' is not a distinguished name"):
        LdapBackend(
            DirectoryRules(()),
            [GroupRights("ops")],
            login_decisions(lambda: 0.0, 1),
            report,
            AtOnce(),
        )
