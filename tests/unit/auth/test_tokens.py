"""Only a token that is signed by a known key, in time, and for this broker makes a user."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwt.utils import base64url_encode

from hareline.auth.signing_keys import SigningKeys, keys_of
from hareline.auth.tokens import (
    KeyUnknown,
    TokenRefused,
    TokenRules,
    looks_like_a_token,
    read_token,
    scopes_of,
)
from hareline.auth.users import User
from tests.support.tokens import AUDIENCE, HOUR_S, Signer

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RULES = TokenRules(AUDIENCE, f"{AUDIENCE}.", algorithms=frozenset({"RS256", "ES256", "EdDSA"}))
SIGNER = Signer("ES256", "key-1")
KEYS = keys_of({"keys": [SIGNER.public(), Signer("EdDSA", "key-2").public()]})


def read(token: str, rules: TokenRules = RULES, keys: SigningKeys = KEYS) -> User:
    return read_token(token, keys, rules, NOW_MS)


def token(*scopes: str, **claims: Any) -> str:
    return SIGNER.token(*scopes, now_ms=NOW_MS, **claims)


def test_a_token_makes_a_user_with_tags_and_rights() -> None:
    user = read(token("rabbitmq.tag:monitoring", "rabbitmq.read:shop/*", "other.read:*/*"))
    assert user.name == "ann"
    assert user.tags == ("monitoring",)
    assert user.backend == "oauth2"
    assert user.expires_ms == NOW_MS + HOUR_S * 1000
    assert user.enters("shop")
    assert not user.enters("/")
    assert user.permissions == {}


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_signatures_of_each_kind_are_checked(algorithm: str) -> None:
    signer = Signer(algorithm, "k")
    keys = keys_of(signer.public())
    signed = signer.token(now_ms=NOW_MS)
    assert read(signed, keys=keys).name == "ann"
    head, payload, signature = signed.split(".")
    other = Signer(algorithm, "other").token(now_ms=NOW_MS, sub="bob").split(".")[1]
    with pytest.raises(TokenRefused, match="its signature is wrong"):
        read(f"{head}.{other}.{signature}", keys=keys)
    with pytest.raises(TokenRefused, match="its signature is wrong"):
        read(f"{head}.{payload}.{signature[:-8]}AAAAAAAA", keys=keys)


class TestForgery:
    def test_no_signature_is_no_token(self) -> None:
        unsigned = jwt.encode({"sub": "x", "exp": NOW_S + 9}, "", "none", {"kid": "key-1"})
        with pytest.raises(TokenRefused, match='algorithm "none" is not allowed'):
            read(unsigned)

    def test_a_public_key_is_no_secret(self) -> None:
        header = base64url_encode(json.dumps({"alg": "HS256", "kid": "key-1"}).encode())
        payload = base64url_encode(json.dumps({"exp": NOW_S + 9}).encode())
        everything = frozenset({"HS256", "ES256"})
        with pytest.raises(TokenRefused, match='algorithm "HS256" is not allowed for its key'):
            read(
                b".".join([header, payload, b"c2ln"]).decode(),
                replace(RULES, algorithms=everything),
            )

    def test_an_algorithm_that_is_not_allowed_is_refused(self) -> None:
        with pytest.raises(TokenRefused, match='algorithm "ES256" is not allowed'):
            read(token(), replace(RULES, algorithms=frozenset({"RS256"})))

    def test_a_key_that_is_not_known_may_be_new(self) -> None:
        with pytest.raises(KeyUnknown, match='names the key "key-9", which is not known'):
            read(Signer("ES256", "key-9").token(now_ms=NOW_MS))

    def test_a_token_without_a_key_needs_a_single_one(self) -> None:
        with pytest.raises(KeyUnknown, match="names no key"):
            read(Signer("ES256", "").token(now_ms=NOW_MS))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c",
        "eyJ.eyJ.x",
        "eyJhbGciOiJFUzI1NiJ9",
        ".".join(["e30"] * 3),
        "\udce9.b.c",
        "eyJ" * 99,
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "zip"]), JSON)
CLAIMS = st.dictionaries(
    st.sampled_from(["exp", "nbf", "aud", "sub", "scope", "authorization", "client_id"]), JSON
)


@given(header=JSON | HEADERS, claims=JSON | CLAIMS, is_whole=st.booleans())
def test_whatever_a_token_has_in_it_makes_a_user_or_is_refused(
    header: Any, claims: Any, is_whole: bool
) -> None:
    if isinstance(header, dict) and is_whole:
        header = {"alg": "ES256", "kid": "key-1", **header}
    if isinstance(claims, dict) and is_whole:
        claims = {"exp": NOW_S + 9, "aud": AUDIENCE, "sub": "ann", **claims}
    signed = b".".join(base64url_encode(json.dumps(each).encode()) for each in (header, claims))
    signature = base64url_encode(jwt.get_algorithm_by_name("ES256").sign(signed, SIGNER.key))
    with contextlib.suppress(TokenRefused):
        assert read(b".".join([signed, signature]).decode()).backend == "oauth2"


@given(st.text() | st.builds(".".join, st.lists(st.text("ey.JWT_-=\udce9", max_size=9))))
def test_whatever_text_comes_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        read(text)


@pytest.mark.parametrize("algorithm", [["ES256"], {"ES256": 1}, None, 5])
def test_an_algorithm_that_is_no_name_is_refused(algorithm: object) -> None:
    header = base64url_encode(json.dumps({"alg": algorithm, "kid": "key-1"}).encode()).decode()
    with pytest.raises(TokenRefused, match="is not allowed for its key") as refused:
        read(f"{header}.e30.c2ln")
    assert refused.value.is_guess


def test_only_what_nobody_has_signed_is_a_guess() -> None:
    """An application whose token has expired must not lock out others of its address."""
    with pytest.raises(TokenRefused, match="it has expired") as refused:
        read(token(exp=NOW_S - 1))
    assert not refused.value.is_guess


def test_a_payload_that_is_no_object_is_refused() -> None:
    octets = jwt.api_jws.encode(b"[]", SIGNER.key, "ES256", {"kid": "key-1"})
    with pytest.raises(TokenRefused, match="it holds no JSON object") as refused:
        read(octets)
    assert not refused.value.is_guess


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"exp": NOW_S}, "it has expired at timestamp 1700000000"),
        ({"exp": None}, "it has no exp claim"),
        ({"exp": "soon"}, "its exp claim is not a time"),
        ({"exp": True}, "its exp claim is not a time"),
        ({"exp": 1e300}, "its exp claim is not a time"),
        ({"nbf": NOW_S + 1}, "it is not valid before timestamp 1700000001"),
        ({"nbf": "x"}, "its nbf claim is not a time"),
        ({"aud": "other"}, "its aud claim is without 'rabbitmq'"),
        ({"aud": None}, "it has no aud claim"),
        ({"aud": {"rabbitmq": 1}}, "it has no aud claim"),
        ({"sub": "x" * 256}, "its user name has more than 255 octets"),
        ({"scope": [f"rabbitmq.read:{n}/*" for n in range(2049)]}, "it has 2049 scopes"),
    ],
)
def test_a_claim_that_is_wrong_is_named(claims: dict[str, Any], problem: str) -> None:
    with pytest.raises(TokenRefused, match=problem):
        read(token(**claims))


def test_the_clock_of_the_issuer_may_be_wrong_by_the_leeway() -> None:
    rules = replace(RULES, leeway_s=10)
    late = token(exp=NOW_S - 9, nbf=NOW_S + 9)
    assert read(late, rules).expires_ms == NOW_MS + 1000
    with pytest.raises(TokenRefused, match="has expired"):
        read(token(exp=NOW_S - 10), rules)


@pytest.mark.parametrize("audience", ["rabbitmq", "other rabbitmq", ["other", "rabbitmq"]])
def test_the_audience_has_this_broker(audience: object) -> None:
    assert read(token(aud=audience)).name == "ann"


def test_the_audience_may_be_left_unchecked() -> None:
    assert read(token(aud=None), replace(RULES, verify_aud=False)).name == "ann"


def test_the_issuer_is_checked_where_it_is_set() -> None:
    rules = replace(RULES, issuer="https://id.example")
    assert read(token(iss="https://id.example"), rules).name == "ann"
    with pytest.raises(TokenRefused, match="iss claim is not the issuer"):
        read(token(iss="https://evil.example"), rules)
    with pytest.raises(TokenRefused, match="iss claim is not the issuer"):
        read(token(), rules)


class TestUserName:
    def test_preferred_claims_come_first(self) -> None:
        rules = replace(RULES, username_claims=("user_name", "email"))
        assert read(token(email="a@example", sub="1"), rules).name == "a@example"
        assert read(token(email="a@example", user_name="ann"), rules).name == "ann"
        assert read(token(sub="1"), rules).name == "1"

    def test_the_client_comes_last(self) -> None:
        assert read(token(sub=None, client_id="shop")).name == "shop"
        assert read(token(sub=None)).name == "unknown"

    def test_a_name_that_is_no_text_is_passed_over(self) -> None:
        rules = replace(RULES, username_claims=("n",))
        assert read(token(n=5), rules).name == "ann"
        assert read(token(n=""), rules).name == "ann"
        assert read(token(n="\ud800"), rules).name == "ann"


class TestScopes:
    def found(self, rules: TokenRules = RULES, **claims: object) -> list[str]:
        return scopes_of(claims, rules)

    def test_the_prefix_is_taken_off_and_other_scopes_left_out(self) -> None:
        assert self.found(scope="rabbitmq.a openid rabbitmq.b rabbitmq.a") == ["a", "b"]
        assert self.found(scope=["rabbitmq.a", 5, "openid"]) == ["a"]

    def test_without_a_prefix_all_count(self) -> None:
        assert self.found(replace(RULES, scope_prefix=""), scope="a b") == ["a", "b"]

    def test_further_claims_may_have_scopes(self) -> None:
        rules = replace(RULES, extra_scopes_source=("roles", "resource_access.shop.roles"))
        assert self.found(
            rules,
            scope="rabbitmq.a",
            roles="rabbitmq.b rabbitmq.c",
            resource_access={"shop": {"roles": ["rabbitmq.d"]}, "x": {"roles": ["rabbitmq.no"]}},
        ) == ["a", "b", "c", "d"]

    def test_a_claim_may_have_scopes_by_resource_server(self) -> None:
        rules = replace(RULES, extra_scopes_source=("extra",))
        assert self.found(rules, extra={"rabbitmq": ["a", "b"], "other": ["c"]}) == ["a", "b"]
        assert self.found(rules, extra={"rabbitmq": {"rabbitmq": ["a"]}}) == []

    def test_a_requesting_party_token_has_them_in_its_permissions(self) -> None:
        permissions = [{"scopes": ["rabbitmq.a"], "rsid": "1"}, {"scopes": "rabbitmq.b"}, 7]
        assert self.found(authorization={"permissions": permissions}) == ["a", "b"]

    def test_an_alias_stands_for_scopes(self) -> None:
        rules = replace(RULES, aliases={"admin": ("rabbitmq.tag:administrator", "rabbitmq.a")})
        assert self.found(rules, scope="admin") == ["a", "tag:administrator"]

    @pytest.mark.parametrize("value", [None, 5, True, {}, {"rabbitmq": 5}, [[["rabbitmq.a"]]]])
    def test_a_claim_of_another_form_has_none(self, value: object) -> None:
        assert self.found(scope=value) == []


def test_a_password_that_can_be_a_token_is_told_by_its_form() -> None:
    assert looks_like_a_token(token())
    assert not looks_like_a_token("guest")
    assert looks_like_a_token("ewogImFsZyI6ICJFUzI1NiJ9.e30.x"), "a header in several lines"
    assert not looks_like_a_token("eyJhbGciOi.b")
    assert not looks_like_a_token("a.b.c")
