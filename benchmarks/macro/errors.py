"""What can go wrong in a benchmark, as one exception that the runner reports and survives."""

from __future__ import annotations


class BenchmarkError(Exception):
    """A scenario did not do what it measures: a lost, surplus, misordered or refused message."""
