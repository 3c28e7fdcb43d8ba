"""Logins through a reverse proxy: a user of this machine may not come from elsewhere by one."""

from __future__ import annotations

import pytest

from hareline.settings import Auth, Management, Settings
from tests.support.broker_thread import broker_in_thread
from tests.support.http_api import HttpApi


def settings(**management: object) -> Settings:
    return Settings(auth=Auth(failure_delay_s=0), management=Management.model_validate(management))


def status(broker_settings: Settings, client: str) -> int:
    with broker_in_thread(broker_settings, has_http=True) as thread:
        api = HttpApi(thread.management_url)
        return api.ask("GET", "/api/whoami", headers={"X-Forwarded-For": client}).status_code


@pytest.mark.acceptance
def test_a_proxy_that_is_named_is_believed() -> None:
    named = settings(forwarded_by=["127.0.0.1"])
    assert status(named, "192.0.2.7") == 401
    assert status(named, "127.0.0.1") == 200


@pytest.mark.acceptance
def test_one_on_this_machine_that_is_not_named_lets_nobody_in_as_of_this_machine() -> None:
    """``guest`` may log in from this machine only, and the client may be anywhere."""
    assert status(settings(), "127.0.0.1") == 401
    assert status(settings(forwarded_by=["192.0.2.1"]), "192.0.2.7") == 401
