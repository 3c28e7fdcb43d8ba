"""Measures the Spark source, sink and pipelines against a broker on the same machine.

`stage` has what the scenarios share: one Spark session, and a stream that is filled once.
"""
