"""A load generator and runner for any AMQP 0-9-1 broker; it knows nothing of Hareline's code.

Run it from the project root: ``python -m benchmarks.macro --help``. Start reading at ``runner``.
"""
