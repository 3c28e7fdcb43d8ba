"""The loads of JMS programs, and how a job's phases become a scenario's numbers.

Used by ``__main__``. A scenario is a mode of acknowledging, a way of taking messages and a delivery
mode; each has the same three numbers: end to end, only send, only receive.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from benchmarks.jms.program import LoadProgram, Phase
from benchmarks.macro.client import BrokerUrl
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.scenario import Bench, Better, Metric, Outcome, Scenario, unique_name

RABBITMQ_SECTION: Final = "RabbitMQ's JMS client"
QPID_SECTION: Final = "Apache Qpid's JMS client"
BODY_SIZE: Final = 1024
WINDOW: Final = 2_000
#: messages that the sending phase leaves in the queue at most, so that memory bounds no run
QUEUED_AT_MOST: Final = 300_000
#: how long each phase of the discarded first run takes
FIRST_RUN_S: Final = 0.3

#: what is measured, and which phase of the Java program it is
PHASES: Final = {"end to end": "through", "send": "send", "receive": "receive"}


@dataclass(frozen=True)
class Load:
    """How messages are sent and taken. `batch` is messages per transaction, None without any."""

    batch: int | None = None
    is_listening: bool = True
    is_persistent: bool = False
    is_text: bool = False

    @property
    def name(self) -> str:
        parts = [
            "auto" if self.batch is None else f"tx_{self.batch}",
            "listener" if self.is_listening else "receive",
            "persistent" if self.is_persistent else "nonpersistent",
            *(["text"] if self.is_text else []),
            "1KiB",
        ]
        return "_".join(parts)

    @property
    def summary(self) -> str:
        acknowledged = "auto-acknowledge" if self.batch is None else f"transactions of {self.batch}"
        taken = "a listener" if self.is_listening else "receive()"
        return f"{acknowledged}, {taken}, {'text' if self.is_text else 'bytes'}"

    def words(self) -> dict[str, object]:
        """The part of the Java program's job that this decides."""
        return {
            "acknowledge": "auto" if self.batch is None else "transacted",
            "batch": self.batch or 1,
            "take": "listener" if self.is_listening else "receive",
            "mode": "persistent" if self.is_persistent else "nonpersistent",
            "body": "text" if self.is_text else "bytes",
        }


class JmsScenario(Scenario):
    """One load, with RabbitMQ's client: one producer and one consumer, a connection each."""

    section: ClassVar[str] = RABBITMQ_SECTION
    client: ClassVar[str] = "rabbitmq"

    def __init__(self, load: Load, program: LoadProgram) -> None:
        super().__init__(
            f"{self.client}_{load.name}",
            f"{load.summary}, 1 producer, 1 consumer",
            tuple(Metric(name, "msg/s", Better.HIGHER) for name in PHASES),
        )
        self._load = load
        self._program = program
        self._is_warm = False

    def run(self, bench: Bench) -> Outcome:
        if not self._is_warm:  # code that is not compiled yet says nothing of the broker
            self._run_once(
                bench, min(FIRST_RUN_S, bench.seconds), min(FIRST_RUN_S, bench.warm_up_s)
            )
            self._is_warm = True
        return outcome_of(self._run_once(bench, bench.seconds, bench.warm_up_s))

    def _run_once(self, bench: Bench, seconds: float, warm_up_s: float) -> dict[str, Phase]:
        queue = unique_name("jms")
        if self._load.is_persistent:
            os.sync()  # else the other broker's last pages are written while this one is measured
        job = self.job(BrokerUrl.parse(bench.url), queue, seconds, warm_up_s)
        try:
            return self._program.run(job, bench.pid, seconds)
        finally:
            # a broker that is gone must not hide why it went
            with contextlib.suppress(BenchmarkError, OSError), bench.control() as control:
                control.delete_queue(queue)
                control.delete_queue(f"{queue}.through")

    def job(
        self, url: BrokerUrl, queue: str, seconds: float, warm_up_s: float
    ) -> dict[str, object]:
        """The job for the Java program; its class Job explains the words."""
        return {
            "client": self.client,
            "host": url.host,
            "port": url.port,
            "user": url.user,
            "password": url.password,
            "vhost": url.vhost,
            "queue": queue,
            **self._load.words(),
            "size": BODY_SIZE,
            "window": WINDOW,
            "limit": QUEUED_AT_MOST,
            "warm_ms": max(1, round(warm_up_s * 1000)),
            "measure_ms": max(1, round(seconds * 1000)),
        }


class QpidScenario(JmsScenario):
    """The same with Apache Qpid's client, which does not work with RabbitMQ."""

    rounds_max: ClassVar[int | None] = 2
    section: ClassVar[str] = QPID_SECTION
    client: ClassVar[str] = "qpid"
    is_for_subject_only: ClassVar[bool] = True


def outcome_of(phases: Mapping[str, Phase]) -> Outcome:
    """Rates by metric; the cores are those of the end-to-end phase, which stands first.

    :raises BenchmarkError: a phase is missing.
    """
    missing = [phase for phase in PHASES.values() if phase not in phases]
    if missing:
        raise BenchmarkError(f"the load program gave no numbers for {', '.join(missing)}")
    details = {
        f"broker us per message, {name}": phases[phase].cores["broker"] / phases[phase].rate * 1e6
        for name, phase in PHASES.items()
        if "broker" in phases[phase].cores and phases[phase].count
    }
    return Outcome(
        {name: phases[phase].rate for name, phase in PHASES.items()},
        details,
        dict(phases["through"].cores),
    )


def scenarios(program: LoadProgram) -> list[Scenario]:
    """All of them, in the order of the report."""
    loads = [
        Load(batch, is_listening=is_listening, is_persistent=is_persistent)
        for batch, is_listening in ((None, True), (None, False), (1, True), (10, True), (100, True))
        for is_persistent in (False, True)
    ]
    return [
        *(JmsScenario(load, program) for load in loads),
        JmsScenario(Load(is_text=True), program),
        *(QpidScenario(load, program) for load in loads if load == Load() or load.is_persistent),
    ]
