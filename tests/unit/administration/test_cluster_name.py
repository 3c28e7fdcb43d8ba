"""The name of the cluster: set at run time, kept, told to clients, and decided by the settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.administration import AdministrationError
from hareline.administration.origins import Origins
from tests.support.administered import Administered

Restart = Callable[..., Administered]


def name_of(broker: Administered) -> str:
    return broker.context.identity.cluster_name


def test_a_restart_has_the_name_and_a_deleted_one_is_the_default_again(restarted: Restart) -> None:
    broker = restarted()
    default = name_of(broker)
    broker.administration.cluster_name.put("harbour", by="ann")
    assert name_of(broker) == "harbour"
    assert broker.told == [
        (
            "parameter.set",
            {
                "component": "global",
                "name": "cluster_name",
                "value": "harbour",
                "user_who_performed_action": "ann",
            },
        )
    ]
    broker = restarted()
    assert name_of(broker) == "harbour"
    broker.administration.parameters.delete_global("cluster_name")
    assert name_of(broker) == default
    assert name_of(restarted()) == default


def test_the_global_parameter_is_the_name(broker: Administered) -> None:
    default = name_of(broker)
    parameters = broker.administration.parameters
    parameters.put_global("cluster_name", "harbour")
    assert name_of(broker) == "harbour"
    parameters.put_global("other", "x")
    assert name_of(broker) == "harbour"
    for value in (["no", "text"], "", "é" * 128, None):
        parameters.put_global("cluster_name", value)
        assert name_of(broker) == default


def test_names_that_cannot_be_sent_are_refused(broker: Administered) -> None:
    for name in ("", "é" * 128, "\udc80"):
        with pytest.raises(AdministrationError) as caught:
            broker.administration.cluster_name.put(name, by="ann")
        assert caught.value.kind == "bad_request"
    assert broker.told == []


def test_the_settings_decide_where_they_have_the_option(restarted: Restart) -> None:
    restarted().administration.cluster_name.put("harbour", by="ann")
    broker = restarted(Origins(where="a.toml", names_cluster=True))
    named = name_of(broker)
    assert named != "harbour"
    broker.administration.cluster_name.put(named, by="ann")
    with pytest.raises(AdministrationError) as caught:
        broker.administration.cluster_name.put("quay", by="ann")
    assert caught.value.kind == "conflict"
    assert "a.toml under [identity] cluster_name" in caught.value.reason
    broker.administration.parameters.put_global("cluster_name", "quay")
    assert name_of(broker) == named
