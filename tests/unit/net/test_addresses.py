"""Addresses as text."""

from __future__ import annotations

import pytest

from hareline.net.addresses import UNKNOWN_ADDRESS, address_text


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (("192.0.2.7", 4), "192.0.2.7:4"),
        (("2001:db8::1", 4), "[2001:db8::1]:4"),
        (UNKNOWN_ADDRESS, "unknown"),
    ],
)
def test_an_address_is_shown_with_its_port(address: tuple[str, int], text: str) -> None:
    assert address_text(address) == text
