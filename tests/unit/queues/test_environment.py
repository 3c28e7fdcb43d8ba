"""What the virtual host gives to each of its queues."""

from __future__ import annotations

from dataclasses import replace

from tests.support.dead_letters import SmallBroker
from tests.support.messages import make_message
from tests.support.timers import ManualTimers


def test_dead_letters_of_all_its_queues_go_by_one_scheduler_with_its_timers() -> None:
    broker = SmallBroker()
    scheduler = broker.environment.dead_letter_scheduler
    broker.queue("dlq")
    queue = broker.queue("q", max_length=0, exchange="", routing_key="dlq")
    scheduler.hold()
    queue.put(make_message(b"m"))
    assert len(scheduler) == 1
    scheduler.release()
    assert broker.queues["dlq"].ready_count == 1


def test_another_environment_has_a_scheduler_of_its_own() -> None:
    environment = SmallBroker().environment
    other = replace(environment, timers=ManualTimers())
    assert other.dead_letter_scheduler is not environment.dead_letter_scheduler
    assert other.pressure is environment.pressure
