"""How long the property tests look for a counter-example: briefly in every run, long on demand.

`make fuzz` runs them under the profile "fuzz". A test that sets ``max_examples`` itself keeps its
number under both, so none should.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline: on a shared machine it measures the neighbours.
settings.register_profile("short", deadline=None, max_examples=100, print_blob=True)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=20_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("short")
