"""Keys are read from key sets and from PEM; what cannot check a signature is named."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.auth.signing_keys import keys_of, read_keys
from tests.support.tokens import Signer

SECRET = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")


def test_a_key_set_is_read_by_the_names_of_its_keys() -> None:
    rsa, curve = Signer("RS256", "a"), Signer("ES256", "b")
    keys = keys_of({"keys": [rsa.public(), curve.public()]})
    assert keys.names == ["a", "b"]
    found = keys.find("a")
    assert found is not None
    assert "PS512" in found.algorithms
    assert "HS256" not in found.algorithms
    assert keys.find("c") is None
    assert keys.find("") is None


def test_a_single_key_is_taken_by_a_token_that_names_none() -> None:
    keys = keys_of(Signer("RS256", "a").public())
    assert keys.find("") is not None
    assert keys.find("b") is None


def test_a_key_without_a_name_checks_tokens_that_name_any() -> None:
    keys = read_keys(Signer("ES256", "").pem())
    assert keys.find("anything") is not None
    assert len(keys) == 1


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_pem_is_read(algorithm: str) -> None:
    found = read_keys(Signer(algorithm, "").pem()).find("")
    assert found is not None
    assert algorithm in found.algorithms


def test_a_key_that_names_its_algorithm_takes_no_other() -> None:
    found = keys_of({**Signer("RS256", "a").public(), "alg": "RS512"}).find("a")
    assert found is not None
    assert found.algorithms == {"RS512"}


def test_keys_for_other_things_are_left_out() -> None:
    signer = Signer("RS256", "a")
    others = [{**signer.public(), "kid": "b", "use": "enc"}, {"kty": "AKP", "kid": "c"}]
    assert keys_of({"keys": [*others, signer.public()]}).names == ["a"]
    assert not keys_of({"keys": others})


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        (1, "it is not an object"),
        ({"kty": "RSA", "n": "x"}, "it is not a valid key"),
        ({"kty": "EC", "crv": "nope"}, "it is not a valid key"),
        ({"kty": "oct", "k": "c2hvcnQ"}, "its secret has 5 octets, 32 are needed"),
        ({"kty": "oct", "kid": "x"}, "it is not a valid key"),
        ({**Signer("ES256", "").public(), "kid": 7}, "its kid is not text"),
        (Signer("ES256", "a").public(), "another key has its name (kid) 'a'"),
    ],
)
def test_an_odd_key_is_left_out_alone(odd: object, problem: str) -> None:
    good, other = Signer("RS256", "a").public(), Signer("ES256", "b").public()
    keys = keys_of({"keys": [good, odd, other]})
    assert keys.names == ["a", "b"]
    assert len(keys.problems) == 1
    assert keys.problems[0].startswith(f"keys[1]: {problem}")


FIELDS = ("kty", "crv", "alg", "use", "kid", "n", "e", "x", "y", "k", "d")
JSON = st.none() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.text())


@given(
    st.sampled_from(
        [
            {"kty": "oct", "kid": "x", "k": SECRET},
            *(Signer(each, "x").public() for each in ("RS256", "ES256", "EdDSA")),
        ]
    ),
    st.sets(st.sampled_from(FIELDS)),
    st.dictionaries(st.sampled_from(FIELDS), JSON),
)
def test_an_odd_key_takes_no_other_with_it(
    whole: dict[str, Any], gone: set[str], odd: dict[str, Any]
) -> None:
    key = {name: value for name, value in whole.items() if name not in gone}
    assert "b" in keys_of({"keys": [{**key, **odd}, Signer("ES256", "b").public()]}).names


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_the_private_part_of_a_key_is_not_kept(algorithm: str) -> None:
    signer = Signer(algorithm, "a")
    maker: Any = jwt.get_algorithm_by_name(algorithm)
    found = keys_of({**json.loads(maker.to_jwk(signer.key)), "kid": "a"}).find("a")
    assert found is not None
    assert hasattr(found.key, "verify")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "neither JSON nor PEM"),
        ("[" * 100_000, "neither JSON nor PEM"),
        ("[]", "no list 'keys'"),
        ('{"keys": {}}', "no list 'keys'"),
        ("-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", "not a public key"),
        ("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----", "not a public key"),
    ],
)
def test_what_is_no_key_set_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_keys(text)


def test_a_secret_takes_hmac_alone() -> None:
    found = read_keys(json.dumps({"kty": "oct", "kid": "s", "k": SECRET})).find("s")
    assert found is not None
    assert found.algorithms == {"HS256", "HS384", "HS512"}
