"""Source: streams of the broker as rows, read over HTTP or AMQP in chunks of columns.

Spark calls ``batch`` and ``stream``; ``client`` and ``amqp_client`` ask the broker; tasks read
their ranges by ``partition``. Only these three of Spark and ``columns`` need pyspark or pyarrow.
"""
