"""Streams of the broker in Apache Spark, as ``format("amqp")``, and pipelines on top of it.

A client of the broker. Rooms: ``reading`` (source), ``writing`` (sink), ``pipelines`` (archive,
replay, report). Importing this package imports neither pyspark nor pyarrow.
"""
