"""Settings that must be refused, and credentials for users in them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from hareline.settings import Settings


def problems_of(**values: Any) -> list[tuple[str, str]]:
    """Where and what, for settings that must be refused."""
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return [
        (".".join(map(str, detail["loc"])), detail["msg"])
        for detail in caught.value.errors(include_url=False)
        # Follows from another error, and sources drops it too.
        if detail["type"] != "default_factory_not_called"
    ]


def hash_of(digest_octets: int) -> str:
    """A password hash with the length of such a digest."""
    return base64.b64encode(b"s" * (4 + digest_octets)).decode()


SCRAM_SALT = base64.b64encode(b"s" * 16).decode()
SCRAM_KEY = base64.b64encode(b"k" * 32).decode()
SCRAM_KEYS = f"SCRAM-SHA-256$4096:{SCRAM_SALT}${SCRAM_KEY}:{SCRAM_KEY}"
GOOD_USER: dict[str, Any] = {"name": "ann", "password": "secret"}
HASHED_USER: dict[str, Any] = {"name": "bob", "password_hash": hash_of(32)}
