"""``hareline user limits`` and ``hareline vhost limits``: shown, set and taken away."""

from __future__ import annotations

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run


@pytest.mark.parametrize("kind", ["user", "vhost"])
def test_limits_are_shown_set_and_removed(run: Run, api: ScriptedApi, kind: str) -> None:
    api.will("GET", f"/{kind}s/a", {"name": "a"})
    api.will("GET", f"/{kind}-limits/a", [])
    assert run(kind, "limits", "a").stdout == ""
    api.will("PUT", f"/{kind}-limits/a/max-connections", status=204)
    api.will("DELETE", f"/{kind}-limits/a/max-channels", status=204)
    api.will("GET", f"/{kind}-limits/a", [{kind: "a", "value": {"max-connections": 5}}])
    result = run(kind, "limits", "a", "max-connections=5", "max-channels=")
    assert (result.exit_code, result.stdout) == (0, "max-connections\t5\n")
    assert [each.body for each in api.of("PUT")] == [{"value": 5}]
    assert len(api.of("DELETE")) == 1
    result = run(kind, "limits", "a", "max-connections=many")
    assert (result.exit_code, result.stderr) == (
        2,
        "hareline: max-connections: 'many' is not a whole number\n",
    )
    api.will(
        "GET", f"/{kind}s/none", {"error": "Object Not Found", "reason": "Not Found"}, status=404
    )
    result = run(kind, "limits", "none", "max-connections=5")
    assert result.exit_code == 4
    assert len(api.of("PUT")) == 1
