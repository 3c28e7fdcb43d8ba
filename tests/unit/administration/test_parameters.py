"""Parameters kept as JSON, those that mean something, and those that nobody knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.administration import AdministrationError
from tests.support.administered import Administered

Restart = Callable[..., Administered]
SHOVEL = {"src-uri": "amqp://", "dest-uri": "amqp://"}


def refused(call: Callable[[], object]) -> AdministrationError:
    with pytest.raises(AdministrationError) as caught:
        call()
    return caught.value


def parameters_of(broker: Administered) -> int | None:
    return broker.vhost.max_queues


def test_a_restart_has_what_was_set(restarted: Restart) -> None:
    parameters = restarted().administration.parameters
    value = {**SHOVEL, "list": [1, 2.5, None, True], "ü": "\udc80"}
    assert parameters.put("shovel", "/", "s", value)
    assert not parameters.put("shovel", "/", "s", value)
    assert parameters.put_global("mine", [1])
    parameters = restarted().administration.parameters
    assert parameters.lookup("shovel", "/", "s").value == value
    assert parameters.lookup_global("mine").value == [1]
    parameters.delete("shovel", "/", "s")
    parameters.delete_global("mine")
    parameters = restarted().administration.parameters
    assert list(parameters.all()) == []
    assert list(parameters.all_global()) == []


def test_limits_of_virtual_hosts_are_a_parameter_too(broker: Administered) -> None:
    parameters = broker.administration.parameters
    assert parameters.put("vhost-limits", "/", "limits", {"max-queues": 3})
    assert not parameters.put("vhost-limits", "/", "limits", {"max-queues": 4})
    assert parameters_of(broker) == 4
    parameters.delete("vhost-limits", "/", "limits")
    assert parameters_of(broker) is None
    assert refused(lambda: parameters.put("vhost-limits", "/", "other", {})).kind == "bad_request"


def test_what_is_wrong_is_said(broker: Administered) -> None:
    parameters = broker.administration.parameters
    for component in ("policy", "operator_policy"):
        error = refused(lambda c=component: parameters.put(c, "/", "n", {}))  # type: ignore[misc]
        assert error.reason == "policies may not be set using this method"
        error = refused(lambda c=component: parameters.delete(c, "/", "n"))  # type: ignore[misc]
        assert error.reason == "policies may not be cleared using this method"
    error = refused(lambda: parameters.put("nothing", "/", "n", {}))
    assert error.reason == "Validation failed\n\ncomponent nothing not found\n"
    for call in (
        lambda: parameters.put("shovel", "nowhere", "n", {}),
        lambda: parameters.delete("shovel", "/", "n"),
        lambda: parameters.delete_global("n"),
        lambda: parameters.lookup_global("n"),
    ):
        assert refused(call).kind == "not_found"


def test_a_list_stays_while_parameters_come(broker: Administered) -> None:
    """Answers are made in shares, and parameters may be set in between."""
    parameters = broker.administration.parameters
    parameters.put("shovel", "/", "a", SHOVEL)
    parameters.put_global("a", 1)
    found, found_global = iter(parameters.all()), iter(parameters.all_global())
    parameters.put("shovel", "/", "b", SHOVEL)
    parameters.put_global("b", 1)
    assert [each.name for each in found] == ["a"]
    assert [each.name for each in found_global] == ["a"]
