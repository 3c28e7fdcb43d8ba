"""SCRAM-SHA-256: RFC 7677's example to the octet, and every way in which a login goes wrong."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.auth.scram import (
    PROVEN,
    PasswordKeys,
    ScramExchange,
    ScramKeys,
    ScramRefused,
    derive_keys,
    made_up_keys,
    new_keys,
    salt_of,
)
from hareline.errors import MalformedFrame
from tests.support.scram_client import ScramClient

# RFC 7677 section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
PENCIL = derive_keys("pencil", SALT)


class Ring:
    """The keys of ``user``, and of whoever else is named."""

    def __init__(self, **others: ScramKeys) -> None:
        self._keys = {"user": PENCIL, **others}

    def scram_salt(self, name: str) -> tuple[bytes, int]:
        keys = self.scram_keys(name)
        return keys.salt, keys.iterations

    def scram_keys(self, name: str) -> ScramKeys:
        return self._keys.get(name) or made_up_keys(name, ())


@pytest.fixture
def exchange() -> ScramExchange:
    return ScramExchange(Ring(), SERVER_NONCE)


def refusal(exchange: ScramExchange, response: bytes) -> str:
    with pytest.raises(ScramRefused) as caught:
        exchange.step(response)
    assert not exchange.has_proof
    return caught.value.value


def malformation(exchange: ScramExchange, response: bytes) -> str:
    with pytest.raises(MalformedFrame) as caught:
        exchange.step(response)
    assert not exchange.has_proof
    return caught.value.explanation


# -------------------------------------------------------------------------------- the exchange


@pytest.mark.row("S10")
def test_the_example_of_rfc_7677_is_answered_to_the_octet(exchange: ScramExchange) -> None:
    proofs = []
    story = ((CLIENT_FIRST, SERVER_FIRST), (CLIENT_FINAL, SERVER_FINAL), (b"", None))
    for response, answer in story:
        assert exchange.step(response) == answer
        proofs.append(exchange.has_proof)
    assert proofs == [False, True, True]
    assert (exchange.state, exchange.name) == (PROVEN, "user")


def test_a_client_that_does_not_begin_is_asked_to(exchange: ScramExchange) -> None:
    assert exchange.step(b"") == b""
    assert exchange.step(CLIENT_FIRST) == SERVER_FIRST


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    answers = {ScramExchange(Ring()).step(CLIENT_FIRST) for _ in range(50)}
    assert len(answers) == 50
    assert all(answer and answer.startswith(b"r=" + CLIENT_NONCE.encode()) for answer in answers)


@pytest.mark.parametrize("gs2", ["n,,", "y,,", "n,a=user,", "y,a=user,"])
def test_every_header_without_channel_binding_is_taken(exchange: ScramExchange, gs2: str) -> None:
    client = ScramClient("user", "pencil", gs2=gs2)
    answer = exchange.step(client.final(exchange.step(client.first) or b""))
    client.check(answer or b"")


@pytest.mark.parametrize("name", ["a,b", "a=b", "a=2Cb", "=,", "\u2168"])
def test_names_are_unescaped_and_prepared(name: str) -> None:
    stored = "IX" if name == "\u2168" else name
    exchange = ScramExchange(Ring(**{stored: new_keys("pw")}))
    client = ScramClient(name, "pw")
    client.check(exchange.step(client.final(exchange.step(client.first) or b"")) or b"")
    assert exchange.name == stored


def test_extensions_that_nobody_knows_are_ignored_and_signed(exchange: ScramExchange) -> None:
    client = ScramClient("user", "pencil", nonce="abc,x=1,Y=a=b")
    client.check(
        exchange.step(client.final(exchange.step(client.first) or b"", extensions=",z=ü")) or b""
    )


# -------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("response", "value"),
    [
        (b"p=tls-unique,,n=user,r=abc", "channel-binding-not-supported"),
        (b"n,,m=ext,n=user,r=abc", "extensions-not-supported"),
        (b"n,a=root,n=user,r=abc", "other-error"),
        (b"n,,n=us=er,r=abc", "invalid-username-encoding"),
        (b"n,,n=us=2cer,r=abc", "invalid-username-encoding"),
        (b"n,,n=,r=abc", "invalid-username-encoding"),
        (b"n,,n=\xc2\xad,r=abc", "invalid-username-encoding"),
        (b"n,,n=a\x00b,r=abc", "invalid-username-encoding"),
    ],
)
def test_a_first_message_that_asks_for_too_much_is_refused(
    exchange: ScramExchange, response: bytes, value: str
) -> None:
    assert refusal(exchange, response) == value


@pytest.mark.parametrize(
    "response",
    [
        b"\0user\0pencil",
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=\xc3\xa9",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc,1=x",
        b"n,,n=user,r=abc,x=",
        b"n,root,n=user,r=abc",
        b"N,,n=user,r=abc",
        b",,n=user,r=abc",
        b"n,,n=us\xffer,r=abc",
    ],
)
def test_a_first_message_of_another_layout_is_malformed(
    exchange: ScramExchange, response: bytes
) -> None:
    assert malformation(exchange, response) == "SCRAM-SHA-256 client-first-message invalid"


@pytest.mark.parametrize("name", ["user", "nobody"])
def test_a_wrong_password_and_an_unknown_name_are_refused_alike(name: str) -> None:
    exchange = ScramExchange(Ring())
    client = ScramClient(name, "crayon")
    final = client.final(exchange.step(client.first) or b"")
    assert refusal(exchange, final) == "invalid-proof"


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (b"c=biws", b"c=eSws", "channel-bindings-dont-match"),  # y,, where n,, was said
        (b"hNlF$k0,p", b"hNlF$k1,p", "other-error"),
        (b"p=dHzb", b"p=dHzc", "invalid-proof"),
        (b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"p=dHzb", "invalid-proof"),
        (b",p=", b",x=1,p=", "invalid-proof"),
        (b"dVQ=", b"dVQ=", ""),
    ],
)
def test_a_final_message_that_differs_in_anything_is_refused(
    exchange: ScramExchange, old: bytes, new: bytes, value: str
) -> None:
    assert old in CLIENT_FINAL
    exchange.step(CLIENT_FIRST)
    changed = CLIENT_FINAL.replace(old, new)
    if value:
        assert refusal(exchange, changed) == value
    else:
        assert exchange.step(changed) == SERVER_FINAL


@pytest.mark.parametrize(
    "response",
    [
        b"",
        CLIENT_FIRST,
        CLIENT_FINAL.replace(b",p=", b",q="),
        CLIENT_FINAL.replace(b"c=biws", b"c=b!ws"),
        CLIENT_FINAL.replace(b"c=biws,", b""),
        CLIENT_FINAL.replace(b"dVQ=", b"dVQ"),
        CLIENT_FINAL.replace(b"dVQ=", b"dVQ=,x=1"),
        CLIENT_FINAL.replace(b",p=", b",x,p="),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=\xc3\xa9Hzb"),
        CLIENT_FINAL + b"\xff",
    ],
)
def test_a_final_message_of_another_layout_is_malformed(
    exchange: ScramExchange, response: bytes
) -> None:
    exchange.step(CLIENT_FIRST)
    assert malformation(exchange, response) == "SCRAM-SHA-256 client-final-message invalid"


def test_the_last_response_is_empty(exchange: ScramExchange) -> None:
    exchange.step(CLIENT_FIRST)
    exchange.step(CLIENT_FINAL)
    with pytest.raises(MalformedFrame, match="SCRAM-SHA-256 last response invalid"):
        exchange.step(b"x")
    assert exchange.state != PROVEN


def test_keys_that_were_replaced_in_between_refuse_the_old_password() -> None:
    keys = {"user": PENCIL}

    class Changing(Ring):
        def scram_keys(self, name: str) -> ScramKeys:
            return keys[name]

    exchange = ScramExchange(Changing(), SERVER_NONCE)
    assert exchange.step(CLIENT_FIRST) == SERVER_FIRST
    keys["user"] = derive_keys("crayon", SALT)
    assert refusal(exchange, CLIENT_FINAL) == "invalid-proof"


@given(st.binary(max_size=200))
def test_any_octets_at_all_are_answered_refused_or_malformed(response: bytes) -> None:
    for before in ([], [CLIENT_FIRST]):
        exchange = ScramExchange(Ring(), SERVER_NONCE)
        for each in before:
            exchange.step(each)
        try:
            exchange.step(response)
        except (ScramRefused, MalformedFrame):
            assert not exchange.has_proof
        assert not exchange.has_proof or response == CLIENT_FINAL


MESSAGES = st.lists(
    st.sampled_from(
        ["n", "y", "", "a=user", "n=user", "n=x", "r=abc", "m=1", "c=biws", "p=", "=2C"]
    ),
    max_size=6,
).map(lambda parts: ",".join(parts).encode())


@given(MESSAGES, MESSAGES)
def test_pieces_of_messages_prove_nothing(first: bytes, final: bytes) -> None:
    exchange = ScramExchange(Ring(), SERVER_NONCE)
    for response in (first, final):
        try:
            exchange.step(response)
        except (ScramRefused, MalformedFrame):
            break
    assert not exchange.has_proof


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_the_error_never_repeats_what_the_client_said(name: str, nonce: str) -> None:
    exchange = ScramExchange(Ring())
    with pytest.raises((MalformedFrame, ScramRefused)) as caught:
        exchange.step(f"n,,n={name},r={nonce} ".encode())
    assert str(caught.value) in (
        "SCRAM-SHA-256 client-first-message invalid",
        "invalid-username-encoding",
    )


# -------------------------------------------------------------------------------- keys


def test_keys_are_read_back_from_their_text() -> None:
    keys = new_keys("pencil")
    assert ScramKeys.parse(str(keys)) == keys


def test_the_keys_of_the_example_are_written_as_rfc_5803_has_it() -> None:
    text = (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    assert str(PENCIL) == text
    assert ScramKeys.parse(text) == PENCIL


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("SCRAM-SHA-256$", "SCRAM-SHA-1$", "must read SCRAM-SHA-256"),
        ("4096", "x", "must read"),
        ("4096", "4095", "iterations are 4095"),
        ("4096", "10000001", "iterations are 10000001"),
        ("W22ZaJ0SNY7soEsUEjb6gQ==", "W22Z", "salt has 3 octets"),
        ("W22ZaJ0SNY7soEsUEjb6gQ==", "!", "base64"),
        ("W22ZaJ0SNY7soEsUEjb6gQ==", "W22Z" * 22, "salt has 66 octets"),
        ("=:", "=:AAAA", "base64|32 octets"),
    ],
)
def test_keys_that_cannot_be_right_are_refused(old: str, new: str, why: str) -> None:
    text = str(PENCIL)
    assert old in text
    with pytest.raises(ValueError, match=why):
        ScramKeys.parse(text.replace(old, new))


def test_a_key_has_32_octets() -> None:
    with pytest.raises(ValueError, match="32 octets"):
        ScramKeys(SALT, 4096, PENCIL.stored_key, b"short")


def test_keys_are_not_shown() -> None:
    assert base64.b64encode(PENCIL.stored_key).decode() not in repr(PENCIL)
    assert repr(PENCIL.server_key) not in repr(PENCIL)
    assert "pencil" not in repr(PasswordKeys("pencil", SALT))


def test_the_keys_of_a_password_are_derived_once_and_it_is_forgotten() -> None:
    keys = PasswordKeys("pencil", SALT)
    before = keys.is_derived
    assert keys.derive() == PENCIL
    assert (before, keys.is_derived) == (False, True)
    assert keys.derive() is keys.derive()
    assert b"pencil" not in [getattr(keys, name) for name in PasswordKeys.__slots__]


def test_a_password_that_saslprep_prohibits_has_no_keys() -> None:
    with pytest.raises(ValueError, match=r"cannot be used with SCRAM: U\+0009 is prohibited"):
        PasswordKeys("a\tb", SALT)
    with pytest.raises(ValueError, match="cannot be used with SCRAM"):
        new_keys("\U0001f600")


def test_passwords_are_prepared() -> None:
    assert derive_keys("I\u00adX", SALT) == derive_keys("\u2168", SALT) == derive_keys("IX", SALT)


def test_made_up_keys_keep_their_salt_and_fit_nothing() -> None:
    one, other = made_up_keys("bob", ()), made_up_keys("bob", ())
    assert (one.salt, one.iterations) == (other.salt, other.iterations) == (salt_of("bob"), 4096)
    assert one.stored_key != other.stored_key
    assert salt_of("bob") != salt_of("bib")


def test_made_up_keys_are_like_those_of_some_user() -> None:
    like = ((4096, 16), (20_000, 12), (100_000, 64))
    shapes = {
        (keys.iterations, len(keys.salt))
        for keys in (made_up_keys(f"name-{number}", like) for number in range(100))
    }
    assert shapes == set(like)
