"""The whole way of messages that differ: own ids, timestamp and headers, all of one length.

    python -m benchmarks.micro.bench_differing [--json FILE] [--repetitions N] [--only TEXT]

Divide by 1000 for microseconds a message; `benchmarks.micro.instructions differing` counts
instructions instead. See ``shaped_path``.
"""

from __future__ import annotations

from benchmarks.macro.shapes import Shape
from benchmarks.micro.shaped_path import main

if __name__ == "__main__":
    main(Shape.DIFFERING)
