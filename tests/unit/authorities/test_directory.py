"""A directory says over LDAP whether a password is right, and which groups there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.authorities.directory import DirectoryRules, Found, look_up, same_dn
from hareline.authorities.http_client import AskingFailed
from tests.support.directory_server import Directory, Entry, serving
from tests.support.tls import make_certificates

PEOPLE, GROUPS = "ou=people,dc=x", "ou=groups,dc=x"
ANN = f"uid=ann,{PEOPLE}"
OPS = f"cn=ops,{GROUPS}"
IN = Found("ann", frozenset())


@pytest.fixture
def directory() -> Directory:
    return Directory(
        Entry(ANN, "pw", {"uid": ("ann",), "mail": ("ann@x",)}),
        Entry(f"uid=two,{PEOPLE}", "pw", {"mail": ("same@x",)}),
        Entry(f"uid=three,{PEOPLE}", "pw", {"mail": ("same@x",)}),
        Entry(f"cn=reader,{PEOPLE}", "reader-pw"),
        Entry(OPS, values={"member": (ANN,)}),
        Entry(f"cn=dev,{GROUPS}", values={"member": (ANN, "uid=bob")}),
        Entry(f"cn=other,{GROUPS}", values={"member": ("uid=bob",)}),
    )


@pytest.fixture
def url(directory: Directory) -> Iterator[str]:
    with serving(directory) as url:
        yield url


def rules(url: str, **more: object) -> DirectoryRules:
    options = {"user_dn_pattern": f"uid=${{username}},{PEOPLE}", "timeout_s": 60, **more}
    return DirectoryRules((url,), **options)  # type: ignore[arg-type]


def test_a_right_password_is_taken(url: str, directory: Directory) -> None:
    assert look_up(rules(url), "ann", "pw") == IN
    assert directory.binds == [ANN]


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("bob", "pw"), ("ann,ou=x", "pw"), ("*", "pw")]
)
def test_a_wrong_one_is_not(url: str, name: str, password: str) -> None:
    assert look_up(rules(url), name, password) is None


@pytest.mark.parametrize(
    ("name", "password"), [("", "pw"), ("ann", ""), ("", ""), (" ", "pw"), ("\u200b", "pw")]
)
def test_an_empty_password_is_never_sent(
    url: str, directory: Directory, name: str, password: str
) -> None:
    assert look_up(rules(url), name, password) is None
    assert directory.binds == []


SIMILAR = ("strauß", "strauss", "fiona", "\ufb01ona")
SPELLINGS = ("ann", "Ann", " ANN ", "aNN", "\uff41nn")


@pytest.mark.parametrize("given", SPELLINGS)
@pytest.mark.parametrize("own", ["ann", "Ann"])
def test_a_name_is_spelled_as_the_directory_has_it(given: str, own: str) -> None:
    with serving(Directory(Entry(f"uid={own},{PEOPLE}", "pw"))) as url:
        assert look_up(rules(url), given, "pw") == Found(own, frozenset())
        search = {
            "lookup_attribute": "uid",
            "lookup_base": PEOPLE,
            "user_dn_pattern": "${username}",
        }
        assert look_up(rules(url, **search), given, "pw") == Found(own, frozenset())


@pytest.mark.parametrize("given", [*SPELLINGS[:4], "an\u00adn", "ann\u200b"])
def test_a_name_that_cannot_be_read_has_one_spelling(given: str) -> None:
    with serving(Directory(Entry(f"uid=Ann,{PEOPLE}", "pw", is_readable=False))) as url:
        assert look_up(rules(url), given, "pw") == IN


@pytest.mark.parametrize("is_readable", [True, False])
def test_users_of_similar_names_stay_apart(is_readable: bool) -> None:
    """What the server takes for different is never one user."""
    entries = [
        Entry(f"uid={name},{PEOPLE}", f"pw{number}", is_readable=is_readable)
        for number, name in enumerate(SIMILAR)
    ]
    with serving(Directory(*entries)) as url:
        found = [look_up(rules(url), name, f"pw{n}") for n, name in enumerate(SIMILAR)]
    assert [each and each.name for each in found] == list(SIMILAR)


def test_a_part_of_a_value_has_one_spelling_too() -> None:
    with serving(Directory(Entry(f"uid=u-Ann,{PEOPLE}", "pw"))) as url:
        both = rules(url, user_dn_pattern=f"uid=u-${{username}},{PEOPLE}")
        assert look_up(both, "ANN", "pw") == look_up(both, "ann", "pw") == IN


def test_another_value_of_the_attribute_is_not_the_name() -> None:
    """Users may be allowed to change their own entry."""
    zoe = Entry(f"uid=Zoe,{PEOPLE}", "pw", {"uid": ("ann",)})
    with serving(Directory(zoe)) as url:
        found = look_up(rules(url), "zoe", "pw")
    assert found is not None
    assert found.name == "Zoe"


def test_a_name_is_no_part_of_the_pattern(url: str, directory: Directory) -> None:
    look_up(rules(url), "a,b=c+d", "pw")
    assert directory.binds == [rf"uid=a\,b\=c\+d,{PEOPLE}"]


def test_groups_are_found_as_the_user(url: str, directory: Directory) -> None:
    found = look_up(rules(url, group_base=GROUPS), "ann", "pw")
    assert found == ("ann", frozenset(map(same_dn, (OPS, f"cn=dev,{GROUPS}"))))
    assert directory.binds == [ANN]


def test_groups_are_found_by_who_searches(url: str, directory: Directory) -> None:
    reader = {"lookup_bind_dn": f"cn=reader,{PEOPLE}", "lookup_bind_password": "reader-pw"}
    found = look_up(rules(url, group_base=GROUPS, **reader), "ann", "pw")
    assert found is not None
    assert same_dn(OPS) in found.groups
    assert directory.binds == [ANN, f"cn=reader,{PEOPLE}"]


class TestSearch:
    def found(self, url: str, name: str, **more: object) -> Found | None:
        search = {
            "lookup_attribute": "mail",
            "lookup_base": PEOPLE,
            "user_dn_pattern": "${username}",
        }
        return look_up(rules(url, **{**search, **more}), name, "pw")

    def test_a_user_is_found_by_an_attribute(self, url: str, directory: Directory) -> None:
        assert self.found(url, "ann@x", group_base=GROUPS) is not None
        assert directory.binds == ["", ANN]

    @pytest.mark.parametrize("name", ["nobody@x", "same@x", "*", "ann@x)(uid=*"])
    def test_it_has_to_be_the_only_one(self, url: str, name: str) -> None:
        assert self.found(url, name) is None

    def test_a_search_that_is_refused_is_no_answer(self, url: str, directory: Directory) -> None:
        directory.takes_anonymous = False
        with pytest.raises(AskingFailed, match="an anonymous client may not search"):
            self.found(url, "ann@x")


def test_the_next_server_is_asked_if_one_is_gone(url: str) -> None:
    with serving(Directory()) as gone:
        pass
    both = rules(url)
    assert look_up(DirectoryRules((gone, url), both.user_dn_pattern), "ann", "pw") == IN
    with pytest.raises(AskingFailed, match="cannot be asked"):
        look_up(rules(gone), "ann", "pw")


def test_a_directory_is_verified_by_its_certificate(directory: Directory, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with serving(directory, certificates.server) as url:
        authority = str(certificates.authority)
        assert look_up(rules(url, ca_file=authority), "ann", "pw") == IN
        with pytest.raises(AskingFailed, match="CERTIFICATE_VERIFY_FAILED"):
            look_up(rules(url), "ann", "pw")


def test_names_are_compared_by_what_they_mean() -> None:
    assert same_dn("CN=Ops, OU=groups ,dc=X") == same_dn("cn=ops,ou=Groups,DC=x")
    assert same_dn("cn=a,dc=x") != same_dn("cn=b,dc=x")
    with pytest.raises(ValueError, match="'nonsense' is not a distinguished name"):
        same_dn("nonsense")
