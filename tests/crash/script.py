"""A history that does all that a journal has to survive, told to a ``Machine``.

Used by the tests that crash after each operation of the disk. It is the same each time; only when
the disk gets its turns is drawn, by the seed.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hareline.wire.table import Table
from tests.crash.machine import Machine

FANOUT: Final = "amq.fanout"
HOUR_MS: Final = 3_600_000


class Script:
    """``steps`` in their order; ``tell`` does them all."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._number = 0

    def tell(self, machine: Machine) -> None:
        for step in (
            self._declare,
            self._publish,
            self._deliver_unwritten,
            self._fan_out,
            self._acknowledge,
            self._release,
            self._commit,
            self._dead_letter,
            self._priorities,
            self._last_values,
            self._hold,
            self._purge,
            self._delete,
            self._fill_segments,
            self._leave_one_behind,
            self._settle_all,
        ):
            step(machine)
        machine.settle_down()

    def _body(self, size: int | None = None) -> bytes:
        self._number += 1
        if size is None:
            size = self.rng.choice((0, 10, 100, 700))
        return b"%d|" % self._number + self.rng.randbytes(size)

    def _pause(self, machine: Machine) -> None:
        """The end of a turn, or none, and as much of the disk's work as comes to be done."""
        if self.rng.random() < 0.6:
            machine.finish_turn()
        while self.rng.random() < 0.4 and machine.step_disk():
            continue

    def _declare(self, machine: Machine) -> None:
        machine.declare("line")
        machine.declare("direct")
        machine.declare("rank", x_max_priority=5)
        machine.declare("last", x_last_value_key="key")
        machine.declare("work", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
        machine.declare("dead")
        machine.declare("hold", x_hold_on_publish=True)
        for name in ("fan-a", "fan-b", "fan-c"):
            queue = machine.declare(name)
            machine.vhost.bind(FANOUT, "queue", queue, "", {})

    def _publish(self, machine: Machine) -> None:
        for _ in range(12):
            machine.publish("", "line", self._body())
            self._pause(machine)
        machine.publish("", "line", b"not kept", delivery_mode=1)
        machine.publish("", "line", self._body(), expiration=str(HOUR_MS), priority=3)

    def _deliver_unwritten(self, machine: Machine) -> None:
        """Delivered in the turn in which they came: nothing was said of them before."""
        direct = machine.consume("direct")
        for _ in range(6):
            for _ in range(3):
                machine.publish("", "direct", self._body())
            machine.finish_turn()
            direct.ack(self.rng.randint(0, 2))
            self._pause(machine)

    def _fan_out(self, machine: Machine) -> None:
        for _ in range(8):
            machine.publish(FANOUT, "", self._body())
            self._pause(machine)

    def _acknowledge(self, machine: Machine) -> None:
        line = machine.consume("line", prefetch_count=6)
        fans = [machine.consume(name) for name in ("fan-a", "fan-b")]
        for _ in range(6):
            machine.finish_turn()
            line.ack(self.rng.randint(0, 2))
            for fan in fans:
                fan.ack(self.rng.randint(0, 3))
            machine.publish("", "line", self._body())
            self._pause(machine)
        for consumer in (line, *fans):
            machine.cancel(consumer)
            self._pause(machine)

    def _release(self, machine: Machine) -> None:
        line = machine.consume("line", prefetch_count=4)
        for _ in range(4):
            machine.finish_turn()
            line.release(self.rng.randint(1, 3))
            self._pause(machine)
        machine.cancel(line)
        self._pause(machine)

    def _commit(self, machine: Machine) -> None:
        """What is done in one breath is in one batch, whatever the disk does meanwhile."""
        line = machine.consume("line", prefetch_count=3)
        for _ in range(4):
            machine.finish_turn()
            for _ in range(3):
                machine.publish("", "work", self._body())
            line.ack()
            self._pause(machine)
        machine.cancel(line)

    def _dead_letter(self, machine: Machine) -> None:
        work = machine.consume("work", prefetch_count=3)
        for _ in range(3):
            machine.finish_turn()
            machine.reject(work, 2)
            self._pause(machine)
        machine.cancel(work)
        self._pause(machine)

    def _priorities(self, machine: Machine) -> None:
        for _ in range(8):
            machine.publish("", "rank", self._body(), priority=self.rng.randint(0, 7))
            self._pause(machine)

    def _last_values(self, machine: Machine) -> None:
        for _ in range(10):
            headers = Table({"key": self.rng.choice("abc")})
            machine.publish("", "last", self._body(), headers=headers)
            self._pause(machine)

    def _hold(self, machine: Machine) -> None:
        for _ in range(3):
            machine.publish("", "hold", self._body(), headers=Table({"x-delay": HOUR_MS}))
            machine.publish("", "hold", self._body())
            self._pause(machine)
        machine.timers.advance(2 * HOUR_MS)
        self._pause(machine)

    def _purge(self, machine: Machine) -> None:
        machine.vhost.queues["rank"].purge()
        machine.publish("", "rank", self._body(), priority=1)
        self._pause(machine)

    def _delete(self, machine: Machine) -> None:
        """And the next of that name begins empty."""
        queue = machine.vhost.queues["fan-c"]
        machine.vhost.delete_queue("fan-c", None)
        assert queue.is_deleted
        self._pause(machine)
        machine.vhost.bind(FANOUT, "queue", machine.declare("fan-c"), "", {})
        machine.publish(FANOUT, "", self._body())
        self._pause(machine)

    def _fill_segments(self, machine: Machine) -> None:
        """More than some segments hold, so they are freed, forwarded and used again."""
        consumer = machine.consume("line")
        for _ in range(14):
            for _ in range(4):
                machine.publish("", "line", self._body(1200))
            machine.finish_turn()
            consumer.ack()
            self._pause(machine)
        machine.cancel(consumer)
        machine.settle_down()

    def _leave_one_behind(self, machine: Machine) -> None:
        """One old message in each of some segments: they are made empty by moving it."""
        consumer = machine.consume("line")
        for _ in range(12):
            for name in ("dead", "line", "line", "line", "line"):
                machine.publish("", name, self._body(900))
            machine.finish_turn()
            consumer.ack()
            self._pause(machine)
        machine.cancel(consumer)
        machine.settle_down()
        machine.vhost.queues["line"].purge()
        machine.settle_down()

    def _settle_all(self, machine: Machine) -> None:
        for name in ("dead", "work", "fan-a", "fan-b", "fan-c", "last", "hold"):
            consumer = machine.consume(name)
            machine.finish_turn()
            consumer.ack()
            self._pause(machine)
            machine.cancel(consumer)
        machine.publish("", "line", self._body())
        machine.settle_down()
