"""Benchmarks of the whole broker (`macro`) and of single hot modules (`micro`)."""
