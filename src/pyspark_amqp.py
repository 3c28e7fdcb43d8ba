"""Makes ``format("amqp")`` known to Spark, which imports every top-level module ``pyspark_*``.

Spark does so whenever it looks a format up, so this imports quickly and never raises: without
pyspark, or beside one that is too old, there is just no ``DefaultSource``.
"""

try:
    from hareline.spark.datasource import AmqpDataSource
except ImportError:
    __all__: list[str] = []
else:

    class DefaultSource(AmqpDataSource):
        """The name under which Spark looks for a data source."""

    __all__ = ["DefaultSource"]
