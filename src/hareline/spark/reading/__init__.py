"""The source: streams of the broker as rows, read over HTTP or AMQP in chunks of columns.

``batch`` and ``stream`` are what Spark calls; ``following`` decides what a micro-batch reads,
``client`` and ``amqp_client`` ask the broker, ``batches`` makes record batches of chunks. Only
``batch``, ``stream``, ``partition``, ``batches`` and ``columns`` need pyspark or pyarrow.
"""
