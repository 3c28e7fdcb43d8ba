"""Keys are read from key sets and from PEM; what cannot check a signature is named."""

from __future__ import annotations

import base64
import json

import pytest

from hareline.auth.signing_keys import SigningKey, SigningKeys, keys_of, read_keys
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
    with pytest.raises(ValueError, match="there is no key that checks signatures"):
        keys_of({"keys": others})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "neither JSON nor PEM"),
        ("[" * 100_000, "neither JSON nor PEM"),
        ("[]", "no list 'keys'"),
        ('{"keys": {}}', "no list 'keys'"),
        ('{"keys": []}', "there is no key"),
        ('{"keys": [1]}', r"keys\[0\] is not an object"),
        ('{"keys": [{"kty": "RSA", "n": "x"}]}', r"keys\[0\] is not a valid key"),
        ('{"keys": [{"kty": "EC", "crv": "nope"}]}', r"keys\[0\] is not a valid key"),
        ('{"keys": [{"kty": "oct", "k": "c2hvcnQ"}]}', "the secret has 5 octets, 32 are needed"),
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


def test_a_name_is_given_once() -> None:
    key = SigningKey("a", frozenset(), None)
    with pytest.raises(ValueError, match="two keys have the name"):
        SigningKeys([key, key])


def test_a_name_is_text() -> None:
    with pytest.raises(ValueError, match="kid is not text"):
        keys_of({**Signer("RS256", "a").public(), "kid": 7})
