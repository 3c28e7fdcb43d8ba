"""A small Celery application: count the words of many texts, and send a reminder later.

Worker:  celery -A tasks worker --concurrency 2 --loglevel INFO
Client:  python tasks.py

CELERY_BROKER_URL names the broker; nothing else here depends on it.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import os
import time
from collections import Counter

from celery import Celery, group

RESULT_TIMEOUT_S = 30

TEXTS = [
    "the hare was once boasting of her speed",
    "the tortoise said quietly I accept your challenge",
    "slow but steady wins the race said the tortoise",
]

app = Celery(
    "tasks",
    broker=os.environ.get("CELERY_BROKER_URL", "amqp://guest:guest@127.0.0.1:5672//"),
    backend="rpc://",  # results come back through the broker
)
app.conf.update(
    task_acks_late=True,  # a task whose worker dies is delivered to another one
    worker_prefetch_multiplier=1,  # and no worker holds tasks that another could do now
    broker_connection_retry_on_startup=True,
)


class NotYet(Exception):
    """The first attempt fails on purpose, to show a retry."""


@app.task
def count_words(text: str) -> dict[str, int]:
    return dict(Counter(text.split()))


@app.task(bind=True, autoretry_for=(NotYet,), max_retries=3, default_retry_delay=0.2)
def remind(self, whom: str) -> str:  # type: ignore[no-untyped-def]
    if self.request.retries == 0:
        raise NotYet(whom)
    return f"{whom}: the race begins (attempt {self.request.retries + 1})"


def main() -> None:
    started = time.monotonic()
    reminder = remind.apply_async(args=["tortoise"], countdown=1)
    total: Counter[str] = Counter()
    for words in group(count_words.s(text) for text in TEXTS)().get(timeout=RESULT_TIMEOUT_S):
        total.update(words)
    commonest = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:3]
    print(", ".join(f"{word} {count}" for word, count in commonest))
    print(reminder.get(timeout=RESULT_TIMEOUT_S))
    print(f"after {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
