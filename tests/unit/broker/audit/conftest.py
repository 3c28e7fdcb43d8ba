"""Queues of a virtual host whose audit events a test reads."""

from __future__ import annotations

import pytest

from tests.support.audits import AuditStand


@pytest.fixture
def stand() -> AuditStand:
    return AuditStand()
