"""The whole way of messages whose headers, ids and bodies vary in number, names and lengths.

    python -m benchmarks.micro.bench_any_shape [--json FILE] [--repetitions N] [--only TEXT]

Divide by 1000 for microseconds a message; `benchmarks.micro.instructions any_shape` counts
instructions instead. See ``shaped_path``.
"""

from __future__ import annotations

from benchmarks.macro.shapes import Shape
from benchmarks.micro.shaped_path import main

if __name__ == "__main__":
    main(Shape.ANY)
