"""What the store counts on: a body is there as long as something refers to it."""

from __future__ import annotations

import weakref

from tests.support.large_bodies import BodyInMemory


def test_a_body_can_be_referred_to_weakly() -> None:
    body = BodyInMemory(b"in a file")
    reference = weakref.ref(body)
    assert reference() is body
    del body
    assert reference() is None


def test_a_body_has_a_number_and_a_size_and_no_dict_of_its_own() -> None:
    body = BodyInMemory(b"in a file")
    assert (body.large_id, body.size) == (1, 9)
    assert vars(body) == {"octets": b"in a file"}  # the test's class has one


def test_each_reading_begins_at_the_beginning() -> None:
    body = BodyInMemory(b"in a file")
    first, second = body.open(), body.open()
    assert (first.read(2), first.read(99), second.read(4)) == (b"in", b" a file", b"in a")
