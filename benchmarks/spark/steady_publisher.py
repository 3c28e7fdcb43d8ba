"""``python -m benchmarks.spark.steady_publisher URL QUEUE RATE``: publishes until it is ended."""

from __future__ import annotations

import sys
import time

import pika

from benchmarks.spark.stage import BODY_SIZE


def main(url: str, queue: str, rate_per_s: float) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        due = time.monotonic()
        number = 0
        while True:
            channel.basic_publish("", queue, str(number).ljust(BODY_SIZE, "x").encode())
            number += 1
            due += 1 / rate_per_s
            connection.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
