"""How fast JMS programs are through Hareline and RabbitMQ: the clients are real, and Java.

Run it from the project root: ``python -m benchmarks.jms --help``. Brokers, rounds, medians and the
report are those of ``benchmarks.macro``; start reading at ``scenarios``.
"""
